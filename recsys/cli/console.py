"""What a command says, and where: results to stdout, progress and notes to stderr."""

import json
import re
import shutil
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Self

_CLEAR_LINE = "\r\x1b[2K"

_TERMINAL_SECONDS = 1.0
_FILE_SECONDS = 15.0
"""The least time between two lines of ``status``, the first one included."""


@dataclass
class Console:
    """json: the result is JSON, alone on stdout.  quiet: no progress and no notes.

    verbose: a line for each epoch even on a terminal, and tracebacks.
    """

    json: bool = False
    quiet: bool = False
    verbose: bool = False
    _open_line: bool = field(default=False, repr=False)
    _last_status: float | None = field(default=None, repr=False)

    @classmethod
    def from_arguments(cls, arguments: Sequence[str]) -> Self:
        """Read the output options alone, so that even a usage error keeps to them."""
        options = list(arguments)
        if "--" in options:
            options = options[: options.index("--")]
        short = "".join(option[1:] for option in options if re.fullmatch("-[qv]+", option))
        return cls(
            json="--json" in options,
            quiet="q" in short or "--quiet" in options,
            verbose="v" in short or "--verbose" in options,
        )

    def progress(self, text: str) -> None:
        """One step of a long task: a line, or on a terminal a line that the next one replaces."""
        if self.quiet:
            return
        if sys.stderr.isatty() and not self.verbose:
            # A longer text would wrap, and only its last row would be cleared.
            shown = text[: shutil.get_terminal_size().columns - 1]
            print(_CLEAR_LINE + shown, end="", file=sys.stderr, flush=True)
            self._open_line = True
        else:
            print(text, file=sys.stderr, flush=True)

    def status(self, text: str) -> None:
        """How far a long step is: called often, shown now and then."""
        now = time.monotonic()
        terminal = sys.stderr.isatty() and not self.verbose
        if self._last_status is None:
            self._last_status = now
        if now - self._last_status >= (_TERMINAL_SECONDS if terminal else _FILE_SECONDS):
            self._last_status = now
            self.progress(text)

    def note(self, text: str) -> None:
        """Something worth knowing that is not part of the result."""
        if not self.quiet:
            self.end_progress()
            print(text, file=sys.stderr, flush=True)

    def result(self, lines: Sequence[str], data: dict[str, Any]) -> None:
        """The outcome, as text or as JSON."""
        self.end_progress()
        if self.json:
            print(json.dumps(data, indent=2, allow_nan=False))
        else:
            print("\n".join(lines))

    def error(self, kind: str, message: str, remedy: str) -> None:
        """A failure: one sentence and what to do. With ``json``, on stdout too."""
        self.end_progress()
        if self.json:
            shown = {"error": {"type": kind, "message": message, "remedy": remedy}}
            print(json.dumps(shown, indent=2))
        print(f"error: {message}", file=sys.stderr)
        if remedy:
            print(f"remedy: {remedy}", file=sys.stderr)

    def end_progress(self) -> None:
        """Leave the line that ``progress`` keeps rewriting."""
        if self._open_line:
            print(file=sys.stderr, flush=True)
            self._open_line = False
