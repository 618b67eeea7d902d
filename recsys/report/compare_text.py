"""A comparison in words: the table of rows, the gaps that matter, what privacy it had."""

from collections.abc import Mapping, Sequence
from typing import Any

from recsys.report.ledger import INFINITY, shown
from recsys.report.table import Row, byte_size, text_table
from recsys.search import GRID

HEADER = (
    *("model", "test AUC", "sd", "validation", "user mean", "seconds", "sent per user"),
    "epsilon per pair",
)
RIGHT = (1, 2, 3, 4, 5, 6, 7)

PRIVACY = (
    "privacy: none (reproducible simulation): all coins come from the seeds, epsilon is nominal"
)


def comparison_lines(result: Mapping[str, Any]) -> list[str]:
    """What ``privrec compare`` prints."""
    data = result["data"]
    return [
        f"data     {data['data']}: {data['users']:,} users, {data['pois']:,} POIs, pairs to train "
        f"{data['train_pairs']:,}, to validate {data['validation_pairs']:,}, to test "
        f"{data['test_pairs']:,} (seed 0)",
        f"search   {searched(result)}",
        "",
        *indented(text_table(HEADER, table_rows(result), right=RIGHT)),
        *indented(divergence_lines(result)),
        "",
        *_chosen(result),
        *([*indented(gap_lines(result["gaps"])), ""] if result["gaps"] else []),
        f"digest   {result['result_digest']}",
        PRIVACY,
        f"report   {result['out']}/public/report.html",
    ]


def searched(result: Mapping[str, Any]) -> str:
    """How the settings of the rows came about."""
    count = result["seeds"]
    seeds = "seed 0" if count == 1 else f"seeds 0 to {count - 1}"
    if not result["trials"]:
        return f"none, the models' own settings; tested under {seeds}"
    # Rating models have spaces of their own, of which some are seen whole by fewer trainings.
    most = "at most " if "task" in result else ""
    return (
        f"{most}{result['trials']} trainings of each row on the validation part of seed 0; tested "
        f"under {seeds}"
    )


def table_rows(result: Mapping[str, Any]) -> list[Row]:
    """The cells of the rows, under ``HEADER``."""
    return [
        (
            row["model"],
            auc(row["auc"]),
            auc(row["auc_sd"]),
            auc(row["validation_auc"]),
            auc(row["auc_user_mean"]),
            f"{row['seconds']:.1f}",
            "-" if row["bytes_per_user"] is None else byte_size(row["bytes_per_user"]),
            epsilon(row["epsilon"]["bit"]),
        )
        for row in result["rows"]
    ]


def gap_lines(gaps: Sequence[Mapping[str, Any]]) -> list[str]:
    """One sentence for each gap, with the spread that it has to be seen against."""
    lines = []
    for gap in gaps:
        line = f"{gap['model']} over {gap['other']}: {gap['gap']:+.4f}"
        side = _side(gap)
        if side is None:
            line += " (one seed: no spread to compare it with)"
        else:
            line += f", {_BEYOND[side]} than the larger sd of the two, {gap['sd']:.4f}"
        lines.append(f"{line}; {gap['tells']}")
    return lines


def gap_table(gaps: Sequence[Mapping[str, Any]]) -> tuple[Row, list[Row]]:
    """Header and cells of the gaps."""
    header = ("row", "over", "difference", "larger sd", "more than the sd", "what it tells")
    beyond = {None: "-", 1: "yes", 0: "no", -1: "yes, but below"}
    return header, [
        (
            *(gap["model"], gap["other"], f"{gap['gap']:+.4f}", auc(gap["sd"])),
            *(beyond[_side(gap)], gap["tells"]),
        )
        for gap in gaps
    ]


_BEYOND = {1: "more", 0: "not more", -1: "below by more"}


def _side(gap: Mapping[str, Any]) -> int | None:
    """1 above the other by more than the spread, -1 below it by more, 0 neither, None unknown."""
    if gap["sd"] is None:
        return None
    return 1 if gap["beyond_sd"] else -1 if gap["gap"] < -gap["sd"] else 0


def settings_table(result: Mapping[str, Any]) -> tuple[Row, list[Row]]:
    """Header and cells of what the searches chose, with the validation AUC that chose it."""
    header = ("model", *(axis.replace("_", " ") for axis in GRID), "validation, seed 0")
    rows: list[Row] = []
    for row in result["rows"]:
        known = [t["validation_auc"] for t in row["trials"] if t["validation_auc"] is not None]
        values = (f"{row['settings'][axis]:g}" for axis in GRID)
        rows.append((row["model"], *values, auc(max(known, default=None))))
    return header, rows


def divergence_lines(result: Mapping[str, Any]) -> list[str]:
    """One sentence for each row whose training diverged, which leaves it without an AUC."""
    lines = []
    for row in result["rows"]:
        for seed in row["diverged"]:
            how = row["seeds"][seed]["diverged"]
            lines.append(f"{row['model']} diverged under seed {seed}, so it has no AUC: {how}")
    return lines


def _chosen(result: Mapping[str, Any]) -> list[str]:
    if not result["trials"]:
        return []
    header, rows = settings_table(result)
    right = tuple(range(1, len(header)))
    return ["  settings by search", *indented(text_table(header, rows, right=right)), ""]


def indented(lines: Sequence[str]) -> list[str]:
    """Lines with two spaces before them."""
    return [f"  {line}" for line in lines]


def auc(value: float | None) -> str:
    """Four decimals, or a dash where there is none."""
    return "-" if value is None else f"{value:.4f}"


def epsilon(value: float | str | None) -> str:
    """Epsilon as the ledger writes it, or a dash where nothing has one."""
    if value is None:
        return "-"
    return INFINITY if isinstance(value, str) else shown(value)
