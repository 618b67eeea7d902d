"""Sums of a round's gradients: four ways, two results, and what is refused."""

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

import recsys.pads
import recsys.ratings.aggregate_clear
from mpc.core.errors import ParameterError, StateError
from mpc.core.local import LocalNetwork
from recsys.errors import DivergenceError, PrivacyRefusal
from recsys.ratings.aggregate import Aggregation, open_aggregation
from recsys.ratings.config import RatingConfig
from recsys.ratings.gradients import Gradients, RoundSum
from recsys.ratings.pseudo import PseudoItems
from recsys.run import MemoryRun
from recsys.simulation import SimulationRng
from secagg.messages import RoundConfirmed
from tests.recsys.ratings.cohorts import (
    COHORTS,
    ITEMS,
    USERS,
    WEIGHTS,
    WIDTH,
    gradients,
    opened,
    plain_sum,
    train,
)

WAYS = [
    pytest.param({"aggregate": aggregate, "mode": mode}, id=f"{aggregate} {mode}")
    for aggregate in ("secure", "clear")
    for mode in ("protocol", "simulate")
]
AGGREGATES = [
    pytest.param({"aggregate": "secure"}, id="secure"),
    pytest.param({"aggregate": "clear"}, id="clear"),
    pytest.param({"aggregate": "clear", "pseudo": 4}, id="clear with pseudo items"),
    pytest.param(
        {"aggregate": "clear", "pseudo": 4, "pseudo_items": "resampled"},
        id="clear with resampled pseudo items",
    ),
    pytest.param({"aggregate": "secure", "clip": 0.5}, id="clipped"),
    pytest.param({"aggregate": "secure", "ring_bits": 20, "frac_bits": 8}, id="20 bits"),
    pytest.param({"aggregate": "secure", "ring_bits": 64}, id="64 bits"),
]


def rounds(aggregation: Aggregation, numbers: range, seed: int = 0) -> list[RoundSum]:
    """Everybody's sums in some of five rounds."""
    sums = []
    for round_ in numbers:
        aggregation.begin(round_, 5)
        for cohort, members in enumerate(COHORTS):
            sums.append(aggregation.sum(cohort, round_, gradients(members, seed + 7 * round_)))
    return sums


def assert_same(first: list[RoundSum], second: list[RoundSum]) -> None:
    for one, other in zip(first, second, strict=True):
        assert np.array_equal(one.items, other.items)
        assert np.array_equal(one.weights, other.weights)
        assert (one.senders is None) == (other.senders is None)
        if one.senders is not None and other.senders is not None:
            assert np.array_equal(one.senders, other.senders)
        assert one.clipped == other.clipped


def directly(
    config: RatingConfig, cohorts: list[NDArray[np.int32]], pseudo: PseudoItems | None = None
) -> Aggregation:
    sim, run, network = SimulationRng(1), MemoryRun(), LocalNetwork()
    return open_aggregation(config, cohorts, ITEMS, WIDTH, WEIGHTS, sim, run, network, pseudo)


# Results


@pytest.mark.parametrize("way", WAYS)
def test_a_sum_is_that_of_the_reals_but_for_a_step_for_each_client(way: dict[str, Any]) -> None:
    aggregation = opened(**way)
    for cohort, members in enumerate(COHORTS):
        given_ = gradients(members)
        rows, weights = plain_sum(given_)
        found = aggregation.sum(cohort, 0, given_)
        assert np.abs(found.items - rows).max() < members.size * 2.0**-16
        assert np.abs(found.weights - weights).max() < members.size * 2.0**-16
        assert np.all(found.items[rows == 0] == 0)  # items without a rating are 0 exactly
        if way["aggregate"] == "secure":
            assert found.senders is None
        else:
            assert found.senders is not None
            assert np.array_equal(found.senders, np.bincount(given_.items, minlength=ITEMS))


@pytest.mark.parametrize("settings_", AGGREGATES)
@given(seed=st.integers(0, 2**32 - 1))
@settings(max_examples=10)
def test_protocol_and_simulation_give_the_same_sums(settings_: dict[str, Any], seed: int) -> None:
    real, plain = (opened(mode=mode, **settings_) for mode in ("protocol", "simulate"))
    assert_same(rounds(real, range(2), seed), rounds(plain, range(2), seed))
    assert real.clipped == plain.clipped
    if "clip" in settings_:
        assert real.clipped > 0


