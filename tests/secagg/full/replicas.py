"""Parties of a round copied and compared, as no deployment could: for walks over many rounds.

A client refuses to be copied and a server is only kept as bytes, so tests reach into both here and
nowhere else. A copy goes on from where its original stands; they share their coins, so that no two
of them draw the same ones.
"""

import hashlib
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import numpy as np

from mpc.core.keys import KeyPair
from mpc.core.prg import Prg
from secagg.full.client import Client
from secagg.full.history import History
from secagg.full.identity import MemoryIdentities
from secagg.full.messages import Step
from secagg.full.params import RoundParams
from secagg.full.server import Server
from secagg.watermark import MemoryWatermark
from tests.secagg.full.world import identities, signing


def coins(text: str) -> Prg:
    """Coins of a test, the same in every run."""
    return Prg(hashlib.sha256(text.encode()).digest())


def new_client(
    agreed: RoundParams, client: int, kind: type[Client] = Client, **more: Any
) -> Client:
    """A client whose keys and seeds are a function of the round and its id."""
    own = coins(f"{agreed.digest.hex()} {client}")
    return kind(agreed, client, **{"rng": own, **signing(agreed, client), **more})


def new_server(agreed: RoundParams) -> Server:
    return Server(agreed, identities=known(agreed))


def restored(agreed: RoundParams, data: bytes) -> Server:
    return Server.restore(agreed, data, identities=known(agreed))


def known(agreed: RoundParams) -> MemoryIdentities | None:
    return _identities(agreed.clients) if agreed.malicious else None


_identities = lru_cache(identities)


def copy_of_client(client: Client) -> Client:
    """The same client a second time, its history included."""
    twin = object.__new__(type(client))
    vars(twin).update(vars(client))
    if client._secrets is not None:
        twin._secrets = object.__new__(type(client._secrets))
        for name, value in vars(client._secrets).items():
            # Arrays and keys are replaced as a whole, never changed.
            own = type(value)(value) if isinstance(value, dict | list | set) else value
            vars(twin._secrets)[name] = own
    twin._history = copy_of_history(client._history)
    twin._turn = list(client._turn)
    return twin


def copy_of_history(history: History) -> History:
    own = MemoryWatermark()
    own._marks = dict(marks_of(history))
    twin = History(own)
    twin._refused = set(history._refused)
    return twin


def marks_of(history: History) -> dict[bytes, tuple[int, int]]:
    watermark = history._watermark
    assert isinstance(watermark, MemoryWatermark)
    return watermark._marks


def state_of_client(client: Client) -> object:
    """All that a client knows and may still do, as something that compares."""
    kept = {**vars(client), "marks": marks_of(client._history)}
    kept["refused"] = kept.pop("_history")._refused
    secrets = kept["_secrets"]
    kept["_secrets"] = None if secrets is None else vars(secrets)
    return _plain(kept)


def state_of_server(server: Server) -> object:
    """All that a server knows: what ``save`` writes down, and what it keeps beside that."""
    over = (server._left, server._ended_in) if server.step >= Step.DONE else ()
    beside = (server._publics, server._altered, over)
    return _plain({**vars(server._state), "beside": beside})


def _plain(value: Any) -> Any:
    """The content of containers, arrays and keys; other objects stand for themselves."""
    if isinstance(value, Mapping):
        return {key: _plain(entry) for key, entry in value.items()}
    if isinstance(value, np.ndarray):
        return value.shape, value.tobytes()
    if isinstance(value, KeyPair):
        return value.private_bytes()
    if isinstance(value, tuple | list):
        return tuple(map(_plain, value))
    return set(value) if isinstance(value, set) else value
