"""The harness of the ratio rows: direction, alternation, units, and what a missing peer leaves."""

import gc
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from benchmarks.environments import NO_DEPS, Environments, PeerUnavailableError
from benchmarks.harness import Case, Peer, Row, measure

ROUNDS = 7


class Clock:
    """Stands in for the clock: time passes only where a timed call says so."""

    def __init__(self) -> None:
        self.now = 0.0

    def spending(self, seconds: float) -> Callable[[], None]:
        def call() -> None:
            self.now += seconds

        return call


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(time, "perf_counter", lambda: clock.now)
    return clock


@pytest.fixture
def environments(tmp_path: Path) -> Environments:
    return Environments(tmp_path / "peers")


def right() -> bool:
    return True


def row(case: Case, name: str = "mpc.demo.vs_other", *peers: Peer) -> Row:
    return Row(name, ("core",), "element", lambda: case, peers)


@pytest.mark.parametrize(
    ("suffix", "expected"), [("vs_other", 3.0), ("of_limit", 3.0), ("over_limit", 1 / 3)]
)
def test_ratio_direction_follows_the_suffix(
    suffix: str, expected: float, clock: Clock, environments: Environments
) -> None:
    case = Case(clock.spending(2.0), clock.spending(6.0), 4, right)
    result = measure(row(case, f"mpc.demo.{suffix}"), environments)
    assert result.ours == pytest.approx(0.5)  # 2 s for 4 operations
    assert result.other == pytest.approx(1.5)
    assert result.ratio == pytest.approx(expected)
    assert result.ok


@pytest.mark.parametrize("name", ["mpc.demo", "mpc.demo.versus_other", "of_.demo"])
def test_a_row_without_a_direction_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match=r"vs_X, \.of_X or \.over_X"):
        Row(name, ("core",), "s", lambda: Case(right, right, 1, right))


@pytest.mark.parametrize("groups", [(), ("core", "speed")])
def test_a_row_of_an_unknown_group_is_refused(groups: tuple[str, ...]) -> None:
    with pytest.raises(ValueError, match="known are"):
        Row("mpc.demo.vs_other", groups, "s", lambda: Case(right, right, 1, right))


def test_both_sides_run_in_turns_and_neither_is_always_first(environments: Environments) -> None:
    calls: list[str] = []
    case = Case(lambda: calls.append("ours"), lambda: calls.append("other"), 1, right)
    measure(row(case), environments, rounds=4, least_seconds=0.0)
    turns = calls[-8:]  # before them: warming up and calibration
    assert turns == ["ours", "other", "other", "ours"] * 2


def test_the_figure_is_the_median_so_one_slow_round_changes_nothing(
    clock: Clock, environments: Environments
) -> None:
    calls = iter([1.0, 1.0, 500.0] + [1.0] * 20)

    def uneven() -> None:
        clock.now += next(calls)

    result = measure(row(Case(uneven, clock.spending(1.0), 1, right)), environments)
    assert result.ratio == pytest.approx(1.0)


def test_a_short_call_is_repeated_until_a_round_lasts_long_enough(
    clock: Clock, environments: Environments
) -> None:
    starts: list[float] = []

    def other() -> None:
        starts.append(clock.now)
        clock.now += 1.0

    case = Case(clock.spending(1e-4), other, 1, right)
    result = measure(row(case), environments, rounds=3, least_seconds=0.05)
    # The order is ours, other, other, ours, ours, other: two rounds of ours lie before the last.
    assert starts[-1] - starts[-2] - 1.0 >= 2 * 0.05
    assert result.ours == pytest.approx(1e-4)


def test_the_collector_rests_while_a_side_is_timed(environments: Environments) -> None:
    states: list[bool] = []
    case = Case(lambda: states.append(gc.isenabled()), right, 1, right)
    measure(row(case), environments, rounds=2, least_seconds=0.0)
    assert not any(states[1:])  # the first call warms up and is not timed
    assert gc.isenabled()


def test_a_failing_check_makes_the_row_not_ok(clock: Clock, environments: Environments) -> None:
    case = Case(clock.spending(1.0), clock.spending(1.0), 1, lambda: False, note="demo")
    result = measure(row(case), environments)
    assert not result.ok
    assert result.failed
    assert result.ratio == pytest.approx(1.0)
    assert result.note == "demo"


