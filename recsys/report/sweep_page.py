"""The page of a sweep: its figure, its points, and what they tell."""

from collections.abc import Mapping
from typing import Any

from recsys.report.charts import Series, line_chart
from recsys.report.html import Page, figure, gallery, paragraph, table
from recsys.report.sweep_blocks import (
    by_size,
    fit_blocks,
    measured_section,
    spread_caption,
    whiskers,
)
from recsys.report.sweep_text import INSECURE, samples_fit, sweep_table
from recsys.report.table import numeric_columns

TITLES = {
    "iterations": "Loss by epoch",
    "neighbours": "What neighbours bring",
    "epsilon": "The price of epsilon",
    "size": "Time by size",
}

LEADS = {
    "iterations": "Mean training and test loss after each epoch, without early stopping.",
    "neighbours": "Test AUC by the number of neighbours that each user mixes with.",
    "epsilon": "Test AUC by the privacy loss of one user-POI pair through the dynamic features.",
    "size": "Seconds of training by the number of samples, on synthetic cities.",
}


def sweep_page(result: Mapping[str, Any]) -> bytes:
    """``public/report.html`` of a sweep."""
    kind, data = result["kind"], result["data"]
    page = Page(f"{TITLES[kind]}: {data['data']}", LEADS[kind])
    header, rows = sweep_table(result)
    page.section("Figure", *_figures(result))
    page.section("Points", table(header, rows, right=numeric_columns(rows)), *_notes(result))
    measured_section(
        page,
        result,
        [("POIs", f"{data['pois']:,}")],
        "All settings but the one that varies are the models' own, or as given",
    )
    return page.render()


def _figures(result: Mapping[str, Any]) -> list[str]:
    kind = result["kind"]
    if kind == "size":
        samples = [row["train_pairs"] for row in result["rows"]]
        return [by_size(result, samples, "samples", samples_fit(result))]
    if kind == "iterations":
        return [gallery(*(_losses(result, part) for part in ("training", "test")))]
    areas = line_chart(
        [_series(line) for line in result["lines"]],
        x_label=result["x_label"],
        y_label="test AUC",
        log_x=kind == "epsilon",
    )
    hollow = f" Hollow points are {INSECURE}." if kind == "neighbours" else ""
    return [figure(areas, f"{spread_caption(LEADS[kind], result)}{hollow}", LEADS[kind])]


def _series(line: Mapping[str, Any]) -> Series:
    return Series(
        line["model"],
        line["x"],
        line["y"],
        error=whiskers(line),
        hollow=[line["x"].index(x) for x in line["insecure"]],
        dashed=line["flat"],
    )


def _losses(result: Mapping[str, Any], part: str) -> str:
    lines = [line for line in result["lines"] if line["part"] == part]
    series = [Series(line["model"], line["x"], line["y"]) for line in lines]
    svg = line_chart(series, x_label="epoch", y_label=f"{part} loss in nats")
    caption = f"Mean {part} loss. Guessing costs 0.693 nats."
    return figure(svg, caption, f"{part} loss by epoch")


def _notes(result: Mapping[str, Any]) -> list[str]:
    if result["kind"] == "size":
        return [
            *fit_blocks(samples_fit(result)),
            paragraph(
                "Training is the epochs alone: pads, secure sums, gradients and aggregation. Key "
                "agreement happens once, and so do the randomized answers, of which there is one "
                "for each user and POI."
            ),
        ]
    if result["kind"] == "epsilon":
        return [
            paragraph(
                "Smaller is more private. Epsilon is of one user-POI pair; a user's whole history "
                "costs it once for each POI."
            )
        ]
    return []
