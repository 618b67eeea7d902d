"""The points of a sweep: checked, trained side by side, and put together."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

from mpc.core.checks import integer
from mpc.core.errors import ParameterError
from recsys.errors import DivergenceError
from recsys.experiment.bench import Bench
from recsys.experiment.fit import fit_line
from recsys.experiment.job import Job
from recsys.experiment.outcome import Outcome
from recsys.experiment.statistics import MAX_SEEDS, digest_of

Value = int | float | str

PointT = TypeVar("PointT", bound=tuple[str, Any, int])
"""Line, value and seed; the value is None where nothing varies."""


def check_sweep(kinds: Collection[str], kind: str, values: Sequence[Value], seeds: int) -> None:
    """ParameterError for a kind that there is not, for a value named twice, and too many seeds."""
    integer("seeds", seeds, 1, MAX_SEEDS)
    if kind not in kinds:
        raise ParameterError(f"sweep must be one of {', '.join(kinds)}, got {kind!r}")
    if len(set(values)) < len(values):
        raise ParameterError(f"values must be named once each, got {list(values)}")


def shares(users: int) -> tuple[int, ...]:
    """A sixteenth, eighth, quarter and half of ``users``, and all: the points of a size sweep."""
    return tuple((users + part // 2) // part for part in (16, 8, 4, 2, 1))


def train_points(
    jobs: Mapping[PointT, Job], bench: Bench, *, setting: str, may_diverge: bool
) -> dict[PointT, Outcome]:
    """The outcome of every point. setting: what varies, for an error.

    Raises DivergenceError where nothing is left to draw: not one outcome or, unless
    ``may_diverge``, one too few.
    """
    found = bench.together([partial(bench.run, job) for job in jobs.values()])
    outcomes = dict(zip(jobs, found, strict=True))
    sound = sum(not outcome["diverged"] for outcome in found)
    if sound < (1 if may_diverge else len(found)):
        (line, value, seed), outcome = next(p for p in outcomes.items() if p[1]["diverged"])
        point = "" if value is None else f" at {setting} {word(value)}"
        raise DivergenceError(
            f"{line}{point} diverged under seed {seed}: {outcome['diverged']}",
            remedy="lower --learning-rate in a new sweep",
        )
    return outcomes


def finished(result: dict[str, Any], measure: str) -> dict[str, Any]:
    """A result with its digest and, by size, with the straight line through its times."""
    names = ("model", "value", "seed", measure, "model_digest")
    result["result_digest"] = digest_of([[row[name] for name in names] for row in result["rows"]])
    if result["kind"] == "size":
        (line,) = result["lines"]
        result["fit"] = fit_line(line["x"], line["y"]) if len(line["x"]) > 2 else None
    return result


def first_sound(outcomes: Iterable[Outcome]) -> Outcome:
    """The first that did not diverge, of which ``train_points`` leaves at least one."""
    return next(outcome for outcome in outcomes if not outcome["diverged"])


def word(value: Value) -> str:
    """A point's value for a reader."""
    return value if isinstance(value, str) else f"{value:g}"
