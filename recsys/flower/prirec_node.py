"""A node of PriRec: what it does with each message of the recommender, and what it keeps.

    node, joined, arrays = PriRecNode.join(joining, ...)
    exchanged, arrays = node.exchange(message, arrays)      first and last round of each epoch
    found = node.gradients(epoch, round, v)                 what goes into the secure sum
    kept = node.suspend()                                   between messages

Source: PriRec (Chen et al., 2020), Algorithm 2.
Model: as ``recsys.flower.prirec``. A node computes each round of each epoch once, in rising order,
    and writes letters once in an epoch. What it gives into the secure sum of a round was computed
    at the very V that the masks are bound to.
Leaks: what ``Joined``, ``Exchanged`` and ``Found`` hold, and nothing else leaves. The number of
    clipped entries stays here.
"""

import hashlib
import math
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from mpc.core.errors import StateError, WireError
from mpc.core.keys import label
from mpc.core.ring import Ring
from mpc.core.wire import Message
from mpc.fixed import FixedPoint
from mpc.relay import Mailbox, Marks, Offer, Signer, Verify
from recsys.batches import UserBatches
from recsys.config import TrainConfig
from recsys.data.prepare import Pairs
from recsys.errors import DivergenceError, PrivacyRefusal
from recsys.features import Features
from recsys.flower.prirec_answers import answer
from recsys.flower.prirec_mail import Mail
from recsys.flower.prirec_messages import (
    Exchange,
    Exchanged,
    Finish,
    Joined,
    Joining,
    Setup,
    Table,
    array,
)
from recsys.flower.prirec_rows import Ids, Rows
from recsys.flower.prirec_scores import figures_of, held_out_figures
from recsys.flower.prirec_visits import NodeVisits, Places
from recsys.model_files import ModelFiles, write_model
from recsys.models.fm import Floats
from recsys.prirec import homes, needs_homes
from recsys.prirec_step import local_gradients
from recsys.scoring import MachineScorer
from recsys.simulation import SimulationRng
from recsys.sums import check_gradients
from secagg.quantize import Quantizer

HELD_OUT = ("validation", "test")
_PARTS = ("train", *HELD_OUT)
_RING = Ring(64)
"""A node adds up in machine integers; the ring is that of the sum over nodes."""


@dataclass(frozen=True, eq=False)
class Found:
    """What a node puts into the sum: gradients on the grid (D, K), and figures by name."""

    gradients: Floats = field(repr=False)
    figures: dict[str, float] = field(repr=False)


class Kept(Message, frozen=True, tag="prirec.kept"):
    """A node between two messages, beside its arrays.

    at: epoch and round of the last step that was computed, from 1; (0, 0) before the first.
    basis: SHA-256 of the V that it was computed at.
    """

    joining: bytes
    mailbox: bytes
    letter: int
    user_ids: tuple[str, ...]
    seed: int
    at: tuple[int, int] = (0, 0)
    basis: bytes = b""


