"""One setting varied, all else at its default: the paper's figures, and the price of epsilon.

Source: PriRec (Chen et al., 2020), Figures 5 (iterations), 6 (neighbours) and 7 (size).
Differs: Figure 5 shows training and test loss of PriRec, here of the central FM too; Figure 6 has a
    random network beside the geographic one; Figure 7's sizes are synthetic cities, whose POIs
    stay the same while users, and with them the samples, grow.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from mpc.core.checks import integer
from mpc.core.errors import ParameterError
from recsys.config import TrainConfig
from recsys.data.city import NAME as CITY
from recsys.errors import PrivacyRefusal
from recsys.experiment.bench import Bench
from recsys.experiment.job import Job, check_job
from recsys.experiment.outcome import Outcome, Wanted
from recsys.experiment.points import check_sweep, finished, first_sound, shares, train_points
from recsys.experiment.statistics import mean, sd
from recsys.prirec import MIN_NEIGHBOURS
from recsys.tasks import VISITS
from recsys.variants import find_variant

KINDS = ("iterations", "neighbours", "size", "epsilon")

Number = int | float

TRAINING_STEPS = ("expand pads", "secure sums", "gradients", "secure aggregation")
"""Steps of an epoch, whose time Figure 7 shows; set-up is apart."""


@dataclass(frozen=True)
class Shape:
    """rows: which models, by name.  values: the points by default.  setting: what is varied.

    flat: rows without the setting, trained once, as a horizontal line.
    """

    rows: tuple[str, ...]
    values: tuple[Number, ...]
    setting: str
    x_label: str
    flat: tuple[str, ...] = ()
    wanted: Wanted = "test"


USERS = 8000
"""Users of the largest city of a size sweep, unless told otherwise."""


def sizes(users: int) -> tuple[int, ...]:
    """The points of a size sweep: a sixteenth, eighth, quarter and half of ``users``, and all.

    Raises ParameterError for fewer than 32, of which a sixteenth is no crowd.
    """
    integer("users", users, 32, 2**31 - 1)
    return shares(users)


SHAPES = {
    "iterations": Shape(("prirec", "fm"), (), "epochs", "epoch", wanted="curve"),
    "neighbours": Shape(
        ("prirec", "prirec-", "prirec-random"),
        (0, 1, 2, 3, 5, 10, 20, 30),
        "neighbours",
        "neighbours N of each user",
    ),
    "size": Shape(("prirec",), sizes(USERS), "users", "training samples"),
    "epsilon": Shape(
        ("prirec", "fm"),
        (0.1, 0.5, 1.0, 2.0, 4.0, 8.0),
        "epsilon",
        "epsilon of one user-POI pair",
        flat=("prirec-",),
    ),
}

POIS = 4000
"""POIs of the cities of a size sweep, unless told otherwise."""

POIS_PER_USER = 497_838 / 85_466
"""Interactions of a user in the paper's Table 2, Koubei."""


@dataclass(frozen=True)
class Plan:
    """kind: of ``KINDS``.  data: name of the set; of a size sweep ``None``.

    base: settings of all trainings, without model and seed.  values: the points; empty takes the
    kind's own.  pois: of the cities of a size sweep.
    """

    kind: str
    data: str | None
    base: Mapping[str, Any]
    values: tuple[Number, ...] = ()
    seeds: int = 1
    pois: int = POIS
    shape: Shape = field(init=False)

    def __post_init__(self) -> None:
        check_sweep(KINDS, self.kind, self.values, self.seeds)
        if self.kind == "iterations" and self.values:
            raise ParameterError(
                "values have no meaning in a sweep over iterations, which shows every epoch",
                remedy="set the last epoch by --epochs",
            )
        object.__setattr__(self, "shape", SHAPES[self.kind])
        if not self.values:
            object.__setattr__(self, "values", self.shape.values)
        for job in self.jobs().values():
            self._check(job)

    def jobs(self) -> dict[tuple[str, Number | None, int], Job]:
        """All trainings by (row, value, seed); value is None where nothing is varied."""
        seeds = range(self.seeds)
        points: list[tuple[str, Number | None]] = [(row, None) for row in self.shape.flat]
        for row in self.shape.rows:
            points += [(row, value) for value in self.values or (None,)]
        return {(row, value, s): self._job(row, value, s) for row, value in points for s in seeds}

    def _check(self, job: Job) -> None:
        """Refuse now what would fail after an hour."""
        try:
            check_job(job)
        except PrivacyRefusal as error:
            if self.kind != "neighbours":
                raise
            remedy = "name --values without 1 and 2, or --mode simulate"
            raise PrivacyRefusal(error.message, remedy=remedy) from None

    def _job(self, row: str, value: Number | None, seed: int) -> Job:
        variant = find_variant(row)
        values = {**self.base, **variant.settings, "seed": seed}
        data = self.data or CITY
        if self.kind in ("iterations", "size"):
            values["patience"] = values["epochs"]  # every point has as many epochs
        if self.kind == "size":
            data = f"{CITY}:{value}x{self.pois},pois_per_user={POIS_PER_USER!r},seed={seed}"
        elif value is not None:
            values[self.shape.setting] = value
        return Job(data, TrainConfig.from_dict(values), self.shape.wanted)


