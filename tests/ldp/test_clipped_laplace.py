"""Clipped Laplace noise on a grid: parameters, units of epsilon, domain, estimates, the wire."""

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ldp.clipped_laplace import ClippedLaplace
from ldp.mechanism import Mechanism
from ldp.rice import LIMIT
from mpc.core.errors import ParameterError, WireError
from mpc.core.prg import Prg
from tests.support.stats import normal_half_width

FEDGNN = ClippedLaplace(0.1, 0.2)
EPSILONS = [1e-12, 1e-6, 0.1, 0.5, 1.0, math.log(3), 2.0, 8.0, 16.0, 44.0, 710.0, 800.0]


def test_o11_epsilon_for_coordinate_vector_and_rounds() -> None:
    """Clip .1, scale .2, 256 coordinates, 3 rounds: 1 for a coordinate, 256, and 768."""
    assert FEDGNN.epsilon == 1.0
    assert FEDGNN.unit == "coordinate"
    assert FEDGNN.vector_epsilon(256) == 256.0
    assert FEDGNN.vector_epsilon(256, rounds=3) == 768.0
    cost = FEDGNN.vector_cost(256, 3)
    assert (cost.coordinate, cost.vector, cost.user) == (1.0, 256.0, 768.0)
    assert str(cost) == (
        "epsilon 1 for each coordinate, 256 for each vector of 256, 768 for each user after "
        "3 rounds (basic composition)"
    )
    assert "after 1 round (" in str(FEDGNN.vector_cost(256))


@given(
    st.floats(1e-3, 100), st.floats(1e-3, 100), st.integers(14, 30), st.integers(1, 5000),
    st.integers(1, 50),
)  # fmt: skip
def test_epsilon_is_twice_the_clip_over_the_scale_on_every_grid(
    clip: float, scale: float, frac_bits: int, coordinates: int, rounds: int
) -> None:
    mechanism = ClippedLaplace(clip, scale, frac_bits)
    exact = 2 * Fraction(clip) / Fraction(scale)
    for reported, loss in (
        (mechanism.epsilon, exact),
        (mechanism.vector_epsilon(coordinates), exact * coordinates),
        (mechanism.vector_epsilon(coordinates, rounds), exact * coordinates * rounds),
    ):
        assert Fraction(math.nextafter(reported, 0)) < loss <= Fraction(reported)
    noise = mechanism.noise
    assert noise.sensitivity == 2 * mechanism.bound
    assert noise.sensitivity / noise.scale == exact
    step = Fraction(1, 2**frac_bits)
    assert mechanism.bound * step <= Fraction(clip) < (mechanism.bound + 1) * step
    shrunk = noise.scale * step / Fraction(scale)
    assert 1 - Fraction(1, mechanism.bound) <= shrunk <= 1


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_from_epsilon_spends_the_request_exactly(epsilon: float) -> None:
    mechanism = ClippedLaplace.from_epsilon(epsilon, 0.1)
    assert mechanism.epsilon == epsilon
    assert mechanism.noise.sensitivity / mechanism.noise.scale == Fraction(epsilon)
    told = mechanism.values(mechanism.perturb(np.array([0.05, -0.1, np.inf])))
    assert np.isfinite(told).all()
    if epsilon >= 710:
        assert np.all(np.abs(told - [0.05, -0.1, 0.1]) < 0.1)


@pytest.mark.parametrize("epsilon", [0, -1, math.nan, math.inf, 1e-320, "1", True, None])
def test_o09_other_epsilons_are_refused(epsilon: Any) -> None:
    with pytest.raises(ParameterError, match="epsilon"):
        ClippedLaplace.from_epsilon(epsilon, 0.1)


@pytest.mark.parametrize(
    "clip", [math.nan, math.inf, 0, 0.0, -0.1, -math.inf, "0.1", True, None, (0.5, 0.5), (1, 0)]
)
def test_o08_bad_bounds_are_refused_at_construction(clip: Any) -> None:
    """The bounds are -clip and clip: equal ones would be a clip of 0, crossed ones a negative."""
    with pytest.raises(ParameterError, match="clip"):
        ClippedLaplace(clip, 0.2)
    with pytest.raises(ParameterError, match="clip"):
        ClippedLaplace.from_epsilon(1.0, clip)


