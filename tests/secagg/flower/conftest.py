"""Fixtures of the tests of ``secagg.flower``."""

import logging
from collections.abc import Iterator

import pytest


@pytest.fixture
def told(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> Iterator[pytest.LogCaptureFixture]:
    """What Flower's logger says, once, whatever other libraries have done to it in this process."""
    logger = logging.getLogger("flwr")
    monkeypatch.setattr(logger, "disabled", False)
    monkeypatch.setattr(logger, "propagate", False)
    caplog.set_level(logging.INFO, "flwr")
    logger.addHandler(caplog.handler)
    yield caplog
    logger.removeHandler(caplog.handler)
