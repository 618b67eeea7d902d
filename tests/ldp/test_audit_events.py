"""What an audit looks at: views, numbers of a report, intervals, events in words."""

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from ldp.audit_events import Bins, Event, choose
from ldp.audit_views import Statistic, Views, as_views, statistics
from mpc.core.errors import ParameterError
from mpc.core.prg import Prg

ERROR = 1e-3


def value_of(name: str, views: Views) -> NDArray[np.int64]:
    (found,) = (one for one in statistics(views, views) if one.name == name)
    return found.of(views)


def names(reports: NDArray[Any]) -> list[str]:
    views = as_views(reports, len(reports))
    return [statistic.name for statistic in statistics(views, views)]


def chosen(one: object, other: object) -> tuple[str, str]:
    pair = [as_views(np.asarray(part), len(np.asarray(part))) for part in (one, other)]
    forward, backward = choose(pair[0], pair[1], ERROR, 0.0)
    return str(forward), str(backward)


# Views


def test_records_become_a_view_for_each_field_and_bools_numbers() -> None:
    records = np.zeros(5, dtype=[("a", np.uint32), ("bits", np.bool_, (3,))])
    views = as_views(records, 5)
    assert {name: view.shape for name, view in views.items()} == {
        "report.a": (5,),
        "report.bits": (5, 3),
    }
    assert views["report.bits"].dtype == np.uint8
    assert as_views({"x": np.zeros((4, 2, 3))}, 4)["x"].shape == (4, 6)


@pytest.mark.parametrize(
    "reports",
    [
        pytest.param(np.zeros(4), id="too few"),
        pytest.param(np.array(["a"] * 5), id="text"),
        pytest.param(np.zeros(5, dtype=complex), id="complex"),
        pytest.param(np.zeros(5, dtype=np.longdouble), id="more than 64 bits"),
        pytest.param(np.float64(0), id="no axis"),
    ],
)
def test_what_is_no_report_of_numbers_is_refused(reports: NDArray[np.float64]) -> None:
    with pytest.raises(ParameterError, match="must hold 5 reports of numbers"):
        as_views(reports, 5)


# Statistics


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_the_lowest_set_bit_of_a_double_is_exact(x: float) -> None:
    views = as_views(np.concatenate([[x], np.linspace(0.1, 1, 100)]), 101)
    place = int(value_of("exponent of the lowest set bit of report (2000 for 0)", views)[0])
    if x == 0:
        assert place == 2000
    else:
        odd = Fraction(x) / Fraction(2) ** place
        assert odd.denominator == 1
        assert odd.numerator % 2 == 1


@given(st.integers(-(2**63), 2**63 - 1))
def test_the_lowest_set_bit_of_an_integer_is_exact(x: int) -> None:
    views = as_views(np.concatenate([[x], np.arange(100)]).astype(np.int64), 101)
    place = int(value_of("exponent of the lowest set bit of report (2000 for 0)", views)[0])
    assert place == (2000 if x == 0 else (x & -x).bit_length() - 1)


def test_what_is_no_number_has_a_kind_of_its_own() -> None:
    special = np.array([1.0, -0.0, 0.0, math.nan, math.inf, -math.inf])
    assert value_of("kind of report", as_views(special, 6)).tolist() == [0, 1, 0, 2, 3, 3]


def test_few_values_are_looked_at_whole_and_many_in_their_bits_too() -> None:
    assert names(np.arange(200) % 2) == ["report"]
    assert names(np.arange(200)) == [
        "report",
        "report modulo 16",
        "exponent of the lowest set bit of report (2000 for 0)",
    ]
    assert names(np.linspace(0, 1, 200))[1:] == [
        "mantissa of report modulo 16",
        "exponent of the lowest set bit of report (2000 for 0)",
        "kind of report",
    ]


def test_every_position_is_looked_at_alone_together_and_summed() -> None:
    bits = np.arange(40).reshape(20, 2) % 3 % 2
    assert names(bits) == [
        "report[0]",
        "report[1]",
        "number of 1s in report",
        "(report[0], report[1])",
    ]
    assert "sum of report" in names(np.arange(40.0).reshape(20, 2))


