"""What the pages of comparisons share: bars, curves, gaps, searches, data."""

from collections.abc import Mapping, Sequence
from typing import Any

from recsys.experiment.compare import Plan
from recsys.report.charts import Series, bar_chart, line_chart
from recsys.report.compare_words import (
    four_decimals,
    gap_table,
    searched,
    settings_table,
    trials_table,
)
from recsys.report.html import Page, bullets, details, figure, paragraph, table, verbatim
from recsys.tasks import Task

Rows = Sequence[Mapping[str, Any]]


def bars(rows: Rows, task: Task, remark: str) -> list[str]:
    """The measure of each row that has one, whiskers for its spread. remark: ends the caption."""
    known = [row for row in rows if row[task.measure] is not None]
    if not known:
        return []
    name = task.measure.upper()
    spread = [row[f"{task.measure}_sd"] or 0.0 for row in known]
    svg = bar_chart(
        [row["model"] for row in known],
        [row[task.measure] for row in known],
        x_label=f"test {name}",
        errors=spread if any(spread) else None,
        shown=four_decimals,
    )
    alt = ", ".join(f"{row['model']} {row[task.measure]:.3f}" for row in known)
    error = "; whiskers are one standard deviation" if any(spread) else ""
    return [figure(svg, f"Test {name}, mean of the seeds{error}. {remark}", alt)]


def curves(rows: Rows, task: Task, caption: str) -> list[str]:
    """Validation by epoch under seed 0, of rows that learn in steps."""
    series = []
    for row in rows:
        seeds = row["seeds"] or [{}]
        history = [e for e in seeds[0].get("history") or () if e[task.measure] is not None]
        values = [epoch[task.measure] for epoch in history]
        if len(set(values)) > 1:
            series.append(Series(row["model"], [epoch["epoch"] for epoch in history], values))
    if not series:
        return []
    svg = line_chart(series, x_label="epoch", y_label=f"validation {task.measure.upper()}")
    names = ", ".join(one.label for one in series)
    return [figure(svg, caption, f"Learning curves of {names}")]


def gaps(result: Mapping[str, Any], what: str) -> list[str]:
    """The differences that tell something, if there are any. what: they are, in words."""
    if not result["gaps"]:
        return []
    header, cells = gap_table(result["gaps"])
    return [
        paragraph(f"{what}, and the spread that they have to be seen against:"),
        table(header, cells, right=(2, 3)),
    ]


def search_section(
    page: Page, result: Mapping[str, Any], axes: Sequence[str], task: Task, how: str
) -> None:
    """What the searches tried and chose. how: they went about it, in words."""
    blocks: list[str] = []
    if result["trials"]:
        header, chosen = settings_table(result, axes, task)
        right = tuple(range(1, len(header)))
        tried = table(header, trials_table(result, axes, task), right=right)
        blocks = [
            paragraph(how),
            table(header, chosen, right=right),
            details("All trainings of the searches", tried),
        ]
    page.section("How settings were chosen", f"Search: {searched(result)}.", *blocks)


def data_section(page: Page, result: Mapping[str, Any], plan: Plan) -> None:
    """What was left out of the data, what all rows share, and the name of the result."""
    notes = result["data"]["notes"]
    page.section(
        "Data",
        *([bullets(notes)] if notes else ["Nothing was left out."]),
        details("Settings that all rows share", verbatim(_settings(plan))),
        paragraph(f"Digest of the result: {result['result_digest']}"),
    )


def _settings(plan: Plan) -> str:
    nested = plan.task.nested
    values = {name: value for name, value in plan.base.items() if name != nested}
    values |= plan.base.get(nested, {})
    return "\n".join(f"{name} = {value}" for name, value in values.items() if value is not None)
