"""The privacy ledger: every release of a run, what it costs, and the worst of them as headline.

Source: composition as in Dwork and Roth, "The Algorithmic Foundations of Differential Privacy"
    (2014), theorem 3.16 (basic composition); the bound at DELTA beside it is ``ldp.composition``'s.
Model: each release names its own adversary. Epsilon is in nats, never rounded down; infinity means
    that the release has no differential privacy and rests on secrecy of the sum alone. The headline
    is pure: no delta makes it smaller.
"""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from ldp import rounding
from ldp.accounting import compose
from ldp.composition import Bound, best_bound
from ldp.composition import Release as Report
from ldp.losses import PureLoss
from mpc.secure_sum_malicious import SECURITY_BITS
from mpc.spdz2k import Sizes
from recsys.baselines.dmf import DMFLearner
from recsys.config import BY_ID, TrainConfig
from recsys.dynamic import PoiEstimates
from recsys.engine import LOCAL
from recsys.prirec import PriRecLearner
from recsys.recommender import Recommender
from recsys.rounds import colluding, threshold

INFINITY = "infinity"
"""How an unbounded epsilon is written in JSON, which has no number for it."""

DELTA = 1e-6
"""The delta of bounds that need one. It is for each user, so must be far below one in all users."""


@dataclass(frozen=True)
class Release:
    """One thing that leaves a user's device.

    epsilon_unit: loss for one ``unit``.  epsilon_user: loss for all data of one user.
    rounds: how often it is released.  sees: who receives it.
    adversary: against whom the statement holds.
    best: the smallest bound at DELTA for all data of one user, where it is below epsilon_user.
    """

    what: str
    sees: str
    unit: str
    epsilon_unit: float
    epsilon_user: float
    rounds: int
    adversary: str
    note: str = ""
    best: Bound | None = None

    def costs(self) -> list[str]:
        """The losses in words: for a unit and, where it differs, for a user, by each statement."""
        told = [f"{shown(self.epsilon_unit)} per {self.unit}"]
        if self.epsilon_user != self.epsilon_unit:
            told.append(f"{shown(self.epsilon_user)} per user")
        if self.best is not None and shown(self.best.epsilon) != shown(self.epsilon_user):
            at = f"delta = {self.best.delta!r} ({self.best.method} composition)"
            told.append(f"{shown(self.best.epsilon)} per user at {at}")
        return told

    def to_dict(self) -> dict[str, Any]:
        """Plain values; an unbounded epsilon as the word ``infinity``."""
        return {name: plain(value) for name, value in asdict(self).items()}


@dataclass(frozen=True)
class Ledger:
    """All releases of one run. engines: where users' work was done (``recsys.engine``)."""

    releases: tuple[Release, ...]
    seeded: bool
    nominal: Release | None
    engines: tuple[str, ...] = field(default=(LOCAL,), kw_only=True)

    @property
    def headline(self) -> str:
        """The worst release, in words; a seeded run has no privacy at all."""
        worst = max(self.releases, key=lambda release: release.epsilon_user)
        if self.seeded:
            nominal = "none" if self.nominal is None else shown(self.nominal.epsilon_unit)
            return f"privacy: none (reproducible simulation), nominal epsilon = {nominal}" + (
                f" per {self.nominal.unit}" if self.nominal else ""
            )
        return f"worst release: {worst.what}, epsilon = {shown(worst.epsilon_user)} per user"

    def epsilon(self) -> dict[str, Any]:
        """The ``epsilon`` object of the JSON output."""
        nominal = self.nominal
        worst = max(release.epsilon_user for release in self.releases)
        return {
            "headline": plain(math.inf if self.seeded else worst),
            "bit": None if nominal is None else plain(nominal.epsilon_unit),
            "user": None if nominal is None else plain(nominal.epsilon_user),
            "rounds": None if nominal is None else nominal.rounds,
            "scope": None if nominal is None else nominal.what,
            "note": self.headline,
        }

    def to_dict(self) -> dict[str, Any]:
        """The whole ledger as plain values."""
        return {
            "headline": self.headline,
            "seeded": self.seeded,
            "epsilon": self.epsilon(),
            "engines": list(self.engines),
            "releases": [release.to_dict() for release in self.releases],
        }

    def lines(self) -> list[str]:
        """The ledger in sentences, the headline first."""
        lines = [self.headline]
        for release in self.releases:
            cost = f"epsilon = {', '.join(release.costs())}"
            rounds = "once" if release.rounds == 1 else f"{release.rounds:,} times"
            line = f"{release.what}: seen by {release.sees}, {rounds}; {cost}; {release.adversary}"
            lines.append(f"{line}. {release.note}" if release.note else f"{line}.")
        away = [engine for engine in self.engines if engine != LOCAL]
        if away:
            lines.append(
                f"Users' work was done by workers of the engine {', '.join(away)}. They were sent "
                "what the process that trains holds of the users: whoever runs them is no party."
            )
        return lines


