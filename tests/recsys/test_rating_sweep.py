"""Sweeps of FedGNN: the points of a figure, its second axis, and how straight a line is."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from mpc.core.errors import ParameterError
from recsys.errors import DivergenceError
from recsys.experiment.bench import Bench
from recsys.experiment.fit import fit_line
from recsys.experiment.folder import ExperimentFolder
from recsys.experiment.job import Job
from recsys.experiment.outcome import Outcome
from recsys.experiment.rating_sweep import SET_UP, SHAPES, RatingPlan, rating_sweep, sizes
from recsys.ratings import registry
from recsys.ratings.config import RatingConfig
from recsys.report.rating_sweep_page import rating_sweep_page
from recsys.report.rating_sweep_text import rating_sweep_lines
from recsys.tasks import RATING
from tests.recsys.experiments import Here, bench
from tests.recsys.rating_worlds import SET, Federated
from tests.support.pages import Source, source_faults

BASE = {"epochs": 2, "cohort": 30, "dim": 0}


@pytest.fixture(autouse=True)
def federated(monkeypatch: pytest.MonkeyPatch) -> None:
    """A few lines in the place of FedGNN, and presets of two settings."""
    monkeypatch.setattr(registry, "_import", lambda model: Federated)
    presets = {"default-ldp": {"clip": 0.1, "laplace": 0.2}, "other": {"decay": 0.5}}
    monkeypatch.setitem(RATING.__dict__, "presets", presets)


def swept(plan: RatingPlan, folder: Path, workers: Here | None = None) -> dict[str, Any]:
    with bench(folder / "x", workers) as trainings:
        result = rating_sweep(plan, trainings)
    json.dumps(result, allow_nan=False)
    return {**result, "out": "here"}


def configs(plan: RatingPlan) -> list[RatingConfig]:
    return [job.config for job in plan.jobs().values() if isinstance(job.config, RatingConfig)]


def test_neighbours_are_crossed_with_networks(tmp_path: Path) -> None:
    """Figure 4: nine points, each with its own network and its own neighbours."""
    plan = RatingPlan("neighbours", SET, {**BASE, "dim": 2, "expand_after": 1})
    assert {(c.gnn, c.neighbours) for c in configs(plan)} == {
        (gnn, neighbours)
        for gnn in ("ggnn", "gcn", "gat")
        for neighbours in ("none", "trainable", "fixed")
    }
    result = swept(plan, tmp_path)
    assert [line["model"] for line in result["lines"]] == ["ggnn", "gcn", "gat"]
    assert {tuple(line["x"]) for line in result["lines"]} == {("none", "trainable", "fixed")}
    told = "\n".join(rating_sweep_lines(result))
    assert told.count("trainable") == 3
    page = rating_sweep_page(result)
    assert source_faults(page) == []
    assert "trainable" in Source(page).text


def test_noise_shows_epsilon_on_a_second_axis(tmp_path: Path) -> None:
    """Figure 5: epsilon of a coordinate is 2 clip / scale, whatever the error."""
    plan = RatingPlan("noise", SET, BASE, (0.1, 0.4))
    result = swept(plan, tmp_path)
    assert [line["model"] for line in result["lines"]] == ["clip 0.05", "clip 0.1", "clip 0.2"]
    for line, clip in zip(result["lines"], (0.05, 0.1, 0.2), strict=True):
        assert line["second"] == pytest.approx([2 * clip / 0.1, 2 * clip / 0.4])
        assert all(y > 0 for y in line["y"])
    assert result["second_label"] == "epsilon per coordinate"
    assert "epsilon per coordinate" in "\n".join(rating_sweep_lines(result))
    text = rating_sweep_page(result).decode()
    assert text.count("right axis") >= 3


def test_a_clip_that_was_given_leaves_one_line(tmp_path: Path) -> None:
    plan = RatingPlan("noise", SET, {**BASE, "clip": 0.3}, (0.2,))
    assert [line.name for line in plan.lines] == ["clip 0.3"]
    assert {config.clip for config in configs(plan)} == {0.3}


def test_pseudo_items_cost_bytes_on_a_second_axis(tmp_path: Path) -> None:
    """Figure 6: uploads in the clear, which grow with M as far as the catalogue goes."""
    plan = RatingPlan("pseudo", SET, BASE, (0, 5, 10, 1000))
    assert {config.aggregate for config in configs(plan)} == {"clear"}
    assert {config.laplace for config in configs(plan)} == {0.2}  # of the preset
    (line,) = swept(plan, tmp_path)["lines"]
    bytes_ = line["second"]
    assert bytes_[1] - bytes_[0] == pytest.approx(bytes_[2] - bytes_[1], rel=0.1)
    assert bytes_[0] < bytes_[1] < bytes_[2] < bytes_[3]


def test_pseudo_items_are_shown_with_what_a_guess_finds(tmp_path: Path) -> None:
    """All of a history without them; some with them; nothing told where all upload everything."""
    result = swept(RatingPlan("pseudo", SET, BASE, (0, 5, 1000)), tmp_path)
    (line,) = result["lines"]
    none, some, all_of_it = line["guesses"]
    assert (none, all_of_it) == (None, None)
    assert 0 < some["at_random"] <= some["popular"] < 1
    rows = [text.split() for text in rating_sweep_lines(result) if text.startswith("  fedgnn")]
    shares = [f"{100 * some[name]:.0f}" for name in ("popular", "at_random")]
    assert rows[0][-2:] == ["100", "%"]
    assert rows[1][-4:] == [shares[0], "%", f"({shares[1]}", "%)"]
    assert rows[2][-1] == "-"
    cells = [text for _, text in Source(rating_sweep_page(result)).cells]
    assert f"{shares[0]} % ({shares[1]} %)" in cells
    assert "history guessed (at random)" in cells


def test_epsilon_over_seeds_is_the_largest_and_never_below_one(tmp_path: Path) -> None:
    """A third: the mean of three equal doubles may be below each of them."""
    plan = RatingPlan("noise", SET, {**BASE, "clip": 0.1}, (0.6,), seeds=3)
    result = swept(plan, tmp_path)
    (line,) = result["lines"]
    assert line["second"] == [max(row["coordinate"] for row in result["rows"])]


def test_a_column_of_notes_is_there_only_with_notes(tmp_path: Path) -> None:
    result = swept(RatingPlan("pseudo", SET, BASE, (0, 5)), tmp_path)
    assert "note" not in rating_sweep_lines(result)[2]
    result["lines"][0]["diverged"] = [5]
    assert "note" in rating_sweep_lines(result)[2]


def test_another_preset_can_be_named() -> None:
    plan = RatingPlan("pseudo", SET, {**BASE, "preset": "other"}, (0,))
    (config,) = configs(plan)
    assert (config.decay, config.laplace) == (0.5, None)


def test_sizes_time_the_epochs_alone_and_fit_a_line(tmp_path: Path) -> None:
    plan = RatingPlan("size", None, {"cohort": 20, "dim": 0}, (40, 80, 120), items=20)
    workers = Here()
    result = swept(plan, tmp_path, workers)
    assert {job.data for job in workers.jobs} == {
        f"synthetic-ratings:{users}x20,seed=0" for users in (40, 80, 120)
    }
    assert {c.mode for c in configs(plan)} == {"protocol"}
    assert {(c.epochs, c.patience) for c in configs(plan)} == {(2, 2)}
    (line,) = result["lines"]
    assert line["x"] == [40, 80, 120]
    for seconds, row in zip(line["y"], result["rows"], strict=True):
        assert seconds == row["seconds"] - sum(row["steps"][name] for name in SET_UP)
        assert 0 < seconds < row["seconds"]
        assert row["bytes_per_user"] > 0
    assert result["fit"]["slope"] == fit_line(line["x"], line["y"])["slope"]
    assert "for each client" in "\n".join(rating_sweep_lines(result))
    text = Source(rating_sweep_page(result)).text
    assert "Power law: time grows as clients^" in text
    assert "Straight line: " in text
    assert "for each client and 2 epochs" in text
    page = rating_sweep_page(result).decode()
    assert len(re.findall(r">0\.0+<", page)) == 2  # seconds and memory begin at zero


def test_sizes_are_shares_of_the_largest() -> None:
    assert sizes(4000) == SHAPES["size"].values == (250, 500, 1000, 2000, 4000)
    with pytest.raises(ParameterError, match="users"):
        sizes(511)


def test_a_point_that_diverges_leaves_the_others_their_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Diverging(Here):
        def run(self, job: Job) -> Outcome:
            outcome = super().run(job)
            config = job.config
            if isinstance(config, RatingConfig) and config.pseudo == 5:
                return {"validation_rmse": None, "seconds": 1.0, "diverged": "in epoch 1"}
            return outcome

    result = swept(RatingPlan("pseudo", SET, BASE, (0, 5)), tmp_path, Diverging())
    (line,) = result["lines"]
    assert line["diverged"] == [5]
    assert line["y"][1] is None
    assert "diverged under a seed, so it has no RMSE" in "\n".join(rating_sweep_lines(result))
    assert source_faults(rating_sweep_page(result)) == []
    with pytest.raises(DivergenceError, match="fedgnn at pseudo 5 diverged under seed 0"):
        swept(RatingPlan("pseudo", SET, BASE, (5,)), tmp_path / "y", Diverging())


def test_a_resumed_sweep_has_the_digest_of_a_whole_one(tmp_path: Path) -> None:
    plan = RatingPlan("pseudo", SET, BASE, (0, 5), seeds=2)
    whole = swept(plan, tmp_path)
    first = next(iter(plan.jobs().values()))
    with ExperimentFolder(tmp_path / "cut", plan={"kind": "test"}) as folder:
        Bench(folder, Here()).run(first)
    workers = Here()
    with ExperimentFolder(tmp_path / "cut") as folder:
        resumed = rating_sweep(plan, Bench(folder, workers))
    assert len(workers.jobs) == 3
    assert resumed["result_digest"] == whole["result_digest"]


@pytest.mark.parametrize(
    ("kind", "base", "values", "message"),
    [
        ("epsilon", {}, (), "sweep must be one of neighbours, noise, pseudo, size"),
        ("pseudo", {}, (5, 5), "named once each"),
        ("pseudo", {"pseudo": 3}, (5,), "pseudo has no meaning beside the values of this sweep"),
        ("neighbours", {}, ("some",), "neighbours must be one of none, fixed, trainable"),
        ("neighbours", {"dim": 2}, ("none", "fixed"), "epochs must be more than expand_after"),
        ("noise", {}, (-1.0,), "laplace must lie in"),
        ("pseudo", {"aggregate": "secure"}, (5,), "pseudo must be 0 with aggregate secure"),
        ("size", {}, (0, 99), "users"),
    ],
)
def test_a_wrong_plan_is_refused_before_anything_runs(
    kind: str, base: dict[str, Any], values: tuple[Any, ...], message: str
) -> None:
    data = None if kind == "size" else SET
    with pytest.raises(ParameterError, match=message):
        RatingPlan(kind, data, {**BASE, **base}, values)
