"""Tables: shapes, outcomes, and what a law must give."""

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import pytest

from ldp.exact_exp import Enclosure
from ldp.exact_table import PIECE, ExactTable, exact_table
from mpc.core.prg import Prg
from tests.ldp.table_walk import CELLS, Script, boundaries, index_of, masses
from tests.support.stats import fits_multinomial


@dataclass(frozen=True)
class Listed:
    """A law on finitely many outcomes with given boundaries."""

    edges: tuple[Fraction, ...]
    slack: int = 0  # how many units of the last bit the enclosures are too wide, on either side

    def enclosures(self, bits: int) -> Iterator[Enclosure]:
        for edge in self.edges:
            scaled = edge * 2**bits
            low, high = int(scaled), -int(-scaled // 1)
            yield low - self.slack, high + self.slack


@dataclass(frozen=True)
class Halves:
    """P(k) = 2^-(k+1) for all k: a law whose boundaries are all exact."""

    def enclosures(self, bits: int) -> Iterator[Enclosure]:
        power = 0
        while True:
            power += 1
            if power > bits:
                yield (1 << bits) - 1, 1 << bits
            else:
                edge = (1 << bits) - (1 << bits - power)
                yield edge, edge


THIRDS = Listed((Fraction(1, 3), Fraction(2, 3)))
UNEVEN = Listed((Fraction(1, 10**30), Fraction(1, 7), Fraction(1, 7) + Fraction(1, 2**70)))


@pytest.mark.parametrize("law", [THIRDS, UNEVEN, Listed((Fraction(3, 8), Fraction(1, 2)))])
def test_every_boundary_of_a_finite_law_is_where_it_should_be(law: Listed) -> None:
    found = boundaries(ExactTable(law), signed=False)
    assert len(found) == len(law.edges)
    for edge, (low, high) in zip(law.edges, found, strict=True):
        assert low <= edge <= high
        assert high - low <= Fraction(CELLS, 2**64)


def test_the_masses_of_halves() -> None:
    found = masses(boundaries(ExactTable(Halves()), signed=False))
    assert len(found) >= 62
    for k, (low, high) in enumerate(found):
        assert low <= Fraction(1, 2 ** (k + 1)) <= high


def test_a_law_with_one_outcome() -> None:
    assert not ExactTable(Listed(())).draw(1000, Prg(bytes(32))).any()


def test_signed_outcomes_alternate() -> None:
    law = Listed(tuple(Fraction(k, 8) for k in range(1, 8)))
    table = ExactTable(law, signed=True)
    drawn = table.draw(10_000, Prg(bytes(32)))
    assert sorted(set(drawn.tolist())) == [-4, -3, -2, -1, 0, 1, 2, 3]
    plain = ExactTable(law).draw(10_000, Prg(bytes(32)))
    assert np.array_equal(index_of(drawn), plain)


def test_a_piece_is_drawn_like_its_parts_put_together() -> None:
    table = ExactTable(THIRDS)
    assert table.draw(0, Prg(bytes(32))).shape == (0,)
    n = 2 * PIECE + 5
    counts = np.bincount(table.draw(n, Prg(b"three thirds of two pieces and 5")), minlength=3)
    assert counts.sum() == n
    assert fits_multinomial(counts, [1 / 3] * 3)


def test_a_draw_takes_sixteen_bits_for_nearly_all() -> None:
    """Ties aside: two boundaries at thirds and the last cell leave three prefixes open."""
    table = ExactTable(THIRDS)
    assert table.open_prefixes.tolist() == [0x5555, 0xAAAA, 0xFFFF]
    script = Script(0x1234)
    table.fill(np.empty(10, dtype=np.int64), script)
    assert script.used == 1


def test_equal_laws_share_a_table() -> None:
    assert exact_table(Listed((Fraction(1, 3),))) is exact_table(Listed((Fraction(1, 3),)))
    assert exact_table(Halves()) is not exact_table(Halves(), signed=True)
