"""Codes of ids and the index in the end."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from recsys.data.rating_ids import IdTable

ids = st.one_of(
    st.integers(0, 10**16).map(str), st.sampled_from(["7", "007", "0", "00", "-1", "٣"]), st.text()
)


def indexed(*columns: list[str]) -> tuple[tuple[str, ...], list[list[int]]]:
    table = IdTable()
    names, found = table.indexed([table.codes(column) for column in columns])
    assert all(column.dtype == np.int32 for column in found)
    return names, [column.tolist() for column in found]


@given(st.lists(ids, min_size=1), st.lists(ids))
def test_every_text_comes_back_unchanged(one: list[str], other: list[str]) -> None:
    names, found = indexed(one, other)
    assert sorted(names) == sorted({*one, *other}), "each once, without gaps"
    assert [[names[i] for i in column] for column in found] == [one, other]


@given(st.lists(ids, unique=True), st.randoms())
def test_the_order_of_rows_does_not_count(some: list[str], random: object) -> None:
    shuffled = list(some)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    assert indexed(some)[0] == indexed(shuffled)[0]


def test_numbers_by_size_then_texts() -> None:
    assert indexed(["b", "10", "9", "007", "a", "0"])[0] == ("0", "9", "10", "007", "a", "b")


def test_few_ids_far_apart_take_no_table() -> None:
    names, found = indexed(["999999999999999", "0", "5"], ["5"])
    assert names == ("0", "5", "999999999999999")
    assert found == [[2, 0, 1], [1]]


def test_no_ids_at_all() -> None:
    assert indexed([], []) == ((), [[], []])
