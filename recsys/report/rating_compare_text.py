"""A comparison of rating models in words: the table of rows, and why a row has no figure."""

from collections.abc import Mapping
from typing import Any

from recsys.report.compare_words import (
    compared_lines,
    four_decimals,
    grouped,
    in_words,
    settings_table,
)
from recsys.report.rating_paper import has_figures, paper_rmse
from recsys.report.table import Row, byte_size, text_table
from recsys.tasks import RATING

COMPUTED = (
    "uploads per user: * computed from the sizes of messages, since simulated sums send nothing"
)
EPSILONS = (
    "epsilon: of the worst release of a training; per coordinate: of the noise on uploads, about "
    "one entry of one round"
)


def rating_comparison_lines(result: Mapping[str, Any]) -> list[str]:
    """What ``privrec compare --task rating`` prints."""
    data = result["data"]
    header, rows = rating_table(result)
    return compared_lines(
        result,
        f"{data['data']}: {data['users']:,} users, {data['items']:,} items, ratings to train "
        f"{data['train_ratings']:,}, to validate {data['validation_ratings']:,}, to test "
        f"{data['test_ratings']:,}",
        text_table(header, rows, right=range(1, len(header))),
        [*reason_lines(result), *note_lines(result), *legend(result)],
        settings_table(result, searched_axes(result), RATING),
    )


def rating_table(result: Mapping[str, Any]) -> tuple[Row, list[Row]]:
    """Header and cells of the rows; the paper's figures where it has the set."""
    published = has_figures(result["data"]["data"])
    header = (
        *("model", "test RMSE", "sd", *(("paper",) if published else ()), "validation"),
        *("seconds", "uploads per user", "epsilon", "per coordinate", "fallbacks"),
    )
    return header, [
        (
            row["model"],
            four_decimals(row["rmse"]),
            four_decimals(row["rmse_sd"]),
            *((published_rmse(row, result),) if published else ()),
            four_decimals(row["validation_rmse"]),
            "-" if row["seconds"] is None else f"{row['seconds']:.1f}",
            uploads(row),
            in_words(row["epsilon"]["headline"]),
            in_words(row["epsilon"]["coordinate"]),
            "-" if row["fallbacks"] is None else f"{row['fallbacks']:,.0f}",
        )
        for row in result["rows"]
    ]


def published_rmse(row: Mapping[str, Any], result: Mapping[str, Any]) -> str:
    """The paper's figure of a row as it prints it, or a dash."""
    found = paper_rmse(row["model"], result["data"]["data"])
    return "-" if found is None else f"{found:g}"


def legend(result: Mapping[str, Any]) -> list[str]:
    """What the columns of ``rating_table`` mean, as far as their names do not say it."""
    published = has_figures(result["data"]["data"])
    return [
        *(["paper: Table 3 of the FedGNN paper (arXiv:2102.04925)"] if published else []),
        EPSILONS,
        *([COMPUTED] if _computed(result) else []),
    ]


def note_lines(result: Mapping[str, Any]) -> list[str]:
    """What the models have to say of themselves, each thing once."""
    told = [(row["model"], note) for row in result["rows"] for note in row["notes"]]
    return grouped(told, [row["model"] for row in result["rows"]])


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
