"""The report of a training run: a page that everybody may see, and one for the users' side.

    public/report.html     what was trained, how well, what it cost, what each party saw
    users/report.html      homes, visits and recommendations; private like the folder around it

Leaks: the public page holds sums, counts and what the recommender knows anyway: the POIs and the
    visits that it estimated from randomized bits. Nothing about a single user is on it,
    which is why a second page exists.
"""

import numpy as np

from recsys.config import BY_ID
from recsys.dynamic import PoiEstimates
from recsys.recommender import Recommender
from recsys.report.charts import Series, line_chart
from recsys.report.html import Html, bullets, details, figure, gallery, table
from recsys.report.maps import View, point_map
from recsys.report.run_blocks import (
    key_figures,
    privacy,
    sentence,
    settings_of,
    settings_section,
    spent_time,
    titled,
    traffic,
    write_pages,
)
from recsys.report.run_folder import RunFolder
from recsys.report.summary import Summary, shown_auc
from recsys.report.users_page import users_page

_LISTED = 10


def write_report(run: RunFolder, model: Recommender, summary: Summary) -> None:
    """Put both pages into the run folder, and the public one's numbers and ledger as JSON."""
    public = public_page(model, summary, settings_of(run))
    write_pages(run, summary, public=public, private=users_page(model))


def public_page(model: Recommender, summary: Summary, settings: str) -> bytes:
    """The page for everybody, of a model that ``fit`` has just trained. settings: as TOML."""
    row = summary.row
    page = titled(summary)
    measures = [
        ("test AUC", shown_auc(row["auc"])),
        ("test AUC, mean of users", shown_auc(row["auc_user_mean"])),
    ]
    page.section(
        "Result",
        sentence(summary.result()),
        key_figures(summary, measures, unit="user-POI pair", epsilon=row["epsilon"]["bit"]),
    )
    if summary.notes:
        page.section("Notes on the data", bullets(summary.notes))
    page.section("Learning curve", *_learning(model, summary))
    page.section("Privacy", *privacy(summary))
    page.section("Points of interest", *_pois(model))
    page.section("What was sent", *traffic(summary))
    page.section("Where the time went", *spent_time(summary))
    page.section(
        "One user's view",
        "What the model recommends to one of its users, and who mixes models with whom, would "
        "tell where people live and go. These maps are on a page of their own, users/report.html "
        "in the run folder, which only its owner can read. On this page there is nothing about "
        "any single user.",
    )
    settings_section(page, summary, settings)
    return page.render()


def _learning(model: Recommender, summary: Summary) -> list[str]:
    history, best = model.history_, int(summary.row["best_epoch"])
    epochs = [float(record.epoch) for record in history]
    vertical = (float(best), f"best epoch: {best}")
    losses = [record.loss for record in history]
    figures = [
        figure(
            line_chart(
                [Series("training loss", epochs, losses)],
                x_label="epoch",
                y_label="training loss in nats",
                vertical=vertical,
            ),
            "Mean loss of the training pairs, each taken just before its update.",
            f"Training loss by epoch, from {losses[0]:.4f} to {losses[-1]:.4f}",
        )
    ]
    areas = [record.auc for record in history]
    known = [area for area in areas if area is not None]
    if known:
        figures.append(
            figure(
                line_chart(
                    [Series("validation AUC", epochs, areas)],
                    x_label="epoch",
                    y_label="validation AUC",
                    vertical=vertical,
                ),
                "AUC of the validation pairs; the best epoch's parameters are the model.",
                f"Validation AUC by epoch, at best {max(known):.4f}",
            )
        )
    rows = [(str(r.epoch), f"{r.loss:.4f}", shown_auc(r.auc)) for r in history]
    numbers = table(("epoch", "training loss", "validation AUC"), rows, right=(0, 1, 2))
    blocks: list[str] = [gallery(*figures), details("The numbers", numbers)]
    if not known:
        blocks.append("The validation part has no pairs of both labels, so there is no AUC.")
    return blocks


def _pois(model: Recommender) -> list[str]:
    prepared, counts = model.prepared_, model.features_.counts
    view = View.of(prepared.lat, prepared.lon)
    hidden = view.outside(prepared.lat, prepared.lon)
    beyond = f" {hidden:,} of them lie beyond the edges of the map." if hidden else ""
    where = f"{prepared.n_pois:,} POIs.{beyond}"
    if not counts:
        why = (
            "This model knows POIs by their ids alone."
            if model.config.model in BY_ID
            else "This model has no dynamic features, so nobody was asked what she visited."
        )
        drawing = point_map(prepared.lat, prepared.lon, view=view)
        return [figure(drawing, f"{where} {why}", f"Map of {prepared.n_pois} POIs")]
    count = counts[0]
    drawing = point_map(
        *(prepared.lat, prepared.lon),
        values=count.estimate,
        value_label=f"estimated {_quantity(count)}",
        view=view,
    )
    caption = (
        f"{where} Colour: the {_quantity(count)} among {prepared.n_users:,} users, as "
        "the recommender estimates it from randomized bits. Standard error of each estimate: "
        f"{_error(count)}; an estimate may be negative."
    )
    alt = f"Map of {prepared.n_pois} POIs by estimated {count.unit}"
    return [gallery(figure(drawing, caption, alt), _busiest(model, count))]


def _busiest(model: Recommender, count: PoiEstimates) -> Html:
    files = model.files
    best = np.argsort(-count.estimate, kind="stable")[:_LISTED]
    rows = [
        (
            files.poi_ids[poi],
            files.category_of(int(poi)) or "unknown",
            f"{count.estimate[poi]:,.{1 if count.cap is None else 3}f}",
        )
        for poi in best
    ]
    return table(("highest estimates: POI", "category", count.unit), rows, right=(2,))


def _quantity(count: PoiEstimates) -> str:
    if count.cap is None:
        return f"number of {count.unit}"
    return f"average number of visits (of a user at most {count.cap})"


def _error(count: PoiEstimates) -> str:
    # An average is a small number, and its noise is a little larger at POIs with more visits.
    if count.cap is None:
        return f"{count.standard_error:,.2f}"
    return f"at most {count.standard_error:,.4f}"
