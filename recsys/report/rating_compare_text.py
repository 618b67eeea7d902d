"""A comparison of rating models in words: the table of rows, what differs, what privacy it had."""

from collections.abc import Mapping
from typing import Any

from recsys.report.compare_text import PRIVACY, epsilon, gap_lines, indented, searched
from recsys.report.compare_text import auc as four_decimals
from recsys.report.table import Row, byte_size, text_table

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
    return [
        f"data     {data['data']}: {data['users']:,} users, {data['items']:,} items, ratings to "
        f"train {data['train_ratings']:,}, to validate {data['validation_ratings']:,}, to test "
        f"{data['test_ratings']:,} (seed 0)",
        f"search   {searched(result)}",
        "",
        *indented(text_table(HEADER, rating_rows(result), right=RIGHT)),
        *indented(reason_lines(result)),
        *([f"  {COMPUTED}"] if _computed(result) else []),
        "",
        *_chosen(result),
        *([*indented(gap_lines(result["gaps"])), ""] if result["gaps"] else []),
        f"digest   {result['result_digest']}",
        PRIVACY,
        f"report   {result['out']}/public/report.html",
    ]


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
            epsilon(row["epsilon"]["coordinate"]),
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


def rating_settings_table(result: Mapping[str, Any]) -> tuple[Row, list[Row]]:
    """Header and cells of what the searches chose, with the validation RMSE that chose it."""
    axes = searched_axes(result)
    header = ("model", *(axis.replace("_", " ") for axis in axes), "validation, seed 0")
    rows: list[Row] = []
    for row in result["rows"]:
        if row["settings"] is None:
            continue
        known = [t["validation_rmse"] for t in row["trials"] if t["validation_rmse"] is not None]
        best = four_decimals(min(known, default=None))
        rows.append((row["model"], *(setting(row["settings"], axis) for axis in axes), best))
    return header, rows


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


def setting(settings: Mapping[str, Any], axis: str) -> str:
    """The value of an axis, or that it is the model's own."""
    return f"{settings[axis]:g}" if axis in settings else "own"


def _computed(result: Mapping[str, Any]) -> bool:
    return any(row["bytes_counted"] is False and row["bytes_per_user"] for row in result["rows"])


def _chosen(result: Mapping[str, Any]) -> list[str]:
    if not result["trials"]:
        return []
    header, rows = rating_settings_table(result)
    right = tuple(range(1, len(header)))
    return ["  settings by search", *indented(text_table(header, rows, right=right)), ""]