def plain(value: Any) -> Any:
    """``value`` for JSON: an infinite epsilon becomes a word."""
    return INFINITY if isinstance(value, float) and math.isinf(value) else value


def shown(epsilon: float) -> str:
    """Epsilon (at least 0, or infinite) for a reader: four decimals, rounded up, never down.

    Read as a double again, the text is never below ``epsilon``.
    """
    return INFINITY if math.isinf(epsilon) else rounding.shown(epsilon)


def build_ledger(model: Recommender) -> Ledger:
    """The ledger of a model that ``fit`` has just trained."""
    config = model.config
    learner = model.learner_
    dynamic = _dynamic(model)
    releases = [dynamic] if dynamic else []
    if isinstance(learner, PriRecLearner):
        releases += _prirec(learner, len(model.history_))
    elif isinstance(learner, DMFLearner):
        releases += _dmf(learner, len(model.history_))
    else:
        releases.append(_central(config))
    return Ledger(tuple(releases), config.seed is not None, dynamic)


def _dynamic(model: Recommender) -> Release | None:
    counts = model.features_.counts
    if not counts:
        return None
    bit = compose(count.epsilon for count in counts)
    pois = model.prepared_.n_pois
    user = compose([bit] * pois)
    best = best_bound([Report(PureLoss(count.epsilon), pois) for count in counts], DELTA)
    return Release(
        what=_collected(counts),
        sees="the recommender",
        unit="user-POI pair",
        epsilon_unit=bit,
        epsilon_user=user,
        rounds=1,
        adversary="epsilon-LDP against whoever holds all reports, given ideal coins",
        note=f"A user answers for each of {pois:,} POIs, by all her visits that are not held "
        "out. Answers are memoized: asking again repeats them and costs nothing more.",
        best=best if best.epsilon < user else None,
    )


def _collected(counts: Sequence[PoiEstimates]) -> str:
    """What the dynamic features are and by which mechanism, in words."""
    if counts[0].cap is not None:  # an average stands alone
        return f"average visits by 1BitMean, capped at {counts[0].cap}"
    return f"dynamic features ({', '.join(count.name for count in counts)}) by randomized response"


def _central(config: TrainConfig) -> Release:
    what, note = (
        "all check-ins and user features",
        "The factorization machine is trained centrally.",
    )
    if config.model in BY_ID:
        what, note = "all check-ins", "The matrix of visits is factorized centrally."
    return open_release(what, "the recommender", 1, "no protection", note)


def _dmf(learner: DMFLearner, epochs: int) -> list[Release]:
    size = learner.network.size
    releases = _homes(learner.config) if size else []
    if size:
        releases.append(
            open_release(
                "POI and gradient of its global factors, for every training sample",
                f"each of the user's {size} neighbours",
                epochs,
                "no protection",
                "A message names the POI, and which way the gradient points tells a visit from a "
                "negative.",
            )
        )
    releases.append(_curve("mean training loss and validation AUC", epochs))
    return releases