@pytest.mark.parametrize(
    ("other", "peers"), [(None, ()), (right, (Peer("demo", (), Path("peer.py")),))]
)
def test_a_row_with_two_other_sides_or_none_is_refused(
    other: Callable[[], bool] | None, peers: tuple[Peer, ...], environments: Environments
) -> None:
    with pytest.raises(ValueError, match=r"row 'mpc\.demo\.vs_other' must have one other side"):
        measure(row(Case(right, other, 1, right), "mpc.demo.vs_other", *peers), environments)


@pytest.fixture
def script(tmp_path: Path) -> Callable[[str], Path]:
    def write(text: str) -> Path:
        path = tmp_path / "peer.py"
        path.write_text(text)
        return path

    return write


def peer_row(clock: Clock, script: Path, *arguments: str, environment: str = "demo") -> Row:
    case = Case(clock.spending(2.0), None, 1, right)
    return row(case, "mpc.demo.vs_other", Peer(environment, (), script, arguments))


def test_a_peer_runs_once_a_round_in_its_own_environment(
    clock: Clock, environments: Environments, script: Callable[[str], Path], tmp_path: Path
) -> None:
    log = tmp_path / "log"
    path = script(
        "import json, pathlib, sys\n"
        "with open(sys.argv[1], 'a') as log: log.write(sys.prefix + '\\n')\n"
        "print('chatter of the peer')\n"
        "print(json.dumps({'seconds': 8.0, 'ok': True}))\n"
    )
    result = measure(peer_row(clock, path, str(log)), environments)
    assert result.ratio == pytest.approx(4.0)
    assert result.ok
    assert log.read_text().splitlines() == [str(tmp_path / "peers" / "demo")] * ROUNDS


def test_a_peer_with_a_wrong_result_makes_the_row_not_ok(
    clock: Clock, environments: Environments, script: Callable[[str], Path]
) -> None:
    path = script('print(\'{"seconds": 8.0, "ok": false}\')')
    result = measure(peer_row(clock, path), environments)
    assert (result.ok, result.failed) == (False, True)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("raise SystemExit('no such library')", "peer.py failed: no such library"),
        ("pass", "no line of seconds and ok"),
        ("print('{\"seconds\": 8.0}')", "no line of seconds and ok"),
        ('print(\'{"seconds": 0.0, "ok": true}\')', "seconds=0.0"),
        ('print(\'{"seconds": NaN, "ok": true}\')', "seconds=nan"),
    ],
)
def test_a_peer_that_fails_leaves_a_null_ratio_with_the_reason(
    clock: Clock, environments: Environments, script: Callable[[str], Path], text: str, reason: str
) -> None:
    result = measure(peer_row(clock, script(text)), environments)
    assert (result.other, result.ratio, result.ok, result.failed) == (None, None, False, False)
    assert result.ours == pytest.approx(2.0)
    assert reason in result.note


def several(clock: Clock, path: Path, *runs: tuple[str, str]) -> Row:
    """A row of several peers: the environment of each, and the line that its script prints."""
    case = Case(clock.spending(2.0), None, 1, right, note="demo")
    peers = (Peer(environment, (), path, (line,)) for environment, line in runs)
    return row(case, "mpc.demo.vs_best_peer", *peers)


ECHO = "import sys; print(sys.argv[1])"
SLOW, FAST = ('{"seconds": 8.0, "ok": true}', '{"seconds": 6.0, "ok": true}')


def test_of_several_peers_the_fastest_stands_for_the_other_side_and_the_note_has_each(
    clock: Clock, environments: Environments, script: Callable[[str], Path]
) -> None:
    result = measure(several(clock, script(ECHO), ("one", SLOW), ("two", FAST)), environments)
    assert result.other == pytest.approx(6.0)
    assert result.ratio == pytest.approx(3.0)
    assert result.ok
    assert result.note == "demo; two: 6 s; one: 8 s"


def test_several_peers_take_turns_with_ours(
    environments: Environments, script: Callable[[str], Path], tmp_path: Path
) -> None:
    log = tmp_path / "log"
    path = script(
        "import os, sys\n"
        f"with open({str(log)!r}, 'a') as log: log.write(os.path.basename(sys.prefix) + '\\n')\n"
        f"print('{FAST}')\n"
    )

    def ours() -> None:
        with log.open("a") as file:
            file.write("ours\n")

    peers = [Peer(name, (), path) for name in ("one", "two")]
    chosen = row(Case(ours, None, 1, right), "mpc.demo.vs_best_peer", *peers)
    measure(chosen, environments, rounds=2, least_seconds=0.0)
    turns = log.read_text().splitlines()[-6:]  # before them: warming up and calibration
    assert turns == ["ours", "one", "two", "two", "one", "ours"]


