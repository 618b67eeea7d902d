"""Counters on disk: a number is written down as used before it is handed out.

Source: write-ahead, as in any log.
Model: the process may die at any instruction. After a restart a claimed number is never given
    again, whether or not it was used. Several processes and threads may share the file. A file
    restored from a backup looks like any other to a new process: keep no backups of it.
"""

import hashlib
import os
from collections.abc import Iterable, Mapping
from pathlib import Path

from mpc.core.durable import exclusive, write_durably
from mpc.core.errors import ParameterError, StateError, WireError
from mpc.core.wire import Message


class _File(Message, frozen=True, tag="counters"):
    """(name, next number) in rising order of names, and a SHA-256 over them."""

    rows: tuple[tuple[bytes, int], ...]
    check: bytes


_LOST_REMEDY = "drop what was counted: it may have served already"


class DurableCounters:
    """Counters from 0 on, each under a name, in one file. POSIX only.

    ``DurableCounters.create(path, names)`` starts a file for what is new; ``DurableCounters(path)``
    opens one and refuses if it is missing or damaged. Each call reads the file again, under a lock
    on the empty file ``<path>.lock`` beside it.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._path = Path(path)
        if not self._path.exists():
            raise self._missing()  # before a lock file is left beside what is not there
        with exclusive(self._path):
            self._seen = self._read()

    @classmethod
    def create(cls, path: str | os.PathLike[str], names: Iterable[bytes]) -> "DurableCounters":
        """A new file, its counters at 0.

        Raises StateError if the file exists, ParameterError if its folder does not.
        """
        new = cls.__new__(cls)
        new._path, new._seen = Path(path), dict.fromkeys(names, 0)
        if not new._path.parent.is_dir():
            raise ParameterError(f"the folder {new._path.parent} does not exist")
        with exclusive(new._path):
            if new._path.exists():
                raise StateError(
                    f"the counters {new._path} exist", remedy="open them: DurableCounters(path)"
                )
            new._write(new._seen)
        return new

    def numbers(self) -> dict[bytes, int]:
        """The next number of each name."""
        with exclusive(self._path):
            return self._current()

    def claim(self, name: bytes, limit: int) -> int:
        """The next number of ``name``, which is on disk as used when this returns.

        Raises StateError if it is ``limit`` or more, or if the file vanished, is damaged or went
        back since the last call.
        """
        with exclusive(self._path):
            numbers = self._current()
            number = self._number(numbers, name)
            if number >= limit:
                raise StateError(f"all {limit} are used up", remedy="make new ones")
            self._write({**numbers, name: number + 1})
            return number

    def give_up(self, name: bytes, start: int) -> None:
        """Count all numbers of ``name`` before ``start`` as used; never the other way."""
        with exclusive(self._path):
            numbers = self._current()
            if start > self._number(numbers, name):
                self._write({**numbers, name: start})

    def _number(self, numbers: Mapping[bytes, int], name: bytes) -> int:
        if name not in numbers:
            raise ParameterError("there is no counter of this name")
        return numbers[name]

    def _current(self) -> dict[bytes, int]:
        numbers = self._read()
        if any(numbers.get(name, -1) < number for name, number in self._seen.items()):
            raise StateError(f"the counters {self._path} went back", remedy=_LOST_REMEDY)
        self._seen = numbers
        return numbers

    def _read(self) -> dict[bytes, int]:
        try:
            file = _File.from_bytes(self._path.read_bytes())
        except FileNotFoundError as error:
            raise self._missing() from error
        except WireError as error:
            raise self._damaged() from error
        if file.check != _checksum(file.rows):
            raise self._damaged()
        return dict(file.rows)

    def _write(self, numbers: Mapping[bytes, int]) -> None:
        rows = tuple(sorted(numbers.items()))
        write_durably(self._path, _File(rows, _checksum(rows)).to_bytes())
        self._seen = dict(numbers)

    def _missing(self) -> StateError:
        return StateError(f"the counters {self._path} are missing", remedy=_LOST_REMEDY)

    def _damaged(self) -> StateError:
        return StateError(f"the counters {self._path} are damaged", remedy=_LOST_REMEDY)


def _checksum(rows: tuple[tuple[bytes, int], ...]) -> bytes:
    return hashlib.sha256(_File(rows, b"").to_bytes()).digest()