def _prirec(learner: PriRecLearner, epochs: int) -> list[Release]:
    config, network = learner.config, learner.network
    rounds = learner.batches.rounds
    smallest = min(members.size for members in learner.cohorts)
    releases = []
    if network.size:
        releases += _homes(config)
        per_update = config.mix == "update"
        releases.append(
            open_release(
                f"weighted sum of {network.size} neighbours' linear models (Algorithm 1)",
                "the one user who mixes",
                epochs * rounds if per_update else epochs,
                _neighbours_adversary(config, network.size),
                "Two receivers with nearly the same neighbours can subtract their sums if they "
                "collude, and one receiver can subtract the sums of two "
                + (
                    "rounds; neighbours see in which rounds a user still has samples."
                    if per_update
                    else "epochs, between which every neighbour with samples has changed."
                ),
            )
        )
        if config.relay:
            releases.append(
                open_release(
                    "who sends a share of which sum to whom: the user network",
                    "the recommender, who relays the shares",
                    epochs * rounds if per_update else epochs,
                    "no protection; the shares themselves are sealed end to end",
                )
            )
    if learner.state["v"].size:
        releases.append(
            open_release(
                f"sum of a cohort's gradients of V (cohorts of at least {smallest})",
                "the recommender, and everybody through V",
                epochs * rounds,
                in_cohort(smallest, config.secagg),
                "Cohorts are fixed, so that memberships cannot be subtracted."
                + told_of_drop_outs(config.secagg, config.drop_rate),
            )
        )
    if config.rounds is None or config.rounds == 0:
        whose = (
            "the users' mean, rounded up" if config.rounds is None else "that of the busiest user"
        )
        releases.append(
            open_release(
                f"number of local batches in an epoch ({rounds}), {whose}",
                "everybody",
                1,
                "no protection",
                "A number of rounds that is set in advance tells nothing.",
            )
        )
    figures = "mean training loss, validation AUC and number of clipped entries"
    releases.append(_curve(figures, epochs))
    return releases


def in_cohort(members: int, secagg: str) -> str:
    """Against whom the sum of so many members' vectors protects each of them."""
    if secagg == "full":
        gone = members - threshold(members)
        return (
            f"semi-honest, at most {colluding(members)} of {members} members collude with the "
            f"recommender; up to {gone} may drop out of a round"
        )
    return (
        f"semi-honest, at most {members - 2} of {members} members collude with the recommender; "
        "no drop-outs"
    )


def told_of_drop_outs(secagg: str, rate: float) -> str:
    """What a reader should know about rounds of the full protocol; empty for pads."""
    if secagg != "full":
        return ""
    told = " Every round has keys of its own: what opens one for drop-outs opens no other."
    if rate:
        told += (
            f" In each round {rate:.4g} of every cohort, others each time, dropped out after "
            "sharing keys; who is missing in a sum is seen, and two sums of one cohort differ by "
            "those who came and went as well as by what changed."
        )
    return told


def _neighbours_adversary(config: TrainConfig, size: int) -> str:
    if size < 3:
        return "insecure: so few neighbours protect nobody"
    colluding = f"the receiver and at most {size - 2} of her {size} neighbours collude"
    if config.security == "malicious" and config.mode == "protocol":
        missed = float(Sizes(config.ring_bits, SECURITY_BITS).failure)
        return (
            f"malicious, with a trusted dealer: {colluding}; what they alter on the way ends the "
            f"run, but for a probability of {missed:.1e} in each sum"
        )
    return f"semi-honest, {colluding}"


def _homes(config: TrainConfig) -> list[Release]:
    """What building the network tells; a random one asks nobody where she lives."""
    if config.network != "geographic":
        return []
    what = "home locations (mean place of the training visits) and the user network"
    sees = "whoever builds the network; each user knows her neighbours"
    return [open_release(what, sees, 1, "no protection")]


def _curve(figures: str, epochs: int) -> Release:
    return open_release(
        f"{figures}, over all users",
        "everybody, as the learning curve",
        epochs,
        "no protection",
        "The AUC decides when training stops. No protocol adds these figures up: whoever runs "
        "the training takes them from all users.",
    )


def open_release(what: str, sees: str, rounds: int, adversary: str, note: str = "") -> Release:
    """A release without any differential privacy."""
    return Release(what, sees, "user", math.inf, math.inf, rounds, adversary, note)
