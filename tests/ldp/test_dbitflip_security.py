"""dBitFlip keeps its epsilon: exact tables of the sampler that runs, and broken twins."""

from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations
from math import comb
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from ldp import dbitflip
from ldp.dbitflip import DBitFlip, Words
from ldp.thresholds import MIN_EPSILON, largest_threshold, loss
from mpc.core.rng import ONE, Rng
from tests.ldp.oracle_laws import at_most_exp
from tests.ldp.sent_laws import EPSILONS, Law, is_product, law, laws
from tests.support.walk import walk, worst_ratio

SIZES = [(2, 1), (2, 2), (3, 1), (3, 2), (3, 3), (4, 2), (4, 3), (5, 1)]


@pytest.mark.parametrize(("k", "d"), SIZES)
def test_the_table_of_the_running_sampler_is_exact(k: int, d: int) -> None:
    for epsilon in (0.1, 1.0, 8.0):
        mechanism = DBitFlip.from_epsilon(k, epsilon, d)
        keep = Fraction(mechanism.keep, ONE)
        found = laws(mechanism)
        for x, table in enumerate(found):
            assert len(table) == comb(k, d) * 2**d
            for data, probability in table.items():
                asked, bits = mechanism.unpack(data, 1)[0]
                exact = Fraction(1, comb(k, d))
                for bucket, bit in zip(asked.tolist(), bits.tolist(), strict=True):
                    exact *= keep if (bucket == x) == bit else 1 - keep
                assert probability == exact
        worst = worst_ratio(found)
        assert at_most_exp(worst, epsilon)
        assert mechanism.epsilon == loss(worst) <= epsilon
        assert epsilon - mechanism.epsilon < 1e-9


@pytest.mark.parametrize(("k", "d"), [(3, 1), (3, 2), (3, 3)])
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 8.0])
def test_the_next_coin_would_break_the_promise(k: int, d: int, epsilon: float) -> None:
    mechanism = DBitFlip.from_epsilon(k, epsilon, d)
    twin = DBitFlip(k, d, mechanism.keep + 1)
    assert not at_most_exp(worst_ratio(laws(twin)), epsilon)


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 8.0])
def test_the_table_rejects_a_bit_that_spends_all_of_epsilon(epsilon: float) -> None:
    twin = DBitFlip(3, 2, largest_threshold(epsilon))
    worst = worst_ratio(laws(twin))
    assert not at_most_exp(worst, epsilon)
    assert not at_most_exp(worst, 1.99 * epsilon)
    # With one bucket there is one such bit, and it may.
    assert DBitFlip.from_epsilon(3, epsilon, 1) == DBitFlip(3, 1, largest_threshold(epsilon))


@dataclass(frozen=True)
class LastBitInClear(DBitFlip):
    """O06's twin: noise for d - 1 of d bits."""

    def perturb(self, x: NDArray[Any], *, rng: Rng) -> NDArray[np.void]:  # type: ignore[override]
        told = super().perturb(x, rng=rng)
        told["bits"][:, -1] = told["asked"][:, -1] == x
        return told


@dataclass(frozen=True)
class OwnBucketAsked(DBitFlip):
    """The twin that always asks for the user's own bucket, so that no answer is wasted."""

    def perturb(self, x: NDArray[Any], *, rng: Rng) -> NDArray[np.void]:  # type: ignore[override]
        others = DBitFlip(self.k - 1, self.d - 1, self.keep).ask(x.size, rng=rng)
        others += others >= x[:, np.newaxis]
        asked = np.sort(np.concatenate([others, x.astype("u1")[:, np.newaxis]], axis=1), axis=1)
        return self.perturb_asked(x, asked, rng=rng)


@pytest.mark.parametrize("twin", [LastBitInClear, OwnBucketAsked])
def test_the_table_rejects_broken_twins(twin: type[DBitFlip]) -> None:
    broken = twin(4, 2, DBitFlip.from_epsilon(4, 1.0, 2).keep)
    with pytest.raises(ValueError, match="impossible"):
        worst_ratio([law(broken, x) for x in range(4)])


def sets_asked(mechanism: DBitFlip) -> dict[tuple[int, ...], Fraction]:
    def kernel(rng: Rng) -> tuple[int, ...]:
        return tuple(mechanism.ask(1, rng=rng)[0].tolist())

    found, left = walk(kernel, residual=Fraction(0))
    assert left == 0
    return found


