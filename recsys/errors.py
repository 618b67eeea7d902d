"""Errors of the recommenders: malformed data, refusals for privacy, failed workers, divergence."""

from mpc.core.errors import ParameterError, ToolkitError


class DataError(ParameterError):
    """Input data are missing, malformed or too few.

    file: the path as the caller gave it, or "" where the data did not come from a file.
    row: the line of the file as an editor numbers it (the header is line 1), or None.
    expected: what would have been right, or "".
    remedy: what to do about it, or "".
    """

    def __init__(
        self,
        problem: str,
        *,
        file: str = "",
        row: int | None = None,
        expected: str = "",
        remedy: str = "",
    ) -> None:
        place = file if row is None else f"{file}, line {row}"
        message = f"{place}: {problem}" if place else problem
        super().__init__(f"{message}; expected {expected}" if expected else message, remedy=remedy)
        self.file = file
        self.row = row
        self.expected = expected


class PrivacyRefusal(ToolkitError):
    """The request would break the privacy that the protocol is meant to give."""


class EngineError(ToolkitError):
    """Workers failed, and what they were to do is not done; the last checkpoint is kept."""


class DivergenceError(ToolkitError):
    """Training left the range of its arithmetic; ``epoch`` is the first epoch that did (from 1)."""

    def __init__(self, message: str, *, epoch: int | None = None, remedy: str = "") -> None:
        super().__init__(message, remedy=remedy)
        self.epoch = epoch
