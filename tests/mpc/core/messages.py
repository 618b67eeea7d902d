"""Messages for the tests of the wire format, and what decoding them must and must not do."""

from typing import Any

import msgspec
import pytest

from mpc.core.errors import ParameterError, WireError
from mpc.core.wire import VERSION, Message

SECRET = b"a secret share"


class Sample(Message):
    number: int
    payload: bytes
    entries: tuple[tuple[int, bytes], ...] = ()
    name: str = ""


class Other(Message):
    number: int
    payload: bytes
    entries: tuple[tuple[int, bytes], ...] = ()
    name: str = ""


class Outer(Message):
    inner: Sample
    limits: tuple[int, int]


class Even(Message):
    number: int
    payload: bytes = SECRET

    def __post_init__(self) -> None:
        if self.number % 2:
            raise ParameterError(f"number must be even, got {self.number} with {self.payload!r}")


def encoded(*fields: Any, tag: str = "Sample", version: int = VERSION) -> bytes:
    return bytes([version]) + msgspec.msgpack.encode([tag, *fields])


GOOD = Sample(7, b"payload", ((1, b"a"), (300, b"")), "round").to_bytes()


def assert_bare(error: Exception) -> None:
    """No other error hangs on this one: it might quote a field."""
    assert error.__cause__ is None
    assert error.__context__ is None


def refuse(data: bytes, kind: type[Message] = Sample) -> WireError:
    """The bare WireError that ``data`` must raise."""
    with pytest.raises(WireError) as caught:
        kind.from_bytes(data)
    assert_bare(caught.value)
    return caught.value


def decode(kind: type[Message], data: bytes) -> Message | None:
    """The message, whose bytes must be ``data`` again, or None after a bare WireError."""
    try:
        message = kind.from_bytes(data)
    except WireError as error:
        assert_bare(error)
        return None
    assert message.to_bytes() == data
    return message
