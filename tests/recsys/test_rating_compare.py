"""Comparisons of rating models: searched by validation RMSE, tested over seeds, none missing."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from mpc.core.errors import MissingLibraryError, ParameterError
from recsys.baselines.biases import Biases
from recsys.data.rating_catalogue import resolve
from recsys.experiment.bench import Bench
from recsys.experiment.compare import Plan, compare, gaps
from recsys.experiment.folder import ExperimentFolder
from recsys.experiment.job import Job, run
from recsys.experiment.outcome import Outcome
from recsys.ratings import registry
from recsys.ratings.config import RatingConfig
from recsys.ratings.search import space_of
from recsys.report.compare_words import grouped
from recsys.report.rating_compare_page import rating_comparison_page
from recsys.report.rating_compare_text import rating_comparison_lines
from recsys.report.rating_paper import DATA, in_table, paper_rmse
from recsys.tasks import RATING
from tests.recsys.experiments import Here, bench
from tests.recsys.rating_worlds import SET, Federated
from tests.support.pages import Source, source_faults

ROWS = ("global-mean", "bias", "pmf", "grals", "fedgnn-gcn")
BASE: dict[str, Any] = {"mode": "simulate", "epochs": 2, "cohort": 30}


@pytest.fixture(autouse=True)
def federated(monkeypatch: pytest.MonkeyPatch) -> None:
    """A few lines in the place of FedGNN."""
    given = registry._import
    monkeypatch.setattr(
        registry, "_import", lambda model: Federated if model == "fedgnn" else given(model)
    )


def planned(**changes: Any) -> Plan:
    return Plan(**{"data": SET, "base": BASE, "rows": ROWS, "seeds": 2, "task": RATING, **changes})


def compared(plan: Plan, folder: Path, workers: Here | None = None) -> dict[str, Any]:
    with bench(folder / "x", workers) as trainings:
        result = compare(plan, trainings)
    json.dumps(result, allow_nan=False)
    return {**result, "out": "here"}


def test_rows_have_the_fields_of_a_table(tmp_path: Path) -> None:
    result = compared(planned(), tmp_path)
    assert result["task"] == "rating"
    assert [row["model"] for row in result["rows"]] == list(ROWS)
    for row in result["rows"]:
        assert row["rmse"] > 0
        assert row["rmse_sd"] >= 0
        assert row["seconds"] > 0
        assert row["reason"] is None
        assert len(row["digest"]) == 64
        assert row["fallbacks"] >= 0
        assert {"headline", "coordinate", "user"} <= set(row["epsilon"])
    by_name = {row["model"]: row for row in result["rows"]}
    assert by_name["bias"]["bytes_per_user"] is None
    assert by_name["fedgnn-gcn"]["bytes_per_user"] > 0
    assert by_name["fedgnn-gcn"]["bytes_counted"] is False
    assert by_name["global-mean"]["rmse"] == by_name["global-mean"]["constant_rmse"]


def test_every_row_has_what_table_3_asks_for(tmp_path: Path) -> None:
    """Error, its spread over the seeds, seconds, bytes of a client, epsilon; or a reason."""
    result = compared(planned(seeds=3, rows=("bias", "fedgnn-gcn")), tmp_path)
    fields = ("rmse", "rmse_sd", "seconds", "bytes_per_user", "epsilon", "reason", "paper_rmse")
    for row in result["rows"]:
        assert set(fields) <= set(row)
        assert row["rmse_sd"] > 0
        assert row["epsilon"]["headline"] == "infinity"  # all coins come from the seeds
    assert result["seeds"] == 3
    shown = {**result, "data": {**result["data"], "data": "ml-100k"}}
    table = [line for line in rating_comparison_lines(shown) if line.startswith("  ")]
    for word in ("test RMSE", "sd", "paper", "seconds", "uploads per user", "epsilon"):
        assert word in table[0]
    assert "paper" not in "\n".join(rating_comparison_lines(result))


def test_the_papers_figures_are_in_the_json(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    figures = {"pmf": 0.965, "bias": None}
    monkeypatch.setattr(
        "recsys.experiment.compare.paper_rmse",
        lambda row, data: figures[row] if data == "synthetic-ratings" else 0.0,
    )
    result = compared(planned(rows=("pmf", "bias"), seeds=1), tmp_path)
    assert {row["model"]: row["paper_rmse"] for row in result["rows"]} == figures


def test_epsilon_is_that_of_the_seed_that_loses_most(tmp_path: Path) -> None:
    """Who trains longer releases more: not the first seed's, nor a mean, which rounds down."""

    class Longer(Here):
        def run(self, job: Job) -> Outcome:
            outcome = super().run(job)
            if outcome["epsilon"]["user"] is not None:
                epochs = 3 - job.seed
                outcome["epsilon"] |= {"user": 30.0 * epochs, "rounds": epochs}
            return outcome

    base = {**BASE, "clip": 0.1, "laplace": 0.2}
    plan = planned(rows=("bias", "fedgnn-gcn"), seeds=3, base=base)
    result = compared(plan, tmp_path, Longer())
    bias, noisy = (row["epsilon"] for row in result["rows"])
    assert (noisy["user"], noisy["rounds"], noisy["coordinate"]) == (90.0, 3, 1.0)
    assert bias["user"] is None


