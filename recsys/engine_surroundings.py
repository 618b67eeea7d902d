"""What Ray finds around it: variables, a home folder, a temporary folder, signal handlers.

Ray reads its settings from the environment, partly when it is loaded, hands the environment on to
every process that it starts, and takes over SIGTERM. All of it is put back afterwards.
"""

import os
import shutil
import signal
import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path

from mpc.core.rng import SYSTEM_RNG

LOOPBACK = "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"
"""Where it is 0, Ray takes 127.0.0.1 for the address of this machine, on Linux too."""

_LONGEST_BASE = 16
"""Characters: the path of a socket has 87 more below it, and may have 103."""

_QUIET = {
    "RAY_USAGE_STATS_ENABLED": "0",
    # What workers and machines say would else come to our output, which may be one JSON object.
    "RAY_DEDUP_LOGS": "1",
    "RAY_DEDUP_LOGS_SKIP_REGEX": ".",
    "RAY_IGNORE_UNHANDLED_ERRORS": "1",
    # Else Ray warns that it will some day leave variables of accelerators alone.
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
}

_ONE_THREAD = dict.fromkeys(
    ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS"), "1"
)
"""A worker has one processor."""

_CLUSTER_FILE = "cluster_name: x\nprovider: {type: local}\navailable_node_types: {}\n"
"""In the home folder, it keeps Ray from asking the metadata servers of clouds."""


class Surroundings:
    """Those of a cluster that this process starts, or (``starts`` False) of one that it joins.

    A cluster of its own listens on the loopback address, wants a token, and has its files in a
    temporary folder. One that others started has what they gave it.
    folder: the temporary folder, which its owner alone can enter.  files: the one in it for Ray.
    Both are None where the files are those of others.
    """

    def __init__(self, *, starts: bool) -> None:
        self.folder = _private_folder() if starts else None
        # Ray opens the folder of its files to everybody, so it lies in a private one.
        self.files = None if self.folder is None else str(self.folder / "r")
        wanted: dict[str, str | None] = {**_QUIET}
        if starts:
            # A cluster that a variable names is for others.
            wanted |= {LOOPBACK: "0", "RAY_ADDRESS": None, **_ONE_THREAD}
            wanted |= {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": _token()}
        self._before = _replaced(wanted)

    @contextmanager
    def of_its_own(self) -> Iterator[None]:
        """While Ray starts or ends here: a home folder of its own, and SIGTERM as it is."""
        handler = signal.getsignal(signal.SIGTERM)
        home = {} if self.folder is None else {"HOME": str(self.folder / "home")}
        before = _replaced(home)
        try:
            yield
        finally:
            _replaced(before)
            if threading.current_thread() is threading.main_thread():
                signal.signal(signal.SIGTERM, handler)

    def restore(self) -> None:
        """Put the variables back, and delete the temporary folder."""
        _replaced(self._before)
        self._before = {}
        if self.folder is not None:
            shutil.rmtree(self.folder, ignore_errors=True)


def processors() -> int:
    """How many this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@cache
def _token() -> str:
    """What a cluster of this process wants to see; Ray reads it once in a process."""
    return SYSTEM_RNG.bytes(32).hex()


def _private_folder() -> Path:
    """A new one that its owner alone can read, with a home folder in it."""
    base = tempfile.gettempdir()
    if len(base) > _LONGEST_BASE:
        base = "/tmp"
    folder = Path(tempfile.mkdtemp(prefix="privrec-ray-", dir=base))
    (folder / "home").mkdir()
    (folder / "home" / "ray_bootstrap_config.yaml").write_text(_CLUSTER_FILE)
    return folder


def _replaced(wanted: Mapping[str, str | None]) -> dict[str, str | None]:
    """Set variables, or delete those that are None; returns what they were."""
    before = {name: os.environ.get(name) for name in wanted}
    for name, value in wanted.items():
        if value is not None:
            os.environ[name] = value
        elif name in os.environ:
            del os.environ[name]
    return before
