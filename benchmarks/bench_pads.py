"""One-time pads: agreement, pads in bulk, a client's mask, a cohort's round, quantisation."""

import itertools
from typing import Any

import numpy as np
import pytest

from mpc.core.keys import KeyPair
from mpc.core.local import LocalNetwork
from mpc.core.prg import Prg
from mpc.core.ring import Ring
from mpc.core.rng import SYSTEM_RNG
from secagg.cohort import MASKED, PadCohort
from secagg.masks import net_pad
from secagg.messages import Roster
from secagg.pads import PadSupply
from secagg.params import PadParams
from secagg.quantize import Quantizer
from secagg.schedule import PairChains
from secagg.watermark import MemoryWatermark

RING = Ring(32)


def _params(clients: int, dim: int, rounds: int) -> PadParams:
    return PadParams(SYSTEM_RNG.bytes(16), tuple(range(clients)), RING, dim, 1, rounds)


@pytest.mark.benchmark(group="pads.net_pad")
@pytest.mark.parametrize("dim", [100_000, 1_000_000])
@pytest.mark.parametrize("peers", [1, 15])
def test_net_pad(benchmark: Any, peers: int, dim: int) -> None:
    """One client's net pad from streams that are open already."""
    seeds = [SYSTEM_RNG.bytes(32) for _ in range(peers)]
    streams = [(1, Prg(seed)) for seed in seeds]
    benchmark(net_pad, streams, (dim,), RING)
    plus = net_pad([(1, Prg(seed)) for seed in seeds], (dim,), RING)
    minus = net_pad([(-1, Prg(seed)) for seed in seeds], (dim,), RING)
    assert not (plus + minus).any()
    benchmark.extra_info.update(peers=peers, dim=dim, bits=32, bytes=4 * dim * peers)


@pytest.mark.benchmark(group="pads.agree")
@pytest.mark.parametrize("clients", [16, 128])
def test_agree(benchmark: Any, clients: int) -> None:
    """One client's end of the agreement: n - 1 exchanges and derivations."""
    agreed = _params(clients, 30, 300)
    pairs = [KeyPair.generate() for _ in agreed.clients]
    roster = Roster(agreed.session, agreed.clients, tuple(pair.public for pair in pairs))
    chains = benchmark(PairChains, agreed, 0, pairs[0], roster)
    assert len(chains.peers) == clients - 1
    benchmark.extra_info.update(parties=clients, bytes=len(roster.to_bytes()), key_bits=256)


@pytest.mark.benchmark(group="pads.epoch")
@pytest.mark.parametrize("clients", [16, 128])
def test_epoch_of_one_client(benchmark: Any, clients: int) -> None:
    """A client's pads of 300 rounds of 30 elements: step n - 1 chains, expand, add up."""
    agreed = _params(clients, 30, 300)
    pairs = [KeyPair.generate() for _ in agreed.clients]
    roster = Roster(agreed.session, agreed.clients, tuple(pair.public for pair in pairs))
    chains = PairChains(agreed, 0, pairs[0], roster)
    supply = PadSupply(agreed, [chains], MemoryWatermark(), bytes(32))
    firsts = itertools.count(0, 300)

    def epoch() -> None:
        first = next(firsts)
        supply.expand(first, 300)
        supply.skip_to(first + 300)

    benchmark(epoch)
    assert supply.next_round == next(firsts)
    benchmark.extra_info.update(parties=clients, rounds=300, dim=30, bits=32)


@pytest.mark.benchmark(group="pads.round")
@pytest.mark.parametrize(("clients", "dim"), [(16, 30), (128, 30), (16, 100_000)])
def test_round_of_a_cohort(benchmark: Any, clients: int, dim: int) -> None:
    """Mask with pads made before, count the messages, sum: everybody's work."""
    network = LocalNetwork()
    rounds = 20
    agreed = _params(clients, dim, rounds)
    cohort = PadCohort(agreed, network=network)
    cohort.agree()
    cohort.expand(0, rounds)
    x = RING.random((clients, 1, dim), SYSTEM_RNG)
    ids = iter(range(rounds))
    total = benchmark.pedantic(lambda: cohort.run_round(next(ids), x), rounds=rounds - 1)
    assert np.array_equal(total, RING.sum(x, axis=0))
    per_round = network.traffic[MASKED].bytes // network.traffic[MASKED].messages * clients
    benchmark.extra_info.update(parties=clients, dim=dim, bits=32, rounds=1, bytes=per_round)


@pytest.mark.benchmark(group="pads.quantize")
@pytest.mark.parametrize("dim", [100_000, 1_000_000])
def test_quantize(benchmark: Any, dim: int) -> None:
    quantizer = Quantizer(1.0, 16, RING, 100)
    x = np.linspace(-1.5, 1.5, dim)
    encoded, clipped = benchmark(quantizer.encode, x)
    assert np.all(np.abs(quantizer.decode(encoded) - np.clip(x, -1, 1)) < 2.0**-16)
    assert clipped == np.count_nonzero(np.abs(x) > 1)
    benchmark.extra_info.update(dim=dim, bits=32)
