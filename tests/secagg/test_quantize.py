"""Quantisation: cases O13 (clipping), O14 (wrapping sums), O15 (zero weights), and no bias."""

import itertools
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from mpc.core.errors import AbortError, ParameterError
from mpc.core.prg import Prg
from mpc.core.ring import Ring
from mpc.core.rng import Rng
from secagg.quantize import Quantizer, WeightedQuantizer
from tests.support.stats import hoeffding_half_width
from tests.support.strategies import float_arrays, seeds

# O13: clipping.


@pytest.mark.parametrize("clip", [0, 0.0, -1, -0.5, float("nan"), float("inf"), 2.0**63, 10**400])
def test_o13_a_clip_without_meaning_is_refused_at_construction(clip: float) -> None:
    with pytest.raises(ParameterError, match=r"clip must lie in \(0, 2\^63\)"):
        Quantizer(clip, 16, Ring(64), 2)


@pytest.mark.parametrize("clip", [True, "8", None, 1j])
def test_o13_a_clip_of_another_type_is_refused(clip: Any) -> None:
    with pytest.raises(ParameterError, match="clip must be a real number"):
        Quantizer(clip, 16, Ring(32), 2)


@pytest.mark.parametrize("value", [16.0, 16.5, "16", True, None, -1, 63])
def test_o13_frac_bits_must_be_an_integer_in_range(value: Any) -> None:
    with pytest.raises(ParameterError, match="frac_bits"):
        Quantizer(1.0, value, Ring(64), 2)


@pytest.mark.parametrize("value", [2.0, True, 1, 0, -3])
def test_parties_must_be_an_integer_of_at_least_two(value: Any) -> None:
    with pytest.raises(ParameterError, match="parties"):
        Quantizer(1.0, 16, Ring(64), value)


def test_o13_saturation_comes_with_its_count() -> None:
    quantizer = Quantizer(8, 16, Ring(32), 2)
    encoded, clipped = quantizer.encode([[9.0], [20.0]])
    assert clipped.tolist() == [1, 1]
    assert int(clipped.sum()) == 2
    assert quantizer.decode(quantizer.ring.sum(encoded, axis=0)).tolist() == [16.0]


def test_o13_strict_refuses_to_clip_and_names_the_first_entry() -> None:
    quantizer = Quantizer(8, 16, Ring(32), 2)
    with pytest.raises(ParameterError, match=r"2 entries exceed clip = 8.0; the first is \(0, 1\)"):
        quantizer.encode([[1.0, 9.0], [20.0, 8.0]], strict=True)
    encoded, clipped = quantizer.encode([[8.0, -8.0]], strict=True)
    assert quantizer.decode(encoded).tolist() == [[8.0, -8.0]]
    assert clipped.tolist() == [0]


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_nan_and_infinities_are_refused_with_their_index(bad: float) -> None:
    x = np.zeros((2, 3))
    x[1, 2] = bad
    for strict in (False, True):
        with pytest.raises(ParameterError, match=r"entry \(1, 2\)"):
            Quantizer(1, 16, Ring(32), 2).encode(x, strict=strict)


@pytest.mark.parametrize("x", [["a"], [1j], [None], [True], 1.0, np.ones(2, np.longdouble)])
def test_what_is_no_real_vector_is_refused(x: Any) -> None:
    with pytest.raises(ParameterError, match="x must"):
        Quantizer(1, 16, Ring(32), 2).encode(x)


@pytest.mark.parametrize("shape", [(0,), (3, 0), (0, 3)])
def test_empty_vectors_stay_empty(shape: tuple[int, ...]) -> None:
    encoded, clipped = Quantizer(1, 16, Ring(32), 2).encode(np.zeros(shape))
    assert encoded.shape == shape
    assert clipped.shape == shape[:-1]


# O14: sums that wrap as the cohort grows.


@pytest.mark.parametrize(
    ("parties", "missing"), [(511, 0), (512, 1), (1023, 1), (1024, 2), (1025, 2)]
)
def test_o14_values_of_2_to_22_are_summed_exactly_or_refused(parties: int, missing: int) -> None:
    """The quantised value is 2^22 for each party, the modulus 2^32, and sums are signed."""
    if missing:
        with pytest.raises(ParameterError, match=f": {missing} more than the ring's 32"):
            Quantizer(64.0, 16, Ring(32), parties)
    quantizer = Quantizer(64.0, 16, Ring(32 + missing), parties)
    encoded, _ = quantizer.encode(np.full((parties, 1), 64.0))
    assert quantizer.ring.signed(encoded)[0, 0] == 2**22
    assert quantizer.decode(quantizer.ring.sum(encoded, axis=0)).tolist() == [64.0 * parties]
    with pytest.raises(ParameterError):
        Quantizer(64.0, 16, Ring(31 + missing), parties)


