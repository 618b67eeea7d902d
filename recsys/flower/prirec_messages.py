"""What the recommender of PriRec and its nodes say to each other, beside masked gradients.

    trip        asked                                  answered
    join        Joining: session, settings, POIs       Joined: key, users, randomized bits, homes
    exchange    Exchange: V, letters to this node;     Exchanged: letters of this node
                Setup, the first time
    finish      Finish: V                              nothing

Arrays lie beside a message, by name, as ``recsys.flower.prirec_records`` says; each is named in the
class's docstring.

Source: ours; ``mpc.core.wire`` for bytes.
Model: as ``recsys.flower.prirec``. A node believes of these what it cannot check, which is the user
    network; letters are not the server's to write.
"""

import json
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mpc.core.checks import integer
from mpc.core.errors import ParameterError, WireError
from mpc.core.wire import Message
from mpc.relay_messages import MAX_EPOCH, MAX_LETTER, SESSION_BYTES
from recsys.config import TrainConfig

MAX_USER = 2**31 - 1
"""Ids of users, and of nodes. Receivers of sums have ids above them."""

Table = dict[str, NDArray[Any]]
"""Arrays by name."""


class Joining(Message, frozen=True, tag="prirec.joining"):
    """To every node. Arrays: ``lat``, ``lon`` float64 (POIs,), ``category`` int32 (POIs,).

    party: the node's number, unless it has one in a roster.  settings: of the model, as JSON.
    data: as the setting of that name.  poi_ids, category_names: of the POIs.
    """

    session: bytes
    party: int
    settings: str
    data: str
    poi_ids: tuple[str, ...]
    category_names: tuple[str, ...]

    def __post_init__(self) -> None:
        """Refuse other sizes."""
        _session(self.session)
        integer("party", self.party, 0, MAX_USER)

    @property
    def config(self) -> TrainConfig:
        """The model's settings. WireError for something else."""
        try:
            values = json.loads(self.settings)
            return TrainConfig.from_dict(values if isinstance(values, dict) else {"": values})
        except (ParameterError, TypeError, ValueError) as error:
            raise WireError("the message has no settings of PriRec") from error


class Joined(Message, frozen=True, tag="prirec.joined"):
    """From a node. Arrays: ``ones`` int64 (questions, POIs), ``lat``, ``lon`` float64 (users,)
    where the network is geographic, and ``ids`` uint32 (users,) where users have some already.

    offer: the bytes of an ``mpc.relay.Offer``.
    """

    offer: bytes
    users: int

    def __post_init__(self) -> None:
        """Refuse other numbers."""
        integer("users", self.users, 0, MAX_USER)


class Setup(Message, frozen=True, tag="prirec.setup"):
    """What a node has to know before the first epoch. Arrays: ``poi`` float64 (POIs, D), ``ids``
    uint32 (users,), and those of ``recsys.flower.prirec_rows.Rows``.

    offers: of the nodes that this one shares sums with.  letter: payload of a letter, in bytes.
    """

    offers: tuple[bytes, ...]
    letter: int

    def __post_init__(self) -> None:
        """Refuse other sizes."""
        integer("letter", self.letter, 0, MAX_LETTER)


class Exchange(Message, frozen=True, tag="prirec.exchange"):
    """To every node. Arrays: ``v`` float64 (D, K), ``letters`` uint8, all of one length.

    epoch, round: what the node is to compute.  setup: bytes of a ``Setup``, or none.
    """

    session: bytes
    epoch: int
    round: int
    setup: bytes = b""

    def __post_init__(self) -> None:
        """Refuse other numbers."""
        _session(self.session)
        integer("epoch", self.epoch, 0, MAX_EPOCH)
        integer("round", self.round, 0, 2**31 - 1)


class Exchanged(Message, frozen=True, tag="prirec.exchanged"):
    """From a node. Arrays: ``letters`` uint8, for the next epoch."""

    session: bytes
    epoch: int

    def __post_init__(self) -> None:
        """Refuse other numbers."""
        _session(self.session)
        integer("epoch", self.epoch, 0, MAX_EPOCH)


class Finish(Message, frozen=True, tag="prirec.finish"):
    """To every node, at the end. Arrays: ``v`` float64 (D, K)."""

    session: bytes

    def __post_init__(self) -> None:
        """Refuse other sizes."""
        _session(self.session)


def settings_of(config: TrainConfig) -> str:
    """``Joining.settings``."""
    return json.dumps(config.to_dict(), sort_keys=True)


def array(
    arrays: Table, name: str, dtype: str, *shape: int | None, finite: bool = True
) -> NDArray[Any]:
    """The array ``name``, of this dtype and shape, None standing for any length.

    Raises WireError where there is no such array, or a number in it is not finite.
    """
    found = arrays.get(name)
    if found is None or found.dtype != np.dtype(dtype) or found.ndim != len(shape):
        raise WireError(f"the message has no array {name!r} of {dtype} in {len(shape)} axes")
    if any(n is not None and n != length for n, length in zip(shape, found.shape, strict=True)):
        raise WireError(f"the array {name!r} has shape {found.shape}, expected was {shape}")
    if finite and found.dtype.kind == "f" and not np.isfinite(found).all():
        raise WireError(f"the array {name!r} has a number that is not finite")
    return found


def _session(session: bytes) -> None:
    if len(session) != SESSION_BYTES:
        raise ParameterError(f"session must be {SESSION_BYTES} bytes")
