"""The page of a sweep of FedGNN: its figure, its points, and what they tell."""

from collections.abc import Mapping
from typing import Any

from recsys.report.charts import Series, line_chart
from recsys.report.html import Page, bullets, figure, paragraph, table
from recsys.report.rating_sweep_text import clients_fit, point_notes, rating_sweep_table
from recsys.report.sweep_blocks import (
    by_size,
    fit_blocks,
    measured_section,
    spread_caption,
    whiskers,
)
from recsys.report.table import numeric_columns

TITLES = {
    "neighbours": "Network and neighbours",
    "noise": "The price of noise",
    "pseudo": "The price of pseudo-interacted items",
    "size": "Time by number of clients",
}

LEADS = {
    "neighbours": "Test RMSE by network, without neighbours' embeddings, with trainable copies of "
    "them, and with fixed ones (Figure 4 of the FedGNN paper).",
    "noise": "Test RMSE and the loss about one coordinate of one upload, by clip and scale of the "
    "noise (Figure 5 of the FedGNN paper).",
    "pseudo": "Test RMSE and the bytes of one upload, by the number of items that a user uploads "
    "without having rated them (Figure 6 of the FedGNN paper).",
    "size": "Seconds of training by the number of clients, on synthetic ratings.",
}

_NOTES = {
    "neighbours": "Neighbours bring an embedding, and matching tells who shares an item with whom: "
    "a gain must be worth that.",
    "noise": "Epsilon is of one coordinate of one upload, as the paper states it. A whole upload "
    "costs it once for each coordinate, and a training once more for each round; the ledger of a "
    "single training has those figures.",
    "pseudo": "No number of pseudo-interacted items gives a finite epsilon: every upload holds all "
    "items that the user rated. In mode simulate the bytes are computed from the sizes of "
    "messages. Guessed is how much of a user's history is right if, of her upload, those items are "
    "named that most users upload, as many as she rated; in brackets, if items are named at "
    "random. A dash: everybody uploads the whole catalogue.",
    "size": "Training is the epochs alone: gradients, encoding, pads and sums. Key agreement "
    "happens once. Every client belongs to a cohort of fixed size, so that she meets as many peers "
    "however many there are.",
}


def rating_sweep_page(result: Mapping[str, Any]) -> bytes:
    """``public/report.html`` of a sweep."""
    kind, data = result["kind"], result["data"]
    page = Page(f"{TITLES[kind]}: {data['data']}", LEADS[kind])
    header, rows = rating_sweep_table(result)
    notes = point_notes(result)
    page.section("Figure", *_figures(result))
    page.section(
        "Points",
        table(header, rows, right=numeric_columns(rows)),
        *fit_blocks(clients_fit(result)),
        *([bullets(notes)] if notes else []),
        paragraph(_NOTES[kind]),
    )
    measured_section(
        page,
        result,
        [("items", f"{data['items']:,}"), *_constant(result)],
        "All settings but those that vary are the defaults, those of a preset, or as given",
    )
    return page.render()


def _constant(result: Mapping[str, Any]) -> list[tuple[str, str]]:
    constant = result["data"]["constant_rmse"]
    if result["kind"] == "size" or constant is None:
        return []
    return [("test RMSE of the training mean", f"{constant:.4f}")]


def _figures(result: Mapping[str, Any]) -> list[str]:
    kind = result["kind"]
    if kind == "size":
        clients = [row["users"] for row in result["rows"]]
        return [by_size(result, clients, "clients", clients_fit(result))]
    words = [str(x) for x in result["lines"][0]["x"]] if kind == "neighbours" else []
    many = len(result["lines"]) > 1  # then a line and its partner share a colour
    right = [
        Series(
            f"{line['model']}, right axis",
            line["x"],
            line["second"],
            dashed=True,
            colour=number if many else None,
        )
        for number, line in enumerate(result["lines"])
        if line["second"]
    ]
    chart = line_chart(
        [_series(line, worded=bool(words)) for line in result["lines"]],
        x_label=result["x_label"],
        y_label="test RMSE",
        places=words,
        right=right,
        right_label=result["second_label"],
    )
    return [figure(chart, spread_caption(LEADS[kind], result), LEADS[kind])]


def _series(line: Mapping[str, Any], *, worded: bool) -> Series:
    places = range(len(line["x"])) if worded else line["x"]
    return Series(line["model"], places, line["y"], error=whiskers(line))
