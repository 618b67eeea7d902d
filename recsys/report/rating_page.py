"""The report of a rating model: a page that everybody may see, and one for the users' side.

    public/report.html     what privacy there was, how well it predicts, what it cost
    users/report.html      one user's ratings and recommendations; private like the folder around it

Leaks: the public page holds sums, counts and errors over groups of users or ratings. Nothing about
    a single user is on it, which is why a second page exists.
"""

import math

from ldp.clipped_laplace import VectorCost
from recsys.ratings.model import RatingModel
from recsys.report.charts import Series, line_chart
from recsys.report.html import (
    bullets,
    callout,
    details,
    figure,
    gallery,
    table,
)
from recsys.report.rating_errors import LEAST, Activity, Level, by_activity, by_rating
from recsys.report.rating_ledger import RatingLedger
from recsys.report.rating_summary import RatingSummary, shown_rmse
from recsys.report.rating_users_page import rating_users_page
from recsys.report.run_blocks import (
    key_figures,
    privacy,
    sentence,
    settings_of,
    settings_section,
    shown_epsilon,
    spent_time,
    titled,
    traffic,
    write_pages,
)
from recsys.report.run_folder import RunFolder
from recsys.report.table import byte_size


def write_rating_report(run: RunFolder, model: RatingModel, summary: RatingSummary) -> None:
    """Put both pages into the run folder, and the public one's numbers and ledger as JSON."""
    public = rating_page(model, summary, settings_of(run))
    write_pages(run, summary, public=public, private=rating_users_page(model))


def rating_page(model: RatingModel, summary: RatingSummary, settings: str) -> bytes:
    """The page for everybody, of a model that ``fit`` has just trained. settings: as TOML."""
    row = summary.row
    page = titled(summary)
    measures = [
        ("test RMSE", shown_rmse(row["rmse"])),
        ("test RMSE of the training mean", shown_rmse(row["constant_rmse"])),
    ]
    page.section(
        "Result",
        callout(sentence(summary.ledger.headline)),
        sentence(summary.result()),
        sentence(summary.against_constant()),
        key_figures(summary, measures, unit="coordinate", epsilon=row["epsilon"]["coordinate"]),
    )
    notes = [*summary.notes, *row["model_notes"]]
    if notes:
        page.section("Notes", bullets(notes))
    page.section("Learning curve", *_learning(model, summary))
    headline, *releases = privacy(summary)
    page.section("Privacy", headline, *_losses(summary), *releases)
    page.section("Errors", *_errors(model))
    page.section("What was sent", *traffic(summary), *_computed(summary))
    page.section("Where the time went", *spent_time(summary))
    page.section(
        "One user's view",
        "What a user rated and what the model recommends to her is on a page of its own, "
        "users/report.html in the run folder, which only its owner can read. On this page there "
        "is nothing about any single user.",
    )
    settings_section(page, summary, settings)
    return page.render()


def _learning(model: RatingModel, summary: RatingSummary) -> list[str]:
    history, best = model.history_, int(summary.row["best_epoch"])
    epochs = [float(record.epoch) for record in history]
    training = [math.sqrt(record.loss) for record in history]
    validation = [record.rmse for record in history]
    known = [value for value in validation if value is not None]
    series = [Series("training", epochs, training)]
    if known:
        series.append(Series("validation", epochs, validation))
    chart = line_chart(
        series,
        x_label="epoch",
        y_label="RMSE",
        vertical=(float(best), f"best epoch: {best}"),
    )
    caption = (
        "Error of the training ratings, each taken just before its update, and of the validation "
        "ratings; the best epoch's parameters are the model."
    )
    told = f", validation at best {min(known):.4f}" if known else ""
    alt = f"RMSE by epoch: training from {training[0]:.4f} to {training[-1]:.4f}{told}"
    rows = [
        (str(record.epoch), f"{loss:.4f}", shown_rmse(record.rmse))
        for record, loss in zip(history, training, strict=True)
    ]
    numbers = table(("epoch", "training RMSE", "validation RMSE"), rows, right=(0, 1, 2))
    blocks: list[str] = [figure(chart, caption, alt), details("The numbers", numbers)]
    if not known:
        blocks.append("There are no validation ratings, so the last epoch is the model.")
    return blocks


