"""Flower's deployment on the loopback address: a SuperLink, SuperNodes, runs.

Everything is a process of its own, as on machines of their own: ``flower-superlink``,
``flower-supernode``, ``flwr run``. The block of a ``Deployment`` ends all of them, however they
were started in between, and keeps what they turned to outside this machine.
"""

import json
import os
import signal
import ssl
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.support.flower_keys import NodeKey, ServerFiles, server_files
from tests.support.quiet_flower import QuietFlower, free_port

START_SECONDS = 90.0
"""Until a process must answer: two seconds at a desk, more on a busy machine."""

RUN_SECONDS = 600.0
LOG_LINES = 60
Value = str | int | float | bool


class ProcessError(Exception):
    """A process of Flower's ended, or did not answer; the message has the end of what it wrote."""


@dataclass
class Started:
    """A process, leader of a group of its own, and the file with all that it writes."""

    name: str
    process: subprocess.Popen[bytes]
    log: Path

    @property
    def living(self) -> bool:
        return self.process.poll() is None

    def text(self) -> str:
        return self.log.read_text(errors="replace")

    def check(self, living: bool = True) -> None:
        """Raise ProcessError if the process has ended, badly where it may end."""
        status = self.process.poll()
        if status is not None and (living or status != 0):
            raise ProcessError(f"{self.name} ended with {status}:\n{self.tail()}")

    def tail(self) -> str:
        return "\n".join(self.text().splitlines()[-LOG_LINES:])

    def wait(self, seconds: float = RUN_SECONDS) -> str:
        """All that it wrote, once it has ended well. Raises ProcessError if it does not in time."""
        try:
            self.process.wait(seconds)
        except subprocess.TimeoutExpired as error:
            raise ProcessError(f"{self.name}: no end in {seconds} s:\n{self.tail()}") from error
        self.check(living=False)
        return self.text()

    def stop(self, number: signal.Signals) -> None:
        """Send a signal: SIGTERM to the process, as an operator does; SIGKILL to all of its group,
        as a machine dies."""
        if number is signal.SIGKILL:
            os.killpg(self.process.pid, number)
        else:
            self.process.send_signal(number)


class Deployment:
    """A SuperLink that runs as long as the block, and what is started beside it.

    ``tls`` has it serve by TLS, under a certificate of an authority of its own, to registered
    SuperNodes only. ``simulation`` has it run every node itself, by Ray.
    """

    def __init__(self, folder: Path, *, tls: bool = False, simulation: bool = False) -> None:
        self.folder = folder
        self.quiet = QuietFlower(folder / "quiet")
        self._tls: ServerFiles | None = server_files(folder) if tls else None
        self._simulation = simulation
        self._port = free_port()
        self._started: list[Started] = []

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self._port}"

    def __enter__(self) -> Self:
        self.quiet.__enter__()
        try:
            self._start_link()
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.quiet.__exit__(kind, error, trace)
        for started in self._started:
            started.process.wait()

    def register(self, key: NodeKey, name: str) -> Started:
        """Tell the SuperLink about a SuperNode's key; it must end before the SuperNode starts."""
        return self.flwr("supernode", "register", str(key.public), "net", "--name", name)

    def start_node(self, key: NodeKey | None = None, **config: Value) -> Started:
        """One more SuperNode, with ``config`` for its node_config (``_`` for ``-``)."""
        pairs = {name.replace("_", "-"): value for name, value in config.items()}
        options = ["--superlink", self.address, "--host", "127.0.0.1", "--port", str(free_port())]
        options += ["--node-config", " ".join(f"{k}={json.dumps(v)}" for k, v in pairs.items())]
        if self._tls is None:
            options.append("--insecure")
        else:
            options += ["--root-certificates", str(self._tls.authority)]
        if key is not None:
            options += ["--auth-supernode-private-key", str(key.private)]
        return self._start("flower-supernode", *options)

    def run(self, app: Path, *options: str) -> Started:
        """``flwr run`` of the app in a folder; it ends with the run, whose log it writes."""
        return self.flwr("run", str(app), "net", "--stream", *options)

    def flwr(self, *arguments: str) -> Started:
        """A command of Flower's own."""
        return self._start("flwr", *arguments)

    def wait_for(self, condition: Callable[[], bool], what: str, *, run: Started) -> None:
        """Until a condition holds; ProcessError if ``run`` ends, or it takes too long."""
        deadline = time.monotonic() + RUN_SECONDS
        while not condition():
            if run.process.poll() is not None or time.monotonic() > deadline:
                raise ProcessError(f"{what} never came:\n{run.tail()}")
            time.sleep(0.02)

    def _start_link(self) -> None:
        options = ["--host", "127.0.0.1", "--port", str(self._port)]
        options += ["--disable-runtime-dependency-installation"]
        options += ["--simulation"] if self._simulation else []
        connection = [f'address = "{self.address}"']
        if self._tls is None:
            options.append("--insecure")
            connection.append("insecure = true")
        else:
            options += ["--ssl-ca-certfile", str(self._tls.authority)]
            options += ["--ssl-certfile", str(self._tls.certificate)]
            options += ["--ssl-keyfile", str(self._tls.key), "--enable-supernode-auth"]
            connection.append(f'root-certificates = "{self._tls.authority}"')
        config = ["[superlink]", 'default = "net"', "[superlink.net]", *connection, ""]
        (self.quiet.folder / "flwr" / "config.toml").write_text("\n".join(config))
        link = self._start("flower-superlink", *options)
        deadline = time.monotonic() + START_SECONDS
        while not self._answers():
            link.check()
            if time.monotonic() > deadline:
                raise ProcessError(f"{link.name} does not answer:\n{link.tail()}")
            time.sleep(0.1)

    def _answers(self) -> bool:
        url, trust = f"http://{self.address}/health", None
        if self._tls is not None:
            url = url.replace("http", "https")
            trust = ssl.create_default_context(cafile=self._tls.authority)
        try:
            with urllib.request.urlopen(url, timeout=2, context=trust):
                return True
        except OSError:  # refused, or no answer yet
            return False

    def _start(self, program: str, *arguments: str) -> Started:
        log = self.folder / f"{len(self._started):02d}-{program}.log"
        command = [str(Path(sys.executable).parent / program), *arguments]
        with log.open("wb") as file:
            process = subprocess.Popen(
                command,
                env=self.quiet.environment(),
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                cwd=self.folder,
                start_new_session=True,
            )
        started = Started(f"{program} {arguments[0]}", process, log)
        self._started.append(started)
        return started


def write_app(folder: Path, server: str, client: str, config: Mapping[str, Value]) -> Path:
    """A Flower app in ``folder`` whose parts are objects of importable modules, ``module:name``."""
    folder.mkdir(parents=True)
    parts = []
    for role, reference in (("server", server), ("client", client)):
        module, _, name = reference.partition(":")
        # An assignment, for Flower looks for one and takes no import.
        parts += [f"import {module}", f"{role}_app = {module}.{name}"]
    (folder / "parts.py").write_text("\n".join([*parts, ""]))
    lines = [
        '[project]\nname = "app"\nversion = "1.0.0"\nlicense = "Apache-2.0"\ndependencies = []',
        '[tool.flwr.app]\npublisher = "tests"',
        "[tool.flwr.app.components]",
        'serverapp = "parts:server_app"\nclientapp = "parts:client_app"',
        "[tool.flwr.app.config]",
        *(f"{json.dumps(name)} = {json.dumps(value)}" for name, value in config.items()),
    ]
    (folder / "pyproject.toml").write_text("\n".join(lines) + "\n")
    return folder
