"""Whatever is killed, and however many ask at once, nobody draws more than the budget allows."""

import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from ldp.durable_budget import DurableBudget
from mpc.core.errors import BudgetError
from tests.support.source import ROOT


def walk(folder: Path, client: str, stride: int) -> dict[str, int]:
    command = [sys.executable, "-m", "tests.ldp.budget_kills", str(folder), client, str(stride)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT)
    result: dict[str, int] = json.loads(done.stdout)
    return result


def test_a_kill_at_any_step_never_lets_more_reports_out(tmp_path: Path) -> None:
    """SIGKILL at every 29th of some 860 steps, and the rest asked for again afterwards.

    At most one booking is lost by a kill, and nothing needs repair. The deep test takes every step.
    """
    result = walk(tmp_path, "honest", 29)
    assert result["kills"] >= 25
    assert (result["overspent"], result["wasted"], result["loose"]) == (0, 0, 0)


@pytest.mark.deep
def test_a_kill_at_every_single_step_never_lets_more_reports_out(tmp_path: Path) -> None:
    result = walk(tmp_path, "honest", 1)
    assert result["kills"] >= 700
    assert (result["overspent"], result["wasted"], result["loose"]) == (0, 0, 0)


def test_a_client_that_sends_before_it_books_is_caught_by_the_kills(tmp_path: Path) -> None:
    assert walk(tmp_path, "late", 60)["overspent"] > 0


# Asks until it is refused, one unit at a time, and prints how often it was granted one.
ASKER = """
import sys
from ldp.durable_budget import DurableBudget
from mpc.core.errors import BudgetError

budget, granted = DurableBudget(sys.argv[1], 40.0), 0
print("ready", flush=True)
sys.stdin.readline()
try:
    while True:
        budget.spend(1.0)
        granted += 1
except BudgetError:
    print(granted)
"""


def granted_to(processes: int, path: Path) -> list[int]:
    """What each of several processes was granted that began to ask at once."""
    command = [sys.executable, "-c", ASKER, str(path)]
    askers = [
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for _ in range(processes)
    ]
    for asker in askers:
        assert asker.stdout is not None
        assert asker.stdout.readline() == "ready\n"
    return [int(asker.communicate("go\n")[0]) for asker in askers]


def test_processes_that_share_a_file_never_overspend(tmp_path: Path) -> None:
    path = tmp_path / "private" / "budget"
    DurableBudget.create(path, 40.0)
    granted = granted_to(3, path)
    assert sum(granted) == 40
    assert DurableBudget(path, 40.0).remaining == 0.0


def test_threads_that_share_a_file_never_overspend(tmp_path: Path) -> None:
    """One object for two of them, another object of the same file for the other two."""
    path = tmp_path / "private" / "budget"
    shared = DurableBudget.create(path, 40.0)
    granted = []

    def ask(budget: DurableBudget) -> None:
        try:
            while True:
                budget.spend(1.0)
                granted.append(1)
        except BudgetError:
            return

    budgets = [shared, shared, DurableBudget(path, 40.0), DurableBudget(path, 40.0)]
    threads = [threading.Thread(target=ask, args=(budget,)) for budget in budgets]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(granted) == 40


def test_without_its_lock_a_file_is_overspent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The broken twin: what a second process books between reading and writing is forgotten."""
    path = tmp_path / "private" / "budget"
    first = DurableBudget.create(path, 1.0)
    second = DurableBudget(path, 1.0)
    write, granted = DurableBudget._write, []

    def interrupted(self: DurableBudget, record: object) -> None:
        monkeypatch.setattr(DurableBudget, "_write", write)
        second.spend(1.0)  # with the lock it would wait here for ever
        granted.append("second")
        write(self, record)  # type: ignore[arg-type]

    monkeypatch.setattr("ldp.durable_budget.fcntl.flock", lambda *_: None)
    monkeypatch.setattr(DurableBudget, "_write", interrupted)
    first.spend(1.0)
    granted.append("first")
    assert granted == ["second", "first"]


def test_a_child_that_was_forked_under_the_lock_does_not_keep_it(tmp_path: Path) -> None:
    path = tmp_path / "private" / "budget"
    budget = DurableBudget.create(path, 1.0)
    reading, writing = os.pipe()
    with budget._locked():
        child = os.fork()
        if not child:
            os.read(reading, 1)  # lives on with the folder open
            os._exit(0)
    budget.spend(1.0)  # would wait for the child
    os.write(writing, b".")
    assert os.waitpid(child, 0)[1] == 0
    os.close(reading)
    os.close(writing)
