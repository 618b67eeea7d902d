"""Mistakes, refusals and bugs: one clear sentence, the right exit code, no broken files."""

from pathlib import Path

import pytest

from recsys.prirec import PriRec
from tests.support.cli import CITY, QUICK, Run


def write_sets() -> None:
    header = "user,poi,lat,lon\n"
    Path("missing.csv").write_text("user,place,lat,lon\na,1,10,20\n")
    Path("north.csv").write_text(header + "a,1,120,20\n")
    Path("two.csv").write_text(header + "a,1,10,20\nb,1,10,20\na,2,11,20\nb,2,11,20\n")
    Path("all.toml").write_text("min_visitors = 1\nneighbours = 0\n")


MISTAKES = {
    "a wrong path": (["train", "fm", "--data", "nowhere"], 2, "no data set 'nowhere'"),
    "a missing required column": (
        ["train", "fm", "--data", "missing.csv"],
        2,
        "missing.csv, line 1: column 'poi' is missing",
    ),
    "a latitude of 120": (
        ["train", "fm", "--data", "north.csv"],
        2,
        "north.csv, line 2: lat is '120'; expected a number in [-90, 90]",
    ),
    "two users only": (
        ["train", "prirec", "--data", "two.csv", "--config", "all.toml"],
        3,
        "a cohort of 2 users is below the minimum of 16",
    ),
    "two users and POIs that too few visit": (
        ["train", "prirec", "--data", "two.csv"],
        2,
        "the most visited of 2 POIs has 2 visitors and 10 are required",
    ),
    "two neighbours": (
        ["train", "prirec", *QUICK, "--neighbours", "2"],
        3,
        "a sum of fewer than 3 models opens one of them",
    ),
    "a small cohort": (
        ["train", "prirec", *QUICK, "--cohort", "10"],
        3,
        "a cohort of 10 users is below the minimum of 16",
    ),
    "a cohort minimum of 2": (
        ["train", "prirec", *QUICK, "--min-cohort", "2"],
        2,
        "min_cohort must be an integer of at least 3, got 2",
    ),
    "more neighbours than users": (
        ["train", "prirec", *QUICK, "--neighbours", "40"],
        2,
        "40 neighbours for each of 40 users",
    ),
    "epsilon 0": (["train", "prirec", *QUICK, "--epsilon", "0"], 2, "epsilon must"),
    "a visit cap of 0": (
        ["train", "prirec", *QUICK, "--dynamic", "average", "--visit-cap", "0"],
        2,
        "visit_cap must lie in [1, 2^31 - 1], got 0",
    ),
    "an unknown dynamic feature": (
        ["train", "prirec", *QUICK, "--dynamic", "mean"],
        2,
        "dynamic must be one of visitors, average, three, got 'mean'",
    ),
    "epsilon NaN": (["train", "prirec", *QUICK, "--epsilon", "nan"], 2, "epsilon must"),
    "a negative seed": (["train", "fm", *QUICK, "--seed", "-1"], 2, "seed must"),
    "an unknown model": (["train", "gnn", *QUICK], 2, "model must be one of mf, dmf, fm, prirec-"),
    "no model": (["train", *QUICK], 2, "Missing argument MODEL, one of mf, dmf, fm, prirec-"),
    "an unknown option": (["train", "fm", "--epoch", "3"], 2, "No such option '--epoch'"),
    "a word for a number": (["train", "fm", "--epochs", "x"], 2, "'x' is not a valid integer"),
    "an option without its value": (["train", "fm", "--epochs"], 2, "'--epochs' requires an"),
    "an unknown command": (["learn"], 2, "No such command 'learn'"),
    "a missing config file": (["train", "fm", "--config", "no.toml"], 2, "no.toml: no such file"),
    "an output path that is a file": (
        ["train", "fm", *QUICK, "--out", "two.csv"],
        2,
        "two.csv is a file",
    ),
    "an output path below a file": (
        ["train", "fm", *QUICK, "--out", "two.csv/run"],
        2,
        "two.csv/run: Not a directory",
    ),
    "a folder without a model": (
        ["recommend", "--model", ".", "--user", "u0"],
        2,
        "no trained model here",
    ),
    "recommend without a user": (["recommend", "--model", "."], 2, "Missing option '--user'"),
    "describe nothing": (["data", "describe"], 2, "Missing argument"),
    "describe a city of no size": (
        ["data", "describe", "synthetic-city:0x5"],
        2,
        "users must",
    ),
}


def with_option(arguments: list[str], option: str) -> list[str]:
    """In front for ``train``, since one of its mistakes is a missing value at the end."""
    place = 1 if arguments[0] == "train" else len(arguments)
    return [*arguments[:place], option, *arguments[place:]]


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_gives_one_sentence_and_its_exit_code(run: Run, name: str) -> None:
    arguments, code, sentence = MISTAKES[name]
    write_sets()
    before = sorted(Path().rglob("*"))
    result = run(*with_option(arguments, "--quiet"))
    assert result.code == code
    first, *rest = result.err.splitlines()
    assert first.startswith("error: ")
    assert sentence in first
    assert len(rest) <= 1
    assert all(line.startswith("remedy: ") for line in rest)
    assert result.out == ""
    assert sorted(Path().rglob("*")) == before


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_with_json_gives_json_on_stdout(run: Run, name: str) -> None:
    arguments, code, sentence = MISTAKES[name]
    write_sets()
    front = arguments[0] == "train"
    result = (
        run(*arguments[:front], "--json", *arguments[front:])
        if front
        else run(*arguments, "--json")
    )
    assert result.code == code
    error = result.json["error"]
    assert set(error) == {"type", "message", "remedy"}
    assert sentence in error["message"]
    assert error["type"] not in {"", "Exception"}


def test_divergence_names_the_epoch(run: Run) -> None:
    result = run(
        *("train", "prirec", *CITY, "--weights", "literal", "--neighbours", "30"),
        *("--mix", "update", "--mode", "simulate", "--json"),
    )
    assert result.code == 2
    assert result.json["error"]["type"] == "DivergenceError"
    assert "training diverged in epoch " in result.json["error"]["message"]
    assert "weights" in result.json["error"]["remedy"]


def test_a_bug_of_ours_is_one_line_with_its_own_exit_code(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def breaks(self: PriRec, *arguments: object, **options: object) -> None:
        raise ZeroDivisionError("first\nsecond")

    monkeypatch.setattr(PriRec, "fit", breaks)
    result = run("train", "prirec", *QUICK, "-q")
    assert result.code == 1
    assert result.err.splitlines() == [
        "error: internal error: ZeroDivisionError: first second",
        "remedy: run again with -v for the traceback",
    ]
    result = run("train", "prirec", *QUICK, "-v", "--json")
    assert result.code == 1
    assert "Traceback (most recent call last)" in result.err
    assert result.json["error"]["type"] == "ZeroDivisionError"


def test_a_full_disk_is_not_the_caller_s_mistake(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(self: PriRec, *arguments: object, **options: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(PriRec, "fit", full)
    result = run("train", "prirec", *QUICK)
    assert result.code == 1
    assert "No space left on device" in result.err


def test_ctrl_c_while_data_are_read_exits_130(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupts(path: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("recsys.data.catalogue.load_checkins", interrupts)
    write_sets()
    result = run("data", "describe", "two.csv", "--json")
    assert result.code == 130
    assert result.json["error"] == {"type": "Interrupted", "message": "interrupted", "remedy": ""}
