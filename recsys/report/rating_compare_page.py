"""The page of a comparison of rating models: table, paper's figures, curves, settings."""

from collections.abc import Mapping
from typing import Any

from recsys.experiment.compare import Plan
from recsys.report.compare_blocks import bars, curves, data_section, gaps, search_section
from recsys.report.compare_words import PRIVACY, four_decimals, in_words
from recsys.report.html import Page, bullets, facts, gallery, paragraph, table
from recsys.report.rating_compare_text import (
    legend,
    note_lines,
    published_rmse,
    rating_table,
    reason_lines,
    searched_axes,
)
from recsys.report.rating_guesses import Guesses
from recsys.report.rating_paper import REASONS, has_figures, in_table, paper_rmse
from recsys.report.rating_summary import against_constant
from recsys.tasks import RATING


def rating_comparison_page(result: Mapping[str, Any], plan: Plan) -> bytes:
    """``public/report.html`` of a comparison of rating models."""
    data, rows = result["data"], result["rows"]
    known = [row for row in rows if row["rmse"] is not None]
    best = min(known, key=lambda row: row["rmse"])
    page = Page(
        f"{len(rows)} models on {data['data']}",
        f"Test RMSE of {', '.join(row['model'] for row in rows)}, trained alike.",
    )
    header, cells = rating_table(result)
    remarks = [*reason_lines(result), *note_lines(result)]
    page.section(
        "Result",
        facts(
            [
                ("best test RMSE", f"{four_decimals(best['rmse'])} ({best['model']})"),
                ("test RMSE of the training mean", four_decimals(data["constant_rmse"])),
                ("users", f"{data['users']:,}"),
                ("items", f"{data['items']:,}"),
                ("ratings to train", f"{data['train_ratings']:,}"),
                ("ratings to test", f"{data['test_ratings']:,}"),
                ("seeds", str(result["seeds"])),
            ]
        ),
        gallery(
            *bars(rows, RATING, "Shorter is better."),
            *_curves(rows),
        ),
        table(header, cells, right=range(1, len(header))),
        *([bullets(remarks)] if remarks else []),
        *(paragraph(f"{line[0].upper()}{line[1:]}.") for line in legend(result)),
        *_literal(rows),
        *gaps(result, "Differences in test RMSE, above 0 where the row is better"),
        paragraph(
            "RMSE is in rating units, over all test ratings; predictions stay within the range of "
            "the set. sd is the sample standard deviation over the seeds. Fallbacks are test "
            "ratings of users or items without any rating in training."
        ),
    )
    page.section("Beside the paper", *_paper(result))
    page.section("Privacy", f"{PRIVACY.capitalize()}.", *_privacy(rows))
    search_section(
        page,
        result,
        searched_axes(result),
        RATING,
        "One axis after the other, in one order for all rows, each beginning with its own "
        "settings. An axis that a model does not have changes nothing in it, and its trial is "
        "spent. Rows that are made by their settings are not searched.",
    )
    data_section(page, result, plan)
    return page.render()


def _literal(rows: list[dict[str, Any]]) -> list[str]:
    """What the paper's own hyper-parameters lead to, where they are among the rows."""
    return [
        paragraph(
            "FedGNN with the paper's hyper-parameters: "
            f"{against_constant(row['rmse'], row['constant_rmse'])}."
        )
        for row in rows
        if row["model"] == "fedgnn-paper" and row["rmse"] is not None
    ]


def _curves(rows: list[dict[str, Any]]) -> list[str]:
    """Two charts: one would have more lines than can be followed."""
    end = "Training stops after epochs without a better one."
    return [
        block
        for who, chosen in (
            ("central models", [row for row in rows if row["mode"] == "central"]),
            ("federated models", [row for row in rows if row["mode"] != "central"]),
        )
        for block in curves(chosen, RATING, f"Validation RMSE by epoch, seed 0, of {who}. {end}")
    ]


def _paper(result: Mapping[str, Any]) -> list[str]:
    data = result["data"]["data"]
    if not has_figures(data):
        return [f"Table 3 of the FedGNN paper (arXiv:2102.04925) has no figures of {data}."]
    cells = []
    for row in result["rows"]:
        note = ""
        if not in_table(row["model"]):
            note = "no such row in the paper"
        elif paper_rmse(row["model"], data) is None:
            note = "missing in the rendering of the paper that was at hand"
        ours = four_decimals(row["rmse"])
        cells.append((row["model"], ours, published_rmse(row, result), note))
    return [
        paragraph(
            "Test RMSE beside Table 3 of the FedGNN paper (arXiv:2102.04925), whose FedGNN is the "
            "row fedgnn-gat:"
        ),
        table(("model", "ours", "paper", "note"), cells, right=(1, 2)),
        paragraph("Why the figures differ:"),
        bullets(REASONS),
    ]


def _privacy(rows: list[dict[str, Any]]) -> list[str]:
    cells = []
    for row in rows:
        epsilon = row["epsilon"]
        values = (in_words(epsilon[name]) for name in ("coordinate", "vector", "user"))
        scope = "-" if epsilon["scope"] is None else epsilon["scope"]
        cells.append((row["title"], row["mode"] or "-", *values, scope))
    header = ("model", "mode", "epsilon per coordinate", "per upload", "per user", "of")
    return [
        table(header, cells, right=(2, 3, 4)),
        *_guessed(rows),
        paragraph(
            "Epsilon is what the noise on uploads would cost if its coins were secret; it covers "
            "nothing else. A row without it has no differential privacy: a central row hands over "
            "all ratings, a secure sum hides them within a cohort and has no epsilon."
        ),
        paragraph(
            "A search is as many trainings as it has trials. In a deployment each of them would "
            "release its sums, its shared parameters and its learning curve once more."
        ),
    ]


def _guessed(rows: list[dict[str, Any]]) -> list[str]:
    """What the item sets give away that some rows upload."""
    told = [
        f"{row['title']}: {Guesses(**row['guesses'])}" for row in rows if row["guesses"] is not None
    ]
    if not told:
        return []
    return [paragraph("No epsilon covers which items a user uploads in the clear:"), bullets(told)]
