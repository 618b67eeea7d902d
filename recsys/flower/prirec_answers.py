"""A node's answers to the questions of the dynamic features: once, and the same ever after.

Source: PriRec (Chen et al., 2020), section 3.3; ``recsys.features.answers`` for Eq. 5.
Model: epsilon-LDP for each user and POI. Coins are a function of a user's key and the POI's name,
    so a second run gets the same answers; under another epsilon the same coins would tell the bit,
    so a node that keeps a folder refuses to answer twice in different ways. Keys come from the
    node's own, which is on disk before an answer leaves.
Leaks: to the server, for each POI, how many of the node's users report a visit: of a node with one
    user her randomized bit.
"""

import json
import math
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ldp.coins import memo_coins
from mpc.core.durable import write_durably
from mpc.core.keys import derive
from recsys.config import TrainConfig
from recsys.dynamic import CoinSource
from recsys.errors import PrivacyRefusal
from recsys.features import answers, questions
from recsys.flower.prirec_visits import NodeVisits
from recsys.simulation import SimulationRng

_FILE = "answered.json"


def answer(
    visits: NodeVisits,
    config: TrainConfig,
    key: bytes,
    folder: Path | None,
    most: float = math.inf,
) -> NDArray[np.int64]:
    """How many of the users' randomized bits are one, int64 (questions, POIs).

    key: the node's own, 32 bytes.  folder: of the node's own; None if it keeps none.
    most: the largest epsilon that this node consents to.
    Raises PrivacyRefusal for a larger one, for a seed, or for no folder, where the visits are the
    node's own, and for questions that were answered in another way before.
    """
    if not questions(config):
        return np.zeros((0, visits.prepared.n_pois), dtype=np.int64)
    if config.epsilon > most:
        raise PrivacyRefusal(
            f"the run asks with epsilon {config.epsilon:g}, this node answers up to {most:g}",
            remedy="lower epsilon, or have the node consent: --node-config 'privrec-epsilon=...'",
        )
    if visits.own and config.seed is not None:
        raise PrivacyRefusal(
            "a seed tells every coin of a node, also those that protect its users",
            remedy="leave seed out of a deployment",
        )
    if visits.own and folder is None:
        raise PrivacyRefusal(
            "without a folder a node forgets its key, and answers the same questions anew",
            remedy="--node-config 'privrec-folder=\"/path/of/its/own\"'",
        )
    if folder is not None:
        _bind(folder, config)
    return answers(visits.prepared, config, _coins(visits, config, key))


def _coins(visits: NodeVisits, config: TrainConfig, key: bytes) -> CoinSource:
    if config.seed is not None:
        sim = SimulationRng(config.seed)
        ids = visits.ids if visits.ids is not None else np.arange(visits.prepared.n_users)
        # As a seeded run in one process draws them, which says that it gives no privacy.
        return lambda family, rows, pois: sim.coins(f"privacy:{family}", ids[rows][:, None], pois)
    prepared = visits.prepared
    each = [derive(key, "flower.prirec.memo", user.encode()) for user in prepared.user_ids]
    keys = np.frombuffer(b"".join(each), dtype=np.uint8).reshape(len(each), -1)
    names = [poi.encode() for poi in prepared.poi_ids]
    return lambda family, rows, pois: memo_coins(keys[rows], family, [names[poi] for poi in pois])


def _bind(folder: Path, config: TrainConfig) -> None:
    """Write down in which way this node answers; PrivacyRefusal if it has answered in another."""
    way = {
        "epsilon": float(config.epsilon).hex(),
        "questions": list(questions(config)),
        "visit_cap": config.visit_cap if config.dynamic == "average" else None,
    }
    path = folder / _FILE
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        folder.chmod(0o700)
        write_durably(path, json.dumps(way, sort_keys=True).encode())
        return
    try:
        before = json.loads(path.read_text(encoding="utf-8"))
    except ValueError:
        before = None
    if before != way:
        raise PrivacyRefusal(
            "this node has answered before, with another epsilon or other questions: the same "
            "coins would tell its users' bits",
            remedy="ask as before, or have the users agree to a new key: empty the node's folder",
        )
