"""The walk over choices: exact laws, unfinished mass, and what it refuses."""

from fractions import Fraction

import numpy as np
import pytest

from mpc.core.rng import Rng
from tests.support.walk import walk, worst_ratio

QUARTER = 1 << 62


def test_a_kernel_that_ends_is_walked_completely() -> None:
    def kernel(rng: Rng) -> tuple[int, ...]:
        return (*rng.bernoulli(QUARTER, 2).tolist(), int(rng.uniform(3)))

    law, left = walk(kernel)
    assert left == 0
    assert len(law) == 12
    assert law[True, False, 2] == Fraction(1, 4) * Fraction(3, 4) / 3


def test_a_loop_is_walked_until_little_is_left() -> None:
    def geometric(rng: Rng) -> int:
        value = 0
        while rng.bernoulli(QUARTER):
            value += 1
        return value

    law, left = walk(geometric)
    assert 0 < left <= Fraction(1, 2**40)
    assert all(law[i] == Fraction(3, 4) / 4**i for i in law)


def test_words_of_a_byte_are_walked_and_larger_ones_refused() -> None:
    law, left = walk(lambda rng: int(rng.words(1, np.uint8)[0]) % 3)
    assert left == 0
    assert law == {0: Fraction(86, 256), 1: Fraction(85, 256), 2: Fraction(85, 256)}
    with pytest.raises(AssertionError, match="64 bits"):
        walk(lambda rng: int(rng.words(1, np.uint64)[0]))


def test_a_kernel_that_keeps_coins_of_its_own_is_noticed() -> None:
    hidden = iter(range(10))

    def fickle(rng: Rng) -> int:
        return next(hidden) if next(hidden) else int(rng.uniform(2))

    with pytest.raises(AssertionError, match="fewer choices"):
        walk(fickle)


def test_worst_ratio() -> None:
    third = Fraction(1, 3)
    assert worst_ratio(
        [{0: third, 1: 2 * third}, {0: Fraction(1, 2), 1: Fraction(1, 2)}]
    ) == Fraction(3, 2)
    with pytest.raises(ValueError, match="impossible"):
        worst_ratio([{0: Fraction(1)}, {0: third, 1: 2 * third}])
