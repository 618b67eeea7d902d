"""The range check of integers: what counts as one, and what the refusal says."""

from typing import Any

import numpy as np
import pytest

from mpc.core.checks import integer
from mpc.core.errors import ParameterError


@pytest.mark.parametrize(
    "value", [3, np.int8(3), np.uint64(3), np.array(3), np.array(3, dtype=np.int16)]
)
def test_every_kind_of_integer_becomes_a_python_int(value: Any) -> None:
    assert type(integer("n", value, 3, 3)) is int
    assert integer("n", value, 3, 3) == 3


@pytest.mark.parametrize(
    "value",
    [True, np.True_, 2.0, np.float64(2), "2", b"2", None, [2], np.array([2]), np.array(2.0)],
    ids=repr,
)
def test_what_is_no_integer_is_refused_by_its_type(value: Any) -> None:
    with pytest.raises(ParameterError, match=f"n must be an integer, got {type(value).__name__}"):
        integer("n", value, 0, 5)


@pytest.mark.parametrize(
    ("value", "low", "high", "text"),
    [
        (6, 0, 5, "n must lie in [0, 5], got 6"),
        (-1, 0, 2**64 - 1, "n must lie in [0, 2^64 - 1], got -1"),
        (2**64, 1, 2**63, "n must lie in [1, 2^63], got 2^64"),
        (-(2**63), -(2**62), 0, "n must lie in [-2^62, 0], got -2^63"),
        (1 - 2**20, 0, 65535, "n must lie in [0, 65535], got -(2^20 - 1)"),
        (70000, 0, 65535, "n must lie in [0, 65535], got 70000"),
    ],
)
def test_the_refusal_names_value_and_range(value: int, low: int, high: int, text: str) -> None:
    with pytest.raises(ParameterError) as caught:
        integer("n", value, low, high)
    assert str(caught.value) == text


def test_an_integer_too_long_to_print_is_refused_by_its_size() -> None:
    with pytest.raises(ParameterError, match="got an integer of 20001 bits"):
        integer("n", 3 * 2**19999, 0, 1)
