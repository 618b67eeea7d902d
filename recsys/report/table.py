"""Tables as plain text and as Markdown, from cells that are already words."""

import re
from collections.abc import Sequence

Row = Sequence[str]

_NUMBER = re.compile(r"-|any|infinity|[+-]?[0-9][0-9.,]*(e[+-]?[0-9]+)?( %| [kMG]?B| s)?( [*(].*)?")


def text_table(header: Row, rows: Sequence[Row], *, right: Sequence[int] = ()) -> list[str]:
    """Aligned lines without borders. right: columns whose cells end at the same place."""
    widths = [max(len(row[i]) for row in (header, *rows)) for i in range(len(header))]

    def line(cells: Row) -> str:
        padded = (
            cell.rjust(width) if i in right else cell.ljust(width)
            for i, (cell, width) in enumerate(zip(cells, widths, strict=True))
        )
        return "  ".join(padded).rstrip()

    return [line(header), line(["-" * width for width in widths]), *map(line, rows)]


def numeric_columns(rows: Sequence[Row]) -> tuple[int, ...]:
    """The columns but the first in which every cell is a number or says that there is none."""
    columns = list(zip(*rows, strict=True))
    return tuple(
        place
        for place, cells in enumerate(columns)
        if place and all(_NUMBER.fullmatch(cell) for cell in cells)
    )


def markdown_table(header: Row, rows: Sequence[Row], *, right: Sequence[int] = ()) -> list[str]:
    """A Markdown table; a bar inside a cell is escaped, because it would end the cell."""
    rule = ["---:" if i in right else "---" for i in range(len(header))]
    return [
        "| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |"
        for row in (header, rule, *rows)
    ]


def byte_size(size: float) -> str:
    """Bytes for a reader: 999 B, 1.2 kB, 3.4 MB, 5.6 GB; decimal units."""
    for unit in ("B", "kB", "MB"):
        if size < 999.5:
            return f"{size:.0f} B" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:,.1f} GB"
