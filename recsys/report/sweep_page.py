"""The page of a sweep: its figure, its points, and what they tell."""

from collections.abc import Mapping
from typing import Any

from recsys.report.charts import Series, line_chart
from recsys.report.compare_text import PRIVACY
from recsys.report.html import Page, bullets, facts, figure, gallery, paragraph, table
from recsys.report.sweep_text import INSECURE, fit_lines, sweep_table
from recsys.report.table import byte_size

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
    right = tuple(range(1, len(header) - (kind in ("neighbours", "epsilon"))))
    page.section("Figure", *_figures(result))
    page.section("Points", table(header, rows, right=right), *_notes(result))
    page.section(
        "How it was measured",
        facts(
            [
                ("mode", result["mode"]),
                ("seeds", str(result["seeds"])),
                ("users", f"{data['users']:,}" if kind != "size" else "by point"),
                ("POIs", f"{data['pois']:,}"),
            ]
        ),
        paragraph(
            "All settings but the one that varies are the models' own, or as given; config.toml "
            "beside this page has them."
        ),
        paragraph(f"{PRIVACY.capitalize()}."),
        paragraph(f"Digest of the result: {result['result_digest']}"),
    )
    return page.render()


def _figures(result: Mapping[str, Any]) -> list[str]:
    kind = result["kind"]
    if kind == "size":
        return [gallery(_times(result), _memory(result))]
    if kind == "iterations":
        return [gallery(*(_losses(result, part) for part in ("training", "test")))]
    areas = line_chart(
        [_series(line) for line in result["lines"]],
        x_label=result["x_label"],
        y_label="test AUC",
        log_x=kind == "epsilon",
    )
    spread = " Whiskers are one standard deviation over the seeds." if result["seeds"] > 1 else ""
    hollow = f" Hollow points are {INSECURE}." if kind == "neighbours" else ""
    return [figure(areas, f"{LEADS[kind]}{spread}{hollow}", LEADS[kind])]


def _series(line: Mapping[str, Any]) -> Series:
    known = None if all(sd is None for sd in line["sd"]) else [sd or 0.0 for sd in line["sd"]]
    return Series(
        line["model"],
        line["x"],
        line["y"],
        error=known,
        hollow=[line["x"].index(x) for x in line["insecure"]],
        dashed=line["flat"],
    )


def _losses(result: Mapping[str, Any], part: str) -> str:
    lines = [line for line in result["lines"] if line["part"] == part]
    series = [Series(line["model"], line["x"], line["y"]) for line in lines]
    svg = line_chart(series, x_label="epoch", y_label=f"{part} loss in nats")
    caption = f"Mean {part} loss. Guessing costs 0.693 nats."
    return figure(svg, caption, f"{part} loss by epoch")


def _times(result: Mapping[str, Any]) -> str:
    (line,) = result["lines"]
    series = [Series("measured", line["x"], line["y"], line=False)]
    fit = result["fit"]
    if fit is not None:
        ends = [0, max(line["x"])]
        fitted = [fit["intercept"] + fit["slope"] * x for x in ends]
        series.append(Series("straight line", ends, fitted, dashed=True, marker=None))
    svg = line_chart(series, x_label=result["x_label"], y_label="seconds of training")
    return figure(svg, " ".join(fit_lines(result)), "Training time by number of samples")


def _memory(result: Mapping[str, Any]) -> str:
    rows = result["rows"]
    sizes = [row["train_pairs"] for row in rows]
    peaks = [row["peak_memory_bytes"] / 1e9 for row in rows]
    svg = line_chart([Series("peak memory", sizes, peaks)], x_label=result["x_label"], y_label="GB")
    largest = byte_size(max(row["peak_memory_bytes"] for row in rows))
    caption = (
        f"Peak memory of the process that plays all parties, data included; at most {largest}."
    )
    return figure(svg, caption, "Peak memory by number of samples")


def _notes(result: Mapping[str, Any]) -> list[str]:
    if result["kind"] == "size":
        return [
            bullets(fit_lines(result)),
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
