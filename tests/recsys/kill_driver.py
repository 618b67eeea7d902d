"""Runs the command line in forked processes that kill themselves, kill -9, at a chosen flush.

    python -m tests.recsys.kill_driver FOLDER STEP

A process of its own, because it forks: nothing is imported twice, and no thread of a test runner
is copied. Every durable step flushes, so the count of ``os.fsync`` calls names a point in time.
Kills at every STEP-th point, from the first to the end of the run, and prints one JSON object for
each; ``test_cli_kill`` judges them.
"""

import itertools
import json
import os
import shutil
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import recsys.cli.training  # noqa: F401 - loaded once, before the forks
from recsys.cli.app import execute
from recsys.report.run_folder import holds_run
from secagg.watermark import FileWatermark

TRAIN = [
    *("train", "prirec", "--data", "synthetic-city:24x12,pois_per_user=8"),
    *("--neighbours", "3", "--epochs", "3", "--mode", "protocol"),
]
SEEDED = [*TRAIN, "--seed", "7"]


def command(arguments: list[str], log: Path, kill_at: int | None = None) -> int:
    """The wait status of a forked ``privrec``, killed at flush ``kill_at`` (from 1)."""
    child = os.fork()
    if child:
        return os.waitpid(child, 0)[1]
    silent = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silent, 1)
    os.dup2(silent, 2)
    watch(log, kill_at)
    os._exit(execute(arguments))


def watch(log: Path, kill_at: int | None) -> None:
    """Log every claim on a pad region, and count the flushes until death."""
    flush, claim, flushes = os.fsync, FileWatermark.claim, 0

    def counted(descriptor: int) -> None:
        nonlocal flushes
        flushes += 1
        if flushes == kill_at:
            os.kill(os.getpid(), signal.SIGKILL)
        flush(descriptor)

    def logged(self: FileWatermark, key_id: bytes, epoch: int, start: int, stop: int) -> None:
        claim(self, key_id, epoch, start, stop)
        with log.open("a") as file:
            file.write(json.dumps([os.getpid(), key_id.hex(), epoch, start, stop]) + "\n")

    os.fsync = counted  # type: ignore[assignment]
    FileWatermark.claim = logged  # type: ignore[method-assign]


def outcome(folder: Path, log: Path) -> dict[str, Any]:
    """What is left after a command that came to its end."""
    metrics = json.loads((folder / "public" / "metrics.json").read_text())
    claims = [json.loads(line) for line in log.read_text().splitlines()]
    keys = folder / "users" / "memo-keys.npz"
    return {
        "digest": metrics["rows"][0]["model_digest"],
        "epochs": metrics["rows"][0]["epochs"],
        "claims": claims,
        "memo_keys": keys.read_bytes().hex() if keys.exists() else None,
        "temporary": [path.name for path in folder.rglob("*.tmp")],
    }


def seeded(base: Path, step: int) -> Iterator[dict[str, Any]]:
    """Kill a new seeded run, then go on with it; where nothing was begun, begin again."""
    yield from sweep(base, [*SEEDED, "--out"], None, step)


def unseeded(base: Path, step: int) -> Iterator[dict[str, Any]]:
    """Kill a run without a seed as it starts, once; then kill copies of it at later points."""
    start = base / "start"
    kill_at = 1
    while not (start / "users" / "memo-keys.npz").exists():
        shutil.rmtree(start, ignore_errors=True)
        command([*TRAIN, "--out", str(start)], base / "log-start", kill_at)
        kill_at += 1
    yield from sweep(base, ["train", "--resume"], start, step)


def sweep(
    base: Path, arguments: list[str], start: Path | None, step: int
) -> Iterator[dict[str, Any]]:
    """First without a kill, as the reference; then with one at each point, until one is too late.

    start: copied before each, if the run has begun.
    """
    for kill_at in itertools.chain([None], itertools.count(1, step)):
        folder, log = base / f"run-{kill_at}", base / f"log-{kill_at}"
        log.touch()
        if start is not None:
            shutil.copytree(start, folder)
        status = command([*arguments, str(folder)], log, kill_at)
        killed = os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL
        if killed and holds_run(folder):
            status = command(["train", "--resume", str(folder)], log)
        elif killed:
            status = command([*arguments, str(folder), "--force"], log)
        yield {
            "kill_at": kill_at,
            "killed": killed,
            "exit": os.waitstatus_to_exitcode(status),
            **outcome(folder, log),
        }
        if kill_at is not None and not killed:
            return


def main() -> None:
    """Print the outcomes of both sweeps."""
    base, step = Path(sys.argv[1]), int(sys.argv[2])
    for name, points in (("seeded", seeded), ("unseeded", unseeded)):
        (base / name).mkdir()
        for result in points(base / name, step):
            print(json.dumps({"sweep": name, **result}))


if __name__ == "__main__":
    main()
