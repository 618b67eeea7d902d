"""Shared arrays at a party of her own: the programs that an engine runs, and the same shares."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from mpc.additive import share
from mpc.arrays import Engine
from mpc.core.errors import ParameterError
from mpc.core.local import LocalNetwork
from mpc.core.prg import Prg
from mpc.core.ring import Ring
from mpc.fixed import FixedPoint
from mpc.programs import Program, Seats
from mpc.shared import Shared
from mpc.shared_products import (
    matrix_product,
    matrix_scaled,
    mean,
    product,
    reveal,
    scaled,
    scaled_matrix,
    squared,
)
from mpc.supply import Item, Shares, Supply
from mpc.supply_seeds import SeedDealer
from tests.mpc.party_runs import SESSION, exchange, runs, seed_supplies

N, FIXED = 3, FixedPoint(Ring(64), 12)
X, Y = np.array([[1.5, -2.0], [0.25, 3.0]]), np.array([0.5, 4.0])

Run = Callable[[Shared, Shared, Supply], Program[Shared]]

RUNS: list[Run] = [
    product,
    lambda x, y, supply: squared(x - y, supply),
    matrix_product,
    lambda x, y, supply: scaled(x, 0.3, supply),
    lambda x, y, supply: matrix_scaled(x, [[0.1], [0.2]], supply),
    lambda x, y, supply: scaled_matrix([0.1, 0.7], x, supply),
    lambda x, y, supply: mean(x, 0, supply),
    lambda x, y, supply: scaled(x[0] + y.sum() - 1, 2, supply),
]


class Noted(SeedDealer):
    """A dealer who notes what is taken, so that parties alone can be given it."""

    def __init__(self) -> None:
        super().__init__(N, FIXED.ring, SESSION, rng=Prg(bytes(32)))
        self.taken: list[Item] = []

    def take(self, item: Item) -> Shares:
        self.taken.append(item)
        return super().take(item)


@pytest.mark.parametrize("run", RUNS)
def test_a_party_of_her_own_computes_the_shares_that_the_engine_has(run: Run) -> None:
    dealer, network = Noted(), LocalNetwork(record=True)
    engine = Engine(N, FIXED, supply=dealer, network=network, rng=Prg(b"x" * 32))
    x, y = engine.share(X, magnitude=4), engine.share(Y, magnitude=4)
    whole = engine.run(run(x, y, dealer))
    opened = engine.run(reveal(whole))

    stream = Prg(b"x" * 32)
    rows = [share(FIXED.encode(v), N, FIXED.ring, rng=stream) for v in (X, Y)]

    def own(party: int, supply: Supply) -> Program[tuple[Shared, NDArray[Any]]]:
        mine = [Shared(r[party : party + 1], Seats(N, party), FIXED, 12, 4 << 12) for r in rows]
        result = yield from run(mine[0], mine[1], supply)
        return result, (yield from reveal(result))

    parties = runs(own, seed_supplies(N, FIXED.ring, dealer.taken, Prg(bytes(32))))
    views = exchange(parties)
    for party, (alone, view) in enumerate(zip(parties, views, strict=True)):
        result, numbers = alone.result
        assert np.array_equal(result.shares[0], whole.shares[party])
        assert (result.bound, result.frac_bits) == (whole.bound, whole.frac_bits)
        assert np.array_equal(numbers, opened)
        assert len(network.view(party)) == len(view)


def test_arrays_of_other_parties_or_formats_do_not_mix() -> None:
    ring = Ring(64)
    mine = Shared(np.zeros((1, 2), np.uint64), Seats(3, 1), FIXED, 12, 1)
    others = (
        Shared(np.zeros((1, 2), np.uint64), Seats(3, 2), FIXED, 12, 1),
        Shared(np.zeros((1, 2), np.uint64), Seats(4, 1), FIXED, 12, 1),
        Shared(np.zeros((1, 2), np.uint64), Seats(3, 1), FixedPoint(ring, 13), 12, 1),
    )
    for other in others:
        with pytest.raises(ParameterError, match="one set of parties"):
            _ = mine + other


@pytest.mark.parametrize(
    ("shape", "frac_bits", "bound"),
    [((3, 2), 12, 1), ((), 12, 1), ((1, 2), -1, 1), ((1, 2), 64, 1), ((1, 2), 12, -1)],
)
def test_shares_that_do_not_fit_are_refused(
    shape: tuple[int, ...], frac_bits: int, bound: int
) -> None:
    with pytest.raises(ParameterError):
        Shared(np.zeros(shape, np.uint64), Seats(3, 1), FIXED, frac_bits, bound)


def test_a_bound_beyond_the_ring_is_refused_with_the_missing_bits() -> None:
    Shared(np.zeros((1, 1), np.uint64), Seats(3, 1), FIXED, 0, 2**63 - 1)
    with pytest.raises(ParameterError, match="65 bits, 1 more than Z_2"):
        Shared(np.zeros((1, 1), np.uint64), Seats(3, 1), FIXED, 0, 2**63)


def test_only_party_0_adds_a_public_number() -> None:
    for party in range(N):
        mine = Shared(np.zeros((1, 2), np.uint64), Seats(N, party), FIXED, 12, 1)
        assert ((mine + 1.0).shares == (4096 if party == 0 else 0)).all()
        assert ((1 - mine).shares == (4096 if party == 0 else 0)).all()
        assert not mine.shares.any()
