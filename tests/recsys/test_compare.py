"""Comparisons: every row is searched alike, chosen on validation, and tested over the seeds."""

import json
from collections import Counter
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import pytest

from mpc.core.errors import ParameterError
from recsys.data.catalogue import resolve
from recsys.data.prepare import PrepareConfig
from recsys.errors import DivergenceError, PrivacyRefusal
from recsys.experiment.bench import Bench
from recsys.experiment.compare import Plan, compare, gaps
from recsys.experiment.folder import ExperimentFolder
from recsys.experiment.job import Job, run
from recsys.experiment.outcome import Outcome
from recsys.experiment.pool import open_pool
from recsys.experiment.statistics import mean, sd
from recsys.prirec import PriRec
from recsys.report.compare_page import comparison_page
from recsys.report.compare_text import comparison_lines
from recsys.report.compare_words import gap_lines, gap_table
from recsys.search import ENOUGH, GRID, START, Settings, search
from recsys.variants import VARIANTS
from tests.recsys.experiments import CITY, Here, base, bench, visits


def compared(plan: Plan, folder: Path, workers: Here | None = None) -> dict[str, Any]:
    with bench(folder, workers) as trainings:
        return compare(plan, trainings)


@pytest.fixture(scope="module")
def workers() -> Here:
    return Here()


