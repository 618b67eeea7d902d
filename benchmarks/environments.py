"""Virtual environments for peers whose requirements cannot meet ours.

They lie under ``.peers/``, are built on first use and kept. A failure is remembered for the life
of the process, so that ten rows of one peer do not try ten times.
"""

import json
import math
import os
import shutil
import subprocess
import sys
from pathlib import Path

PEERS = Path(__file__).resolve().parent.parent / ".peers"
BUILD_SECONDS = 1800
RUN_SECONDS = 600
_STAMP = "requirements.installed"

NO_DEPS = "--no-deps"
"""What stands before it in an environment's requirements is installed without what it asks for."""


class PeerUnavailableError(Exception):
    """A peer cannot be built or run; the message says why, in one line."""


class Environments:
    """The peer environments under ``root``."""

    def __init__(self, root: Path = PEERS) -> None:
        self._root = root
        self._failures: dict[tuple[str, tuple[str, ...]], str] = {}

    def python(self, environment: str, requirements: tuple[str, ...]) -> Path:
        """The interpreter of ``environment``, with exactly ``requirements`` asked of pip.

        Those before a ``NO_DEPS`` among them, if there is one, are installed alone.
        Raises PeerUnavailableError if it cannot be built, now or earlier in this process.
        """
        folder = self._root / environment
        interpreter = folder / "bin" / "python"
        stamp = folder / _STAMP
        wanted = "".join(f"{requirement}\n" for requirement in requirements)
        if interpreter.exists() and stamp.exists() and stamp.read_text() == wanted:
            return interpreter
        key = (environment, requirements)
        if key not in self._failures:
            try:
                self._build(folder, interpreter, requirements)
            except PeerUnavailableError as error:
                self._failures[key] = str(error)
            else:
                # Written last: a build that was killed half-way is not taken for a finished one.
                stamp.write_text(wanted)
                return interpreter
        raise PeerUnavailableError(self._failures[key])

    def _build(self, folder: Path, interpreter: Path, requirements: tuple[str, ...]) -> None:
        print(f"building the peer environment {folder.name}", file=sys.stderr, flush=True)
        if folder.exists():
            shutil.rmtree(folder)
        pip = () if requirements else ("--without-pip",)
        what = f"environment {folder.name} was not built"
        _call([sys.executable, "-m", "venv", *pip, str(folder)], BUILD_SECONDS, what)
        if requirements:
            install = [str(interpreter), "-m", "pip", "--disable-pip-version-check", "install"]
            for some in _installs(requirements):
                _call([*install, "--quiet", *some], BUILD_SECONDS, what)

    def run(self, python: Path, script: Path, arguments: tuple[str, ...]) -> tuple[float, bool]:
        """One round of a peer's script: its seconds per operation, and whether its result is right.

        Raises PeerUnavailableError if the script fails or its last line is not what it should be.
        """
        output = _call([str(python), str(script), *arguments], RUN_SECONDS, f"{script.name} failed")
        lines = output.strip().splitlines()
        try:
            line = json.loads(lines[-1])
            seconds, ok = float(line["seconds"]), line["ok"]
        except (IndexError, KeyError, TypeError, ValueError) as error:
            raise PeerUnavailableError(
                f"{script.name} printed no line of seconds and ok"
            ) from error
        if not (math.isfinite(seconds) and seconds > 0) or not isinstance(ok, bool):
            raise PeerUnavailableError(f"{script.name} printed seconds={seconds!r}, ok={ok!r}")
        return seconds, ok


def _installs(requirements: tuple[str, ...]) -> list[tuple[str, ...]]:
    """The arguments of each call of pip, for it takes ``NO_DEPS`` for all packages of a call."""
    if NO_DEPS not in requirements:
        return [requirements]
    split = requirements.index(NO_DEPS)
    return [requirements[split + 1 :], (NO_DEPS, *requirements[:split])]


def _call(command: list[str], limit: int, what: str) -> str:
    # A PYTHONPATH of ours would put our packages, or another numpy, into the peer's process.
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            timeout=limit,
            check=False,
            env=environment,
            stdin=subprocess.DEVNULL,
        )
    except subprocess.TimeoutExpired as error:
        raise PeerUnavailableError(f"{what}: no end after {limit} s") from error
    if done.returncode:
        lines = done.stderr.strip().splitlines() or [f"exit status {done.returncode}"]
        # pip ends with advice; what went wrong stands in the error before it.
        errors = [line for line in lines if line.lower().startswith("error:")] or lines
        raise PeerUnavailableError(f"{what}: {errors[-1][:200]}")
    return done.stdout
