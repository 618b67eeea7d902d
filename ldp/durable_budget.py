"""A privacy budget on disk: what is booked stays booked, through kills, restarts and processes.

Source: write-ahead, as in any log; the sums are those of ``ldp.accounting``.
Model: the process may die at any instruction, and several processes may share the file. Whoever
    can write the folder can make the user lose more than she allowed, so it must be private.
Error: none towards more than the total: sums are exact rationals on disk too. A kill between
    booking and drawing loses what was booked.
Differs: a folder restored from a backup, with both files, looks like any other to a new process.
    Keep no backups of it.

    PATH          the record: identity, total, spent and a checksum, as text
    PATH.mark     the same again, written second; a record that is behind its mark went back
"""

import fcntl
import hashlib
import os
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Self

from ldp.accounting import AbstractBudget, booked, exact_loss
from ldp.rounding import round_down
from mpc.core.durable import flush_folder, write_durably
from mpc.core.errors import ParameterError, StateError
from mpc.core.rng import SYSTEM_RNG, Rng

_IDENTITY_BYTES = 16
_OTHERS = stat.S_IRWXG | stat.S_IRWXO
_LOST_REMEDY = "count all of it as spent; another budget is another promise to the user"

# Sums of doubles are multiples of 2^-1074 and so fit by far; those of other fractions may not.
_MOST_BITS, _MOST_BYTES = 3300, 1 << 13
_RATIONAL = r"(\d{1,1000})/([1-9]\d{0,999})"
_RECORD = re.compile(
    rf"privrec budget 1\nidentity ([0-9a-f]{{{2 * _IDENTITY_BYTES}}})\n"
    rf"total {_RATIONAL}\nspent {_RATIONAL}\nsha256 [0-9a-f]{{64}}\n",
    re.ASCII,
)


@dataclass(frozen=True)
class _Record:
    """What a file says; ``identity`` tells one budget from another of the same total."""

    identity: str
    total: Fraction
    spent: Fraction

    def to_bytes(self) -> bytes:
        text = f"privrec budget 1\nidentity {self.identity}\n"
        for name, value in (("total", self.total), ("spent", self.spent)):
            text += f"{name} {value.numerator}/{value.denominator}\n"
        return f"{text}sha256 {hashlib.sha256(text.encode()).hexdigest()}\n".encode()

    @classmethod
    def from_bytes(cls, data: bytes) -> Self | None:
        """The record, or None for bytes that are not exactly what one is written as."""
        found = _RECORD.fullmatch(data.decode("ascii", "replace"))
        if found is None:
            return None
        numbers = [int(text) for text in found.groups()[1:]]
        record = cls(found[1], Fraction(*numbers[:2]), Fraction(*numbers[2:]))
        return record if record.to_bytes() == data and record.spent <= record.total else None


