"""A sweep in words: its points as a table, and for sizes the straight line through them."""

from collections.abc import Mapping
from typing import Any

from recsys.report.compare_words import ending, four_decimals, indented
from recsys.report.table import Row, byte_size, text_table

INSECURE = "insecure: fewer than 3 neighbours protect nobody; simulated only"
DIVERGED = "diverged under a seed, so it has no AUC"


def sweep_lines(result: Mapping[str, Any]) -> list[str]:
    """What ``privrec sweep`` prints."""
    header, rows = sweep_table(result)
    right = tuple(range(1, len(header)))
    return [
        f"data     {result['data']['data']}, mode {result['mode']}",
        "",
        *indented(text_table(header, rows, right=right)),
        "",
        *fit_lines(result),
        *ending(result),
    ]


def sweep_table(result: Mapping[str, Any]) -> tuple[Row, list[Row]]:
    """Header and cells of the points."""
    if result["kind"] == "size":
        return _sizes(result)
    if result["kind"] == "iterations":
        return _losses(result)
    header = ("model", result["x_label"], "test AUC", "sd", "note")
    rows: list[Row] = []
    for line in result["lines"]:
        if line["flat"]:
            note = DIVERGED if line["diverged"] else ""
            rows.append(
                (
                    line["model"],
                    "any",
                    four_decimals(line["y"][0]),
                    four_decimals(line["sd"][0]),
                    note,
                )
            )
            continue
        for x, y, spread in zip(line["x"], line["y"], line["sd"], strict=True):
            marks = ((INSECURE, line["insecure"]), (DIVERGED, line["diverged"]))
            note = "; ".join(text for text, points in marks if x in points)
            rows.append((line["model"], f"{x:g}", four_decimals(y), four_decimals(spread), note))
    return header, rows


def _losses(result: Mapping[str, Any]) -> tuple[Row, list[Row]]:
    """First, lowest and last loss of each line."""
    header = ("model", "loss", "first epoch", "lowest", "at epoch", "last epoch")
    rows: list[Row] = []
    for line in result["lines"]:
        losses = line["y"]
        low = min(range(len(losses)), key=losses.__getitem__)
        figures = (f"{losses[0]:.4f}", f"{losses[low]:.4f}", str(low + 1), f"{losses[-1]:.4f}")
        rows.append((line["model"], line["part"], *figures))
    return header, rows


def _sizes(result: Mapping[str, Any]) -> tuple[Row, list[Row]]:
    header = (
        *("users", "training samples", "features", "training s", "key agreement s"),
        *("answers s", "data s", "peak memory"),
    )
    rows: list[Row] = []
    for row in result["rows"]:
        steps = row["steps"]
        rows.append(
            (
                f"{row['users']:,}",
                f"{row['train_pairs']:,}",
                str(row["features"]),
                f"{row['training_seconds']:.1f}",
                f"{steps.get('key agreement', 0.0):.1f}",
                f"{steps.get('features', 0.0):.1f}",
                f"{steps.get('preparation', 0.0):.1f}",
                byte_size(row["peak_memory_bytes"]),
            )
        )
    return header, rows


def fit_lines(result: Mapping[str, Any]) -> list[str]:
    """How straight the line is, for a sweep over size of three points or more."""
    fit = result.get("fit")
    if fit is None:
        return []
    return [
        f"fit      {fit['intercept']:.3g} s + {1e6 * fit['slope']:.3g} us for each training sample "
        f"and {result['rows'][0]['epochs']} epochs; largest residual "
        f"{100 * fit['worst_residual']:.1f} % of its point",
        f"growth   time grows as samples^{fit['exponent']:.2f}",
    ]
