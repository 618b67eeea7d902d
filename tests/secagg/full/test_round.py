"""Whole rounds: the right sum over the survivors, or the stated refusal, whoever leaves when."""

import itertools
from typing import Any

import numpy as np
import pytest

from mpc.core.errors import AbortError
from mpc.core.local import LocalNetwork
from secagg import graph as graphs
from secagg.full.messages import MaskedInput, Step
from secagg.full.params import Variant
from secagg.full.run import LocalRound, run_round
from tests.secagg.full.world import CLIENTS, VARIANTS, Circle, inputs, local, params, run, total

STEPS = (Step.ADVERTISE_KEYS, Step.SHARE_KEYS, Step.MASKED_INPUT, Step.UNMASKING)


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("bits", [1, 7, 8, 13, 16, 31, 32, 33, 63, 64])
def test_the_sum_is_exact_in_every_ring(variant: Variant, bits: int) -> None:
    agreed = params(bits=bits, variant=variant)
    outcome = run(agreed)
    assert outcome.survivors == CLIENTS
    assert outcome.total.dtype == agreed.ring.dtype
    assert np.array_equal(outcome.total, total(agreed, inputs(agreed), CLIENTS))


@pytest.mark.parametrize("dim", [1, 2, 1000, 200_001])
def test_the_sum_is_exact_in_every_dimension(dim: int) -> None:
    agreed = params(dim=dim)
    assert np.array_equal(run(agreed).total, total(agreed, inputs(agreed), CLIENTS))


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("step", [*STEPS, Step.CONSISTENCY_CHECK], ids=lambda step: step.name)
@pytest.mark.parametrize("gone", [(2,), (9, 40)], ids=str)
def test_drop_outs_of_one_step(variant: Variant, step: Step, gone: tuple[int, ...]) -> None:
    agreed = params(variant=variant)
    outcome = run(agreed, {step: gone})
    left = tuple(client for client in CLIENTS if client not in gone)
    survivors = left if step <= Step.MASKED_INPUT else CLIENTS
    assert outcome.survivors == survivors
    assert np.array_equal(outcome.total, total(agreed, inputs(agreed), survivors))


@pytest.mark.parametrize(("variant", "n"), [("semi-honest", 4), ("malicious", 3)])
def test_every_pattern_of_a_few_clients(variant: Variant, n: int) -> None:
    """Each client stays or leaves in one of the steps: the sum over U_3, or AbortError."""
    clients = tuple(range(1, n + 1))
    agreed = params(clients, threshold=3, dim=2, variant=variant)
    x = inputs(agreed)
    for pattern in itertools.product([None, *STEPS], repeat=n):
        drop_outs = {
            step: [c for c, s in zip(clients, pattern, strict=True) if s is step] for step in STEPS
        }
        alive = [sum(s is None or s > step for s in pattern) for step in STEPS]
        if min(alive) < 3:
            with pytest.raises(AbortError, match="of 3 needed"):
                run(agreed, drop_outs)
            continue
        survivors = tuple(
            c for c, s in zip(clients, pattern, strict=True) if s is None or s > Step.MASKED_INPUT
        )
        outcome = run(agreed, drop_outs)
        assert outcome.survivors == survivors
        assert np.array_equal(outcome.total, total(agreed, x, survivors))


class TestCaseO16:
    """5 clients with 1, 2, 4, 8, 16; threshold 3; client 3 leaves at each step."""

    clients = (1, 2, 3, 4, 5)

    def sum(self, variant: Variant, drop_outs: dict[Step, Any]) -> int:
        agreed = params(self.clients, dim=1, variant=variant)
        x = {c: np.array([2 ** (c - 1)], np.uint32) for c in self.clients}
        return int(run_round(agreed, x, drop_outs=drop_outs).total[0])

    @pytest.mark.parametrize("variant", VARIANTS)
    @pytest.mark.parametrize(
        ("step", "right"),
        [
            (Step.ADVERTISE_KEYS, 27),
            (Step.SHARE_KEYS, 27),
            (Step.MASKED_INPUT, 27),
            (Step.CONSISTENCY_CHECK, 31),
            (Step.UNMASKING, 31),
        ],
    )
    def test_one_leaves(self, variant: Variant, step: Step, right: int) -> None:
        assert self.sum(variant, {step: {3}}) == right

    @pytest.mark.parametrize("variant", VARIANTS)
    @pytest.mark.parametrize("step", STEPS, ids=lambda step: step.name)
    def test_three_leave(self, variant: Variant, step: Step) -> None:
        with pytest.raises(AbortError) as caught:
            self.sum(variant, {step: {2, 3, 5}})
        assert f"step {step:d}, {step.title}" in str(caught.value)
        assert "2 of 3 needed" in str(caught.value)
        assert "missing clients [2, 3, 5]" in str(caught.value)