def test_notes_stand_with_the_model_that_has_them(tmp_path: Path) -> None:
    plan = planned(rows=("grals", "bias"), seeds=1)
    result = compared(plan, tmp_path)
    notes = {row["model"]: row["notes"] for row in result["rows"]}
    assert notes["bias"] == []
    assert any("no graph of users came with the set" in note for note in notes["grals"])
    assert not any("graph" in note for note in result["data"]["notes"])
    told = "\n".join(rating_comparison_lines(result))
    page = Source(rating_comparison_page(result, plan)).text
    for text in (told, page):
        assert "grals: no graph of users came with the set" in text


def test_without_a_gap_that_tells_there_is_no_table_of_gaps(tmp_path: Path) -> None:
    plan = planned(rows=("bias", "pmf"), seeds=1)
    result = compared(plan, tmp_path)
    assert result["gaps"] == []
    assert "Differences in test RMSE" not in Source(rating_comparison_page(result, plan)).text


def test_figures_are_those_of_single_trainings(tmp_path: Path) -> None:
    result = compared(planned(rows=("bias",)), tmp_path)
    (row,) = result["rows"]
    for seed in (0, 1):
        model = Biases(RatingConfig(model="bias", seed=seed, **BASE)).fit(resolve(SET))
        assert row["seeds"][seed]["model_digest"] == model.model_digest
        assert row["seeds"][seed]["rmse"] == model.evaluate(model.parts_.test)


def test_each_row_searches_its_own_space_within_one_budget(tmp_path: Path) -> None:
    workers = Here()
    plan = planned(trials=4, seeds=1, base={**BASE, "mode": "protocol"})
    result = compared(plan, tmp_path, workers)
    tried = {row["model"]: row["trials"] for row in result["rows"]}
    assert tried["global-mean"] == []  # nothing to search
    for model in ("pmf", "grals"):
        space = space_of(model)
        assert len(tried[model]) == 4
        first = {name: value for name, value in space.start.items() if name not in BASE}
        assert {name: tried[model][0][name] for name in first} == first
    searched = [job.config for job in workers.jobs if job.wanted == "validation"]
    assert {config.mode for config in searched} == {"simulate"}
    assert plan.trainings == len(workers.jobs)


def test_the_best_of_a_search_has_the_lowest_validation_error(tmp_path: Path) -> None:
    result = compared(planned(rows=("pmf",), trials=6, seeds=1), tmp_path)
    (row,) = result["rows"]
    best = min(row["trials"], key=lambda trial: trial["validation_rmse"])
    assert row["settings"] == {n: v for n, v in best.items() if n != "validation_rmse"}


def test_what_was_given_is_not_searched(tmp_path: Path) -> None:
    plan = planned(rows=("grals",), trials=20, seeds=1, base={**BASE, "dim": 6})
    workers = Here()
    result = compared(plan, tmp_path, workers)
    assert {job.config.dim for job in workers.jobs if isinstance(job.config, RatingConfig)} == {6}
    assert "dim" not in result["rows"][0]["settings"]
    assert plan.trainings == len(workers.jobs)


def test_a_search_cannot_see_the_test_part() -> None:
    plan = planned()
    config = plan.config(plan.variants[1], 0)
    assert "rmse" not in run(Job(SET, config, "validation"))
    assert "rmse" in run(Job(SET, config, "test"))


