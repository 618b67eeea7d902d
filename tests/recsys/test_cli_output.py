"""Recommendations, data sets, the console and the tables."""

import sys
from pathlib import Path

import pytest

from recsys.cli.console import Console
from recsys.prirec import PriRec
from recsys.report.table import byte_size, markdown_table, text_table
from tests.support.cli import QUICK, Run

# Recommending


def test_recommend_lists_new_pois_best_first(run: Run, trained: Path) -> None:
    result = run("recommend", "--model", str(trained), "--user", "u1", "-k", "4", "--json")
    assert result.code == 0
    rows = result.json["rows"]
    assert [row["rank"] for row in rows] == [1, 2, 3, 4]
    chances = [row["probability"] for row in rows]
    assert chances == sorted(chances, reverse=True)
    assert all(0 < chance < 1 for chance in chances)
    model = PriRec.load(trained)
    assert [row["poi"] for row in rows] == [found.poi for found in model.recommend("u1", 4)]
    visited = {model.files.poi_ids[p] for p in model.files.visited(1)}
    assert not visited & {row["poi"] for row in rows}
    assert all(0 <= row["home_km"] < 100 for row in rows)
    text = run("recommend", "--model", str(trained), "--user", "u1", "-k", "4").out.splitlines()
    assert text[0].split() == ["rank", "poi", "category", "probability", "lat", "lon", "home_km"]
    assert len(text) == 2 + 4


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--user", "nobody"], "user 'nobody' was not in the training data of 40 users"),
        (["--user", "u1", "-k", "0"], "k must be an integer of at least 1, got 0"),
    ],
    ids=["an unknown user", "k = 0"],
)
def test_recommend_refuses(run: Run, trained: Path, options: list[str], sentence: str) -> None:
    result = run("recommend", "--model", str(trained), *options)
    assert result.code == 2
    assert sentence in result.err.splitlines()[0]
    assert result.out == ""


def test_recommend_works_for_the_central_model(run: Run) -> None:
    assert run("train", "fm", *QUICK, "--out", "fm").code == 0
    rows = run("recommend", "--model", "fm", "--user", "u0", "-k", "3", "--json").json["rows"]
    assert len(rows) == 3


def test_a_damaged_model_is_refused(run: Run) -> None:
    assert run("train", "fm", *QUICK, "--out", "fm").code == 0
    path = Path("fm/recommender/model.npz")
    path.write_bytes(path.read_bytes()[:-100])
    result = run("recommend", "--model", "fm", "--user", "u0")
    assert result.code == 2
    assert "damaged array file" in result.err


# Data sets


def test_data_list_names_the_city_and_the_sets_of_the_root(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PRIVREC_DATA", raising=False)
    built_in = ["synthetic-city", "synthetic-ratings"]
    assert [row["name"] for row in run("data", "list", "--json").json["rows"]] == built_in
    Path("root/tiny").mkdir(parents=True)
    Path("root/tiny/checkins.csv").write_text("user,poi,lat,lon\na,1,10,20\n")
    monkeypatch.setenv("PRIVREC_DATA", "root")
    names = [row["name"] for row in run("data", "list", "--json").json["rows"]]
    assert names == ["synthetic-city", "tiny", "synthetic-ratings"]
    assert "tiny" in run("data", "list").out


def test_data_describe_counts(run: Run) -> None:
    Path("two.csv").write_text("user,poi,lat,lon\na,1,10,20\nb,1,10,20\na,2,11,20\nb,2,11,20\n")
    (facts,) = run("data", "describe", "two.csv", "--json").json["rows"]
    assert (facts["users"], facts["pois"], facts["distinct_pairs"]) == (2, 2, 4)
    text = run("data", "describe", "two.csv").out
    assert any(line.split() == ["users", "2"] for line in text.splitlines())


# The console


class Terminal:
    """A stderr that claims to be a terminal."""

    def __init__(self) -> None:
        self.text = ""

    def write(self, text: str) -> int:
        self.text += text
        return len(text)

    def flush(self) -> None:
        """Nothing is held back."""

    def isatty(self) -> bool:
        return True


def test_a_terminal_gets_one_line_that_is_rewritten(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("COLUMNS", "20")
    console = Console()
    console.progress("epoch 1 " + "x" * 40)
    console.progress("epoch 2")
    console.result(["done"], {})
    assert terminal.text == "\r\x1b[2Kepoch 1 xxxxxxxxxxx\r\x1b[2Kepoch 2\n"
    assert capsys.readouterr().out == "done\n"


def test_the_state_of_a_long_step_is_shown_now_and_then(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    now = 100.0
    monkeypatch.setattr("recsys.cli.console.time.monotonic", lambda: now)
    console = Console()
    for now in (100.0, 114.0, 115.5, 116.0, 131.0):
        console.status(f"cohort {now:g}")
    assert capsys.readouterr().err == "cohort 115.5\ncohort 131\n"


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["train", "-qv"], Console(quiet=True, verbose=True)),
        (["--json", "-v"], Console(json=True, verbose=True)),
        (["recommend", "--", "--json", "-q"], Console()),
        (["--quiet", "--verbose"], Console(quiet=True, verbose=True)),
        (["-k", "3"], Console()),
    ],
)
def test_output_options_are_known_before_anything_is_parsed(
    arguments: list[str], expected: Console
) -> None:
    assert Console.from_arguments(arguments) == expected


# Tables


def test_tables_align_and_escape() -> None:
    rows = [("a", "7"), ("long name", "12,345")]
    assert text_table(("name", "n"), rows, right=(1,)) == [
        "name            n",
        "---------  ------",
        "a               7",
        "long name  12,345",
    ]
    assert markdown_table(("a|b", "n"), [("c", "1")], right=(1,)) == [
        "| a\\|b | n |",
        "| --- | ---: |",
        "| c | 1 |",
    ]


@pytest.mark.parametrize(
    ("size", "shown"),
    [(0, "0 B"), (999, "999 B"), (1000, "1.0 kB"), (999_500, "1.0 MB"), (1.86e10, "18.6 GB")],
)
def test_sizes_are_decimal(size: float, shown: str) -> None:
    assert byte_size(size) == shown