def test_an_aborted_round_shows_no_partial_sum() -> None:
    parties = local(params(), drop_outs={Step.UNMASKING: CLIENTS[:3]})
    with pytest.raises(AbortError):
        parties.run()
    assert parties.server.step is Step.ABORTED
    assert not parties.server._state.total.any()
    assert not parties.server._state.opened


# Sparse graphs.

TWELVE = tuple(range(10, 130, 10))


def test_a_sparse_round_with_drop_outs_in_every_step() -> None:
    agreed = params(TWELVE, threshold=3, graph=Circle(TWELVE, 3))
    gone = {Step.ADVERTISE_KEYS: {20}, Step.SHARE_KEYS: {60}, Step.MASKED_INPUT: {90}}
    outcome = run(agreed, {**gone, Step.UNMASKING: {120}})
    left = tuple(client for client in TWELVE if client not in (20, 60, 90))
    assert outcome.survivors == left
    assert np.array_equal(outcome.total, total(agreed, inputs(agreed), left))


@pytest.mark.parametrize("seed", range(5))
def test_a_random_graph_of_the_planner(seed: int) -> None:
    """Three leave, so that each of the others keeps at least five of its eight neighbours."""
    clients = tuple(range(3, 63, 2))
    agreed = params(clients, threshold=4, graph=graphs.sparse(clients, 8))
    gone = np.random.default_rng(seed).choice(clients, 3, replace=False).tolist()
    outcome = run(agreed, {Step.MASKED_INPUT: gone[:2], Step.UNMASKING: gone[2:]})
    left = tuple(client for client in clients if client not in gone[:2])
    assert np.array_equal(outcome.total, total(agreed, inputs(agreed), left))


def test_a_graph_object_that_is_complete_is_the_complete_graph() -> None:
    with_graph = params(graph=graphs.complete(CLIENTS))
    assert with_graph.neighbourhoods.complete
    assert with_graph.digest == params().digest
    malicious = params(graph=graphs.complete(CLIENTS), variant="malicious")
    assert np.array_equal(run(malicious).total, total(malicious, inputs(malicious), CLIENTS))


def test_clients_left_alone_are_left_out_before_they_share() -> None:
    """Client 50 keeps one neighbour of two: too few for the threshold of three."""
    agreed = params(TWELVE, threshold=3, graph=Circle(TWELVE, 1))
    with pytest.raises(AbortError, match=r"step 1, AdvertiseKeys: 0 of 3 needed"):
        # In a ring with t = 3, one gap spreads: each neighbour of a gap is itself too lonely.
        run(agreed, {Step.ADVERTISE_KEYS: {50}})
    wider = params(TWELVE, threshold=4, graph=Circle(TWELVE, 2))
    outcome = run(wider, {Step.ADVERTISE_KEYS: {50}, Step.MASKED_INPUT: {120}})
    left = tuple(client for client in TWELVE if client not in (50, 120))
    assert outcome.survivors == left
    assert np.array_equal(outcome.total, total(wider, inputs(wider), left))


class Groups:
    """Groups of four, each complete, with nothing between them."""

    def neighbours(self, client: int) -> tuple[int, ...]:
        group = TWELVE.index(client) // 4
        return tuple(c for c in TWELVE[4 * group : 4 * group + 4] if c != client)


def test_a_dropped_client_without_surviving_neighbours_needs_no_key() -> None:
    """All its masks were shared with clients whose inputs are missing too."""
    agreed = params(TWELVE, threshold=3, graph=Groups())
    outcome = run(agreed, {Step.MASKED_INPUT: TWELVE[4:8]})
    left = TWELVE[:4] + TWELVE[8:]
    assert outcome.survivors == left
    assert np.array_equal(outcome.total, total(agreed, inputs(agreed), left))


def test_masked_inputs_have_one_size_and_are_not_the_inputs() -> None:
    agreed = params()
    network = LocalNetwork(record=True)
    local(agreed, network=network).run()
    sent = [d for d in network.view(-1) if d.kind == "MaskedInput"]
    assert {len(delivery.data) for delivery in sent} == {agreed.message_bytes[MaskedInput]}
    x = inputs(agreed)
    for delivery in sent:
        message = agreed.decode(MaskedInput, delivery.data)
        assert message.payload != agreed.ring.to_bytes(x[message.client])
        assert delivery.round == 2


def test_two_rounds_share_no_byte_of_any_mask() -> None:
    """The same inputs, session and parties: all masked inputs differ in every word."""
    views = []
    for round in (0, 1):
        network = LocalNetwork(record=True)
        agreed = params(round=round, bits=64, dim=50)
        LocalRound(agreed, inputs(agreed), network=network).run()
        views.append([d.data for d in network.view(-1) if d.kind == "MaskedInput"])
    for first, second in zip(*views, strict=True):
        a, b = (np.frombuffer(data[-400:], "<u8") for data in (first, second))
        assert not (a == b).any()
