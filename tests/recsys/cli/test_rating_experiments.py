"""``privrec compare`` and ``sweep`` with ratings: what they print and write, and mistakes."""

import json
import tomllib
from pathlib import Path

import pytest

from recsys.cli.main import main
from tests.recsys.rating_worlds import SET
from tests.support.browser import Browser
from tests.support.cli import Run
from tests.support.pages import check_page

MODELS = ("--models", "global-mean,bias,pmf,fcf")
SHARED = ("--task", "rating", "--data", SET, "--epochs", "3", "--cohort", "30", "--workers", "1")
COMPARE = ("compare", *SHARED, *MODELS, "--trials", "2", "--seeds", "2")


@pytest.fixture(scope="module")
def compared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("compare") / "out"
    assert main([*COMPARE, "--out", str(out), "--quiet"]) == 0
    return out


def test_a_comparison_writes_its_rows(compared: Path) -> None:
    result = json.loads((compared / "public" / "compare.json").read_text())
    assert result["task"] == "rating"
    assert [row["model"] for row in result["rows"]] == ["global-mean", "bias", "pmf", "fcf"]
    for row in result["rows"]:
        fields = {"rmse", "rmse_sd", "seconds", "bytes_per_user", "epsilon", "fallbacks", "digest"}
        assert fields <= set(row)
        assert row["rmse"] > 0
        assert row["rmse_sd"] >= 0
    trials = {row["model"]: len(row["trials"]) for row in result["rows"]}
    assert trials == {"global-mean": 0, "bias": 2, "pmf": 2, "fcf": 2}


def test_a_finished_comparison_is_printed_again(run: Run, compared: Path) -> None:
    ran = run("compare", "--resume", str(compared), "--workers", "1", "--json")
    assert ran.json == json.loads((compared / "public" / "compare.json").read_text())
    text = run("compare", "--resume", str(compared), "--workers", "1")
    assert "test RMSE" in text.out
    assert "uploads per user: * computed" in text.out
    lines = [line for line in text.err.splitlines() if " search " in line or " seed " in line]
    assert lines[-1].split()[0] == "14/14"
    assert any("  pmf " in line and "search" in line and "best 0." in line for line in lines)


def test_only_what_was_given_is_saved_as_shared(compared: Path) -> None:
    settings = tomllib.loads((compared / "public" / "config.toml").read_text())
    assert settings == {"data": SET, "epochs": 3, "cohort": 30, "mode": "simulate"}


def test_the_page_stands_alone_and_fits(chromium: Browser, compared: Path) -> None:
    check_page(chromium, compared / "public" / "report.html")


@pytest.mark.parametrize(
    "arguments",
    [
        ("sweep", "neighbours", *SHARED, "--dim", "2"),
        ("sweep", "noise", *SHARED, "--seeds", "2", "--values", "0.1,0.4"),
        ("sweep", "pseudo", *SHARED, "--values", "0,5,1000"),
        ("sweep", "size", "--task", "rating", "--values", "40,60,80", "--items", "30"),
    ],
    ids=lambda arguments: arguments[1],
)
def test_a_page_of_a_sweep_stands_alone_and_fits(
    chromium: Browser, tmp_path: Path, arguments: tuple[str, ...]
) -> None:
    assert main([*arguments, "--out", str(tmp_path / "out"), "--quiet"]) == 0
    check_page(chromium, tmp_path / "out" / "public" / "report.html")


