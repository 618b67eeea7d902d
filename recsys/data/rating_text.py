"""Text files in blocks of whole lines, gzipped or not.

Source: RFC 1952 (gzip), read by Python's gzip.
"""

import gzip
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from recsys.data.checkins import is_there
from recsys.errors import DataError

BLOCK_BYTES = 1 << 20
"""Of a block, give or take a line: its columns stay in the processor's cache."""

BOM = b"\xef\xbb\xbf"
GZIP_MAGIC = b"\x1f\x8b"

_DOWNLOAD = "fetch the file again"
_HEAD_BYTES = 4096


def text_blocks(path: Path) -> Iterator[bytes]:
    """The file in blocks that end with a line feed, the last one too, without a byte order mark.

    Raises DataError for what cannot be read, an empty file, a damaged or foreign one.
    """
    file = str(path)
    with _stream(path) as stream:
        rest = b""
        checked = False
        while data := _read(stream, BLOCK_BYTES, file):
            if not checked:
                _check_kind(path, data)
                data, checked = data.removeprefix(BOM), True
            block, feed, behind = data.rpartition(b"\n")
            if feed:
                yield rest + block + feed
                rest = behind
            else:
                rest += data
        if not checked:
            raise DataError("the file is empty", file=file, expected="one line for each rating")
        if rest:
            yield rest + b"\n"


def one_of(folder: Path, name: str) -> Path | None:
    """The file ``name`` of ``folder`` or its gzipped form, None without one.

    Raises DataError where both are there: which one counts is not for us to guess.
    """
    found = [path for path in _forms(folder, name) if is_there(path)]
    if len(found) == 2:
        raise DataError(
            f"holds both {found[0].name} and {found[1].name}",
            file=str(folder),
            remedy="keep one of them",
        )
    return found[0] if found else None


def holds(folder: Path, name: str) -> bool:
    """Whether ``folder`` has the file ``name`` or its gzipped form, or both."""
    return any(is_there(path) for path in _forms(folder, name))


def first_line(path: Path) -> str:
    """The first line that is not blank, to tell formats apart; "" where there is none.

    Raises DataError if the file cannot be read at all.
    """
    with _stream(path) as stream:
        try:
            data = stream.read(_HEAD_BYTES)
        except (EOFError, OSError, zlib.error):
            return ""
    line = data.removeprefix(BOM).lstrip(b"\r\n").split(b"\n")[0]
    return line.decode("utf-8", errors="replace").rstrip("\r")


def _forms(folder: Path, name: str) -> tuple[Path, Path]:
    return folder / name, folder / f"{name}.gz"


@contextmanager
def _stream(path: Path) -> Iterator[BinaryIO | gzip.GzipFile]:
    try:
        raw = path.open("rb")
    except OSError as error:
        raise DataError(f"cannot be read ({error.strerror})", file=str(path)) from error
    with raw:
        packed = raw.peek(2).startswith(GZIP_MAGIC)
        yield gzip.GzipFile(fileobj=raw, mode="rb") if packed else raw


def _read(stream: BinaryIO | gzip.GzipFile, size: int, file: str) -> bytes:
    try:
        return stream.read(size)
    except (EOFError, OSError, zlib.error) as error:
        raise DataError(
            f"the data are cut off or damaged ({error})", file=file, remedy=_DOWNLOAD
        ) from error


def _check_kind(path: Path, head: bytes) -> None:
    """Refuse what is no text, by its first bytes."""
    start = head.removeprefix(BOM).lstrip()
    problem, remedy = "", _DOWNLOAD
    if start.startswith(b"<"):
        problem = "this is a web page or XML"
    elif start.startswith(b"PK\x03\x04"):
        problem, remedy = "this is a zip archive", "unpack it and name the folder"
    elif b"\0" in head:
        problem, remedy = "this is not UTF-8 text", "save the file as UTF-8"
    if problem:
        raise DataError(
            problem, file=str(path), expected="text with a rating a line", remedy=remedy
        )
    with path.open("rb") as raw:
        packed = raw.read(2) == GZIP_MAGIC
    if path.suffix == ".gz" and not packed:
        raise DataError(
            "this is not gzip data",
            file=str(path),
            remedy=f"rename it to {path.stem} if it is plain text",
        )
