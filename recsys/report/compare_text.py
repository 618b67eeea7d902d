"""A comparison of models of visits in words: the table of rows, and what diverged."""

from collections.abc import Mapping
from typing import Any

from recsys.report.compare_words import compared_lines, four_decimals, in_words, settings_table
from recsys.report.table import Row, byte_size, text_table
from recsys.search import GRID
from recsys.tasks import VISITS

HEADER = (
    *("model", "test AUC", "sd", "validation", "user mean", "seconds", "sent per user"),
    "epsilon per pair",
)
RIGHT = (1, 2, 3, 4, 5, 6, 7)

AXES = tuple(GRID)


def comparison_lines(result: Mapping[str, Any]) -> list[str]:
    """What ``privrec compare`` prints."""
    data = result["data"]
    return compared_lines(
        result,
        f"{data['data']}: {data['users']:,} users, {data['pois']:,} POIs, pairs to train "
        f"{data['train_pairs']:,}, to validate {data['validation_pairs']:,}, to test "
        f"{data['test_pairs']:,}",
        text_table(HEADER, table_rows(result), right=RIGHT),
        divergence_lines(result),
        settings_table(result, AXES, VISITS),
    )


def table_rows(result: Mapping[str, Any]) -> list[Row]:
    """The cells of the rows, under ``HEADER``."""
    return [
        (
            row["model"],
            four_decimals(row["auc"]),
            four_decimals(row["auc_sd"]),
            four_decimals(row["validation_auc"]),
            four_decimals(row["auc_user_mean"]),
            f"{row['seconds']:.1f}",
            "-" if row["bytes_per_user"] is None else byte_size(row["bytes_per_user"]),
            in_words(row["epsilon"]["bit"]),
        )
        for row in result["rows"]
    ]


def divergence_lines(result: Mapping[str, Any]) -> list[str]:
    """One sentence for each row whose training diverged, which leaves it without an AUC."""
    lines = []
    for row in result["rows"]:
        for seed in row["diverged"]:
            how = row["seeds"][seed]["diverged"]
            lines.append(f"{row['model']} diverged under seed {seed}, so it has no AUC: {how}")
    return lines