class PriRecNode:
    """One node that has joined a session.

    arrays: all that it keeps, by name; changed in place.  A refusal raises and changes nothing, for
    whoever stores the node does so after a message that went well.
    """

    def __init__(self, kept: Kept, mailbox: Mailbox, arrays: Table) -> None:
        self._kept, self._box, self.arrays = kept, mailbox, arrays
        self.joining = Joining.from_bytes(kept.joining)

    # Before the first epoch.

    @classmethod
    def join(
        cls,
        joining: Joining,
        places: Places,
        visits: NodeVisits,
        *,
        key: bytes,
        seed: int,
        folder: Path | None = None,
        party: int | None = None,
        signer: Signer | None = None,
        marks: Marks | None = None,
        tells_homes: bool = True,
        most_epsilon: float = math.inf,
    ) -> tuple[Self, Joined, Table]:
        """Enter a session: the node, and what it says.

        key, folder, most_epsilon: see ``prirec_answers``.  seed: of this node's experiment coins.
        party: the node's number in a roster, with ``signer``.  tells_homes: whether the server may
        know where users live.
        Raises PrivacyRefusal where something would leave that must not.
        """
        config, prepared = joining.config, visits.prepared
        own = joining.party if party is None else party
        box = Mailbox(joining.session, own, marks=marks)
        told: Table = {"ones": answer(visits, config, key, folder, most_epsilon)}
        if needs_homes(config):
            told |= _homes(visits, tells_homes=tells_homes)
        if visits.ids is not None:
            told["ids"] = visits.ids
        arrays: Table = {"w": np.zeros((prepared.n_users, 0)), **vars_of(places)}
        for name in _PARTS:
            part: Pairs = getattr(prepared, name)
            arrays |= {
                f"{name}.{each}": getattr(part, each) for each in ("users", "pois", "labels")
            }
        history = prepared.visitors
        arrays |= {"visits.users": history.users, "visits.pois": history.pois}
        kept = Kept(joining.to_bytes(), b"", 0, prepared.user_ids, seed)
        offer = box.offer(signer)
        return cls(kept, box, arrays), Joined(offer.to_bytes(), prepared.n_users), told

    def set_up(self, setup: Setup, told: Table, *, verify: Verify | None = None) -> None:
        """Take over POI features, ids and the user network, and meet the other nodes.

        verify: where nodes have identities; see ``Mailbox.meet``.
        What comes a second time is passed over: the answer to the first one was lost.
        Raises WireError for what does not fit, PeerError for offers that are refused.
        """
        if "ids" in self.arrays:
            return
        users, pois = len(self._kept.user_ids), len(self.joining.poi_ids)
        poi = array(told, "poi", "float64", pois, None)
        ids = array(told, "ids", "uint32", users)
        if np.unique(ids).size < users:
            raise WireError("two users of this node have one id")
        rows = Rows.from_arrays(told)
        rows.check(self._box.party, ids)
        if len(rows) and rows.size != self.config.neighbours:
            raise WireError(f"users have {rows.size} neighbours, not {self.config.neighbours}")
        self._box.meet(
            [Offer.from_bytes(offer) for offer in setup.offers],
            context=_context(self.joining, poi, setup.letter),
            verify=verify,
        )
        w = np.zeros((users, poi.shape[1] + 1))
        self.arrays |= {"poi": poi, "ids": ids, "w": w, **rows.to_arrays()}
        self._kept = _with(self._kept, letter=setup.letter)

    # Epoch by epoch.

    def exchange(self, message: Exchange, told: Table) -> tuple[Exchanged, Table, int, int]:
        """Mix, compute the round, write letters for the next epoch: whatever of it is due.

        Returns what to answer, and for this node's own log how many of its users could not mix, and
        how many letters were refused.
        """
        epoch, round_ = message.epoch, message.round
        v = self._checked(epoch, round_, told)
        without = refused = 0
        if round_ == 0 and epoch:
            mixed = self._mail.read(epoch, letters_in(told), self.arrays["w"])
            self.arrays["w"], without, refused = mixed.w, mixed.without, mixed.refused
        self._step(epoch, round_, v)
        answered = Exchanged(message.session, epoch)
        if round_ < self._rounds - 1 or epoch + 1 >= self.config.epochs:
            return answered, {}, without, refused
        written = self._mail.write(epoch + 1, self.arrays["w"])
        told = {"letters": np.frombuffer(written, dtype=np.uint8)}
        return answered, told, without, refused

    def gradients(self, epoch: int, round_: int, v: Floats, held_out: str = "") -> Found:
        """The sum of the users' gradients of V in a round, clipped and rounded, each by itself.

        held_out: "validation" or "test", to be scored with the models of after the round.
        Computes the round where no exchange has. Raises StateError for one that is over, or was
        computed at another V.
        """
        if self._kept.at != (epoch + 1, round_ + 1):
            self._step(epoch, round_, self._checked(epoch, round_, {"v": v}))
        elif self._kept.basis != _digest(v):
            raise StateError("this round was computed at another V than the one to be summed at")
        users, losses = self.arrays["stash.figures"].tolist()
        figures = figures_of(users, losses)
        if held_out in HELD_OUT:
            pairs = self._pairs(held_out)
            figures |= held_out_figures(self._features, self.arrays["w"], v, pairs)
        grid = self.arrays["stash.v"] / 2.0**self.config.frac_bits
        return Found(grid, figures)

    def finish(self, message: Finish, told: Table, folder: Path | None) -> None:
        """Forget the session's keys; with a folder, write this node's own model into it."""
        v = self._shaped(told)
        if folder is not None:
            self._write(folder, v)

    # One round.

    def _checked(self, epoch: int, round_: int, told: Table) -> Floats:
        """V; StateError unless the round lies ahead, WireError for a V that does not fit."""
        v = self._shaped(told)
        if (epoch + 1, round_ + 1) <= self._kept.at:
            raise StateError(f"round {round_} of epoch {epoch} was computed before, or passed")
        if epoch >= self.config.epochs or round_ >= self._rounds:
            raise StateError(f"there is no round {round_} of epoch {epoch} in this training")
        return v

    def _shaped(self, told: Table) -> Floats:
        if "ids" not in self.arrays:
            raise StateError("this node has not been set up")
        return array(told, "v", "float64", self.arrays["poi"].shape[1], self.config.factors)

    def _step(self, epoch: int, round_: int, v: Floats) -> None:
        """Lines 9 to 14 for all users of the node."""
        config, w, sim = self.config, self.arrays["w"], self._sim
        ids: Ids = self.arrays["ids"]
        members = np.arange(ids.size, dtype=np.int32)
        train = self._pairs("train")
        batches = UserBatches(train, ids.size, config.local_batch, sim, self._rounds, ids)
        batches.shuffle(epoch)
        batch = batches.take(members, round_)
        step = local_gradients(self._features, members, batch, w, v, config)
        check_gradients(step.v)
        moved = w - config.step_w * step.w  # Eq. 8
        if not np.isfinite(moved).all():
            raise DivergenceError("a linear model is no longer finite")
        quantizer = Quantizer(config.clip, config.frac_bits, _RING, max(2, ids.size))
        coins = sim.rows("rounding", ids, epoch * self._rounds + round_)
        flat = step.v.reshape(ids.size, -1)
        rounded, _ = quantizer.to_integers(flat, rng=coins)
        active = batch.counts > 0
        each = np.bincount(
            np.repeat(members, batch.counts.astype(np.intp)), step.losses, minlength=ids.size
        )
        mean = each[active] / batch.counts[active]
        self.arrays["w"] = moved
        self.arrays["stash.v"] = rounded.sum(axis=0).reshape(v.shape)
        self.arrays["stash.figures"] = np.array([float(active.sum()), float(mean.sum())])
        self._kept = _with(self._kept, at=(epoch + 1, round_ + 1), basis=_digest(v))

    @property
    def config(self) -> TrainConfig:
        """The model's settings."""
        return self.joining.config

    @property
    def _rounds(self) -> int:
        return self.config.rounds or 1

    @property
    def _sim(self) -> SimulationRng:
        seed = self.config.seed
        return SimulationRng(self._kept.seed if seed is None else seed)

    @property
    def _features(self) -> Features:
        users = len(self._kept.user_ids)
        return Features(np.zeros((users, 0)), self.arrays["poi"], (), ())

    @cached_property
    def _mail(self) -> Mail:
        config = self.config
        return Mail(
            self._box,
            Rows.from_arrays(self.arrays),
            self.arrays["ids"],
            self.arrays["w"].shape[1],
            FixedPoint(Ring(config.ring_bits), config.frac_bits),
            self._kept.letter,
        )

    def _pairs(self, part: str) -> Pairs:
        names = ("users", "pois", "labels")
        return Pairs(*(self.arrays[f"{part}.{name}"] for name in names))

    def _write(self, folder: Path, v: Floats) -> None:
        """A model as ``privrec recommend`` reads it, with this node's users alone in it."""
        features = replace(self._features, names=tuple(map(str, range(v.shape[0]))))
        files = ModelFiles(
            arrays={"w": self.arrays["w"], "v": v},
            private=frozenset({"w"}),
            scorer=MachineScorer(features),
            features=features,
            user_ids=self._kept.user_ids,
            poi_ids=self.joining.poi_ids,
            lat=self.arrays["lat"],
            lon=self.arrays["lon"],
            category=self.arrays["category"],
            category_names=self.joining.category_names,
            visit_users=self.arrays["visits.users"],
            visit_pois=self.arrays["visits.pois"],
        )
        write_model(folder, files, self.config)

    # Between messages.

    def suspend(self) -> bytes:
        """All that the node knows beside ``arrays``, keys included."""
        return _with(self._kept, mailbox=self._box.suspend()).to_bytes()

    @classmethod
    def resume(cls, data: bytes, arrays: Table, *, marks: Marks | None = None) -> Self:
        """The node that ``suspend`` wrote down. WireError for bytes that it did not write."""
        kept = Kept.from_bytes(data)
        return cls(kept, Mailbox.resume(kept.mailbox, marks=marks), arrays)

    def __repr__(self) -> str:
        return f"PriRecNode(party={self._box.party}, users={len(self._kept.user_ids)})"


