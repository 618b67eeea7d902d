"""Messages as bytes: versioned, canonical, length-checked; msgpack underneath, never pickle.

Source: msgspec (the encoder); the canonical check, the version byte and the limits are ours.
Model: bytes come from anyone. Whatever does not decode to a message that encodes back to exactly
    the same bytes raises WireError and nothing else, and the error quotes no field.
Error: none; encoding and decoding are exact inverses.
"""

from contextlib import suppress
from typing import Self, dataclass_transform

import msgspec

from mpc.core.errors import ParameterError, WireError

VERSION = 1
MAX_BYTES = 1 << 30

_encoder = msgspec.msgpack.Encoder()


# Type checkers take a subclass as frozen without being told again; msgspec does so anyway.
@dataclass_transform(frozen_default=True)
class Message(msgspec.Struct, frozen=True, array_like=True, tag=True, forbid_unknown_fields=True):
    """Base of every message. Fields are integers in [0, 2^64), bytes, strings, tuples of these.

    Numbers above 64 bits travel as bytes of fixed length. A subclass checks ranges in
    ``__post_init__`` and raises ParameterError there; from_bytes turns that into WireError.
    The class's name is its tag on the wire unless it sets ``tag``; no two messages share one.
    Integers and strings appear in the repr: what is secret belongs into bytes.
    """

    def to_bytes(self) -> bytes:
        """The canonical encoding: one version byte, then the tagged array of the fields.

        Raises ParameterError if a field holds what the format has no place for.
        """
        return bytes(self._encoded())

    def _encoded(self) -> bytearray:
        """``to_bytes`` without its last copy, which for a long vector costs as much as the rest."""
        out = bytearray([VERSION])
        if not _negative(self):
            # Our error is raised outside: the encoder's quotes a field and must not hang on it.
            with suppress(OverflowError, RecursionError, TypeError, UnicodeError):
                _encoder.encode_into(self, out, 1)
                return out
        raise ParameterError(
            f"a field of {type(self).__name__} cannot be encoded",
            remedy="use integers in [0, 2^64), bytes, strings and tuples of these",
        )

    @classmethod
    def from_bytes(cls, data: bytes, *, limit: int = MAX_BYTES) -> Self:
        """The message of this very class that ``data`` encodes; WireError for any other bytes.

        limit: the most bytes to look at; larger input is refused before it is parsed.
        Raises ParameterError if ``data`` is no byte string at all.
        """
        if not isinstance(data, bytes | bytearray | memoryview):
            raise ParameterError(f"data must be bytes, got {type(data).__name__}")
        data = bytes(data)
        if len(data) > limit:
            raise WireError(f"{cls.__name__} of {len(data)} bytes, at most {limit} expected")
        if not data or data[0] != VERSION:
            raise WireError(f"{cls.__name__} does not start with version byte {VERSION}")
        message, canonical = None, bytearray()
        # Our error is raised outside: the parser's may quote a field, and a field may be secret.
        with suppress(msgspec.MsgspecError, ParameterError, RecursionError, UnicodeError):
            message = msgspec.msgpack.decode(memoryview(data)[1:], type=cls)
            canonical = message._encoded()
        if message is None:
            raise WireError(f"bytes do not decode to a {cls.__name__}")
        if canonical != data:
            raise WireError(f"{cls.__name__} is not in canonical form")
        return message

    def __repr__(self) -> str:
        fields = (f"{name}={value}" for name, value in self.__rich_repr__())
        return f"{type(self).__name__}({', '.join(fields)})"

    def __rich_repr__(self) -> list[tuple[str, str]]:
        """Names, and what may be shown of the values: for pretty-printers, which go round repr."""
        return [(name, _shown(getattr(self, name))) for name in self.__struct_fields__]


def _negative(value: object) -> bool:
    """Whether a negative integer hides anywhere in a message."""
    if isinstance(value, int):
        return value < 0
    if isinstance(value, Message):
        return any(_negative(getattr(value, name)) for name in value.__struct_fields__)
    return isinstance(value, tuple) and any(map(_negative, value))


def _shown(value: object) -> str:
    if isinstance(value, int | str | Message | None):
        return repr(value)
    # Payloads are shares and masked vectors: their size is enough for a reader.
    if isinstance(value, bytes):
        return f"<{len(value)} bytes>"
    if isinstance(value, tuple):
        return f"<{len(value)} entries>"
    return f"<{type(value).__name__}>"
