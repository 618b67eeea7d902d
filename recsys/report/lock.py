"""One process at a time in a folder."""

import fcntl
from pathlib import Path
from typing import Self

from mpc.core.errors import ParameterError

LOCK = ".lock"


class FolderLock:
    """Held from its making to ``close``; the kernel drops it when the process ends, however."""

    def __init__(self, folder: Path) -> None:
        self._file = (folder / LOCK).open("ab")
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self._file.close()
            raise ParameterError(
                f"{folder} is in use by another process",
                remedy="wait until that one has ended, or choose another folder",
            ) from None

    def close(self) -> None:
        """Release the lock."""
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()
