"""Exact Bernoulli bits and unbiased rounding: their laws as fractions, not as averages."""

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from mpc.core.errors import ParameterError
from mpc.core.keystream import PIECE_BYTES
from mpc.core.prg import Prg
from mpc.core.rng import ONE, Rng
from mpc.core.samplers import round_clipped, round_unbiased
from tests.support.script import ScriptRng
from tests.support.stats import fits_binomial
from tests.support.strategies import finite_floats, float_arrays, seeds, shapes

SEED = bytes(range(32))
THRESHOLDS = [
    0, 1, 2**55, 2**56 - 1, 2**56, 2**56 + 1, 37 * 2**56, 2**63 - 1, 2**63, 2**63 + 1,
    255 * 2**56, 255 * 2**56 + 1, 2**64 - 2**56, 2**64 - 2, 2**64 - 1, 2**64,
]  # fmt: skip


# --- Bernoulli


def bit(threshold: int, *script: int) -> bool:
    """One draw that must use up its script."""
    rng = ScriptRng(script)
    value = bool(rng.bernoulli(threshold, ()))
    assert rng.left == 0
    return value


def accepted_words(threshold: int, first: int) -> int:
    """How many of the 2^56 tie words give True after this first byte: they are the lowest ones."""
    low, high = 0, 1 << 56
    while low < high:
        middle = (low + high) // 2
        if bit(threshold, first, middle << 8):
            low = middle + 1
        else:
            high = middle
    return low


@pytest.mark.parametrize("threshold", THRESHOLDS)
def test_bernoulli_has_exactly_its_probability(threshold: int) -> None:
    """All 256 first bytes, and for the one that ties the exact share of words that give True."""
    if threshold == ONE:
        assert ScriptRng([]).bernoulli(threshold, 10).all()
        return
    top, rest = divmod(threshold, 1 << 56)
    law = Fraction(0)
    for first in range(256):
        if first == top and rest:
            law += Fraction(accepted_words(threshold, first), 2**64)
        else:
            law += Fraction(int(bit(threshold, first)), 256)
    assert law == Fraction(threshold, 2**64)


@pytest.mark.parametrize("threshold", [1, 2**55 + 12345, 2**64 - 1])
@given(word=st.integers(0, 2**64 - 1))
def test_a_tie_is_decided_by_the_order_of_the_words(threshold: int, word: int) -> None:
    """So the search for the border above misses no word on either side."""
    top, rest = divmod(threshold, 1 << 56)
    assert bit(threshold, top, word) == (word >> 8 < rest)


@pytest.mark.parametrize("multiple", [0, 1, 128, 255])
def test_a_multiple_of_2_to_56_needs_no_second_word(multiple: int) -> None:
    first = list(range(256))
    rng = ScriptRng(first)
    out = rng.bernoulli(multiple << 56, 256)
    assert out.tolist() == [value < multiple for value in first]
    assert rng.left == 0


def test_ties_take_their_words_in_order_after_the_block() -> None:
    threshold = (7 << 56) + 5
    rng = ScriptRng([7, 6, 7, 8, 7, *(word << 8 for word in (4, 5, 0))])
    assert rng.bernoulli(threshold, (5,)).tolist() == [True, True, False, False, True]
    assert rng.left == 0


@given(
    st.sampled_from(THRESHOLDS) | st.integers(0, ONE), shapes(), st.binary(min_size=32, max_size=32)
)
def test_bernoulli_gives_every_shape(threshold: int, shape: tuple[int, ...], seed: bytes) -> None:
    out = Prg(seed).bernoulli(threshold, shape)
    assert out.dtype == np.bool_
    assert out.shape == shape
    if threshold in (0, ONE):
        assert (out == (threshold == ONE)).all()


@pytest.mark.parametrize("size", [PIECE_BYTES - 1, PIECE_BYTES + 1, 2 * PIECE_BYTES + 7])
def test_pieces_of_a_long_draw_are_all_decided(size: int) -> None:
    """A constant first byte below or above the threshold's must decide every entry."""

    class Constant(Rng):
        def __init__(self, value: int) -> None:
            self.value = value

        def fill(self, out: Any) -> None:
            out[...] = self.value

    assert Constant(4).bernoulli(5 << 56, size).all()
    assert not Constant(5).bernoulli(5 << 56, size).any()
    assert Constant(5).bernoulli((5 << 56) + 1, size).sum() == size  # the word 5 >> 8 is 0 < 1


