"""Runs the command line in this process, for the tests of ``recsys.cli``."""

import json
from collections.abc import Callable
from typing import Any

CITY = ["--data", "synthetic-city:40x30,pois_per_user=10"]
QUICK = [*CITY, "--epochs", "2", "--neighbours", "3"]
"""A run of a tenth of a second."""


class Result:
    """What one command did."""

    def __init__(self, code: int, out: str, err: str) -> None:
        self.code, self.out, self.err = code, out, err

    @property
    def json(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.out)
        return found

    @property
    def row(self) -> dict[str, Any]:
        (found,) = self.json["rows"]
        return dict(found)


Run = Callable[..., Result]
"""Arguments in, what happened out."""
