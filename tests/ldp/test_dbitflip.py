"""dBitFlip: estimates and their error, the buckets asked, bytes and refusals."""

import math
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from ldp import dbitflip
from ldp.dbitflip import DBitFlip
from ldp.thresholds import MIN_EPSILON
from ldp.unary import UnaryEncoding
from mpc.core.errors import ParameterError, WireError
from mpc.core.prg import Prg
from mpc.core.rng import ONE
from tests.ldp.oracle_laws import BAD_EPSILONS
from tests.ldp.sent_laws import (
    intervals_cover,
    is_unbiased,
    laws,
    mean_and_variance,
    mean_square_error,
)
from tests.support.stats import fits_binomial

SIZES = [(2, 1), (2, 2), (3, 1), (3, 2), (3, 3), (4, 2), (4, 3), (5, 1)]


@pytest.mark.parametrize(("k", "d"), SIZES)
def test_the_estimate_is_unbiased_and_its_variance_exact(k: int, d: int) -> None:
    for epsilon in (0.1, 1.0, 4.0):
        mechanism = DBitFlip.from_epsilon(k, epsilon, d)
        found = laws(mechanism)
        assert is_unbiased(mechanism, found)
        variances = np.array([mean_and_variance(mechanism, table)[1] for table in found])
        for x in range(k):
            assert variances[x] == pytest.approx(mechanism.variance_of(np.arange(k) == x, 1))
        any_report = mechanism.perturb(np.array([0]))
        assert mechanism.estimate(any_report).worst == pytest.approx(variances.max(axis=0))


def test_the_estimate_is_the_papers() -> None:
    """k / (n d) times the sum of (bit (e^(eps/2) + 1) - 1) / (e^(eps/2) - 1), for n users."""
    mechanism = DBitFlip.from_epsilon(10, 1.0, 4)
    x = np.arange(50) % 10
    reports = mechanism.perturb(x, rng=Prg(bytes(32)))
    odds = math.exp(0.5)
    expected = np.zeros(10)
    for report in reports:
        bits = report["bits"].astype(np.float64)
        expected[report["asked"]] += (bits * (odds + 1) - 1) / (odds - 1)
    result = mechanism.estimate(reports)
    assert result.value == pytest.approx(expected * 10 / 4)
    assert result.n == 50


def test_all_buckets_asked_is_symmetric_unary_encoding() -> None:
    mechanism = DBitFlip.from_epsilon(6, 1.0, 6)
    unary = UnaryEncoding.symmetric(6, 1.0)
    assert (mechanism.keep, mechanism.epsilon) == (unary.one, unary.epsilon)
    assert mechanism.report_bits == unary.report_bits == 6
    for count in (0, 7, 20):
        assert mechanism.variance_of(count, 20) == pytest.approx(unary.variance_of(count, 20))
    reports = mechanism.perturb(np.arange(30) % 6)
    alike = unary.estimate(reports["bits"])
    assert mechanism.estimate(reports).value == pytest.approx(alike.value)
    assert mechanism.pack(reports) == unary.pack(np.ascontiguousarray(reports["bits"]))


@pytest.mark.parametrize(("k", "d", "epsilon"), [(6, 1, 1.0), (6, 3, 1.0), (6, 6, 3.0)])
def test_intervals_cover_at_their_confidence(k: int, d: int, epsilon: float) -> None:
    mechanism = DBitFlip.from_epsilon(k, epsilon, d)
    x = [v for v in range(k) for _ in range(60 + 10 * v)]
    assert intervals_cover(mechanism, x, 3, b"coverage of dBitFlip intervals..")


def test_the_error_over_many_runs_is_the_stated_one() -> None:
    """2,000 runs: a mean square has a relative standard error of 3.2 %; 7 of them are allowed."""
    mechanism = DBitFlip.from_epsilon(20, 2.0, 5)
    x = np.repeat([0, 7], [200, 100])
    found = mean_square_error(mechanism, x.tolist(), 2_000, b"mean square error of dBitFlip...")
    counts = np.bincount(x, minlength=20)
    assert found / mechanism.variance_of(counts, 300) == pytest.approx(1, abs=0.22)
    # The twin forgets that a bucket is asked only now and then.
    twin = DBitFlip(20, 20, mechanism.keep)
    assert not np.any(np.abs(found / twin.variance_of(counts, 300) - 1) < 0.22)