class DurableBudget(AbstractBudget):
    """The privacy loss that one user allows in total, in a file of a private folder. POSIX only.

    ``DurableBudget.create(path, total)`` starts one; ``DurableBudget(path, total)`` opens it again
    and refuses if it is missing, damaged, went back, or was made for another total. Processes and
    threads may share it: each call locks the folder and reads the file again.
    """

    def __init__(self, path: str | os.PathLike[str], total: float) -> None:
        self._path = _located(Path(path))
        self._seen: _Record | None = None
        with self._locked():
            record = self._current()
        if record.total != exact_loss(total):
            raise StateError(
                f"the budget {self._path} was made for a total of {round_down(record.total)!r}, "
                f"not of {total!r}",
                remedy="open it with the total that its user was promised",
            )

    @classmethod
    def create(
        cls, path: str | os.PathLike[str], total: float, *, rng: Rng = SYSTEM_RNG
    ) -> "DurableBudget":
        """A new budget of which nothing is spent; its folder is made, mode 0700, if missing.

        total: finite, at least 0, in nats.  Raises ParameterError for another total and where there
        is no place for the folder, and StateError if the budget exists or the folder isn't private.
        """
        allowed = exact_loss(total)
        folder = Path(path).absolute().parent
        if not folder.parent.is_dir():
            raise ParameterError(f"the folder that should hold {folder} does not exist")
        folder.mkdir(mode=0o700, exist_ok=True)
        flush_folder(folder.parent)  # a budget is lost with the folder's name
        new = cls.__new__(cls)
        new._path, new._seen = _located(Path(path)), None
        with new._locked():
            for file in (new._path, new._mark):
                if file.is_symlink() or file.exists():
                    raise StateError(
                        f"{file} exists", remedy="open the budget: DurableBudget(path, total)"
                    )
            new._write(_Record(rng.bytes(_IDENTITY_BYTES).hex(), allowed, Fraction(0)))
        return new

    @property
    def _mark(self) -> Path:
        return self._path.with_name(f"{self._path.name}.mark")

    def _book(self, asked: Fraction) -> None:
        with self._locked():
            record = self._current()
            self._write(replace(record, spent=booked(record.total, record.spent, asked)))

    def _state(self) -> tuple[Fraction, Fraction]:
        with self._locked():
            record = self._current()
        return record.total, record.spent

    def _write(self, record: _Record) -> None:
        for value in (record.total, record.spent):
            if max(value.numerator.bit_length(), value.denominator.bit_length()) > _MOST_BITS:
                raise ParameterError(
                    f"a budget file holds numbers of at most {_MOST_BITS} bits",
                    remedy="book losses as doubles, whose sums always fit",
                )
        # A kill between the two leaves a record ahead of its mark, which is no step back.
        write_durably(self._path, record.to_bytes())
        write_durably(self._mark, record.to_bytes())
        self._seen = record

    def _current(self) -> _Record:
        """The record, once nothing speaks against it; the lock must be held."""
        record = self._read(self._path)
        if record is None:
            raise StateError(f"the budget file {self._path} is missing", remedy=_LOST_REMEDY)
        mark = self._read(self._mark)
        if mark is None and record.spent:  # a budget is made record first, and then has no mark
            raise StateError(f"the budget file {self._mark} is missing", remedy=_LOST_REMEDY)
        for known in filter(None, (mark, self._seen)):
            if (known.identity, known.total) != (record.identity, record.total):
                raise StateError(
                    f"the budget file {self._path} was replaced by another", remedy=_LOST_REMEDY
                )
            if record.spent < known.spent:
                raise StateError(f"the budget file {self._path} went back", remedy=_LOST_REMEDY)
        self._seen = record
        return record

    def _read(self, path: Path) -> _Record | None:
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        except FileNotFoundError:
            return None
        except OSError as error:  # a symbolic link among others
            raise StateError(f"{path} cannot be opened: {error.strerror}") from error
        try:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode):
                raise StateError(f"{path} is no file")
            if status.st_nlink != 1:
                raise StateError(
                    f"the budget file {path} has a second name",
                    remedy="remove the other link: under two names it would be spent twice",
                )
            if status.st_mode & _OTHERS:
                raise _open_to_others(path, "600")
            record = _Record.from_bytes(os.read(descriptor, _MOST_BYTES))
        finally:
            os.close(descriptor)
        if record is None:
            raise StateError(f"the budget file {path} is damaged", remedy=_LOST_REMEDY)
        return record

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Holds the folder, which no rename replaces; the kernel lets go of it, also at a kill."""
        try:
            folder = os.open(self._path.parent, os.O_RDONLY | os.O_DIRECTORY)
        except OSError as error:
            raise StateError(
                f"the folder of the budget {self._path} cannot be opened: {error.strerror}",
                remedy=_LOST_REMEDY,
            ) from error
        try:
            # Bound to this very opening, so that it keeps threads apart as well as processes.
            fcntl.flock(folder, fcntl.LOCK_EX)
            if os.fstat(folder).st_mode & _OTHERS:
                raise _open_to_others(self._path.parent, "700")
            yield
        finally:
            fcntl.flock(folder, fcntl.LOCK_UN)  # also for a child that was forked meanwhile
            os.close(folder)

    def __repr__(self) -> str:
        return f"DurableBudget({str(self._path)!r})"


def _located(path: Path) -> Path:
    """``path`` with every link in its folder followed, so that one budget has one lock."""
    return path.absolute().parent.resolve() / path.name


def _open_to_others(path: Path, mode: str) -> StateError:
    return StateError(
        f"{path} is open to other users of this machine", remedy=f"chmod {mode} '{path}'"
    )