def vars_of(places: Places) -> Table:
    """The arrays of ``places``, which travel beside its names."""
    return {"lat": places.lat, "lon": places.lon, "category": places.category}


def places_of(joining: Joining, told: Table) -> Places:
    """The POIs that a session is about. WireError for arrays that do not fit."""
    count = len(joining.poi_ids)
    return Places(
        joining.poi_ids,
        array(told, "lat", "float64", count),
        array(told, "lon", "float64", count),
        array(told, "category", "int32", count),
        joining.category_names,
    )


def _homes(visits: NodeVisits, *, tells_homes: bool) -> Table:
    if not tells_homes:
        raise PrivacyRefusal(
            "a geographic network needs to know where users live, and the server would",
            remedy="set network = \"random\", or allow it: --node-config 'privrec-tell-homes=true'",
        )
    lat, lon = homes(visits.prepared)
    return {"lat": lat, "lon": lon}


def _context(joining: Joining, poi: Floats, letter: int) -> bytes:
    """What all nodes must have been told alike, for their keys."""
    parts = (joining.settings, "\0".join(joining.poi_ids))
    told = [hashlib.sha256(part.encode()).digest() for part in parts]
    text = label("prirec.session", joining.session, *told, _digest(poi), letter)
    return hashlib.sha256(text).digest()


def _digest(values: NDArray[Any]) -> bytes:
    return hashlib.sha256(np.ascontiguousarray(values, dtype="<f8").tobytes()).digest()


def letters_in(told: Table) -> bytes:
    """The letters in a message, one after the other. WireError for what can be none."""
    return array(told, "letters", "uint8", None).tobytes() if "letters" in told else b""


def _with(kept: Kept, **changes: Any) -> Kept:
    fields = {name: getattr(kept, name) for name in kept.__struct_fields__}
    return Kept(**{**fields, **changes})
