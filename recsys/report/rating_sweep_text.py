"""A sweep of FedGNN in words: its points as a table, and for sizes the line through them."""

from collections.abc import Mapping
from typing import Any

from recsys.experiment.points import word
from recsys.report.compare_words import four_decimals, grouped
from recsys.report.ledger import shown
from recsys.report.rating_guesses import percent
from recsys.report.sweep_text import DIVERGED
from recsys.report.sweep_words import Fit, fit_of, noted, swept_lines
from recsys.report.table import Row, byte_size

GUESSED = "history guessed (at random)"
"""Of pseudo-interacted items; see ``recsys.report.rating_guesses``."""


def rating_sweep_lines(result: Mapping[str, Any]) -> list[str]:
    """What ``privrec sweep --task rating`` prints."""
    notes = point_notes(result)
    return swept_lines(result, rating_sweep_table(result), clients_fit(result), notes)


def point_notes(result: Mapping[str, Any]) -> list[str]:
    """What the models have to say of themselves under seed 0, each thing once, with its points."""
    rows = [row for row in result["rows"] if row["seed"] == 0]
    notes = [(_point(row), note) for row in rows for note in row["notes"]]
    return grouped(notes, [_point(row) for row in rows])


def _point(row: Mapping[str, Any]) -> str:
    return f"{row['model']} at {word(row['value'])}"


def rating_sweep_table(result: Mapping[str, Any]) -> tuple[Row, list[Row]]:
    """Header and cells of the points."""
    kind = result["kind"]
    if kind == "size":
        return _sizes(result)
    second = [result["second_label"]] if result["second_label"] else []
    more = [GUESSED] if kind == "pseudo" else []
    header = ("line", result["x_label"], "test RMSE", "sd", *second, *more, "note")
    rows: list[Row] = []
    for line in result["lines"]:
        for at, (x, y, spread) in enumerate(zip(line["x"], line["y"], line["sd"], strict=True)):
            cells = [line["model"], word(x), four_decimals(y), four_decimals(spread)]
            if second:
                cells.append(_second(kind, line["second"][at]))
            if more:
                cells.append(_guessed(x, line["guesses"][at]))
            note = DIVERGED.replace("AUC", "RMSE") if x in line["diverged"] else ""
            rows.append((*cells, note))
    return noted(header, rows)


def _guessed(pseudo: float, found: Mapping[str, Any] | None) -> str:
    if not pseudo:
        return "100 %"  # an upload is what she rated
    if found is None:
        return "-"
    return f"{percent(found['popular'])} ({percent(found['at_random'])})"


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


def clients_fit(result: Mapping[str, Any]) -> Fit | None:
    """How straight the line is, for a sweep over size of three points or more."""
    return fit_of(result, "client", 1e3, "ms")