@pytest.mark.parametrize("scale", [math.nan, math.inf, 0, -0.2, "1", True, None])
def test_bad_scales_are_refused_at_construction(scale: Any) -> None:
    with pytest.raises(ParameterError, match="scale"):
        ClippedLaplace(0.1, scale)


@pytest.mark.parametrize("frac_bits", [-1, 63, 16.0, True, "16"])
def test_other_grids_are_refused(frac_bits: Any) -> None:
    with pytest.raises(ParameterError, match="frac_bits"):
        ClippedLaplace(0.1, 0.2, frac_bits)


def test_a_grid_too_coarse_or_too_fine_names_the_remedy() -> None:
    with pytest.raises(ParameterError, match=r"clip must be between 1 .*\(choose frac_bits"):
        ClippedLaplace(0.1, 0.2, 3)
    with pytest.raises(ParameterError, match=r"clip must be between 1 .*\(choose frac_bits"):
        ClippedLaplace(1.0, 2.0, 53)
    with pytest.raises(ParameterError, match=r"scale must be at most .*\(use fewer frac_bits"):
        ClippedLaplace(0.1, 1e6, 40)
    assert ClippedLaplace(0.125, 0.2, 3).bound == 1


def test_o08_infinities_are_clipped_and_nan_is_refused_by_its_index() -> None:
    x = np.array([np.nan, np.inf, -np.inf, 0.05])
    with pytest.raises(ParameterError, match=r"NaN at index \(0,\)"):
        FEDGNN.perturb(x)
    with pytest.raises(ParameterError, match=r"NaN at index \(1, 2\)"):
        FEDGNN.perturb(np.array([[0, 0, 0], [0, 0, np.nan]], dtype=np.float32))
    quiet = ClippedLaplace.from_epsilon(1e9, 0.1)  # no noise to speak of
    told = quiet.values(quiet.perturb(x[1:]))
    step = 2.0**-16
    assert told[:2].tolist() == [quiet.bound * step, -quiet.bound * step]
    assert np.all(np.abs(told - [0.1, -0.1, 0.05]) < step)


@pytest.mark.parametrize("huge", [1e308, -1e308, 0.10001, -0.10001, 5e-324, -0.0, 0.0])
def test_every_double_lands_within_the_bound(huge: float) -> None:
    """Every warning is an error here, so that no product overflows either."""
    quiet = ClippedLaplace.from_epsilon(1e9, 0.1)
    told = quiet.perturb(np.full(100, huge))
    assert np.all(np.abs(told) <= quiet.bound)
    assert np.all(np.abs(quiet.values(told) - max(-0.1, min(0.1, huge))) <= 2.0**-16)


@pytest.mark.parametrize("x", [[1], [True], ["0.1"], [0.1 + 0j], [None]])
def test_what_is_no_float_is_refused(x: list[Any]) -> None:
    with pytest.raises(ParameterError, match="floats"):
        FEDGNN.perturb(np.array(x))


def test_long_doubles_are_refused() -> None:
    if np.dtype(np.longdouble).itemsize > 8:
        with pytest.raises(ParameterError, match="64 bits"):
            FEDGNN.perturb(np.zeros(3, dtype=np.longdouble))


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_shapes_and_dtypes(dtype: Any) -> None:
    for shape in ((), (0,), (3,), (2, 0, 4), (20_000,), (3, 10_000)):
        told = FEDGNN.perturb(np.full(shape, 0.0625, dtype=dtype), rng=Prg(bytes(32)))
        assert told.shape == shape
        assert told.dtype == np.int64
    x = np.arange(40, dtype=dtype).reshape(4, 10)[::2, ::3] / 1024
    flat = FEDGNN.perturb(np.ascontiguousarray(x).reshape(-1), rng=Prg(bytes(32)))
    assert np.array_equal(FEDGNN.perturb(x, rng=Prg(bytes(32))), flat.reshape(x.shape))


def test_values_are_multiples_of_the_step() -> None:
    steps = np.array([0, 1, -1, 6553, LIMIT, -LIMIT])
    values = FEDGNN.values(steps)
    assert values.tolist() == [float(s) * 2.0**-16 for s in steps]
    assert not np.signbit(values[0])
    with pytest.raises(ParameterError, match="int64"):
        FEDGNN.values(np.zeros(3))  # type: ignore[arg-type]


