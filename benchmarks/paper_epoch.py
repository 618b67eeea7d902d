"""One epoch of PriRec at the size of the paper's Foursquare set, with everybody's work.

    python -m benchmarks.paper_epoch [--users 11824] [--pois 13924] [--json]

Every one of the paper's 739,579 training samples is one update with a secure sum of its own
(``mix="update"``, local batch 1, as many rounds as the busiest user needs), N = 30 neighbours,
D = 6 features (three of the user, three dynamic ones), K = 5. The data are the synthetic city made
that large. It prints where the time goes, once for key agreement and once for the epoch, and the
peak memory.
"""

import argparse
import json
import resource
import sys
import time
from dataclasses import replace
from typing import Any

import numpy as np

from recsys.config import TrainConfig
from recsys.data.city import CityConfig, synthetic_city
from recsys.data.prepare import Pairs, PrepareConfig, Prepared, prepare
from recsys.features import Features, assemble
from recsys.prirec import PriRecLearner
from recsys.run import MemoryRun
from recsys.simulation import SimulationRng

UPDATES = 739_579  # 80 % of the 924,474 interactions of the paper's Table 2
USER_FEATURES = 3
SEED = 0


def build(users: int, pois: int, updates: int) -> tuple[Prepared, Features, TrainConfig]:
    """The city, its split cut to exactly ``updates`` training samples, and D = 6 features."""
    config = TrainConfig(
        model="prirec",
        mode="protocol",
        neighbours=30,
        mix="update",
        local_batch=1,
        rounds=0,
        dynamic="three",
        regions=0,
        categories=False,
        factors=5,
        seed=SEED,
        prepare=PrepareConfig(validation_fraction=0.0, min_visitors=1),
    )
    sim = SimulationRng(SEED)
    # A fifth goes to the test part, and every positive brings one negative.
    visits = 1.02 * updates / (2 * 0.8 * users)
    prepared = prepare(
        synthetic_city(CityConfig(users=users, pois=pois, pois_per_user=visits, seed=SEED)),
        config.prepare,
        sim,
    )
    prepared = cut(prepared, updates, sim)
    private = sim.generator("user features").standard_normal(
        (len(prepared.user_ids), USER_FEATURES)
    )
    features = assemble(
        prepared,
        config,
        sim,
        lambda family, rows, columns: sim.coins(f"privacy:{family}", rows[:, None], columns),
        private,
    )
    return prepared, features, config


def cut(prepared: Prepared, updates: int, sim: SimulationRng) -> Prepared:
    """Keep ``updates`` random training samples."""
    train = prepared.train
    if train.users.size < updates:
        raise SystemExit(f"the city gave {train.users.size:,} samples, {updates:,} are needed")
    keep = np.sort(sim.order("cut", train.users, train.pois)[:updates])
    part = Pairs(train.users[keep], train.pois[keep], train.labels[keep])
    return replace(prepared, train=part)


def measure(users: int, pois: int, updates: int) -> dict[str, Any]:
    """Run it and say what it took."""
    start = time.perf_counter()
    prepared, features, config = build(users, pois, updates)
    prepared_seconds = time.perf_counter() - start
    learner = PriRecLearner(prepared, features, config, SimulationRng(SEED), MemoryRun())
    agreement = learner.clock.seconds.pop("key agreement")
    start = time.perf_counter()
    loss = learner.epoch(0)
    epoch = time.perf_counter() - start
    traffic = {kind: (t.messages, t.bytes) for kind, t in learner.traffic.traffic.items()}
    return {
        "updates": int(prepared.train.users.size),
        "users": len(prepared.user_ids),
        "features": features.dim,
        "rounds": learner.batches.rounds,
        "cohorts": len(learner.cohorts),
        "data_seconds": prepared_seconds,
        "key_agreement_seconds": agreement,
        "epoch_seconds": epoch,
        "steps": dict(learner.clock.seconds),
        "loss": loss,
        "traffic": traffic,
        "peak_gib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20,
    }


def main() -> None:
    """Parse the command line, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--users", type=int, default=11_824)
    parser.add_argument("--pois", type=int, default=13_924)
    parser.add_argument("--updates", type=int, default=UPDATES)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    result = measure(arguments.users, arguments.pois, arguments.updates)
    if arguments.json:
        json.dump(result, sys.stdout, indent=2)
        return
    print(f"{result['updates']:,} updates of {result['users']:,} users, D = {result['features']}")
    print(f"key agreement, once   {result['key_agreement_seconds']:8.1f} s")
    print(f"epoch                 {result['epoch_seconds']:8.1f} s")
    for step, seconds in result["steps"].items():
        print(f"  {step:20s}{seconds:8.1f} s")
    for kind, (messages, size) in result["traffic"].items():
        print(f"  {kind:20s}{messages:>14,} messages {size / 1e9:8.2f} GB")
    print(f"peak memory           {result['peak_gib']:8.2f} GiB")


if __name__ == "__main__":
    main()
