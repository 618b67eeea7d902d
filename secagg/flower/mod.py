"""The client's end: a mod that trains under secure aggregation, and never otherwise.

    app = ClientApp(mods=[SecAggMod()])

It must be the first in the list. Mods after it, such as Flower's ``fixedclipping_mod``, then work
on what the training function gives, before it is masked; a mod before it would work on masked
vectors.

Source: ours, for Flower 1.42.
Model: as ``secagg.flower.turn``. A train message without our records is declined: a server cannot
    have an update in the clear by leaving secure aggregation out. Messages that evaluate or query
    pass through as they are, and so do the answers: what they say is not hidden.
Leaks: to the server which of five codes a declined message got. To this node's own log what went
    wrong, without the text of exceptions that are not ours: it may quote data.
"""

import inspect
import logging
import traceback
from collections.abc import Mapping
from types import FrameType

from flwr.app import Context, Message, MessageType, RecordDict
from flwr.clientapp import ClientApp
from flwr.clientapp.typing import ClientAppCallable

from mpc.core.errors import ParameterError, ToolkitError
from secagg.flower.keyring import Keyring
from secagg.flower.policy import Policy
from secagg.flower.records import RECORD, Code, answer_content, read_request, without_ours
from secagg.flower.store import opened, taken_out
from secagg.flower.turn import Declined, OnClipped, Turn

_LOGGER = logging.getLogger("flwr")

_CHAIN = "flwr.client.mod.utils"
"""Where Flower hangs one mod on the next: each has a frame of this module below its own."""

PARTITION = "{partition-id}"


class SecAggMod:
    """The client half of secure aggregation, as a mod. Picklable.

    policy: what this client insists on.  on_clipped: told on this node alone how many entries of
    each array lay outside the clip; what it raises counts as a failure of training.  node_config:
    for what the node's own ``node_config`` does not say, as in simulations, where it says the
    partition alone; ``{partition-id}`` stands for that. An app that is shipped to nodes must not
    rely on it: who ships it could name a roster of its own.
    """

    def __init__(
        self,
        policy: Policy | None = None,
        on_clipped: OnClipped | None = None,
        *,
        node_config: Mapping[str, str] | None = None,
    ) -> None:
        self.policy = Policy() if policy is None else policy
        if not isinstance(self.policy, Policy):
            raise ParameterError(f"policy must be a Policy, got {type(policy).__name__}")
        self._on_clipped = on_clipped
        self._node_config = {} if node_config is None else dict(node_config)

    def __call__(self, msg: Message, ctx: Context, call_next: ClientAppCallable) -> Message:
        """Answer a message of the protocol, or pass on what evaluates or queries.

        Raises nothing of its own.
        """
        if msg.metadata.message_type.partition(".")[0] != MessageType.TRAIN:
            with taken_out(ctx):
                return call_next(msg, ctx)
        try:
            content = self._answered(msg, ctx, call_next)
        except Exception as error:
            say(error)
            code = error.code if isinstance(error, Declined) else Code.FAILED
            return Message(code.error(), reply_to=msg)
        return Message(content, reply_to=msg)

    def _answered(self, msg: Message, ctx: Context, call_next: ClientAppCallable) -> RecordDict:
        if not _is_first():
            raise Declined("SecAggMod is not the first of the app's mods", Code.MISPLACED)
        if RECORD not in msg.content:
            raise Declined(
                "a train message came without secure aggregation",
                Code.UNWILLING,
                remedy="start the strategy with grid=SecureGrid(grid, config)",
            )
        request = read_request(msg.content)
        users, node_config = without_ours(msg.content), self._config(ctx)

        def train() -> RecordDict:
            msg.content = users
            reply = call_next(msg, ctx)
            if reply.has_error():
                raise ParameterError("the training function, or a mod after ours, sent an error")
            return reply.content

        with opened(ctx, node_config) as store:
            turn = Turn(
                request,
                users,
                msg.metadata.message_type,
                store,
                policy=self.policy,
                keyring=Keyring(node_config),
                train=train,
                on_clipped=self._on_clipped,
            )
            answer = turn.answer()
        if turn.no_offer is not None:
            say(turn.no_offer)
        return answer_content(answer)

    def _config(self, ctx: Context) -> dict[str, object]:
        partition = str(ctx.node_config.get("partition-id", ""))
        ours = {k: text.replace(PARTITION, partition) for k, text in self._node_config.items()}
        return {**ours, **ctx.node_config}


def say(error: Exception) -> None:
    """Say in this node's log why there is no answer."""
    _LOGGER.warning("secagg: %s", _text(error))
    cause = error.__cause__
    if isinstance(error, Declined) and cause is not None and str(cause) != error.message:
        # What an exception says may quote data. Where it was raised does not.
        where = "".join(traceback.format_tb(cause.__traceback__))
        _LOGGER.warning("secagg: because of %s\n%s", _text(cause), where)


def _text(error: BaseException) -> str:
    return str(error) if isinstance(error, ToolkitError) else _kind(error)


def _kind(error: BaseException) -> str:
    return f"{type(error).__module__}.{type(error).__qualname__}"


def _is_first() -> bool:
    """Whether no other mod stands between Flower's app and ours.

    Each mod is called from a function of Flower's chain, and the first of these from the app. Where
    no app is found above, nobody can tell.
    """
    links, frame = 0, inspect.currentframe()
    while frame is not None and frame.f_code is not ClientApp.__call__.__code__:
        links += _is_link(frame)
        frame = frame.f_back
    return frame is None or links <= 1


def _is_link(frame: FrameType) -> bool:
    return frame.f_globals.get("__name__") == _CHAIN
