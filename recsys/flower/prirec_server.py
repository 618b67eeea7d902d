"""The recommender of PriRec over a federation: V, what is public about POIs, who mixes with whom.

Source: PriRec (Chen et al., 2020), Algorithm 2.
Model: as ``recsys.flower.prirec``. It relays letters between nodes and can read none.
Leaks: see there.
Differs: a round whose secure sum fails leaves V as it is, and is not repeated: the same gradients
    in another sum would show by the difference who was missing.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from mpc.core.errors import AbortError, ParameterError, WireError
from mpc.core.ring import Ring
from mpc.core.rng import SYSTEM_RNG
from mpc.core.wire import Message
from mpc.fixed import FixedPoint
from mpc.relay import Letter, Offer
from mpc.relay_messages import SESSION_BYTES, letter_bytes
from recsys.data.geo import check_coordinates
from recsys.errors import DivergenceError, PrivacyRefusal
from recsys.features import Features, assemble_from, questions
from recsys.flower.prirec_mail import letter_size
from recsys.flower.prirec_messages import (
    MAX_USER,
    Exchange,
    Exchanged,
    Finish,
    Joined,
    Joining,
    Setup,
    Table,
    array,
    settings_of,
)
from recsys.flower.prirec_node import letters_in, vars_of
from recsys.flower.prirec_rows import Ids, Rows, node_rows
from recsys.flower.prirec_scores import means
from recsys.flower.prirec_settings import PriRecSettings
from recsys.flower.prirec_visits import Places
from recsys.models.fm import Floats
from recsys.prirec import connect, initial_factors, needs_homes
from recsys.simulation import SimulationRng

MOST_FAILURES = 3
"""Rounds in a row without a sum that end a training."""

Asked = Mapping[int, tuple[Message, Table]]
"""A message with its arrays, by node."""


class Summed(Protocol):
    """What comes back from a secure sum."""

    @property
    def arrays(self) -> Mapping[str, Floats]:
        """``v``: the sum of gradients."""

    @property
    def figures(self) -> Mapping[str, float]:
        """The sums of the nodes' figures."""


class Nodes(Protocol):
    """How the recommender reaches its nodes."""

    def present(self) -> list[int]:
        """Who is there, once enough are. AbortError if they never are."""

    def ask(self, step: str, asked: Asked) -> dict[int, tuple[bytes, Table]]:
        """One trip: what the nodes answer; who does not is left out."""

    def sum(self, v: Floats, epoch: int, round_: int, held_out: str, users: int) -> Summed | None:
        """The secure sum of what all nodes find in a round; None where there is none.

        users: the most of one node.
        """


@dataclass(frozen=True)
class PriRecEpoch:
    """One line of the learning curve: means over users; None where no sum told."""

    epoch: int
    loss: float | None
    held_out: float | None
    auc: float | None


@dataclass(frozen=True, eq=False)
class Trained:
    """What the recommender has at the end.

    nodes, users: that joined.  unmixed: users who keep their own models, because their neighbours
    live on one or two other nodes.  failed: rounds without a sum.  silent: answers that did not
    come in exchanges.  letter: bytes of a letter on its way.
    """

    v: Floats = field(repr=False)
    features: Features = field(repr=False)
    history: list[PriRecEpoch]
    nodes: int
    users: int
    unmixed: int
    failed: int
    silent: int
    letter: int


@dataclass(frozen=True, eq=False)
class _Member:
    """A node that has joined. ids: of its users."""

    offer: Offer
    ids: Ids
    told: Table = field(repr=False)

    @property
    def party(self) -> int:
        return self.offer.party


