"""What a node of FedGNN sends: nothing in the clear, nothing of what its users hold."""

from collections.abc import Mapping

import numpy as np
import pytest
from flwr.app import ArrayRecord, Message, MetricRecord

from mpc.core.errors import ParameterError
from recsys.data.rating_catalogue import resolve
from recsys.errors import PrivacyRefusal
from recsys.flower.fedgnn_task import Task
from recsys.flower.node_memory import NodeRun
from secagg.flower.records import RECORD, VECTOR
from secagg.full.messages import Step
from tests.recsys.flower.fedgnn_runs import (
    ITEMS,
    NODE_IDS,
    NODES,
    SET,
    SMALL,
    STEPS,
    USERS,
    Plain,
    trained,
)
from tests.support.flower_grid import LocalGrid

TRAINING_ROUND = 1
"""The round after the one that counts."""


def sent(grid: LocalGrid, node: int) -> list[Message]:
    """Everything that left a node."""
    return [one.reply for one in grid.passed if one.node == node and one.reply is not None]


def carried(message: Message) -> bytes:
    """All bytes of a message's records, and its numbers and texts as they are written."""
    parts: list[bytes] = []
    for record in message.content.values():
        for value in record.values():
            if isinstance(record, ArrayRecord):
                parts.append(value.data)  # type: ignore[union-attr]
            else:
                parts.append(value if isinstance(value, bytes) else repr(value).encode())
    return b"|".join(parts)


@pytest.mark.parametrize("way", ["sums", "steps", "sums-noise", "uploads-noise-pseudo"])
def test_nodes_send_records_of_secagg_and_no_others(way: str) -> None:
    _, grid = trained(way)
    messages = [message for node in NODE_IDS for message in sent(grid, node)]
    assert len(messages) > 4 * NODES
    for message in messages:
        assert not message.has_error()
        assert set(message.content) <= {RECORD, VECTOR}
        assert not any(isinstance(record, MetricRecord) for record in message.content.values())


def unrated(node: int) -> int:
    """How many of the items nobody on a node rated."""
    triples = resolve(SET).triples
    return ITEMS - np.unique(triples.items[triples.users % NODES == node]).size


def share_of_zeros(payload: bytes) -> float:
    return payload.count(b"\0") / len(payload)


def masked(node: int) -> bytes:
    """What a node put into the sum of the first training round."""
    _, grid = trained("biases")
    (payload,) = [
        carried(one.reply)
        for one in grid.passed
        if (one.node, one.step, one.round) == (NODE_IDS[node], Step.MASKED_INPUT, TRAINING_ROUND)
        and one.reply is not None
    ]
    return payload


def bare(node: int) -> bytes:
    """The same without its mask, from one user alone: a broken twin."""
    plain = Plain({**SMALL, "dim": 0})
    plain.configs[node] = {"partition-id": node, "num-partitions": USERS}
    arrays = {"items": np.zeros((ITEMS, 1))}
    task = Task(batch=0, node_users=USERS, node_ratings=USERS * ITEMS, mean=3.0)
    found = plain.found(node, arrays, task).arrays["items"]
    return (found * 2**16).astype("<i8").tobytes()


def test_a_masked_vector_does_not_tell_rated_items_from_others() -> None:
    """Of uniform bytes one in 256 is zero; where most items are unrated, most are."""
    for node in range(NODES):
        assert share_of_zeros(masked(node)) < 0.1
        assert share_of_zeros(bare(node)) > 0.5


def test_what_users_hold_is_in_no_message() -> None:
    _, grid = trained("steps")
    for index, node in enumerate(NODE_IDS):
        state = grid.state(node)
        key = state.config_records["privrec.key"]["key"]
        assert isinstance(key, bytes)
        held = state.array_records["privrec.own"]["users"].numpy()
        mine = [row.tobytes() for row in held[np.arange(USERS) % NODES == index]]
        secrets = [key, *mine, *(row[:8] for row in mine)]
        everything = b"|".join(map(carried, sent(grid, node)))
        assert not any(secret in everything for secret in secrets)
        assert any(secret in b"|".join([everything, mine[0]]) for secret in secrets)


