"""Into Flower's log, where ``flwr run --stream`` shows it."""

import logging

from mpc.core.errors import ToolkitError

_LOGGER = logging.getLogger("flwr")


def say(app: str, text: str) -> None:
    """A line for whoever watches the run."""
    _LOGGER.info("%s: %s", app, text)


def note(app: str, text: str) -> None:
    """A line for whoever looks for faults on this very machine."""
    _LOGGER.debug("%s: %s", app, text)


def complain(app: str, error: ToolkitError) -> None:
    """What went wrong, and what to do about it."""
    _LOGGER.error("%s: %s", app, error.message)
    if error.remedy:
        _LOGGER.error("%s: %s", app, error.remedy)
