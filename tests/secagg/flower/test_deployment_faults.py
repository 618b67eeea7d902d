"""What goes wrong in deployment: nodes end, messages come late or twice. Real ones, for minutes."""

import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from mpc.core.errors import StateError
from secagg.flower.records import Code
from secagg.full.history import History
from secagg.full.messages import Step
from secagg.watermark import FileWatermark
from tests.secagg.flower import learning_app as app
from tests.secagg.flower import runs
from tests.support.flower_deployment import Deployment
from tests.support.quiet_flower import QuietFlower

pytestmark = [pytest.mark.deep, pytest.mark.deployment, pytest.mark.first]

SHARE, MASK, CHECK, UNMASK = (
    Step.SHARE_KEYS,
    Step.MASKED_INPUT,
    Step.CONSISTENCY_CHECK,
    Step.UNMASKING,
)
SLACK = 10.0
"""Seconds beyond a deadline, for one look of the server's and its processes' turns."""


def test_registered_nodes_train_under_a_signed_roster(tmp_path: Path) -> None:
    with Deployment(tmp_path, tls=True) as flower:
        nodes = runs.Registered(flower, nodes=3, bound=2)
        config = runs.run_config(tmp_path, **nodes.config())
        for node in range(3):
            nodes.start(node)
        flower.run(runs.write(tmp_path, config, "malicious_client")).wait()
    told = runs.told(tmp_path)
    assert [one["aborted"] for one in told["outcomes"]] == [None, None]
    assert app.largest_gap(told["models"], [range(3)] * 2) < app.UNIT
    # One node is not listed with its key, so it had to say who it is, once.
    first, second = (list(one["seconds"]) for one in told["outcomes"])
    signed = [step.title for step in (SHARE, MASK, CHECK, UNMASK)]
    assert first == ["Hello", Step.ADVERTISE_KEYS.title, *signed]
    assert second == signed
    assert flower.quiet.turned_to() == []
    assert flower.quiet.processes() == {}


def test_nodes_that_end_at_a_step_leave_the_mean_of_the_others(tmp_path: Path) -> None:
    marks, deadline = runs.marks(tmp_path), 40.0
    config = runs.run_config(tmp_path, nodes=5, rounds=3, dropout=0.25, corrupt=0.0)
    config |= {"marks": str(marks.folder), "deadline": deadline}
    term, write = marks.hold(4, 1, MASK, "asked"), marks.hold(3, 2, UNMASK, "asked")
    kill, mute = marks.hold(3, 2, UNMASK, "answered"), marks.hold(2, 3, MASK, "answered")
    restart = marks.pause(2)
    for hold in (term, write, kill, mute, restart):
        hold.touch()
    with Deployment(tmp_path, tls=True) as flower:
        nodes = runs.Registered(flower, nodes=5, bound=5)
        running = [nodes.start(node) for node in range(5)]
        run = flower.run(runs.write(tmp_path, config | nodes.config(), "malicious_client"))
        # One is told to stop before it has looked at the request for its input.
        flower.wait_for(marks.at(4, 1, MASK, "asked").exists, "node 4", run=run)
        running[4].stop(signal.SIGTERM)
        running[4].process.wait(deadline)
        term.unlink()
        # One dies with its last answer in hand. It has written down that there is one.
        flower.wait_for(marks.at(3, 2, UNMASK, "asked").exists, "node 3", run=run)
        before = shutil.copy(nodes.path("state", 3), tmp_path / "before")
        write.unlink()
        flower.wait_for(marks.at(3, 2, UNMASK, "answered").exists, "its answer", run=run)
        session, at = marks.at(3, 2, UNMASK, "answered").read_text().split()
        step = (bytes.fromhex(session), 3, int(at), UNMASK)
        History(FileWatermark(before)).step(*step)
        with pytest.raises(StateError, match="has answered in step 5"):
            History(FileWatermark(nodes.path("state", 3))).step(*step)
        running[3].stop(signal.SIGKILL)
        kill.unlink()
        # It is there again in the next round, in which another one dies with its input in hand.
        flower.wait_for(marks.done(2).exists, "the end of round 2", run=run)
        nodes.restart(3)
        restart.unlink()
        flower.wait_for(marks.at(2, 3, MASK, "answered").exists, "node 2", run=run)
        running[2].stop(signal.SIGKILL)
        mute.unlink()
        run.wait()
    told = runs.told(tmp_path)
    assert [one["aborted"] for one in told["outcomes"]] == [None] * 3
    within = [[0, 1, 2, 3], [0, 1, 2, 3], [0, 1, 3]]
    assert app.largest_gap(told["models"], within) < app.UNIT
    lost = [[step for step, _ in one["missing"]] for one in told["outcomes"]]
    assert lost == [[MASK.title], [UNMASK.title], [MASK.title]]
    assert max(s for one in told["outcomes"] for s in one["seconds"].values()) < deadline + SLACK
    assert flower.quiet.turned_to() == []
    assert flower.quiet.processes() == {}


