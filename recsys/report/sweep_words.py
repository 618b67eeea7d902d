"""What the words about sweeps share: the text around their points, and the line through times."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from recsys.report.compare_words import ending, indented
from recsys.report.table import Row, numeric_columns, text_table


@dataclass(frozen=True)
class Fit:
    """What a straight line through times says, without a full stop.

    line: its numbers.  growth: the power law beside it.
    """

    line: str
    growth: str

    def lines(self) -> list[str]:
        """For a terminal."""
        return [f"fit      {self.line}", f"growth   {self.growth}"]

    def sentences(self) -> list[str]:
        """For a page."""
        return [f"Straight line: {self.line}.", f"Power law: {self.growth}."]


def fit_of(result: Mapping[str, Any], each: str, scale: float, unit: str) -> Fit | None:
    """The line of a sweep over size of three points or more, else None.

    each: what is counted, one of it.  scale: units of time, of which the slope is told, in a
    second.
    """
    fit = result.get("fit")
    if fit is None:
        return None
    slope = scale * fit["slope"]
    sign = "-" if slope < 0 else "+"
    return Fit(
        f"{fit['intercept']:.3g} s {sign} {abs(slope):.3g} {unit} for each {each} and "
        f"{result['rows'][0]['epochs']} epochs; largest residual "
        f"{100 * fit['worst_residual']:.1f} % of its point",
        f"time grows as {each.rsplit(maxsplit=1)[-1]}s^{fit['exponent']:.2f}",
    )


def swept_lines(
    result: Mapping[str, Any],
    table: tuple[Row, Sequence[Row]],
    fit: Fit | None,
    notes: Sequence[str] = (),
) -> list[str]:
    """What ``privrec sweep`` prints. table: header and cells of the points.  notes: below it."""
    header, rows = table
    return [
        f"data     {result['data']['data']}, mode {result['mode']}",
        "",
        *indented(text_table(header, rows, right=numeric_columns(rows))),
        *indented(notes),
        "",
        *([] if fit is None else fit.lines()),
        *ending(result),
    ]


def noted(header: Row, rows: Sequence[Row]) -> tuple[Row, list[Row]]:
    """A table whose last column has notes, less that column where it has none."""
    if any(row[-1] for row in rows):
        return header, list(rows)
    return header[:-1], [row[:-1] for row in rows]
