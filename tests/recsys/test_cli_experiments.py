"""``privrec compare`` and ``privrec sweep``: what they print and write, and people's mistakes."""

import contextlib
import io
import json
import re
import tomllib
from pathlib import Path

import pytest

from recsys.cli.main import main
from recsys.variants import VARIANTS
from tests.recsys.experiments import CITY
from tests.support.cli import Result

QUICK = ("--data", CITY, "--epochs", "2", "--neighbours", "3", "--workers", "1")
COMPARE = ("compare", *QUICK, "--trials", "2", "--seeds", "2")
SWEEP = ("sweep", "neighbours", "--data", CITY, "--epochs", "1", "--workers", "1")


def privrec(*arguments: str) -> Result:
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main(arguments)
    return Result(code, out.getvalue(), err.getvalue())


@pytest.fixture(scope="module")
def compared(tmp_path_factory: pytest.TempPathFactory) -> tuple[Result, Path]:
    out = tmp_path_factory.mktemp("compare") / "out"
    return privrec(*COMPARE, "--out", str(out), "--json"), out


@pytest.fixture(scope="module")
def swept(tmp_path_factory: pytest.TempPathFactory) -> tuple[Result, Path]:
    out = tmp_path_factory.mktemp("sweep") / "out"
    return privrec(*SWEEP, "--values", "0,2,3", "--out", str(out)), out


def test_a_comparison_prints_its_rows_as_json(compared: tuple[Result, Path]) -> None:
    ran, out = compared
    assert ran.code == 0
    result = json.loads(ran.out)
    assert [row["model"] for row in result["rows"]] == list(VARIANTS)
    for row in result["rows"]:
        assert {"auc", "auc_sd", "seconds", "bytes_per_user", "epsilon", "mode"} <= set(row)
        assert 0 <= row["auc"] <= 1
        assert row["auc_sd"] >= 0
    assert result == json.loads((out / "public" / "compare.json").read_text())
    assert {row["mode"] for row in result["rows"]} == {"central", "plaintext", "simulate"}


def test_progress_tells_of_every_training(compared: tuple[Result, Path]) -> None:
    ran, _ = compared
    lines = [line for line in ran.err.splitlines() if " search " in line or " seed " in line]
    assert len(lines) == len(VARIANTS) * (2 + 2)
    assert lines[-1].split()[0] == "28/28"
    for name in VARIANTS:
        assert sum(f"  {name} " in line for line in lines) == 4
    assert all("loss " in line for line in lines)
    assert any("nominal epsilon 1 per user-POI pair" in line for line in lines)
    for name in VARIANTS:
        searched = [line for line in lines if f"  {name} " in line and " search " in line]
        areas = [float(re.findall(r"AUC (\S+)", line)[0]) for line in searched]
        best = [float(re.findall(r"best (\S+)", line)[0]) for line in searched]
        assert best == [areas[0], max(areas)]


def test_the_table_tells_what_the_searches_chose(compared: tuple[Result, Path]) -> None:
    ran, out = compared
    result = json.loads(ran.out)
    printed = privrec("compare", "--resume", str(out), "--workers", "1").out
    chosen = printed[printed.index("settings by search") :].splitlines()[3 : 3 + len(VARIANTS)]
    for row, line in zip(result["rows"], chosen, strict=True):
        name, *values, _ = line.split()
        assert name == row["model"]
        assert [float(value) for value in values] == list(row["settings"].values())


def test_the_effective_settings_are_saved(compared: tuple[Result, Path]) -> None:
    _, out = compared
    settings = tomllib.loads((out / "public" / "config.toml").read_text())
    assert settings["epochs"] == 2
    assert settings["mode"] == "simulate"
    assert "seed" not in settings


def test_the_report_says_that_there_is_no_privacy(compared: tuple[Result, Path]) -> None:
    _, out = compared
    page = (out / "public" / "report.html").read_text()
    assert "none (reproducible simulation)" in page
    assert "Beside the paper" in page
    assert "0.7834" in page  # PriRec in Table 4 at K = 5
    assert "0.7605" in page  # and in Table 5
    for name in VARIANTS:
        assert name in page


def test_resuming_a_finished_comparison_trains_nothing(compared: tuple[Result, Path]) -> None:
    ran, out = compared
    again = privrec("compare", "--resume", str(out), "--json", "--workers", "1")
    assert json.loads(again.out)["rows"] == json.loads(ran.out)["rows"]


def test_a_sweep_marks_what_is_insecure(swept: tuple[Result, Path]) -> None:
    ran, out = swept
    assert ran.code == 0
    marked = [line for line in ran.out.splitlines() if "insecure" in line]
    assert [line.split()[:2] for line in marked] == [
        ["prirec", "2"],
        ["prirec-", "2"],
        ["prirec-random", "2"],
    ]
    result = json.loads((out / "public" / "sweep.json").read_text())
    assert result["kind"] == "neighbours"
    assert "Hollow points" in (out / "public" / "report.html").read_text()


