"""The helpers of the tests keep their promises: bounds, faults, scripts and stored answers."""

import ast
import sys
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats as reference

from mpc.core.rng import Rng
from tests.support import faults, stats, vectors
from tests.support.script import ScriptEndError, ScriptRng, explore
from tests.vectors import make_transcripts

# --- stats


@given(st.integers(1, 10**6), st.floats(0, 1), st.sampled_from([1e-6, 1e-9, 1e-12]))
def test_a_binomial_interval_is_left_with_the_alarm_at_most_and_is_tight(
    n: int, p: float, alarm: float
) -> None:
    low, high = stats.binomial_interval(n, p, alarm)
    below, above = reference.binom.cdf(low - 1, n, p), reference.binom.sf(high, n, p)
    assert below <= alarm / 2 * (1 + 1e-6)
    assert above <= alarm / 2 * (1 + 1e-6)
    assert low == 0 or reference.binom.cdf(low, n, p) >= alarm / 2 * (1 - 1e-6)
    assert high == 0 or reference.binom.sf(high - 1, n, p) >= alarm / 2 * (1 - 1e-6)


def test_a_fair_coin_fits_and_a_bent_one_does_not() -> None:
    assert stats.fits_binomial(500_000, 10**6, 0.5)
    assert not stats.fits_binomial(504_000, 10**6, 0.5)
    assert stats.fits_binomial(0, 100, 0.0)
    assert not stats.fits_binomial(1, 100, 0.0)
    assert stats.fits_binomial(100, 100, 1.0)


def test_cells_fit_one_by_one() -> None:
    assert stats.fits_multinomial([25_000, 75_000], [0.25, 0.75])
    assert not stats.fits_multinomial([26_000, 74_000], [0.25, 0.75])
    with pytest.raises(ValueError, match="sum 1"):
        stats.fits_multinomial([1, 2], [0.25, 0.5])


def test_chi_square_is_pearsons() -> None:
    counts = [1040, 980, 980]
    assert stats.chi_square_p_value(counts) == pytest.approx(reference.chisquare(counts).pvalue)
    assert stats.chi_square_p_value(counts, [0.5, 0.25, 0.25]) < stats.ALARM
    with pytest.raises(ValueError, match="100 are needed"):
        stats.chi_square_p_value([50, 50])


def test_half_widths() -> None:
    assert stats.normal_half_width(2.0, 1e-9) == pytest.approx(2 * 6.109410205)
    wide = stats.hoeffding_half_width(10**4, 1.0, 1e-9)
    assert 2 * np.exp(-2 * 10**4 * wide**2) == pytest.approx(1e-9)


@pytest.mark.parametrize("alarm", [0, -1e-9, 0.01, float("nan")])
def test_no_bound_is_given_for_a_careless_alarm(alarm: float) -> None:
    for bound in (
        lambda: stats.binomial_interval(10, 0.5, alarm),
        lambda: stats.normal_half_width(1.0, alarm),
        lambda: stats.hoeffding_half_width(10, 1.0, alarm),
    ):
        with pytest.raises(ValueError, match="false-alarm rate"):
            bound()


# --- scripts


def test_a_script_is_read_in_order_and_ends() -> None:
    rng = ScriptRng([1, 258, 3])
    assert rng.words((), np.uint8) == 1
    assert rng.words((1, 1), np.uint16).tolist() == [[258]]
    assert rng.left == 1
    with pytest.raises(ScriptEndError):
        rng.words(2, np.uint8)


def test_explore_gives_the_law_of_a_kernel_that_may_go_on() -> None:
    def first_nonzero(rng: Rng) -> int:
        return next(v for v in iter(lambda: int(rng.words((), np.uint8)), None) if v)

    law, left = explore(first_nonzero, 3, Fraction(1, 1000))
    assert left == Fraction(1, 3**7)
    assert law == {1: (1 - left) / 2, 2: (1 - left) / 2}


# --- faults

MESSAGES = [b"a", b"bc", b"bc"]


def test_faults_do_what_they_are_called() -> None:
    assert faults.drop(MESSAGES, 0) == [b"bc", b"bc"]
    assert faults.duplicate(MESSAGES, 0) == [b"a", b"a", b"bc", b"bc"]
    assert faults.reorder(MESSAGES, 0, 1) == [b"bc", b"a", b"bc"]
    assert faults.replace(MESSAGES, 2, b"d") == [b"a", b"bc", b"d"]
    assert faults.truncate(b"abc", 2) == b"ab"
    assert faults.append(b"abc") == b"abc\x00"
    assert faults.flip_bit(b"\x00\x00", 9) == b"\x00\x02"
    assert list(faults.truncations(b"ab")) == [b"", b"a"]
    assert len(set(faults.flips(b"ab"))) == 16
    assert MESSAGES == [b"a", b"bc", b"bc"]


@pytest.mark.parametrize(
    "fault",
    [
        lambda: faults.drop(MESSAGES, 3),
        lambda: faults.duplicate(MESSAGES, 3),
        lambda: faults.reorder(MESSAGES, 1, 2),
        lambda: faults.replace(MESSAGES, 0, b"a"),
        lambda: faults.truncate(b"abc", 3),
        lambda: faults.truncate(b"", 0),
        lambda: faults.append(b"abc", b""),
        lambda: faults.flip_bit(b"", 0),
    ],
)
def test_a_fault_that_would_change_nothing_is_refused(fault: Callable[[], object]) -> None:
    with pytest.raises((ValueError, IndexError)):
        fault()


# --- stored answers


def test_the_transcripts_are_what_their_script_writes() -> None:
    assert vectors.load("transcripts") == make_transcripts.build()


def test_the_script_of_the_transcripts_imports_nothing_of_ours() -> None:
    source = (vectors.FOLDER / "make_transcripts.py").read_text(encoding="utf-8")
    found = {
        name.split(".")[0]
        for node in ast.walk(ast.parse(source))
        for name in (
            [alias.name for alias in node.names]
            if isinstance(node, ast.Import)
            else [node.module or ""]
            if isinstance(node, ast.ImportFrom)
            else []
        )
    }
    assert found <= {*sys.stdlib_module_names, "cryptography"}


@pytest.mark.parametrize("path", sorted(vectors.FOLDER.glob("*.json")), ids=lambda path: path.stem)
def test_every_file_of_answers_names_its_source(path: Path) -> None:
    assert len(vectors.load(path.stem)["source"]) > 10
    with pytest.raises(KeyError):
        vectors.cases(path.stem, "no such group")
