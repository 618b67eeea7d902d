"""FedMF under a small stored key, and its rounds with everything that the server receives."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mpc.core.local import LocalNetwork
from mpc.paillier.keys import PrivateKey
from mpc.paillier.packing import decrypt
from recsys.baselines.fedmf import FedMF, FedMFLearner
from recsys.baselines.fedmf_sum import EncryptedSum, unpacked
from recsys.data.rating_split import split_ratings
from recsys.run import MemoryRun
from recsys.simulation import SimulationRng
from secagg.messages import SERVER
from tests.mpc.paillier.stored_keys import private_key
from tests.recsys.baselines.cases import config, low_rank

BITS = 1024
"""Of the stored key: it protects nothing, and encrypts a table in hundredths of a second."""


class SmallKey(FedMF):
    """FedMF whose users share the stored key."""

    key_bits = BITS

    def _draw_key(self) -> PrivateKey:
        return private_key(BITS)


def learner(**changes: Any) -> FedMFLearner:
    """In protocol mode, with items far from zero, and a record of what is sent."""
    settings = config("fedmf", mode="protocol", **changes)
    sim = SimulationRng(0)
    parts = split_ratings(low_rank(), settings.split, sim)
    made = FedMFLearner(parts, settings, sim, MemoryRun(), private_key(BITS), BITS)
    made.state["items"][...] = np.random.default_rng(1).standard_normal(made.state["items"].shape)
    encrypted_sum(made)._network = made.traffic = LocalNetwork(record=True)
    return made


def encrypted_sum(made: FedMFLearner) -> EncryptedSum:
    """The aggregation of a learner in protocol mode."""
    assert isinstance(made.aggregation, EncryptedSum)
    return made.aggregation


def opened(made: FedMFLearner, data: bytes) -> NDArray[Any]:
    """The numbers of an upload or a sum, by the users' key."""
    of, key = encrypted_sum(made), private_key(BITS)
    return decrypt(key, unpacked(data, key.public, of._packing, of._plan.layout.size))


def uploads(made: FedMFLearner, members: NDArray[np.int32], round_: int = 0) -> list[bytes]:
    """What the server receives in a round of cohort 0, message by message."""
    seen = len(made.traffic.view(SERVER))
    gradients, _ = made.devices.gradients(members)
    made.aggregation.sum(0, round_, gradients)
    return [delivery.data for delivery in made.traffic.view(SERVER)[seen:]]
