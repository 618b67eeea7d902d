"""Sweeps: the points of a figure, what is marked in it, and how straight a line is."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mpc.core.errors import ParameterError
from recsys.data.catalogue import resolve
from recsys.data.prepare import PrepareConfig
from recsys.errors import DivergenceError, PrivacyRefusal
from recsys.experiment.bench import Bench
from recsys.experiment.fit import fit_line
from recsys.experiment.folder import ExperimentFolder
from recsys.experiment.sweep import POIS_PER_USER, SHAPES, TRAINING_STEPS, Plan, sizes, sweep
from recsys.models import fm
from recsys.prirec import PriRec
from recsys.report.sweep_page import sweep_page
from recsys.report.sweep_text import DIVERGED, INSECURE, sweep_lines
from tests.recsys.experiments import CITY, Here, base, bench, visits


def swept(plan: Plan, folder: Path, workers: Here | None = None) -> dict[str, Any]:
    with bench(folder, workers) as trainings:
        result = sweep(plan, trainings)
    json.dumps(result, allow_nan=False)
    return {**result, "out": "here"}


def test_iterations_show_training_and_test_loss_of_every_epoch(tmp_path: Path) -> None:
    """Figure 5, without early stopping; the last test loss is that of the parameters then."""
    plan = Plan("iterations", CITY, base(epochs=4, patience=1))
    result = swept(plan, tmp_path / "x")
    assert [(line["model"], line["part"]) for line in result["lines"]] == [
        (model, part) for model in ("prirec", "fm") for part in ("training", "test")
    ]
    assert {tuple(line["x"]) for line in result["lines"]} == {(1, 2, 3, 4)}
    model = PriRec(visits(plan.jobs()["prirec", None, 0])).fit(resolve(CITY))
    assert result["lines"][0]["y"] == [record.loss for record in model.history_]
    test = model.prepared_.test
    learner = model.learner_
    scores = learner.scorer.score(learner.state.arrays, test.users, test.pois)
    expected = float(fm.loss(scores, test.labels).mean())
    assert result["lines"][1]["y"][-1] == pytest.approx(expected)
    assert "lowest" in "\n".join(sweep_lines(result))


def test_neighbours_mark_what_protects_nobody(tmp_path: Path) -> None:
    """Figure 6; N = 1 and 2 are simulated, marked as insecure, and said to be so in words."""
    plan = Plan("neighbours", CITY, base(epochs=1), (0, 1, 2, 3), seeds=2)
    result = swept(plan, tmp_path / "x")
    assert [line["model"] for line in result["lines"]] == ["prirec", "prirec-", "prirec-random"]
    for line in result["lines"]:
        assert line["x"] == [0, 1, 2, 3]
        assert line["insecure"] == [1, 2]
        assert all(spread is not None for spread in line["sd"])
    assert "\n".join(sweep_lines(result)).count(INSECURE) == 6


def test_too_few_neighbours_are_refused_in_protocol_mode() -> None:
    for values in ((2,), (0, 1, 5), ()):
        with pytest.raises(PrivacyRefusal, match=r"[12] neighbours") as error:
            Plan("neighbours", CITY, base(mode="protocol"), values)
        assert error.value.remedy == "name --values without 1 and 2, or --mode simulate"
    with pytest.raises(PrivacyRefusal, match="1 neighbours"):
        Plan("epsilon", CITY, base(mode="protocol", neighbours=1), (1.0,))
    Plan("neighbours", CITY, base(mode="protocol"), (0, 3))


def test_a_point_that_diverges_leaves_the_others_their_place(tmp_path: Path) -> None:
    plan = Plan("neighbours", CITY, base(weights="literal", epochs=30), (0, 3))
    result = swept(plan, tmp_path / "x")
    for line in result["lines"]:
        assert line["diverged"] == [3]
        assert line["y"][0] is not None
        assert line["y"][1] is None
    assert "\n".join(sweep_lines(result)).count(DIVERGED) == 3
    assert DIVERGED.encode() in sweep_page(result)


@pytest.mark.parametrize("kind", ["iterations", "neighbours"])
def test_where_nothing_is_left_to_draw_divergence_is_an_error(tmp_path: Path, kind: str) -> None:
    """A curve has no epoch to leave out, and a sweep whose points all diverged shows nothing."""
    values = () if kind == "iterations" else (3,)
    plan = Plan(kind, CITY, base(weights="literal", epochs=30), values)
    with pytest.raises(DivergenceError, match=r"^prirec(.*) diverged under seed 0"):
        swept(plan, tmp_path / "x")


def test_sizes_are_shares_of_the_largest() -> None:
    assert sizes(8000) == SHAPES["size"].values == (500, 1000, 2000, 4000, 8000)
    assert sizes(85_466) == (5342, 10_683, 21_367, 42_733, 85_466)  # the paper's Koubei
    with pytest.raises(ParameterError, match="users"):
        sizes(31)


def test_epsilon_has_a_line_without_dynamic_features(tmp_path: Path) -> None:
    plan = Plan("epsilon", CITY, base(epochs=1), (0.5, 4.0))
    workers = Here()
    result = swept(plan, tmp_path / "x", workers)
    flat = result["lines"][-1]
    assert (flat["model"], flat["x"]) == ("prirec-", [0.5, 4.0])
    assert flat["y"][0] == flat["y"][1]
    assert len(workers.jobs) == 5  # the flat line is trained once
    (told,) = [line for line in sweep_lines(result) if line.split()[:2] == ["prirec-", "any"]]
    assert f"{flat['y'][0]:.4f}" in told
    spent = {row["value"]: row["epsilon"]["bit"] for row in result["rows"] if row["value"]}
    assert spent == pytest.approx({0.5: 0.5, 4.0: 4.0})


def test_sizes_time_the_epochs_alone_and_fit_a_line(tmp_path: Path) -> None:
    shared = base(mode="protocol", epochs=1, prepare=PrepareConfig(min_visitors=0, max_positives=3))
    plan = Plan("size", None, shared, (40, 80, 120), pois=30)
    workers = Here()
    result = swept(plan, tmp_path / "x", workers)
    # Whoever gets the worker first is trained first.
    assert {job.data for job in workers.jobs} == {
        f"synthetic-city:{users}x30,pois_per_user={POIS_PER_USER!r},seed=0"
        for users in (40, 80, 120)
    }
    line = result["lines"][0]
    assert line["x"] == [row["train_pairs"] for row in result["rows"]]
    for seconds, row in zip(line["y"], result["rows"], strict=True):
        assert seconds == sum(row["steps"][step] for step in TRAINING_STEPS)
        assert set(row["steps"]) - set(TRAINING_STEPS) >= {"key agreement", "features"}
        assert row["peak_memory_bytes"] > 0
    assert result["fit"]["slope"] == fit_line(line["x"], line["y"])["slope"]
    assert "largest residual" in "\n".join(sweep_lines(result))


@pytest.mark.parametrize(("slope", "intercept"), [(2.0, 0.0), (0.25, 3.0)])
def test_a_straight_line_is_found_exactly(slope: float, intercept: float) -> None:
    x = [10.0, 20.0, 40.0, 80.0]
    fit = fit_line(x, [intercept + slope * value for value in x])
    assert fit["slope"] == pytest.approx(slope)
    assert fit["intercept"] == pytest.approx(intercept, abs=1e-9)
    assert fit["worst_residual"] == pytest.approx(0, abs=1e-12)
    if not intercept:
        assert fit["exponent"] == pytest.approx(1)


def test_a_square_is_seen_to_be_none() -> None:
    x = np.array([1.0, 2.0, 4.0, 8.0])
    fit = fit_line(list(x), list(x**2))
    assert fit["exponent"] == pytest.approx(2)
    assert isinstance(fit["worst_residual"], float)
    assert fit["worst_residual"] > 0.2


@pytest.mark.parametrize(
    ("x", "y"), [([1.0], [1.0]), ([1.0, 2.0], [1.0]), ([0.0, 1.0], [1, 2]), ([1, 2], [0.0, 1])]
)
def test_a_line_needs_two_points_above_zero(x: Sequence[float], y: Sequence[float]) -> None:
    with pytest.raises(ParameterError, match="two or more points above 0"):
        fit_line(x, y)


def test_a_resumed_sweep_has_the_digest_of_a_whole_one(tmp_path: Path) -> None:
    plan = Plan("epsilon", CITY, base(epochs=1), (0.5, 4.0))
    whole = swept(plan, tmp_path / "whole")
    first = next(iter(plan.jobs().values()))
    with ExperimentFolder(tmp_path / "cut", plan={"kind": "test"}) as folder:
        Bench(folder, Here()).run(first)
    workers = Here()
    with ExperimentFolder(tmp_path / "cut") as folder:
        resumed = sweep(plan, Bench(folder, workers))
    assert len(workers.jobs) == 4
    assert resumed["result_digest"] == whole["result_digest"]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"kind": "height"}, "sweep must be one of iterations"),
        ({"kind": "iterations", "values": (1, 2)}, "values have no meaning"),
        ({"values": (1.0, 1.0)}, "named once each"),
        ({"values": (-1.0,)}, "epsilon"),
        ({"seeds": 0}, "seeds"),
        ({"kind": "size", "data": None, "values": (0, 100)}, "users"),
        ({"kind": "size", "data": None, "values": (100.5,)}, "does not describe a city"),
        ({"kind": "neighbours", "values": (1.5,)}, "neighbours must be an integer"),
    ],
)
def test_a_wrong_plan_is_refused_before_anything_runs(
    changes: dict[str, Any], message: str
) -> None:
    with pytest.raises(ParameterError, match=message):
        Plan(**{"kind": "epsilon", "data": CITY, "base": base(), **changes})


def test_the_points_are_those_of_the_papers_figures() -> None:
    assert SHAPES["neighbours"].values == (0, 1, 2, 3, 5, 10, 20, 30)
    assert pytest.approx(5.825, abs=1e-3) == POIS_PER_USER