@pytest.mark.parametrize("by_flags", [False, True])
@pytest.mark.parametrize(("k", "d"), [(9, 1), (9, 4), (9, 8), (300, 3), (300, 40), (300, 299)])
def test_buckets_are_distinct_ascending_and_all_reached(
    k: int, d: int, by_flags: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """20,000 users: each bucket is asked as often as Binomial(20,000, d/k) allows at 1e-12."""
    if by_flags:
        monkeypatch.setattr(dbitflip, "_COMPARED", 0)
    asked = DBitFlip.from_epsilon(k, 1.0, d).ask(20_000, rng=Prg(bytes(32)))
    assert asked.shape == (20_000, d)
    assert all(bool(np.all(left < right)) for left, right in pairwise(asked.T))
    counts = np.bincount(asked.reshape(-1), minlength=k)
    assert counts.size == k
    assert all(fits_binomial(int(count), 20_000, d / k, 1e-12) for count in counts)


@pytest.mark.parametrize(("k", "d"), [(20, 3), (1000, 70), (5, 5)])
def test_reports_beyond_one_piece_are_randomized_to_their_end(k: int, d: int) -> None:
    """A bit is told truthfully in each of 20 parts of 7,000 users or more: 8 standard errors."""
    mechanism = DBitFlip.from_epsilon(k, 1.0, d)
    n = 140_000 if d < 70 else 20_000
    x = np.arange(n) % k
    reports = mechanism.perturb(x, rng=Prg(bytes(32)))
    truthful = (reports["asked"] == x[:, np.newaxis]) == reports["bits"]
    keep = mechanism.keep / ONE
    for part in np.array_split(truthful, 20):
        assert abs(part.mean() - keep) < 8 * math.sqrt(keep * (1 - keep) / part.size)
    parts = [mechanism.estimate(part).value for part in np.array_split(reports, 3)]
    assert mechanism.estimate(reports).value == pytest.approx(np.sum(parts, axis=0))


@given(st.integers(2, 10**6), st.integers(1, 5), st.floats(1e-6, 16))
def test_reported_epsilon_is_at_most_the_requested(k: int, d: int, epsilon: float) -> None:
    mechanism = DBitFlip.from_epsilon(k, epsilon, min(d, k))
    assert 0 < mechanism.epsilon <= epsilon
    assert epsilon - mechanism.epsilon < 1e-9
    assert mechanism.unit == "value"


@pytest.mark.parametrize("epsilon", BAD_EPSILONS)
def test_o09_other_epsilons_are_refused(epsilon: Any) -> None:
    with pytest.raises(ParameterError, match="epsilon must"):
        DBitFlip.from_epsilon(10, epsilon, 3)


@pytest.mark.parametrize("epsilon", [710, 800, 1e6])
def test_o09_a_huge_epsilon_reports_the_bits_themselves(epsilon: float) -> None:
    mechanism = DBitFlip.from_epsilon(10, epsilon, 10)
    x = np.arange(10_000) % 10
    result = mechanism.estimate(mechanism.perturb(x, rng=Prg(b"a huge epsilon, seed of 32 bytes")))
    assert result.value.tolist() == [1000.0] * 10  # another bit has probability 2^-64
    assert np.all(result.variance < 1e-12)


def test_o09_a_tiny_epsilon_is_finite() -> None:
    for epsilon in (MIN_EPSILON, 1e-12):
        mechanism = DBitFlip.from_epsilon(100, epsilon, 1)
        result = mechanism.estimate(mechanism.perturb(np.arange(1000) % 100))
        assert np.all(np.isfinite(result.value))
        assert np.all(np.isfinite(result.variance))
    assert mechanism.variance_of(0, 1) == pytest.approx(100e24)


@pytest.mark.parametrize("k", [1, 0, -5, 2**32 + 1, 10.0, True, "3"])
def test_a_k_outside_its_range_is_refused(k: Any) -> None:
    with pytest.raises(ParameterError, match="k must"):
        DBitFlip.from_epsilon(k, 1.0, 1)
    with pytest.raises(ParameterError, match="k must"):
        DBitFlip(k, 1, ONE - 1)


@pytest.mark.parametrize("d", [0, -1, 6, 2.0, True])
def test_a_d_outside_its_range_is_refused(d: Any) -> None:
    with pytest.raises(ParameterError, match="d must"):
        DBitFlip.from_epsilon(5, 1.0, d)
    with pytest.raises(ParameterError, match="d must"):
        DBitFlip(5, d, ONE - 1)


@pytest.mark.parametrize("keep", [0, ONE // 2, ONE, 0.75, True])
def test_a_keep_outside_its_range_is_refused(keep: Any) -> None:
    with pytest.raises(ParameterError, match="keep must"):
        DBitFlip(5, 2, keep)


@pytest.mark.parametrize(
    "x", [np.array([0, 5]), np.array([-1]), np.array([0.0]), np.array([[0]]), np.array([np.nan])]
)
def test_values_outside_the_domain_are_refused(x: NDArray[Any]) -> None:
    mechanism = DBitFlip.from_epsilon(5, 1.0, 2)
    with pytest.raises(ParameterError, match="x must"):
        mechanism.perturb(x)
    with pytest.raises(ParameterError, match="x must"):
        mechanism.perturb_asked(x, np.zeros((1, 2), dtype=np.uint8))


def test_given_buckets_are_checked() -> None:
    mechanism = DBitFlip.from_epsilon(5, 1.0, 2)
    x = np.array([0, 3])
    wrong: list[Any] = [np.zeros((2, 2)), np.zeros((2, 3), np.uint8), np.zeros(2, np.uint8)]
    for asked in wrong:
        with pytest.raises(ParameterError, match="asked must be unsigned of shape"):
            mechanism.perturb_asked(x, asked)
    for second in ([2, 2], [3, 1], [0, 5]):
        with pytest.raises(ParameterError, match="the buckets of a report must"):
            mechanism.perturb_asked(x, np.array([[0, 1], second], dtype=np.uint16))
    told = mechanism.perturb_asked(x, np.array([[0, 1], [2, 4]], dtype=np.uint64))
    assert told.dtype == mechanism.dtype
    assert told["asked"].tolist() == [[0, 1], [2, 4]]
    with pytest.raises(ParameterError, match="n must"):
        mechanism.ask(-1)


def test_an_estimate_needs_reports_of_the_mechanism() -> None:
    mechanism = DBitFlip.from_epsilon(5, 1.0, 2)
    good = mechanism.perturb(np.array([0, 1]))
    other = DBitFlip.from_epsilon(5, 1.0, 3).perturb(np.array([0, 1]))
    for reports in (np.array([1]), good["asked"], good.reshape(1, 2), other):
        with pytest.raises(ParameterError, match="reports must be records"):
            mechanism.estimate(reports)
    for buckets in ([1, 1], [2, 1], [3, 5]):
        spoilt = good.copy()
        spoilt["asked"][1] = buckets
        with pytest.raises(ParameterError, match="the buckets of a report must"):
            mechanism.estimate(spoilt)
        with pytest.raises(ParameterError, match="the buckets of a report must"):
            mechanism.pack(spoilt)
    with pytest.raises(ParameterError, match="at least one report"):
        mechanism.estimate(good[:0])


@given(st.integers(2, 300), st.integers(0, 20), st.data())
def test_packed_reports_come_back(k: int, n: int, data: st.DataObject) -> None:
    d = data.draw(st.integers(1, k))
    mechanism = DBitFlip.from_epsilon(k, 1.0, d)
    x = data.draw(st.lists(st.integers(0, k - 1), min_size=n, max_size=n))
    reports = mechanism.perturb(np.array(x, dtype=np.int64))
    packed = mechanism.pack(reports)
    assert len(packed) == -(-n * mechanism.report_bits // 8)
    back = mechanism.unpack(packed, (n,))
    assert back.dtype == reports.dtype == mechanism.dtype
    assert np.array_equal(back, reports)


@given(st.integers(2, 9), st.binary(max_size=4), st.integers(0, 4), st.data())
def test_arbitrary_bytes_raise_only_wire_errors(
    k: int, data: bytes, n: int, drawn: st.DataObject
) -> None:
    mechanism = DBitFlip.from_epsilon(k, 1.0, drawn.draw(st.integers(1, k)))
    try:
        reports = mechanism.unpack(data, n)
    except WireError:
        return
    assert mechanism.pack(reports) == data


def test_known_bytes_and_buckets_that_do_not_exist() -> None:
    mechanism = DBitFlip.from_epsilon(5, 1.0, 2)
    report = np.array([([1, 4], [True, False])], dtype=mechanism.dtype)
    assert mechanism.report_bits == 8
    assert mechanism.pack(report) == bytes([0b0011_1000])
    for wrong in (0b0011_1010, 0b0011_0010, 0b1000_0010):  # bucket 5; 1 twice; 4, then 1
        with pytest.raises(WireError, match="the buckets of a report must"):
            mechanism.unpack(bytes([wrong]), 1)
    with pytest.raises(WireError, match="take 1 bytes"):
        mechanism.unpack(bytes(2), 1)
    with pytest.raises(ParameterError, match="one axis"):
        mechanism.unpack(b"", (0, 3))
