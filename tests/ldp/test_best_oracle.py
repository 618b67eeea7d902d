"""The choice of an oracle: known regimes, the two rules, and the table beside a simulation."""

import math
from typing import Any, Literal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ldp.best_oracle import BestOracle, best_oracle
from ldp.subset_selection import SubsetSelection
from ldp.thresholds import MIN_EPSILON
from mpc.core.errors import ParameterError
from tests.ldp.oracle_laws import BAD_EPSILONS
from tests.ldp.sent_laws import mean_square_error

KARY, HASHING, OUE = "k-ary randomized response", "local hashing", "optimized unary encoding"
NAMES = {
    KARY,
    HASHING,
    OUE,
    "subset selection",
    "symmetric unary encoding",
    "Hadamard response",
    "dBitFlip, one bucket",
}


def errors(choice: BestOracle) -> dict[str, float]:
    return {row.name: row.standard_error for row in choice.table}


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 2.0, 3.0])
def test_k_ary_beats_hashing_and_unary_encoding_below_3_e_epsilon_plus_2(epsilon: float) -> None:
    """Wang et al., section 5. Local hashing has integer buckets, which moves it a little."""
    border = 3 * math.exp(epsilon) + 2
    for k in range(2, math.ceil(2 * border)):
        found = errors(best_oracle(k, epsilon, 1000))
        assert (found[KARY] < found[OUE]) == (k < border)
        assert found[HASHING] >= found[OUE] * (1 - 1e-6)
        if abs(k - border) > 2:
            assert (found[KARY] < found[HASHING]) == (k < border)


@given(st.integers(2, 400), st.floats(0.2, 5))
def test_the_least_variance_is_k_arys_or_subset_selections(k: int, epsilon: float) -> None:
    """Ye and Barg: their sets have the least error of all, and sets of one are k-ary.

    Their size counts what holders add too; without it the next smaller one may be a little better.
    """
    choice = best_oracle(k, epsilon, 1000)
    size = SubsetSelection.from_epsilon(k, epsilon).size
    assert choice.name in (KARY, "subset selection")
    if size == 1 or size > 5:
        assert choice.name == (KARY if size == 1 else "subset selection")


@given(
    st.integers(2, 2**32),
    st.floats(1e-3, 40),
    st.integers(1, 2**50),
    st.sampled_from([1.0, 1.25, 9]),
)
def test_the_rules_order_the_whole_table(k: int, epsilon: float, n: int, within: float) -> None:
    by_variance = best_oracle(k, epsilon, n)
    by_bytes = best_oracle(k, epsilon, n, "bytes", within=within)
    assert set(errors(by_variance)) == set(errors(by_bytes)) == NAMES
    variances = [row.standard_error for row in by_variance.table]
    assert variances == sorted(variances)
    limit = variances[0] * math.sqrt(within)
    close = [row for row in by_bytes.table if row.standard_error <= limit]
    assert by_bytes.table[: len(close)] == tuple(close)
    assert [row.report_bits for row in close] == sorted(row.report_bits for row in close)
    rest = [row.standard_error for row in by_bytes.table[len(close) :]]
    assert rest == sorted(rest)
    for row in by_variance.table:
        assert row.mechanism.k == k
        assert row.mechanism.epsilon <= epsilon
        assert row.report_bits == row.mechanism.report_bits
        assert row.standard_error**2 == pytest.approx(float(row.mechanism.variance_of(0, n)))


def test_short_reports_that_are_nearly_as_good_win_by_bytes() -> None:
    assert best_oracle(10_000, 1.0, 1000).name == "subset selection"
    assert best_oracle(10_000, 1.0, 1000, "bytes").name == HASHING
    wider = best_oracle(10_000, 1.0, 1000, "bytes", within=1.3)
    assert wider.name == "Hadamard response"
    assert wider.mechanism is wider.table[0].mechanism
    assert wider.mechanism.report_bits == 14


def test_of_equal_oracles_the_shorter_report_wins() -> None:
    """Sets of one value are k-ary randomized response, in longer bytes or in equally long ones."""
    for k in (2, 3, 5):
        choice = best_oracle(k, 2.0, 1000)
        assert choice.name == KARY
        assert choice.table[1].name == "subset selection"
        assert choice.table[1].standard_error == choice.table[0].standard_error


@pytest.mark.parametrize("epsilon", [1.0, 3.0])
def test_the_table_is_what_a_simulation_gives(epsilon: float) -> None:
    """2,000 runs: a mean square has a relative standard error of 3.2 %; 7 of them are allowed."""
    choice = best_oracle(16, epsilon, 300)
    x = np.repeat(np.arange(1, 16), 20)
    for i, row in enumerate(choice.table):
        seed = f"{row.name:.<32}".encode()
        found = mean_square_error(row.mechanism, x.tolist(), 2_000, seed)[0]
        assert found / row.standard_error**2 == pytest.approx(1, abs=0.22)
        # A twin whose errors are those of another row, where these differ enough.
        for other in choice.table[:i]:
            if other.standard_error < 0.8 * row.standard_error:
                assert found / other.standard_error**2 != pytest.approx(1, abs=0.22)


def test_the_standard_error_grows_with_the_root_of_the_users() -> None:
    few, many = best_oracle(50, 1.0, 100), best_oracle(50, 1.0, 10_000)
    for name, error in errors(few).items():
        assert errors(many)[name] == pytest.approx(10 * error)


def test_oracles_without_a_coin_for_a_tiny_epsilon_are_left_out() -> None:
    left = errors(best_oracle(10**6, MIN_EPSILON, 1000))
    assert "Hadamard response" in left
    assert KARY not in left


def test_the_table_is_readable() -> None:
    lines = str(best_oracle(100, 1.0, 10_000)).splitlines()
    assert len(lines) == 8
    assert lines[0].split() == ["oracle", "standard", "error", "bits", "a", "report"]
    assert lines[1].startswith("subset selection")
    assert len({len(line) for line in lines}) == 1


@pytest.mark.parametrize("epsilon", BAD_EPSILONS)
def test_o09_other_epsilons_are_refused(epsilon: Any) -> None:
    with pytest.raises(ParameterError, match="epsilon must"):
        best_oracle(10, epsilon, 100)


def test_other_arguments_are_refused() -> None:
    for k in (1, 2**32 + 1, 2.0, True):
        with pytest.raises(ParameterError, match="k must"):
            best_oracle(k, 1.0, 100)  # type: ignore[arg-type]
    for n in (0, 2**53, 1.0):
        with pytest.raises(ParameterError, match="n must"):
            best_oracle(10, 1.0, n)  # type: ignore[arg-type]
    with pytest.raises(ParameterError, match="by must"):
        best_oracle(10, 1.0, 100, "speed")  # type: ignore[arg-type]
    for within in (0.9, math.nan, math.inf):
        with pytest.raises(ParameterError, match="within must"):
            best_oracle(10, 1.0, 100, "bytes", within=within)


@pytest.mark.parametrize("epsilon", [1e-12, 710, 800])
def test_o09_extreme_epsilons_have_a_finite_table(epsilon: float) -> None:
    rules: tuple[Literal["variance", "bytes"], ...] = ("variance", "bytes")
    for by in rules:
        table = best_oracle(100, epsilon, 1000, by).table
        assert all(math.isfinite(row.standard_error) for row in table)