def test_o14_weights_of_60000_on_13_bit_values_of_8_clients() -> None:
    values = (8191.0, 0)
    with pytest.raises(ParameterError, match="more than the ring's 32"):
        WeightedQuantizer(Quantizer(*values, Ring(32), 8), 60_000)
    quantizer = WeightedQuantizer(Quantizer(*values, Ring(33), 8), 60_000)
    x = np.full((8, 2), 8191.0) * [1, -1]
    encoded, _ = quantizer.encode(x, np.full(8, 60_000))
    total = quantizer.values.ring.sum(encoded, axis=0)
    assert quantizer.values.ring.signed(total).tolist() == [
        8 * 60_000 * 8191,
        -8 * 60_000 * 8191,
        480_000,
    ]
    assert quantizer.decode(total).tolist() == [8191.0, -8191.0]


def test_o14_a_budget_beyond_64_bits_does_not_advise_a_wider_ring() -> None:
    with pytest.raises(ParameterError, match=r"\(lower clip, frac_bits or parties\)"):
        Quantizer(2.0**40, 30, Ring(64), 2)
    with pytest.raises(ParameterError, match="take a ring of 35 bits, or lower"):
        Quantizer(2.0**16, 16, Ring(32), 2)


@given(
    clip=st.floats(1e-6, 1e6),
    frac_bits=st.integers(0, 40),
    parties=st.integers(2, 2000),
)
def test_o14_the_smallest_ring_that_is_accepted_holds_the_extreme_sums(
    clip: float, frac_bits: int, parties: int
) -> None:
    for bits in range(1, 65):
        try:
            quantizer = Quantizer(clip, frac_bits, Ring(bits), parties)
        except ParameterError:
            continue
        assert parties * quantizer.bound < 2 ** (bits - 1) <= 2 * parties * quantizer.bound
        assert quantizer.bound - 1 < Fraction(clip) * 2**frac_bits <= quantizer.bound
        return
    assert parties * clip * 2**frac_bits >= 2**62


# O15: weights.


def weighted(max_weight: int = 10) -> WeightedQuantizer:
    return WeightedQuantizer(Quantizer(4.0, 16, Ring(64), 3), max_weight)


def test_o15_a_total_weight_of_zero_gives_an_error_and_no_mean() -> None:
    quantizer = weighted()
    encoded, _ = quantizer.encode(np.ones((3, 2)), [0, 0, 0])
    assert not encoded.any()
    with pytest.raises(AbortError, match="total weight is 0"):
        quantizer.decode(quantizer.values.ring.sum(encoded, axis=0))
    batch = np.ones((2, 3), dtype=np.uint64)
    batch[1, -1] = 0
    with pytest.raises(AbortError):
        quantizer.decode(batch)


def test_o15_a_client_of_weight_zero_has_no_effect() -> None:
    quantizer = weighted()
    encoded, _ = quantizer.encode([[4.0, -4.0], [1.0, 2.0], [2.0, -1.0]], [0, 2, 3])
    assert not encoded[0].any()
    mean = quantizer.decode(quantizer.values.ring.sum(encoded, axis=0))
    assert mean.tolist() == [8 / 5, 1 / 5]


@pytest.mark.parametrize("weight", [-1, -0.5, np.nan, np.inf, 0.5, 11, 2**70])
def test_o15_bad_weights_are_refused_with_their_index(weight: float) -> None:
    with pytest.raises(ParameterError, match="weight must be"):
        weighted().encode(np.ones((3, 2)), [1, weight, 1])
    if not isinstance(weight, int) or weight < 2**63:
        with pytest.raises(ParameterError, match=r"entry \(1,\)"):
            weighted().encode(np.ones((3, 2)), [1, weight, 1])


def test_o15_weights_of_another_shape_or_type_are_refused() -> None:
    for weight in ([1, 2], [[1, 2, 3]], 1):
        with pytest.raises(ParameterError, match=r"shape \(3,\)"):
            weighted().encode(np.ones((3, 2)), weight)
    for other in (["1", "2", "3"], [True, True, True]):
        with pytest.raises(ParameterError, match="real numbers"):
            weighted().encode(np.ones((3, 2)), other)
    for most in (0, -1, 2**53 + 1, 1.5):
        with pytest.raises(ParameterError, match="max_weight"):
            WeightedQuantizer(Quantizer(4.0, 16, Ring(64), 3), most)  # type: ignore[arg-type]


def test_a_total_weight_that_no_cohort_can_reach_is_refused() -> None:
    ring = Ring(64)
    for weight in (-1, 31):
        with pytest.raises(AbortError, match=r"outside \[1, 30\]"):
            weighted().decode(ring.reduce([5, weight]))
    for shape in ((), (1,)):
        with pytest.raises(ParameterError, match="shape"):
            weighted().decode(np.zeros(shape, dtype=np.uint64))


# Rounding.


class Coins(Rng):
    """Gives 16-bit words with the top two bits it was made with."""

    def __init__(self, quarter: int) -> None:
        self._quarter = quarter

    def fill(self, out: NDArray[Any]) -> None:
        out[...] = self._quarter << 14


