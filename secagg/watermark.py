"""High-water marks: a region of a pad stream is written down as used before it is expanded.

Source: the rule that a one-time pad serves once; write-ahead as in any log.
Model: the process may die at any instruction. After a restart a claimed region is never granted
    again, whether or not it was used. A file restored from a backup looks like any other file
    to a new process: keep no backups of it.
"""

import hashlib
import os
import threading
from pathlib import Path
from typing import Protocol

from mpc.core.durable import exclusive, write_durably
from mpc.core.errors import ParameterError, StateError, WireError
from mpc.core.wire import Message
from secagg.params import Region

Mark = tuple[int, int]
"""(epoch, byte): everything before this point of the key's streams is spent."""


class Watermark(Protocol):
    """Where a client records how far the pads of each key are spent."""

    def claim(self, key_id: bytes, epoch: int, start: int, stop: int) -> None:
        """Record bytes [start, stop) of ``epoch``, and all before them, as spent; then return.

        key_id: 32 public bytes that name the key.  Must be durable when it returns, and atomic
        between processes that share it.  Raises StateError, with nothing recorded, unless the
        whole region lies after everything claimed before.
        """


def _advance(marks: dict[bytes, Mark], key_id: bytes, region: Region) -> None:
    mark = marks.get(key_id, (0, 0))
    if (region.epoch, region.start) < mark:
        raise StateError(
            f"epoch {region.epoch} bytes [{region.start}, {region.stop}) are spent: the mark is "
            f"epoch {mark[0]} byte {mark[1]}",
            remedy="go on with a later round",
        )
    marks[key_id] = region.epoch, region.stop


class MemoryWatermark:
    """Marks for keys that are made and dropped within this process, and die with it."""

    def __init__(self) -> None:
        self._marks: dict[bytes, Mark] = {}
        self._lock = threading.Lock()
        self._process = os.getpid()

    def claim(self, key_id: bytes, epoch: int, start: int, stop: int) -> None:
        """See ``Watermark.claim``; durable as long as the keys are.

        Raises StateError in a forked process too, where it would not see the other's claims.
        """
        region = Region(epoch, start, stop)
        if os.getpid() != self._process:
            raise StateError(
                "these marks belong to another process", remedy="share a FileWatermark"
            )
        with self._lock:
            _advance(self._marks, key_id, region)

    def __reduce__(self) -> tuple[object, ...]:
        raise TypeError("a MemoryWatermark lives and dies with its process; use FileWatermark")


class _MarkFile(Message, frozen=True, tag="pads.marks"):
    """The file's content: (key id, epoch, byte) in rising order, and a SHA-256 over them."""

    marks: tuple[tuple[bytes, int, int], ...]
    check: bytes


class FileWatermark:
    """Marks in a file that survives the process. POSIX only.

    ``FileWatermark.create(path)`` starts a file for keys that are new; ``FileWatermark(path)``
    opens one and refuses if it is missing or damaged, because marks that are lost can't be told
    from marks that never were.  Processes may share the file: each claim reads it
    again, under a lock on the empty file ``<path>.lock`` beside it.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._path = Path(path)
        if not self._path.exists():
            raise self._missing()  # before a lock file is left beside what is not there
        with exclusive(self._path):
            self._seen: dict[bytes, Mark] = self._read()

    @classmethod
    def create(cls, path: str | os.PathLike[str]) -> "FileWatermark":
        """A new file without marks, for keys that have made no pad yet.

        Raises StateError if the file exists, ParameterError if its folder does not.
        """
        new = cls.__new__(cls)
        new._path, new._seen = Path(path), {}
        if not new._path.parent.is_dir():
            raise ParameterError(f"the folder {new._path.parent} does not exist")
        with exclusive(new._path):
            if new._path.exists():
                raise StateError(
                    f"the watermark file {new._path} exists", remedy="open it: FileWatermark(path)"
                )
            new._write({})
        return new

    def claim(self, key_id: bytes, epoch: int, start: int, stop: int) -> None:
        """See ``Watermark.claim``; on disk when it returns.

        Raises StateError also if the file vanished, is damaged or went back since the last claim.
        """
        region = Region(epoch, start, stop)
        with exclusive(self._path):
            marks = self._read()
            for known, mark in self._seen.items():
                if marks.get(known, (0, 0)) < mark:
                    raise StateError(
                        f"the watermark file {self._path} went back", remedy=_LOST_REMEDY
                    )
            _advance(marks, key_id, region)
            self._write(marks)
            self._seen = marks

    def _read(self) -> dict[bytes, Mark]:
        try:
            file = _MarkFile.from_bytes(self._path.read_bytes())
        except FileNotFoundError as error:
            raise self._missing() from error
        except WireError as error:
            raise self._damaged() from error
        if file.check != _checksum(file.marks):
            raise self._damaged()
        return {key_id: (epoch, stop) for key_id, epoch, stop in file.marks}

    def _missing(self) -> StateError:
        return StateError(f"the watermark file {self._path} is missing", remedy=_LOST_REMEDY)

    def _damaged(self) -> StateError:
        return StateError(f"the watermark file {self._path} is damaged", remedy=_LOST_REMEDY)

    def _write(self, marks: dict[bytes, Mark]) -> None:
        rows = tuple((key_id, *mark) for key_id, mark in sorted(marks.items()))
        write_durably(self._path, _MarkFile(rows, _checksum(rows)).to_bytes())


_LOST_REMEDY = "agree new keys; keys whose marks are lost must not make another pad"


def _checksum(rows: tuple[tuple[bytes, int, int], ...]) -> bytes:
    return hashlib.sha256(_MarkFile(rows, b"").to_bytes()).digest()
