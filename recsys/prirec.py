"""PriRec: private POI recommendation by a decentralised factorization machine.

Source: Chen, Zhou, Wu, Lin, Liu, Chen, "Practical Privacy Preserving POI Recommendation" (2020),
    Algorithms 1-3, Eq. 1-9.
Model: semi-honest. Of the n neighbours of a user at most n - 2 collude; of a cohort of c members
    at most c - 2 collude with the recommender, and nobody drops out; with ``secagg = "full"`` two
    thirds of them at most, less one, and the others may drop out (``recsys.rounds``). With
    ``security = "malicious"`` neighbours and receiver may alter what they send in Algorithm 1: the
    run then ends with AbortError (``mpc.secure_sum_malicious``); aggregation stays semi-honest.
Leaks: docs/threat-model.md lists it by party. In short: a user learns one weighted sum of her
    neighbours' linear models for each mix; the recommender learns V after every round (and so
    each cohort's sum of gradients), the reports of randomized response, and the number of rounds
    in an epoch, which is the users' mean number of batches.
Error: fixed point with l_F fractional bits; tests hold the AUC within .0005 of floating point.
Differs: local batches instead of single samples; cohorts drawn once; weights whose rows sum to
    one, since S_if = 1 diverges. By default one secure sum for each user and epoch, all from one
    snapshot, and then an epoch of plain gradient steps, since sums of consecutive snapshots can be
    subtracted; ``mix = "update"`` is Eq. 8 for each update.

No cryptography here: sums come from ``recsys.sums``, randomized bits from ``ldp``.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from mpc.core.local import LocalNetwork
from mpc.core.ring import Ring
from mpc.fixed import FixedPoint
from recsys.batches import UserBatches, draw_cohorts
from recsys.config import TrainConfig
from recsys.data.geo import nearest, random_neighbours, spherical_mean
from recsys.data.prepare import Pairs, Prepared
from recsys.drop_outs import DropOuts
from recsys.engine import Engine, LocalEngine, split, start_on
from recsys.errors import DivergenceError, PrivacyRefusal
from recsys.features import Features
from recsys.models import fm
from recsys.network import UserNetwork, weigh
from recsys.pads import CohortPads
from recsys.prirec_chunks import PriRecChunk, PriRecPart, PriRecShared, prirec_round
from recsys.recommender import Recommender
from recsys.rounds import CohortRounds, check_drop_outs
from recsys.run import Run
from recsys.scoring import MachineScorer, Scorer
from recsys.simulation import SimulationRng
from recsys.stopwatch import Stopwatch
from recsys.sums import FloatSums, Mix, ProtocolSums, SimulatedSums, Sums
from recsys.training import State
from secagg.quantize import Quantizer

MIN_NEIGHBOURS = 3


class PriRecLearner:
    """Algorithm 2 for all users in one process; row i of ``state["w"]`` is held by user i alone."""

    def __init__(
        self,
        prepared: Prepared,
        features: Features,
        config: TrainConfig,
        sim: SimulationRng,
        run: Run,
        engine: Engine | None = None,
    ) -> None:
        users = prepared.n_users
        self.config = config
        self.features = features
        self.clock = Stopwatch()
        self.traffic = LocalNetwork()
        self.network = build_network(prepared, config, sim)
        self.cohorts = draw_cohorts(users, config.cohort, sim)
        self.batches = UserBatches(prepared.train, users, config.local_batch, sim, config.rounds)
        self._sim = sim
        self._everyone = np.arange(users, dtype=np.int32)
        check_privacy(config, self.network, self.cohorts)
        self.sums = self._open_sums(run)
        self.state = State.start(
            {
                "w": np.zeros((users, features.dim + 1)),
                "v": initial_factors(features, config, sim),
            },
            private=("w",),
        )
        self.scorer: Scorer = MachineScorer(features)
        self._engine = engine or LocalEngine()
        # A sum is short, and worth forming where what it adds up would have to travel.
        adder = self.sums.adder if self._engine.remote else None
        lasting = PriRecShared(config, features, self.batches, sim, adder)
        start_on(self._engine, lasting, self.clock)

    def epoch(self, number: int) -> float:
        """One pass over every user's samples (lines 6-16); the mean loss in nats."""
        rounds = self.batches.rounds
        self.batches.shuffle(number)
        if self.config.mix == "epoch":
            self.state["w"][...] = self._mix(self._everyone)
        total = 0.0
        for round_ in range(rounds):
            with self.clock.step("expand pads"):
                self.sums.begin_round(number * rounds + round_, self.config.epochs * rounds)
            base = self.state["w"]
            if self.config.mix == "update":
                base = self._mix(self.batches.active(round_))
            for cohort in range(len(self.cohorts)):
                total += self._step(cohort, number, round_, base)
        return total / max(1, int(self.batches.counts.sum()))

    def _mix(self, receivers: NDArray[np.int32]) -> fm.Floats:
        """The first term of Eq. 8 for ``receivers``, beside the models of all others unchanged.

        All sums are taken from one snapshot, the models as they are; a new array comes back.
        """
        graph, w = self.network, self.state["w"]
        mixed = w.copy()
        if not graph.size:
            return mixed
        mix = Mix(receivers, graph.neighbours[receivers], graph.weights[receivers])
        with self.clock.step("secure sums"):
            sums = self.sums.mix(w, mix)
        mixed[receivers] = graph.own[receivers, np.newaxis] * w[receivers] + sums
        if graph.amplifies:
            _check_growth(w, mixed)
        return mixed

    def _step(self, cohort: int, number: int, round_: int, base: fm.Floats) -> float:
        """Lines 9-15 for one cohort: its members act at once on the V that they all pulled.

        base: the first term of Eq. 8, from which the gradient at the own model is taken off.
        """
        config, w, v = self.config, self.state["w"], self.state["v"]
        members = self.cohorts[cohort]
        aggregation = number * self.batches.rounds + round_
        with self.clock.step("gradients"):
            absent = self.sums.absent(members, cohort, aggregation)
            whos = [members[part] for part in split(members, config.chunk)]
            chunks = [
                PriRecChunk(
                    *(who, np.intersect1d(absent, who), w[who]),
                    *(number, round_, aggregation, cohort),
                )
                for who in whos
            ]
            parts = self._engine.map(prirec_round, v, chunks)
            gradients = np.concatenate([part.w for part in parts])
            w[members] = base[members] - config.step_w * gradients  # Eq. 8
        if v.size:
            with self.clock.step("secure aggregation"):
                total = self._sum(cohort, aggregation, parts)
            v -= config.step_v * total.reshape(v.shape)  # Eq. 9
        return sum(part.loss for part in parts)

    def _sum(self, cohort: int, aggregation: int, parts: Sequence[PriRecPart]) -> fm.Floats:
        """Lines 14 and 15: the sum of the members' gradients of V."""
        added = [part.added for part in parts if part.added is not None]
        if added:
            return self.sums.combine(cohort, added)
        coins = self._sim.rows("rounding", self.cohorts[cohort], aggregation)
        uploads = np.concatenate([part.uploads for part in parts])
        return self.sums.aggregate(cohort, aggregation, uploads, coins)

    def _open_sums(self, run: Run) -> Sums:
        """Choose how ring sums are formed; in protocol mode also agree all pair keys, once."""
        config = self.config
        drop_outs = DropOuts(self.cohorts, config.drop_rate, self._sim)
        if config.mode == "float":
            return FloatSums(drop_outs)
        ring = Ring(config.ring_bits)
        fixed = FixedPoint(ring, config.frac_bits)
        quantizers = [
            Quantizer(config.clip, config.frac_bits, ring, members.size) for members in self.cohorts
        ]
        if config.mode == "simulate":
            return SimulatedSums(fixed, quantizers, drop_outs)
        with self.clock.step("key agreement"):
            sums = ProtocolSums(
                fixed,
                quantizers,
                self._open_cohorts(ring, run) if self.features.dim else None,
                self.traffic,
                drop_outs=drop_outs,
                relay=config.relay,
                security=config.security,
            )
            graph = self.network
            sums.agree(Mix(self._everyone, graph.neighbours, graph.weights))
        return sums

    def _open_cohorts(self, ring: Ring, run: Run) -> CohortPads | CohortRounds:
        """What adds up the gradients of V; pads agree all their keys here."""
        config, size = self.config, self.features.dim * self.config.factors
        least, network = config.min_cohort, self.traffic
        if config.secagg == "full":
            return CohortRounds(
                self.cohorts, size, ring, min_cohort=least, network=network, tell=run.tell
            )
        return CohortPads(
            self.cohorts,
            size,
            ring,
            min_cohort=least,
            watermark=run.watermark(),
            network=network,
            tell=run.tell,
        )