def test_a_row_says_which_of_several_peers_could_not_run_and_is_not_ok(
    clock: Clock, environments: Environments, script: Callable[[str], Path]
) -> None:
    chosen = several(clock, script(ECHO), ("one", SLOW), ("two", "nothing"))
    result = measure(chosen, environments)
    assert result.ratio == pytest.approx(4.0)
    assert (result.ok, result.failed) == (False, False)
    assert result.note == "demo; peer.py printed no line of seconds and ok; one: 8 s"


def test_where_none_of_several_peers_can_run_the_ratio_is_null(
    clock: Clock, environments: Environments, script: Callable[[str], Path]
) -> None:
    chosen = several(clock, script(ECHO), ("one", "nothing"), ("two", "nothing"))
    result = measure(chosen, environments)
    assert (result.other, result.ratio, result.ok, result.failed) == (None, None, False, False)


def test_a_wrong_result_of_a_slower_peer_is_named_and_makes_the_row_not_ok(
    clock: Clock, environments: Environments, script: Callable[[str], Path]
) -> None:
    wrong = SLOW.replace("true", "false")
    result = measure(several(clock, script(ECHO), ("one", wrong), ("two", FAST)), environments)
    assert (result.ok, result.failed) == (False, True)
    assert result.note.endswith("; one gave a wrong result")


def test_a_peer_is_shown_with_its_version() -> None:
    assert Peer("demo", ("demo-lib==1.0", "numpy==2.4.6"), Path("peer.py")).shown == "demo-lib 1.0"


def test_an_environment_that_cannot_be_built_is_tried_once_and_leaves_a_null_ratio(
    clock: Clock, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").touch()  # no folder can be made below a file
    environments = Environments(tmp_path / "file")
    broken = peer_row(clock, tmp_path / "peer.py", environment="broken")
    for _ in range(2):
        result = measure(broken, environments)
        assert (result.other, result.ratio, result.ok, result.failed) == (None, None, False, False)
        assert "environment broken was not built: " in result.note
    assert capsys.readouterr().err.count("building the peer environment broken") == 1


@pytest.mark.parametrize(
    ("stderr", "reason"),
    [
        ("ERROR: No matching distribution found for demo==9\n[notice] advice", "No matching"),
        ("error: subprocess-exited-with-error\n\nnote: advice", "subprocess-exited-with-error"),
        ("Traceback ...\nOSError: no space left", "OSError: no space left"),
        ("", "exit status 1"),
    ],
)
def test_the_reason_of_a_failed_build_is_its_error_and_not_the_advice_after_it(
    stderr: str, reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(command: list[str], **_: object) -> subprocess.CompletedProcess[str]:
        return subprocess.CompletedProcess(command, 1, stdout="", stderr=stderr)

    monkeypatch.setattr(subprocess, "run", fail)
    with pytest.raises(PeerUnavailableError, match=f"demo was not built: .*{reason}"):
        Environments(tmp_path).python("demo", ("demo==9",))


def test_a_peer_is_installed_without_what_it_asks_for_where_its_row_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[list[str]] = []

    def note(command: list[str], **_: object) -> subprocess.CompletedProcess[str]:
        calls.append(command)
        (tmp_path / "demo").mkdir(exist_ok=True)
        return subprocess.CompletedProcess(command, 0, stdout="", stderr="")

    monkeypatch.setattr(subprocess, "run", note)
    requirements = ("demo==9", NO_DEPS, "numpy==2.4.6", "other==1.0")
    Environments(tmp_path).python("demo", requirements)
    installs = [call[call.index("--quiet") + 1 :] for call in calls if "--quiet" in call]
    assert installs == [["numpy==2.4.6", "other==1.0"], [NO_DEPS, "demo==9"]]


def test_a_built_environment_is_kept_until_its_requirements_change(
    environments: Environments, tmp_path: Path
) -> None:
    python = environments.python("kept", ())
    marker = python.parent.parent / "marker"
    marker.touch()
    assert environments.python("kept", ()) == python
    assert marker.exists()
    (stamp,) = python.parent.parent.glob("*.installed")
    stamp.write_text("numpy==1.0\n")  # as left by an earlier version of the row
    assert environments.python("kept", ()) == python
    assert not marker.exists()
