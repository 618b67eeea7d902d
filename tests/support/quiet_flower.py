"""Flower and Ray kept on the loopback address, and the means to see that they stay there.

Neither needs the outside to run on one machine, but both turn to it unless told otherwise: Flower
for telemetry and updates, Ray for usage statistics, for the address of its host and for the
metadata of the clouds it might be in. The last ends only where a cluster's file lies in the home
folder, so these processes get a home folder of their own.

What Python code connects to or looks up is written down by an audit hook. The sockets of other code
are looked up again and again while the block lasts, so one that lives shorter can be missed.
"""

import os
import random
import shutil
import socket
import sys
import tempfile
import threading
import uuid
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.support import loopback_hook, marked_processes
from tests.support.source import ROOT

SAMPLE_SECONDS = 0.25

PORTS = range(20_000, 32_000)
"""Outside of those that the system gives to whoever asks for any."""

CLUSTER = "cluster_name: x\nprovider: {type: local}\navailable_node_types: {}\n"
"""What Ray takes for the file of a cluster that it has been told about."""


class QuietFlower:
    """A folder and an environment; as a context manager, also an end to all that ran in it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.mark = uuid.uuid4().hex
        self._turned_to = folder / "connections"
        self._seen: set[str] = set()
        self._over = threading.Event()
        self._watch = threading.Thread(target=self._watched, daemon=True)
        self._temporary, self._local = "", free_port()
        for name in ("home", "flwr", "site"):
            (folder / name).mkdir(parents=True)
        (folder / "home" / "ray_bootstrap_config.yaml").write_text(CLUSTER)
        hook = f"import runpy\n\nrunpy.run_path({loopback_hook.__file__!r})\n"
        (folder / "site" / "sitecustomize.py").write_text(hook)

    def environment(self) -> dict[str, str]:
        """The variables, within the block, of a process that stays on this machine."""
        ours = {key: value for key, value in os.environ.items() if not key.startswith("PYTEST")}
        return ours | {
            "HOME": str(self.folder / "home"),
            "TMPDIR": self._temporary,
            "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),
            "PYTHONPATH": os.pathsep.join([str(self.folder / "site"), str(ROOT)]),
            marked_processes.MARK: self.mark,
            loopback_hook.VARIABLE: str(self._turned_to),
            "FLWR_HOME": str(self.folder / "flwr"),
            "FLWR_TELEMETRY_ENABLED": "0",
            "FLWR_DISABLE_UPDATE_CHECK": "1",
            "FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION": "1",
            "FLWR_SUPEREXEC_TASK_POLL_INTERVAL": "0.05",
            # Of the SuperLink that ``flwr run`` starts beside itself for a simulation.
            "FLWR_LOCAL_SUPERLINK_HTTP_API_PORT": str(self._local),
            "RAY_USAGE_STATS_ENABLED": "0",
            # Ray then binds to the loopback address, on Linux too.
            "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",
            "OPENBLAS_NUM_THREADS": "1",
            "OMP_NUM_THREADS": "1",
            # Each message has a process of its own, and none should compile what another did.
            "PYTHONPYCACHEPREFIX": str(self.folder / "bytecode"),
            "PYTHONDONTWRITEBYTECODE": "",
        }

    def processes(self) -> dict[int, str]:
        """What runs in this environment: id and command line."""
        found = marked_processes.marked(self.mark)
        return {process: marked_processes.command(process) for process in found}

    def turned_to(self) -> list[str]:
        """What any process turned to, or listened at, outside this machine."""
        lines = self._turned_to.read_text().splitlines() if self._turned_to.exists() else []
        return sorted({*lines, *self._seen})

    def look(self) -> None:
        """See which sockets there are now."""
        for found in marked_processes.sockets(marked_processes.marked(self.mark)):
            if found.leaves:
                what = marked_processes.command(found.process)[:120]
                self._seen.add(f"socket {found.near} to {found.far} of {what}")

    def _watched(self) -> None:
        while not self._over.wait(SAMPLE_SECONDS):
            self.look()

    def __enter__(self) -> Self:
        # Ray's sockets lie there, and the name of a socket must be short.
        self._temporary = tempfile.mkdtemp(prefix="quiet-")
        self._watch.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._over.set()
        self._watch.join()
        marked_processes.end(self.mark)
        shutil.rmtree(self._temporary, ignore_errors=True)


def free_port() -> int:
    """A port of the loopback address that nobody listens at."""
    while True:
        port = random.choice(PORTS)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