@pytest.mark.parametrize("settings_", AGGREGATES)
@pytest.mark.parametrize("mode", ["protocol", "simulate"])
def test_a_resumed_run_gives_the_same_sums(settings_: dict[str, Any], mode: str) -> None:
    whole = rounds(opened(mode=mode, **settings_), range(5))
    resumed = rounds(opened(mode=mode, **settings_), range(3, 5))
    assert_same(whole[-len(resumed) :], resumed)


@pytest.mark.parametrize("noise", [{}, {"clip": 0.5, "laplace": 0.5}], ids=["plain", "noisy"])
def test_chunks_over_the_catalogue_change_no_sum(
    monkeypatch: pytest.MonkeyPatch, noise: dict[str, Any]
) -> None:
    """In stretches of which some end within a row, within the weights, or hold both."""
    whole = rounds(opened(mode="protocol", **noise), range(2))
    for size in (1, 6 * 4 * 20, 6 * 4 * 28, 6 * 4 * 31):
        monkeypatch.setattr(recsys.pads, "CHUNK_BYTES", size)
        chunked = rounds(opened(mode="protocol", **noise), range(2))
        if noise:  # the noise is other noise, but of the very same law
            assert len(chunked) == len(whole)
        else:
            assert_same(whole, chunked)


@pytest.mark.parametrize("entries", [1, 30, 60])
@pytest.mark.parametrize("noise", [{}, {"clip": 0.5, "laplace": 0.5}], ids=["plain", "noisy"])
def test_how_many_uploads_are_made_at_a_time_changes_no_sum(
    monkeypatch: pytest.MonkeyPatch, noise: dict[str, Any], entries: int
) -> None:
    """Under a seed: a client's noise is that of (user, round), pseudo gradients come in turn."""
    for mode in ("protocol", "simulate"):
        way = {"aggregate": "clear", "mode": mode, "pseudo": 3, **noise}
        monkeypatch.setattr(recsys.ratings.aggregate_clear, "_PART_ENTRIES", 1 << 21)
        whole = rounds(opened(**way), range(2))
        monkeypatch.setattr(recsys.ratings.aggregate_clear, "_PART_ENTRIES", entries)
        assert_same(whole, rounds(opened(**way), range(2)))


@pytest.mark.parametrize("way", WAYS)
def test_members_without_a_gradient_count_as_zero(way: dict[str, Any]) -> None:
    """With pads they send zeros like everybody; in the clear they send nothing."""
    aggregation = opened(**way)
    few = gradients(COHORTS[1][2:3])
    found = aggregation.sum(1, 0, few)
    assert np.abs(found.items - plain_sum(few)[0]).max() < 2.0**-16
    nobody = aggregation.sum(0, 0, gradients(COHORTS[0][:0]))
    assert not nobody.items.any()
    assert not nobody.weights.any()


def test_cohorts_may_change_in_the_clear() -> None:
    for mode in ("protocol", "simulate"):
        aggregation = opened(aggregate="clear", mode=mode)
        given_ = gradients(np.arange(11, dtype=np.int32))
        found = aggregation.sum(0, 0, given_)
        assert np.abs(found.items - plain_sum(given_)[0]).max() < 11 * 2.0**-16


@pytest.mark.parametrize("way", WAYS)
def test_nothing_but_biases_and_nothing_but_items(way: dict[str, Any]) -> None:
    """A width of 1 (dimension 0), and no shared weights."""
    aggregation = opened(width=1, weights=0, **way)
    given_ = gradients(COHORTS[0], width=1, weights=0)
    found = aggregation.sum(0, 0, given_)
    assert found.items.shape == (ITEMS, 1)
    assert found.weights.shape == (0,)
    assert np.abs(found.items - plain_sum(given_)[0]).max() < 5 * 2.0**-16


@pytest.mark.parametrize("way", WAYS)
def test_clipped_entries_are_counted_over_the_run(way: dict[str, Any]) -> None:
    aggregation = opened(bound=1.5, **way)
    given_ = gradients(COHORTS[0])
    beyond = (np.abs(given_.rows) > 1.5).sum() + (np.abs(given_.weights) > 1.5).sum()
    for round_ in range(2):
        assert aggregation.sum(0, round_, given_).clipped == beyond > 0
    assert aggregation.clipped == 2 * beyond


