"""Rating files row by row, fast: separated text in blocks, digits by whole columns.

A block of lines that all have the usual form (whole numbers as ids, plain decimals as ratings) is
parsed by array operations. Any other block goes through Python's csv and float, which decide what
it means or what is wrong with it: the fast way never gives what the slow one would not.

Source: RFC 4180 (comma-separated values).
Error: none; a rating is the float64 nearest to its text.
Differs: a byte order mark is allowed, blank lines are passed over.
"""

import csv
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from recsys.data.rating_digits import decimals, fields, whole_numbers
from recsys.data.rating_ids import Codes, IdTable
from recsys.data.rating_text import text_blocks
from recsys.data.ratings import Floats
from recsys.data.table import parsed
from recsys.errors import DataError

LARGEST = 1e9
"""Largest size of a rating: its square keeps all digits that matter."""

_BATCH_ROWS = 1 << 14

Lines = int | NDArray[np.int64]
"""The number of the first of adjacent lines, or of each where blank or quoted ones lie between."""


@dataclass(frozen=True)
class RowFormat:
    """How the lines of a file look.

    separator: between fields.  width: fields of a line.  user, item, rating, time: their places,
    ``time`` None where there is none.  expected: a line in words.  quoted: whether fields may stand
    in quotes.  header: whether the first line is a header.
    """

    separator: str
    width: int
    user: int
    item: int
    rating: int
    time: int | None
    expected: str
    quoted: bool = False
    header: bool = False


Form = Callable[[str, str, int], RowFormat]
"""What tells a format by the first line of a file; file and number of that line are for errors."""


@dataclass(frozen=True, eq=False)
class Rows:
    """The rows of one file, in its order; ``n`` of them.

    file: as the caller gave it.  users, items: codes of ids (n,).  values: float64 (n,).
    times: float64 (n,), NaN where unknown, seconds since 1970 or whatever the file counts; None
    without such a column.
    """

    file: str
    users: Codes
    items: Codes
    values: Floats
    times: Floats | None
    lines: Sequence[tuple[int, Lines]] = field(repr=False)

    def __len__(self) -> int:
        return self.users.size

    def line(self, row: int) -> int:
        """The line on which ``row`` ends, the first line of the file being 1."""
        first, lines = next(entry for entry in reversed(self.lines) if entry[0] <= row)
        return lines + row - first if isinstance(lines, int) else int(lines[row - first])


@dataclass(frozen=True)
class _Block:
    users: Codes
    items: Codes
    values: Floats
    times: Floats | None
    lines: Lines


def read_rows(path: Path, form: Form, users: IdTable, items: IdTable) -> Rows:
    """Read a file of ratings, gzipped or not.

    form: says how the lines look, from the first that is not blank, the file and its number there.
    users, items: what gives ids their codes.
    Raises DataError, which names file, line, what was expected and the remedy.
    """
    file = str(path)
    blocks = text_blocks(path)
    opening = next(blocks)
    first = opening.lstrip(b"\r\n")
    if not first:
        raise DataError("the file starts with empty lines alone", file=file, expected="ratings")
    line = 1 + opening.count(b"\n", 0, len(opening) - len(first))
    head, _, behind = first.partition(b"\n")
    look = form(_decoded(head, file, line).rstrip("\r"), file, line)
    if look.header:
        first, line = behind, line + 1
    reader = _Reader(file, look, users, items)
    return _joined(file, list(reader.parsed(chain([first], blocks), line)))


def _joined(file: str, blocks: list[_Block]) -> Rows:
    starts = np.cumsum([0, *(block.users.size for block in blocks)]).tolist()
    lines = [(first, block.lines) for first, block in zip(starts, blocks, strict=False)]
    nothing = np.empty(0, dtype=np.int32)
    users = np.concatenate([nothing, *(block.users for block in blocks)])
    items = np.concatenate([nothing, *(block.items for block in blocks)])
    values = np.concatenate([np.empty(0), *(block.values for block in blocks)])
    times = [block.times for block in blocks if block.times is not None]
    return Rows(file, users, items, values, np.concatenate(times) if times else None, lines)