class PriRec(Recommender):
    """``PriRec(TrainConfig(...)).fit(data)``: the protocol of the paper, or its simulation."""

    models = ("prirec", "prirec-")
    scales_out = True

    def _learner(
        self, prepared: Prepared, features: Features, sim: SimulationRng, run: Run
    ) -> PriRecLearner:
        return PriRecLearner(prepared, features, self.config, sim, run, self._engine)


def build_network(prepared: Prepared, config: TrainConfig, sim: SimulationRng) -> UserNetwork:
    """The network of users that the whole data set is here for; see ``connect``."""
    places = homes(prepared) if needs_homes(config) else None
    return connect(prepared.n_users, config, sim, places)


def needs_homes(config: TrainConfig) -> bool:
    """Whether whoever builds the network has to know where users live."""
    return config.neighbours > 0 and config.network == "geographic"


def connect(
    users: int, config: TrainConfig, sim: SimulationRng, places: tuple[fm.Floats, fm.Floats] | None
) -> UserNetwork:
    """The N nearest users by home (the mean place of the training positives), or N random ones.

    places: latitudes and longitudes (users,); only ``needs_homes`` asks for them.
    """
    if config.neighbours == 0:
        return weigh(np.zeros((users, 0), dtype=np.int32), np.zeros((users, 0)))
    if places is not None:
        neighbours, distances = nearest(*places, config.neighbours)
    else:
        neighbours = random_neighbours(users, config.neighbours, sim)
        distances = np.zeros(neighbours.shape)
    return weigh(neighbours, distances, config.weights, config.own_weight)


