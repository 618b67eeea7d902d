"""Which kind of scorer belongs to which model."""

from collections.abc import Mapping
from typing import Any

from numpy.typing import NDArray

from recsys.features import Features
from recsys.models.dmf import NeighbourScorer
from recsys.models.mf import BiasedScorer
from recsys.scoring import MachineScorer, Scorer


def make_scorer(model: str, features: Features, tables: Mapping[str, NDArray[Any]]) -> Scorer:
    """The scorer of a stored model: its name, its features and the tables that were stored.

    Raises KeyError for a table that is missing, ParameterError for one that is not what it was.
    """
    if model == "mf":
        return BiasedScorer()
    if model == "dmf":
        return NeighbourScorer(tables["touched"], tables["own"])
    return MachineScorer(features)