@pytest.mark.parametrize("by_flags", [False, True])
@pytest.mark.parametrize(("k", "d"), [(2, 1), (5, 1), (5, 2), (5, 3), (6, 3), (5, 4), (4, 4)])
def test_every_set_of_buckets_is_equally_likely(
    k: int, d: int, by_flags: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if by_flags:
        monkeypatch.setattr(dbitflip, "_COMPARED", 0)
    found = sets_asked(DBitFlip.from_epsilon(k, 1.0, d))
    assert found == dict.fromkeys(combinations(range(k), d), Fraction(1, comb(k, d)))


@dataclass(frozen=True)
class DrawnAgain(DBitFlip):
    """The twin that puts the next bucket in the place of one that is drawn twice."""

    def _drawn_in_order(self, n: int, rng: Rng) -> Words:
        taken = np.zeros((n, self.k), dtype=np.bool_)
        for _ in range(self.d):
            new = rng.uniform(self.k, n, self._bucket)
            while taken[np.arange(n), new].any():
                new = np.where(taken[np.arange(n), new], (new + 1) % self.k, new)
            taken[np.arange(n), new] = True
        return np.nonzero(taken)[1].reshape(n, self.d).astype(self._bucket)


def test_the_law_of_the_sets_rejects_a_draw_that_moves_on_to_the_next() -> None:
    found = sets_asked(DrawnAgain(5, 2, ONE - 1))
    assert set(found) == set(combinations(range(5), 2))
    assert len(set(found.values())) > 1


def test_the_buckets_say_nothing_about_the_value() -> None:
    mechanism = DBitFlip.from_epsilon(4, 1.0, 2)
    for table in laws(mechanism):
        assert buckets(mechanism, table) == sets_asked(mechanism)


def buckets(mechanism: DBitFlip, reports: Law) -> dict[tuple[int, ...], Fraction]:
    found: dict[tuple[int, ...], Fraction] = {}
    for data, probability in reports.items():
        asked = tuple(mechanism.unpack(data, 1)[0]["asked"].tolist())
        found[asked] = found.get(asked, Fraction(0)) + probability
    return found


@pytest.mark.parametrize("asked", list(combinations(range(4), 2)))
def test_given_buckets_keep_the_promise_one_by_one(asked: tuple[int, int]) -> None:
    """Buckets that a user keeps: whatever they are, one report about them costs epsilon at most."""
    mechanism = DBitFlip.from_epsilon(4, 1.0, 2)
    buckets = np.array([asked], dtype=np.uint8)

    def bits(x: int) -> dict[tuple[bool, ...], Fraction]:
        def kernel(rng: Rng) -> tuple[bool, ...]:
            told = mechanism.perturb_asked(np.array([x]), buckets, rng=rng)
            assert told["asked"].tolist() == [list(asked)]
            return tuple(told["bits"][0].tolist())

        return walk(kernel, residual=Fraction(0))[0]

    found = [bits(x) for x in range(4)]
    keep = Fraction(mechanism.keep, ONE)
    assert worst_ratio(found) == (keep / (1 - keep)) ** 2
    for x in set(range(4)) - set(asked):
        assert found[x][False, False] == keep**2  # a value that is not asked is no other's


@dataclass(frozen=True)
class OneCoinForAll(DBitFlip):
    """The twin whose users all lie or all tell the truth."""

    def perturb(self, x: NDArray[Any], *, rng: Rng) -> NDArray[np.void]:  # type: ignore[override]
        out = np.empty(x.size, dtype=self.dtype)
        out["asked"] = self.ask(x.size, rng=rng)
        out["bits"] = (out["asked"] == x[:, np.newaxis]) == rng.bernoulli(self.keep, (1, self.d))
        return out


def test_users_are_randomized_independently() -> None:
    mechanism = DBitFlip.from_epsilon(3, 0.1, 2)
    assert is_product(mechanism, 2, 0)
    assert not is_product(OneCoinForAll(3, 2, mechanism.keep), 2, 0)


@pytest.mark.parametrize("epsilon", [MIN_EPSILON, 1e-12, *EPSILONS, 44.0, 710.0, 800.0])
@pytest.mark.parametrize("d", [1, 2])
def test_the_promise_holds_over_the_whole_domain(epsilon: float, d: int) -> None:
    mechanism = DBitFlip.from_epsilon(2, epsilon, d)
    assert at_most_exp(worst_ratio(laws(mechanism)), epsilon)
    assert 0 < mechanism.epsilon <= epsilon
    assert epsilon > 16 or epsilon - mechanism.epsilon < 1e-9
