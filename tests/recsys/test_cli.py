"""The command line: help, what it prints where, and the run folder it leaves."""

import json
import stat
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from recsys.config import TrainConfig
from tests.support.cli import QUICK, Run
from tests.support.source import ROOT

FIELDS = {
    "model",
    "auc",
    "auc_sd",
    "seconds",
    "bytes_per_user",
    "epsilon",
    "mode",
    "model_digest",
    "epochs",
}
EPSILON = {"headline", "bit", "user", "rounds", "scope", "note"}


# Help, version, entry points


COMMANDS = [
    *([], ["train"], ["recommend"], ["compare"], ["sweep"]),
    *(["data"], ["data", "list"], ["data", "describe"], ["data", "fetch"]),
]


@pytest.mark.parametrize("command", COMMANDS, ids=lambda parts: " ".join(parts) or "privrec")
def test_every_command_has_help_with_an_example(run: Run, command: list[str]) -> None:
    result = run(*command, "--help")
    assert result.code == 0
    examples = result.out.partition("Examples:\n")[2].splitlines()
    assert examples
    assert all(line.startswith("    ") for line in examples)
    assert any(" ".join(["privrec", *command]) in line for line in examples)
    assert "\\[" not in result.out
    assert result.err == ""


def test_the_help_shows_the_defaults_of_the_library(run: Run) -> None:
    shown = " ".join(run("train", "--help").out.split())
    defaults = TrainConfig()
    assert f"Epochs, at most. [{defaults.epochs}]" in shown
    assert f"[{defaults.neighbours}]" in shown
    assert "--mode protocol|simulate|float" in shown


def test_the_command_line_starts_without_the_heavy_libraries() -> None:
    """They take a second or more, which nobody should wait for who mistyped an option."""
    heavy = ("sklearn", "scipy.stats", "matplotlib", "torch", "surprise", "dp_accounting", "h5py")
    code = f"import sys, recsys.cli.app; print(*(set({heavy!r}) & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


@pytest.mark.parametrize("command", [[], ["data"]])
def test_a_group_alone_shows_its_help(run: Run, command: list[str]) -> None:
    assert run(*command).out == run(*command, "--help").out


def test_the_module_and_the_script_are_the_same_command() -> None:
    script = Path(sys.executable).with_name("privrec")
    for command in ([sys.executable, "-m", "recsys"], [str(script)]):
        done = subprocess.run(
            [*command, "--version"], cwd=ROOT, capture_output=True, text=True, check=True
        )
        assert done.stdout == "privrec 0.1.0\n"
        assert done.stderr == ""


# Results


def test_json_stands_alone_on_stdout_and_has_every_field(run: Run) -> None:
    result = run("train", "prirec", *QUICK, "--json")
    assert result.code == 0
    row = result.row
    assert set(row) >= FIELDS
    assert set(row["epsilon"]) == EPSILON
    assert row["model"] == "prirec"
    assert row["mode"] == "protocol"
    assert row["epochs"] == 2
    assert 0 <= row["auc"] <= 1
    assert row["auc_sd"] is None
    assert row["bytes_per_user"] > 0
    assert len(row["model_digest"]) == 64
    assert row["epsilon"]["bit"] <= 1
    assert row["epsilon"]["headline"] == "infinity"
    assert len([line for line in result.err.splitlines() if line.startswith("epoch")]) == 2


@pytest.mark.parametrize(
    ("arguments", "mode", "sends"),
    [
        (["fm", "--mode", "protocol"], "central", False),
        (["prirec-", "--mode", "protocol"], "protocol", True),
        (["prirec", "--mode", "simulate"], "simulate", False),
        (["prirec", "--mode", "float"], "float", False),
    ],
)
def test_every_model_and_mode_gives_the_same_fields(
    run: Run, arguments: list[str], mode: str, sends: bool
) -> None:
    row = run("train", *arguments, *QUICK, "--json", "--seed", "1").row
    assert set(row) >= FIELDS
    assert set(row["epsilon"]) == EPSILON
    assert row["mode"] == mode
    assert (row["bytes_per_user"] is not None) is sends
    assert (row["epsilon"]["bit"] is None) is (arguments[0] == "prirec-")


