"""Exact laws of views when items come from seeds, with an ideal generator in the place of AES."""

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from mpc.beaver import multiply
from mpc.core.prg import Prg
from mpc.core.ring import Ring, RingArray
from mpc.core.rng import SYSTEM_RNG, Rng
from mpc.programs import Program
from mpc.supply import Item, Shares, Supply
from mpc.supply_seeds import SeedDealer
from tests.mpc.party_runs import SESSION
from tests.mpc.program_views import Watched
from tests.mpc.test_programs_security import telling


class RandomFunction:
    """(key, position) to uniform elements: each new point takes the next columns of the tapes.

    The key is what was derived from the complete label, so that a stream that serves twice shows.
    """

    def __init__(self, tapes: Rng) -> None:
        self._tapes = tapes
        self._points: dict[tuple[bytes, int], NDArray[Any]] = {}

    def __call__(self, key: bytes, offset: int) -> Rng:
        return _Stream(self, key)

    def read(self, key: bytes, position: int, out: NDArray[Any]) -> None:
        point = (key, position)
        if point not in self._points:
            self._points[point] = np.empty_like(out)
            self._tapes.fill(self._points[point])
        out[...] = self._points[point]


class _Stream(Rng):
    def __init__(self, function: RandomFunction, key: bytes) -> None:
        self._function, self._key, self._position = function, key, 0

    def fill(self, out: NDArray[Any]) -> None:
        self._function.read(self._key, self._position, out)
        self._position += 1


class Seeded(Watched):
    """Items as ``SeedDealer`` makes them."""

    kind: type[SeedDealer] = SeedDealer

    def __init__(self, n: int, ring: Ring, *, rng: Rng = SYSTEM_RNG) -> None:
        super().__init__(n, ring, rng=rng)
        ideal = RandomFunction(rng)
        self._dealer = self.kind(n, ring, SESSION, rng=Prg(bytes(32)), prg=ideal)

    def make(self, item: Item) -> Shares:
        return self._dealer.take(item)


def twice(x: tuple[RingArray, ...], supply: Supply, ring: Ring) -> Program[RingArray]:
    yield from multiply(x[0], x[1], supply, ring)
    return (yield from multiply(x[1], x[0], supply, ring))


def once(x: tuple[RingArray, ...], supply: Supply, ring: Ring) -> Program[RingArray]:
    return multiply(x[0], x[1], supply, ring)


@pytest.mark.parametrize(("n", "bits"), [(2, 1), (2, 2), (3, 1)])
def test_no_coalition_learns_a_factor_from_seeded_items(n: int, bits: int) -> None:
    assert telling(once, n, bits, 2, 3 * n - 1, Seeded) == set()


def test_two_items_of_one_kind_are_independent() -> None:
    assert telling(twice, 2, 1, 2, 10, Seeded) == set()


def test_a_key_without_the_items_number_is_caught() -> None:
    class Numberless(SeedDealer):
        def take(self, item: Item) -> Shares:
            self._number = 0
            return super().take(item)

    class Repeating(Seeded):
        kind = Numberless

    assert telling(twice, 2, 1, 2, 5, Repeating) == {(0,), (1,)}


def test_one_seed_for_two_parties_is_caught() -> None:
    class OneSeed(SeedDealer):
        def __init__(self, *args: Any, **keywords: Any) -> None:
            super().__init__(*args, **keywords)
            self._grants = [self._grants[0]] * len(self._grants)

    class Alike(Seeded):
        kind = OneSeed

    # Party 1, the last one, draws the stream of party 0, so each knows the other's shares.
    assert telling(once, 2, 1, 2, 3, Alike) == {(0,), (1,)}
