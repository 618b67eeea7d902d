"""A sweep of FedGNN in words: its points as a table, and for sizes the line through them."""

from collections.abc import Mapping
from typing import Any

from recsys.experiment.points import word
from recsys.report.compare_words import ending, four_decimals, indented
from recsys.report.ledger import shown
from recsys.report.sweep_text import DIVERGED
from recsys.report.table import Row, byte_size, text_table


def rating_sweep_lines(result: Mapping[str, Any]) -> list[str]:
    """What ``privrec sweep --task rating`` prints."""
    header, rows = rating_sweep_table(result)
    right = tuple(range(1, len(header)))
    return [
        f"data     {result['data']['data']}, mode {result['mode']}",
        "",
        *indented(text_table(header, rows, right=right)),
        "",
        *clients_fit(result),
        *ending(result),
    ]


def rating_sweep_table(result: Mapping[str, Any]) -> tuple[Row, list[Row]]:
    """Header and cells of the points."""
    if result["kind"] == "size":
        return _sizes(result)
    second = [result["second_label"]] if result["second_label"] else []
    header = ("line", result["x_label"], "test RMSE", "sd", *second, "note")
    rows: list[Row] = []
    for line in result["lines"]:
        for at, (x, y, spread) in enumerate(zip(line["x"], line["y"], line["sd"], strict=True)):
            more = [_second(result["kind"], line["second"][at])] if second else []
            note = DIVERGED.replace("AUC", "RMSE") if x in line["diverged"] else ""
            figures = (four_decimals(y), four_decimals(spread))
            rows.append((line["model"], word(x), *figures, *more, note))
    return header, rows


def _second(kind: str, value: float | None) -> str:
    if value is None:
        return "-"
    return shown(value) if kind == "noise" else byte_size(value)


def _sizes(result: Mapping[str, Any]) -> tuple[Row, list[Row]]:
    header = ("clients", "training ratings", "training s", "set-up s", "sent per user", "memory")
    rows: list[Row] = []
    for row in result["rows"]:
        steps = row["steps"]
        set_up = sum(steps.get(name, 0.0) for name in ("key agreement", "preparation"))
        sent = row["bytes_per_user"]
        rows.append(
            (
                f"{row['users']:,}",
                f"{row['train_ratings']:,}",
                f"{row['training_seconds']:.2f}",
                f"{set_up:.2f}",
                "-" if sent is None else byte_size(sent),
                byte_size(row["peak_memory_bytes"]),
            )
        )
    return header, rows


def clients_fit(result: Mapping[str, Any]) -> list[str]:
    """How straight the line is, for a sweep over size of three points or more."""
    fit = result.get("fit")
    if fit is None:
        return []
    return [
        f"fit      {fit['intercept']:.3g} s + {1e3 * fit['slope']:.3g} ms for each client and "
        f"{result['rows'][0]['epochs']} epochs; largest residual "
        f"{100 * fit['worst_residual']:.1f} % of its point",
        f"growth   time grows as clients^{fit['exponent']:.2f}",
    ]
