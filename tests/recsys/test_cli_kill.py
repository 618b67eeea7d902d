"""Ctrl-C and kill -9: what a run keeps, and that going on gives what it would have given."""

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from recsys.cli.main import main
from recsys.report.run_folder import RunFolder
from tests.support.processes import python
from tests.support.source import ROOT

UNSEEDED = [
    *("train", "prirec", "--data", "synthetic-city:40x30,pois_per_user=10"),
    *("--neighbours", "3", "--epochs", "12", "--patience", "12"),
]
RUN = [*UNSEEDED, "--seed", "3"]


def row(folder: Path) -> dict[str, Any]:
    metrics = json.loads((folder / "public" / "metrics.json").read_text())
    found: dict[str, Any] = metrics["rows"][0]
    return found


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of ``RUN`` that nobody interrupted."""
    out = tmp_path_factory.mktemp("whole") / "run"
    assert main([*RUN, "--out", str(out), "--quiet"]) == 0
    return out


def sweeps(tmp_path: Path, step: int) -> dict[str, list[dict[str, Any]]]:
    """The kill driver's outcomes by sweep; the first of each is the run that nobody killed."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.recsys.kill_driver", str(tmp_path), str(step)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    found: dict[str, list[dict[str, Any]]] = {"seeded": [], "unseeded": []}
    for line in done.stdout.splitlines():
        result = json.loads(line)
        found[result["sweep"]].append(result)
    return found


def judge(results: list[dict[str, Any]]) -> None:
    reference, *killed, late = results
    assert not reference["killed"]
    assert not late["killed"]
    assert killed
    assert all(result["killed"] for result in killed)
    for result in results:
        assert result["exit"] == 0
        assert result["digest"] == reference["digest"]
        assert result["epochs"] == reference["epochs"]
        assert result["temporary"] == []
        spent_once(result["claims"])


def spent_once(claims: list[list[Any]]) -> None:
    """No (key, region) is claimed twice, and no process uses the keys of another."""
    marks: dict[str, tuple[int, int]] = {}
    owners: dict[str, int] = {}
    for process, key, epoch, start, stop in claims:
        assert owners.setdefault(key, process) == process
        assert (epoch, start) >= marks.get(key, (0, 0))
        marks[key] = (epoch, stop)
    assert claims


def test_kill_9_and_resume_gives_the_same_digest_and_spends_no_pad_twice(tmp_path: Path) -> None:
    found = sweeps(tmp_path, step=11)
    judge(found["seeded"])
    judge(found["unseeded"])
    # The users' memo keys, and with them all their answers, are those from before the kill.
    assert len({result["memo_keys"] for result in found["unseeded"]}) == 1
    assert None not in {result["memo_keys"] for result in found["unseeded"]}
    assert {result["memo_keys"] for result in found["seeded"]} == {None}


@pytest.mark.deep
def test_kill_9_at_every_flush(tmp_path: Path) -> None:
    found = sweeps(tmp_path, step=1)
    judge(found["seeded"])
    judge(found["unseeded"])
    assert len(found["seeded"]) > 40


