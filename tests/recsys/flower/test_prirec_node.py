"""A node of PriRec by itself: what it computes once, what it refuses, what survives a crash."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flwr.app import ConfigRecord, Message

from mpc.core.errors import StateError, WireError
from mpc.relay import Letter, Mailbox
from recsys.errors import DivergenceError
from recsys.flower.prirec import STATE
from recsys.flower.prirec_messages import Exchange, Finish, Setup, Table, settings_of
from recsys.flower.prirec_node import PriRecNode
from recsys.flower.prirec_records import content_of, read_content
from recsys.flower.prirec_scores import AUC, AUC_USERS, LOSS, MOST_LOSS, NAMES, USERS, bounds
from tests.recsys.flower.prirec_runs import (
    NODE_IDS,
    NODES,
    SMALL,
    between,
    exchange_in,
    grid_of,
    held,
    over_flower,
    trained,
    unfinished,
    unreached,
    with_arrays,
)
from tests.support.flower_grid import Deliver, LocalGrid

AT = 3
"""The node that is looked at."""

Spoil = Callable[[Table], Any]


class Ready(Exception):
    """The node has been asked what a test wants to ask it in another way."""


def asked(epoch: int, run: dict[str, Any] | None = None) -> tuple[LocalGrid, Exchange, Table]:
    """A grid whose node is about to get the exchange of an epoch, and that exchange."""
    found: list[tuple[Exchange, Table]] = []

    def query(index: int, trip: str, message: Message, deliver: Deliver) -> Message | None:
        if index == AT and trip == "exchange" and exchange_in(message)[0].epoch == epoch:
            found.append(exchange_in(message))
            raise Ready
        return deliver(message)

    grid = grid_of(SMALL if run is None else run)
    between(grid, query)
    with pytest.raises(Ready):
        over_flower(grid)
    return grid, *found[0]


def node_in(grid: LocalGrid, index: int = AT) -> PriRecNode:
    record = grid.state(NODE_IDS[index])[STATE]
    assert isinstance(record, ConfigRecord)
    data = record["data"]
    assert isinstance(data, bytes)
    return PriRecNode.resume(data, held(grid, index))


def set_up(epoch: int = 0) -> tuple[PriRecNode, Exchange, Table]:
    grid, message, told = asked(epoch)
    node = node_in(grid)
    if message.setup:
        node.set_up(Setup.from_bytes(message.setup), told)
    return node, message, told


# Once, and forwards.


def test_a_round_is_computed_once_and_in_order() -> None:
    node, message, told = set_up()
    node.exchange(message, told)
    before = node.arrays["w"].copy()
    for epoch, round_ in ((0, 0), (0, 5), (SMALL["epochs"], 0)):
        again = Exchange(message.session, epoch, round_)
        with pytest.raises(StateError):
            node.exchange(again, told)
    assert np.array_equal(node.arrays["w"], before)


def test_an_epoch_may_be_left_out_but_not_taken_up_again() -> None:
    node, message, told = set_up()
    node.exchange(Exchange(message.session, 1, 0), told)
    with pytest.raises(StateError, match="was computed before, or passed"):
        node.exchange(message, told)


def test_gradients_are_those_of_the_exchange_and_of_its_v() -> None:
    node, message, told = set_up()
    node.exchange(message, told)
    first, again = (node.gradients(0, 0, told["v"]) for _ in range(2))
    assert np.array_equal(first.gradients, again.gradients)
    assert first.gradients.any()
    other = told["v"] + 1e-9
    with pytest.raises(StateError, match="computed at another V"):
        node.gradients(0, 0, other)


def test_without_an_exchange_the_round_is_computed_where_it_is_summed() -> None:
    """The same gradients, for what has not been mixed."""
    node, message, told = set_up()
    other, _, _ = set_up()
    node.exchange(message, told)
    late = other.gradients(0, 0, told["v"])
    assert late.figures == node.gradients(0, 0, told["v"]).figures
    assert np.array_equal(late.gradients, node.gradients(0, 0, told["v"]).gradients)
    with pytest.raises(StateError):
        other.exchange(message, told)


def test_entries_lie_on_the_grid_and_each_user_s_within_the_clip() -> None:
    node, message, told = set_up()
    node.exchange(message, told)
    found = node.gradients(0, 0, told["v"]).gradients
    steps = found * 2.0**16
    assert np.array_equal(steps, np.rint(steps))
    users = node.arrays["ids"].size
    assert np.abs(found).max() <= users * node.config.clip


# What does not fit.


SPOILT: dict[str, Spoil] = {
    "v of another shape": lambda told: told.update(v=told["v"][1:]),
    "v of another type": lambda told: told.update(v=told["v"].astype(np.int64)),
    "v with a NaN": lambda told: told["v"].__setitem__((0, 0), np.nan),
    "no v": lambda told: told.pop("v"),
    "letters of another type": lambda told: told.update(letters=np.zeros(3)),
}


@pytest.mark.parametrize("spoil", SPOILT.values(), ids=SPOILT)
def test_arrays_that_do_not_fit_are_refused(spoil: Spoil) -> None:
    node, message, told = set_up(1)
    w = node.arrays["w"].copy()
    spoil(told)
    with pytest.raises(WireError):
        node.exchange(message, told)
    assert np.array_equal(node.arrays["w"], w)


WRONG_SETUPS: dict[str, Spoil] = {
    "ids that are too few": lambda told: told.update(ids=told["ids"][1:]),
    "one id twice": lambda told: told["ids"].__setitem__(0, told["ids"][1]),
    "somebody else's id": lambda told: told["ids"].__setitem__(0, 2**20),
    "features of too few POIs": lambda told: told.update(poi=told["poi"][1:]),
    "an infinite feature": lambda told: told["poi"].__setitem__((0, 0), np.inf),
    "rows that do not fit": lambda told: told.update({"rows.own": told["rows.own"][1:]}),
    "no rows": lambda told: told.pop("rows.weights"),
}


@pytest.mark.parametrize("spoil", WRONG_SETUPS.values(), ids=WRONG_SETUPS)
def test_a_setup_that_does_not_fit_is_refused(spoil: Spoil) -> None:
    grid, message, told = asked(0)
    node = node_in(grid)
    spoil(told)
    with pytest.raises(WireError):
        node.set_up(Setup.from_bytes(message.setup), told)
    with pytest.raises(StateError, match="has not been set up"):
        node.exchange(message, told)


def test_a_setup_that_comes_twice_is_passed_over() -> None:
    node, message, _ = set_up()
    peers = node._box.peers
    node.set_up(Setup.from_bytes(message.setup), {})
    assert node._box.peers == peers


def test_nodes_that_were_told_different_settings_share_no_key() -> None:
    """So a server cannot have one of them scale its models otherwise."""
    grid, message, told = asked(0)
    nodes = [node_in(grid, index) for index in range(NODES)]
    node = nodes[AT]
    changed = replace(node.config, frac_bits=8)
    joining = node.joining
    other = type(joining)(
        joining.session,
        joining.party,
        settings_of(changed),
        joining.data,
        joining.poi_ids,
        joining.category_names,
    )
    twin = node_in(grid)
    twin.joining = other
    setup = Setup.from_bytes(message.setup)
    node.set_up(setup, dict(told))
    twin.set_up(setup, dict(told))
    peer = node._box.peers[0]
    keys = [box.begin(1).key(peer, "x") for box in (node._box, twin._box)]
    assert keys[0] != keys[1]


def test_a_model_that_leaves_every_range_ends_in_divergence() -> None:
    node, message, told = set_up()
    told["v"] = np.full_like(told["v"], 1e300)
    with pytest.raises(DivergenceError), np.errstate(all="ignore"):
        node.exchange(message, told)


# From outside.


@pytest.mark.parametrize(
    "content",
    [
        lambda s: content_of(Exchange(bytes(16), 0, 0), {}),
        lambda s: content_of(Finish(bytes(16)), {}),
        lambda s: content_of(b"", {}),
        lambda s: content_of(b"\x01nonsense", {}),
    ],
    ids=["another session", "another end", "nothing", "nonsense"],
)
def test_a_node_tells_the_server_no_reason(content: Callable[[bytes], Any]) -> None:
    grid = grid_of({**SMALL, "epochs": 1})
    between(grid, unfinished)
    over_flower(grid)
    before = grid.state(NODE_IDS[AT])[STATE]
    for trip in ("exchange", "finish", "join"):
        reply = grid.deliver(grid.forged(content(b""), NODE_IDS[AT], kind=f"query.{trip}"))
        assert reply is not None
        assert reply.has_error()
        assert reply.error.reason == "prirec: this node's own log says why"
    assert grid.state(NODE_IDS[AT])[STATE] == before


# After a crash.


def crashing(folder: Path | None) -> tuple[Message, Message]:
    """What a node answers to an exchange, and then to one with another V, for it has forgotten.

    The reply has left, and the state was not stored: so Flower does it in deployment.
    """
    replies: list[Message] = []

    def query(index: int, trip: str, message: Message, deliver: Deliver) -> Message | None:
        if index != AT or trip != "exchange" or exchange_in(message)[0].epoch != 1:
            return deliver(message)
        before, (_, told) = grid.states[NODE_IDS[AT]], exchange_in(message)
        for v in (told["v"], 2 * told["v"]):
            reply = deliver(with_arrays(message, {**told, "v": v}))
            assert reply is not None
            replies.append(reply)
            grid.states[NODE_IDS[AT]] = before
        return unreached(message)

    nodes: dict[int, Any] = {}
    for index, node in enumerate(NODE_IDS):
        nodes[node] = {"partition-id": index, "num-partitions": NODES}
        if folder is not None:
            nodes[node]["privrec-folder"] = str(folder / str(index))
    grid = grid_of(SMALL, nodes)
    between(grid, query)
    over_flower(grid)
    return replies[0], replies[1]


def test_after_a_crash_no_letter_is_written_twice(tmp_path: Path) -> None:
    first, second = crashing(tmp_path)
    assert first.has_content()
    assert second.has_error()


def test_without_a_folder_two_letters_lie_under_one_key() -> None:
    """The twin: where their contents agree, so do their ciphertexts, and where not, they differ by
    just that. Simulations need no folder, since there nothing goes back."""
    size, sealed = trained("one-round")[0].letter, []
    for reply in crashing(None):
        _, told = read_content(reply.content)
        sealed.append(Letter.from_bytes(told["letters"].tobytes()[:size]).sealed)
    assert sealed[0] != sealed[1]
    assert sealed[0][:40] == sealed[1][:40]  # 2^-320 by chance


# Figures.


def test_figures_are_bounded_whatever_the_models_say() -> None:
    node, message, told = set_up()
    node.exchange(message, told)
    users = node.arrays["ids"].size
    node.arrays["w"][...] = 1e6  # certain, and often wrong
    found = node.gradients(0, 0, told["v"], "validation").figures
    assert set(found) == set(NAMES)
    most = bounds(users)
    assert all(0 <= found[name] <= most[name] for name in NAMES)
    assert found["held-out-loss"] >= MOST_LOSS
    assert 0 <= found[AUC] <= found[AUC_USERS] <= users
    assert found[LOSS] > 0
    assert found[USERS] == users


def test_no_held_out_pairs_no_figures() -> None:
    node, message, told = set_up()
    node.exchange(message, told)
    for part in ("users", "pois", "labels"):
        node.arrays[f"validation.{part}"] = node.arrays[f"validation.{part}"][:0]
    found = node.gradients(0, 0, told["v"], "validation").figures
    assert found["held-out-users"] == found[AUC_USERS] == 0


def test_nothing_secret_is_shown() -> None:
    node, _, _ = set_up()
    assert repr(node) == f"PriRecNode(party={node._box.party}, users={node.arrays['ids'].size})"
    assert isinstance(node._box, Mailbox)
