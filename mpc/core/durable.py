"""Files that are either the old or the new version, whenever the power fails.

Model: a crash or kill at any instant; the file system keeps what was flushed to it.
"""

import contextlib
import os
import secrets
import threading
from collections.abc import Iterator
from pathlib import Path

PRIVATE = 0o600
PUBLIC = 0o644

# Record locks belong to the process; threads within it need one of their own.
_THREADS = threading.Lock()


def write_durably(path: Path, data: bytes, *, mode: int = PRIVATE) -> None:
    """Replace ``path`` by ``data`` in one step; on return it survives a power failure.

    The bytes go to a temporary file in the same folder, which is flushed and then renamed over
    ``path``; the folder is flushed too, for the name itself. A half-written file is never seen.
    """
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}.tmp")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            temporary.unlink()
        raise
    flush_folder(path.parent)


@contextlib.contextmanager
def exclusive(path: Path) -> Iterator[None]:
    """Hold the empty file ``<path>.lock`` beside ``path``: one thread of one process at a time.

    POSIX only, and does not nest. ``path`` itself is replaced by each write, so that no lock could
    stay on it.
    """
    lock = path.with_name(path.name + ".lock")
    with _THREADS, os.fdopen(os.open(lock, os.O_RDWR | os.O_CREAT, PRIVATE), "r+b") as handle:
        # The kernel drops the lock when the file closes, also at a kill.
        os.lockf(handle.fileno(), os.F_LOCK, 0)
        yield


def flush_folder(folder: Path) -> None:
    """Make the names in ``folder`` survive a power failure: new, renamed and removed entries."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
