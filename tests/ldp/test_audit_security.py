"""Audits catch what is broken, and their confidence holds.

Every twin below claims an epsilon that the code does not keep. An audit must refute the claim at a
false-alarm rate of 1e-9, on at most 100,000 reports of each input; beside it the right mechanism
passes the same audit. Seeds are fixed.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from ldp.audit import Audit, Case, audit
from ldp.discrete_laplace import DiscreteLaplace
from ldp.k_ary import KaryRandomizedResponse
from ldp.randomized_response import RandomizedResponse
from mpc.core.prg import Prg
from mpc.core.rng import ONE, Rng
from tests.support.stats import binomial_interval

ALARM = 1e-9
LN3 = math.log(3)
RR = RandomizedResponse.from_epsilon(LN3)

BITS = [("0", False), ("1", True)]
WIDTH = 8
VECTORS = [np.zeros(WIDTH, dtype=bool), *np.eye(WIDTH, dtype=bool)]
NEIGHBOURS = [(0, place + 1) for place in range(WIDTH)]

Perturb = Callable[[NDArray[Any], Rng], NDArray[Any]]


def examined(case: Case, samples: int = 20_000) -> Audit:
    return audit(case, samples, alpha=ALARM, rng=Prg(bytes(32)))


def each(perturb: Perturb, epsilon: float, *inputs: tuple[str, Any], **more: Any) -> Case:
    """perturb: of an array of n equal inputs."""

    def draw(x: Any, n: int, rng: Rng) -> NDArray[Any]:
        held = np.asarray(x)
        return perturb(np.broadcast_to(held, (n, *held.shape)), rng)

    return Case("twin", epsilon, inputs, draw, **more)


def right(x: NDArray[np.bool_], rng: Rng) -> NDArray[np.bool_]:
    return RR.perturb(x, rng=rng)


# The lie that may be the truth (O05)


def fair_coin_lie(x: NDArray[np.bool_], rng: Rng) -> NDArray[np.bool_]:
    """Tells the truth with probability 3/4, else what a fair coin says: ln 7 = 1.946 in truth."""
    truthful, coin = rng.bernoulli(3 * (ONE // 4), x.shape), rng.bernoulli(ONE // 2, x.shape)
    return np.where(truthful, x, coin)


def test_a_fair_coin_lie_is_caught() -> None:
    found = examined(each(fair_coin_lie, LN3, *BITS))
    assert found.exceeds
    assert LN3 < found.lower_bound < math.log(7)
    assert not examined(each(right, LN3, *BITS)).exceeds


# One bit that is not randomized (O06)


def last_bit_in_clear(x: NDArray[np.bool_], rng: Rng) -> NDArray[np.bool_]:
    out = right(x, rng)
    out[:, -1] = x[:, -1]
    return out


def vectors(perturb: Perturb) -> Case:
    return each(perturb, LN3, *((str(i), x) for i, x in enumerate(VECTORS)), pairs=NEIGHBOURS)


def test_one_unperturbed_bit_is_caught() -> None:
    found = examined(vectors(last_bit_in_clear))
    assert found.exceeds
    assert found.lower_bound == found.reachable > 5
    assert str(found.worst.event) in ("report[7] is 0", "report[7] is 1")
    assert not examined(vectors(right)).exceeds


# Laplace noise of half the scale


def test_laplace_noise_of_half_the_scale_is_caught() -> None:
    honest, weak = DiscreteLaplace.from_epsilon(1.0), DiscreteLaplace(0.5)
    found = examined(each(lambda x, rng: weak.perturb(x, rng=rng), 1.0, ("0", 0), ("1", 1)))
    assert 1.5 < found.lower_bound < 2
    assert not examined(Case.of("laplace", honest, 0, 1)).exceeds


def test_laplace_noise_a_tenth_too_small_is_caught() -> None:
    weak = DiscreteLaplace(0.9)
    case = each(lambda x, rng: weak.perturb(x, rng=rng), 1.0, ("0", 0), ("1", 1))
    found = examined(case, 100_000)
    assert 1 < found.lower_bound < 1 / 0.9


# Fresh noise where a memo was promised


def asked(times: int, *, fresh: bool) -> Case:
    """The same bit asked again and again; the promise is that this costs epsilon once."""

    def draw(x: bool, n: int, rng: Rng) -> NDArray[np.bool_]:
        if fresh:
            return RR.perturb(np.full((n, times), x), rng=rng)
        return np.repeat(RR.perturb(np.full((n, 1), x), rng=rng), times, axis=1)

    return Case("memo", LN3, BITS, draw)


@pytest.mark.parametrize("times", [2, 8, 100])
def test_fresh_noise_in_place_of_a_memo_is_caught(times: int) -> None:
    found = examined(asked(times, fresh=True))
    assert found.exceeds
    assert "number of 1s in report" in str(found.worst.event) or times == 2
    assert not examined(asked(times, fresh=False)).exceeds


# Floating-point noise (O10)


def doubles(rng: Rng, shape: tuple[int, ...]) -> NDArray[np.float64]:
    """Uniform in (0, 1): what every textbook inverts."""
    words = rng.words(shape, np.uint64) >> np.uint64(11)
    return (words.astype(np.float64) + 0.5) * 2.0**-53


def noise(rng: Rng, shape: tuple[int, ...]) -> NDArray[np.float64]:
    """Laplace noise of scale 1 by inversion, in doubles."""
    u = doubles(rng, shape) - 0.5
    return np.asarray(-np.sign(u) * np.log1p(-2 * np.abs(u)))


def floating_laplace(x: NDArray[np.float64], rng: Rng) -> NDArray[np.float64]:
    return x + noise(rng, x.shape)


def snapped(x: NDArray[np.float64], rng: Rng) -> NDArray[np.float64]:
    """Exact noise on a grid of 2^-10, for inputs on the grid; reports are doubles."""
    mechanism = DiscreteLaplace(1 << 10, sensitivity=1 << 10)
    return mechanism.perturb((x * 1024).astype(np.int64), rng=rng) / 1024


NUMBERS = [("0", 0.0), ("1", 1.0)]


def test_floating_point_laplace_noise_is_caught_by_its_low_bits() -> None:
    found = examined(each(floating_laplace, 1.0, *NUMBERS))
    assert found.exceeds
    assert found.lower_bound > 4
    assert "lowest set bit" in str(found.worst.event)
    assert not examined(each(snapped, 1.0, *NUMBERS)).exceeds


def test_the_low_bits_are_what_catches_it() -> None:
    """Rounded to a grid of 2^-20, the same noise passes: nothing else was wrong with it."""

    def rounded(x: NDArray[np.float64], rng: Rng) -> NDArray[np.float64]:
        return np.round(floating_laplace(x, rng) * 2.0**20) / 2.0**20

    assert not examined(each(rounded, 1.0, *NUMBERS)).exceeds


def test_an_input_that_shows_in_the_last_digit_is_caught() -> None:
    """Noise on even numbers only: the report's parity is that of the input."""

    def coarse(x: NDArray[np.int64], rng: Rng) -> NDArray[np.int64]:
        return x + 2 * DiscreteLaplace(500).sample(x.shape, rng=rng)

    found = examined(each(coarse, 1.0, ("0", 0), ("1", 1)))
    assert found.exceeds
    assert str(found.worst.event).startswith("report modulo 16 is")


