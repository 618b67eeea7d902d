"""Multi-exponentiation against plain powers: every window, every group, every kind of exponent."""

from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import gmpy2
import pytest
from gmpy2 import mpz, powmod
from hypothesis import given
from hypothesis import strategies as st

from mpc.paillier import multi_exponentiation as kernels
from mpc.paillier.multi_exponentiation import by_buckets, by_subsets, multi_exponentiation
from tests.mpc.paillier.stored_keys import toy_key

MODULUS = toy_key().public.n_squared
WIDTHS = range(1, 13)

UNITS = st.integers(1, int(MODULUS) - 1).filter(lambda x: x % 23 and x % 31).map(mpz)


def plain(bases: list[mpz], row: list[int], modulus: mpz = MODULUS) -> mpz:
    product = mpz(1)
    for base, weight in zip(bases, row, strict=True):
        product = product * powmod(base, weight, modulus) % modulus
    return product


def weights(bits: int) -> st.SearchStrategy[int]:
    edges = [0, 1, -1, 2**bits - 1, 2**bits, -(2**bits), 1 - 2**bits, 2 ** (bits // 2)]
    return st.sampled_from(edges) | st.integers(-(2**bits), 2**bits)


@st.composite
def problems(draw: st.DrawFn) -> tuple[list[mpz], list[list[int]]]:
    columns = draw(st.integers(0, 9))
    weight = weights(draw(st.sampled_from([1, 2, 7, 8, 21, 64, 130])))
    bases = draw(st.lists(UNITS, min_size=columns, max_size=columns))
    row = st.lists(weight, min_size=columns, max_size=columns)
    return bases, draw(st.lists(row, max_size=4))


@given(problems())
def test_every_window_and_every_group_give_the_plain_powers(
    problem: tuple[list[mpz], list[list[int]]],
) -> None:
    bases, rows = problem
    expected = [plain(bases, row) for row in rows]
    assert multi_exponentiation(bases, rows, MODULUS) == expected
    for width in WIDTHS:
        assert [by_buckets(bases, row, MODULUS, width) for row in rows] == expected
        if rows:
            assert by_subsets(bases, rows, MODULUS, width) == expected


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("bits", range(1, 27))
def test_carries_at_every_boundary_of_the_digits(width: int, bits: int) -> None:
    bases = [mpz(2), mpz(3), mpz(5), mpz(7)]
    row = [2**bits - 1, 1 - 2**bits, 2 ** (bits - 1), -(2 ** (bits - 1)) - 1]
    expected = plain(bases, row)
    assert by_buckets(bases, row, MODULUS, width) == expected
    assert by_subsets(bases, [row], MODULUS, width) == [expected]


@pytest.mark.parametrize("weight", [2**3000 + 7, -(2**3000) - 7, 2**64, -(2**63)])
def test_huge_weights(weight: int) -> None:
    bases = [mpz(2), mpz(3)]
    assert multi_exponentiation(bases, [[weight, 1]], MODULUS) == [plain(bases, [weight, 1])]


def test_zero_weights_and_empty_rows_give_one() -> None:
    bases = [mpz(2), mpz(3)]
    assert multi_exponentiation(bases, [[0, 0], [0, 0]], MODULUS) == [1, 1]
    assert multi_exponentiation([], [[], []], MODULUS) == [1, 1]
    assert multi_exponentiation(bases, [], MODULUS) == []


def test_bases_that_are_equal_and_exponents_that_cancel() -> None:
    bases = [mpz(5)] * 40
    row = [(-1) ** j * 12345 for j in range(40)]
    assert multi_exponentiation(bases, [row], MODULUS) == [1]


class Counted:
    """A number modulo ``MODULUS`` that counts the products of two of its kind."""

    products = 0

    def __init__(self, value: mpz) -> None:
        self.value = value

    def __mul__(self, other: Any) -> "Counted":
        if not isinstance(other, Counted):
            return Counted(self.value * other)
        Counted.products += 1
        return Counted(self.value * other.value)

    __rmul__ = __mul__

    def __mod__(self, modulus: mpz) -> "Counted":
        return Counted(self.value % modulus)


def counted(columns: int, bits: int, window: int) -> int:
    """Products that one row of weights of both signs takes, squarings included."""
    state, row = 1, []
    for _ in range(columns):
        state = state * 6364136223846793005 % 2**64
        row.append(max((state >> (63 - bits)) - 2**bits, 1 - 2**bits))
    bases = [Counted(mpz(2 + j % 7)) for j in range(columns)]
    Counted.products = 0
    inverse = SimpleNamespace(invert=lambda x, modulus: Counted(gmpy2.invert(x.value, modulus)))
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(kernels, "gmpy2", inverse)
        product: Any = by_buckets(bases, row, MODULUS, window)
    assert product.value == plain([base.value for base in bases], row)
    return Counted.products


def test_a_dot_product_takes_a_few_products_for_each_term() -> None:
    # Plain powers take about 30 for a weight of 21 bits.
    assert counted(1000, 21, 7) < 3.6 * 1000


@pytest.mark.parametrize(("columns", "bits"), [(10, 21), (100, 21), (1000, 21), (1000, 8)])
def test_the_count_that_chooses_windows_is_close_to_the_truth(columns: int, bits: int) -> None:
    windows = range(2, 10)
    true = {window: counted(columns, bits, window) for window in windows}
    guess = {w: kernels._bucket_cost(columns, bits, w) for w in windows}
    chosen = min(windows, key=guess.__getitem__)
    assert true[chosen] <= 1.15 * min(true.values())


def test_wide_matrices_share_tables_and_single_rows_do_not() -> None:
    def shares(columns: int, rows: int, bits: int) -> bool:
        one_by_one = rows * min(kernels._bucket_cost(columns, bits, w) for w in WIDTHS)
        return min(kernels._subset_cost(columns, rows, bits, g) for g in WIDTHS) < one_by_one

    assert not shares(1000, 1, 21)
    assert not shares(1000, 10, 21)
    assert shares(64, 64, 21)
    assert shares(1000, 200, 21)
    gains = [
        min(kernels._subset_cost(1000, rows, 21, g) for g in WIDTHS) / rows
        for rows in (10, 100, 1000)
    ]
    assert all(more < less for less, more in pairwise(gains))
