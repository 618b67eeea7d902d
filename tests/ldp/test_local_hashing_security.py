"""Local hashing keeps its epsilon: exact tables over all seeds of small words, and broken twins."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import DTypeLike, NDArray

from ldp.k_ary import KaryRandomizedResponse
from ldp.local_hashing import LocalHashing
from ldp.thresholds import MIN_EPSILON, largest_threshold, loss
from mpc.core.prg import Prg
from mpc.core.rng import ONE, Rng, Shape
from tests.ldp.oracle_laws import at_most_exp
from tests.ldp.sent_laws import EPSILONS, Law, law, laws
from tests.support.walk import walk, worst_ratio


def small(epsilon: float, g: int = 3) -> LocalHashing:
    """The mechanism with words of four bits, so that every seed is walked."""
    return LocalHashing(4, g, largest_threshold(epsilon, g - 1), width=4)


def bucket(a: int, b: int, x: int, g: int, width: int) -> int:
    """The definition, in Python's integers."""
    half: int = 2 ** (width // 2)
    return (a * x + b) % half**2 // half * g // half


def seeds(mechanism: LocalHashing, reports: Law) -> dict[tuple[int, int], Fraction]:
    """The law of the seed alone."""
    found: defaultdict[tuple[int, int], Fraction] = defaultdict(Fraction)
    for data, probability in reports.items():
        a, b, _ = mechanism.unpack(data, 1)[0].item()
        found[a, b] += probability
    return found


@pytest.mark.parametrize("g", [2, 3])
def test_the_table_of_the_running_sampler_is_exact(g: int) -> None:
    for epsilon in (0.1, 8.0):
        mechanism = small(epsilon, g)
        keep = Fraction(mechanism.keep, ONE)
        found = laws(mechanism)
        for x, table in enumerate(found):
            assert len(table) == 256 * g
            for data, probability in table.items():
                a, b, y = mechanism.unpack(data, 1)[0].item()
                own = bucket(a, b, x, g, 4) == y
                assert probability * 256 == (keep if own else (1 - keep) / (g - 1))
        worst = worst_ratio(found)
        assert at_most_exp(worst, epsilon)
        assert mechanism.epsilon == loss(worst) <= epsilon
        assert epsilon - mechanism.epsilon < 1e-9


@pytest.mark.parametrize("epsilon", [0.1, 8.0])
def test_the_next_coin_would_break_the_promise(epsilon: float) -> None:
    mechanism = small(epsilon)
    twin = LocalHashing(4, 3, mechanism.keep + 1, 4)
    assert not at_most_exp(worst_ratio([law(twin, x) for x in (0, 1)]), epsilon)
    # So would a coin that takes the buckets for two.
    twin = LocalHashing(4, 3, largest_threshold(epsilon), 4)
    assert not at_most_exp(worst_ratio([law(twin, x) for x in (0, 1)]), epsilon)


def test_the_seed_says_nothing_about_the_value() -> None:
    mechanism = small(1.0)
    tables = [seeds(mechanism, table) for table in laws(mechanism)]
    for table in tables:
        assert len(table) == 256
        assert set(table.values()) == {Fraction(1, 256)}


@dataclass(frozen=True)
class SeedByValue(LocalHashing):
    """The twin that tries to leave bucket 0: half of the seeds that lead there get another b."""

    def perturb(self, x: NDArray[Any], *, rng: Rng) -> NDArray[np.void]:  # type: ignore[override]
        out = np.empty(x.size, dtype=self.dtype)
        own = x.astype(np.uint8)
        out["a"], b = rng.uniform(16, x.size, np.uint8), rng.uniform(16, x.size, np.uint8)
        moved = (self._bucket(out["a"], b, own) == 0) & rng.bernoulli(ONE // 2, x.size)
        out["b"] = np.where(moved, b ^ 8, b)
        reply = KaryRandomizedResponse(self.g, self.keep)
        out["y"] = reply.perturb(self._bucket(out["a"], out["b"], own), rng=rng)
        return out


@dataclass(frozen=True)
class BucketInClear(LocalHashing):
    """The twin that forgets the coin."""

    def perturb(self, x: NDArray[Any], *, rng: Rng) -> NDArray[np.void]:  # type: ignore[override]
        told = super().perturb(x, rng=rng)
        told["y"] = self._bucket(told["a"], told["b"], x.astype(np.uint8))
        return told


def test_the_table_rejects_a_seed_that_depends_on_the_value() -> None:
    twin = SeedByValue(4, 2, largest_threshold(1.0), 4)
    tables = [law(twin, x) for x in (0, 1)]
    assert seeds(twin, tables[0]) != seeds(twin, tables[1])
    assert not at_most_exp(worst_ratio(tables), 1.0)


def test_the_table_rejects_a_bucket_in_clear() -> None:
    twin = BucketInClear(4, 3, small(1.0).keep, 4)
    with pytest.raises(ValueError, match="impossible"):
        worst_ratio([law(twin, x) for x in (0, 1)])


class GivenSeeds(Rng):
    """Draws of ``rng``, but those of whole words are the given ones, in turn."""

    def __init__(self, rng: Rng, width: int, words: Sequence[Sequence[int]]) -> None:
        self._rng = rng
        self._width = width
        self._words = iter(words)

    def fill(self, out: NDArray[Any]) -> None:
        raise AssertionError("a draw that no one expects")

    def uniform(self, bound: int, shape: Shape = (), dtype: DTypeLike = np.uint64) -> NDArray[Any]:
        if bound == 2**self._width:
            return np.array(next(self._words), dtype=dtype).reshape(shape)
        return self._rng.uniform(bound, shape, dtype)

    def bernoulli(self, threshold: int, shape: Shape = ()) -> NDArray[np.bool_]:
        return self._rng.bernoulli(threshold, shape)


def answers(
    mechanism: LocalHashing, x: Sequence[int], a: Sequence[int], b: Sequence[int]
) -> dict[tuple[int, ...], Fraction]:
    """The joint law of the reported buckets of users with these values and seeds."""

    def kernel(rng: Rng) -> tuple[int, ...]:
        told = mechanism.perturb(np.array(x), rng=GivenSeeds(rng, mechanism.width, [a, b]))
        assert told["a"].tolist() == list(a)
        assert told["b"].tolist() == list(b)
        return tuple(told["y"].tolist())

    found, left = walk(kernel, residual=Fraction(0))
    assert left == 0
    return found


@given(st.data(), st.sampled_from([(100, 32), (2**16, 32), (2**16 + 1, 64), (2**32, 64)]))
def test_given_the_seeds_words_of_full_size_have_the_exact_table(
    data: st.DataObject, size: tuple[int, int]
) -> None:
    """Two users: each answer has the law of k-ary randomized response, independently (O06)."""
    k, width = size
    mechanism = LocalHashing.from_epsilon(k, 1.0)
    assert mechanism.width == width
    word, g = st.integers(0, 2**width - 1), mechanism.g
    x, a, b = (
        data.draw(st.lists(strategy, min_size=2, max_size=2))
        for strategy in (st.integers(0, k - 1), word, word)
    )
    keep = Fraction(mechanism.keep, ONE)
    found = answers(mechanism, x, a, b)
    assert len(found) == g * g
    own = [bucket(*user, g, width) for user in zip(a, b, x, strict=True)]
    for told, probability in found.items():
        shares = [keep if y == h else (1 - keep) / (g - 1) for y, h in zip(told, own, strict=True)]
        assert probability == shares[0] * shares[1]


@dataclass(frozen=True)
class OneSeedForAll(LocalHashing):
    """The twin whose users share a hash function: whoever knows one value's bucket knows all."""

    def perturb(self, x: NDArray[Any], *, rng: Rng) -> NDArray[np.void]:  # type: ignore[override]
        told = super().perturb(x, rng=rng)
        told["a"], told["b"] = told["a"][0], told["b"][0]
        return told


def test_every_user_has_a_seed_of_her_own() -> None:
    """Two of 10,000 seeds of 64 bits are equal with probability below 3e-12."""
    mechanism = LocalHashing.from_epsilon(100, 1.0)
    twin = OneSeedForAll(100, mechanism.g, mechanism.keep)
    x = np.zeros(10_000, dtype=np.int64)
    for oracle, distinct in ((mechanism, 10_000), (twin, 1)):
        told = oracle.perturb(x, rng=Prg(b"ten thousand seeds, in 32 bytes."))
        assert len({(int(a), int(b)) for a, b in told[["a", "b"]]}) == distinct


@pytest.mark.parametrize("epsilon", [MIN_EPSILON, 1e-12, *EPSILONS, 44.0, 710.0, 800.0])
def test_the_promise_holds_for_the_default_buckets(epsilon: float) -> None:
    mechanism = LocalHashing.from_epsilon(100, epsilon)
    keep = Fraction(mechanism.keep, ONE)
    worst = keep / ((1 - keep) / (mechanism.g - 1))  # as the tables above show
    assert at_most_exp(worst, epsilon)
    assert mechanism.epsilon == loss(worst) <= epsilon
    assert epsilon > 16 or epsilon - mechanism.epsilon < 1e-9
