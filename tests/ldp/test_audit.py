"""Audits: what a result holds, what is refused, and that no shipped mechanism is accused."""

import math

import numpy as np
import pytest
from numpy.typing import NDArray

from ldp.audit import Audit, Case, audit, audit_all
from ldp.audit_cases import MAX_VALUES, NAMES, WITH_DELTA, WITH_VALUES, Request, least_size, shipped
from ldp.audit_statistics import epsilon_bound, largest_bound
from ldp.k_ary import KaryRandomizedResponse
from ldp.randomized_response import RandomizedResponse
from mpc.core.errors import ParameterError
from mpc.core.prg import Prg
from mpc.core.rng import Rng

ALARM = 1e-9
SAMPLES = 20_000

RR = RandomizedResponse.from_epsilon(1.0)
BIT = Case.of("bit", RR, False, True)


def seeded(number: int = 0) -> Rng:
    return Prg(number.to_bytes(32, "big"))


# Shipped mechanisms


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("epsilon", [0.25, 1.0, 4.0])
def test_no_shipped_mechanism_is_accused(name: str, epsilon: float) -> None:
    """False alarms: below 1e-9 for each of these audits, whatever the seed."""
    case = shipped(name, Request(epsilon=epsilon))
    if name != "repeated-mean-moving":  # a history of several values costs more than one of them
        assert 0.97 * epsilon < case.epsilon <= epsilon
    found = audit(case, SAMPLES, alpha=ALARM, rng=seeded())
    assert not found.exceeds
    assert found.lower_bound <= case.epsilon


@pytest.mark.parametrize("name", sorted(set(NAMES) - set(WITH_DELTA)))
def test_a_shipped_mechanism_shows_most_of_what_it_claims(name: str) -> None:
    """An audit that sees nothing would accuse nobody either."""
    found = audit(shipped(name, Request()), 100_000, rng=seeded())
    assert found.lower_bound > (0.7 if "moving" in name else 0.85) * found.epsilon


def test_noise_with_a_delta_shows_some_of_what_it_claims() -> None:
    for name in WITH_DELTA:
        found = audit(shipped(name, Request(delta=0.01)), 100_000, rng=seeded())
        assert found.delta == 0.01
        assert found.lower_bound > 0.6 * found.epsilon


@pytest.mark.parametrize("name", WITH_VALUES)
@pytest.mark.parametrize("values", [2, 3, 100])
def test_oracles_of_any_size_are_audited(name: str, values: int) -> None:
    case = shipped(name, Request(values=values))
    assert [held for _, held in case.inputs] == sorted({0, 1, values - 1})
    found = audit(case, 5000, alpha=ALARM, rng=seeded())
    assert not found.exceeds


def test_an_unknown_mechanism_is_refused_with_all_names() -> None:
    with pytest.raises(ParameterError, match="no mechanism is called 'rappor'") as error:
        shipped("rappor", Request())
    assert all(name in error.value.remedy for name in NAMES)


@pytest.mark.parametrize(
    "wrong",
    [
        {"epsilon": 0.0},
        {"epsilon": math.nan},
        {"delta": 0.0},
        {"delta": 1.0},
        {"values": 1},
        {"values": MAX_VALUES + 1},
    ],
)
def test_a_request_out_of_range_is_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ParameterError, match=next(iter(wrong))):
        Request(**wrong)  # type: ignore[arg-type]


def test_the_least_size_is_found_and_a_hopeless_one_refused() -> None:
    for wanted in (0.001, 1.0, 77.7, 2.0**19):
        found = least_size(wanted.__le__)
        assert max(wanted, 2.0**-8) <= found <= 1.011 * max(wanted, 2.0**-8)
    with pytest.raises(ParameterError, match="no noise"):
        least_size(lambda size: False)


# Results


def test_a_result_says_what_was_claimed_seen_and_possible() -> None:
    found = audit(BIT, 10_000, alpha=0.01, rng=seeded())
    worst = found.worst
    assert (found.name, found.unit, found.samples) == ("bit", "bit", 10_000)
    assert (found.epsilon, found.delta, found.confidence) == (RR.epsilon, 0.0, 0.99)
    assert len(found.findings) == 2
    assert {finding.input for finding in found.findings} == {"False", "True"}
    assert worst.n == 5000
    assert worst.bound == max(finding.bound for finding in found.findings)
    assert worst.bound == float(
        epsilon_bound(worst.count, worst.other_count, 5000, found.error, 0.0)
    )
    assert str(worst.event) == f"report is {int(worst.input == 'True')}"
    assert found.reachable == largest_bound(5000, found.error)
    assert 0 < found.lower_bound < found.epsilon < found.reachable
    assert found.exceeds is False


def test_counts_are_of_the_second_half_and_prefixes_lead_up_to_them() -> None:
    found = audit(BIT, 30_000, rng=seeded()).worst
    assert found.counts.sum() == found.other_counts.sum() == 15_000
    assert found.event.hits(found.counts) == found.count
    assert found.event.hits(found.other_counts) == found.other_count
    sizes = [prefix.n for prefix in found.history]
    assert sizes == sorted(set(sizes))
    assert sizes[-1] == 15_000
    assert len(sizes) > 5
    counts = [prefix.count for prefix in found.history]
    assert counts == sorted(counts)
    assert found.history[-1].bound > found.history[0].bound


