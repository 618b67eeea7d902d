"""What the pages of sweeps share: lines with whiskers, times and memory by size, how measured."""

from collections.abc import Mapping, Sequence
from typing import Any

from recsys.report.charts import Series, line_chart
from recsys.report.compare_words import PRIVACY
from recsys.report.html import Page, bullets, facts, figure, gallery, paragraph
from recsys.report.sweep_words import Fit
from recsys.report.table import byte_size


def whiskers(line: Mapping[str, Any]) -> list[float] | None:
    """Standard deviations of a line's points; None where none is known."""
    if all(sd is None for sd in line["sd"]):
        return None
    return [sd or 0.0 for sd in line["sd"]]


def spread_caption(lead: str, result: Mapping[str, Any]) -> str:
    """A figure's caption, which says what whiskers are where there are any."""
    if result["seeds"] == 1:
        return lead
    return f"{lead} Whiskers are one standard deviation over the seeds."


def fit_blocks(fit: Fit | None) -> list[str]:
    """What the line through times says, where there is one."""
    return [] if fit is None else [bullets(fit.sentences())]


def by_size(result: Mapping[str, Any], sizes: Sequence[float], what: str, fit: Fit | None) -> str:
    """Time and peak memory of the points. sizes: of ``what``, in their order.  fit: of time."""
    return gallery(_times(result, what, fit), _memory(result, sizes, what))


def _times(result: Mapping[str, Any], what: str, fit: Fit | None) -> str:
    (line,) = result["lines"]
    series = [Series("measured", line["x"], line["y"], line=False)]
    if result["fit"] is not None:
        ends = [0, max(line["x"])]
        fitted = [result["fit"]["intercept"] + result["fit"]["slope"] * x for x in ends]
        series.append(Series("straight line", ends, fitted, dashed=True, marker=None))
    svg = line_chart(
        series, x_label=result["x_label"], y_label="seconds of training", from_zero=True
    )
    caption = "Seconds of training." if fit is None else " ".join(fit.sentences())
    return figure(svg, caption, f"Training time by number of {what}")


def _memory(result: Mapping[str, Any], sizes: Sequence[float], what: str) -> str:
    rows = result["rows"]
    peaks = [row["peak_memory_bytes"] / 1e9 for row in rows]
    svg = line_chart(
        [Series("peak memory", sizes, peaks)],
        x_label=result["x_label"],
        y_label="GB",
        from_zero=True,
    )
    largest = byte_size(max(row["peak_memory_bytes"] for row in rows))
    caption = (
        f"Peak memory of the process that plays all parties, data included; at most {largest}."
    )
    return figure(svg, caption, f"Peak memory by number of {what}")


def measured_section(
    page: Page, result: Mapping[str, Any], tiles: Sequence[tuple[str, str]], settings: str
) -> None:
    """The last section: mode, seeds, the set; further tiles; which settings the points have."""
    users = "by point" if result["kind"] == "size" else f"{result['data']['users']:,}"
    page.section(
        "How it was measured",
        facts(
            [
                ("mode", result["mode"]),
                ("seeds", str(result["seeds"])),
                ("users", users),
                *tiles,
            ]
        ),
        paragraph(f"{settings}; config.toml beside this page has them."),
        paragraph(f"{PRIVACY.capitalize()}."),
        paragraph(f"Digest of the result: {result['result_digest']}"),
    )