def test_the_rounding_has_no_bias_exactly() -> None:
    """Entries of k/4 units, the coin's top two bits walked: the mean is the entry."""
    quantizer = Quantizer(4.0, 0, Ring(8), 3)
    x = np.array([0.25, 0.5, 0.75, 1.0, -0.25, -2.5, -3.75, 0.0])
    outcomes = [quantizer.decode(quantizer.encode(x, rng=Coins(q))[0]) for q in range(4)]
    assert (np.sum(outcomes, axis=0) / 4).tolist() == x.tolist()
    toward_zero = [np.trunc(x)] * 4  # the biased twin
    assert (np.sum(toward_zero, axis=0) / 4).tolist() != x.tolist()


def test_the_mean_of_many_roundings_is_the_input_and_truncation_is_caught() -> None:
    """200,000 roundings of one value within one unit; Hoeffding, false alarm 1e-9."""
    n, value = 200_000, 0.3
    quantizer = Quantizer(1.0, 2, Ring(32), 2)
    encoded, _ = quantizer.encode(np.full((n, 1), value), rng=Prg(bytes(32)))
    width = hoeffding_half_width(n, 0.25)
    assert abs(quantizer.decode(encoded).mean() - value) < width
    assert abs(np.floor(value * 4) / 4 - value) > width


@given(data=st.data(), seed=seeds())
def test_decoding_is_within_one_unit_of_the_clipped_input(data: st.DataObject, seed: bytes) -> None:
    quantizer = Quantizer(2.5, 10, Ring(32), 4)
    x = data.draw(float_arrays(1e300, st.tuples(st.integers(0, 3), st.integers(0, 3))))
    encoded, clipped = quantizer.encode(x, rng=Prg(seed))
    assert np.all(np.abs(quantizer.decode(encoded) - np.clip(x, -2.5, 2.5)) < 2.0**-10)
    assert clipped.tolist() == np.count_nonzero(np.abs(x) > 2.5, axis=-1).tolist()


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16, np.int8, np.uint64])
def test_every_real_dtype_gives_the_same_elements(dtype: Any) -> None:
    quantizer = Quantizer(4, 16, Ring(32), 2)
    encoded, _ = quantizer.encode(np.array([0, 1, 3, 4, 5], dtype=dtype))
    assert quantizer.decode(encoded).tolist() == [0, 1, 3, 4, 4]


def test_a_batch_is_rounded_as_its_vectors_would_be() -> None:
    quantizer = Quantizer(4, 8, Ring(32), 2)
    x = np.linspace(-3, 3, 12).reshape(4, 3)
    whole, _ = quantizer.encode(x, rng=Prg(bytes(32)))
    stream = Prg(bytes(32))
    rows = [quantizer.encode(row, rng=stream)[0] for row in x]
    assert np.array_equal(whole, np.stack(rows))


def test_a_long_vector_is_rounded_as_any_other() -> None:
    quantizer = Quantizer(4, 8, Ring(32), 2)
    x = np.linspace(-5, 5, (1 << 15) + 7)
    encoded, clipped = quantizer.encode(x, rng=Prg(bytes(32)))
    assert clipped == np.count_nonzero(np.abs(x) > 4)
    assert np.all(np.abs(quantizer.decode(encoded) - np.clip(x, -4, 4)) < 2.0**-8)
    integers, _ = quantizer.to_integers(x, rng=Prg(bytes(32)))
    assert np.array_equal(quantizer.ring.reduce(integers), encoded)


@pytest.mark.parametrize("bits", [5, 8, 12, 16, 20, 32, 40, 64])
def test_rings_of_every_width_hold_the_same_integers(bits: int) -> None:
    quantizer = Quantizer(3.0, 1, Ring(bits), 2)
    x = np.linspace(-4, 4, 100)
    encoded, _ = quantizer.encode(x, rng=Prg(bytes(32)))
    integers, _ = quantizer.to_integers(x, rng=Prg(bytes(32)))
    assert np.array_equal(quantizer.ring.check(encoded), quantizer.ring.reduce(integers))


def test_clip_is_not_rounded_to_the_type_of_the_entries() -> None:
    quantizer = Quantizer(0.1, 16, Ring(32), 2)
    _, clipped = quantizer.encode(np.array([0.1, -0.1, 0.0999], dtype=np.float32))
    assert clipped == 2  # the float32 next to 0.1 lies above it


def test_numpy_integers_as_parameters_do_not_overflow() -> None:
    quantizer = Quantizer(np.float32(2), np.int8(16), Ring(32), np.int8(100))  # type: ignore[arg-type]
    assert quantizer.parties * quantizer.bound == 100 * 2**17
    for bits, parties in itertools.product((20, 24), (np.int8(100),)):
        with pytest.raises(ParameterError):
            Quantizer(2.0, 16, Ring(bits), parties)  # type: ignore[arg-type]