class _Reader:
    def __init__(self, file: str, look: RowFormat, users: IdTable, items: IdTable) -> None:
        self._file = file
        self._look = look
        self._users = users
        self._items = items

    def parsed(self, blocks: Iterator[bytes], line: int) -> Iterator[_Block]:
        """All rows; ``line`` is the number of the first line."""
        for block in blocks:
            if self._look.quoted and b'"' in block:
                yield from self._quoted(chain([block], blocks), line)
                return
            if b"\r" in block:
                block = block.replace(b"\r\n", b"\n")  # noqa: PLW2901 - one line end from here on
            found = self._fast(block, line)
            if found is None:
                yield self._slow(*self._split(block, line))
                line += block.count(b"\n")
            else:
                yield found
                line += found.users.size

    def _fast(self, block: bytes, line: int) -> _Block | None:
        look = self._look
        data = np.frombuffer(block, dtype=np.uint8)
        cut = fields(data, look.separator.encode(), look.width)
        if cut is None:
            return None
        begin, end = cut
        users = whole_numbers(data, begin[look.user], end[look.user], ids=True)
        if users is None:
            return None
        items = whole_numbers(data, begin[look.item], end[look.item], ids=True)
        if items is None:
            return None
        values = decimals(data, begin[look.rating], end[look.rating])
        if values is None or values.max(initial=0) > LARGEST:
            return None
        times = None
        if look.time is not None:
            seconds = whole_numbers(data, begin[look.time], end[look.time], ids=False)
            if seconds is None:
                return None
            times = seconds.astype(np.float64)
        return _Block(users, items, values, times, line)

    def _split(self, block: bytes, line: int) -> tuple[list[list[str]], NDArray[np.int64]]:
        """The fields of each line that is not blank, and the lines' numbers."""
        texts = _decoded(block, self._file, line).split("\n")
        full = [number for number, text in enumerate(texts) if text]
        return [texts[i].split(self._look.separator) for i in full], np.array(full) + line

    def _quoted(self, blocks: Iterator[bytes], line: int) -> Iterator[_Block]:
        """All rows from here on by Python's csv reader, since a field may span lines."""
        texts = (
            f"{text}\n"
            for number, block in _numbered(blocks, line)
            for text in _decoded(block, self._file, number).split("\n")[:-1]
        )
        reader = csv.reader(texts, delimiter=self._look.separator, strict=True)
        rows: list[list[str]] = []
        lines: list[int] = []
        try:
            for row in filter(None, reader):  # a blank line is an empty row
                rows.append(row)
                lines.append(line + reader.line_num - 1)
                if len(rows) == _BATCH_ROWS:
                    yield self._slow(rows, np.array(lines))
                    rows, lines = [], []
        except csv.Error as error:
            self._slow(rows, np.array(lines))  # the first mistake is the one that is named
            raise DataError(
                f"the line is not valid comma-separated text ({error})",
                file=self._file,
                row=line + max(reader.line_num, 1) - 1,
                remedy='put fields with commas or quotes into "quotes" and double inner quotes',
            ) from error
        yield self._slow(rows, np.array(lines))

    def _slow(self, rows: list[list[str]], lines: NDArray[np.int64]) -> _Block:
        look = self._look
        if any(len(row) != look.width for row in rows):
            raise self._first_error(rows, lines)
        columns = list(zip(*rows, strict=True)) or [()] * look.width
        users, items = columns[look.user], columns[look.item]
        values = _numbers(columns[look.rating])
        times = None if look.time is None else _times(columns[look.time])
        wrong = "" in users or "" in items or not (np.abs(values) <= LARGEST).all()
        if wrong or (times is not None and np.isinf(times).any()):
            raise self._first_error(rows, lines)
        return _Block(self._users.codes(users), self._items.codes(items), values, times, lines)

    def _first_error(self, rows: list[list[str]], lines: NDArray[np.int64]) -> DataError:
        """What is wrong with the first of ``rows`` that is."""
        faults = ((self._fault(row), line) for row, line in zip(rows, lines.tolist(), strict=True))
        (problem, expected, remedy), line = next(entry for entry in faults if entry[0][0])
        return DataError(problem, file=self._file, row=line, expected=expected, remedy=remedy)

    def _fault(self, row: list[str]) -> tuple[str, str, str]:
        """Problem, what was expected and the remedy; three times "" where the row is right."""
        look = self._look
        correct = "correct the line or leave it out"
        if len(row) != look.width:
            count = f"{len(row)} field{'s' if len(row) > 1 else ''}"
            return f"the row has {count}", look.expected, correct
        for name, place in (("user", look.user), ("item", look.item), ("rating", look.rating)):
            if not row[place]:
                return f"the {name} is empty", look.expected, correct
        if not abs(_numbers([row[look.rating]])[0]) <= LARGEST:
            allowed = f"a number in [-{LARGEST:g}, {LARGEST:g}]"
            return f"the rating is {row[look.rating]!r}", allowed, correct
        if look.time is not None and np.isinf(_times([row[look.time]])[0]):
            allowed = "a number, or an ISO 8601 time such as 2012-04-03T18:00:09Z"
            remedy = "correct it or leave it empty"
            return f"the timestamp is {row[look.time]!r}", allowed, remedy
        return "", "", ""


def _numbered(blocks: Iterator[bytes], line: int) -> Iterator[tuple[int, bytes]]:
    """Each block with the number of its first line."""
    for block in blocks:
        yield line, block
        line += block.count(b"\n")


def _decoded(block: bytes, file: str, line: int) -> str:
    try:
        return block.decode("utf-8")
    except UnicodeDecodeError as error:
        raise DataError(
            "the line is not UTF-8 text",
            file=file,
            row=line + block.count(b"\n", 0, error.start),
            remedy="save the file as UTF-8",
        ) from error


def _numbers(texts: Sequence[str]) -> Floats:
    """Texts as float64; what is no number becomes NaN, Python's 1_000 too."""
    values = parsed(texts)
    values[[place for place, text in enumerate(texts) if "_" in text]] = math.nan
    return values


def _times(texts: Sequence[str]) -> Floats:
    """Texts as seconds, NaN for an empty one, infinite for what is no time."""
    seconds = _numbers(texts)
    for row in np.flatnonzero(np.isnan(seconds)).tolist():
        seconds[row] = _since_1970(texts[row]) if texts[row] else math.nan
    return seconds


def _since_1970(text: str) -> float:
    """An ISO 8601 time in seconds, UTC where no zone is given; infinite for other texts."""
    try:
        moment = datetime.fromisoformat(text.strip())
    except ValueError:
        return math.inf
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
