"""Kills a process at every step of creating a budget and spending it, then starts again.

Run as ``python -m tests.ldp.budget_kills FOLDER honest|late STRIDE``; prints one JSON line. A child
asks and sends until the budget refuses, and kills itself with SIGKILL at the n-th call made from
``ldp.durable_budget`` or ``mpc.core.durable``; each report that it sent is a byte in a pipe. A
second child goes on from what is on disk.
"""

import json
import os
import signal
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

from ldp.durable_budget import DurableBudget
from mpc.core.errors import BudgetError

QUERIES = 4
LOSS = 0.3
TOTAL = QUERIES * LOSS  # a product by a power of two, hence the exact sum
WATCHED = ("/ldp/durable_budget.py", "/mpc/core/durable.py")

Send = Callable[[], object]
Client = Callable[[DurableBudget, Send], None]


def honest(budget: DurableBudget, send: Send) -> None:
    """Books, then sends."""
    budget.spend(LOSS)
    send()


def late(budget: DurableBudget, send: Send) -> None:
    """The broken twin: sends while something is left, and books afterwards."""
    if budget.remaining < LOSS:
        raise BudgetError("nothing is left")
    send()
    budget.spend(LOSS)


CLIENTS: dict[str, Client] = {"honest": honest, "late": late}


def until_refused(client: Client, path: Path, send: Send) -> None:
    """Opens the budget, or makes one where there is none yet, and asks as long as it is granted."""
    exists = path.exists()
    budget = DurableBudget(path, TOTAL) if exists else DurableBudget.create(path, TOTAL)
    while True:
        try:
            client(budget, send)
        except BudgetError:
            return


def run(client: Client, path: Path, kill_at: int) -> tuple[int, bool]:
    """How many reports a child sent, and whether it was killed at its step ``kill_at``."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        status = 1
        try:
            os.close(reading)
            sys.setprofile(killer(kill_at))
            until_refused(client, path, lambda: os.write(writing, b"."))
            status = 0
        except BaseException:
            traceback.print_exc()  # the parent only sees that it failed
        finally:
            os._exit(status)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        sent = pipe.read()
    _, status = os.waitpid(child, 0)
    if not os.WIFSIGNALED(status) and os.WEXITSTATUS(status):
        raise RuntimeError("a child failed instead of being killed or finishing")
    return len(sent), os.WIFSIGNALED(status)


def killer(kill_at: int) -> Callable[[FrameType, str, Any], None]:
    """A profiler that counts calls and returns in the watched files, and kills at one of them."""
    steps = 0

    def profile(frame: FrameType, event: str, _: Any) -> None:
        nonlocal steps
        if frame.f_code.co_filename.endswith(WATCHED):
            steps += 1
            if steps == kill_at:
                os.kill(os.getpid(), signal.SIGKILL)

    return profile


def walk(client: Client, root: Path, stride: int) -> dict[str, Any]:
    """Kill at every ``stride``-th step, start again each time, and count what both runs sent."""
    kills, overspent, wasted, loose = 0, 0, 0, 0
    while True:
        path = root / f"{kills}" / "budget"
        sent, killed = run(client, path, kill_at=1 + kills * stride)
        again, _ = run(client, path, kill_at=0)
        overspent += sent + again > QUERIES
        wasted += sent + again < QUERIES - 1
        loose += any(file.stat().st_mode & 0o077 for file in (path.parent, *path.parent.iterdir()))
        if not killed:
            return {"kills": kills, "overspent": overspent, "wasted": wasted, "loose": loose}
        kills += 1


if __name__ == "__main__":
    print(json.dumps(walk(CLIENTS[sys.argv[2]], Path(sys.argv[1]), int(sys.argv[3]))))
