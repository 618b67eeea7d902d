"""What every Rng gives: words, bytes, and exact uniform integers with their rejection walked."""

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from mpc.core.errors import ParameterError
from mpc.core.prg import Prg
from mpc.core.rng import SYSTEM_RNG, Rng
from tests.support.script import ScriptRng, explore
from tests.support.stats import ALARM, chi_square_p_value, fits_multinomial
from tests.support.strategies import shapes

SEED = bytes(range(32))
RESIDUAL = Fraction(1, 2**40)


def uniform(bound: int, *script: int) -> int:
    """What one draw makes of the script; it must be used up."""
    rng = ScriptRng(script)
    value = int(rng.uniform(bound))
    assert rng.left == 0
    return value


@pytest.mark.parametrize(
    ("bound", "residual"),
    # Two or three words of eight are refused for 6 and 5: all their sequences, to a depth of 5.
    [
        *((n, RESIDUAL) for n in (1, 2, 3, 4, 7, 8)),
        (5, Fraction(3, 8) ** 5),
        (6, Fraction(1, 4) ** 5),
    ],
)
def test_uniform_has_the_exact_law_for_small_bounds(bound: int, residual: Fraction) -> None:
    """Every sequence of words, modulo the power of two that is looked at; see also the next."""
    choices = 1 << (bound - 1).bit_length()
    law, left = explore(lambda rng: int(rng.uniform(bound)), choices, residual)
    assert left <= residual
    assert set(law) == set(range(bound))
    assert set(law.values()) == {(1 - left) / bound}


def test_the_walk_sees_the_bias_of_a_modulo() -> None:
    law, left = explore(lambda rng: int(rng.words((), np.uint64)) % 3, 4, RESIDUAL)
    assert law == {0: Fraction(1, 2), 1: Fraction(1, 4), 2: Fraction(1, 4)}
    assert left == 0


def test_two_entries_are_independent_and_redrawn_one_by_one() -> None:
    def pair(rng: Rng) -> tuple[int, ...]:
        return tuple(rng.uniform(3, 2).tolist())

    law, left = explore(pair, 4, RESIDUAL)
    assert left <= RESIDUAL
    assert len(law) == 9
    # Rejection ends alike for every pair of values, so no pair is ahead even part of the way.
    assert set(law.values()) == {(1 - left) / 9}


@pytest.mark.parametrize("bound", [1, 2, 3, 5, 2**20, 2**32 + 1, 2**63, 2**63 + 1, 2**64 - 1])
def test_uniform_looks_at_low_bits_only(bound: int) -> None:
    bits = (bound - 1).bit_length()
    for high in {0, 1, (1 << (64 - bits)) - 1}:
        assert uniform(bound, ((high << bits) | (bound - 1)) % 2**64) == bound - 1


@pytest.mark.parametrize("bound", [5, 6, 2**20 + 1, 2**63 + 1, 2**64 - 1, 2**64, 3 * 2**62])
def test_uniform_keeps_each_word_below_the_bound_and_redraws_the_others(bound: int) -> None:
    """Identity below the bound, so accepted words stay uniform; less than half are redrawn.

    40 refusals in a row, after which the next word counts as the first did, leave below 2^-40.
    """
    size = 1 << (bound - 1).bit_length()
    kept = {0, 1, bound // 2, bound - 2, bound - 1}
    refused = {word for word in (bound, bound + 1, size - 1) if bound <= word < size}
    assert size - bound < size // 2
    for word in kept:
        assert uniform(bound, word) == word
        for bad in refused:
            assert uniform(bound, *[bad] * 40, word) == word
    mixed = [word for word in refused for _ in range(13)]
    assert uniform(bound, *mixed, *reversed(mixed), bound - 1) == bound - 1


def test_redrawn_entries_take_the_words_after_the_block_in_order() -> None:
    rng = ScriptRng([3, 1, 3, 3, 2, 0])
    assert rng.uniform(3, 3).tolist() == [0, 1, 2]


@given(st.integers(1, 2**64), shapes(), st.binary(min_size=32, max_size=32))
def test_uniform_stays_in_its_range_in_every_shape(
    bound: int, shape: tuple[int, ...], seed: bytes
) -> None:
    out = Prg(seed).uniform(bound, shape)
    assert out.dtype == np.uint64
    assert out.shape == shape
    assert all(0 <= value < bound for value in out.reshape(-1).tolist())


def test_uniform_fits_its_law_where_a_modulo_does_not() -> None:
    """10^6 draws below 6, alarm 1e-9. The twin reduces bytes modulo 6: 43/256 against 42/256."""
    counts = np.bincount(Prg(SEED).uniform(6, 10**6).astype(np.int64), minlength=6)
    assert chi_square_p_value(counts) > ALARM
    twin = np.bincount(Prg(SEED).words(10**6, np.uint8) % 6, minlength=6)
    assert chi_square_p_value(twin) < ALARM


def test_uniform_fits_its_law_at_three_quarters_of_a_word() -> None:
    """10^5 draws below 3 * 2^62 in thirds, alarm 1e-9. A modulo gives the first third half."""
    bound, third = 3 * 2**62, np.uint64(2**62)
    counts = np.bincount((Prg(SEED).uniform(bound, 10**5) // third).astype(np.int64), minlength=3)
    assert fits_multinomial(counts, [1 / 3] * 3)
    words = Prg(SEED).words(10**5, np.uint64) % np.uint64(bound)
    twin = np.bincount((words // third).astype(np.int64), minlength=3)
    assert not fits_multinomial(twin, [1 / 3] * 3)


@pytest.mark.parametrize("bound", [0, -1, 2**64 + 1, 2.0, True, "3", None, np.float64(4)])
def test_a_bound_outside_its_range_is_refused(bound: Any) -> None:
    with pytest.raises(ParameterError, match="bound must"):
        SYSTEM_RNG.uniform(bound)


def test_a_numpy_integer_is_a_bound() -> None:
    assert int(SYSTEM_RNG.uniform(np.uint64(1))) == 0  # type: ignore[arg-type]


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.uint32, np.uint64])
@given(shape=shapes())
def test_words_have_the_asked_shape_and_dtype(dtype: Any, shape: tuple[int, ...]) -> None:
    out = SYSTEM_RNG.words(shape, dtype)
    assert out.shape == shape
    assert out.dtype == dtype


@pytest.mark.parametrize("dtype", [np.float64, np.bool_, object, "U4"])
def test_words_of_no_integer_dtype_are_refused(dtype: Any) -> None:
    with pytest.raises(ParameterError, match="integer array"):
        SYSTEM_RNG.words(4, dtype)


def test_bytes_have_the_asked_length() -> None:
    assert [len(SYSTEM_RNG.bytes(n)) for n in (0, 1, 31, 70_000)] == [0, 1, 31, 70_000]


@pytest.mark.parametrize("n", [-1, 1.0, True, None, "8"])
def test_a_number_of_bytes_that_is_none_is_refused(n: Any) -> None:
    with pytest.raises(ParameterError, match="n must"):
        SYSTEM_RNG.bytes(n)


def test_the_interface_itself_gives_nothing() -> None:
    with pytest.raises(TypeError, match="abstract"):
        Rng()  # type: ignore[abstract]

    class Constant(Rng):
        def fill(self, out: NDArray[Any]) -> None:
            out[...] = 5

    # One method makes a generator: an ideal one can stand in for tests of exact laws.
    assert Constant().bytes(2) == b"\x05\x05"
    assert Constant().uniform(6, (2, 2)).tolist() == [[5, 5], [5, 5]]