def test_the_default_rows_are_those_of_the_task(run: Run) -> None:
    shown = " ".join(run("compare", "--help").out.split())
    assert "rating: global-mean, user-mean, bias, pmf, svdpp, grals, srgcnn, gcmc" in shown
    assert "visits: mf, dmf, fm, prirec-" in shown


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("compare", "--task", "books"), "task must be one of visits, rating, got 'books'"),
        (("compare", "--task", "rating", "--factors", "3"), "--factors has no meaning with models"),
        (("compare", "--dim", "3"), "--dim has no meaning with models that learn from visits"),
        (("compare", "--task", "rating", "--models", "fm"), "model must be one of global-mean"),
        (("compare", "--task", "rating", "--data", "nowhere"), "no rating set 'nowhere'"),
        (("sweep",), "one of iterations, neighbours, size, epsilon (visits to places) or one of"),
        (("sweep", "noise", "--task", "visits"), "one of iterations, neighbours, size, epsilon"),
        (("sweep", "noise", "--factors", "3"), "--factors has no meaning with models that learn"),
        (("sweep", "pseudo", "--data", "synthetic-city"), "synthetic-city holds visits to places"),
        (("compare", "--models", "fm,bias"), "fm learns from visits to places, bias from ratings"),
        (("compare", "--models", "bias,fedgn"), "got 'fedgn'\nremedy: did you mean fedgnn?"),
        (("compare", "--data", SET, "--models", "fm"), "holds ratings of items, and these models"),
        (("sweep", "epsilon", "--task", "rating"), "one of neighbours, noise, pseudo, size"),
        (("sweep", "noise", "--task", "rating", "--values", "1,loud"), "got 'loud'"),
        (("sweep", "size", "--task", "rating", "--pois", "9"), "--pois has no meaning in a sweep"),
        (("sweep", "size", "--items", "9"), "--items has no meaning in a sweep"),
        (("sweep", "size", "--task", "rating", "--data", SET), "makes rating sets of its own"),
        (("sweep", "noise", "--task", "rating", "--items", "9"), "--items has a meaning in a"),
        (("sweep", "pseudo", "--task", "rating", "--pseudo", "9"), "pseudo has no meaning beside"),
    ],
)
def test_a_mistake_is_told_in_one_sentence(
    run: Run, arguments: tuple[str, ...], message: str
) -> None:
    ran = run(*arguments)
    assert ran.code == 2
    assert message in ran.err
    assert ran.out == ""
    assert list(Path().iterdir()) == []


@pytest.mark.parametrize(
    "arguments",
    [
        ("compare", "--models", "bias,global-mean", "--trials", "0", "--seeds", "1"),
        ("compare", "--models", "bias", "--trials", "0", "--seeds", "1", "--data", SET),
        ("sweep", "pseudo", "--values", "0", "--dim", "0", "--data", SET),
        ("sweep", "neighbours", "--values", "none", "--dim", "2", "--data", SET),
    ],
)
def test_models_kind_and_data_tell_the_task(run: Run, arguments: tuple[str, ...]) -> None:
    ran = run(*arguments, "--epochs", "1", "--workers", "1", "--out", "out", "--json", "--quiet")
    assert ran.json["task"] == "rating"
    assert json.loads(Path("out/public/plan.json").read_text())["task"] == "rating"


def test_a_set_that_can_be_fetched_is_offered(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PRIVREC_DATA", raising=False)
    for command in (("train", "bias"), ("compare", "--models", "bias"), ("sweep", "noise")):
        ran = run(*command, "--data", "ml-100k")
        assert ran.code == 2
        assert "remedy: get it with: privrec data fetch ml-100k; or give the path" in ran.err


def test_another_command_is_sent_to_the_right_one(run: Run, compared: Path) -> None:
    ran = run("sweep", "--resume", str(compared))
    assert "holds a comparison, not a sweep" in ran.err
    assert f"go on with: privrec compare --resume {compared}" in ran.err
    ran = run("train", "--resume", str(compared))
    assert "holds no run to go on with" in ran.err
    assert "go on with an experiment by privrec compare or sweep --resume" in ran.err


def test_a_comparison_goes_on_with_its_own_data_alone(run: Run) -> None:
    lines = [f"u{u},i{i},{1 + (u * i) % 5}" for u in range(40) for i in range(8)]
    Path("own.csv").write_text("\n".join(["user,item,rating", *lines]))
    command = ("compare", "--task", "rating", "--data", "own.csv", "--models", "bias")
    options = ("--epochs", "1", "--trials", "0", "--seeds", "1", "--workers", "1", "--quiet")
    assert run(*command, *options, "--out", "out").code == 0
    Path("own.csv").write_text("\n".join(["user,item,rating", *lines[:-1]]))
    ran = run("compare", "--resume", "out")
    assert ran.code == 2
    assert "the data are not those that the experiment began with" in ran.err
