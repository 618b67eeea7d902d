"""A comparison in words: the table of rows, the gaps that matter, what privacy it had."""

from collections.abc import Mapping, Sequence
from typing import Any

from recsys.report.ledger import INFINITY, shown
from recsys.report.table import Row, byte_size, text_table

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
        *(f"  {line}" for line in text_table(HEADER, table_rows(result), right=RIGHT)),
        "",
        *(f"  {line}" for line in gap_lines(result["gaps"])),
        "",
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
    return (
        f"{result['trials']} trainings of each row on the validation part of seed 0; tested under "
        f"{seeds}"
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
        if gap["sd"] is None:
            line += " (one seed: no spread to compare it with)"
        else:
            than = "more" if gap["beyond_sd"] else "not more"
            line += f", {than} than the larger sd of the two, {gap['sd']:.4f}"
        lines.append(f"{line}; {gap['tells']}")
    return lines


def gap_table(gaps: Sequence[Mapping[str, Any]]) -> tuple[Row, list[Row]]:
    """Header and cells of the gaps."""
    header = ("row", "over", "difference", "larger sd", "more than the sd", "what it tells")
    beyond = {None: "-", True: "yes", False: "no"}
    return header, [
        (
            *(gap["model"], gap["other"], f"{gap['gap']:+.4f}", auc(gap["sd"])),
            *(beyond[gap["beyond_sd"]], gap["tells"]),
        )
        for gap in gaps
    ]


def auc(value: float | None) -> str:
    """Four decimals, or a dash where there is none."""
    return "-" if value is None else f"{value:.4f}"


def epsilon(value: float | str | None) -> str:
    """Epsilon as the ledger writes it, or a dash where nothing has one."""
    if value is None:
        return "-"
    return INFINITY if isinstance(value, str) else shown(value)
