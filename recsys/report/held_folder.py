"""A folder that one process works in, and that a failed beginning leaves as it was."""

import contextlib
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Self

from mpc.core.durable import PRIVATE, PUBLIC, write_durably
from mpc.core.errors import ParameterError
from recsys.errors import DataError
from recsys.report.lock import LOCK, FolderLock


class HeldFolder:
    """Makes ``path`` and the folders above it where they are missing, and locks it until ``close``.

    Raises ParameterError if another process holds it. It is a context manager.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._made = [part for part in (path, *path.parents) if not part.exists()]
        path.mkdir(parents=True, exist_ok=True)
        self._lock = FolderLock(path)

    def close(self) -> None:
        """Release the lock; the folder can be opened again."""
        self._lock.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def write_public(self, name: str, data: bytes) -> None:
        """Replace a file of public/ in one step."""
        write_durably(self.path / "public" / name, data, mode=PUBLIC)

    def write_private(self, name: str, data: bytes, part: str = "users") -> None:
        """Replace a file of users/, or of another part, in one step, for the owner's eyes only."""
        write_durably(self.path / part / name, data, mode=PRIVATE)

    def _remove(self, folders: Iterable[Path]) -> None:
        """Remove the lock and, as far as they are empty, ``folders`` and those that were made."""
        (self.path / LOCK).unlink(missing_ok=True)
        for folder in (*folders, *self._made):
            with contextlib.suppress(OSError):  # not empty: others' files stay
                folder.rmdir()


def check_empty(folder: Path, what: str) -> None:
    """ParameterError for a file and for a folder that is not empty. what: it does not hold."""
    if folder.exists() and not folder.is_dir():
        raise ParameterError(f"{folder} is a file", remedy="name a folder")
    if folder.exists() and any(entry.name != LOCK for entry in folder.iterdir()):
        raise ParameterError(
            f"{folder} is not empty and holds no {what}",
            remedy="choose a new folder, or --force to write beside what is there",
        )


def as_json(value: object) -> bytes:
    """A value as indented JSON."""
    return (json.dumps(value, indent=2) + "\n").encode()


def read_json(path: Path, version: int, what: str, remedy: str) -> dict[str, Any]:
    """The object of a file that names its ``format``; DataError if damaged or of another version.

    what: has that version, in words.  remedy: for a damaged file.
    """
    try:
        values: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        found = values["format"]
    except (OSError, ValueError, KeyError, TypeError):
        raise DataError("damaged file", file=str(path), remedy=remedy) from None
    if found != version:
        raise DataError(f"{what} {found!r}", file=str(path), expected=f"format {version}")
    return values
