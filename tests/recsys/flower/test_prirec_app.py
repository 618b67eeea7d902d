"""PriRec over Flower: the model of one process, nodes that leave, trips, what is kept and said."""

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flwr.app import Message

from mpc.core.errors import AbortError
from mpc.relay import Offer
from recsys.array_files import read_arrays
from recsys.errors import PrivacyRefusal
from recsys.flower.prirec import OUR_ARRAYS, STATE
from recsys.flower.prirec_messages import Joined, Table
from recsys.flower.prirec_records import content_of, read_content
from recsys.metrics import user_auc
from recsys.prirec import PriRec
from secagg.full.messages import Step
from tests.recsys.flower.prirec_runs import (
    NODE_IDS,
    NODES,
    SET,
    SMALL,
    WAYS,
    Faults,
    between,
    exchange_in,
    expected,
    grid_of,
    held,
    in_one_process,
    models,
    over_flower,
    prepared_of,
    trained,
    unfinished,
    unreached,
)
from tests.support.flower_grid import Deliver, Fault, altered

TOLERANCE = 1e-12
"""Gradients of other batch shapes, in floating point; the sums themselves are exact."""


# The same model.


@pytest.mark.parametrize("way", WAYS)
def test_the_model_is_that_of_one_process(way: str) -> None:
    """V, POI features and every user's linear model: sums of integers are exact."""
    model, (found, grid) = expected(way), trained(way)
    assert np.array_equal(found.features.poi, model.features.poi)
    assert found.v == pytest.approx(model.state["v"], abs=TOLERANCE)
    assert models(grid) == pytest.approx(model.state["w"], abs=TOLERANCE)


def test_the_ways_differ() -> None:
    """Otherwise the test above would show less than it seems to."""
    assert len({trained(way)[0].v.tobytes() for way in WAYS}) == len(WAYS)
    assert trained("homes")[0].unmixed > 0
    assert trained("one-round")[0].unmixed == 0


@pytest.mark.parametrize("way", ["one-round", "three-rounds", "homes"])
def test_the_loss_falls(way: str) -> None:
    losses = [float(epoch.loss or 0.0) for epoch in trained(way)[0].history]
    assert min(losses) > 0
    assert losses == sorted(losses, reverse=True)


def test_figures_are_those_of_one_process() -> None:
    """The mean of users' AUCs on the test part, added up over nodes that no one looks into.

    Scored with each user's model after the last round, and the V that it was computed at.
    """
    run = {**SMALL, "epochs": 1}
    grid = grid_of(run)
    between(grid, unfinished)
    found = over_flower(grid)
    test = prepared_of(run).test
    model = in_one_process({**run, "learning-rate-v": 1e-18})  # V stays as it was pulled
    scores = model.scorer.score(model.state.arrays, test.users, test.pois)
    area = user_auc(test.users, test.labels, scores)
    assert found.history[-1].auc == pytest.approx(area, abs=1e-3)


# Trips.


@pytest.mark.parametrize(("way", "each_epoch"), [("one-round", 1), ("three-rounds", 2)])
def test_one_trip_for_the_linear_models_in_an_epoch(way: str, each_epoch: int) -> None:
    """Two with several rounds: letters need the models of after the last one."""
    grid = trained(way)[1]
    trips = Counter(
        passed.request.metadata.message_type for passed in grid.passed if passed.node == NODE_IDS[0]
    )
    epochs = {**SMALL, **WAYS[way]}["epochs"]
    assert trips["query.join"] == 1
    assert trips["query.exchange"] == each_epoch * epochs


def test_no_letter_is_written_for_an_epoch_that_never_comes() -> None:
    grid = trained("one-round")[1]
    answered = [
        passed.reply
        for passed in grid.passed
        if passed.request.metadata.message_type == "query.exchange"
    ]
    sizes = [len(letters_of(reply)) for reply in answered if reply is not None]
    assert all(sizes[: -len(NODE_IDS)])
    assert not any(sizes[-len(NODE_IDS) :])


def letters_of(message: Message) -> bytes:
    _, told = read_content(message.content)
    return told["letters"].tobytes() if "letters" in told else b""


# Nodes that leave.


def test_a_node_that_leaves_a_round_is_not_in_its_sum() -> None:
    """V moves by the sum of the rest, and the node's users by their own gradients all the same."""
    grid = grid_of(SMALL)
    between(grid, unfinished)
    grid.on(NODE_IDS[2], Step.MASKED_INPUT, Fault.UNAVAILABLE, round=1)
    found = over_flower(grid)
    model = in_one_process(SMALL, Faults({1: (2,)}, {}, {}))
    assert found.v == pytest.approx(model.state["v"], abs=TOLERANCE)
    assert models(grid) == pytest.approx(model.state["w"], abs=TOLERANCE)
    assert not np.array_equal(found.v, trained("one-round")[0].v)