def test_what_comes_late_is_left_out_and_its_node_is_there_again(tmp_path: Path) -> None:
    marks, deadline = runs.marks(tmp_path), 25.0
    config = runs.run_config(tmp_path, nodes=4, marks=str(marks.folder), deadline=deadline)
    late = marks.hold(3, 1, SHARE, "answered")
    late.touch()
    with Deployment(tmp_path) as flower:
        for node in range(4):
            flower.start_node(partition_id=node, num_partitions=4)
        run = flower.run(runs.write(tmp_path, config))
        flower.wait_for(marks.at(0, 1, MASK, "asked").exists, "the next step", run=run)
        late.unlink()
        run.wait()
    told = runs.told(tmp_path)
    assert [one["aborted"] for one in told["outcomes"]] == [None, None]
    assert app.largest_gap(told["models"], [[0, 1, 2], [0, 1, 2, 3]]) < app.UNIT
    lost = [[step for step, _ in one["missing"]] for one in told["outcomes"]]
    assert lost == [[SHARE.title], []]
    assert max(s for one in told["outcomes"] for s in one["seconds"].values()) < deadline + SLACK


def test_what_comes_twice_is_answered_once(tmp_path: Path) -> None:
    config = runs.run_config(tmp_path, doubled=True, rounds=2)
    with Deployment(tmp_path) as flower:
        for node in range(3):
            flower.start_node(partition_id=node, num_partitions=3)
        flower.run(runs.write(tmp_path, config)).wait()
    told = runs.told(tmp_path)
    assert [one["aborted"] for one in told["outcomes"]] == [None, None]
    assert app.largest_gap(told["models"], [range(3)] * 2) < app.UNIT
    assert [one["missing"] for one in told["outcomes"]] == [[], []]
    # The last copies come after the end; all others were declined.
    assert set(told["doubled"]) == {Code.STALE}
    assert len(told["doubled"]) >= 3 * 6


def test_a_superlink_that_a_simulation_leaves_behind_is_ended(tmp_path: Path) -> None:
    config = runs.run_config(tmp_path, nodes=4)
    written = runs.write(tmp_path, config)
    with QuietFlower(tmp_path / "quiet") as quiet:
        connection = '[superlink]\ndefault = "local"\n[superlink.local]\naddress = ":local:"\n'
        (quiet.folder / "flwr" / "config.toml").write_text(connection)
        options = "num-supernodes=4 client-resources-num-cpus=1 init-args-num-cpus=2"
        flwr = [str(Path(sys.executable).parent / "flwr"), "run", str(written), "--stream"]
        flwr += ["--federation-config", options]
        subprocess.run(flwr, env=quiet.environment(), check=True, capture_output=True)
        assert any("flower-superlink" in command for command in quiet.processes().values())
    assert quiet.processes() == {}
    assert quiet.turned_to() == []
    assert [one["aborted"] for one in runs.told(tmp_path)["outcomes"]] == [None, None]
