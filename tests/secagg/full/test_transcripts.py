"""Whole rounds against transcripts that a script without our packages wrote, byte for byte.

Announcements and the states of a client between its steps are compared as well.
"""

import hashlib
from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

import numpy as np
import pytest

from mpc.core.local import LocalNetwork
from mpc.core.prg import Prg
from mpc.core.ring import Ring
from secagg.full.announcement import Announcement
from secagg.full.client import Client
from secagg.full.history import History
from secagg.full.identity import Identity, MemoryIdentities
from secagg.full.messages import (
    Delivered,
    Roster,
    RoundMessage,
    SharedKeys,
    Step,
    SurvivorsRequest,
    UnmaskRequest,
)
from secagg.full.params import RoundParams
from secagg.full.run import LocalRound
from secagg.full.server import Server
from secagg.messages import SERVER
from tests.secagg.full.world import Circle
from tests.support.vectors import cases, load

M = TypeVar("M", bound=RoundMessage)

STEPS = {
    "advertise": Step.ADVERTISE_KEYS,
    "share": Step.SHARE_KEYS,
    "mask": Step.MASKED_INPUT,
    "sign": Step.CONSISTENCY_CHECK,
    "unmasking": Step.UNMASKING,
}


def seeded(
    kind: type[Client], params: RoundParams, client: int, *, rng: Any, **more: Any
) -> Client:
    """A client whose coins are those of the transcript."""
    seed = hashlib.sha256(b"full client %d" % client).digest()
    return kind(params, client, rng=Prg(seed), **more)


def identity(client: int) -> Identity:
    return Identity(hashlib.sha256(b"full identity %d" % client).digest())


def announced(case: dict[str, Any]) -> RoundParams:
    """What the case announces, checked against what it says beside that."""
    file = load("secagg-full")
    data = bytes.fromhex(case["announcement"])
    params = Announcement.read(data)
    clients = tuple(case["clients"])
    expected = RoundParams(
        bytes.fromhex(file["session"]),
        file["round"],
        clients,
        case["threshold"],
        Ring(case["bits"]),
        case["dim"],
        "malicious" if case["malicious"] else "semi-honest",
        graph=Circle(clients, case["reach"]) if case["reach"] else None,
        context=bytes.fromhex(case["context"]),
    )
    assert params.digest == expected.digest
    assert Announcement.of(params).to_bytes() == data
    return params


def identities_of(case: dict[str, Any]) -> dict[str, Any]:
    if not case["malicious"]:
        return {}
    publics = {int(c): bytes.fromhex(key) for c, key in case["identities"].items()}
    return {
        "identity": {client: identity(client) for client in case["clients"]},
        "identities": MemoryIdentities(publics),
    }


class ToldLate(Client):
    """A client that learns the context with the roster."""

    context = b""

    def share_keys(self, roster: Roster, *, context: bytes | None = None) -> SharedKeys:
        return super().share_keys(roster, context=self.context)


class BoundLate(Server):
    """A server that learns the context after the keys are closed."""

    context = b""

    def close_keys(self) -> tuple[int, ...]:
        closed = super().close_keys()
        self.bind(self.context)
        return closed


@pytest.mark.parametrize("late", [False, True], ids=["known", "known late"])
@pytest.mark.parametrize("case", cases("secagg-full"), ids=lambda case: case["name"])
def test_a_round_sends_what_the_page_says(case: dict[str, Any], late: bool) -> None:
    params, more = announced(case), dict[str, Any]()
    assert params.digest.hex() == case["digest"]
    kind: type[Client] = Client
    if late:
        own = {"context": params.context}
        kind = type("ToldLate", (ToldLate,), own)
        more["make_server"] = type("BoundLate", (BoundLate,), own)
        params = replace(params, context=b"")
    network = LocalNetwork(record=True)
    outcome = LocalRound(
        params,
        {c: params.ring.reduce(1000 * c + np.arange(params.dim)) for c in params.clients},
        drop_outs={STEPS[step]: gone for step, gone in case["gone"].items()},
        network=network,
        make_client=partial(seeded, kind),
        **identities_of(case),
        **more,
    ).run()
    assert outcome.survivors == tuple(case["survivors"])
    assert outcome.total.tolist() == case["total"]
    sent: defaultdict[str, dict[str, str]] = defaultdict(dict)
    for party in (SERVER, *params.clients):
        for delivery in network.view(party):
            client = delivery.sender if party == SERVER else party
            sent[delivery.kind][str(client)] = delivery.data.hex()
    assert set(sent) == set(case["messages"])
    for kind_of_message, messages in case["messages"].items():
        assert sent[kind_of_message] == messages, kind_of_message


def answers(client: Client, case: dict[str, Any]) -> dict[str, Callable[[], RoundMessage]]:
    """The client's next step by its phase, on what the transcript has for it."""
    params, u = client.params, client.client
    x = params.ring.reduce(1000 * u + np.arange(params.dim))

    def asked(kind: type[M]) -> M:
        return kind.from_bytes(bytes.fromhex(case["messages"][kind.__name__][str(u)]))

    after_masking = "masked" if not params.malicious else "signed"
    context = bytes.fromhex(case["context"])
    return {
        "masked": lambda: client.sign_survivors(asked(SurvivorsRequest)),
        "new": client.advertise,
        "advertised": lambda: client.share_keys(asked(Roster), context=context),
        "shared": lambda: client.mask(asked(Delivered), x),
        after_masking: lambda: client.unmask(asked(UnmaskRequest)),
    }


@pytest.mark.parametrize("case", cases("secagg-full"), ids=lambda case: case["name"])
def test_a_client_is_suspended_as_the_page_says(case: dict[str, Any]) -> None:
    """And goes on from the bytes of the transcript as from its own."""
    u = case["clients"][0]
    params = replace(announced(case), context=b"")
    known = identities_of(case)
    if known:
        known["identity"] = known["identity"][u]
    history, rng = History(), Prg(hashlib.sha256(b"full client %d" % u).digest())
    client = Client(params, u, history=history, rng=rng, **known)
    for phase, state in case["suspended"].items():
        assert client.suspend().hex() == state
        client = Client.resume(params, bytes.fromhex(state), history=history, rng=rng, **known)
        assert client.phase.value == phase
        if u in case["gone"].get("unmasking", ()) and phase == "masked":
            return  # this one was not asked any more
        answer = answers(client, case)[phase]()
        kind = type(answer).__name__
        assert answer.to_bytes().hex() == case["messages"][kind][str(u)]