def _losses(summary: RatingSummary) -> list[str]:
    """The losses of each kind of noise, of which the paper states the first; and what has none."""
    ledger = summary.ledger
    if not isinstance(ledger, RatingLedger):
        return []
    blocks: list[str] = []
    rows = [row for what, cost in ledger.costs for row in _three(what, cost)]
    if rows:
        header = ("what the noise protects", "coordinates", "epsilon")
        blocks = [
            table(header, rows, right=(1, 2)),
            "Losses add up (basic composition): a vector costs as much as its coordinates "
            "together, a training as much as its uploads. All are rounded up.",
        ]
    if ledger.guesses is not None:
        blocks.append(f"No epsilon covers which items a user uploads. {ledger.guesses}")
    return blocks


def _three(what: str, cost: VectorCost) -> list[tuple[str, str, str]]:
    """The loss about a coordinate, about a vector, and about a user after all rounds."""
    rows = [
        (f"one coordinate of one {what}", "1", shown_epsilon(cost.coordinate)),
        (f"one whole {what}", f"{cost.coordinates:,}", shown_epsilon(cost.vector)),
    ]
    if cost.rounds > 1:
        every = f"{cost.coordinates * cost.rounds:,}"
        rows.append((f"a user's {cost.rounds:,} {what}s", every, shown_epsilon(cost.user)))
    return rows


def _errors(model: RatingModel) -> list[str]:
    parts = model.parts_
    if not len(parts.test):
        return ["There are no test ratings."]
    predicted = model.score(parts.test.users, parts.test.items)
    levels = by_rating(parts.test, predicted, parts.low, parts.high)
    groups = by_activity(parts, predicted)
    figures = []
    if levels:
        figures += [_by_level(levels), _predicted(levels)]
    if groups:
        figures.append(_by_activity(groups))
    return [
        f"Groups of fewer than {LEAST} test ratings, or of fewer users, are left out.",
        *([gallery(*figures)] if figures else []),
        *([details("The numbers", *_numbers(levels, groups))] if figures else []),
    ]


def _numbers(levels: list[Level], groups: list[Activity]) -> list[str]:
    given = [
        (f"{each.rating:.4g}", f"{each.count:,}", f"{each.predicted:.3f}", f"{each.rmse:.4f}")
        for each in levels
    ]
    known = [
        (_span(each), f"{each.users:,}", f"{each.count:,}", f"{each.rmse:.4f}") for each in groups
    ]
    by_level = ("rating given", "test ratings", "mean prediction", "RMSE")
    by_group = ("training ratings of a user", "users", "test ratings", "RMSE")
    return [
        table(header, rows, right=(0, 1, 2, 3))
        for header, rows in ((by_level, given), (by_group, known))
        if rows
    ]


def _span(group: Activity) -> str:
    return f"{group.low}" if group.low == group.high else f"{group.low} to {group.high}"


def _by_level(levels: list[Level]) -> str:
    chart = line_chart(
        [Series("RMSE", [each.rating for each in levels], [each.rmse for each in levels])],
        x_label="rating given",
        y_label="RMSE",
    )
    worst = max(levels, key=lambda each: each.rmse)
    alt = f"RMSE by rating, largest {worst.rmse:.3f} at {worst.rating:g}"
    return figure(chart, "Error by the rating that was given.", alt)


def _predicted(levels: list[Level]) -> str:
    true = [each.rating for each in levels]
    chart = line_chart(
        [
            Series(
                "predicted",
                true,
                [each.predicted for each in levels],
                error=[each.spread for each in levels],
            ),
            Series("as given", true, true, dashed=True, marker=None),
        ],
        x_label="rating given",
        y_label="prediction",
    )
    alt = ", ".join(f"{each.rating:g} predicted as {each.predicted:.2f}" for each in levels)
    caption = (
        "Mean prediction by the rating that was given; whiskers are one standard deviation of the "
        "predictions. A model that knows nothing is flat."
    )
    return figure(chart, caption, alt)


def _by_activity(groups: list[Activity]) -> str:
    chart = line_chart(
        [
            Series(
                "RMSE",
                # A user may have none; a logarithmic axis has no place for her.
                [max(float(f"{each.mean:.3g}"), 0.5) for each in groups],
                [each.rmse for each in groups],
            )
        ],
        x_label="training ratings of a user",
        y_label="RMSE",
        log_x=True,
    )
    alt = ", ".join(f"{_span(each)}: {each.rmse:.3f}" for each in groups)
    caption = f"Error by how many ratings a user has in training, {len(groups)} groups of users."
    return figure(chart, caption, f"RMSE by number of training ratings. {alt}")


def _computed(summary: RatingSummary) -> list[str]:
    sent = summary.row["bytes_per_user"]
    if sent is None or summary.row["bytes_counted"]:
        return []
    return [
        f"In mode protocol a user's uploads would have {byte_size(sent)} in all, on average: "
        "computed from the sizes of messages, key agreement and matching left out."
    ]