def test_bernoulli_fits_its_law_where_an_unrefined_byte_does_not() -> None:
    """10^6 bits of probability 1/512 and 3/512, alarm 1e-9; the twin drops the ties' words."""
    n = 10**6
    for threshold in (2**55, 3 * 2**55):
        p = threshold / 2**64
        assert fits_binomial(int(Prg(SEED).bernoulli(threshold, n).sum()), n, p)
        twin = int((Prg(SEED).words(n, np.uint8) < threshold >> 56).sum())
        assert not fits_binomial(twin, n, p)


@pytest.mark.parametrize("threshold", [-1, ONE + 1, 0.5, 1.0, True, "1", None, np.float64(3)])
def test_a_threshold_outside_its_range_is_refused(threshold: Any) -> None:
    with pytest.raises(ParameterError, match="threshold must"):
        Prg(SEED).bernoulli(threshold, 3)


def test_a_numpy_integer_is_a_threshold() -> None:
    assert bit(np.uint64(2**63), 127)  # type: ignore[arg-type]


# --- rounding


Rounding = Callable[[NDArray[np.float64], Rng], NDArray[np.int64]]


def tape(first: int, second: int) -> list[int]:
    """The words for a row of one entry: its coin of 48 bits, then the entry's one of 16."""
    return [second & 0xFFFF, second >> 16 & 0xFFFF, second >> 32, first]


def round_one(x: float, coin: int, rounding: Rounding = round_unbiased) -> int:
    """With the entry's coin as the first 16 bits of 64, and the row's as the others."""
    rng = ScriptRng(tape(*divmod(coin, 2**48)))
    out = rounding(np.array([x]), rng)
    assert out.dtype == np.int64
    assert rng.left == 0
    return int(out[0])


def ups(x: float, first: int, last: int, rounding: Rounding) -> int:
    """How many coins of a range give more than the entry's floor; the border is searched.

    In each of the two ranges that ``mean`` asks for, low coins round one way and high ones the
    other: those that begin with 16 zero bits decide what the others leave open.
    """
    lower = math.floor(x)
    size = last - first + 1
    ends = [round_one(x, coin, rounding) - lower for coin in (first, last)]
    if ends[0] == ends[1]:
        return ends[0] * size
    low, high = first, last
    while low < high:
        middle = (low + high) // 2
        if round_one(x, middle, rounding) - lower == ends[1]:
            high = middle
        else:
            low = middle + 1
    return ends[0] * (low - first) + ends[1] * (last - low + 1)


def mean(x: float, rounding: Rounding = round_unbiased) -> Fraction:
    """The exact mean over all 2^64 coins."""
    above = ups(x, 0, 2**48 - 1, rounding) + ups(x, 2**48, 2**64 - 1, rounding)
    return math.floor(x) + Fraction(above, 2**64)


@given(finite_floats(2.0**62 * (1 - 2**-53)))
def test_rounding_is_unbiased_for_every_double(x: float) -> None:
    error = abs(mean(x) - Fraction(x))
    assert error < Fraction(1, 2**64)
    if abs(x) >= 2**-12:
        assert error == 0


@pytest.mark.parametrize(
    "x",
    [0.0, -0.0, 0.5, -0.5, 0.25, 0.1, -0.1, 1.0, -1.0, 1.5, -2.75, 2.0**-12, -(2.0**-12), 1e-3,
     2.0**52 - 0.5, -(2.0**52) + 0.5, 2.0**53 + 2, 2.0**61, 2.0**62 - 512, -(2.0**62) + 512,
     np.nextafter(1.0, 0.0), np.nextafter(1.0, 2.0), -np.nextafter(3.0, 0.0)],
)  # fmt: skip
def test_the_mean_of_a_rounded_entry_is_the_entry(x: float) -> None:
    assert mean(x) == Fraction(x)


@pytest.mark.parametrize("x", [2.0**-64, 2.0**-63, 3 * 2.0**-64, -(2.0**-64)])
def test_multiples_of_the_smallest_probability_are_exact(x: float) -> None:
    assert mean(x) == Fraction(x)


@pytest.mark.parametrize("x", [2.0**-65, -(2.0**-70), 5e-324, 2.0**-1022, 1.5 * 2.0**-64])
def test_entries_below_the_smallest_probability_err_by_less_than_it(x: float) -> None:
    assert abs(mean(x) - Fraction(x)) < Fraction(1, 2**64)


@given(finite_floats(2.0**50), st.integers(0, 2**64 - 1))
def test_a_rounded_entry_is_a_neighbour_of_the_entry(x: float, coin: int) -> None:
    assert abs(round_one(x, coin) - Fraction(x)) < 1