def test_bytes_per_user_is_the_traffic_by_kind_over_the_users(run: Run) -> None:
    row = run("train", "prirec", *QUICK, "--json").row
    total = sum(kind["bytes"] for kind in row["traffic"].values())
    assert row["bytes_per_user"] == total / row["users"]
    reports = row["traffic"]["ldp.reports"]
    assert reports == {"messages": row["users"], "bytes": row["users"] * -(-row["pois"] // 8)}


def test_average_visits_are_collected_from_the_command_line_to_the_report(run: Run) -> None:
    average = ["--dynamic", "average", "--visit-cap", "3"]
    options = ["train", "prirec", *QUICK, *average, "--mode", "simulate", "--seed", "4"]
    row = run(*options, "--out", "out", "--json").row
    assert row["epsilon"]["scope"] == "average visits by 1BitMean, capped at 3"
    assert row["epsilon"]["bit"] == 1.0
    assert row["epsilon"]["user"] == row["pois"]
    ledger = json.loads(Path("out/public/ledger.json").read_text())
    assert ledger["releases"][0]["what"] == row["epsilon"]["scope"]
    assert "(of a user at most 3)" in Path("out/public/report.html").read_text()
    settings = Path("out/public/config.toml").read_text()
    assert 'dynamic = "average"' in settings
    assert "visit_cap = 3" in settings
    again = run("train", "--config", "out/public/config.toml", "--json").row
    assert again["model_digest"] == row["model_digest"]
    capped = run("train", "--config", "out/public/config.toml", "--visit-cap", "1", "--json").row
    assert capped["model_digest"] != row["model_digest"]


def test_an_average_costs_the_bytes_of_a_visitor_count(run: Run) -> None:
    row = run("train", "prirec", *QUICK, "--dynamic", "average", "--json").row
    reports = {"messages": row["users"], "bytes": row["users"] * -(-row["pois"] // 8)}
    assert row["traffic"]["ldp.reports"] == reports
    assert row["mode"] == "protocol"


def test_one_seed_gives_one_digest_in_both_modes(run: Run) -> None:
    digests = {
        run("train", "prirec", *QUICK, "--seed", "5", "--mode", mode, "--json").row["model_digest"]
        for mode in ("protocol", "protocol", "simulate")
    }
    assert len(digests) == 1
    other = run("train", "prirec", *QUICK, "--seed", "6", "--mode", "simulate", "--json").row
    assert other["model_digest"] not in digests


def test_a_seeded_run_says_that_it_has_no_privacy(run: Run) -> None:
    sentence = "privacy: none (reproducible simulation), nominal epsilon = 1"
    seeded = run("train", "prirec", *QUICK, "--seed", "5")
    assert sentence in seeded.out
    assert "epsilon 1 (nominal)" in seeded.err
    unseeded = run("train", "prirec", *QUICK)
    assert "privacy: none" not in unseeded.out


def test_the_text_says_what_ran_where_time_went_and_what_to_do_next(run: Run) -> None:
    result = run("train", "prirec", *QUICK)
    assert result.code == 0
    for expected in (
        "data     synthetic-city: 40 users, ",
        "model    PriRec: ",
        "3 geographic neighbours, 1 cohort of 40",
        "result   test AUC 0.",
        "where the time went",
        "  key agreement ",
        "what was sent: ",
        "  secure_sum.share ",
        "what each party saw",
        "  - home locations",
        "worst release: ",
    ):
        assert expected in result.out
    lines = result.out.splitlines()
    assert lines[-2].startswith("report   runs/prirec-synthetic-city-")
    assert Path(lines[-2].split()[1]).is_file()
    assert lines[-1].startswith("next     privrec recommend --model runs/prirec-")
    assert run(*lines[-1].split()[2:]).code == 0


def test_quiet_silences_progress_and_notes_only(run: Run) -> None:
    result = run("train", "fm", *QUICK, "-q")
    assert result.err == ""
    assert "test AUC" in result.out


def test_user_features_alone_rank_nothing_where_there_are_none(run: Run) -> None:
    row = run("train", "fm", *QUICK, "--features", "user", "--json").row
    assert row["features"] == 0
    assert row["auc"] == 0.5
    row = run("train", "prirec", *QUICK, "--features", "user", "--json").row
    assert row["features"] == 0
    assert row["epsilon"]["bit"] is None


def test_a_profile_table_serves_user_features_and_says_that_it_is_dealt_out(run: Run) -> None:
    lines = [f"u{u},p{(u * u + k) % 12}" for u in range(30) for k in range(6)]
    Path("set").mkdir()
    Path("set/checkins.csv").write_text("\n".join(["user,poi", *lines]))
    places = [f"p{p},{p},5" for p in range(12)]
    Path("set/pois.csv").write_text("\n".join(["poi,lat,lon", *places]))
    profiles = [f"{'mf'[i % 2]},{i}" for i in range(40)]
    Path("set/profiles_unlinked.csv").write_text("\n".join(["gender,friends", *profiles]))
    options = ["--data", "set", "--epochs", "1", "--neighbours", "3", "--json"]
    row = run("train", "prirec", *options, "--features", "user").row
    assert row["features"] == 2
    assert any("dealt out at random from profiles_unlinked.csv" in note for note in row["notes"])
    row = run("train", "prirec", *options, "--features", "static").row
    assert any("it is used with --features user alone" in note for note in row["notes"])


# The run folder


def test_a_run_folder_separates_who_holds_what(trained: Path) -> None:
    names = {
        part: {path.name for path in (trained / part).iterdir()}
        for part in ("public", "recommender", "users")
    }
    assert names["public"] == {
        "config.toml",
        "ledger.json",
        "metrics.json",
        "model.json",
        "report.html",
        "run.json",
        "state.json",
    }
    assert names["recommender"] == {"checkpoint-0002.npz", "model.npz"}
    assert names["users"] >= {
        *("checkpoint-0002.npz", "memo-keys.npz", "models.npz", "report.html", "watermark"),
    }
    assert stat.S_IMODE((trained / "users").stat().st_mode) == 0o700
    for path in (trained / "users").iterdir():
        if path.stat().st_size:
            assert stat.S_IMODE(path.stat().st_mode) == 0o600, path.name


def test_public_files_hold_no_secret_and_no_history(trained: Path) -> None:
    with np.load(trained / "users" / "memo-keys.npz") as archive:
        keys = archive["keys"]
    with np.load(trained / "users" / "models.npz") as archive:
        models = archive["model.w"]
    for path in (*(trained / "public").iterdir(), *(trained / "recommender").iterdir()):
        data = path.read_bytes()
        for secret in (*keys, *models):
            assert secret.tobytes() not in data
            assert secret.tobytes().hex().encode() not in data
    with np.load(trained / "recommender" / "model.npz") as archive:
        assert "model.w" not in archive.files
        assert not any(name.startswith(("user", "visit")) for name in archive.files)


def test_the_report_holds_what_was_printed(trained: Path) -> None:
    row = json.loads((trained / "public" / "metrics.json").read_text())["rows"][0]
    assert set(row) >= FIELDS
    report = (trained / "public" / "report.html").read_text()
    assert row["model_digest"] in report
    assert "Where the time went" in report
    ledger = json.loads((trained / "public" / "ledger.json").read_text())
    assert ledger["epsilon"] == row["epsilon"]
    assert len(ledger["releases"]) == 6


def test_an_occupied_folder_needs_resume_or_force(run: Run) -> None:
    Path("out").mkdir()
    Path("out/thesis.txt").write_text("mine")
    result = run("train", "fm", *QUICK, "--out", "out")
    assert result.code == 2
    assert "out is not empty and holds no run" in result.err
    assert [path.name for path in Path("out").iterdir()] == ["thesis.txt"]
    assert run("train", "fm", *QUICK, "--out", "out", "--force").code == 0
    result = run("train", "fm", *QUICK, "--out", "out")
    assert result.code == 2
    assert "out holds a run already" in result.err
    assert "--resume" in result.err
    assert "--force" in result.err
    first = json.loads(Path("out/public/run.json").read_text())["experiment_seed"]
    assert run("train", "prirec", *QUICK, "--out", "out", "--force").code == 0
    assert json.loads(Path("out/public/run.json").read_text())["experiment_seed"] != first
    assert Path("out/thesis.txt").read_text() == "mine"
