"""The exit code and the one sentence for whatever went wrong."""

import shlex
from dataclasses import dataclass
from pathlib import Path

import click

from mpc.core.errors import BudgetError, ToolkitError
from recsys.cli.codes import BAD_INPUT, INTERNAL, INTERRUPTED, REFUSED
from recsys.errors import EngineError, PrivacyRefusal

# The caller named a path that does not work; a full disk or a broken one is not her mistake.
_PATH_ERRORS = (
    FileExistsError,
    FileNotFoundError,
    IsADirectoryError,
    NotADirectoryError,
    PermissionError,
)


@dataclass(frozen=True)
class Failure:
    """How a failed command ends."""

    code: int
    kind: str
    message: str
    remedy: str = ""


class InterruptedRunError(Exception):
    """Ctrl-C or SIGTERM in ``privrec COMMAND``, which can go on with ``folder``.

    kept: what need not be repeated, in words.
    """

    def __init__(self, command: str, folder: Path, kept: str) -> None:
        super().__init__(command, folder, kept)
        self.command = command
        self.folder = folder
        self.kept = kept


def explain(error: Exception, command: str = "privrec") -> Failure:
    """The failure that ``error`` stands for. command: what was called, as far as it is known."""
    if isinstance(error, InterruptedRunError):
        return Failure(
            INTERRUPTED,
            "Interrupted",
            f"interrupted; {error.kept}",
            f"go on with: privrec {error.command} --resume {shlex.quote(str(error.folder))}",
        )
    if isinstance(error, click.Abort):
        return interrupted()
    if isinstance(error, click.ClickException):
        return _usage(error, command)
    if isinstance(error, ToolkitError):
        return Failure(_code(error), type(error).__name__, error.message, error.remedy)
    if isinstance(error, _PATH_ERRORS) and error.filename is not None:
        message = f"{error.filename}: {error.strerror}"
        return Failure(BAD_INPUT, type(error).__name__, message, "check path and permissions")
    # A library's message may have several.
    detail = " ".join(str(error).split())
    message = f"internal error: {type(error).__name__}: {detail}".rstrip(": ")
    return Failure(INTERNAL, type(error).__name__, message, "run again with -v for the traceback")


def _code(error: ToolkitError) -> int:
    if isinstance(error, PrivacyRefusal | BudgetError):
        return REFUSED
    # Workers that die are no mistake of the caller's.
    return INTERNAL if isinstance(error, EngineError) else BAD_INPUT


def _usage(error: click.ClickException, command: str) -> Failure:
    context = error.ctx if isinstance(error, click.UsageError) else None
    command = command if context is None else context.command_path
    message = " ".join(error.format_message().split()).rstrip(".")
    return Failure(BAD_INPUT, "UsageError", message, f"see {command} --help")


def interrupted() -> Failure:
    """Ctrl-C or SIGTERM where there is nothing to go on with."""
    return Failure(INTERRUPTED, "Interrupted", "interrupted")
