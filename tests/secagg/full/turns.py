"""The steps of a round as a table: what is asked, who answers how, who takes it, and the end."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from mpc.core.ring import RingArray
from secagg.full.client import Client
from secagg.full.messages import RoundMessage, Step
from secagg.full.params import RoundParams
from secagg.full.server import Server


@dataclass(frozen=True)
class Turn:
    """ask: None in the first step, where nobody is asked.  answer: (client, question, input)."""

    step: Step
    ask: Callable[[Server, int], RoundMessage] | None
    answer: Callable[[Client, Any, RingArray], RoundMessage]
    receive: Callable[[Server, Any], None]
    close: Callable[[Server], Any]


_TURNS = (
    Turn(
        Step.ADVERTISE_KEYS,
        None,
        lambda client, _question, _x: client.advertise(),
        Server.receive_keys,
        Server.close_keys,
    ),
    Turn(
        Step.SHARE_KEYS,
        Server.roster,
        lambda client, roster, _x: client.share_keys(roster),
        Server.receive_shares,
        Server.close_shares,
    ),
    Turn(
        Step.MASKED_INPUT,
        Server.delivery,
        lambda client, delivered, x: client.mask(delivered, x),
        Server.receive_masked,
        Server.close_masked,
    ),
    Turn(
        Step.CONSISTENCY_CHECK,
        Server.survivors_request,
        lambda client, request, _x: client.sign_survivors(request),
        Server.receive_signature,
        Server.close_signatures,
    ),
    Turn(
        Step.UNMASKING,
        Server.unmask_request,
        lambda client, request, _x: client.unmask(request),
        Server.receive_unmask,
        Server.close_unmask,
    ),
)


def turns(agreed: RoundParams) -> list[Turn]:
    """Five of them, or four in the semi-honest variant."""
    return [t for t in _TURNS if agreed.malicious or t.step is not Step.CONSISTENCY_CHECK]
