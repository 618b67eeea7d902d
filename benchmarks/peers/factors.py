"""The fixed-point factors that are multiplied, and what every truncated product of them satisfies.

Both fit a double, a single float and their product's 64-bit ring exactly, so that all peers encode
the same numbers, and an error of the product is one of its truncation.
"""

from collections.abc import Sequence

FRAC_BITS = 16
MAGNITUDE = 8
"""Factors lie in [-8, 8): a product, with 32 fractional bits, is below 2^38 in absolute value."""

_SPREAD = 2 * MAGNITUDE << FRAC_BITS


def factors(count: int) -> tuple[list[int], list[int]]:
    """``count`` pairs of factors in units of 2^-16, of both signs, the same ones at every call."""
    left = [i * 402_653 % _SPREAD - _SPREAD // 2 for i in range(count)]
    right = [i * 611_953 % _SPREAD - _SPREAD // 2 for i in range(count)]
    return left, right


def multiplied_rightly(products: Sequence[int], parties: int) -> bool:
    """Whether ``products``, in units, are those of ``factors``, rounded up or down.

    Each may be off by one unit for each party, as all forms of truncation are at best.
    """
    left, right = factors(len(products))
    pairs = zip(products, left, right, strict=True)
    off = [(product << FRAC_BITS) - x * y for product, x, y in pairs]
    return all(abs(each) <= parties << FRAC_BITS for each in off)
