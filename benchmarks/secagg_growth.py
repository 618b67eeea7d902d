"""Rounds of the full protocol with drop-outs, by number of clients: where processor time goes.

    python -m benchmarks.secagg_growth [--clients 100 300 1000 --dim 100000] [--json] [--svg FILE]
    python -m benchmarks.secagg_growth --clients 3        # a taste

Without arguments: n = 100, 300 and 1,000 with d = 100,000 and n = 10,000 with d = 10,000, all mod
2^32, semi-honest. The graph and the threshold are those of ``secagg.plan`` for 10 % corrupt clients
and 10 % that drop out, bounds of 2^-40. The 10 % leave after they shared their keys. All parties
work in this process, one after the other, and every message travels as bytes. The sum is compared
with that of the survivors' inputs.
"""

import argparse
import json
import resource
import sys
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from mpc.core.local import LocalNetwork
from mpc.core.prg import Prg
from mpc.core.ring import Ring, RingArray
from mpc.core.rng import SYSTEM_RNG
from recsys.report.charts import Series, line_chart
from recsys.report.html import Html
from secagg.full.client import Client
from secagg.full.messages import Step
from secagg.full.params import RoundParams
from secagg.full.run import LocalRound
from secagg.full.server import Server
from secagg.plan import plan

RING = Ring(32)
SHARE = 0.1
"""Of the clients that are corrupt at most, and of those that drop out."""

RUNS = ((100, 100_000), (300, 100_000), (1_000, 100_000), (10_000, 10_000))
STEPS = {
    "advertise": "keys, answers",
    "share_keys": "agreement, shares",
    "mask": "masks of clients",
    "unmask": "keys, answers",
    "close_unmask": "unmasking, server",
}
"""What each method of the two parties counts as; the rest is the server's, and messages."""

OTHERS = "server, messages"


class Clock:
    """Seconds of processor time by step, in order of first use. Steps do not nest."""

    def __init__(self) -> None:
        self.seconds: defaultdict[str, float] = defaultdict(float)

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        """Add the time that the block takes to ``name``."""
        start = time.process_time()
        try:
            yield
        finally:
            self.seconds[name] += time.process_time() - start


def _timed(kind: type[Any], clock: Clock) -> type[Any]:
    """``kind`` with the methods of ``STEPS`` on ``clock``."""

    def method(name: str) -> Any:
        inner = getattr(kind, name)

        def call(party: Any, *arguments: Any, **options: Any) -> Any:
            with clock.step(STEPS[name]):
                return inner(party, *arguments, **options)

        return call

    return type(kind.__name__, (kind,), {n: method(n) for n in STEPS if hasattr(kind, n)})


class _Inputs:
    """A client's vector from its id, made when it is asked for: all of them would fill memory."""

    def __init__(self, dim: int, clock: Clock) -> None:
        self._dim, self._clock, self._key = dim, clock, SYSTEM_RNG.bytes(28)

    def __call__(self, client: int) -> RingArray:
        with self._clock.step("inputs"):
            return RING.random((self._dim,), Prg(self._key + client.to_bytes(4, "little")))


def measure(clients: int, dim: int) -> dict[str, Any]:
    """One round, and what it took."""
    clock, network = Clock(), LocalNetwork()
    start = time.process_time()
    chosen = plan(clients, dropout=SHARE, corrupt=SHARE)
    params = RoundParams(
        SYSTEM_RNG.bytes(16),
        0,
        tuple(range(clients)),
        chosen.threshold,
        RING,
        dim,
        graph=chosen.graph(range(clients)),
    )
    planned = time.process_time() - start
    inputs = _Inputs(dim, clock)
    gone = [int(client) for client in SYSTEM_RNG.uniform(clients, 4 * clients, np.uint32)]
    dropped = list(dict.fromkeys(gone))[: chosen.dropped_clients]
    start = time.process_time()
    with clock.step(STEPS["advertise"]):
        parties = LocalRound(
            params,
            inputs,
            drop_outs={Step.MASKED_INPUT: dropped},
            network=network,
            make_client=_timed(Client, clock),
            make_server=_timed(Server, clock),
        )
    outcome = parties.run()
    seconds = time.process_time() - start
    made = clock.seconds.pop("inputs")
    expected: RingArray = np.zeros(dim, RING.dtype)
    for client in outcome.survivors:
        RING.add(expected, inputs(client), out=expected)
    if len(outcome.survivors) != clients - len(dropped) or not np.array_equal(
        outcome.total, expected
    ):
        raise SystemExit("the sum is wrong")
    clock.seconds.pop("inputs")
    steps = dict(clock.seconds)
    steps[OTHERS] = seconds - made - sum(steps.values())
    return {
        "clients": clients,
        "dim": dim,
        "neighbours": chosen.neighbours,
        "threshold": chosen.threshold,
        "dropped": len(dropped),
        "planned_seconds": planned,
        "seconds": seconds - made,
        "steps": steps,
        "bytes": {kind: traffic.bytes for kind, traffic in network.traffic.items()},
        "peak_gib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20,
    }


def chart(results: Sequence[dict[str, Any]]) -> Html:
    """Seconds by clients, a line for each step, of the results with the first one's dimension."""
    same = [result for result in results if result["dim"] == results[0]["dim"]]
    x = [float(result["clients"]) for result in same]
    lines = [Series("all", x, [float(result["seconds"]) for result in same])]
    for step in same[0]["steps"]:
        lines.append(Series(step, x, [float(result["steps"][step]) for result in same]))
    return line_chart(
        lines, x_label="clients", y_label="processor seconds", log_x=True, log_y=True, height=4.6
    )


def show(result: dict[str, Any]) -> str:
    """A result for a reader."""
    lines = [
        f"n = {result['clients']:,}, d = {result['dim']:,}, k = {result['neighbours']}, "
        f"t = {result['threshold']}, {result['dropped']:,} dropped: {result['seconds']:.1f} s"
    ]
    lines += [f"  {step:20s}{seconds:9.2f} s" for step, seconds in result["steps"].items()]
    sent = sum(result["bytes"].values())
    lines.append(
        f"  {sent / result['clients'] / 1e3:,.1f} kB for each client, peak memory "
        f"{result['peak_gib']:.2f} GiB"
    )
    return "\n".join(lines)


def main() -> None:
    """Parse the command line, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--clients", type=int, nargs="+", help="instead of the four runs")
    parser.add_argument("--dim", type=int, default=100_000, help="with --clients")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--svg", type=Path, help="where to draw the growth")
    arguments = parser.parse_args()
    runs: Sequence[tuple[int, int]] = RUNS
    if arguments.clients:
        runs = [(clients, arguments.dim) for clients in arguments.clients]
    results = []
    for clients, dim in runs:
        results.append(measure(clients, dim))
        print(show(results[-1]), file=sys.stderr if arguments.json else sys.stdout, flush=True)
    if arguments.json:
        json.dump(results, sys.stdout, indent=2)
    if arguments.svg:
        # Inline drawings have no name space of their own.
        drawn = chart(results).replace("<svg ", '<svg xmlns="http://www.w3.org/2000/svg" ', 1)
        arguments.svg.write_text(f"{drawn}\n")


if __name__ == "__main__":
    main()