# Tails that are cut off


@pytest.mark.parametrize("most", [3, 4])
def test_a_truncated_tail_is_caught(most: int) -> None:
    """Reports beyond ``most`` scales are drawn again: from there on only one input reaches."""

    def cut(x: NDArray[np.int64], rng: Rng) -> NDArray[np.int64]:
        law = DiscreteLaplace(32)
        out = law.sample(x.shape, rng=rng)
        while (beyond := np.abs(out) > 32 * most).any():
            out[beyond] = law.sample(int(beyond.sum()), rng=rng)
        return x + out

    inputs = [("0", 0), ("32", 32)]
    found = examined(each(cut, 1.0, *inputs), 100_000)
    assert found.exceeds
    assert found.worst.other_count == 0
    honest = DiscreteLaplace(32, sensitivity=32)
    case = each(lambda x, rng: honest.perturb(x, rng=rng), 1.0, *inputs)
    assert not examined(case, 100_000).exceeds


# Further faults


def test_a_nan_that_passes_through_is_caught() -> None:
    """O08: clipping compares, and NaN is on neither side."""

    def clipped(x: NDArray[np.float64], rng: Rng) -> NDArray[np.float64]:
        kept = np.where(x > 1, 1.0, np.where(x < 0, 0.0, x))
        return np.asarray(snapped(np.nan_to_num(kept), rng) + 0 * kept)

    found = examined(each(clipped, 1.0, ("0", 0.0), ("NaN", math.nan)))
    assert found.lower_bound == found.reachable
    assert "NaN" in str(found.worst.event)


