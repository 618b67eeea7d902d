"""Comma-separated tables, gzipped or not, whose every complaint names the file and the line.

Source: RFC 4180 (comma-separated values), RFC 1952 (gzip), read by Python's csv and gzip.
Differs: a byte order mark is allowed, blank lines are passed over, columns may come in any order
    and their names in any case.
"""

import csv
import gzip
import io
import math
import zlib
from collections.abc import Sequence
from itertools import islice
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from recsys.errors import DataError

_BLOCK = 4096
_GZIP_MAGIC = b"\x1f\x8b"
_DOWNLOAD = "fetch the file again"


class Table:
    """The rows of one file as text columns.

    ``columns`` maps the lower-case name of a column to its values, one string for each data row.
    """

    def __init__(self, path: Path) -> None:
        self.file = str(path)
        self._text = _decoded(path)
        self.n_rows = 0
        reader = csv.reader(io.StringIO(self._text, newline=""), strict=True)
        rows = filter(None, reader)  # a blank line is an empty row
        try:
            names = [name.strip().lower() for name in next(rows, [])]
            self._check_header(names)
            columns: list[list[str]] = [[] for _ in names]
            # Blocks keep few rows alive at once, which spares memory and the garbage collector.
            while block := list(islice(rows, _BLOCK)):
                self._check_widths(block, len(names))
                self.n_rows += len(block)
                for column, values in zip(columns, zip(*block, strict=True), strict=True):
                    column.extend(values)
        except csv.Error as error:
            raise DataError(
                f"the line is not valid comma-separated text ({error})",
                file=self.file,
                row=reader.line_num,
                remedy='put fields with commas or quotes into "quotes" and double inner quotes',
            ) from error
        self.columns = dict(zip(names, columns, strict=True))

    def _check_header(self, names: list[str]) -> None:
        if not names:
            raise self.error("the file is empty", expected="a header line")
        twice = [name for name in names if names.count(name) > 1]
        if twice:
            raise self.error(f"column {twice[0]!r} appears twice", row=-1)

    def _check_widths(self, block: list[list[str]], width: int) -> None:
        widths = list(map(len, block))
        if widths.count(width) < len(block):
            wrong = next(i for i, found in enumerate(widths) if found != width)
            raise self.error(
                f"the row has {widths[wrong]} fields",
                row=self.n_rows + wrong,
                expected=f"{width} as in the header",
                remedy='put fields that hold commas into "quotes"',
            )

    def line(self, row: int) -> int:
        """The line on which data row ``row`` ends, from 0, the header being row -1."""
        reader = csv.reader(io.StringIO(self._text, newline=""), strict=True)
        seen = -2
        for fields in reader:
            seen += bool(fields)
            if seen == row:
                break
        return reader.line_num

    def error(
        self, problem: str, *, row: int | None = None, expected: str = "", remedy: str = ""
    ) -> DataError:
        """A DataError for data row ``row`` of this file, from 0, the header being row -1."""
        line = None if row is None else self.line(row)
        return DataError(problem, file=self.file, row=line, expected=expected, remedy=remedy)

    def require(self, *names: str) -> None:
        """Refuse the table unless it has all the columns ``names``."""
        missing = [name for name in names if name not in self.columns]
        if missing:
            found = ", ".join(repr(name) for name in self.columns)
            foreign = len(self.columns) == 1 and any(c in found for c in (";", "\\t", "|"))
            raise self.error(
                f"column {missing[0]!r} is missing, the columns are {found}",
                row=-1,
                remedy="separate the fields with commas" if foreign else "name it in the header",
            )

    def ids(self, name: str) -> tuple[tuple[str, ...], NDArray[np.int32]]:
        """The distinct ids of a column, in order of appearance, and each row's index into them."""
        index: dict[str, int] = {}
        rows = [index.setdefault(text, len(index)) for text in self.columns[name]]
        if "" in index:
            raise self.error(
                f"column {name!r} is empty", row=rows.index(index[""]), expected="an id"
            )
        return tuple(index), np.array(rows, dtype=np.int32)

    def numbers(self, name: str, low: float, high: float, remedy: str) -> NDArray[np.float64]:
        """A column of finite numbers in [low, high], float64 (n_rows,)."""
        values = self.columns[name]
        out = parsed(values)
        wrong = np.flatnonzero(~((out >= low) & (out <= high)))  # true for NaN too
        if wrong.size:
            row = int(wrong[0])
            raise self.error(
                f"{name} is {values[row]!r}" if values[row] else f"{name} is empty",
                row=row,
                expected=f"a number in [{low:g}, {high:g}]",
                remedy=remedy,
            )
        return out

    def filled(self, name: str) -> bool:
        """Whether an optional column is there and holds values; it must then hold all of them."""
        values = self.columns.get(name, ())
        if not any(values):
            return False
        if "" in values:
            raise self.error(
                f"{name} is empty, other rows have one",
                row=values.index(""),
                remedy="fill the column in every row or in none",
            )
        return True


def parsed(values: Sequence[str]) -> NDArray[np.float64]:
    """Texts as float64; what is no number becomes NaN."""
    try:
        return np.array([float(text) for text in values], dtype=np.float64)
    except ValueError:
        return np.array([_float(text) for text in values], dtype=np.float64)


def _float(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan


def _decoded(path: Path) -> str:
    file = str(path)
    try:
        data = path.read_bytes()
    except OSError as error:
        raise DataError(f"cannot be read ({error.strerror})", file=file) from error
    packed = data.startswith(_GZIP_MAGIC)
    if packed:
        try:
            data = gzip.decompress(data)
        except (EOFError, OSError, zlib.error) as error:
            raise DataError(
                f"the gzip data are cut off or damaged ({error})", file=file, remedy=_DOWNLOAD
            ) from error
    if not data:
        raise DataError("the file is empty", file=file, expected="a header line")
    if data.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"<"):
        raise DataError(
            "this is a web page or XML",
            file=file,
            expected="comma-separated text",
            remedy=_DOWNLOAD,
        )
    if path.suffix == ".gz" and not packed:
        raise DataError(
            "this is not gzip data",
            file=file,
            remedy=f"rename it to {path.stem} if it is plain text",
        )
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise DataError(
            f"byte {error.start} is not UTF-8 text", file=file, remedy="save the file as UTF-8"
        ) from error
