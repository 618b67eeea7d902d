"""The secure sum with MACs by parties, dimension and words: the whole, its dealer, one party."""

from typing import Any

import numpy as np
import pytest

from mpc.core.local import LocalNetwork
from mpc.core.ring import Ring
from mpc.core.rng import SYSTEM_RNG
from mpc.secure_sum import DirectChannel, batch_sum
from mpc.secure_sum_malicious import MaliciousSum
from mpc.secure_sum_messages import SumTerms

SECURITY_BITS = 32


@pytest.mark.benchmark(group="mac_sum.batch")
@pytest.mark.parametrize("bits", [32, 64])
@pytest.mark.parametrize(("n", "dim", "batch"), [(3, 7, 256), (10, 90, 256), (10, 1000, 64)])
@pytest.mark.parametrize("security", ["semi-honest", "malicious"])
def test_batch_sum(benchmark: Any, n: int, dim: int, batch: int, bits: int, security: str) -> None:
    """Everybody's work, the dealer's too. 64 bits of data take two words of 64 with the MACs."""
    ring = Ring(bits)
    x = ring.random((n, batch, dim), SYSTEM_RNG)
    total = benchmark(batch_sum, x, ring, security=security, s=SECURITY_BITS)
    assert np.array_equal(total, ring.sum(x, axis=0))
    network = LocalNetwork()
    batch_sum(x, ring, channel=DirectChannel(network), security=security, s=SECURITY_BITS)
    benchmark.extra_info.update(
        operations=batch, rounds=network.round, bytes=network.bytes // batch, ring_bits=bits
    )


def _terms(n: int, dim: int) -> SumTerms:
    return SumTerms(bytes(16), 0, 0, tuple(range(1, n + 1)), dim, Ring(32))


@pytest.mark.benchmark(group="mac_sum.kits")
@pytest.mark.parametrize(("n", "dim"), [(3, 7), (10, 90), (10, 1000)])
def test_kits(benchmark: Any, n: int, dim: int) -> None:
    """What the dealer makes for one sum, and sends."""
    run = MaliciousSum(_terms(n, dim), SECURITY_BITS)
    kits = benchmark(run.deal)
    assert len(kits) == n + 1
    sent = sum(len(kit.to_bytes()) for kit in kits.values())
    benchmark.extra_info.update(operations=1, rounds=1, bytes=sent, ring_bits=32)


@pytest.mark.benchmark(group="mac_sum.parties")
@pytest.mark.parametrize(("n", "dim"), [(3, 7), (10, 90)])
def test_parties(benchmark: Any, n: int, dim: int) -> None:
    """One sum by its parties, who exchange messages: everybody's work."""
    terms = _terms(n, dim)
    x = terms.ring.random((n, dim), SYSTEM_RNG)
    run = MaliciousSum(terms, SECURITY_BITS)

    def summed() -> Any:
        kits = run.deal()
        parties = [
            run.neighbour(p, own, kits[p]) for p, own in zip(range(1, n + 1), x, strict=True)
        ]
        parties.append(run.receiver(kits[0]))
        while not parties[-1].is_done:
            for message in [party.outgoing for party in parties]:
                for seat, party in enumerate(parties):
                    if message is not None and seat != message.sender:
                        party.receive(message)
        return parties[-1].result

    assert np.array_equal(benchmark(summed), terms.ring.sum(x, axis=0))
    benchmark.extra_info.update(operations=1, rounds=6, ring_bits=32, key_bits=SECURITY_BITS)
