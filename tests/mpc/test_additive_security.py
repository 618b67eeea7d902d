"""Exact laws: any n-1 shares are uniform, whatever the secret. Twins with a fault are caught."""

from collections.abc import Callable
from fractions import Fraction
from itertools import combinations
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from mpc.additive import expand, reconstruct, share, share_compressed
from mpc.core.ring import Ring, RingArray
from mpc.core.rng import Rng
from tests.support.enumerate import TapeRng, joint, law, tapes

Kernel = Callable[[RingArray, int, Ring, NDArray[np.uint64]], list[RingArray]]
"""(secret for every tape, n, ring, tapes) -> the n shares, each (tapes,)."""


def full(x: RingArray, n: int, ring: Ring, values: NDArray[np.uint64]) -> list[RingArray]:
    return list(share(x, n, ring, rng=TapeRng(values)))


class SeedRng(Rng):
    """Gives seeds 0, 1, 2, ... or the same one again: who holds a seed knows nothing but it."""

    def __init__(self, step: int = 1) -> None:
        self._next = 0
        self._step = step

    def fill(self, out: NDArray[Any]) -> None:
        out[...] = self._next
        self._next += self._step


class IdealPrg:
    """A random function of the seed, sampled lazily from the tape: equal seeds, equal streams."""

    def __init__(self, values: NDArray[np.uint64]) -> None:
        self._tape = TapeRng(values)
        self._streams: dict[tuple[bytes, int], NDArray[Any]] = {}

    def __call__(self, seed: bytes, offset: int) -> Rng:
        return _Stream(self, (seed, offset))

    def value(self, at: tuple[bytes, int], like: NDArray[Any]) -> NDArray[Any]:
        if at not in self._streams:
            self._streams[at] = np.empty_like(like)
            self._tape.fill(self._streams[at])
        return self._streams[at]


class _Stream(Rng):
    def __init__(self, function: IdealPrg, at: tuple[bytes, int]) -> None:
        self._function = function
        self._at = at

    def fill(self, out: NDArray[Any]) -> None:
        out[...] = self._function.value(self._at, out)


def compressed(seeds: Callable[[], Rng] = SeedRng) -> Kernel:
    def kernel(x: RingArray, n: int, ring: Ring, values: NDArray[np.uint64]) -> list[RingArray]:
        prg = IdealPrg(values)
        sharing = share_compressed(x, n, ring, rng=seeds(), prg=prg)
        rows = [expand(seed, x.shape, ring, prg=prg) for seed in sharing.seeds]
        return [*rows, sharing.correction]

    return kernel


def telling_coalitions(kernel: Kernel, n: int, bits: int) -> set[tuple[int, ...]]:
    """Coalitions of n-1 parties whose shares are not uniform for some secret."""
    ring = Ring(bits)
    values = tapes([2**bits] * (n - 1))
    uniform = Fraction(1, 2 ** (bits * (n - 1)))
    telling = set()
    for secret in range(2**bits):
        x = np.full(len(values), secret, dtype=ring.dtype)
        shares = kernel(x, n, ring, values)
        assert np.array_equal(reconstruct(shares, ring), x)
        for coalition in combinations(range(n), n - 1):
            view = law(joint(*(shares[party] for party in coalition)))
            if len(view) != 1 / uniform or set(view.values()) != {uniform}:
                telling.add(coalition)
    return telling


SIZES = [(n, bits) for n in (2, 3) for bits in (1, 2, 4)]


@pytest.mark.parametrize(("n", "bits"), SIZES)
def test_any_n_minus_1_shares_are_uniform(n: int, bits: int) -> None:
    assert telling_coalitions(full, n, bits) == set()


@pytest.mark.parametrize(("n", "bits"), SIZES)
def test_any_n_minus_1_compressed_shares_are_uniform_for_an_ideal_prg(n: int, bits: int) -> None:
    assert telling_coalitions(compressed(), n, bits) == set()


@pytest.mark.parametrize(("n", "bits"), SIZES)
def test_all_n_shares_do_tell_the_secret(n: int, bits: int) -> None:
    """The laws above are no artefact of a view that shows nothing."""
    ring = Ring(bits)
    values = tapes([2**bits] * (n - 1))
    views = [
        frozenset(law(joint(*full(np.full(len(values), x, ring.dtype), n, ring, values))))
        for x in range(2**bits)
    ]
    assert all(one.isdisjoint(other) for one, other in combinations(views, 2))


def biased(x: RingArray, n: int, ring: Ring, values: NDArray[np.uint64]) -> list[RingArray]:
    """A mask drawn modulo 2^l - 1: the top residue is never reached."""
    return full(x, n, ring, values % np.uint64(ring.mask))


def doubled(x: RingArray, n: int, ring: Ring, values: NDArray[np.uint64]) -> list[RingArray]:
    """The first mask goes to every other party."""
    return full(x, n, ring, np.repeat(values[:, :1], n - 1, axis=1))


def bare(x: RingArray, n: int, ring: Ring, values: NDArray[np.uint64]) -> list[RingArray]:
    """The masks cancel, so that the dealer's share is the secret itself."""
    masks = values.copy()
    masks[:, -1] = np.uint64(0) - masks[:, :-1].sum(axis=1, dtype=np.uint64)
    return full(x, n, ring, masks)


def bits_that_show(twin: Kernel, n: int) -> list[int]:
    return [bits for bits in (1, 2, 4) if telling_coalitions(twin, n, bits)]


@pytest.mark.parametrize("n", [2, 3])
def test_a_biased_mask_is_caught(n: int) -> None:
    assert bits_that_show(biased, n) == [1, 2, 4]


def test_a_share_sent_twice_is_caught() -> None:
    assert bits_that_show(doubled, 3) == [1, 2, 4]


@pytest.mark.parametrize("n", [2, 3])
def test_a_correction_that_is_the_bare_secret_is_caught(n: int) -> None:
    assert bits_that_show(bare, n) == [1, 2, 4]


def test_a_seed_that_serves_twice_is_caught() -> None:
    assert bits_that_show(compressed(lambda: SeedRng(step=0)), 3) == [1, 2, 4]
