"""One or two settings of FedGNN varied: the paper's figures, and what a client costs.

Source: FedGNN (Wu et al., 2021), Figures 4 (network and neighbours), 5 (clip and noise) and 6
    (pseudo-interacted items).
Differs: Figure 4 has the published network and hyper-parameters, under which nothing is learned;
    here all networks have the defaults, or those of a preset. Figure 5 shows beside the error the
    loss about one coordinate of one upload, which the paper calls the privacy budget. Figure 6
    shows beside it the bytes of one upload, where the paper counts parameters. Time by the number
    of clients is not in the paper.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from mpc.core.checks import integer
from mpc.core.errors import ParameterError
from recsys.data.synthetic_ratings import NAME as SYNTHETIC
from recsys.experiment.bench import Bench
from recsys.experiment.job import Job, check_job
from recsys.experiment.outcome import Outcome
from recsys.experiment.points import (
    Value,
    check_sweep,
    finished,
    first_sound,
    shares,
    train_points,
    word,
)
from recsys.experiment.statistics import mean, sd
from recsys.ratings.config import RatingConfig
from recsys.tasks import PRESET_MODEL, RATING

KINDS = ("neighbours", "noise", "pseudo", "size")

SET_UP = ("key agreement", "validation")
"""Steps of a training that are no work of an epoch."""


@dataclass(frozen=True)
class Line:
    """One line of a figure: settings that all its points have."""

    name: str
    settings: Mapping[str, Any]


@dataclass(frozen=True)
class Shape:
    """lines: of the figure.  setting: what varies along them.  values: the points by default.

    second: what is drawn on the axis to the right, a field of the points; second_label: in words.
    own: settings of all points unless others are given.  preset: below them.
    """

    lines: tuple[Line, ...]
    setting: str
    values: tuple[Value, ...]
    x_label: str
    second: str = ""
    second_label: str = ""
    own: Mapping[str, Any] = field(default_factory=dict)
    preset: str | None = None


def sizes(users: int) -> tuple[int, ...]:
    """A sixteenth, eighth, quarter and half of ``users``, and all; ParameterError below 512."""
    integer("users", users, 512, 10**6)
    return shares(users)


USERS, ITEMS = 4000, 500
"""Of the largest set of a size sweep, and of all its sets, unless told otherwise."""

SHAPES = {
    "neighbours": Shape(
        tuple(Line(gnn, {"gnn": gnn}) for gnn in ("ggnn", "gcn", "gat")),
        "neighbours",
        ("none", "trainable", "fixed"),
        "neighbours' embeddings",
    ),
    "noise": Shape(
        tuple(Line(f"clip {clip:g}", {"clip": clip}) for clip in (0.05, 0.1, 0.2)),
        "laplace",
        (0.05, 0.1, 0.2, 0.4),
        "scale of the noise",
        second="coordinate",
        second_label="epsilon per coordinate",
        preset="default-ldp",
    ),
    "pseudo": Shape(
        (Line("fedgnn", {}),),
        "pseudo",
        (0, 100, 200, 500, 1000),
        "pseudo-interacted items M",
        second="upload_bytes",
        second_label="bytes of a round's upload",
        own={"aggregate": "clear"},
        preset="default-ldp",
    ),
    "size": Shape(
        (Line("fedgnn", {}),),
        "users",
        sizes(USERS),
        "clients",
        own={"epochs": 2, "mode": "protocol"},
    ),
}


def own_settings(kind: str) -> dict[str, Any]:
    """The flat settings that a kind of sweep has unless others are given, its preset among them."""
    shape = SHAPES[kind]
    preset = {} if shape.preset is None else {"preset": shape.preset}
    return {"mode": "simulate", **preset, **shape.own}


@dataclass(frozen=True)
class RatingPlan:
    """kind: of ``KINDS``.  data: name of the set; of a size sweep ``None``.

    base: settings that were given, as ``RatingConfig.to_dict`` has them, with ``preset`` among
    them.  values: the points; empty takes the kind's own.  items: of the sets of a size sweep.
    """

    kind: str
    data: str | None
    base: Mapping[str, Any]
    values: tuple[Value, ...] = ()
    seeds: int = 1
    items: int = ITEMS
    shape: Shape = field(init=False)

    def __post_init__(self) -> None:
        check_sweep(KINDS, self.kind, self.values, self.seeds)
        shape = SHAPES[self.kind]
        object.__setattr__(self, "shape", shape)
        if shape.setting in self.base:
            raise ParameterError(
                f"{shape.setting} has no meaning beside the values of this sweep, which vary it",
                remedy="name them by --values",
            )
        if not self.values:
            object.__setattr__(self, "values", shape.values)
        for job in self.jobs().values():
            self._check(job)

    def _check(self, job: Job) -> None:
        """Refuse now what would fail, or show nothing, after an hour."""
        check_job(job)
        config = job.config
        if self.kind != "neighbours" or not isinstance(config, RatingConfig):
            return
        if config.neighbours != "none" and config.epochs <= config.expand_after:
            raise ParameterError(
                f"epochs must be more than expand_after, after which neighbours join, got "
                f"{config.epochs} and {config.expand_after}"
            )

    @property
    def mode(self) -> str:
        """How sums are formed."""
        return str({**own_settings(self.kind), **self.base}["mode"])

    @property
    def lines(self) -> tuple[Line, ...]:
        """The lines; one alone where its setting was given for all points."""
        (setting, *_) = (*self.shape.lines[0].settings, None)
        if setting is None or setting not in self.base:
            return self.shape.lines
        value = self.base[setting]
        name = value if isinstance(value, str) else f"{setting} {word(value)}"
        return (Line(name, {setting: value}),)

    def jobs(self) -> dict[tuple[str, Value, int], Job]:
        """All trainings by (line, value, seed)."""
        return {
            (line.name, value, seed): self._job(line, value, seed)
            for line in self.lines
            for value in self.values
            for seed in range(self.seeds)
        }

    def _job(self, line: Line, value: Value, seed: int) -> Job:
        given = {**own_settings(self.kind), **self.base, **line.settings}
        given |= {"model": PRESET_MODEL, "seed": seed}
        data = self.data or f"{SYNTHETIC}:{value}x{self.items},seed={seed}"
        if self.kind == "size":
            given["patience"] = given["epochs"]  # every point has as many epochs
        else:
            given[self.shape.setting] = value
        preset = {"model": PRESET_MODEL, "preset": given.pop("preset", None)}
        below = RATING.unflat(RATING.completed(preset))
        return Job(data, RATING.config.from_dict({**below, **given}), "test")


Outcomes = Mapping[tuple[str, Value, int], Outcome]


def rating_sweep(plan: RatingPlan, bench: Bench) -> dict[str, Any]:
    """Do all trainings of ``plan`` and put them together as lines.

    A point where a training diverged has no RMSE and is marked. Raises DivergenceError where that
    leaves nothing to draw.
    """
    outcomes = train_points(
        plan.jobs(), bench, setting=plan.shape.setting, may_diverge=plan.kind != "size"
    )
    first = first_sound(outcomes.values())
    result: dict[str, Any] = {
        "task": RATING.name,
        "kind": plan.kind,
        "x_label": plan.shape.x_label,
        "second_label": plan.shape.second_label,
        "seeds": plan.seeds,
        "mode": plan.mode,
        "data": {
            name: first[name]
            for name in ("data", "users", "items", "train_ratings", "test_ratings", "constant_rmse")
        },
        "lines": [_line(plan, line, outcomes) for line in plan.lines],
        "rows": [
            {"model": line, "value": value, "seed": seed, **_figures(outcome)}
            for (line, value, seed), outcome in outcomes.items()
        ],
    }
    return finished(result, RATING.measure)


def _line(plan: RatingPlan, line: Line, outcomes: Outcomes) -> dict[str, Any]:
    """The points of a line, means over the seeds: RMSE, or seconds of the epochs by clients."""
    points = [[outcomes[line.name, x, seed] for seed in range(plan.seeds)] for x in plan.values]
    figures = [[_figures(outcome) for outcome in each] for each in points]
    measure = "training_seconds" if plan.kind == "size" else RATING.measure
    values = [[point[measure] for point in each] for each in figures]
    second = plan.shape.second
    return {
        "model": line.name,
        "title": line.name,
        "x": list(plan.values),
        "y": [mean(each) for each in values],
        "sd": [sd(each) for each in values],
        "second": [_second(plan.kind, [p[second] for p in each]) for each in figures]
        if second
        else [],
        "guesses": [next((p["guesses"] for p in each if p["guesses"]), None) for each in figures],
        "diverged": [
            x
            for x, each in zip(plan.values, points, strict=True)
            if any(outcome["diverged"] for outcome in each)
        ],
    }


def _second(kind: str, values: list[float | None]) -> float | None:
    """The mean over the seeds; of epsilon the largest, which a mean could round down."""
    known = [value for value in values if value is not None]
    return max(known, default=None) if kind == "noise" else mean(values)


def _figures(outcome: Outcome) -> dict[str, Any]:
    names = (
        *("rmse", "validation_rmse", "constant_rmse", "epochs", "best_epoch", "seconds", "steps"),
        *("model_digest", "users", "items", "train_ratings", "peak_memory_bytes", "fallbacks"),
        *("bytes_per_user", "bytes_counted", "upload_bytes", "epsilon", "mode", "clipped"),
        *("guesses", "diverged"),
    )
    figures = {name: outcome.get(name) for name in names}
    figures["notes"] = outcome.get("model_notes", [])
    apart = sum(outcome.get("steps", {}).get(name, 0.0) for name in SET_UP)
    return figures | {
        "coordinate": (outcome.get("epsilon") or {}).get("coordinate"),
        "training_seconds": outcome["seconds"] - apart,
    }