@given(st.integers(-(2**60), 2**60), st.integers(0, 2**64 - 1))
def test_a_whole_entry_stays_whatever_the_coin(whole: int, coin: int) -> None:
    assert round_one(float(whole), coin) == int(float(whole))


@given(finite_floats(2.0**34), st.integers(0, 2**64 - 1))
def test_an_entry_is_rounded_the_same_beside_a_large_one(x: float, coin: int) -> None:
    """Small magnitudes take a faster path through the bits of a double; the law is one."""
    script = [*tape(*divmod(coin, 2**48)), 0]
    out = round_unbiased(np.array([x, 2.0**50]), ScriptRng(script))
    assert out.tolist() == [round_one(x, coin), 2**50]


@given(first=st.integers(0, 2**16 - 1), second=st.integers(0, 2**48 - 1), x=st.data())
def test_the_second_coin_matters_only_where_the_first_is_zero(
    first: int, second: int, x: st.DataObject
) -> None:
    entries = x.draw(float_arrays(100.0, (5,)))
    firsts = [first, 0, 1, 0, 2**16 - 1]
    out = round_unbiased(entries, ScriptRng([*tape(0, second)[:3], *firsts]))
    other = round_unbiased(entries, ScriptRng([*tape(0, second ^ 1 << 47)[:3], *firsts]))
    alone = [round_one(e, f << 48 | second) for e, f in zip(entries, firsts, strict=True)]
    assert out.tolist() == alone
    assert all(a == b or f == 0 for a, b, f in zip(out, other, firsts, strict=True))


def test_two_entries_of_a_row_have_a_covariance_of_at_most_2_to_minus_34() -> None:
    """Exactly, over all tapes: halves are independent but for the rest of 2^-17 that they share."""
    x = 2.0**-17  # open with probability 2^-16, then up for half of the second coins
    up_alone = mean(x)
    both = Fraction(0)
    for second in (0, 2**47 - 1, 2**47, 2**48 - 1):  # both borders of either half
        script = [*tape(0, second)[:3], 0, 0]
        ups_of_both = round_unbiased(np.array([x, x]), ScriptRng(script)).tolist()
        assert ups_of_both == ([1, 1] if second < 2**47 else [0, 0])
        both += Fraction(all(ups_of_both), 4) * Fraction(1, 2**32)
    assert both - up_alone**2 == Fraction(1, 2**34)


@given(float_arrays(2.0**40), st.sampled_from([np.uint8, np.uint16, np.uint32, np.uint64]), seeds())
def test_an_unsigned_result_wraps(x: Any, dtype: Any, seed: bytes) -> None:
    out = np.empty(x.shape, dtype=dtype)
    round_clipped(x, 2.0**40, 5, Prg(seed), out)
    assert np.array_equal(out, round_unbiased(x * 32, Prg(seed)).astype(dtype))


@given(float_arrays(2.0**40), st.floats(2.0**-10, 2.0**41), seeds())
def test_entries_are_cut_before_they_are_rounded(x: Any, clip: float, seed: bytes) -> None:
    out = np.empty(x.shape, dtype=np.int64)
    round_clipped(x, clip, 3, Prg(seed), out)
    cut = np.clip(x, -clip, clip)
    assert np.array_equal(out, round_unbiased(cut * 8, Prg(seed)))
    round_clipped(np.where(cut == x, x, np.copysign(np.inf, x)), clip, 3, Prg(seed), out)
    assert np.array_equal(out, round_unbiased(cut * 8, Prg(seed)))


