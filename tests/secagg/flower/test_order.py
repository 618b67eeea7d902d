"""What a strategy asks of its nodes must be the same of all."""

import numpy as np
import pytest
from flwr.app import ConfigRecord, Message, RecordDict

from secagg.flower.order import Order, is_train
from secagg.flower.records import Request, add_request, read_request
from secagg.flower.refusal import SecAggRefused
from secagg.flower.terms import content_digest
from secagg.full.messages import Step
from tests.secagg.flower.by_hand import arrays, grid_of, train_content
from tests.secagg.full.world import SESSION

NODES = [30, 10, 20]


@pytest.fixture(autouse=True)
def _identity() -> None:
    grid_of(1)  # messages belong to a run


def messages(content: RecordDict | None = None, *, kind: str = "train") -> list[Message]:
    given = train_content() if content is None else content
    return [Message(given, node, kind, group_id="7") for node in NODES]


def test_an_order_has_the_nodes_in_order_and_one_content() -> None:
    order = Order.of(messages())
    assert order.nodes == (30, 10, 20)
    assert order.digest == content_digest(train_content())
    assert (order.message_type, order.group_id) == ("train", "7")


def test_a_message_of_a_step_is_of_the_same_type_and_group() -> None:
    order = Order.of(messages(kind="train.own"))
    request = Request(Step.MASKED_INPUT, SESSION, 0, 1, b"x")
    message = order.message(10, request, ttl=12.0)
    told = message.metadata
    assert (told.dst_node_id, told.message_type, told.group_id, told.ttl) == (
        *(10, "train.own", "7"),
        12.0,
    )
    assert read_request(message.content) == request
    assert content_digest(message.content) == order.digest


def test_equal_contents_need_not_be_one_object() -> None:
    given = [Message(train_content(), node, "train") for node in NODES]
    assert Order.of(given).digest == content_digest(train_content())


@pytest.mark.parametrize(
    "other",
    [
        train_content(more=1),
        RecordDict({"arrays": arrays({"dense": np.ones(2)}), "config": ConfigRecord({"lr": 0.5})}),
    ],
)
def test_nodes_that_are_asked_different_things_are_refused(other: RecordDict) -> None:
    given = messages()
    given[1] = Message(other, NODES[1], "train")
    with pytest.raises(SecAggRefused, match="differ between nodes"):
        Order.of(given)


def test_one_node_twice_or_two_types_are_refused() -> None:
    with pytest.raises(SecAggRefused, match="two train messages for one node"):
        Order.of([*messages(), messages()[0]])
    with pytest.raises(SecAggRefused, match=r"types \['train', 'train.own'\]"):
        Order.of([*messages()[:2], messages(kind="train.own")[2]])


def test_messages_with_our_records_in_them_are_refused() -> None:
    request = Request(Step.MASKED_INPUT, SESSION, 0, 1)
    with pytest.raises(SecAggRefused, match="wrap the grid once"):
        Order.of(messages(add_request(train_content(), request)))


@pytest.mark.parametrize(
    ("kind", "train"),
    [("train", True), ("train.own", True), ("evaluate", False), ("query.train", False)],
)
def test_training_is_told_by_the_first_part_of_a_type(kind: str, train: bool) -> None:
    assert is_train(messages(kind=kind)[0]) == train