def sweep(plan: Plan, bench: Bench) -> dict[str, Any]:
    """Do all trainings of ``plan`` and put them together as lines.

    A point where a training diverged has no AUC and is marked. Raises DivergenceError where that
    leaves nothing to draw: no point at all, or a gap in a curve over epochs or in a measured time.
    """
    outcomes = train_points(
        plan.jobs(),
        bench,
        setting=plan.shape.setting,
        may_diverge=plan.kind in ("neighbours", "epsilon"),
    )
    first = first_sound(outcomes.values())
    result: dict[str, Any] = {
        "kind": plan.kind,
        "x_label": plan.shape.x_label,
        "seeds": plan.seeds,
        "mode": plan.base["mode"],
        "data": {n: first[n] for n in ("data", "users", "pois", "train_pairs", "test_pairs")},
        "lines": _LINES[plan.kind](plan, outcomes),
        "rows": [
            {"model": row, "value": value, "seed": seed, **_figures(outcome)}
            for (row, value, seed), outcome in outcomes.items()
        ],
    }
    return finished(result, VISITS.measure)


Outcomes = Mapping[tuple[str, Number | None, int], Outcome]


def _figures(outcome: Outcome) -> dict[str, Any]:
    names = (
        *("auc", "validation_auc", "epochs", "best_epoch", "seconds", "steps", "model_digest"),
        *("users", "pois", "features", "train_pairs", "peak_memory_bytes", "bytes_per_user"),
        *("epsilon", "mode", "clipped", "diverged"),
    )
    figures = {name: outcome.get(name) for name in names}
    return figures | {"training_seconds": training_seconds(outcome)}


def _areas(plan: Plan, outcomes: Outcomes) -> list[dict[str, Any]]:
    """Test AUC by value, a line for each row; N = 1, 2 are marked, since they protect nobody."""
    lines = []
    for row in (*plan.shape.rows, *plan.shape.flat):
        points: Sequence[Number | None] = plan.values if row in plan.shape.rows else (None,)
        areas = [[outcomes[row, x, seed].get("auc") for seed in range(plan.seeds)] for x in points]
        lines.append(
            {
                "model": row,
                "title": find_variant(row).title,
                "x": [plan.values[0], plan.values[-1]] if points == (None,) else list(points),
                "y": [mean(values) for values in areas] * (2 if points == (None,) else 1),
                "sd": [sd(values) for values in areas] * (2 if points == (None,) else 1),
                "flat": row in plan.shape.flat,
                "insecure": [x for x in points if plan.kind == "neighbours" and _insecure(x)],
                "diverged": [
                    x
                    for x in points
                    if any(outcomes[row, x, seed]["diverged"] for seed in range(plan.seeds))
                ],
            }
        )
    return lines


def _insecure(neighbours: Number | None) -> bool:
    return neighbours is not None and 0 < neighbours < MIN_NEIGHBOURS


def _curves(plan: Plan, outcomes: Outcomes) -> list[dict[str, Any]]:
    """Training and test loss in nats by epoch, means over the seeds."""
    lines = []
    for row in plan.shape.rows:
        histories = [outcomes[row, None, seed]["history"] for seed in range(plan.seeds)]
        for name, part in (("loss", "training"), ("test_loss", "test")):
            epochs = list(
                zip(*([epoch[name] for epoch in each] for each in histories), strict=True)
            )
            lines.append(
                {
                    "model": row,
                    "title": f"{find_variant(row).title}, {part} loss",
                    "part": part,
                    "x": list(range(1, len(epochs) + 1)),
                    "y": [mean(losses) for losses in epochs],
                    "sd": [sd(losses) for losses in epochs],
                    "insecure": [],
                }
            )
    return lines


def _times(plan: Plan, outcomes: Outcomes) -> list[dict[str, Any]]:
    """Seconds of the epochs by training samples, means over the seeds."""
    (row,) = plan.shape.rows
    points = [[outcomes[row, x, seed] for seed in range(plan.seeds)] for x in plan.values]
    seconds = [[training_seconds(outcome) for outcome in each] for each in points]
    return [
        {
            "model": row,
            "title": f"{find_variant(row).title}, seconds of {points[0][0]['epochs']} epochs",
            "x": [mean([outcome["train_pairs"] for outcome in each]) for each in points],
            "y": [mean(values) for values in seconds],
            "sd": [sd(values) for values in seconds],
            "insecure": [],
        }
    ]


def training_seconds(outcome: Outcome) -> float:
    """Time of the epochs alone."""
    return float(sum(outcome.get("steps", {}).get(step, 0.0) for step in TRAINING_STEPS))


_LINES = {"iterations": _curves, "neighbours": _areas, "epsilon": _areas, "size": _times}