def test_nodes_with_ratings_of_their_own_have_coins_of_their_own() -> None:
    one, other = NodeRun(bytes(32)), NodeRun(bytes([1]) * 32)
    assert one.experiment_seed() != other.experiment_seed()
    keys = np.concatenate([one.memo_keys(50), other.memo_keys(50)])
    assert len(np.unique(keys, axis=0)) == 100
    assert np.array_equal(one.memo_keys(50)[:7], NodeRun(bytes(32)).memo_keys(7))


def test_noise_is_drawn_anew_for_other_gradients_and_repeated_for_the_same() -> None:
    """A repeated round shows nothing new; a node's key decides, so another node's noise differs."""
    run = {**SMALL, "clip": 0.1, "laplace": 0.05}
    del run["seed"]
    plain = Plain(run)
    rows = np.random.default_rng(0).normal(size=(ITEMS, 5))
    task = Task(batch=0, node_users=USERS, node_ratings=USERS * ITEMS, mean=3.0)
    n_weights = plain.server().state["weights"].size

    def upload(scale: float, node: int = 0) -> np.ndarray:
        arrays = {"items": scale * rows, "weights": np.full(n_weights, 0.1)}
        return plain.found(node, arrays, task).arrays["items"]

    assert np.array_equal(upload(0.1), upload(0.1))
    difference = upload(0.1) - upload(0.1001)
    assert np.abs(difference).std() > 0.05
    plain.configs[1] = plain.configs[0]
    assert np.abs(upload(0.1) - upload(0.1, node=1)).std() > 0.05


def test_pseudo_items_and_noise_go_with_uploads_and_not_with_sums() -> None:
    """With sums every coordinate has noise, with uploads those that a user sends."""
    run = {**SMALL, "clip": 0.1, "laplace": 0.05, "dim": 0}
    arrays = {"items": np.zeros((ITEMS, 1))}
    task = Task(batch=0, node_users=USERS, node_ratings=USERS * ITEMS, mean=3.0)

    def touched(**changes: object) -> int:
        plain = Plain({**run, **changes})
        plain.configs[0] = {"partition-id": 0, "num-partitions": USERS}
        return int(np.count_nonzero(plain.found(0, arrays, task).arrays["items"]))

    rated = int((resolve(SET).triples.users == 0).sum())
    assert touched() == ITEMS
    assert touched(aggregate="clear") < rated
    assert touched(aggregate="clear") + 3 <= touched(aggregate="clear", pseudo=5) <= rated + 5


def test_a_node_that_insists_on_noise_gives_nothing_without() -> None:
    """Epsilon 4 for a coordinate is 2 clip / laplace, and the run's settings are not its own."""
    arrays, task = {"items": np.zeros((ITEMS, 1))}, Task(node_users=USERS, node_ratings=999)
    noisy, quiet = {"clip": 0.1, "laplace": 0.05, "dim": 0}, {"dim": 0}

    def found(run: Mapping[str, object], most: object) -> None:
        plain = Plain({**SMALL, **run})
        plain.configs[0]["privrec-epsilon"] = most
        plain.found(0, arrays, task)

    found(noisy, 4.0)
    for run, most, problem in (
        (noisy, 3.9, "epsilon 4 for a coordinate, this node insists on at most 3.9"),
        (quiet, 1e9, "no noise for a coordinate"),
    ):
        with pytest.raises(PrivacyRefusal, match=problem):
            found(run, most)
    with pytest.raises(ParameterError, match="must be a positive number"):
        found(noisy, "4")


def test_the_steps_of_users_do_not_depend_on_other_nodes() -> None:
    """What a node's users hold after a round is the same whoever else is there."""
    arrays = {
        "items": np.random.default_rng(1).normal(size=(ITEMS, 5)),
        "weights": Plain({**SMALL, **STEPS}).server().state["weights"],
    }
    task = Task(batch=0, node_users=USERS, node_ratings=USERS * ITEMS, mean=3.0)
    alone, together = Plain({**SMALL, **STEPS}), Plain({**SMALL, **STEPS})
    alone.found(2, arrays, task)
    together.ask(arrays, task)
    one, other = alone.memories[2].arrays["users"], together.memories[2].arrays["users"]
    assert np.array_equal(one, other)