@pytest.fixture(scope="module")
def result(workers: Here, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    plan = Plan(CITY, base(), seeds=2, trials=3)
    with bench(tmp_path_factory.mktemp("compare"), workers) as trainings:
        return compare(plan, trainings)


def test_the_rows_are_all_variants_in_order(result: dict[str, Any]) -> None:
    assert [row["model"] for row in result["rows"]] == list(VARIANTS)
    json.dumps(result, allow_nan=False)


def test_every_row_searches_the_same_grid_with_the_same_budget(
    result: dict[str, Any], workers: Here
) -> None:
    searched = [job for job in workers.jobs if job.wanted == "validation"]
    counts = Counter(
        (job.config.model, visits(job).network, visits(job).neighbours) for job in searched
    )
    assert set(counts.values()) == {3}
    assert len(counts) == len(VARIANTS)
    first = [row["trials"][0] for row in result["rows"]]
    assert len({tuple(trial[axis] for axis in GRID) for trial in first}) == 1
    for row in result["rows"]:
        assert all(trial[axis] in GRID[axis] for trial in row["trials"] for axis in GRID)
    assert {job.config.seed for job in searched} == {0}


def test_settings_are_chosen_by_validation(result: dict[str, Any]) -> None:
    for row in result["rows"]:
        best = max(row["trials"], key=lambda trial: trial["validation_auc"])
        assert row["settings"] == {axis: best[axis] for axis in GRID}


def test_a_search_cannot_see_the_test_part() -> None:
    """Its trainings end without any figure of the test part; a search that had one is caught."""
    plan = Plan(CITY, base(), rows=("prirec",))

    def asked(settings: Settings) -> Job:
        return Job(CITY, plan.config(VARIANTS["prirec"], 0, settings), "validation")

    def honest(settings: Settings) -> float | None:
        area: float | None = run(asked(settings))["validation_auc"]
        return area

    def dishonest(settings: Settings) -> float | None:
        area: float | None = run(asked(settings))["auc"]
        return area

    assert search(honest, 1).measure is not None
    with pytest.raises(KeyError, match="auc"):
        search(dishonest, 1)


def test_figures_are_those_of_single_trainings(result: dict[str, Any]) -> None:
    (row,) = [row for row in result["rows"] if row["model"] == "prirec-random"]
    areas = []
    for seed in (0, 1):
        config = Plan(CITY, base()).config(VARIANTS["prirec-random"], seed, row["settings"])
        model = PriRec(visits(Job(CITY, config))).fit(resolve(CITY))
        assert row["seeds"][seed]["model_digest"] == model.model_digest
        areas.append(model.evaluate(model.prepared_.test)[0] or 0.0)
    assert row["auc"] == pytest.approx(fmean(areas))
    assert row["auc_sd"] == pytest.approx(stdev(areas))


def test_gaps_are_compared_with_the_larger_spread() -> None:
    rows: list[dict[str, Any]] = [
        {"model": "prirec", "auc": 0.75, "auc_sd": 0.01},
        {"model": "fm", "auc": 0.72, "auc_sd": 0.04},
        {"model": "prirec-random", "auc": 0.70, "auc_sd": 0.02},
        {"model": "prirec-n0", "auc": None, "auc_sd": None},
    ]
    found = {gap["other"]: gap for gap in gaps(rows)}
    assert set(found) == {"fm", "prirec-random"}
    assert found["fm"]["gap"] == pytest.approx(0.03)
    assert (found["fm"]["sd"], found["fm"]["beyond_sd"]) == (0.04, False)
    assert (found["prirec-random"]["sd"], found["prirec-random"]["beyond_sd"]) == (0.02, True)
    single = [{**row, "auc_sd": None} for row in rows]
    assert {gap["beyond_sd"] for gap in gaps(single)} == {None}


def test_means_and_spreads_need_every_seed() -> None:
    assert mean([1.0, 2.0]) == 1.5
    assert sd([1.0, 3.0]) == pytest.approx(2**0.5)
    assert (mean([1.0, None]), mean([]), sd([1.0, None, 2.0]), sd([1.0])) == (None,) * 4


def test_the_same_plan_has_the_same_digest_however_it_is_run(
    result: dict[str, Any], tmp_path: Path
) -> None:
    """Two processes and an experiment that was cut short give what one process gave."""
    plan = Plan(CITY, base(), seeds=2, trials=3)

    class Killed(Here):
        def run(self, job: Job) -> Outcome:
            if len(self.jobs) == 4:
                raise KeyboardInterrupt
            return super().run(job)

    with (
        ExperimentFolder(tmp_path / "cut", plan={"kind": "test"}) as folder,
        pytest.raises(KeyboardInterrupt),
    ):
        compare(plan, Bench(folder, Killed()))
    with ExperimentFolder(tmp_path / "cut") as folder, open_pool(2) as pool:
        assert folder.done == 4
        resumed = compare(plan, Bench(folder, pool))
    assert resumed["result_digest"] == result["result_digest"]


def test_what_is_done_is_not_done_again(tmp_path: Path) -> None:
    plan = Plan(CITY, base(), rows=("fm",), seeds=2, trials=0)
    first = compared(plan, tmp_path / "x")
    again = Here()
    with ExperimentFolder(tmp_path / "x") as folder:
        second = compare(plan, Bench(folder, again))
    assert again.jobs == []
    assert second == first


def test_without_trials_the_models_keep_their_own_settings(tmp_path: Path) -> None:
    workers = Here()
    plan = Plan(CITY, base(), rows=("fm", "prirec"), seeds=1, trials=0)
    result = compared(plan, tmp_path / "x", workers)
    assert {job.wanted for job in workers.jobs} == {"test"}
    assert {job.config.learning_rate for job in workers.jobs} == {None}
    assert [row["settings"] for row in result["rows"]] == [None, None]
    assert [row["auc_sd"] for row in result["rows"]] == [None, None]


def test_a_search_is_simulated_where_the_tests_are_protocols(tmp_path: Path) -> None:
    workers = Here()
    plan = Plan(CITY, base(mode="protocol"), rows=("prirec",), seeds=1, trials=1)
    result = compared(plan, tmp_path / "x", workers)
    assert {(job.wanted, job.config.mode) for job in workers.jobs} == {
        ("validation", "simulate"),
        ("test", "protocol"),
    }
    assert result["rows"][0]["bytes_per_user"] > 0


def test_a_row_that_diverges_in_the_end_is_an_error(tmp_path: Path) -> None:
    plan = Plan(CITY, base(weights="literal", epochs=30), rows=("prirec",), seeds=1)
    with pytest.raises(DivergenceError, match="prirec diverged under seed 0"):
        compared(plan, tmp_path / "x")


def test_an_error_of_one_row_ends_all(tmp_path: Path) -> None:
    workers = Here()
    plan = Plan(CITY, base(neighbours=50), rows=("fm", "prirec"), seeds=1)
    with pytest.raises(ParameterError, match="50 neighbours for each of 40 users"):
        compared(plan, tmp_path / "x", workers)
    assert workers.cancelled


def test_too_few_neighbours_are_refused_before_anything_runs() -> None:
    shared = base(mode="protocol", neighbours=1)
    for row in ("prirec", "prirec-", "prirec-random"):
        with pytest.raises(PrivacyRefusal, match="1 neighbours"):
            Plan(CITY, shared, rows=("fm", row))
    Plan(CITY, shared, rows=("mf", "dmf", "fm", "prirec-n0"))  # these run no secure sum


def test_a_row_that_diverges_leaves_the_others_their_result(tmp_path: Path) -> None:
    plan = Plan(CITY, base(weights="literal", epochs=30), rows=("fm", "prirec", "prirec-n0"))
    result = compared(plan, tmp_path / "x")
    json.dumps(result, allow_nan=False)
    rows = {row["model"]: row for row in result["rows"]}
    assert rows["fm"]["auc"] is not None
    assert (rows["prirec"]["auc"], rows["prirec"]["auc_sd"]) == (None, None)
    assert rows["prirec"]["diverged"] == [0, 1, 2]
    assert rows["fm"]["diverged"] == rows["prirec-n0"]["diverged"] == []
    assert result["gaps"] == []
    told = "\n".join(comparison_lines({**result, "out": "here"}))
    assert told.count("prirec diverged under seed") == 3
    assert b"prirec diverged under seed 1" in comparison_page(result, plan)


def test_without_a_validation_part_every_row_ends_at_the_last_epoch(tmp_path: Path) -> None:
    shared = base(prepare=PrepareConfig(validation_fraction=0.0))
    plan = Plan(CITY, shared, rows=("fm", "prirec"), seeds=1, trials=2)
    result = compared(plan, tmp_path / "x")
    for row in result["rows"]:
        assert row["settings"] == START
        assert row["auc"] is not None
        assert row["validation_auc"] is None
        assert row["seeds"][0]["best_epoch"] == 2
    comparison_lines({**result, "out": "here"})
    assert comparison_page(result, plan)


def test_rows_that_are_the_same_training_are_trained_once(tmp_path: Path) -> None:
    """Rows side by side wait for each other instead of training twice."""
    workers = Here()
    plan = Plan(CITY, base(neighbours=0), rows=("prirec", "prirec-n0"), seeds=3)
    result = compared(plan, tmp_path / "x", workers)
    assert len(workers.jobs) == 3
    digests = [[seed["model_digest"] for seed in row["seeds"]] for row in result["rows"]]
    assert digests[0] == digests[1]


def test_a_gap_below_is_told_from_no_gap() -> None:
    rows: list[dict[str, Any]] = [
        {"model": "prirec", "auc": 0.60, "auc_sd": 0.01},
        {"model": "fm", "auc": 0.72, "auc_sd": 0.04},
        {"model": "prirec-random", "auc": 0.61, "auc_sd": 0.02},
        {"model": "prirec-n0", "auc": 0.55, "auc_sd": 0.02},
    ]
    found = gaps(rows)
    assert [gap["beyond_sd"] for gap in found] == [False, False, True]
    assert [row[4] for row in gap_table(found)[1]] == ["yes, but below", "no", "yes"]
    words = ("below by more than", ", not more than", ", more than")
    for line, word in zip(gap_lines(found), words, strict=True):
        assert f"{word} the larger sd of the two" in line


def test_a_budget_beyond_the_grid_is_told_as_what_it_is(tmp_path: Path) -> None:
    plan = Plan(CITY, base(epochs=1), rows=("mf",), seeds=1, trials=1000)
    result = compared(plan, tmp_path / "x")
    assert result["trials"] == len(result["rows"][0]["trials"]) == ENOUGH
    assert plan.trainings == ENOUGH + 1


def test_the_paper_stands_beside_what_stands_in_for_it(
    result: dict[str, Any], tmp_path: Path
) -> None:
    plan = Plan(CITY, base())
    for data, shown in {
        "foursquare-tokyo": (True, False),
        "foursquare-california": (False, True),
        "elsewhere": (True, True),
    }.items():
        page = comparison_page({**result, "data": {**result["data"], "data": data}}, plan)
        assert (b"0.7834" in page, b"0.7605" in page) == shown  # PriRec in Tables 4 and 5, K = 5
        assert (b"for which " + data.encode() + b" stands in" in page) == (data != "elsewhere")
    other = Plan(CITY, base(factors=7))
    assert b"Beside the paper" not in comparison_page(result, other)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"rows": ("fm", "fm")}, "named once each"),
        ({"rows": ()}, "named once each"),
        ({"rows": ("svd",)}, "model must be one of mf, dmf, fm"),
        ({"seeds": 0}, "seeds"),
        ({"trials": -1}, "trials"),
    ],
)
def test_a_wrong_plan_is_refused_before_anything_runs(
    changes: dict[str, Any], message: str
) -> None:
    with pytest.raises(ParameterError, match=message):
        Plan(CITY, base(), **changes)


def test_features_go_to_the_rows_that_have_them() -> None:
    plan = Plan(CITY, base(features="all"))
    jobs = {v.name: Job(CITY, plan.config(v, 0)) for v in plan.variants}
    kinds = {name: visits(job).feature_kind for name, job in jobs.items()}
    assert kinds == {
        **dict.fromkeys(("mf", "dmf"), "none"),
        **dict.fromkeys(("fm", "prirec", "prirec-random", "prirec-n0"), "all"),
        "prirec-": "static",
    }