def test_the_error_is_shared_by_all_limits_of_all_cases() -> None:
    values = Case.of("values", KaryRandomizedResponse.from_epsilon(4, 1.0), 0, 1, 2)
    found = audit_all([BIT, values], 1000, alpha=0.04, rng=seeded())
    assert [one.error for one in found] == [0.04 / (4 * 1 + 4 * 3)] * 2
    assert [len(one.findings) for one in found] == [2, 6]


def test_a_seed_repeats_an_audit_and_another_one_does_not() -> None:
    first, again, other = (audit(BIT, 2000, rng=seeded(n)) for n in (1, 1, 2))
    assert first.worst.counts.tolist() == again.worst.counts.tolist()
    assert first.lower_bound == again.lower_bound
    assert first.worst.counts.tolist() != other.worst.counts.tolist()


def test_samples_are_drawn_in_pieces_and_told_of() -> None:
    sizes, heard = [], []

    def draw(x: bool, n: int, rng: Rng) -> NDArray[np.bool_]:
        sizes.append(n)
        return RR.perturb(np.full(n, x), rng=rng)

    case = Case("bit", RR.epsilon, [("0", False), ("1", True)], draw)
    audit(case, 500_001, rng=seeded(), told=lambda name, share: heard.append((name, share)))
    assert sizes[:2] == [250_000] * 2  # in the order of the halves: the choice comes first
    assert sum(sizes) == 2 * 500_001
    assert max(sizes[2:]) == 1 << 16
    shares = [share for _, share in heard]
    assert shares[0] == 0
    assert shares == sorted(shares)
    assert 0.9 < shares[-1] < 1
    assert {name for name, _ in heard} == {"bit"}


def test_pairs_limit_what_is_compared() -> None:
    """All 0 and 1 at either end differ in one bit; the two ends differ in two."""
    vectors = np.zeros(4, dtype=bool), np.eye(4, dtype=bool)[0], np.eye(4, dtype=bool)[3]
    neighbours = Case.of("bits", RR, *vectors, pairs=[(0, 1), (0, 2)])
    assert not audit(neighbours, SAMPLES, alpha=ALARM, rng=seeded()).exceeds
    apart = Case.of("bits", RR, *vectors, pairs=[(1, 2)])
    found: Audit = audit(apart, SAMPLES, alpha=ALARM, rng=seeded())
    assert 1.5 < found.lower_bound < 2


def test_a_delta_lowers_the_bound() -> None:
    def draw(x: bool, n: int, rng: Rng) -> NDArray[np.bool_]:
        return RR.perturb(np.full(n, x), rng=rng)

    inputs = [("0", False), ("1", True)]
    bounds = [
        audit(Case("b", 1.0, inputs, draw, delta=delta), SAMPLES, rng=seeded()).lower_bound
        for delta in (0.0, 0.1, 0.8)
    ]
    assert bounds[0] > bounds[1] > bounds[2] == 0


# Refusals


@pytest.mark.parametrize("samples", [99, 0, -1, 1000.0, True, "1000"])
def test_too_few_samples_are_refused(samples: int) -> None:
    with pytest.raises(ParameterError, match="samples must"):
        audit(BIT, samples)


@pytest.mark.parametrize("alpha", [0.0, 1.0, -0.1, math.nan])
def test_a_confidence_out_of_range_is_refused(alpha: float) -> None:
    with pytest.raises(ParameterError, match="alpha must"):
        audit(BIT, 1000, alpha=alpha)


def test_a_case_out_of_range_is_refused() -> None:
    inputs = [("0", 0), ("1", 1)]
    for epsilon in (-1.0, math.nan, math.inf):
        with pytest.raises(ParameterError, match="epsilon must"):
            Case("c", epsilon, inputs, RR.perturb)  # type: ignore[arg-type]
    for delta in (-0.1, 1.0, math.nan):
        with pytest.raises(ParameterError, match="delta must"):
            Case("c", 1.0, inputs, RR.perturb, delta=delta)  # type: ignore[arg-type]
    with pytest.raises(ParameterError, match="two inputs, got 1"):
        Case("c", 1.0, inputs[:1], RR.perturb)  # type: ignore[arg-type]
    for pair in ((0, 2), (-1, 0), (1, 1)):
        with pytest.raises(ParameterError, match="pairs must name two of 2 inputs"):
            Case("c", 1.0, inputs, RR.perturb, pairs=[pair])  # type: ignore[arg-type]


def test_a_sampler_that_returns_another_number_of_reports_is_refused() -> None:
    case = Case("c", 1.0, [("0", 0), ("1", 1)], lambda x, n, rng: np.zeros(n - 1))
    with pytest.raises(ParameterError, match="must hold 500 reports"):
        audit(case, 1000)
