"""The two sums of PriRec: one encoding, three ways to add up."""

import math
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

import recsys.sums
from mpc.core.errors import StateError
from mpc.core.local import LocalNetwork
from mpc.core.ring import Ring
from mpc.fixed import FixedPoint
from recsys.errors import DivergenceError
from recsys.pads import CohortPads
from recsys.simulation import SimulationRng
from recsys.sums import FloatSums, Mix, ProtocolSums, SimulatedSums, Sums
from secagg.quantize import Quantizer
from secagg.watermark import MemoryWatermark

Floats = NDArray[np.float64]
FIXED = FixedPoint(Ring(32), 16)
COHORTS = [np.array([1, 4, 6], dtype=np.int32), np.array([0, 2, 3, 5], dtype=np.int32)]
QUANTIZERS = [Quantizer(4.0, 16, FIXED.ring, members.size) for members in COHORTS]
COINS = SimulationRng(1)


def protocol(network: LocalNetwork | None = None, *, relay: bool = False) -> ProtocolSums:
    return ProtocolSums(FIXED, QUANTIZERS, None, network or LocalNetwork(), relay=relay)


def padded(dim: int) -> ProtocolSums:
    network = LocalNetwork()
    pads = CohortPads(
        COHORTS, dim, FIXED.ring, min_cohort=3, watermark=MemoryWatermark(), network=network
    )
    return ProtocolSums(FIXED, QUANTIZERS, pads, network)


