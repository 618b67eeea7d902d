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


class Zeros(Rng):
    """Gives zeros and notes how wide the words are that are asked for."""

    def __init__(self) -> None:
        self.bits: list[int] = []

    def fill(self, out: NDArray[Any]) -> None:
        self.bits.append(8 * out.dtype.itemsize)
        out[...] = 0


def width(bound: int) -> int:
    """The bits of a word that ``uniform`` draws for ``bound``."""
    rng = Zeros()
    rng.uniform(bound)
    (bits,) = rng.bits
    return bits


def uniform(bound: int, *script: int) -> int:
    """What one draw makes of the script; it must be used up."""
    rng = ScriptRng(script)
    value = int(rng.uniform(bound))
    assert rng.left == 0
    return value


class AllWords(Rng):
    """Gives every 16-bit or 8-bit word once, then ``word`` to all that is redrawn."""

    def __init__(self, word: int) -> None:
        self._word = word
        self.redrawn = -1

    def fill(self, out: NDArray[Any]) -> None:
        if self.redrawn < 0:
            assert out.size == 1 << 8 * out.dtype.itemsize
            out[...] = np.arange(out.size).astype(out.dtype)
            self.redrawn = 0
        else:
            out[...] = self._word
            self.redrawn += out.size


@pytest.mark.parametrize("bound", [1, 2, 3, 5, 6, 7, 99, 128, 200, 255, 256])
def test_uniform_has_the_exact_law_for_small_bounds(bound: int) -> None:
    """Of all words of a draw, equally many give each integer, and the rest is redrawn.

    A word that is redrawn is decided as the first one was, so the law is uniform exactly.
    """
    words = 1 << width(bound)
    rng = AllWords(0)
    counts = np.bincount(rng.uniform(bound, words).astype(np.int64), minlength=bound)
    assert rng.redrawn < words / 256
    counts[0] -= rng.redrawn  # which the word 0 made to zeros
    assert set(counts.tolist()) == {words // bound}
    assert counts.sum() == words - rng.redrawn


def test_the_walk_sees_the_bias_of_a_modulo() -> None:
    law, left = explore(lambda rng: int(rng.words((), np.uint64)) % 3, 4, RESIDUAL)
    assert law == {0: Fraction(1, 2), 1: Fraction(1, 4), 2: Fraction(1, 4)}
    assert left == 0


def test_entries_are_redrawn_one_by_one() -> None:
    """For 3 a word of 16 bits is drawn, and only the word 65535 belongs to no share."""
    top, share = 65_535, 21_845
    assert width(3) == 16
    rng = ScriptRng([top, share, top, top, 2 * share, 0])
    assert rng.uniform(3, 3).tolist() == [0, 1, 2]
    assert rng.left == 0
    rng = ScriptRng([0, top, share, top, 2 * share])
    assert rng.uniform(3, 3).tolist() == [0, 2, 1]
    assert rng.left == 0


@pytest.mark.parametrize(
    ("bound", "bits"),
    [(1, 8), (2, 8), (256, 8), (3, 16), (255, 16), (257, 32), (65_536, 16), (65_537, 32),
     (2**24 - 1, 32), (2**24 + 1, 64), (2**33, 64), (2**64, 64), (2**64 - 1, 64)],
)  # fmt: skip
def test_words_are_as_short_as_a_small_rest_allows(bound: int, bits: int) -> None:
    assert width(bound) == bits
    share = 2**bits // bound
    assert (2**bits - share * bound) * 256 < 2**bits or bits == 64


@pytest.mark.parametrize("bound", [1, 2, 2**20, 2**63, 2**64])
def test_a_power_of_two_takes_the_low_bits_of_any_word(bound: int) -> None:
    bits = width(bound)
    for word in {0, 1, bound - 1, 2**bits - 1, 2**bits // 3}:
        assert uniform(bound, word) == word % bound


@given(st.integers(3, 2**64 - 1).filter(lambda bound: bound & (bound - 1)), st.data())
def test_every_integer_has_an_equal_share_of_words(bound: int, data: st.DataObject) -> None:
    """The share's two ends, and the words next to them; beyond the last share words are redrawn.

    40 refusals in a row, after which the next word counts as the first did, leave below 2^-40.
    """
    words = 1 << width(bound)
    share = words // bound
    k = data.draw(st.integers(0, bound - 1))
    assert uniform(bound, k * share) == uniform(bound, k * share + share - 1) == k
    if k:
        assert uniform(bound, k * share - 1) == k - 1
    if share * bound < words:
        for bad in (share * bound, words - 1):
            assert uniform(bound, *[bad] * 40, k * share) == k


@given(st.integers(1, 2**64), shapes(), st.binary(min_size=32, max_size=32))
def test_uniform_stays_in_its_range_in_every_shape(
    bound: int, shape: tuple[int, ...], seed: bytes
) -> None:
    out = Prg(seed).uniform(bound, shape)
    assert out.dtype == np.uint64
    for kind in (np.uint8, np.uint16, np.uint32):
        if bound <= 1 << 8 * np.dtype(kind).itemsize:
            narrow = Prg(seed).uniform(bound, shape, kind)
            assert narrow.dtype == kind
            assert np.array_equal(narrow, out)
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


@pytest.mark.parametrize("dtype", [np.int64, np.float64, np.bool_, object, ">u8"])
def test_a_dtype_that_is_no_native_unsigned_one_is_refused(dtype: Any) -> None:
    with pytest.raises(ParameterError, match="dtype must"):
        SYSTEM_RNG.uniform(3, 2, dtype)


def test_a_bound_that_its_dtype_cannot_hold_is_refused() -> None:
    assert SYSTEM_RNG.uniform(256, 2, np.uint8).dtype == np.uint8
    with pytest.raises(ParameterError, match="bound must"):
        SYSTEM_RNG.uniform(257, 2, np.uint8)


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
    assert Constant().uniform(8, (2, 2)).tolist() == [[5, 5], [5, 5]]
