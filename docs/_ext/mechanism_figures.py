"""Figures of the page on choosing a mechanism, computed by the mechanisms when the page is built.

The directive ``mechanism-figure`` takes the name of one of ``FIGURES`` and draws it; so no number on
the page can go out of date. Series are functions of their own, which a test compares with samples.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from docutils import nodes
from docutils.parsers.rst import Directive

from ldp.best_oracle import best_oracle
from ldp.discrete_gaussian import DiscreteGaussian
from ldp.discrete_laplace import DiscreteLaplace
from ldp.hybrid import Hybrid
from ldp.one_bit_mean import OneBitMean
from ldp.piecewise import Piecewise
from recsys.report.charts import Series, line_chart

USERS = 10_000
EPSILONS = [0.25, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0]
DOMAINS = [2, 4, 8, 16, 32, 64, 128, 256, 512, 1024]


def oracles(epsilons: list[float], domains: list[int], figure: str) -> list[Series]:
    """One series for each oracle, over epsilon or over the number of values."""
    tables = [best_oracle(k, epsilon, USERS).table for epsilon in epsilons for k in domains]
    across = [float(x) for x in (epsilons if len(epsilons) > 1 else domains)]
    series = []
    for name in dict.fromkeys(row.name for table in tables for row in table):
        rows = [next((row for row in table if row.name == name), None) for table in tables]
        y = [None if row is None else float(getattr(row, figure)) for row in rows]
        series.append(Series(name, across, y))
    return series


def means(epsilons: list[float]) -> list[Series]:
    """Largest standard deviation that one report adds to a mean of values in [-1, 1]."""
    kinds: dict[str, Callable[[float], Any]] = {
        "1BitMean": lambda epsilon: OneBitMean.from_epsilon(epsilon, low=-1.0, high=1.0),
        "Piecewise": lambda epsilon: Piecewise.from_epsilon(epsilon),
        "Hybrid": lambda epsilon: Hybrid.from_epsilon(epsilon),
    }
    grid = np.linspace(-1, 1, 201)
    return [
        Series(name, epsilons, [float(np.sqrt(make(e).variance_of(grid).max())) for e in epsilons])
        for name, make in kinds.items()
    ]
