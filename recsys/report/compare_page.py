"""The page of a comparison of models of visits: table, gaps, curves, the paper's figures."""

from collections.abc import Mapping
from typing import Any

from recsys.experiment.compare import Plan
from recsys.report.compare_blocks import bars, curves, data_section, gaps, search_section
from recsys.report.compare_text import AXES, HEADER, RIGHT, divergence_lines, table_rows
from recsys.report.compare_words import PRIVACY, four_decimals, in_words
from recsys.report.html import Page, bullets, facts, gallery, paragraph, table
from recsys.report.paper import REASONS, PaperTable, paper_rows
from recsys.tasks import VISITS


def comparison_page(result: Mapping[str, Any], plan: Plan) -> bytes:
    """``public/report.html`` of a comparison."""
    data, rows = result["data"], result["rows"]
    diverged = divergence_lines(result)
    best = max(rows, key=lambda row: row["auc"] or 0.0)
    page = Page(
        f"{len(rows)} models on {data['data']}",
        f"Test AUC of {', '.join(row['model'] for row in rows)}, trained alike.",
    )
    page.section(
        "Result",
        facts(
            [
                ("best test AUC", f"{four_decimals(best['auc'])} ({best['model']})"),
                ("users", f"{data['users']:,}"),
                ("POIs", f"{data['pois']:,}"),
                ("pairs to train", f"{data['train_pairs']:,}"),
                ("pairs to test", f"{data['test_pairs']:,}"),
                ("seeds", str(result["seeds"])),
            ]
        ),
        gallery(
            *bars(rows, VISITS, "A coin toss has .5."),
            *curves(
                rows,
                VISITS,
                "Validation AUC by epoch, seed 0. Training stops after epochs without a better "
                "one.",
            ),
        ),
        table(HEADER, table_rows(result), right=RIGHT),
        *([bullets(diverged)] if diverged else []),
        *gaps(result, "Differences in test AUC"),
        paragraph(
            "AUC is pooled over all test pairs; the user mean is the mean of the users' own. sd is "
            "the sample standard deviation over the seeds, each of which has a split of its own."
        ),
    )
    page.section("Privacy", f"{PRIVACY.capitalize()}.", *_privacy(result))
    _paper(page, result, plan)
    search_section(
        page,
        result,
        AXES,
        VISITS,
        "One axis after the other, in one order, from one starting point for all rows. An axis "
        "that a model does not have changes nothing in it, and its trial is spent.",
    )
    data_section(page, result, plan)
    return page.render()


def _privacy(result: Mapping[str, Any]) -> list[str]:
    cells = []
    for row in result["rows"]:
        epsilon = row["epsilon"]
        cells.append(
            (
                row["title"],
                row["mode"] or "-",
                in_words(epsilon["bit"]),
                in_words(epsilon["user"]),
                "-" if epsilon["scope"] is None else epsilon["scope"],
            )
        )
    header = ("model", "mode", "epsilon per user-POI pair", "per user", "of")
    return [
        table(header, cells, right=(2, 3)),
        paragraph(
            "Epsilon is what the randomized answers would cost if their coins were secret; it "
            "covers nothing else. The sums of models and gradients, V and the learning curve have "
            "no epsilon. A row without one has no randomized answers; a central row has no "
            "privacy at all."
        ),
        paragraph(
            "A search is as many trainings as it has trials. In a deployment each of them would "
            "release its sums, its V and its learning curve once more."
        ),
    ]


def _paper(page: Page, result: Mapping[str, Any], plan: Plan) -> None:
    prepare = plan.base["prepare"]
    data = result["data"]["data"]
    found = paper_rows(prepare["test_fraction"], plan.base["factors"], data)
    ours = {row["model"]: row["auc"] for row in result["rows"]}
    shared = [name for name in ("fm", "prirec-", "prirec") if name in ours]
    if not found or not shared:
        return
    header = ("model", "ours", *(f"paper, {each.name}" for each, _ in found))
    cells = [
        (name, four_decimals(ours[name]), *(four_decimals(values[name]) for _, values in found))
        for name in shared
    ]
    percent = round(100 * (1 - prepare["test_fraction"]))
    page.section(
        "Beside the paper",
        paragraph(
            f"Test AUC with {percent} % of the visits to train on and K = {plan.base['factors']}, "
            "beside the same split and K of the paper:"
        ),
        table(header, cells, right=tuple(range(1, len(header)))),
        bullets([_beside(each, data) for each, _ in found]),
        paragraph("Why the figures differ:"),
        bullets(REASONS),
    )


def _beside(table: PaperTable, data: str) -> str:
    stands = f", for which {data} stands in" if table.stand_in == data else ""
    return f"{table.name}: {table.data}{stands}; {table.network} user network."
