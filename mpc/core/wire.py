"""Messages as bytes: versioned, canonical, length-checked; msgpack underneath, never pickle.

Source: msgspec (the encoder); the canonical check, the version byte and the limits are ours.
Model: bytes come from anyone. Whatever does not decode to a message that encodes back to exactly
    the same bytes raises WireError and nothing else.
Error: none; encoding and decoding are exact inverses.
"""

from typing import Self

import msgspec

from mpc.core.errors import WireError

VERSION = 1
MAX_BYTES = 1 << 30

_encoder = msgspec.msgpack.Encoder()


class Message(msgspec.Struct, frozen=True, array_like=True, tag=True, forbid_unknown_fields=True):
    """Base of every message. Fields are integers below 2^64, bytes, strings and tuples of these.

    Numbers above 64 bits travel as bytes of fixed length. A subclass checks ranges in
    ``__post_init__`` and raises ParameterError there; from_bytes turns that into WireError.
    """

    def to_bytes(self) -> bytes:
        """The canonical encoding: one version byte, then the tagged array of the fields."""
        return bytes([VERSION]) + _encoder.encode(self)

    @classmethod
    def from_bytes(cls, data: bytes, *, limit: int = MAX_BYTES) -> Self:
        """The message of this very class that ``data`` encodes; WireError for any other bytes.

        limit: the most bytes to look at; larger input is refused before it is parsed.
        """
        if len(data) > limit:
            raise WireError(f"{cls.__name__} of {len(data)} bytes, at most {limit} expected")
        if not data or data[0] != VERSION:
            raise WireError(f"{cls.__name__} does not start with version byte {VERSION}")
        try:
            message = msgspec.msgpack.decode(memoryview(data)[1:], type=cls)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            # The parser's text may quote a field, and a field may be secret: it is not passed on.
            raise WireError(f"bytes do not decode to a {cls.__name__}") from _bare(error)
        if message.to_bytes() != bytes(data):
            raise WireError(f"{cls.__name__} is not in canonical form")
        return message

    def __repr__(self) -> str:
        # Payloads are shares and masked vectors: their size is enough for a reader.
        fields = (f"{name}={_shown(getattr(self, name))}" for name in self.__struct_fields__)
        return f"{type(self).__name__}({', '.join(fields)})"


def _bare(error: Exception) -> Exception:
    return ValueError(type(error).__name__)


def _shown(value: object) -> str:
    if isinstance(value, bytes):
        return f"<{len(value)} bytes>"
    if isinstance(value, tuple):
        return f"<{len(value)} entries>"
    return repr(value)
