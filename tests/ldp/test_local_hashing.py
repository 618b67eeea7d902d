"""Local hashing: the hash family, exact p and q, estimates, bytes and refusals."""

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from ldp.local_hashing import LocalHashing
from ldp.thresholds import MIN_EPSILON, largest_threshold
from mpc.core.errors import ParameterError, WireError
from mpc.core.prg import Prg
from mpc.core.rng import ONE
from tests.ldp.oracle_laws import BAD_EPSILONS
from tests.ldp.sent_laws import intervals_cover, is_unbiased, law, laws, mean_and_variance

Words = NDArray[np.unsignedinteger[Any]]


def every_seed(width: int) -> tuple[Words, Words]:
    a, b = np.meshgrid(np.arange(2**width), np.arange(2**width))
    return a.reshape(-1).astype(np.uint8), b.reshape(-1).astype(np.uint8)


def pairs_are_independent(buckets: list[Words], g: int, sizes: list[int], width: int) -> bool:
    """Whether each pair of values meets each pair of buckets as often as their sizes say."""
    times = 2**width  # 4^width seeds over 2^width pairs of hashes
    expected = [times * left * right for left in sizes for right in sizes]
    return all(
        np.bincount(first.astype(np.int64) * g + second, minlength=g * g).tolist() == expected
        for i, first in enumerate(buckets)
        for second in buckets[:i]
    )


