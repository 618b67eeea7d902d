"""Users' work done by Ray workers: the same model, whatever becomes of them, and nothing gets out.

One start of Ray serves the trainings of ``engine_driver``; commands have one each.
"""

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from recsys.cli.main import main
from recsys.report.run_folder import RunFolder
from tests.recsys.engine_cases import CASES
from tests.support.processes import python
from tests.support.quiet_flower import QuietFlower
from tests.support.source import ROOT

pytestmark = pytest.mark.first

RUN = [
    *("train", "prirec", "--data", "synthetic-city:40x30,pois_per_user=10", "--neighbours", "3"),
    *("--mode", "simulate", "--chunk", "8", "--epochs", "60", "--patience", "60", "--seed", "3"),
]
UNDER_RAY = ("--engine", "ray", "--workers", "2")
END_SECONDS = 60.0


class AsOfAUser(QuietFlower):
    """Watches everything as ``QuietFlower`` does, and leaves it to the engine to keep Ray quiet."""

    @property
    def home(self) -> Path:
        return self.folder / "user"

    def environment(self) -> dict[str, str]:
        self.home.mkdir(exist_ok=True)
        ours = super().environment().items()
        return {k: v for k, v in ours if not k.startswith("RAY_")} | {"HOME": str(self.home)}

    def left(self, *names: str) -> list[str]:
        """What still runs after a while, of all or of what has one of ``names`` in its command."""
        deadline = time.monotonic() + END_SECONDS
        while left := [
            each
            for each in self.processes().values()
            if not names or any(name in each for name in names)
        ]:
            if time.monotonic() >= deadline:
                return left
            time.sleep(0.2)
        return []

    def folders(self) -> set[Path]:
        """Temporary folders of Ray that processes name."""
        text = " ".join(self.processes().values())
        return {Path(found) for found in re.findall(r"/\S*?privrec-ray-\w+", text)}


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What the driver prints, and what was seen of its processes."""
    folder = tmp_path_factory.mktemp("engine")
    (folder / "runs").mkdir()
    with AsOfAUser(folder / "around") as around:
        done = subprocess.run(
            [sys.executable, "-m", "tests.recsys.engine_driver", str(folder / "runs")],
            cwd=ROOT,
            env=around.environment(),
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        seen: dict[str, Any] = json.loads(done.stdout)
        seen["left"], seen["turned to"] = around.left(), around.turned_to()
        seen["in the home folder"] = [path.name for path in around.home.rglob("*")]
    return seen


@pytest.mark.parametrize("case", CASES)
def test_three_workers_give_what_one_process_gives(found: dict[str, Any], case: str) -> None:
    """Digest, learning curve, clipped entries and traffic."""
    assert found["ray"][case] == found["local"][case]


def test_the_number_of_workers_changes_nothing(found: dict[str, Any]) -> None:
    one, two, three = (found["few"][count] for count in "123")
    assert one[0] == two[0] == three[0]
    assert [one[1], two[1], three[1]] == [1, 2, 3]  # that is how many really worked


def test_parts_come_back_in_the_order_of_their_chunks(found: dict[str, Any]) -> None:
    assert found["echo"] == [[chunk, 5] for chunk in range(10)]
    assert found["nothing"] == []


def test_an_error_of_the_work_is_that_of_the_first_chunk(found: dict[str, Any]) -> None:
    assert found["refused"] == {"class": "DivergenceError", "message": "chunk 2", "remedy": "none"}


def test_a_killed_worker_s_chunk_is_done_again(found: dict[str, Any]) -> None:
    assert found["once"] == found["whole"]
    assert any("a worker died; its chunk" in sentence for sentence in found["told"])


def test_a_chunk_that_kills_every_worker_is_an_error_and_the_checkpoint_stays(
    found: dict[str, Any],
) -> None:
    error = found["always"]
    assert error["class"] == "EngineError"
    assert error["message"].startswith("3 workers died over the same work")
    assert error["remedy"]
    assert found["kept"] == 1
    assert found["resumed"] == found["whole"]  # in one process


def test_nothing_but_the_loopback_address_is_used(found: dict[str, Any]) -> None:
    """Neither by Python code nor by Ray's own processes, from the start to the end."""
    assert found["turned to"] == []


def test_the_cluster_takes_in_nobody_without_its_token(found: dict[str, Any]) -> None:
    without, with_token = found["joins"]
    assert without != 0
    assert with_token == 0
    assert found["mode"] == 0o700  # of the folder that its sockets lie in


def test_nothing_is_left_behind(found: dict[str, Any]) -> None:
    """No process, no file, no variable, no signal handler; and nothing in the home folder."""
    assert found["left"] == []
    assert not Path(found["folder"]).exists()
    assert found["afterwards"] == found["before"]
    assert found["handler"] == found["before"][-1]
    assert not [name for name in found["in the home folder"] if "ray" in name]