def homes(prepared: Prepared) -> tuple[fm.Floats, fm.Floats]:
    """Mean place of each user's training positives; the middle of all POIs for who has none."""
    return homes_of(prepared.train, prepared.n_users, prepared.lat, prepared.lon)


def homes_of(
    train: Pairs, n_users: int, poi_lat: fm.Floats, poi_lon: fm.Floats
) -> tuple[fm.Floats, fm.Floats]:
    """The same of any users: a user's home depends on her own visits and on where POIs are."""
    users, pois = train.positives()
    absent = np.setdiff1d(np.arange(n_users, dtype=np.int32), users)
    nowhere = np.zeros(poi_lat.size, dtype=np.int32)
    middle = spherical_mean(nowhere, poi_lat, poi_lon, 1)
    lat, lon = (
        np.concatenate([place[pois], np.repeat(centre, absent.size)])
        for place, centre in zip((poi_lat, poi_lon), middle, strict=True)
    )
    return spherical_mean(np.concatenate([users, absent]), lat, lon, n_users)


def _check_growth(before: fm.Floats, after: fm.Floats) -> None:
    """DivergenceError if a mix made the largest weight larger.

    Repeated, that leaves every range, but early stopping may come first and hide it.
    """
    largest, grown = float(np.abs(before).max()), float(np.abs(after).max())
    if grown > largest:
        raise DivergenceError(
            f"mixing raised the largest weight of a linear model from {largest:.3g} to "
            f"{grown:.3g}, because the weights of a user's neighbours sum to more than one"
        )


def check_neighbours(config: TrainConfig, neighbours: int) -> None:
    """Refuse a secure sum over so few neighbours that one of them opens another's model."""
    if config.mode == "protocol" and 0 < neighbours < MIN_NEIGHBOURS:
        raise PrivacyRefusal(
            f"{neighbours} neighbours: a sum of fewer than {MIN_NEIGHBOURS} models opens one of "
            "them to a single colluding neighbour",
            remedy=f"--neighbours {MIN_NEIGHBOURS} or more, --neighbours 0, or --mode simulate",
        )


def check_privacy(
    config: TrainConfig, network: UserNetwork, cohorts: list[NDArray[np.int32]]
) -> None:
    """Refuse what would open a single user's model or gradient."""
    check_neighbours(config, network.size)
    smallest = min(members.size for members in cohorts)
    if config.mode != "float" and smallest < config.min_cohort:
        raise PrivacyRefusal(
            f"a cohort of {smallest} users is below the minimum of {config.min_cohort}: the sum of "
            "so few gradients tells too much about each",
            remedy="train with more users or a larger --cohort, or lower --min-cohort (never below "
            "3)",
        )
    if config.mode != "float" and config.secagg == "full":
        check_drop_outs([members.size for members in cohorts], config.drop_rate, config.min_cohort)


def initial_factors(features: Features, config: TrainConfig, sim: SimulationRng) -> fm.Floats:
    """V at the start: normal with standard deviation ``init_scale``."""
    generator = sim.generator("factors")
    return config.init_scale * generator.standard_normal((features.dim, config.factors))
