"""Division of shared fixed-point numbers by 2^f: for exactly two parties, and for any number.

Source: two parties: SecureML (Mohassel and Zhang, IEEE S&P 2017), section 4.1, theorem 1. Any
    number: Escudero, Ghosh, Keller, Rachuri and Scholl (CRYPTO 2020), section 5.1, and Dalskov,
    Escudero and Keller (PoPETs 2020). Names: l is ``ring.bits``, f is ``frac_bits``; x is the
    signed number that the shares stand for.
Model: semi-honest, n-1 parties collude; pairs come from a trusted dealer. Perfect, given uniform
    bytes: the only opened value is x plus a mask that is uniform in the whole ring.
Leaks: nothing of x to any coalition. (Together with the result, the opened value tells how the
    result was rounded, and so something of the bits that were cut off; the functionality hands out
    that rounding coin.)
Error: with pairs the result is floor(x / 2^f) + u, u in {0, 1}, of mean exactly x / 2^f, for every
    x in [-2^(l-2), 2^(l-2)]; beyond that, errors are as large as the ring. Without pairs, for two
    parties, it is off by at most one unit with probability at least 1 - |x| / 2^l, and by 2^(l-f)
    otherwise. So the local form has large errors for sure sooner or later, and the caller says
    how likely one may be.
Rounds: one with pairs, in which everybody sends one element to everybody; none without.
Differs: an exact truncation takes a comparison of shared bits, some l f AND gates for each number,
    and is left out: u costs a quarter of a unit squared at most.
"""

from fractions import Fraction

import numpy as np
from numpy.typing import ArrayLike

from mpc.core.checks import integer
from mpc.core.errors import ParameterError
from mpc.core.ring import Ring, RingArray
from mpc.programs import Open, Program, Seats, pieces
from mpc.supply import Supply, Truncation


def truncate(x: RingArray, frac_bits: int, supply: Supply, ring: Ring) -> Program[RingArray]:
    """Shares (present, *s) of x / 2^f, rounded up or down at random; one opening.

    x: shares (present, *s) of numbers in [-2^(l-2), 2^(l-2)], which nobody can check here: the
    bit budget of ``mpc.arrays`` does beforehand.
    Raises ParameterError unless 0 <= frac_bits <= l - 2.
    """
    f, seats = check_frac_bits(frac_bits, ring), supply.seats
    seats.check(x)
    shares = supply.take(Truncation(x.shape[1:], f))
    (r,), (low, top) = shares.free, shares.bound
    masked = ring.add(x, r, out=r)
    if 0 in seats.present:
        # Party 0's row, as a slice: that of a single number would be no array.
        ring.add(masked[:1], ring.dtype.type(1 << (ring.bits - 2)), out=masked[:1])
    (opened,) = yield Open(ring, (masked,))
    return _shifted(opened, low, top, f, seats, ring)


def _shifted(
    opened: RingArray, low: RingArray, top: RingArray, f: int, seats: Seats, ring: Ring
) -> RingArray:
    """The shares of x / 2^f from the opened x + 2^(l-2) + r, in the place of those of r's top."""
    rows, word, high = len(top), ring.dtype.type, ring.bits - 1
    out, lows, masked = top.reshape(rows, -1), low.reshape(rows, -1), opened.reshape(-1)
    for piece in pieces(masked.size, ring):
        part, c = out[:, piece], masked[piece]
        c_top = c >> word(high)
        # b, the borrow of (c mod 2^(l-1)) - (r mod 2^(l-1)), is r_top XOR c_top, linear as c is
        # public: r_top where c_top is 0, 1 - r_top where it is 1. It weighs 2^(l-1-f).
        flip = np.subtract(word(0), c_top)  # all ones where c_top is 1, so that x ^ flip is -x - 1
        np.left_shift(part, word(high - f), out=part)
        np.bitwise_xor(part, flip, out=part)
        np.subtract(part, flip, out=part)
        ring.sub(part, lows[:, piece], out=part)
        if 0 in seats.present:
            public = (c & word((1 << high) - 1)) >> word(f)
            public += (c_top << word(high - f)) - word((1 << (high - 1)) >> f)
            ring.add(part[0], public, out=part[0])
    return out.reshape(top.shape)


def truncate_local(x: ArrayLike, frac_bits: int, ring: Ring) -> RingArray:
    """Shares (2, *s) of x / 2^f for exactly two parties, without a word between them.

    Each shifts its own share. Off by at most one unit but for a large error, of probability
    ``failure(bound, ring)`` for |x| <= bound, over the choice of the shares.
    Raises ParameterError for any number of parties but two: with three or more, the carries between
    the shares are lost for about half of all sharings.
    """
    shares = ring.check(x)
    if shares.ndim == 0 or shares.shape[0] != 2:
        parties = shares.shape[0] if shares.ndim else 0
        raise ParameterError(
            f"local truncation needs exactly 2 parties, got {parties}",
            remedy="use truncate with pairs of a dealer",
        )
    f = ring.dtype.type(check_frac_bits(frac_bits, ring))
    second = ring.neg(ring.neg(shares[1]) >> f)
    return np.stack([shares[0] >> f, second])


def failure(bound: int, ring: Ring) -> Fraction:
    """The probability of a large error of ``truncate_local`` for |x| = ``bound``, at most."""
    return Fraction(integer("bound", bound, 0, 1 << (ring.bits - 1)), 1 << ring.bits)


def check_frac_bits(frac_bits: int, ring: Ring) -> int:
    """``frac_bits`` as an integer in [0, l - 2]; ParameterError otherwise."""
    if ring.bits < 3:
        raise ParameterError(f"truncation needs a ring of at least 3 bits, got {ring.bits}")
    return integer("frac_bits", frac_bits, 0, ring.bits - 2)