# What is refused


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("wrong", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("name", ["rows", "weights"])
def test_a_gradient_that_is_not_finite_is_divergence(
    way: dict[str, Any], wrong: float, name: str
) -> None:
    given_ = gradients(COHORTS[0])
    getattr(given_, name)[1, 2] = wrong
    for pseudo in (0, 2) if way["aggregate"] == "clear" else (0,):
        with pytest.raises(DivergenceError, match="a gradient is not finite"):
            opened(pseudo=pseudo, **way).sum(0, 0, given_)


@pytest.mark.parametrize("mode", ["protocol", "simulate"])
def test_a_cohort_below_the_minimum_is_refused(mode: str) -> None:
    with pytest.raises(PrivacyRefusal, match="a cohort of 5 users is below the minimum of 6"):
        opened(mode=mode, min_cohort=6)
    assert opened(mode=mode, min_cohort=5)


@pytest.mark.parametrize("mode", ["protocol", "simulate"])
def test_a_cohort_of_one_is_refused_whatever_the_minimum(mode: str) -> None:
    """Case O22: its sum is the gradient itself. No configuration takes a minimum below 3."""
    with pytest.raises(PrivacyRefusal, match="a cohort of 1 users is below"):
        opened(mode=mode, cohorts=[np.array([4], dtype=np.int32)])
    with pytest.raises(ParameterError, match="min_cohort"):
        opened(mode=mode, min_cohort=1)


@pytest.mark.parametrize("way", WAYS)
def test_no_cohort_at_all_is_refused(way: dict[str, Any]) -> None:
    with pytest.raises(ParameterError, match="at least one cohort"):
        directly(RatingConfig(**way), [])


@pytest.mark.parametrize("mode", ["protocol", "simulate"])
@pytest.mark.parametrize(
    ("changes", "missing"),
    [
        ({"ring_bits": 22}, 2),  # 6 * 16 * 2^16 steps take 23 bits, and one for the sign
        ({"ring_bits": 19, "clip": 0.1, "laplace": 0.2}, 2),
    ],
)
def test_a_ring_too_small_for_the_cohort_is_refused(
    mode: str, changes: dict[str, Any], missing: int
) -> None:
    with pytest.raises(ParameterError, match=f"{missing} more than the ring's"):
        opened(mode=mode, **changes)
    wide = {**changes, "ring_bits": changes["ring_bits"] + missing}
    assert opened(mode=mode, **wide)
    assert opened(mode=mode, aggregate="clear", **changes)  # in the clear there is no ring


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda g: replace(g, items=g.items[:-1]), "rows must have shape"),
        (lambda g: replace(g, starts=g.starts[:-1]), "starts must have shape"),
        (lambda g: replace(g, rows=g.rows[:, :-1]), "rows must have shape"),
        (lambda g: replace(g, weights=g.weights[:, :-1]), "weights must have shape"),
        (lambda g: replace(g, starts=g.starts + 1), "starts must rise from 0"),
        (lambda g: replace(g, items=g.items + 1), r"items must lie in \[0, 9\)"),
        (lambda g: replace(g, items=g.items[::-1].copy()), "distinct and rising"),
        (lambda g: replace(g, items=np.full_like(g.items, 3)), "distinct and rising"),
        (lambda g: replace(g, members=g.members[::-1].copy()), "members must be distinct"),
    ],
)
def test_arrays_that_do_not_fit_together_are_refused(
    way: dict[str, Any], change: Any, message: str
) -> None:
    bad: Gradients = change(gradients(COHORTS[1]))
    with pytest.raises(ParameterError, match=message):
        opened(**way).sum(1, 0, bad)


@pytest.mark.parametrize("mode", ["protocol", "simulate"])
def test_a_client_of_another_cohort_is_refused_with_pads(mode: str) -> None:
    with pytest.raises(ParameterError, match="2 clients are not members of cohort 0"):
        opened(mode=mode).sum(0, 0, gradients(np.array([0, 4, 5, 7], dtype=np.int32)))


def test_a_round_serves_once() -> None:
    aggregation = opened(mode="protocol")
    aggregation.sum(0, 3, gradients(COHORTS[0]))
    for spent in (3, 1):
        with pytest.raises(StateError, match=f"the pads of round {spent} are spent"):
            aggregation.sum(0, spent, gradients(COHORTS[0], 1))


