"""Tables keep to their law at every depth: ties, unbounded tails, and what a cut tail shows."""

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from itertools import islice

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ldp.exact_exp import Enclosure
from ldp.exact_table import ExactTable
from mpc.core.prg import Prg
from tests.ldp.table_walk import Script, boundaries, real
from tests.ldp.test_exact_table import THIRDS, Halves, Listed

HALVES = ExactTable(Halves())


@pytest.mark.parametrize("depth", [66, 128, 129, 200, 1000])
def test_a_tie_is_decided_by_the_bit_that_differs(depth: int) -> None:
    """1/3 is .010101... in binary: the first digit that departs from it decides, however late."""
    table = ExactTable(THIRDS)
    third = "01" * (depth // 2)
    assert real(table, third[:-1] + "0") == 0  # below 1/3
    assert real(table, third + "1") == 1  # above it
    two_thirds = "10" * (depth // 2)
    assert real(table, two_thirds[:-2] + "01") == 1
    assert real(table, two_thirds + "11") == 2


@given(st.fractions(0, 1), st.integers(65, 300))
def test_a_boundary_anywhere_is_met_exactly(edge: Fraction, depth: int) -> None:
    table = ExactTable(Listed((edge,)))
    cell = int(edge * 2**depth)
    for step in (-2, -1, 1, 2):
        if 0 <= cell + step < 2**depth:
            expected = int(Fraction(cell + step, 2**depth) >= edge)
            assert real(table, f"{cell + step:0{depth}b}") == expected


@pytest.mark.parametrize("slack", [1, 2**20, 2**63, 2**64, 2**65])
def test_loose_enclosures_cost_time_and_no_exactness(slack: int) -> None:
    """The law of the draws depends on the boundaries alone, not on how well they are enclosed."""
    loose = ExactTable(Listed(THIRDS.edges, slack))
    for edge, (low, high) in zip(THIRDS.edges, boundaries(loose, signed=False), strict=True):
        assert low <= edge <= high + 2 * Fraction(slack, 2**128)
    for bits in ("01" * 100 + "1", "01" * 100 + "00", "10" * 100 + "11", "10" * 100 + "0"):
        assert real(loose, bits) == real(ExactTable(THIRDS), bits)


@pytest.mark.parametrize("outcome", [0, 1, 14, 15, 16, 17, 62, 63, 64, 65, 127, 128, 129, 1000])
def test_no_tail_is_cut_off(outcome: int) -> None:
    """Outcome k of the halving law takes k ones and a zero, through every level of the sampler."""
    assert real(HALVES, "1" * outcome + "0") == outcome


@dataclass(frozen=True)
class Cut:
    """The broken twin: the law of halves up to what 64 bits tell apart, the rest in one outcome."""

    def enclosures(self, bits: int) -> Iterator[Enclosure]:
        return islice(Halves().enclosures(bits), 64)


def test_a_cut_tail_is_seen_by_the_exact_walk_and_by_no_sample() -> None:
    twin = ExactTable(Cut())
    assert real(twin, "1" * 1000 + "0") == 64
    assert real(HALVES, "1" * 1000 + "0") == 1000
    # With noise that ends at 64, an answer of 64 + 1 proves that the secret was not 0: an event
    # of probability 2^-64 that no epsilon covers. A million draws from both are the same.
    coins = b"a million draws from either table"[:32]
    assert np.array_equal(twin.draw(10**6, Prg(coins)), HALVES.draw(10**6, Prg(coins)))


def test_entries_of_a_batch_do_not_touch_each_other() -> None:
    """Open and settled entries side by side, in an order that must be kept."""
    table = ExactTable(THIRDS)
    out = np.empty(5, dtype=np.int64)
    prefixes = [0xAAAA, 0x0001, 0x5555, 0xFFF0, 0xAAAA]
    words = [2**64 - 1, 0, 0]  # for the first, third and fifth
    table.fill(out, Script(prefixes, words))
    assert out.tolist() == [2, 0, 0, 2, 1]


def test_outcomes_beyond_a_limit_count_as_it() -> None:
    limited = ExactTable(Halves(), limit=100)
    assert [real(limited, "1" * k + "0") for k in (99, 100, 101, 500)] == [99, 100, 100, 100]
    signed = ExactTable(Halves(), signed=True, limit=50)
    # Outcomes 99 and 101 stand for -50 and -51, outcomes 100 and 102 for 50 and 51.
    found = [real(signed, "1" * k + "0") for k in (98, 99, 100, 101, 102, 501, 502)]
    assert found == [49, -50, 50, -50, 50, -50, 50]
