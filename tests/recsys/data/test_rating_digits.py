"""Digits by whole columns: what Python's int and float read, or nothing at all."""

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from recsys.data.rating_digits import decimals, fields, whole_numbers

PLAIN = re.compile(r"(?=.*[0-9])[0-9]*\.?[0-9]*", re.ASCII)

numbers = st.text("0123456789.", min_size=1, max_size=15)
texts = st.lists(st.one_of(numbers, st.text("01289.-+e_ x", max_size=17)), min_size=1, max_size=9)


def parse(
    how: Callable[..., NDArray[Any] | None], values: list[str], **settings: bool
) -> list[float] | None:
    block = np.frombuffer("".join(f"{text}\n" for text in values).encode(), dtype=np.uint8)
    cut = fields(block, b",", 1)
    assert cut is not None
    out = how(block, cut[0][0], cut[1][0], **settings)
    return None if out is None else out.tolist()


@given(texts)
def test_decimals_are_those_of_float_bit_for_bit(values: list[str]) -> None:
    plain = all(PLAIN.fullmatch(text) and len(text) <= 15 for text in values)
    assert parse(decimals, values) == ([float(text) for text in values] if plain else None)


@given(texts, st.booleans())
def test_whole_numbers_are_those_of_int(values: list[str], ids: bool) -> None:
    plain = all(
        re.fullmatch(r"[0-9]{1,15}", text) and not (ids and text != "0" and text[0] == "0")
        for text in values
    )
    expected = [int(text) for text in values] if plain else None
    assert parse(whole_numbers, values, ids=ids) == expected


def test_fifteen_digits_and_no_more() -> None:
    assert parse(whole_numbers, ["999999999999999", "1"], ids=True) == [999999999999999, 1]
    assert parse(whole_numbers, ["1000000000000000"], ids=True) is None
    assert parse(decimals, ["0.9999999999999"]) == [0.9999999999999]


def cells(text: str, separator: str, width: int) -> list[list[str]] | None:
    block = np.frombuffer(text.encode(), dtype=np.uint8)
    cut = fields(block, separator.encode(), width)
    if cut is None:
        return None
    return [
        [text[b:e] for b, e in zip(line_b, line_e, strict=True)]
        for line_b, line_e in zip(cut[0].T, cut[1].T, strict=True)
    ]


@pytest.mark.parametrize("separator", ["\t", ",", "::"])
@given(st.data())
def test_fields_are_those_of_split_or_none(separator: str, data: st.DataObject) -> None:
    lines = data.draw(st.lists(st.text(f"1a{separator}", max_size=8), max_size=5))
    split = [line.split(separator) for line in lines]
    expected = split if all(len(row) == 3 for row in split) else None
    found = cells("".join(f"{line}\n" for line in lines), separator, 3)
    if separator == "::" and any(":::" in line or line.count(":") != 4 for line in lines):
        assert found in (None, expected), "a lone colon may be left to the other way"
    else:
        assert found == expected


def test_a_line_too_wide_does_not_make_up_for_one_too_narrow() -> None:
    assert cells("1,2,3,4\n1,2\n", ",", 3) is None
    assert cells("1::2:3::\n", "::", 3) is None