@pytest.mark.parametrize(("k", "g", "width"), [(4, 2, 4), (4, 3, 4), (8, 7, 6), (8, 5, 6)])
def test_the_hashes_of_two_values_are_exactly_independent(k: int, g: int, width: int) -> None:
    mechanism = LocalHashing(k, g, ONE - 1, width)
    a, b = every_seed(width)
    hashes = 2 ** (width // 2)
    sizes = np.bincount(np.arange(hashes) * g // hashes).tolist()

    def buckets(a: Words, b: Words) -> list[Words]:
        return [mechanism._bucket(a, b, np.full_like(a, x)) for x in range(k)]

    assert pairs_are_independent(buckets(a, b), g, sizes, width)
    # Broken twins: no b, and an a of half a word.
    assert not pairs_are_independent(buckets(a, np.zeros_like(b)), g, sizes, width)
    assert not pairs_are_independent(buckets(a % np.uint8(hashes), b), g, sizes, width)


@given(st.data(), st.sampled_from([4, 6, 16, 32, 34, 64]))
def test_a_bucket_is_that_of_the_definition(data: st.DataObject, width: int) -> None:
    half = width // 2
    g = data.draw(st.integers(2, 2**half - 1))
    k = data.draw(st.integers(2, 2**half))
    mechanism = LocalHashing(k, g, ONE - 1, width)
    word = st.integers(0, 2**width - 1)
    a, b, x = data.draw(word), data.draw(word), data.draw(st.integers(0, k - 1))
    found = mechanism._bucket(*(np.array([part], dtype=mechanism._word) for part in (a, b, x)))
    assert found.tolist() == [((a * x + b) % 2**width >> half) * g >> half]


@pytest.mark.parametrize(
    ("k", "g", "width", "n"),
    [(4, 3, 4, 50), (8, 7, 6, 1), (100, 4, 32, 70), (9, 5, 32, 20_000), (30, 4000, 64, 40)],
)
def test_the_server_counts_the_values_in_the_reported_bucket(
    k: int, g: int, width: int, n: int
) -> None:
    mechanism = LocalHashing(k, g, largest_threshold(1.0, g - 1), width)
    reports = mechanism.perturb(np.arange(n) % k, rng=Prg(bytes(32)))
    a, b = reports["a"].copy(), reports["b"].copy()
    counts = [
        int(np.sum(mechanism._bucket(a, b, np.full_like(a, x)) == reports["y"])) for x in range(k)
    ]
    expected = mechanism.support.estimate(np.array(counts), n)
    assert mechanism.estimate(reports).value.tolist() == expected.value.tolist()
    assert mechanism.estimate(reports).n == n


def test_the_server_takes_reports_beyond_one_piece_to_their_end() -> None:
    mechanism = LocalHashing.from_epsilon(6, 1.0)
    reports = mechanism.perturb(np.arange(100_000) % 6)
    whole = mechanism.estimate(reports).value
    parts = [mechanism.estimate(part).value for part in np.array_split(reports, 11)]
    assert whole == pytest.approx(np.sum(parts, axis=0))


@pytest.mark.parametrize("g", [2, 3])
def test_the_estimate_is_unbiased_and_its_variance_exact(g: int) -> None:
    mechanism = LocalHashing(4, g, largest_threshold(1.0, g - 1), width=4)
    found = laws(mechanism)
    assert is_unbiased(mechanism, found)
    for x, table in enumerate(found):
        _, variance = mean_and_variance(mechanism, table)
        assert variance == pytest.approx(mechanism.variance_of(np.arange(4) == x, 1))


@pytest.mark.parametrize("g", [2, 3])
def test_p_and_q_are_those_of_the_code(g: int) -> None:
    mechanism = LocalHashing(3, g, largest_threshold(1.0, g - 1), width=4)
    shares = [Fraction(0)] * 3
    for data, probability in law(mechanism, 1).items():
        report = mechanism.unpack(data, 1)
        for x in range(3):
            own = mechanism._bucket(report["a"], report["b"], np.full(1, x, dtype=np.uint8))
            shares[x] += probability * bool(own[0] == report["y"][0])
    assert shares == [mechanism.support.q, mechanism.support.p, mechanism.support.q]
    if g & (g - 1):
        assert mechanism.support.q != Fraction(1, g)  # the twin for buckets of equal size


@pytest.mark.parametrize("g", [2, 3, 4, 100, 4096, 65_535])
def test_q_counts_the_sizes_of_all_buckets(g: int) -> None:
    mechanism = LocalHashing(100, g, ONE - 1)
    sizes = np.bincount(np.arange(2**16) * g >> 16).astype(object)
    same = Fraction(int(np.sum(sizes**2)), 2**32)
    keep = mechanism.support.p
    assert mechanism.support.q == keep * same + (1 - keep) * (1 - same) / (g - 1)


def test_the_variance_is_that_of_the_paper() -> None:
    """Wang et al.: 4 e^epsilon / (e^epsilon - 1)^2 at g = e^epsilon + 1, for a rare value."""
    for epsilon in (math.log(3), math.log(15)):
        odds = math.exp(epsilon)
        mechanism = LocalHashing.from_epsilon(1000, epsilon)
        assert mechanism.g == round(odds) + 1
        assert mechanism.variance_of(0, 1) == pytest.approx(4 * odds / (odds - 1) ** 2)
        assert mechanism.support.p == pytest.approx(0.5)


@pytest.mark.parametrize("epsilon", [0.01, 0.38, 0.5, 1.0, 1.7, 2.0, 3.3, 5.0, 8.0])
def test_the_default_buckets_have_the_least_variance(epsilon: float) -> None:
    best = LocalHashing.from_epsilon(1000, epsilon)
    for g in range(2, best.g + 50):
        other = LocalHashing.from_epsilon(1000, epsilon, g)
        assert best.support.other <= other.support.other * (1 + 1e-4)


def test_large_epsilons_have_4096_buckets() -> None:
    for epsilon in (8.4, 16.0, 44.0, 800.0):
        mechanism = LocalHashing.from_epsilon(100, epsilon)
        assert (mechanism.g, mechanism.width) == (4096, 32)
        assert mechanism.support.other < 1e-3


@pytest.mark.parametrize(("epsilon", "k"), [(1.0, 9), (3.0, 5)])
def test_intervals_cover_at_their_confidence(epsilon: float, k: int) -> None:
    mechanism = LocalHashing.from_epsilon(k, epsilon)
    x = [v for v in range(k) for _ in range(40 + 10 * v)]
    assert intervals_cover(mechanism, x, 3, b"coverage of hashing intervals...")


@given(st.integers(2, 2**32), st.floats(1e-6, 16))
def test_reported_epsilon_is_at_most_the_requested(k: int, epsilon: float) -> None:
    mechanism = LocalHashing.from_epsilon(k, epsilon)
    assert 0 < mechanism.epsilon <= epsilon
    assert epsilon - mechanism.epsilon < 1e-9
    assert mechanism.unit == "value"
    width = 32 if k <= 2**16 else 64
    assert mechanism.report_bits == 2 * width + (mechanism.g - 1).bit_length()


@pytest.mark.parametrize("epsilon", BAD_EPSILONS)
@pytest.mark.parametrize("g", [None, 4])
def test_o09_other_epsilons_are_refused(epsilon: Any, g: int | None) -> None:
    with pytest.raises(ParameterError, match="epsilon must"):
        LocalHashing.from_epsilon(10, epsilon, g)


@pytest.mark.parametrize("epsilon", [710, 800, 1e6])
def test_o09_a_huge_epsilon_reports_the_bucket_itself(epsilon: float) -> None:
    mechanism = LocalHashing.from_epsilon(10, epsilon)
    x = np.arange(10_000) % 10
    reports = mechanism.perturb(x, rng=Prg(b"a huge epsilon, seed of 32 bytes"))
    own = mechanism._bucket(reports["a"].copy(), reports["b"].copy(), x.astype(np.uint32))
    assert np.array_equal(own, reports["y"])  # another one has probability 2^-64
    result = mechanism.estimate(reports)
    assert np.all(np.abs(result.value - 1000) < 8 * np.sqrt(10_000 / 4096))
    assert np.all(np.isfinite(result.variance))


def test_o09_a_tiny_epsilon_is_finite() -> None:
    for epsilon in (MIN_EPSILON, 1e-12):
        mechanism = LocalHashing.from_epsilon(100, epsilon)
        result = mechanism.estimate(mechanism.perturb(np.arange(1000) % 100))
        assert np.all(np.isfinite(result.value))
        assert np.all(np.isfinite(result.variance))
    assert mechanism.variance_of(0, 1) == pytest.approx(4e24, rel=1e-3)
    with pytest.raises(ParameterError, match="fewer buckets"):
        LocalHashing.from_epsilon(100, MIN_EPSILON, 100)


@pytest.mark.parametrize("k", [1, 0, -5, 2**32 + 1, 10.0, True, "3"])
def test_a_k_outside_its_range_is_refused(k: Any) -> None:
    with pytest.raises(ParameterError, match="k must"):
        LocalHashing.from_epsilon(k, 1.0)
    with pytest.raises(ParameterError, match="k must"):
        LocalHashing(k, 4, ONE - 1)


@pytest.mark.parametrize("g", [1, 0, 2**32, 4.0, True])
def test_a_g_outside_its_range_is_refused(g: Any) -> None:
    with pytest.raises(ParameterError, match="g must"):
        LocalHashing.from_epsilon(10, 1.0, g)
    with pytest.raises(ParameterError, match="g must"):
        LocalHashing(10, g, ONE - 1)


@pytest.mark.parametrize("keep", [0, ONE // 4, ONE, 0.75, True])
def test_a_keep_outside_its_range_is_refused(keep: Any) -> None:
    with pytest.raises(ParameterError, match="keep must"):
        LocalHashing(10, 4, keep)


@pytest.mark.parametrize(
    ("k", "g", "width"), [(2**16 + 1, 4, 32), (10, 2**16, 32), (5, 3, 4), (4, 4, 4), (4, 2, 5)]
)
def test_words_too_short_for_the_hashes_are_refused(k: int, g: int, width: int) -> None:
    with pytest.raises(ParameterError, match="width must"):
        LocalHashing(k, g, ONE - 1, width)
    assert LocalHashing(k, g, ONE - 1).width in (32, 64)


@pytest.mark.parametrize(
    "x", [np.array([0, 5]), np.array([-1]), np.array([0.0]), np.array([[0]]), np.array([np.nan])]
)
def test_values_outside_the_domain_are_refused(x: NDArray[Any]) -> None:
    with pytest.raises(ParameterError, match="x must"):
        LocalHashing.from_epsilon(5, 1.0).perturb(x)


def test_an_estimate_needs_reports_of_the_mechanism() -> None:
    mechanism = LocalHashing(4, 3, ONE - 1, 4)
    good = mechanism.perturb(np.array([0, 1]))
    for reports in (np.array([8]), good["a"], good.reshape(1, 2), good.astype(mechanism_of(32))):
        with pytest.raises(ParameterError, match="reports must be records"):
            mechanism.estimate(reports)
    for field, value in (("a", 16), ("b", 16), ("y", 3)):
        spoilt = good.copy()
        spoilt[field][1] = value
        with pytest.raises(ParameterError, match="must lie"):
            mechanism.estimate(spoilt)
        with pytest.raises(ParameterError, match="must lie"):
            mechanism.pack(spoilt)
    with pytest.raises(ParameterError, match="at least one report"):
        mechanism.estimate(good[:0])


def mechanism_of(width: int) -> np.dtype[np.void]:
    return LocalHashing(4, 3, ONE - 1, width).dtype


@given(st.integers(2, 2**20), st.floats(0.5, 9), st.integers(0, 40), st.data())
def test_packed_reports_come_back(k: int, epsilon: float, n: int, data: st.DataObject) -> None:
    mechanism = LocalHashing.from_epsilon(k, epsilon)
    x = data.draw(st.lists(st.integers(0, k - 1), min_size=n, max_size=n))
    reports = mechanism.perturb(np.array(x, dtype=np.int64))
    packed = mechanism.pack(reports)
    assert len(packed) == -(-n * mechanism.report_bits // 8)
    back = mechanism.unpack(packed, (n,))
    assert back.dtype == reports.dtype == mechanism.dtype
    assert np.array_equal(back, reports)


@given(st.sampled_from([4, 6, 32]), st.binary(max_size=20), st.integers(0, 9))
def test_arbitrary_bytes_raise_only_wire_errors(width: int, data: bytes, n: int) -> None:
    mechanism = LocalHashing(4, 3, ONE - 1, width)
    try:
        reports = mechanism.unpack(data, n)
    except WireError:
        return
    assert mechanism.pack(reports) == data


def test_known_bytes_and_a_bucket_that_does_not_exist() -> None:
    mechanism = LocalHashing(4, 3, ONE - 1, 4)
    report = np.array([(0b1010, 0b0110, 2)], dtype=mechanism.dtype)
    assert mechanism.pack(report) == bytes([0b10100110, 0b10000000])
    with pytest.raises(WireError, match=r"bucket must lie in \[0, 3\)"):
        mechanism.unpack(bytes([0b10100110, 0b11000000]), 1)
    with pytest.raises(WireError, match="padding"):
        mechanism.unpack(bytes([0b10100110, 0b10000001]), 1)
    with pytest.raises(ParameterError, match="one axis"):
        mechanism.unpack(b"", (0, 3))