def test_a_machine_that_rounds_otherwise_is_told_of_once(found: dict[str, Any]) -> None:
    """Where processes do not agree on a probe, and not where they do."""
    odd = [sentence for sentence in found["told"] if "round otherwise" in sentence]
    assert odd == [
        f"workers on {socket.gethostname()} round otherwise than this process: the digest will not "
        "be that of one process"
    ]


def test_it_says_where_the_work_is_done(found: dict[str, Any]) -> None:
    assert found["described"] == "3 workers on this machine"
    assert found["told"][0] == "engine ray: 3 workers on this machine"


# The command


def begun(around: AsOfAUser, out: Path, *options: str) -> subprocess.Popen[str]:
    """A run under Ray, after its first epoch, in a process group of its own."""
    process = subprocess.Popen(
        python("-m", "recsys", *RUN, *UNDER_RAY, "--out", str(out), *options),
        cwd=ROOT,
        env=around.environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert process.stderr is not None
    while not (line := process.stderr.readline()).startswith("epoch   1/60"):
        assert line, process.wait()
    return process


def row(folder: Path) -> dict[str, Any]:
    metrics = json.loads((folder / "public" / "metrics.json").read_text())
    found: dict[str, Any] = metrics["rows"][0]
    return found


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of ``RUN`` in this process, which nobody interrupted."""
    out = tmp_path_factory.mktemp("whole") / "run"
    assert main([*RUN, "--out", str(out), "--quiet"]) == 0
    return out


@pytest.mark.deep
def test_kill_9_and_resume_in_one_process_gives_the_same_digest(
    tmp_path: Path, whole: Path
) -> None:
    out = tmp_path / "run"
    with AsOfAUser(tmp_path / "around") as around:
        process = begun(around, out)
        folders = around.folders()
        process.kill()
        process.communicate()
        # Two of Ray's helpers look for their parent every half minute only.
        assert around.left("gcs_server", "raylet/raylet", "ray::Worker") == []
    for folder in folders:  # which nobody was left to delete
        shutil.rmtree(folder)
    with RunFolder(out) as run:
        assert 1 <= run.checkpoints < 60
    assert main(["train", "--resume", str(out), "--quiet"]) == 0
    resumed = row(out)
    assert resumed["model_digest"] == row(whole)["model_digest"]
    assert resumed["engine"] == "ray, local"
    assert row(whole)["engine"] == "local"
    ledger = json.loads((out / "public" / "ledger.json").read_text())
    assert ledger["engines"] == ["ray", "local"]


@pytest.mark.deep
def test_a_cluster_that_others_started_gives_the_same_digest(tmp_path: Path, whole: Path) -> None:
    """With a token of its owner's; it goes on running afterwards."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    out = tmp_path / "run"
    with QuietFlower(tmp_path / "around") as around:
        token = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": "0123456789abcdef" * 4}
        # A head reports even that it reports nothing.
        env = around.environment() | token | {"RAY_USAGE_STATS_REPORT_URL": "http://127.0.0.1:9"}
        head = ("--head", f"--port={address.rpartition(':')[2]}", "--num-cpus=2")
        # Ray's sockets need a short path.
        with TemporaryDirectory(prefix="ray-", dir="/tmp") as files:
            command = (*head, "--include-dashboard=false", f"--temp-dir={files}")
            ray = [sys.executable, "-m", "ray.scripts.scripts", "start", *command]
            subprocess.run(ray, env=env, check=True, capture_output=True)
            train = [*RUN, "--engine", "ray", "--ray-address", address, "--out", str(out)]
            done = subprocess.run(
                [sys.executable, "-m", "recsys", *train, "--json"],
                cwd=ROOT,
                env=env,
                capture_output=True,
                text=True,
                check=True,
            )
            assert any("gcs_server" in each for each in around.processes().values())
            assert around.turned_to() == []
    assert f"engine ray: 2 workers on the cluster at {address}" in done.stderr
    assert json.loads(done.stdout)["rows"][0]["model_digest"] == row(whole)["model_digest"]


@pytest.mark.deep
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_ends_the_workers_too(tmp_path: Path, number: signal.Signals) -> None:
    """As a terminal sends it, to all processes of the group; SIGTERM goes to the command alone."""
    out = tmp_path / "run"
    with AsOfAUser(tmp_path / "around") as around:
        process = begun(around, out, "--json")
        folders = around.folders()
        if number is signal.SIGINT:
            os.killpg(process.pid, number)
        else:
            process.send_signal(number)
        stdout, stderr = process.communicate()
        assert process.returncode == 130
        assert json.loads(stdout)["error"]["type"] == "Interrupted"
        assert "Traceback" not in stderr
        assert around.left() == []
        assert around.turned_to() == []
    assert len(folders) == 1
    assert not any(folder.exists() for folder in folders)
    with RunFolder(out) as run:
        assert 1 <= run.checkpoints < 60
