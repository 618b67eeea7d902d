"""The integers that are shared and summed."""

BITS = 60
"""They lie below 2^60, so the field of 2^61 - 1, Z_2^64 and signed 64-bit words all hold them."""

_STEP = 0x9E3779B97F4A7C15  # odd, so that the words of 64 bits are all different


def integers(count: int) -> list[int]:
    """``count`` different-looking integers, the same ones at every call."""
    return [(i * _STEP % 2**64) >> (64 - BITS) for i in range(count)]