def test_models_take_the_names_of_rows() -> None:
    for arguments in (
        ("prirec-n0", "--neighbours", "5"),
        ("prirec-random", "--network", "geographic"),
    ):
        ran = privrec("train", *arguments)
        assert ran.code == 2
        assert f"with {arguments[0]}" in ran.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("compare", "--models", "fm,svd"), "model must be one of mf, dmf, fm"),
        (("compare", "--models", "fm,fm"), "named once each"),
        (("compare", "--seeds", "0"), "seeds"),
        (("compare", "--trials", "-1"), "trials"),
        (("compare", "--workers", "0"), "workers"),
        (("compare", "--data", "nowhere"), "there is no data set 'nowhere'"),
        (("compare", "--resume", "nowhere"), "holds no experiment to go on with"),
        (("compare", "--resume", "x", "--epochs", "3"), "--epochs has no meaning with --resume"),
        (("sweep",), "name what to vary, one of iterations, neighbours, size, epsilon"),
        (("sweep", "height"), "got 'height'"),
        (("sweep", "epsilon", "--values", "1,two"), "got 'two'"),
        (("sweep", "epsilon", "--values", "-1"), "epsilon"),
        (("sweep", "epsilon", "--pois", "9"), "--pois has a meaning in a sweep over size alone"),
        (("sweep", "size", "--data", CITY), "--data has no meaning in a sweep over size"),
        (("sweep", "iterations", "--values", "1"), "values have no meaning"),
        (("sweep", "neighbours", "--seeds", "0"), "seeds"),
        (("sweep", "neighbours", "--users", "99"), "--users has a meaning in a sweep over size"),
        (("sweep", "size", "--users", "99", "--values", "99"), "no meaning beside --values"),
        (("sweep", "size", "--users", "9"), "users"),
        (("sweep", "size", "--values", "0,99"), "users"),
    ],
)
def test_a_mistake_is_told_in_one_sentence(
    arguments: tuple[str, ...], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    ran = privrec(*arguments)
    assert ran.code == 2
    assert message in ran.err
    assert ran.out == ""
    assert list(tmp_path.iterdir()) == []


def test_too_few_neighbours_are_refused_for_privacy(tmp_path: Path) -> None:
    for command in ((*SWEEP, "--values", "1"), (*COMPARE, "--neighbours", "2")):
        ran = privrec(*command, "--mode", "protocol", "--out", str(tmp_path / "x"))
        assert ran.code == 3
        assert "remedy: " in ran.err
        assert list(tmp_path.iterdir()) == []


def test_what_fails_before_the_first_training_is_done_leaves_no_folder(tmp_path: Path) -> None:
    ran = privrec(*SWEEP, "--values", "50", "--out", str(tmp_path / "x"))
    assert ran.code == 2
    assert "50 neighbours for each of 40 users" in ran.err
    assert list(tmp_path.iterdir()) == []


def test_an_experiment_goes_on_with_its_own_data_alone(tmp_path: Path) -> None:
    lines = ["user,poi,lat,lon"]
    lines += [f"u{u},p{(u * u + k) % 12},{(u * u + k) % 12},5" for u in range(30) for k in range(6)]
    file, out = tmp_path / "checkins.csv", tmp_path / "out"
    file.write_text("\n".join(lines))
    command = ("--data", str(file), "--epochs", "1", "--workers", "1", "--min-visitors", "0")
    kinds = (("compare", "--models", "fm", "--trials", "0", "--seeds", "1"), ("sweep", "epsilon"))
    for number, kind in enumerate(kinds):
        more = ("--values", "1") if kind[0] == "sweep" else ()
        assert privrec(*kind, *command, *more, "--out", f"{out}{number}").code == 0
    file.write_text("\n".join(lines[:-1]))
    for number, kind in enumerate(kinds):
        ran = privrec(kind[0], "--resume", f"{out}{number}")
        assert ran.code == 2
        assert "the data are not those that the experiment began with" in ran.err
    file.write_text("\n".join(lines))
    for number, kind in enumerate(kinds):
        assert privrec(kind[0], "--resume", f"{out}{number}", "--workers", "1").code == 0


@pytest.mark.parametrize("command", [COMPARE, (*SWEEP, "--values", "0")])
def test_a_folder_that_is_not_empty_needs_force(tmp_path: Path, command: tuple[str, ...]) -> None:
    (tmp_path / "mine.txt").write_text("kept")
    ran = privrec(*command, "--out", str(tmp_path))
    assert ran.code == 2
    assert "not empty" in ran.err
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]


def test_a_comparison_is_not_resumed_as_a_sweep(compared: tuple[Result, Path]) -> None:
    _, out = compared
    ran = privrec("sweep", "--resume", str(out))
    assert ran.code == 2
    assert f"go on with: privrec compare --resume {out}" in ran.err
