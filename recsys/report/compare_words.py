"""What the words about experiments share: figures, gaps, searches, and how a text ends."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from recsys.report.ledger import INFINITY, shown
from recsys.report.table import Row, text_table
from recsys.tasks import Task

PRIVACY = (
    "privacy: none (reproducible simulation): all coins come from the seeds, epsilon is nominal"
)

_BEYOND = {1: "more", 0: "not more", -1: "below by more"}


def compared_lines(
    result: Mapping[str, Any],
    data: str,
    table: Sequence[str],
    remarks: Sequence[str],
    settings: tuple[Row, list[Row]],
) -> list[str]:
    """What ``privrec compare`` prints.

    data: the set and its parts, in words.  table: of the rows.  remarks: below it.  settings: what
    the searches chose, header and cells.
    """
    return [
        f"data     {data} (seed 0)",
        f"search   {searched(result)}",
        "",
        *indented(table),
        *indented(remarks),
        "",
        *_chosen(result, settings),
        *([*indented(gap_lines(result["gaps"])), ""] if result["gaps"] else []),
        *ending(result),
    ]


def ending(result: Mapping[str, Any]) -> list[str]:
    """The last lines of an experiment: its digest, its privacy, its report."""
    return [
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


def settings_table(
    result: Mapping[str, Any], axes: Sequence[str], task: Task
) -> tuple[Row, list[Row]]:
    """Header and cells of what the searches chose, with the validation measure that chose it."""
    name, best = f"validation_{task.measure}", min if task.lower else max
    header = ("model", *(axis.replace("_", " ") for axis in axes), "validation, seed 0")
    rows: list[Row] = []
    for row in result["rows"]:
        if row["settings"] is None:
            continue
        known = [trial[name] for trial in row["trials"] if trial[name] is not None]
        values = (setting(row["settings"], axis) for axis in axes)
        rows.append((row["model"], *values, four_decimals(best(known, default=None))))
    return header, rows


def trials_table(result: Mapping[str, Any], axes: Sequence[str], task: Task) -> list[Row]:
    """Every training of the searches, under the header of ``settings_table``."""
    name = f"validation_{task.measure}"
    return [
        (
            row["model"],
            *(setting(trial, axis) for axis in axes),
            "diverged" if trial[name] is None else four_decimals(trial[name]),
        )
        for row in result["rows"]
        for trial in row["trials"]
    ]


def setting(settings: Mapping[str, Any], axis: str) -> str:
    """The value of an axis, or that it is the model's own."""
    return f"{settings[axis]:g}" if axis in settings else "own"


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
            *(gap["model"], gap["other"], f"{gap['gap']:+.4f}", four_decimals(gap["sd"])),
            *(beyond[_side(gap)], gap["tells"]),
        )
        for gap in gaps
    ]


def grouped(notes: Iterable[tuple[str, str]], everybody: Sequence[str]) -> list[str]:
    """(who, note) as lines, each note once, behind all who have it; everybody's first."""
    whose: dict[str, list[str]] = {}
    for who, note in notes:
        whose.setdefault(note, []).append(who)
    lines = []
    for note, names in sorted(whose.items(), key=lambda item: -len(item[1])):
        told = "all" if 1 < len(names) == len(everybody) else ", ".join(names)
        lines.append(f"{told}: {note}")
    return lines


def indented(lines: Sequence[str]) -> list[str]:
    """Lines with two spaces before them."""
    return [f"  {line}" for line in lines]


def four_decimals(value: float | None) -> str:
    """A measure for a reader, or a dash where there is none."""
    return "-" if value is None else f"{value:.4f}"


def in_words(epsilon: float | str | None) -> str:
    """Epsilon as the ledger writes it, or a dash where nothing has one."""
    if epsilon is None:
        return "-"
    return INFINITY if isinstance(epsilon, str) else shown(epsilon)


def _side(gap: Mapping[str, Any]) -> int | None:
    """1 above the other by more than the spread, -1 below it by more, 0 neither, None unknown."""
    if gap["sd"] is None:
        return None
    return 1 if gap["beyond_sd"] else -1 if gap["gap"] < -gap["sd"] else 0


def _chosen(result: Mapping[str, Any], settings: tuple[Row, list[Row]]) -> list[str]:
    if not result["trials"]:
        return []
    header, rows = settings
    right = tuple(range(1, len(header)))
    return ["  settings by search", *indented(text_table(header, rows, right=right)), ""]
