"""The table of a fixed base against the plain power, for every exponent and every length."""

from typing import Any

import gmpy2
import pytest
from gmpy2 import mpz
from hypothesis import given
from hypothesis import strategies as st

from mpc.core.errors import ParameterError
from mpc.paillier.fixed_base import FixedBase
from tests.mpc.paillier.stored_keys import private_key

LARGE = private_key(1024).public.n
TABLE = FixedBase(mpz(3), LARGE, 448)


@pytest.mark.parametrize("window", [1, 2, 3, 4, 6, 12])
@pytest.mark.parametrize(("base", "n"), [(2, 713), (712, 713), (713 * 713 - 1, 713), (5, 3)])
def test_every_exponent_of_twelve_bits_gives_the_plain_power(
    window: int, base: int, n: int
) -> None:
    table = FixedBase(mpz(base), mpz(n), 12, window)
    assert table.digits * table.window == table.bits == 12
    assert [table.power(e) for e in range(1 << 12)] == [pow(base, e, n * n) for e in range(1 << 12)]


def test_exponents_of_every_length_give_the_plain_power() -> None:
    for length in range(449):
        shortest, longest = 1 << length >> 1, (1 << length) - 1
        for exponent in (shortest, longest, longest // 3 * 2):
            assert TABLE.power(exponent) == gmpy2.powmod(3, exponent, LARGE**2)


@given(st.integers(0, 2**448 - 1))
def test_any_exponent_gives_the_plain_power(exponent: int) -> None:
    assert TABLE.power(exponent) == pow(3, exponent, int(LARGE) ** 2)


@given(st.binary(min_size=56, max_size=56))
def test_digits_are_those_of_the_exponent_lowest_first(digits: bytes) -> None:
    assert TABLE.power_of_digits(list(digits)) == TABLE.power(int.from_bytes(digits, "little"))


@given(st.integers(), st.integers(2, 1000), st.integers(0, 255))
def test_any_base_is_reduced_first(base: int, n: int, exponent: int) -> None:
    assert FixedBase(mpz(base), mpz(n), 8, 2).power(exponent) == pow(base, exponent, n * n)


@pytest.mark.parametrize("exponent", [-1, 1 << 448, 1 << 1000])
def test_an_exponent_outside_the_table_is_refused_unquoted(exponent: int) -> None:
    with pytest.raises(ParameterError, match=r"\[0, 2\^448\)$") as refused:
        TABLE.power(exponent)
    assert str(exponent) not in str(refused.value).replace("[0, 2^448)", "")


@pytest.mark.parametrize("count", [0, 55, 57])
def test_too_few_or_too_many_digits_are_refused(count: int) -> None:
    with pytest.raises(ValueError, match="zip"):
        TABLE.power_of_digits([1] * count)


@pytest.mark.parametrize(
    ("bits", "window"), [(448, 0), (448, 17), (448, 9), (0, 1), (-8, 8), (448, 8.0), (448, True)]
)
def test_a_table_of_impossible_shape_is_refused(bits: Any, window: Any) -> None:
    with pytest.raises(ParameterError):
        FixedBase(mpz(3), mpz(713), bits, window)