def test_the_judge_catches_a_region_spent_twice() -> None:
    spent_once([[1, "aa", 0, 0, 32], [1, "aa", 0, 32, 64], [2, "bb", 0, 0, 32]])
    for twice in (
        [[1, "aa", 0, 0, 32], [1, "aa", 0, 16, 48]],
        [[1, "aa", 1, 0, 32], [1, "aa", 0, 32, 64]],
        [[1, "aa", 0, 0, 32], [2, "aa", 0, 32, 64]],
    ):
        with pytest.raises(AssertionError):
            spent_once(twice)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_keeps_the_last_epoch_and_says_how_to_go_on(
    tmp_path: Path, number: signal.Signals, whole: Path
) -> None:
    out = tmp_path / "run"
    process = subprocess.Popen(
        python("-m", "recsys", *RUN, "--out", str(out), "--json"),
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    while not process.stderr.readline().startswith("epoch   1/12"):
        assert process.poll() is None
    process.send_signal(number)
    stdout, stderr = process.communicate()
    assert process.returncode == 130
    assert "Traceback" not in stderr
    error = json.loads(stdout)["error"]
    assert error["type"] == "Interrupted"
    assert error["message"].startswith("interrupted; epoch ")
    assert error["remedy"] == f"go on with: privrec train --resume {out}"
    assert f"remedy: {error['remedy']}" in stderr
    assert list(out.rglob("*.tmp")) == []
    with RunFolder(out) as run:
        assert 1 <= run.checkpoints < 12
        assert run.load() is not None
    assert main(["train", "--resume", str(out), "--quiet"]) == 0
    assert row(out)["model_digest"] == row(whole)["model_digest"]


def interrupted_run(
    folder: Path, monkeypatch: pytest.MonkeyPatch, *options: str, command: list[str] = RUN
) -> None:
    """Leave a run in ``folder`` that Ctrl-C ended right after its second checkpoint."""
    save = RunFolder.save

    def interrupts(self: RunFolder, snapshot: Any) -> None:
        save(self, snapshot)
        if self.checkpoints == 2:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(RunFolder, "save", interrupts)
        assert main([*command, *options, "--out", str(folder), "--quiet"]) == 130


def test_a_resumed_run_adds_up_time_and_traffic_and_keeps_the_curve(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, whole: Path
) -> None:
    out = tmp_path / "run"
    interrupted_run(out, monkeypatch)
    with RunFolder(out) as run:
        before = run.spent
    assert before is not None
    assert main(["train", "--resume", str(out), "--quiet"]) == 0
    resumed, once = row(out), row(whole)
    assert resumed["seconds"] > before["seconds"]
    assert resumed["epochs"] == once["epochs"] == 12
    for kind in ("secure_sum.share", "pads.masked", "ldp.reports"):
        assert resumed["traffic"][kind] == once["traffic"][kind]
    # The second process agreed keys of its own.
    assert resumed["traffic"]["pads.key"]["messages"] == 2 * once["traffic"]["pads.key"]["messages"]
    curves = [
        json.loads((folder / "public" / "state.json").read_text())["progress"]
        for folder in (out, whole)
    ]
    assert curves[0] == curves[1]


def test_a_resumed_run_with_averages_ends_as_the_one_that_nobody_interrupted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = ("--dynamic", "average", "--visit-cap", "3", "--mode", "simulate")
    interrupted, once = tmp_path / "interrupted", tmp_path / "once"
    interrupted_run(interrupted, monkeypatch, *options)
    assert main(["train", "--resume", str(interrupted), "--quiet"]) == 0
    assert main([*RUN, *options, "--out", str(once), "--quiet"]) == 0
    assert row(interrupted)["model_digest"] == row(once)["model_digest"]
    assert row(interrupted)["epsilon"] == row(once)["epsilon"]
    ledgers = [(folder / "public" / "ledger.json").read_text() for folder in (interrupted, once)]
    assert ledgers[0] == ledgers[1]


def test_a_finished_run_can_be_resumed_and_stays_the_same(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "run"
    assert main(["train", "fm", *RUN[2:], "--out", str(out), "--quiet"]) == 0
    before = row(out)
    capsys.readouterr()
    assert main(["train", "--resume", str(out), "--json"]) == 0
    after = json.loads(capsys.readouterr().out)["rows"][0]
    same = ("model_digest", "auc", "epochs", "best_epoch", "traffic", "epsilon", "out")
    assert {name: after[name] for name in same} == {name: before[name] for name in same}
    with RunFolder(out) as run:
        assert run.spent is not None
        assert after["seconds"] > run.spent["seconds"]


def test_lost_memo_keys_end_a_resume_with_a_refusal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "run"
    interrupted_run(out, monkeypatch, command=UNSEEDED)
    (out / "users" / "memo-keys.npz").unlink()
    assert main(["train", "--resume", str(out)]) == 3
    assert "memo-keys.npz is lost" in capsys.readouterr().err
    assert not (out / "users" / "memo-keys.npz").exists()
    with RunFolder(out) as run:
        assert run.checkpoints == 2


def test_a_resume_under_other_settings_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "run"
    interrupted_run(out, monkeypatch)
    for options, sentence in {
        ("--epochs", "9"): "--epochs 9 differs from the run's 12",
        ("--relay",): "--relay True differs from the run's False",
        ("--max-positives", "4"): "--max-positives 4 differs from the run's default",
        ("--out", "elsewhere"): "--out has no meaning with --resume",
        ("--force",): "--force has no meaning with --resume",
        ("--config", "some.toml"): "--config has no meaning with --resume",
    }.items():
        assert main(["train", "--resume", str(out), *options]) == 2
        assert sentence in capsys.readouterr().err
    assert main(["train", "fm", "--resume", str(out)]) == 2
    assert "--model fm differs from the run's prirec" in capsys.readouterr().err
    # The same settings and the environment do no harm.
    monkeypatch.setenv("PRIVREC_EPOCHS", "1")
    assert main(["train", "prirec", "--resume", str(out), "--epochs", "12", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["rows"][0]["epochs"] == 12


def test_a_resume_with_other_data_is_refused_and_with_moved_data_it_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = ["user,poi,lat,lon"]
    lines += [f"u{u},p{(u * u + k) % 12},{(u * u + k) % 12},5" for u in range(30) for k in range(6)]
    file, out = tmp_path / "checkins.csv", tmp_path / "run"
    file.write_text("\n".join(lines))
    interrupted_run(out, monkeypatch, "--data", str(file))
    file.write_text("\n".join(lines[:-1]))
    assert main(["train", "--resume", str(out)]) == 2
    assert "the data are not those that the run began with" in capsys.readouterr().err
    moved = tmp_path / "moved.csv"
    moved.write_text("\n".join(lines))
    file.unlink()
    assert main(["train", "--resume", str(out)]) == 2
    assert "there is no data set" in capsys.readouterr().err
    assert main(["train", "--resume", str(out), "--data", str(moved)]) == 0


def test_there_is_nothing_to_resume_without_a_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["train", "--resume", str(tmp_path / "none")]) == 2
    assert "holds no run to go on with" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_a_run_that_another_process_trains_is_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "run"
    interrupted_run(out, monkeypatch)
    with RunFolder(out):
        assert main(["train", "--resume", str(out)]) == 2
        assert "is in use by another process" in capsys.readouterr().err
        assert main([*RUN, "--out", str(out), "--force"]) == 2
    with RunFolder(out) as run:
        assert run.checkpoints == 2
