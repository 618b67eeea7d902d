"""A sweep of models of visits in words: its points as a table, and the line through times."""

from collections.abc import Mapping
from typing import Any

from recsys.experiment.points import word
from recsys.report.compare_words import four_decimals
from recsys.report.sweep_words import Fit, fit_of, noted, swept_lines
from recsys.report.table import Row, byte_size

INSECURE = "insecure: fewer than 3 neighbours protect nobody; simulated only"
DIVERGED = "diverged under a seed, so it has no AUC"


def sweep_lines(result: Mapping[str, Any]) -> list[str]:
    """What ``privrec sweep`` prints."""
    return swept_lines(result, sweep_table(result), samples_fit(result))


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
            figures = (four_decimals(line["y"][0]), four_decimals(line["sd"][0]))
            rows.append((line["model"], "any", *figures, note))
            continue
        for x, y, spread in zip(line["x"], line["y"], line["sd"], strict=True):
            marks = ((INSECURE, line["insecure"]), (DIVERGED, line["diverged"]))
            note = "; ".join(text for text, points in marks if x in points)
            rows.append((line["model"], word(x), four_decimals(y), four_decimals(spread), note))
    return noted(header, rows)


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


def samples_fit(result: Mapping[str, Any]) -> Fit | None:
    """How straight the line is, for a sweep over size of three points or more."""
    return fit_of(result, "training sample", 1e6, "us")
