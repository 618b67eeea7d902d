"""Rounds of Flower's own SecAgg+ and of ours, side by side in Flower's simulation: seconds by step.

    python -m benchmarks.flower_secagg [--clients 10 25 50] [--dim 100000] [--repeat 3] [--json]
    python -m benchmarks.flower_secagg --clients 5 --dim 1000      # a taste, in half a minute

By default n = 50 and d = 100,000. On both sides: the same float32 vectors and weights, the complete
graph, the same threshold (two thirds and one more), Flower 1.42 with two Ray workers. Each side
runs in a process of its own, in turn; the second round counts, for Ray starts in the first.
Flower's SecAgg+ knows the legacy API only; ours runs with the message API. The model is compared
with the weighted mean of the clients' vectors. It needs the extra ``test``.

A step lasts from the first message that leaves the server to the last reply that comes, as
``benchmarks.flower_apps`` says; the server's own work is told apart. Ours sends the keys of the
second round with the last step of the first, so that its step is not there.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from tests.support.quiet_flower import QuietFlower

SIDES = ("flower", "ours")
STEPS = ("advertise keys", "share keys", "masked vectors", "unmask")
ROUNDS = 2
LIMIT_SECONDS = 900
CLOSE = 1e-4
"""How far a model may be from the mean: both sides' rounding stays well below."""


def simulate(side: str, clients: int, dim: int) -> dict[str, Any]:
    """The last of ``ROUNDS`` rounds of one side, in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.flower_apps", side]
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        with QuietFlower(Path(folder) / "quiet") as quiet:
            done = subprocess.run(
                [*command, str(clients), str(dim), str(ROUNDS)],
                env=quiet.environment(),
                capture_output=True,
                text=True,
                timeout=LIMIT_SECONDS,
                check=False,
            )
        if outside := quiet.turned_to():
            raise SystemExit(f"{side} turned to others than this machine: {outside}")
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    if done.returncode or not lines:
        raise SystemExit(f"{side} failed:\n{done.stderr[-4000:]}")
    told: dict[str, Any] = json.loads(lines[-1])
    if len(told["rounds"]) != ROUNDS or max(told["errors"]) > CLOSE:
        raise SystemExit(f"{side} gave a wrong model: {told}\n{done.stderr[-4000:]}")
    last: dict[str, Any] = told["rounds"][-1]
    return {**last, "error": told["errors"][-1]}


def median(rounds: list[dict[str, Any]]) -> dict[str, Any]:
    """Of several rounds, each figure's median."""
    names = dict.fromkeys(name for found in rounds for name in found["steps"])
    steps = {
        name: statistics.median(found["steps"].get(name, 0.0) for found in rounds) for name in names
    }
    others = [name for name in rounds[0] if name != "steps"]
    return {"steps": steps} | {name: statistics.median(f[name] for f in rounds) for name in others}


def measure(clients: int, dim: int, repeat: int) -> dict[str, Any]:
    """Both sides, taking turns."""
    runs: dict[str, list[dict[str, Any]]] = {side: [] for side in SIDES}
    for _ in range(repeat):
        for side in SIDES:
            runs[side].append(simulate(side, clients, dim))
    return {"clients": clients, "dim": dim} | {side: median(runs[side]) for side in SIDES}


def table(result: dict[str, Any]) -> str:
    """A result as Markdown."""
    sides = [result[side] for side in SIDES]
    rows = [
        f"n = {result['clients']}, d = {result['dim']:,}, second round",
        "",
        "| seconds | Flower's SecAgg+ | ours | ratio |",
        "| --- | --- | --- | --- |",
    ]
    figures = [(step, *(side["steps"].get(step) for side in sides)) for step in STEPS]
    figures += [
        ("server's own work", *(side["server"] for side in sides)),
        ("round", *(side["round"] for side in sides)),
    ]
    for name, flower, ours in figures:
        ratio = f"{flower / ours:.1f}" if flower and ours else "-"
        rows.append(f"| {name} | {_seconds(flower)} | {_seconds(ours)} | {ratio} |")
    errors = " | ".join(f"{side['error']:.1e}" for side in sides)
    return "\n".join([*rows, f"| largest error of the mean | {errors} | |", ""])


def _seconds(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def main() -> None:
    """Parse the command line, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--clients", type=int, nargs="+", default=[50])
    parser.add_argument("--dim", type=int, default=100_000)
    parser.add_argument("--repeat", type=int, default=1, help="runs of each side; medians count")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    results = []
    for clients in arguments.clients:
        results.append(measure(clients, arguments.dim, arguments.repeat))
        print(table(results[-1]), file=sys.stderr if arguments.json else sys.stdout, flush=True)
    if arguments.json:
        json.dump(results, sys.stdout, indent=2)


if __name__ == "__main__":
    main()
