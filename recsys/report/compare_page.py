"""The page of a comparison: table, gaps, curves, the paper's figures beside ours."""

from collections.abc import Mapping
from typing import Any

from recsys.experiment.compare import Plan
from recsys.report.charts import Series, bar_chart, line_chart
from recsys.report.compare_text import (
    HEADER,
    PRIVACY,
    RIGHT,
    auc,
    divergence_lines,
    gap_table,
    searched,
    settings_table,
    table_rows,
)
from recsys.report.compare_text import epsilon as in_words
from recsys.report.html import (
    Page,
    bullets,
    details,
    facts,
    figure,
    gallery,
    paragraph,
    table,
    verbatim,
)
from recsys.report.paper import REASONS, PaperTable, paper_rows
from recsys.search import GRID


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
                ("best test AUC", f"{auc(best['auc'])} ({best['model']})"),
                ("users", f"{data['users']:,}"),
                ("POIs", f"{data['pois']:,}"),
                ("pairs to train", f"{data['train_pairs']:,}"),
                ("pairs to test", f"{data['test_pairs']:,}"),
                ("seeds", str(result["seeds"])),
            ]
        ),
        gallery(*_bars(result), *_curves(result)),
        table(HEADER, table_rows(result), right=RIGHT),
        *([bullets(diverged)] if diverged else []),
        paragraph("Differences in test AUC, and the spread that they have to be seen against:"),
        _gaps(result),
        paragraph(
            "AUC is pooled over all test pairs; the user mean is the mean of the users' own. sd is "
            "the sample standard deviation over the seeds, each of which has a split of its own."
        ),
    )
    page.section("Privacy", f"{PRIVACY.capitalize()}.", *_privacy(result))
    _paper(page, result, plan)
    page.section(
        "How settings were chosen",
        f"Search: {searched(result)}.",
        *_search(result),
    )
    page.section(
        "Data",
        *([bullets(data["notes"])] if data["notes"] else ["Nothing was left out."]),
        details("Settings that all rows share", verbatim(_settings(plan))),
        paragraph(f"Digest of the result: {result['result_digest']}"),
    )
    return page.render()


def _gaps(result: Mapping[str, Any]) -> str:
    header, cells = gap_table(result["gaps"])
    return table(header, cells, right=(2, 3))


def _bars(result: Mapping[str, Any]) -> list[str]:
    rows = [row for row in result["rows"] if row["auc"] is not None]
    if not rows:
        return []
    areas = [row["auc"] for row in rows]
    spread = [row["auc_sd"] or 0.0 for row in rows]
    svg = bar_chart(
        [row["model"] for row in rows],
        areas,
        x_label="test AUC",
        errors=spread if any(spread) else None,
    )
    alt = ", ".join(f"{row['model']} {row['auc']:.3f}" for row in rows)
    error = "; whiskers are one standard deviation" if any(spread) else ""
    return [figure(svg, f"Test AUC, mean of the seeds{error}. A coin toss has .5.", alt)]


def _curves(result: Mapping[str, Any]) -> list[str]:
    series = []
    for row in result["rows"]:
        history = [e for e in row["seeds"][0]["history"] or () if e["auc"] is not None]
        if history:
            epochs = [epoch["epoch"] for epoch in history]
            series.append(Series(row["model"], epochs, [epoch["auc"] for epoch in history]))
    if not series:
        return []
    svg = line_chart(series, x_label="epoch", y_label="validation AUC")
    return [
        figure(
            svg,
            "Validation AUC by epoch, seed 0. Training stops after epochs without a better one.",
            "Learning curves of all rows",
        )
    ]


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


def _search(result: Mapping[str, Any]) -> list[str]:
    if not result["trials"]:
        return []
    header, chosen = settings_table(result)
    right = tuple(range(1, len(header)))
    tried = [
        (
            row["model"],
            *(f"{trial[axis]:g}" for axis in GRID),
            "diverged" if trial["validation_auc"] is None else auc(trial["validation_auc"]),
        )
        for row in result["rows"]
        for trial in row["trials"]
    ]
    return [
        paragraph(
            "One axis after the other, in one order, from one starting point for all rows. An "
            "axis that a model does not have changes nothing in it, and its trial is spent."
        ),
        table(header, chosen, right=right),
        details("All trainings of the searches", table(header, tried, right=right)),
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
        (name, auc(ours[name]), *(auc(values[name]) for _, values in found)) for name in shared
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


def _settings(plan: Plan) -> str:
    values = {name: value for name, value in plan.base.items() if name != "prepare"}
    values |= plan.base["prepare"]
    return "\n".join(f"{name} = {value}" for name, value in values.items() if value is not None)
