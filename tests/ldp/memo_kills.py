"""Kills a process at every step of creating a memo and answering, then starts again.

Run as ``python -m tests.ldp.memo_kills FOLDER honest|late STRIDE``; prints one JSON line with the
number of kills and of what went wrong. A child walks through the work and kills itself with
SIGKILL at the n-th call made from ``ldp.memo`` or ``mpc.core.durable``; what it had sent lies in a
pipe. A second child then starts from what is on disk, with the opposite true bits, and is asked
the same.
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

import numpy as np
from numpy.typing import NDArray

from ldp.memo import MemoStore
from ldp.randomized_response import RandomizedResponse
from mpc.core.durable import write_durably
from mpc.core.rng import SYSTEM_RNG

MECHANISM = RandomizedResponse.from_epsilon(0.5)
QUESTIONS = np.arange(40, dtype=np.uint32)
TRUTH = np.arange(40) % 3 == 0
WATCHED = ("memo.py", "durable.py")

Bits = NDArray[np.bool_]
Send = Callable[[Bits], object]
Client = Callable[[Path, Bits, Send], None]


def honest(folder: Path, x: Bits, send: Send) -> None:
    """As a client does: opens its memo, or makes one if it has none yet."""
    store = MemoStore.open(folder) if (folder / "key").exists() else MemoStore.create(folder)
    send(store.answer(MECHANISM, "visited", QUESTIONS, x))


def late(folder: Path, x: Bits, send: Send) -> None:
    """The broken twin: sends its answers first and stores them afterwards."""
    file = folder.with_suffix(".late")
    if file.exists():
        send(np.frombuffer(file.read_bytes(), dtype=np.bool_))
        return
    reports = MECHANISM.perturb(x, rng=SYSTEM_RNG)
    send(reports)
    write_durably(file, reports.tobytes())


CLIENTS: dict[str, Client] = {"honest": honest, "late": late}


def run(client: Client, folder: Path, x: Bits, kill_at: int) -> tuple[bytes, bool]:
    """The bytes that a child sent, and whether it was killed at its step ``kill_at``."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        status = 1
        try:
            os.close(reading)
            sys.setprofile(killer(kill_at))
            client(folder, x, lambda reports: os.write(writing, reports.tobytes()))
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
    return sent, os.WIFSIGNALED(status)


def killer(kill_at: int) -> Callable[[FrameType, str, Any], None]:
    """A profiler that counts calls and returns in the watched files, and kills at one of them."""
    steps = 0

    def profile(frame: FrameType, event: str, _: Any) -> None:
        nonlocal steps
        if Path(frame.f_code.co_filename).name in WATCHED:
            steps += 1
            if steps == kill_at:
                os.kill(os.getpid(), signal.SIGKILL)

    return profile


def walk(client: Client, root: Path, stride: int) -> dict[str, Any]:
    """Kill at every ``stride``-th step, start again each time, and compare what was sent."""
    kills, contradictions, loose = 0, 0, 0
    while True:
        folder = root / f"{kills}"
        sent, killed = run(client, folder, TRUTH, kill_at=1 + kills * stride)
        again, _ = run(client, folder, ~TRUTH, kill_at=0)
        size = QUESTIONS.size
        answers = {(sent + again)[i : i + size] for i in range(0, len(sent + again), size)}
        contradictions += len(answers) > 1
        files = [path for path in folder.glob("**/*") if path.is_file()]
        loose += any(path.stat().st_mode & 0o077 for path in files)
        if not killed:
            return {"kills": kills, "contradictions": contradictions, "loose": loose}
        kills += 1


if __name__ == "__main__":
    print(json.dumps(walk(CLIENTS[sys.argv[2]], Path(sys.argv[1]), int(sys.argv[3]))))
