"""Payloads of one length: shorter data padded, and taken out again.

Source: ISO/IEC 7816-4: a byte 0x80, then zeros. Vectors of one dimension need none of this.
Leaks: a payload's length is the same for all clients of a session; its content is in the clear
    for the matcher and for all neighbours.
"""

from mpc.core.errors import ParameterError, WireError

_MARK = b"\x80"


def pad(data: bytes, size: int) -> bytes:
    """``data`` as exactly ``size`` bytes; ParameterError unless it has at most size - 1."""
    if len(data) >= size:
        raise ParameterError(f"{len(data)} bytes and their end do not fit into {size}")
    return (data + _MARK).ljust(size, b"\0")


def unpad(payload: bytes) -> bytes:
    """What ``pad`` was given; WireError for bytes that it does not make."""
    data, mark, _ = payload.rstrip(b"\0").rpartition(_MARK)
    if not mark or not payload.rstrip(b"\0").endswith(_MARK):
        raise WireError("a payload has no padding at its end")
    return data
