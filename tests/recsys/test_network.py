"""Edge weights S_if: rows that sum to one, kernels that fall with distance, refusals."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst
from numpy.typing import NDArray

from mpc.core.errors import ParameterError
from recsys.network import BY_DISTANCE, WEIGHTS, weigh

Floats = NDArray[np.float64]
AVERAGES = [kind for kind in WEIGHTS if kind != "literal"]

distances = npst.arrays(
    np.dtype(np.float64),
    npst.array_shapes(min_dims=2, max_dims=2, min_side=1, max_side=6),
    elements=st.floats(0, 20_100),  # half the way around the globe
)


def ids(shape: tuple[int, ...]) -> NDArray[np.int32]:
    return np.zeros(shape, dtype=np.int32)


@pytest.mark.parametrize("kind", AVERAGES)
@given(km=distances, own=st.floats(0, 1))
def test_rows_sum_to_one_with_the_own_weight(kind: str, km: Floats, own: float) -> None:
    graph = weigh(ids(km.shape), km, kind, own)
    assert (graph.weights >= 0).all()
    assert (graph.own >= 0).all()
    assert graph.weights.sum(axis=1) + graph.own == pytest.approx(np.ones(len(km)))


@pytest.mark.parametrize("kind", AVERAGES)
@given(km=distances)
def test_nearer_never_weighs_less(kind: str, km: Floats) -> None:
    km = np.sort(km, axis=1)
    falling = np.diff(weigh(ids(km.shape), km, kind).weights, axis=1)
    assert (falling <= 1e-15).all()


@pytest.mark.parametrize("kind", BY_DISTANCE)
def test_a_kernel_tells_near_from_far_and_the_others_do_not(kind: str) -> None:
    km = np.array([[0.1, 1.0, 5.0]])
    assert (np.diff(weigh(ids((1, 3)), km, kind).weights) < 0).all()
    for even in ("half", "mean", "neighbours"):
        assert np.ptp(weigh(ids((1, 3)), km, even).weights) == 0


def test_kernels_are_what_they_are_called() -> None:
    km = np.array([[0.0, 1.0, 3.0], [2.0, 4.0, 8.0]])
    inverse = weigh(ids(km.shape), km, "inverse").weights
    assert inverse[0] / inverse[0, 0] == pytest.approx([1, 1 / 2, 1 / 4])
    falling = weigh(ids(km.shape), km, "exponential").weights
    scale = np.median(km)
    assert falling[1] / falling[1, 0] == pytest.approx(np.exp(-(km[1] - 2) / scale))


@pytest.mark.parametrize("kind", AVERAGES)
def test_identical_homes_share_evenly(kind: str) -> None:
    graph = weigh(ids((2, 4)), np.zeros((2, 4)), kind)
    assert np.ptp(graph.weights) == 0
    assert np.isfinite(graph.weights).all()


def test_a_remote_user_still_has_neighbours() -> None:
    """O15's kind: no row of kernel values is so small that it divides by nothing."""
    km = np.array([[0.1, 0.2, 0.3], [19_000.0, 19_500.0, 20_000.0]])
    for kind in BY_DISTANCE:
        assert weigh(ids(km.shape), km, kind).weights[1].sum() == pytest.approx(0.5)


def test_the_default_keeps_half() -> None:
    graph = weigh(ids((1, 5)), np.ones((1, 5)))
    assert graph.own.tolist() == [0.5]
    assert graph.weights == pytest.approx(np.full((1, 5), 0.1))


def test_mean_and_neighbours_set_the_own_weight_themselves() -> None:
    assert weigh(ids((1, 4)), np.ones((1, 4)), "mean", 0.9).own == pytest.approx([0.2])
    assert weigh(ids((1, 4)), np.ones((1, 4)), "neighbours", 0.9).own.tolist() == [0]


def test_literal_weights_are_the_paper_s_and_sum_to_n() -> None:
    graph = weigh(ids((2, 5)), np.ones((2, 5)), "literal")
    assert (graph.weights == 1).all()
    assert (graph.own == 0).all()


def test_without_neighbours_everybody_keeps_her_model() -> None:
    graph = weigh(ids((3, 0)), np.zeros((3, 0)), "mean")
    assert graph.size == 0
    assert graph.own.tolist() == [1, 1, 1]
    assert graph.weights.shape == (3, 0)


@pytest.mark.parametrize("own", [-0.1, 1.1, math.nan, math.inf])
def test_an_own_weight_outside_0_to_1_is_refused(own: float) -> None:
    with pytest.raises(ParameterError, match=r"own_weight must lie in \[0, 1\], got"):
        weigh(ids((1, 3)), np.ones((1, 3)), "half", own)


def test_an_unknown_kind_is_refused_with_the_known_ones() -> None:
    with pytest.raises(ParameterError, match=r"weights must be one of half, mean.*got 'cosine'"):
        weigh(ids((1, 3)), np.ones((1, 3)), "cosine")


@pytest.mark.parametrize(
    "km", [[[1.0, -1.0, 2.0]], [[1.0, math.nan, 2.0]], [[1.0, math.inf, 2.0]], [[1.0, 2.0]]]
)
def test_distances_that_are_none_are_refused(km: list[list[float]]) -> None:
    with pytest.raises(
        ParameterError, match="distances_km must be finite, at least 0 and of shape"
    ):
        weigh(ids((1, 3)), np.array(km), "inverse")
