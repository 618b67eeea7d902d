"""Whole rounds against transcripts that a script without our packages wrote, byte for byte."""

import hashlib
from collections import defaultdict
from typing import Any

import numpy as np
import pytest

from mpc.core.local import LocalNetwork
from mpc.core.prg import Prg
from mpc.core.ring import Ring
from secagg.full.client import Client
from secagg.full.identity import Identity, MemoryIdentities
from secagg.full.messages import Step
from secagg.full.params import RoundParams
from secagg.full.run import LocalRound
from secagg.messages import SERVER
from tests.secagg.full.world import Circle
from tests.support.vectors import cases, load

STEPS = {
    "advertise": Step.ADVERTISE_KEYS,
    "share": Step.SHARE_KEYS,
    "mask": Step.MASKED_INPUT,
    "sign": Step.CONSISTENCY_CHECK,
    "unmasking": Step.UNMASKING,
}


def seeded(params: RoundParams, client: int, *, rng: Any, **more: Any) -> Client:
    """A client whose coins are those of the transcript."""
    seed = hashlib.sha256(b"full client %d" % client).digest()
    return Client(params, client, rng=Prg(seed), **more)


def identity(client: int) -> Identity:
    return Identity(hashlib.sha256(b"full identity %d" % client).digest())


@pytest.mark.parametrize("case", cases("secagg-full"), ids=lambda case: case["name"])
def test_a_round_sends_what_the_page_says(case: dict[str, Any]) -> None:
    file = load("secagg-full")
    clients, ring = tuple(case["clients"]), Ring(case["bits"])
    params = RoundParams(
        bytes.fromhex(file["session"]),
        file["round"],
        clients,
        case["threshold"],
        ring,
        case["dim"],
        "malicious" if case["malicious"] else "semi-honest",
        graph=Circle(clients, case["reach"]) if case["reach"] else None,
    )
    assert params.digest.hex() == case["digest"]
    known: dict[str, Any] = {}
    if case["malicious"]:
        publics = {int(c): bytes.fromhex(key) for c, key in case["identities"].items()}
        known = {
            "identity": {client: identity(client) for client in clients},
            "identities": MemoryIdentities(publics),
        }
    network = LocalNetwork(record=True)
    outcome = LocalRound(
        params,
        {c: ring.reduce(1000 * c + np.arange(case["dim"])) for c in clients},
        drop_outs={STEPS[step]: gone for step, gone in case["gone"].items()},
        network=network,
        make_client=seeded,
        **known,
    ).run()
    assert outcome.survivors == tuple(case["survivors"])
    assert outcome.total.tolist() == case["total"]
    sent: defaultdict[str, dict[str, str]] = defaultdict(dict)
    for party in (SERVER, *clients):
        for delivery in network.view(party):
            client = delivery.sender if party == SERVER else party
            sent[delivery.kind][str(client)] = delivery.data.hex()
    assert set(sent) == set(case["messages"])
    for kind, messages in case["messages"].items():
        assert sent[kind] == messages, kind
