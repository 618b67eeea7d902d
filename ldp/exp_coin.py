"""Exact coins of probability e^(-n step) for arrays of integers n, one 32-bit word for most.

Whether a uniform real U lies below e^(-n step) is decided by the first 32 bits of U and two table
entries that enclose the probability; where these leave it open, about one case in a million, bits
are added until it is certain.

Source: comparison of a lazily drawn uniform real with an enclosure, as in ``ldp.exact_table``. The
    coins of Canonne, Kamath and Steinke, "The discrete Gaussian for differential privacy" (NeurIPS
    2020), algorithm 1, have the same law; they take several draws where this takes one word.
Error: none; the probability is exact.
Leaks: the time of a coin depends on whether it needed more bits.
"""

from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from ldp.exact_exp import exp_enclosure
from mpc.core.rng import Rng

COIN_BITS = 32
_ENTRY_BITS = 31  # entries are at most 2^31, so that a product of two has room in a word
_TO_COIN = np.uint64(2 * _ENTRY_BITS - COIN_BITS)
_MORE_BITS = 64
_GUARD_BITS = 32
_FINE_BITS = 10
_NARROW = Fraction(1, 2**20)


class ExpCoin:
    """Coins for exponents n * step with n in [0, 2^63); quick where n * step <= 1."""

    def __init__(self, step: Fraction) -> None:
        self._step = step
        # n is cut into a coarse and a fine index and ``_dropped`` low bits that change the
        # probability by a millionth at most.
        self._dropped = max(int(_NARROW / step).bit_length() - 1, 0)
        unit = step * 2**self._dropped
        coarse = int(1 / (unit * 2**_FINE_BITS)) + 1
        fine_table = [exp_enclosure(unit * j, _ENTRY_BITS) for j in range(2**_FINE_BITS + 1)]
        coarse_table = [exp_enclosure(unit * 2**_FINE_BITS * i, _ENTRY_BITS) for i in range(coarse)]
        coarse_table.append((0, 1 << _ENTRY_BITS))  # for all that is larger: between 0 and 1
        self._coarse_low = np.array([low for low, _ in coarse_table], dtype=np.uint64)
        self._coarse_high = np.array([high for _, high in coarse_table], dtype=np.uint64)
        # Dropping bits made the exponent too small, by less than one unit: so the entry of the next
        # unit is the lower bound.
        self._fine_low = np.array([low for low, _ in fine_table[1:]], dtype=np.uint64)
        self._fine_high = np.array([high for _, high in fine_table[:-1]], dtype=np.uint64)

    def toss(self, n: NDArray[np.int64], rng: Rng) -> NDArray[np.bool_]:
        """Independent bits, True with probability exactly e^(-n step); ``n`` has one axis.

        Takes a 32-bit word for each, then a 64-bit word or more for each that is left open.
        """
        coins = rng.words(n.size, np.uint32)
        index = n >> self._dropped
        fine = index & (2**_FINE_BITS - 1)
        index >>= _FINE_BITS
        np.minimum(index, self._coarse_low.size - 1, out=index)
        lower = self._coarse_low.take(index, mode="clip")
        lower *= self._fine_low.take(fine, mode="clip")
        lower >>= _TO_COIN
        result = coins < lower  # the coin and all that its further bits can make of it lie below
        others = np.flatnonzero(~result)
        upper = self._coarse_high[index[others]] * self._fine_high[fine[others]] >> _TO_COIN
        for i in others[coins[others] <= upper]:
            result[i] = self._refined(int(n[i]), int(coins[i]), rng)
        return result

    def _refined(self, n: int, coin: int, rng: Rng) -> bool:
        bits = COIN_BITS
        while True:
            low, high = exp_enclosure(self._step * n, bits + _GUARD_BITS)
            if coin + 1 << _GUARD_BITS <= low:
                return True
            if coin << _GUARD_BITS >= high:
                return False
            coin = coin << _MORE_BITS | int(rng.words(1, np.uint64)[0])
            bits += _MORE_BITS