class PriRecServer:
    """One training. ``train`` runs all of it."""

    def __init__(self, settings: PriRecSettings, places: Places, nodes: Nodes) -> None:
        self._settings, self._config, self._places = settings, settings.train, places
        self._nodes = nodes
        self._session = SYSTEM_RNG.bytes(SESSION_BYTES)
        seed = self._config.seed
        drawn = int.from_bytes(SYSTEM_RNG.bytes(8), "big")
        self._sim = SimulationRng(drawn if seed is None else seed)
        self._members: dict[int, _Member] = {}
        self._mail: dict[int, list[bytes]] = {}
        self._failed = self._in_a_row = self._silent = 0

    def train(self, progress: Callable[[PriRecEpoch], None] | None = None) -> Trained:
        """All epochs.

        Raises AbortError for too few nodes, PrivacyRefusal for too few users or users whose sums
        would tell too much, DivergenceError.
        """
        config = self._config
        self._join()
        users = sum(member.ids.size for member in self._members.values())
        self._check_users(users)
        features = self._features(users)
        rows, unmixed = self._rows()
        fixed = FixedPoint(Ring(config.ring_bits), config.frac_bits)
        size = letter_size(rows, features.dim + 1, fixed)
        v = initial_factors(features, config, self._sim)
        setups = self._setups(features, rows, size)
        most = max(member.ids.size for member in self._members.values())
        rounds, history = config.rounds or 1, []
        for epoch in range(config.epochs):
            figures: Mapping[str, float] | None = None
            for round_ in range(rounds):
                if round_ in (0, rounds - 1):
                    self._exchange(epoch, round_, v, setups, size)
                held_out = self._held_out(epoch, last=round_ == rounds - 1)
                summed = self._nodes.sum(v, epoch, round_, held_out, most)
                self._count(summed)
                if summed is not None:
                    v = v - config.step_v * summed.arrays["v"]  # Eq. 9
                    figures = summed.figures
            if not np.isfinite(v).all():
                raise DivergenceError("V is no longer finite", epoch=epoch + 1)
            told = (None, None, None) if figures is None else means(figures)
            history.append(PriRecEpoch(epoch + 1, *told))
            if progress is not None:
                progress(history[-1])
        if self._failed == config.epochs * rounds:
            raise _no_sums("no round gave a sum")
        finish = Finish(self._session)
        self._asked("finish", {node: (finish, {"v": v}) for node in self._members})
        return Trained(
            v=v,
            features=features,
            history=history,
            nodes=len(self._members),
            users=users,
            unmixed=unmixed,
            failed=self._failed,
            silent=self._silent,
            letter=letter_bytes(size),
        )

    # Before the first epoch.

    def _join(self) -> None:
        """Who takes part, from now on to the end."""
        config, places = self._config, self._places
        arrays = vars_of(places)
        asked: dict[int, tuple[Message, Table]] = {}
        for number, node in enumerate(sorted(self._nodes.present())):
            joining = Joining(
                self._session,
                number,
                settings_of(config),
                self._settings.data,
                places.poi_ids,
                places.category_names,
            )
            asked[node] = joining, arrays
        taken = 0
        for node, (data, told) in self._asked("join", asked).items():
            try:
                member = self._member(data, told, taken)
            except WireError:  # a node that makes no sense is none, and the others go on
                self._silent += 1
                continue
            taken += member.ids.size
            self._members[node] = member
        if len(self._members) < self._settings.nodes:
            raise AbortError(
                f"{len(self._members)} of {self._settings.nodes} nodes have joined",
                remedy="see the nodes' own logs for why the others did not",
            )

    def _member(self, data: bytes, told: Table, taken: int) -> _Member:
        """Who joins. WireError for what cannot be, and for a party or a user who has joined."""
        joined = Joined.from_bytes(data)
        offer = Offer.from_bytes(joined.offer)
        users, pois = joined.users, len(self._places.poi_ids)
        # The numbers that its users have already, or the next ones.
        ids: Ids = np.arange(taken, taken + users, dtype=np.uint32)
        if "ids" in told:
            ids = array(told, "ids", "uint32", users)
        ones = array(told, "ones", "int64", len(questions(self._config)), pois)
        kept: Table = {"ones": ones}
        if needs_homes(self._config):
            kept |= {name: array(told, name, "float64", users) for name in ("lat", "lon")}
            try:
                check_coordinates(kept["lat"], kept["lon"])
            except ParameterError as error:
                raise WireError("a home is nowhere on the globe") from error
        taken_ids = [member.ids for member in self._members.values()]
        rules = (
            offer.session == self._session,
            offer.party <= MAX_USER,
            offer.party not in [member.party for member in self._members.values()],
            users > 0,
            np.unique(ids).size == users,
            ids.max(initial=0) <= MAX_USER,
            not any(np.isin(ids, others).any() for others in taken_ids),
            not ((ones < 0) | (ones > users)).any(),
        )
        if not all(rules):
            raise WireError("a node joins as nobody that can be")
        return _Member(offer, ids, kept)

    def _check_users(self, users: int) -> None:
        least = self._config.min_cohort
        if users < least:
            raise PrivacyRefusal(
                f"{users} users are below the minimum of {least}: the sum of so few gradients "
                "tells too much about each",
                remedy="train with more users, or lower min-cohort (never below 3)",
            )

    def _features(self, users: int) -> Features:
        """Static ones, and what randomized bits tell."""
        ones = np.sum([member.told["ones"] for member in self._members.values()], axis=0)
        places = self._places.nobody()
        return assemble_from(places, self._config, np.zeros((0, 0)), ones, users)

    def _rows(self) -> tuple[Rows, int]:
        """The user network, and how many users cannot mix."""
        config, members = self._config, list(self._members.values())
        ids = np.concatenate([member.ids for member in members])
        parties = np.repeat(
            np.array([member.party for member in members], dtype=np.uint32),
            [member.ids.size for member in members],
        )
        order = np.argsort(ids)
        places = None
        if needs_homes(config):
            lat, lon = (np.concatenate([m.told[name] for m in members]) for name in ("lat", "lon"))
            places = lat[order], lon[order]
        network = connect(ids.size, config, self._sim, places)
        rows, unmixed = node_rows(network, ids[order], parties[order])
        if unmixed == ids.size or (unmixed and self._settings.few_nodes == "refuse"):
            raise PrivacyRefusal(
                f"the neighbours of {unmixed} of {ids.size} users live on one or two other nodes: "
                "a sum over so few tells too much about each",
                remedy="take more nodes (four at least) or more neighbours, or none of these: "
                "neighbours = 0",
            )
        return rows, unmixed

    def _setups(self, features: Features, rows: Rows, size: int) -> dict[int, tuple[bytes, Table]]:
        """What each node is told of all that."""
        offers = {m.party: m.offer.to_bytes() for m in self._members.values()}
        setups: dict[int, tuple[bytes, Table]] = {}
        for node, member in self._members.items():
            peers = sorted(rows.peers(member.party))
            setup = Setup(tuple(offers[peer] for peer in peers), size)
            mine = rows.of(member.party).to_arrays()
            told: Table = {"poi": features.poi, "ids": member.ids, **mine}
            setups[node] = setup.to_bytes(), told
        return setups

    # Epoch by epoch.

    def _exchange(
        self,
        epoch: int,
        round_: int,
        v: Floats,
        setups: dict[int, tuple[bytes, Table]],
        size: int,
    ) -> None:
        """Bring letters to their nodes, with V, and take those for the next epoch.

        A node is told its setup until it has answered.
        """
        mail, self._mail = self._mail, {}
        asked: dict[int, tuple[Message, Table]] = {}
        for node, member in self._members.items():
            setup, told = setups.get(node, (b"", {}))
            message = Exchange(self._session, epoch, round_, setup)
            brought = np.frombuffer(b"".join(mail.get(member.party, [])), dtype=np.uint8)
            asked[node] = message, {"v": v, "letters": brought, **told}
        for node, (data, told) in self._asked("exchange", asked).items():
            setups.pop(node, None)
            try:
                answered, letters = Exchanged.from_bytes(data), letters_in(told)
            except WireError:
                self._silent += 1
                continue
            if (answered.session, answered.epoch) == (self._session, epoch):
                self._sort(self._members[node].party, letters, letter_bytes(size))

    def _sort(self, sender: int, letters: bytes, size: int) -> None:
        """Put what a node wrote to the letters of its addressees; what is no letter is dropped."""
        for start in range(0, len(letters), size):
            data = letters[start : start + size]
            try:
                letter = Letter.from_bytes(data)
            except WireError:
                continue
            if letter.sender == sender:
                self._mail.setdefault(letter.to, []).append(data)

    def _asked(self, step: str, asked: Asked) -> dict[int, tuple[bytes, Table]]:
        answers = self._nodes.ask(step, asked)
        self._silent += len(asked) - len(answers)
        return answers

    def _held_out(self, epoch: int, *, last: bool) -> str:
        if not last:
            return ""
        return "test" if epoch + 1 == self._config.epochs else "validation"

    def _count(self, summed: Summed | None) -> None:
        if summed is not None:
            self._in_a_row = 0
            return
        self._failed += 1
        self._in_a_row += 1
        if self._in_a_row >= MOST_FAILURES:
            raise _no_sums(f"{self._in_a_row} rounds in a row gave no sum")


def _no_sums(problem: str) -> AbortError:
    return AbortError(problem, remedy="see Flower's log for the nodes that are missing, and why")