def test_the_estimate_is_the_mean_in_the_units_of_the_input() -> None:
    steps = np.array([[6554, 0], [0, -6554]])
    result = FEDGNN.estimate(steps)
    assert result.value.tolist() == [3277 * 2.0**-16, -3277 * 2.0**-16]
    assert result.n == 2
    expected = (FEDGNN.noise.variance + 0.25) * 2.0**-32 / 2
    assert result.variance == pytest.approx([expected] * 2)
    assert result.worst == pytest.approx([expected] * 2)
    # The noise that the paper asks for has variance 2 lambda^2 = .08 in each report.
    assert expected == pytest.approx(0.04, rel=1e-3)


def test_the_estimate_is_unbiased_for_values_off_the_grid() -> None:
    """A coarse grid, where rounding to nearest would be off by .4 of a step; 10^6 users."""
    mechanism = ClippedLaplace.from_epsilon(2.0, 4.0, frac_bits=0)
    x = np.full((1_000_000, 2), [1.4, -2.6])
    result = mechanism.estimate(mechanism.perturb(x, rng=Prg(b"u" * 32)))
    allowed = normal_half_width(float(np.sqrt(result.worst[0])))
    assert np.all(np.abs(result.value - [1.4, -2.6]) <= allowed)
    nearest = mechanism.estimate(mechanism.perturb(np.rint(x), rng=Prg(b"u" * 32)))
    assert np.all(np.abs(nearest.value - [1.4, -2.6]) > allowed)  # the twin


@pytest.mark.parametrize("epsilon", [0.5, 8.0])
def test_the_interval_covers(epsilon: float) -> None:
    """95 % intervals of 10,000 means of 100 users: at least 93.7 % but for 1e-9."""
    mechanism = ClippedLaplace.from_epsilon(epsilon, 1.0, frac_bits=10)
    x = np.full((100, 10_000), 0.333)
    reports = mechanism.perturb(x, rng=Prg(b"coverage of clipped means of 100"))
    low, high = mechanism.estimate(reports).interval()
    allowed = normal_half_width(math.sqrt(0.95 * 0.05 / 10_000))
    assert np.mean((low <= 0.333) & (high >= 0.333)) >= 0.95 - allowed


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 8.0])
def test_the_wire(epsilon: float) -> None:
    mechanism = ClippedLaplace.from_epsilon(epsilon, 0.1)
    reports = mechanism.perturb(np.full((40, 256), 0.1), rng=Prg(b"w" * 32))
    data = mechanism.pack(reports)
    assert np.array_equal(mechanism.unpack(data, (40, 256)), reports)
    assert 8 * len(data) / reports.size <= mechanism.report_bits


def test_a_vector_of_256_takes_a_quarter_of_its_doubles() -> None:
    """FedGNN's setting: about 16.2 bits for each coordinate instead of 64, 18 promised."""
    data = FEDGNN.pack(FEDGNN.perturb(np.zeros((100, 256)), rng=Prg(b"q" * 32)))
    assert 8 * len(data) / 25_600 < 16.5
    assert FEDGNN.report_bits == 18


@given(st.binary(max_size=40), st.integers(0, 12))
def test_other_bytes_raise_wire_errors_only(data: bytes, count: int) -> None:
    try:
        reports = FEDGNN.unpack(data, count)
    except WireError:
        return
    assert FEDGNN.pack(reports) == data


def test_it_is_a_mechanism() -> None:
    mechanism: Mechanism = FEDGNN
    assert mechanism.epsilon == 1.0
    assert ClippedLaplace(Fraction(1, 10), Fraction(1, 5)) == ClippedLaplace(
        Fraction(1, 10), Fraction(2, 10), 16
    )


@pytest.mark.parametrize(("coordinates", "rounds"), [(0, 1), (1, 0), (-1, 1), (1.0, 1), (1, True)])
def test_other_counts_are_refused(coordinates: Any, rounds: Any) -> None:
    with pytest.raises(ParameterError, match=r"coordinates|rounds"):
        FEDGNN.vector_epsilon(coordinates, rounds)
