"""Which kind of scorer belongs to which model."""

from collections.abc import Mapping
from typing import Any

from numpy.typing import NDArray

from recsys.features import Features
from recsys.scoring import MachineScorer, Scorer


def make_scorer(model: str, features: Features, tables: Mapping[str, NDArray[Any]]) -> Scorer:
    """The scorer of a stored model: its name, its features and the tables that were stored."""
    return MachineScorer(features)