def test_an_epsilon_paid_twice_is_caught() -> None:
    """O11: two inputs that differ in two bits, under the claim of one."""
    case = each(right, LN3, ("00", np.zeros(2, bool)), ("11", np.ones(2, bool)))
    assert LN3 < examined(case).lower_bound < 2 * LN3


def test_a_lie_that_may_be_any_of_three_values_is_caught() -> None:
    """Told with probability keep, else any of the values instead of any of the others."""
    mechanism = KaryRandomizedResponse.from_epsilon(3, 1.0)

    def lax(x: NDArray[np.int64], rng: Rng) -> NDArray[Any]:
        lies = rng.uniform(3, x.shape, np.uint8)
        return np.where(rng.bernoulli(mechanism.keep, x.shape), x, lies)

    assert examined(each(lax, 1.0, ("0", 0), ("2", 2)), 100_000).exceeds
    assert not examined(Case.of("k-ary", mechanism, 0, 2), 100_000).exceeds


# The confidence holds

ALPHA = 0.2


def accused(make: Callable[[], Case], repetitions: int, samples: int) -> int:
    rng = Prg(b"2" * 32)
    return sum(audit(make(), samples, alpha=ALPHA, rng=rng).exceeds for _ in range(repetitions))


def most_allowed(repetitions: int) -> int:
    """Above it lie one in 1e9 of the counts of false alarms at a rate of exactly ALPHA."""
    return binomial_interval(repetitions, ALPHA, ALARM)[1]


def test_a_mechanism_exactly_at_its_claim_is_accused_no_more_often_than_stated() -> None:
    at_its_claim = RandomizedResponse.from_epsilon(0.5)
    case = Case.of("bit", at_its_claim, False, True)
    assert accused(lambda: case, 2000, 200) <= most_allowed(2000)


def coins(*, peeking: bool) -> Case:
    """40 fair coins, whatever the input: an epsilon of 0. With ``peeking`` the second half of the
    reports is the first one again, so that events are tested on what they were chosen on."""
    kept: dict[str, NDArray[np.bool_]] = {}
    used: dict[str, int] = {}

    def draw(x: str, n: int, rng: Rng) -> NDArray[np.bool_]:
        if not peeking or x not in kept:
            kept[x], used[x] = rng.bernoulli(ONE // 2, (n, 40)), 0
            return kept[x]
        used[x] += n
        return kept[x][used[x] - n : used[x]]

    return Case("coins", 1e-9, [("a", "a"), ("b", "b")], draw)


def test_an_audit_that_peeks_accuses_too_often() -> None:
    """The broken twin of the split into halves, and the split itself."""
    assert accused(lambda: coins(peeking=True), 50, 1000) > most_allowed(50)
    assert accused(lambda: coins(peeking=False), 20, 1000) <= most_allowed(20)