@pytest.mark.parametrize("shape", [(1, (1 << 15) + 7), (3, (1 << 16) + 7), (700, 99)])
def test_large_arrays_are_rounded_in_pieces_as_in_one(shape: tuple[int, int]) -> None:
    x = np.linspace(-5, 5, shape[0] * shape[1]).reshape(shape)
    words = Prg(SEED).words((shape[0], 3 + shape[1]), np.uint16).astype(np.int64)
    second = words[:, :3] @ [1, 2**16, 2**32]
    grid = np.floor(x * 2**16)
    lucky = (words[:, 3:] == 0) & ((x * 2**16 - grid) * 2**48 > second[:, np.newaxis])
    expected = ((grid + words[:, 3:]) // 2**16) + lucky
    assert lucky.any()
    assert np.array_equal(round_unbiased(x, Prg(SEED)), expected)
    assert np.array_equal(round_unbiased(x[0], Prg(SEED)), expected[0])


def test_what_the_result_cannot_go_into_is_refused() -> None:
    for out in (np.empty(2, np.int64), np.empty(3, np.float64), np.empty(6, np.int64)[::2]):
        with pytest.raises(ParameterError, match="out must be C-contiguous integers"):
            round_clipped(np.zeros(3), 1.0, 0, Prg(SEED), out)


@pytest.mark.parametrize(("clip", "frac_bits"), [(0.0, 1), (-1.0, 1), (2.0**60, 3), (np.nan, 0)])
def test_a_clip_beyond_the_integers_is_refused(clip: float, frac_bits: int) -> None:
    with pytest.raises(ParameterError, match=r"clip \* 2\^frac_bits"):
        round_clipped(np.zeros(3), clip, frac_bits, Prg(SEED), np.empty(3, np.int64))


@given(float_arrays(2.0**40), st.binary(min_size=32, max_size=32))
def test_a_batch_takes_its_tape_as_its_rows_would(x: Any, seed: bytes) -> None:
    batch = round_unbiased(x, Prg(seed))
    assert batch.shape == x.shape
    assert batch.dtype == np.int64
    rng, lines = Prg(seed), x.reshape(-1, x.shape[-1] if x.ndim and x.size else 1)
    rows = [round_unbiased(row, rng) for row in lines]
    assert np.array_equal(batch, np.array(rows).reshape(x.shape))
    # Whole entries take a coin like the others, so the tape's position tells nothing about them.
    used = 2 * (x.size + 3 * len(lines))
    assert rng.bytes(8) == Prg(seed).bytes(used + 8)[used:]


def coins_of(x: NDArray[np.float64], rng: Rng) -> NDArray[np.uint64]:
    """The coin of a row of one entry as one number of 64 bits."""
    second, first = np.split(rng.words(3 + x.size, np.uint16).astype(np.uint64), [3])
    return np.asarray((first << np.uint64(48)) + np.sum(second << np.array([0, 16, 32], np.uint64)))


def to_nearest(x: NDArray[np.float64], rng: Rng) -> NDArray[np.int64]:
    """A twin that takes its coins and ignores them."""
    coins_of(x, rng)
    return np.rint(x).astype(np.int64)


def one_coin_too_many(x: NDArray[np.float64], rng: Rng) -> NDArray[np.int64]:
    """A twin whose comparison includes the border."""
    whole = np.floor(x)
    return whole.astype(np.int64) + (coins_of(x, rng) <= np.ldexp(x - whole, 64).astype(np.uint64))


def float_coins(x: NDArray[np.float64], rng: Rng) -> NDArray[np.int64]:
    """A twin that compares floats: coins of 53 bits, rounded to nearest."""
    coins = coins_of(x, rng).astype(np.float64) * 2.0**-64
    return np.floor(x + (1 - coins)).astype(np.int64)


def first_coin_only(x: NDArray[np.float64], rng: Rng) -> NDArray[np.int64]:
    """A twin that drops what lies below 2^-16."""
    return np.floor(np.floor(x * 2**16 + coins_of(x, rng) // 2**48) / 2**16).astype(np.int64)


@pytest.mark.parametrize("twin", [to_nearest, one_coin_too_many, float_coins, first_coin_only])
def test_the_mean_check_sees_the_smallest_bias(twin: Rounding) -> None:
    assert mean(0.25 + 2.0**-20) == Fraction(0.25 + 2.0**-20)
    assert mean(0.25 + 2.0**-20, twin) != Fraction(0.25 + 2.0**-20)


@pytest.mark.parametrize(
    "bad", [float("nan"), float("inf"), -float("inf"), 2.0**62, -(2.0**62), 1e300]
)
def test_an_entry_that_no_integer_holds_is_refused(bad: float) -> None:
    with pytest.raises(ParameterError, match=r"NaN or at least 2\^62.*clip"):
        round_unbiased(np.array([0.5, bad]), Prg(SEED))


@pytest.mark.parametrize(
    "x",
    [np.array([1, 2]), np.array([True]), np.array(["1.5"]), np.array([1 + 0j]), np.array([None]),
     np.array([1], dtype=np.longdouble)],
    ids=lambda x: str(x.dtype),
)  # fmt: skip
def test_an_array_of_no_float_dtype_is_refused(x: Any) -> None:
    with pytest.raises(ParameterError, match="x must hold floats"):
        round_unbiased(x, Prg(SEED))


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.dtype(">f8")])
def test_narrower_floats_are_taken_exactly(dtype: Any) -> None:
    x = np.array([0.1, -7.3], dtype=dtype)
    assert np.array_equal(
        round_unbiased(x, Prg(SEED)), round_unbiased(x.astype(np.float64), Prg(SEED))
    )
