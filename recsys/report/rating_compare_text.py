"""A comparison of rating models in words: the table of rows, and why a row has no figure."""

from collections.abc import Mapping
from typing import Any

from recsys.report.compare_words import compared_lines, four_decimals, in_words, settings_table
from recsys.report.table import Row, byte_size, text_table
from recsys.tasks import RATING

HEADER = (
    *("model", "test RMSE", "sd", "validation", "seconds", "uploads per user"),
    *("epsilon per coordinate", "fallbacks"),
)
RIGHT = tuple(range(1, len(HEADER)))

COMPUTED = (
    "uploads per user: * computed from the sizes of messages, since simulated sums send nothing"
)


def rating_comparison_lines(result: Mapping[str, Any]) -> list[str]:
    """What ``privrec compare --task rating`` prints."""
    data = result["data"]
    return compared_lines(
        result,
        f"{data['data']}: {data['users']:,} users, {data['items']:,} items, ratings to train "
        f"{data['train_ratings']:,}, to validate {data['validation_ratings']:,}, to test "
        f"{data['test_ratings']:,}",
        text_table(HEADER, rating_rows(result), right=RIGHT),
        [*reason_lines(result), *([COMPUTED] if _computed(result) else [])],
        settings_table(result, searched_axes(result), RATING),
    )


def rating_rows(result: Mapping[str, Any]) -> list[Row]:
    """The cells of the rows, under ``HEADER``."""
    return [
        (
            row["model"],
            four_decimals(row["rmse"]),
            four_decimals(row["rmse_sd"]),
            four_decimals(row["validation_rmse"]),
            "-" if row["seconds"] is None else f"{row['seconds']:.1f}",
            uploads(row),
            in_words(row["epsilon"]["coordinate"]),
            "-" if row["fallbacks"] is None else f"{row['fallbacks']:,.0f}",
        )
        for row in result["rows"]
    ]


def uploads(row: Mapping[str, Any]) -> str:
    """Bytes of a user, with a mark where they were computed; a dash where nothing is sent."""
    if row["bytes_per_user"] is None:
        return "-"
    return f"{byte_size(row['bytes_per_user'])}{'' if row['bytes_counted'] else ' *'}"


def reason_lines(result: Mapping[str, Any]) -> list[str]:
    """One sentence for each row without a figure."""
    return [
        f"{row['model']} has no figure: {row['reason']}"
        for row in result["rows"]
        if row["reason"] is not None
    ]


def searched_axes(result: Mapping[str, Any]) -> list[str]:
    """The settings that differ between the trials of any row, in the order of their appearance."""
    axes: dict[str, None] = {}
    for row in result["rows"]:
        for trial in row["trials"]:
            axes |= dict.fromkeys(trial)
    axes.pop("validation_rmse", None)
    return [
        axis
        for axis in axes
        if any(len({t.get(axis) for t in row["trials"]}) > 1 for row in result["rows"])
    ]


def _computed(result: Mapping[str, Any]) -> bool:
    return any(row["bytes_counted"] is False and row["bytes_per_user"] for row in result["rows"])
