"""Which columns of a table are numbers, whose ends are aligned."""

import pytest

from recsys.report.table import numeric_columns, text_table


@pytest.mark.parametrize(
    "cells",
    [
        ("1", "-"),
        ("0.9117", "1.1"),
        ("infinity", "1,200"),
        ("any", "0.5"),
        ("170 B", "1.4 MB *"),
        ("100 %", "39 % (12 %)"),
        ("+0.0213", "-0.0100"),
        ("1e-05", "3"),
    ],
)
def test_numbers_and_their_absence_make_a_column_of_numbers(cells: tuple[str, str]) -> None:
    assert numeric_columns([("a", cell) for cell in cells]) == (1,)


@pytest.mark.parametrize("word", ["", "none", "trainable", "clip 0.1", "i20", "2 users"])
def test_a_word_makes_a_column_of_words(word: str) -> None:
    assert numeric_columns([("a", "1", word), ("b", "2", "3")]) == (1,)


def test_the_first_column_is_a_heading_and_an_empty_table_has_no_numbers() -> None:
    assert numeric_columns([("1", "2"), ("3", "4")]) == (1,)
    assert numeric_columns([]) == ()
    rows = [("a", "1"), ("b", "10")]
    assert text_table(("row", "n"), rows, right=numeric_columns(rows))[-1] == "b    10"