def test_pseudo_items_are_given_if_and_only_if_the_configuration_asks_for_them() -> None:
    keys = np.zeros((USERS, 32), dtype=np.uint8)
    items = PseudoItems(train(), USERS, ITEMS, 3, keys)
    for count, pseudo in ((3, None), (0, items)):
        with pytest.raises(ParameterError, match=f"and only then; it is {count}"):
            directly(RatingConfig(aggregate="clear", pseudo=count), COHORTS, pseudo)


# What it costs


@pytest.mark.parametrize("changes", [{}, {"ring_bits": 64}, {"clip": 0.1, "laplace": 0.2}])
def test_pads_cost_a_formula_in_items_width_weights_and_members(changes: dict[str, Any]) -> None:
    """A vector of n_items * width + n_weights elements, and 49 bytes around it or one more."""
    network = LocalNetwork()
    aggregation = opened(mode="protocol", network=network, **changes)
    rounds(aggregation, range(3))
    word = changes.get("ring_bits", 32) // 8
    payload = (ITEMS * WIDTH + WEIGHTS) * word
    size = payload + (49 if payload < 256 else 50)
    assert aggregation.upload_bytes(0) == aggregation.upload_bytes(ITEMS) == size
    assert opened(mode="simulate", **changes).upload_bytes(2) == size
    sent = {kind: (cost.messages, cost.bytes) for kind, cost in network.traffic.items()}
    assert sent["pads.masked"] == (3 * 11, 3 * 11 * size)
    confirmed = sum(len(RoundConfirmed(bytes(16), round_).to_bytes()) for round_ in range(3))
    assert sent["pads.confirmed"] == (3 * 11, 11 * confirmed)
    assert sent.keys() == {"pads.key", "pads.roster", "pads.masked", "pads.confirmed"}


@pytest.mark.parametrize("pseudo", [0, 2, 100])
@pytest.mark.parametrize(
    ("changes", "word"),
    [({}, 3), ({"frac_bits": 2}, 1), ({"frac_bits": 40}, 6), ({"clip": 0.1, "laplace": 0.2}, 3)],
)
def test_uploads_in_the_clear_cost_a_formula_in_the_items_that_are_sent(
    changes: dict[str, Any], word: int, pseudo: int
) -> None:
    network = LocalNetwork()
    way = {"aggregate": "clear", "pseudo": pseudo, **changes}
    aggregation = opened(mode="protocol", network=network, **way)
    rounds(aggregation, range(1))
    rated = np.diff(train().starts(USERS))
    sent = [min(count + pseudo, ITEMS) for count in rated if count]
    assert network.traffic.keys() == {"ratings.gradients"}
    cost = network.traffic["ratings.gradients"]
    assert cost.messages == len(sent)
    assert cost.bytes == sum(aggregation.upload_bytes(items) for items in sent)
    for items in sent:
        # Below 256 bytes a length takes two bytes; tag, version, session and route the rest.
        assert aggregation.upload_bytes(items) == 52 + 4 * items + (items * WIDTH + WEIGHTS) * word
    assert opened(mode="simulate", **way).upload_bytes(5) == aggregation.upload_bytes(5)


@pytest.mark.parametrize("mode", ["protocol", "simulate"])
def test_simulations_send_nothing(mode: str) -> None:
    for aggregate in ("secure", "clear"):
        network = LocalNetwork()
        rounds(opened(aggregate=aggregate, mode=mode, network=network), range(1))
        assert (network.bytes > 0) == (mode == "protocol")


def test_the_facts_for_a_ledger() -> None:
    facts = opened(mode="simulate", clip=0.1, laplace=0.2).describe()
    assert (facts.aggregate, facts.mode) == ("secure", "simulate")
    assert (facts.smallest, facts.largest) == (5, 6)
    assert facts.coordinates == ITEMS * WIDTH + WEIGHTS
    assert 1 <= facts.epsilon <= 1 + 1e-9
    assert facts.vector_epsilon(10) == pytest.approx(10 * facts.coordinates)
    clear = opened(aggregate="clear", clip=0.1, laplace=0.2).describe()
    assert clear.epsilon == facts.epsilon
    assert clear.vector_epsilon(1) == math.inf  # which items are sent has no finite loss
    assert opened().describe().epsilon == math.inf
    assert opened().describe().vector_epsilon(1) == math.inf
