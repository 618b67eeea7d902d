"""The paper's accuracies, against values copied out of the paper by hand."""

import pytest

from recsys.report.paper import FACTORS, REASONS, TABLES, paper_rows

TABLE_4, TABLE_5 = TABLES


@pytest.mark.parametrize(
    ("table", "row", "test_fraction", "factors", "value"),
    [
        (TABLE_4, "fm", 0.2, 5, 0.8152),
        (TABLE_4, "prirec-", 0.2, 15, 0.4749),
        (TABLE_4, "prirec", 0.1, 10, 0.7824),
        (TABLE_4, "prirec-", 0.1, 15, 0.4702),
        (TABLE_5, "fm", 0.1, 15, 0.7207),
        (TABLE_5, "prirec-", 0.2, 10, 0.7519),
        (TABLE_5, "prirec", 0.2, 5, 0.7605),
        (TABLE_5, "prirec", 0.1, 15, 0.7720),
    ],
)
def test_the_tables_are_those_of_the_paper(
    table: object, row: str, test_fraction: float, factors: int, value: float
) -> None:
    found = next(each for each in TABLES if each is table)
    assert found.value(row, test_fraction, factors) == value


def test_every_cell_of_both_tables_is_there() -> None:
    for table in TABLES:
        assert set(table.auc) == {(percent, k) for percent in (80, 90) for k in FACTORS}
    sums = [sum(sum(cells) for cells in table.auc.values()) for table in TABLES]
    assert sums == pytest.approx([12.4115, 13.4226])


@pytest.mark.parametrize(
    ("row", "test_fraction", "factors"),
    [("mf", 0.2, 5), ("prirec-n0", 0.2, 5), ("fm", 0.3, 5), ("fm", 0.2, 8), ("fm", 0.204, 5)],
)
def test_what_the_paper_has_not_measured_has_no_value(
    row: str, test_fraction: float, factors: int
) -> None:
    assert TABLE_4.value(row, test_fraction, factors) is None


def test_rows_beside_ours_come_with_their_table() -> None:
    found = paper_rows(0.1, 10)
    assert [table.name for table, _ in found] == ["Table 4", "Table 5"]
    assert found[1][1] == {"fm": 0.7205, "prirec-": 0.7534, "prirec": 0.7713}
    assert paper_rows(0.1, 6) == []
    assert len(REASONS) >= 4