def test_what_was_given_wins_over_presets_and_they_over_own_settings(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    presets = {"paper": {"epochs": 3, "dim": 5, "decay": 0.5}, "default-ldp": {"dim": 1}}
    monkeypatch.setitem(RATING.__dict__, "presets", presets)
    plan = planned(rows=("fedgnn-paper", "fedgnn-ldp"), base={"mode": "simulate", "epochs": 2})
    paper, ldp = (plan.config(variant, 0) for variant in plan.variants)
    assert isinstance(paper, RatingConfig)
    assert isinstance(ldp, RatingConfig)
    assert (paper.epochs, paper.dim, paper.decay) == (2, 5, 0.5)
    assert ldp.dim == 1


def test_every_row_of_the_table_has_a_figure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All models themselves, FedGNN too: none is missing, and none is quietly another."""
    monkeypatch.undo()
    plan = planned(rows=RATING.rows, seeds=1, base={**BASE, "epochs": 1})
    result = compared(plan, tmp_path)
    assert {row["model"]: row["reason"] for row in result["rows"]} == dict.fromkeys(RATING.rows)
    digests = {row["model"]: row["digest"] for row in result["rows"]}
    same = {"fcf", "fedmf"}  # the same sums, in the clear and under encryption
    assert len(set(digests.values())) >= len(digests) - len(same)


def test_a_row_without_its_library_has_its_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def absent(model: str) -> None:
        if model == "svdpp":
            raise MissingLibraryError("svdpp needs a library", remedy="install it")

    monkeypatch.setattr("recsys.experiment.rating_job.check_library", absent)
    result = compared(planned(rows=("bias", "svdpp")), tmp_path)
    bias, missing = result["rows"]
    assert bias["rmse"] is not None
    assert (missing["rmse"], missing["seeds"]) == (None, [])
    assert missing["reason"] == "svdpp needs a library (install it)"
    told = "\n".join(rating_comparison_lines(result))
    assert "svdpp has no figure: svdpp needs a library (install it)" in told
    assert b"svdpp needs a library" in rating_comparison_page(result, planned())


def test_a_row_that_cannot_be_trained_leaves_the_others_theirs(tmp_path: Path) -> None:
    """A cohort that is too small stops the federated row alone."""
    result = compared(planned(base={**BASE, "cohort": 5}), tmp_path)
    reasons = {row["model"]: row["reason"] for row in result["rows"]}
    assert "a cohort of 5 users is below the minimum of 16" in reasons.pop("fedgnn-gcn")
    assert set(reasons.values()) == {None}


def test_where_no_row_can_be_trained_the_first_reason_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ParameterError, match="no rating to train on"):
        compared(planned(base={**BASE, "split": {"test_fraction": 0.9999999}}), tmp_path)


def test_gaps_are_above_0_where_the_row_is_better() -> None:
    rows: list[dict[str, Any]] = [
        {"model": "fedgnn-gcn", "rmse": 0.92, "rmse_sd": 0.001},
        {"model": "bias", "rmse": 0.95, "rmse_sd": 0.002},
        {"model": "fedgnn-gat", "rmse": 0.93, "rmse_sd": 0.02},
        {"model": "svdpp", "rmse": None, "rmse_sd": None},
    ]
    found = {(gap["model"], gap["other"]): gap for gap in gaps(rows, RATING)}
    assert set(found) == {("fedgnn-gcn", "bias"), ("fedgnn-gat", "fedgnn-gcn")}
    assert found["fedgnn-gcn", "bias"]["gap"] == pytest.approx(0.03)
    assert found["fedgnn-gcn", "bias"]["beyond_sd"] is True
    assert found["fedgnn-gat", "fedgnn-gcn"]["gap"] == pytest.approx(-0.01)
    assert found["fedgnn-gat", "fedgnn-gcn"]["beyond_sd"] is False


def test_a_cut_comparison_resumes_to_the_same_digest(tmp_path: Path) -> None:
    class Killed(Here):
        def run(self, job: Job) -> Outcome:
            if len(self.jobs) == 3:
                raise KeyboardInterrupt
            return super().run(job)

    plan = planned()
    whole = compared(plan, tmp_path / "whole")
    with pytest.raises(KeyboardInterrupt):
        compared(plan, tmp_path / "cut", Killed())
    with ExperimentFolder(tmp_path / "cut" / "x") as folder:
        assert folder.done == 3
        resumed = compare(plan, Bench(folder, Here()))
    assert resumed["result_digest"] == whole["result_digest"]


def test_the_text_has_a_line_for_each_row_and_the_page_too(tmp_path: Path) -> None:
    plan = planned(trials=2)
    result = compared(plan, tmp_path)
    lines = rating_comparison_lines(result)
    for row in result["rows"]:
        assert any(line.split()[:2] == [row["model"], f"{row['rmse']:.4f}"] for line in lines)
    assert "settings by search" in "\n".join(lines)
    page = rating_comparison_page(result, plan)
    assert source_faults(page) == []
    source = Source(page)
    for row in result["rows"]:
        assert row["model"] in [text for _, text in source.cells]
    assert "none (reproducible simulation)" in source.text
    assert "Shorter is better" in source.text
    assert "Table 3 of the FedGNN paper" in source.text


def test_curves_are_those_of_models_that_learn_in_steps_central_ones_apart(
    tmp_path: Path,
) -> None:
    plan = planned(rows=("global-mean", "pmf", "grals", "fedgnn-gcn"), seeds=1)
    page = rating_comparison_page(compared(plan, tmp_path), plan).decode()
    charts = re.findall(r'aria-label="Learning curves of ([^"]*)"', page)
    assert charts == ["pmf, grals", "fedgnn-gcn"]


def test_what_item_sets_give_away_is_on_the_page(tmp_path: Path) -> None:
    base = {**BASE, "aggregate": "clear", "pseudo": 5}
    plan = planned(rows=("bias", "fedgnn-gcn"), seeds=1, base=base)
    result = compared(plan, tmp_path)
    guessed = {row["model"]: row["guesses"] for row in result["rows"]}
    assert guessed["bias"] is None
    page = Source(rating_comparison_page(result, plan)).text
    told = f"is right for {100 * guessed['fedgnn-gcn']['popular']:.0f} %"
    assert "No epsilon covers which items a user uploads in the clear" in page
    assert "FedGNN, GCN: Popularity tells" in page
    assert told in page
    plain = planned(rows=("bias", "fedgnn-gcn"), seeds=1)
    text = Source(rating_comparison_page(compared(plain, tmp_path / "plain"), plain)).text
    assert "Popularity tells" not in text


def test_a_note_that_several_have_is_told_once() -> None:
    notes = [("a", "short"), ("b", "short"), ("b", "long"), ("c", "short")]
    assert grouped(notes, ["a", "b", "c", "d"]) == ["a, b, c: short", "b: long"]
    assert grouped(notes, ["a", "b", "c"]) == ["all: short", "b: long"]
    assert grouped([("a", "alone")], ["a"]) == ["a: alone"]
    assert grouped([], ["a"]) == []


def test_the_papers_figures_stand_beside_ours(tmp_path: Path) -> None:
    result = compared(planned(seeds=1), tmp_path)
    for data, figure in {"ml-100k": "0.965", "douban": "0.886", "elsewhere": None}.items():
        shown = {**result, "data": {**result["data"], "data": data}}
        cells = [text for _, text in Source(rating_comparison_page(shown, planned())).cells]
        assert ("0.965" in cells, "0.886" in cells) == (figure == "0.965", figure == "0.886")


@pytest.mark.parametrize(
    ("row", "data", "value"),
    [
        ("pmf", "flixster", 1.375),
        ("pmf", "ml-10m", 0.856),
        ("svdpp", "ml-100k", 0.952),
        ("grals", "yahoo-music", 38.0),
        ("srgcnn", "douban", 0.801),
        ("srgcnn", "ml-1m", 0.837),
        ("pinsage", "flixster", 0.945),
        ("pinsage", "douban", None),  # not to be read in the source
        ("fedgnn-gat", "ml-100k", None),
        ("bias", "ml-100k", None),
        ("pmf", "synthetic-ratings", None),
    ],
)
def test_the_table_is_that_of_the_paper(row: str, data: str, value: float | None) -> None:
    assert paper_rmse(row, data) == value


def test_every_row_of_the_paper_is_known() -> None:
    rows = ("pmf", "svdpp", "grals", "srgcnn", "gcmc", "pinsage", "ngcf", "fcf", "fedmf")
    assert all(in_table(row) for row in (*rows, "fedgnn-gat"))
    assert not in_table("bias")
    assert len(DATA) == 6


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"rows": ("bias", "bias")}, "named once each"),
        ({"rows": ()}, "named once each"),
        ({"rows": ("fm",)}, "model must be one of global-mean, user-mean, bias"),
        ({"seeds": 0}, "seeds"),
        ({"trials": -1}, "trials"),
        ({"data": "nowhere"}, "there is no rating set 'nowhere'"),
        ({"base": {"factors": 3}}, "unknown setting 'factors'"),
    ],
)
def test_a_wrong_plan_is_refused_before_anything_runs(
    changes: dict[str, Any], message: str
) -> None:
    with pytest.raises(ParameterError, match=message):
        planned(**changes)