@st.composite
def mixes(draw: st.DrawFn) -> tuple[Floats, Mix]:
    """Models of 12 users, and a batch of receivers with 3 to 6 neighbours each."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    size, dim = draw(st.integers(3, 6)), draw(st.integers(1, 5))
    receivers = np.flatnonzero(rng.random(12) < 0.6).astype(np.int32)
    neighbours = np.array(
        [rng.choice(np.delete(np.arange(12), i), size, replace=False) for i in receivers],
        dtype=np.int32,
    ).reshape(receivers.size, size)
    weights = rng.random((receivers.size, size))
    return 3 * rng.standard_normal((12, dim)), Mix(receivers, neighbours, weights)


def expected(models: Floats, mix: Mix) -> Floats:
    """The first term of Eq. 8, receiver by receiver."""
    out = np.zeros((mix.receivers.size, models.shape[1]))
    for row in range(mix.receivers.size):
        for neighbour, weight in zip(mix.neighbours[row], mix.weights[row], strict=True):
            out[row] += weight * models[neighbour]
    return out


@given(mixes())
def test_floating_point_is_the_plain_weighted_sum(case: tuple[Floats, Mix]) -> None:
    models, mix = case
    assert FloatSums().mix(models, mix) == pytest.approx(expected(models, mix), abs=1e-12)


@given(mixes())
def test_ring_sums_are_equal_and_within_half_a_step_for_each_term(
    case: tuple[Floats, Mix],
) -> None:
    models, mix = case
    simulated = SimulatedSums(FIXED, QUANTIZERS).mix(models, mix)
    assert np.array_equal(simulated, protocol().mix(models, mix))
    error = np.abs(simulated - expected(models, mix))
    assert error.max(initial=0) <= mix.neighbours.shape[1] * FIXED.resolution / 2 + 1e-12


def test_a_relay_changes_no_sum() -> None:
    rng = np.random.default_rng(2)
    models, receivers = rng.standard_normal((5, 3)), np.array([0, 4], dtype=np.int32)
    mix = Mix(receivers, np.array([[1, 2, 3], [3, 1, 0]], dtype=np.int32), rng.random((2, 3)))
    sums = protocol(relay=True)
    simulated = SimulatedSums(FIXED, QUANTIZERS).mix(models, mix)
    for _ in range(2):  # one session, a new round each time: no key seals twice
        assert np.array_equal(sums.mix(models, mix), simulated)


@pytest.mark.parametrize("relay", [False, True])
def test_chunks_make_no_difference(monkeypatch: pytest.MonkeyPatch, relay: bool) -> None:
    rng = np.random.default_rng(3)
    models, receivers = rng.standard_normal((9, 4)), np.arange(9, dtype=np.int32)
    neighbours = np.array([[(i + k) % 9 for k in (1, 2, 4)] for i in range(9)], dtype=np.int32)
    mix = Mix(receivers, neighbours, rng.random((9, 3)))
    whole = SimulatedSums(FIXED, QUANTIZERS).mix(models, mix)
    for chunk in (1, 3 * 4 * 2, 3 * 4 * 9 - 1):
        monkeypatch.setattr(recsys.sums, "_CHUNK_ELEMENTS", chunk)
        assert np.array_equal(protocol(relay=relay).mix(models, mix), whole)


def test_a_recorded_network_names_the_users_themselves() -> None:
    network = LocalNetwork(record=True)
    mix = Mix(
        np.array([7], dtype=np.int32),
        np.array([[2, 9, 4]], dtype=np.int32),
        np.full((1, 3), 0.2),
    )
    protocol(network).mix(np.ones((10, 2)), mix)
    assert [delivery.sender for delivery in network.view(7)] == [2, 9, 4]
    assert {delivery.sender for delivery in network.view(9)} == {2, 4}
    assert network.view(0) == ()


RANGES = [
    pytest.param(SimulatedSums(FIXED, QUANTIZERS), id="simulate"),
    pytest.param(protocol(), id="protocol"),
]


@pytest.mark.parametrize("sums", RANGES)
@pytest.mark.parametrize("value", [FIXED.headroom(3) * 1.001, -1e30, math.inf, math.nan])
def test_a_model_out_of_range_is_divergence_not_a_wrapped_number(sums: Sums, value: float) -> None:
    models = np.zeros((4, 2))
    models[2, 1] = value
    mix = Mix(np.zeros(1, np.int32), np.array([[1, 2, 3]], dtype=np.int32), np.ones((1, 3)))
    with pytest.raises(DivergenceError, match=r"\|w\| <= 10922.7 with 3 neighbours"):
        sums.mix(models, mix)


@pytest.mark.parametrize("sums", RANGES)
def test_the_largest_models_that_fit_add_up_exactly(sums: Sums) -> None:
    most = FIXED.headroom(3)
    mix = Mix(np.zeros(1, np.int32), np.array([[1, 2, 3]], dtype=np.int32), np.ones((1, 3)))
    for sign in (1, -1):
        models = np.full((4, 2), sign * most)
        assert sums.mix(models, mix).tolist() == [[sign * 3 * most] * 2]


@given(st.integers(0, 2**32 - 1), st.integers(1, 6))
def test_both_ring_modes_aggregate_alike(seed: int, dim: int) -> None:
    rng = np.random.default_rng(seed)
    real, plain = padded(dim), SimulatedSums(FIXED, QUANTIZERS)
    for round_ in range(2):
        real.begin_round(round_, 2)
        for cohort, members in enumerate(COHORTS):
            gradients = 3 * rng.standard_normal((members.size, dim))
            sums = [
                way.aggregate(cohort, round_, gradients, COINS.rows("rounding", members, round_))
                for way in (real, plain)
            ]
            assert np.array_equal(sums[0], sums[1])
            # Each entry is off by less than one step; what exceeds the clip is clipped.
            error = np.abs(sums[0] - np.clip(gradients, -4, 4).sum(axis=0))
            assert error.max() < members.size * FIXED.resolution
    assert real.clipped == plain.clipped


def test_clipped_entries_are_counted_over_the_whole_run() -> None:
    sums = SimulatedSums(FIXED, QUANTIZERS)
    gradients = np.array([[4.0, 4.1], [-9.0, 0.0], [0.0, 1.0]])
    for _ in range(2):
        total = sums.aggregate(0, 0, gradients, COINS.rows("rounding", COHORTS[0], 0))
        assert total.tolist() == [0.0, 5.0]
    assert sums.clipped == 4


@pytest.mark.parametrize("wrong", [math.nan, math.inf, -math.inf])
def test_a_gradient_that_is_not_finite_is_divergence(wrong: float) -> None:
    gradients = np.zeros((3, 2))
    gradients[1, 0] = wrong
    sums = SimulatedSums(FIXED, QUANTIZERS)
    with pytest.raises(DivergenceError, match="a gradient of the interaction model is not finite"):
        sums.aggregate(0, 0, gradients, COINS.rows("rounding", COHORTS[0], 0))


def test_floating_point_gradients_are_added_as_they_are() -> None:
    gradients = np.array([[0.1, 99.0], [0.2, -1.0]])
    total = FloatSums().aggregate(0, 0, gradients, COINS.rows("rounding", [0, 1], 0))
    assert np.array_equal(total, gradients.sum(axis=0))


def test_without_an_interaction_model_there_is_nothing_to_aggregate() -> None:
    sums = protocol()
    sums.begin_round(0, 1)
    with pytest.raises(StateError, match="nothing to aggregate"):
        sums.aggregate(0, 0, np.zeros((3, 2)), COINS.rows("rounding", COHORTS[0], 0))


@contextmanager
def untouched(monkeypatch: pytest.MonkeyPatch, owner: object, *names: str) -> Iterator[None]:
    """Fails if one of these functions is called inside."""

    def forbidden(*arguments: object, **options: object) -> None:
        raise AssertionError("called")

    with monkeypatch.context() as patch:
        for name in names:
            patch.setattr(owner, name, forbidden)
        yield


def test_simulation_runs_no_protocol(monkeypatch: pytest.MonkeyPatch) -> None:
    mix = Mix(np.zeros(1, np.int32), np.array([[1, 2, 3]], dtype=np.int32), np.ones((1, 3)))
    with untouched(monkeypatch, recsys.sums, "batch_sum"):
        SimulatedSums(FIXED, QUANTIZERS).mix(np.ones((4, 2)), mix)
        with pytest.raises(AssertionError, match="called"):
            protocol().mix(np.ones((4, 2)), mix)
