"""What a strategy asks its nodes to train: the same of all of them.

    order = Order.of(messages)

Source: Flower 1.42: a strategy gives ``Grid.send_and_receive`` a message for each sampled node.
Model: of the server alone. What clients train on enters their keys (``secagg.flower.terms``), so
    there is one content for all.
Leaks: nothing.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from flwr.app import Message, MessageType, RecordDict

from secagg.flower.records import Request, add_request, is_ours
from secagg.flower.refusal import SecAggRefused
from secagg.flower.terms import content_digest


@dataclass(frozen=True)
class Order:
    """The messages of a strategy, folded into one.

    nodes: in the strategy's order.  content: the user's records.  digest: their ``content_digest``.
    originals: a message by node, which replies refer to.
    """

    nodes: tuple[int, ...]
    content: RecordDict = field(repr=False)
    digest: bytes = field(repr=False)
    message_type: str
    group_id: str
    originals: dict[int, Message] = field(repr=False)

    @classmethod
    def of(cls, messages: Sequence[Message]) -> "Order":
        """Raises SecAggRefused for messages that differ, or two for one node."""
        first = messages[0]
        kinds = {message.metadata.message_type for message in messages}
        if len(kinds) > 1:
            raise SecAggRefused(
                f"messages of the types {sorted(kinds)} in one round",
                remedy="send one type at once",
            )
        originals = {message.metadata.dst_node_id: message for message in messages}
        if len(originals) < len(messages):
            raise SecAggRefused("two train messages for one node in one round")
        digests: dict[int, bytes] = {}
        for message in messages:
            content = message.content
            if any(map(is_ours, content)):
                raise SecAggRefused(
                    "the train messages have records of secure aggregation already",
                    remedy="wrap the grid once",
                )
            # Strategies give all their messages one content.
            if id(content) not in digests:
                digests[id(content)] = content_digest(content)
        if len(set(digests.values())) > 1:
            raise SecAggRefused(
                "the train messages differ between nodes: clients must see that all of them got "
                "the same model and config",
                remedy="move what differs into the nodes' own config",
            )
        return cls(
            tuple(originals),
            first.content,
            digests[id(first.content)],
            first.metadata.message_type,
            first.metadata.group_id,
            originals,
        )

    def message(self, node: int, request: Request, ttl: float) -> Message:
        """A request to ``node``; with the user's records where its step sends them."""
        content = add_request(self.content, request)
        return Message(content, node, self.message_type, group_id=self.group_id, ttl=ttl)


def is_train(message: Message) -> bool:
    """Whether a message asks for training, of whichever name."""
    return message.metadata.message_type.split(".")[0] == MessageType.TRAIN