def test_of_many_positions_those_that_differ_most_are_looked_at() -> None:
    one = Prg(bytes(32)).bernoulli(1 << 63, (2000, 500))
    other = Prg(b"1" * 32).bernoulli(1 << 63, (2000, 500))
    one[:, 321] = True
    forward, _ = chosen(one, other)
    assert forward == "report[321] is 1"


# Bins


@given(st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=40))
def test_each_of_few_integers_has_a_code_of_its_own(values: list[int]) -> None:
    array = np.array(values, dtype=np.int64)
    bins = Bins.between(array, array)
    codes = bins.encode(array)
    assert len(set(codes.tolist())) == len(set(values))
    for value, code in zip(values, codes.tolist(), strict=True):
        assert value == 2**63 - 1 or bins.value(code) == value


@given(st.lists(st.floats(width=32), min_size=1, max_size=300))
def test_every_double_has_a_code_and_nan_has_the_last(values: list[float]) -> None:
    array = np.array(values)
    bins = Bins.between(array, array)
    codes = bins.encode(array)
    assert codes.min() >= 0
    assert ((codes == bins.size - 1) == np.isnan(array)).all()
    assert bins.count(array).sum() == len(values)
    order = np.argsort(array)
    assert (np.diff(codes[order]) >= 0).all()


def test_words_of_intervals() -> None:
    whole = Bins(np.array([3, 4, 7]))
    assert [whole.words(code, code) for code in range(5)] == [
        "is below 3",
        "is 3",
        "is 4 to 6",
        "is at least 7",
        "is NaN",
    ]
    assert whole.words(0, 3) == "is any number"
    real = Bins(np.array([0.5, np.nextafter(0.5, 1), 2.0]))
    assert real.words(1, 1) == "is 0.5"
    assert real.words(2, 2) == "is in [0.5, 2)"


def test_an_event_of_many_intervals_does_not_list_them() -> None:
    statistic = Statistic("report", lambda views: views["report"])
    bins = Bins(np.arange(0, 100, 5))
    assert str(Event(statistic, bins, tuple(range(1, 19, 2)))).endswith("in one of 9 intervals")
    assert str(Event(statistic, bins, (0, 2, 3, 9))) == (
        "report is below 0, is 5 to 14 or is 40 to 44"
    )


# The choice


def test_the_choice_finds_a_value_a_tail_and_a_set() -> None:
    n = 3000
    coins = Prg(bytes(32)).uniform(10, n, np.uint8)
    # Values 7 and up are moved to 0, and 3 and 4 to 5.
    assert chosen(coins, np.where(coins >= 7, 0, coins))[0] == "report is at least 7"
    assert chosen(coins, np.where(coins == 4, 5, coins))[0] == "report is 4"
    assert chosen(coins, np.where((coins == 1) | (coins == 4), 5, coins))[0] == "report is 1 or 4"


def test_the_choice_finds_what_only_two_positions_show_together() -> None:
    first = Prg(bytes(32)).uniform(3, 3000, np.uint8)
    one, other = (np.stack([first, (first + step) % 3], axis=1) for step in (1, 2))
    assert chosen(one, other) == (
        "(report[0], report[1]) is (0, 1), (1, 2) or (2, 0)",
        "(report[0], report[1]) is (0, 2), (1, 0) or (2, 1)",
    )


def test_a_sign_of_zero_and_a_nan_are_found() -> None:
    zeros = np.zeros(1000)
    signed, missing = zeros.copy(), zeros.copy()
    signed[::2], missing[::2] = -0.0, math.nan
    assert chosen(signed, zeros)[0] == "kind of report is -0.0"
    assert chosen(missing, zeros)[0] in ("report is NaN", "kind of report is NaN")


def test_reports_without_anything_in_them_are_refused() -> None:
    empty = as_views(np.zeros((10, 0)), 10)
    with pytest.raises(ParameterError, match="nothing to look at"):
        choose(empty, empty, ERROR, 0.0)