def test_a_round_without_a_sum_leaves_v_alone() -> None:
    grid = grid_of({**SMALL, "epochs": 2})
    between(grid, unfinished)
    for node in NODE_IDS[:6]:
        grid.on(node, Step.MASKED_INPUT, Fault.UNAVAILABLE, round=0)
    found = over_flower(grid)
    model = in_one_process({**SMALL, "epochs": 2}, Faults({0: tuple(range(NODES))}, {}, {}))
    assert found.failed == 1
    assert found.history[0].loss is None
    assert found.v == pytest.approx(model.state["v"], abs=TOLERANCE)


def test_who_misses_an_exchange_keeps_its_models_and_so_do_those_it_writes_to() -> None:
    """In the epoch of the exchange its own users do not mix, in the next those who need it."""

    def query(index: int, trip: str, message: Message, deliver: Deliver) -> Message | None:
        missed = index == 3 and trip == "exchange" and exchange_in(message)[0].epoch == 1
        return unreached(message) if missed else unfinished(index, trip, message, deliver)

    grid = grid_of({**SMALL, "epochs": 4})
    between(grid, query)
    found = over_flower(grid)
    model = in_one_process({**SMALL, "epochs": 4}, Faults({}, {1: (3,)}, {}))
    assert found.v == pytest.approx(model.state["v"], abs=TOLERANCE)
    assert models(grid) == pytest.approx(model.state["w"], abs=TOLERANCE)
    undisturbed = in_one_process({**SMALL, "epochs": 4})
    assert not np.array_equal(model.state["w"], undisturbed.state["w"])


def test_training_goes_on_without_a_node_that_died() -> None:
    def query(index: int, trip: str, message: Message, deliver: Deliver) -> Message | None:
        if index == 5 and trip == "exchange" and exchange_in(message)[0].epoch == 1:
            grid.dead.add(NODE_IDS[5])
        return unreached(message) if NODE_IDS[index] in grid.dead else deliver(message)

    grid = grid_of({**SMALL, "epochs": 4})
    between(grid, query)
    found = over_flower(grid)
    assert found.failed == 0
    assert [epoch.epoch for epoch in found.history] == [1, 2, 3, 4]
    assert None not in [epoch.loss for epoch in found.history]


def test_rounds_that_never_give_a_sum_end_the_training() -> None:
    grid = grid_of({**SMALL, "epochs": 9})
    for node in NODE_IDS[:6]:
        grid.on(node, Step.MASKED_INPUT, Fault.UNAVAILABLE)
    with pytest.raises(AbortError, match="3 rounds in a row gave no sum"):
        over_flower(grid)


def test_too_few_nodes_that_join_are_no_federation() -> None:
    grid = grid_of({**SMALL, "nodes": NODES})
    between(grid, lambda index, *rest: unreached(rest[1]) if index == 0 else rest[2](rest[1]))
    with pytest.raises(AbortError, match=f"{NODES - 1} of {NODES} nodes have joined"):
        over_flower(grid)


NONSENSE: dict[str, Callable[[bytes, Table], tuple[bytes, Table]]] = {
    "no message": lambda data, told: (b"nonsense", told),
    "another session": lambda data, told: (joined_with(data, session=bytes(16)), told),
    "no users": lambda data, told: (Joined(Joined.from_bytes(data).offer, 0).to_bytes(), told),
    "a user twice": lambda data, told: (data, {**told, "ids": told["ids"] * 0}),
    "more visits than users": lambda data, told: (data, {**told, "ones": told["ones"] + 9}),
    "bits of other questions": lambda data, told: (data, {**told, "ones": told["ones"][:, 1:]}),
}


def joined_with(data: bytes, *, session: bytes) -> bytes:
    joined = Joined.from_bytes(data)
    offer = Offer.from_bytes(joined.offer)
    return Joined(Offer(session, offer.party, offer.public).to_bytes(), joined.users).to_bytes()


@pytest.mark.parametrize("change", NONSENSE.values(), ids=NONSENSE)
def test_a_node_that_makes_no_sense_is_left_out(
    change: Callable[[bytes, Table], tuple[bytes, Table]],
) -> None:
    """The others go on: no node can end everybody's training by what it says."""

    def query(index: int, trip: str, message: Message, deliver: Deliver) -> Message | None:
        reply = deliver(message)
        if index == 4 and trip == "join" and reply is not None:
            return altered(reply, content_of(*change(*read_content(reply.content))))
        return reply

    grid = grid_of({**SMALL, "epochs": 1})
    between(grid, query)
    found = over_flower(grid)
    assert (found.nodes, found.users, found.failed) == (NODES - 1, 56, 0)


def test_who_comes_later_takes_no_part() -> None:
    """A node that had not joined is asked for nothing more."""
    grid = grid_of(SMALL)
    between(grid, lambda index, *rest: unreached(rest[1]) if index == 7 else rest[2](rest[1]))
    found = over_flower(grid)
    assert found.nodes == NODES - 1
    assert not [passed for passed in grid.passed if passed.node == NODE_IDS[7]]


# Refusals of the recommender.


def test_users_whose_sums_would_tell_too_much_are_refused_or_left_alone() -> None:
    with pytest.raises(PrivacyRefusal, match="of 64 users live on one or two other nodes"):
        over_flower(grid_of({**SMALL, "neighbours": 3, "few-nodes": "refuse"}))
    grid = grid_of({**SMALL, "neighbours": 3})
    between(grid, unfinished)
    found = over_flower(grid)
    model = in_one_process({**SMALL, "neighbours": 3})
    assert found.unmixed == sum(0 < len(others(model, user)) < 3 for user in range(64)) > 0
    assert models(grid) == pytest.approx(model.state["w"], abs=TOLERANCE)


def test_where_nobody_could_mix_nothing_is_trained() -> None:
    with pytest.raises(PrivacyRefusal, match="the neighbours of 64 of 64 users"):
        over_flower(grid_of(SMALL, 3))


def others(model: Any, user: int) -> set[int]:
    return set((model.network.neighbours[user] % NODES).tolist()) - {user % NODES}


def test_fewer_users_than_a_cohort_needs_are_refused() -> None:
    with pytest.raises(PrivacyRefusal, match="64 users are below the minimum of 65"):
        over_flower(grid_of({**SMALL, "min-cohort": 65}))


# What is left.


def test_nothing_of_the_session_is_left_on_a_node() -> None:
    grid = grid_of({**SMALL, "epochs": 1})
    over_flower(grid)
    for node in NODE_IDS:
        assert STATE not in grid.state(node)
        assert OUR_ARRAYS not in grid.state(node)


def test_a_node_with_a_folder_has_its_own_model_in_the_end(tmp_path: Path) -> None:
    """As ``privrec recommend`` reads it, with its own users and nobody else's."""
    nodes = {
        node: {"partition-id": i, "num-partitions": NODES, "privrec-folder": str(tmp_path / str(i))}
        for i, node in enumerate(NODE_IDS)
    }
    run = {**SMALL, "epochs": 2, "out": str(tmp_path / "out")}
    found = over_flower(grid_of(run, nodes))
    model, prepared = in_one_process(run), prepared_of(run)
    for index in range(NODES):
        files = PriRec.load(tmp_path / str(index)).files
        own = np.arange(index, prepared.n_users, NODES)
        assert files.user_ids == tuple(prepared.user_ids[user] for user in own)
        assert files.arrays["w"] == pytest.approx(model.state["w"][own], abs=TOLERANCE)
        assert np.array_equal(files.arrays["v"], found.v)
    user = prepared.user_ids[3]
    recommended = PriRec.load(tmp_path / "3").recommend(user, k=5)
    known = prepared.history.keys // prepared.n_pois == 3
    visited = {prepared.poi_ids[key % prepared.n_pois] for key in prepared.history.keys[known]}
    assert len(recommended) == 5
    assert not visited & {place.poi for place in recommended}
    saved = read_arrays(tmp_path / "out" / "recommender" / "model.npz")
    assert np.array_equal(saved["v"], found.v)
    assert not any("w" in name for name in saved)
    told = json.loads((tmp_path / "out" / "public" / "metrics.json").read_text())
    assert told["users"] == 64
    assert len(told["history"]) == 2


def test_a_node_holds_its_own_users_alone() -> None:
    grid = trained("one-round")[1]
    prepared = prepared_of(SMALL)
    for index in range(NODES):
        arrays = held(grid, index)
        own = np.arange(index, prepared.n_users, NODES)
        mine = np.isin(prepared.train.users, own)
        assert arrays["train.pois"].tolist() == prepared.train.pois[mine].tolist()
        assert arrays["train.labels"].tolist() == prepared.train.labels[mine].tolist()
        assert arrays["w"].shape[0] == own.size


def test_the_set_is_what_the_tests_take_it_for() -> None:
    assert SMALL["data"] == SET
    assert prepared_of(SMALL).n_users == 64
