"""Figures of the page on choosing a mechanism, computed by the mechanisms when the page is built.

The directive ``mechanism-figure`` takes the name of one of ``FIGURES``, and its content is the
caption. Series are functions of their own, so that tests can compare them with what they state.
"""

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from docutils import nodes
from sphinx.util.docutils import SphinxDirective

from ldp.best_oracle import best_oracle
from ldp.discrete_laplace import DiscreteLaplace
from ldp.hybrid import Hybrid
from ldp.one_bit_mean import OneBitMean
from ldp.piecewise import Piecewise
from ldp.renyi import epsilon_of_rho
from ldp.repeated import RepeatedMean
from recsys.report.charts import Series, line_chart
from recsys.report.html import Html

USERS = 10_000
EPSILONS = [0.25, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0]
DOMAINS = [2, 4, 8, 16, 32, 64, 128, 256, 512, 1024]
ROUNDS = [1, 2, 3, 4, 6, 8, 12, 16, 24, 32]
DIMENSIONS = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024]
DELTA = 1e-6

# The legend's names, in an order that keeps the colours apart where lines are close.
SHORT = {
    "k-ary randomized response": "k-ary RR",
    "optimized unary encoding": "OUE",
    "local hashing": "OLH",
    "subset selection": "subset selection",
    "Hadamard response": "Hadamard",
    "dBitFlip, one bucket": "dBitFlip, d = 1",
    "symmetric unary encoding": "SUE",
}


def oracles(epsilons: Sequence[float], domains: Sequence[int], figure: str) -> list[Series]:
    """A series for each oracle, over epsilon or over the number of values.

    figure: ``error``, the standard error of a count as a share of the users, or ``bits``.
    """
    tables = [best_oracle(k, epsilon, USERS).table for epsilon in epsilons for k in domains]
    series = []
    for name, short in SHORT.items():
        rows = [next((row for row in table if row.name == name), None) for table in tables]
        values = [
            None
            if row is None
            else row.standard_error / USERS
            if figure == "error"
            else float(row.report_bits)
            for row in rows
        ]
        across = epsilons if len(epsilons) > 1 else domains
        last = name == list(SHORT)[-1]  # a seventh line has the colour of the first
        series.append(
            Series(
                short,
                [float(x) for x in across],
                values,
                dashed=last,
                marker="x" if last else "auto",
            )
        )
    return series


def means(epsilons: Sequence[float]) -> list[Series]:
    """Largest standard deviation of one report about a value in [-1, 1]."""
    kinds: dict[str, Callable[[float], Any]] = {
        "1BitMean, Duchi": lambda epsilon: OneBitMean.from_epsilon(epsilon, low=-1.0, high=1.0),
        "Piecewise": Piecewise.from_epsilon,
        "Hybrid": Hybrid.from_epsilon,
    }
    x = np.linspace(-1, 1, 401)
    return [
        Series(name, epsilons, [math.sqrt(np.max(make(e).variance_of(x))) for e in epsilons])
        for name, make in kinds.items()
    ]


def repeated(rounds: Sequence[int]) -> list[Series]:
    """Loss about a number after some rounds of reports of epsilon 1 each."""
    flipped = RepeatedMean.from_epsilon(1.0, steps=16, gamma=0.25)
    plain = RepeatedMean.from_epsilon(1.0, steps=16)
    one = OneBitMean.from_epsilon(1.0)
    x = [float(t) for t in rounds]
    return [
        Series("fresh coins in each round", x, [one.epsilon * t for t in rounds]),
        Series("memo, a number that stays", x, [plain.cost(t).still for t in rounds]),
        Series("memo and flips (1/4), any history", x, [flipped.cost(t).moving for t in rounds]),
    ]


def vectors(dimensions: Sequence[int]) -> list[Series]:
    """Noise on each coordinate that protects a whole vector at epsilon 1, in units of a change."""
    x = [float(d) for d in dimensions]
    # On a grid of 1/256 of a change, each coordinate gets an equal share of epsilon.
    steps = 256
    laplace = [
        math.sqrt(DiscreteLaplace.from_epsilon(1 / d, sensitivity=steps).variance) / steps
        for d in dimensions
    ]
    # zCDP adds up: d coordinates cost d / (2 sigma^2), whatever the grid.
    rho = _largest_rho(1.0, DELTA)
    gaussian = [math.sqrt(d / (2 * rho)) for d in dimensions]
    return [Series("discrete Laplace", x, laplace), Series("discrete Gaussian", x, gaussian)]


def _largest_rho(epsilon: float, delta: float) -> float:
    """The largest rho, to a millionth, that is (epsilon, delta)-LDP."""
    low, high = 0.0, epsilon
    while high - low > 1e-6 * high:
        middle = (low + high) / 2
        fits = epsilon_of_rho(Fraction(middle), delta) <= epsilon
        low, high = (middle, high) if fits else (low, middle)
    return low


FIGURES: dict[str, Callable[[], Html]] = {
    "oracles-by-epsilon": lambda: line_chart(
        oracles(EPSILONS, [64], "error"),
        x_label="epsilon",
        y_label="standard error, share of users",
        log_y=True,
        height=4.6,
    ),
    "oracles-by-values": lambda: line_chart(
        oracles([1.0], DOMAINS, "error"),
        x_label="number of values",
        y_label="standard error, share of users",
        log_x=True,
        log_y=True,
        height=4.6,
    ),
    "oracles-by-bits": lambda: line_chart(
        oracles([1.0], DOMAINS, "bits"),
        x_label="number of values",
        y_label="bits of a report",
        log_x=True,
        log_y=True,
        height=4.6,
    ),
    "means": lambda: line_chart(
        means(EPSILONS), x_label="epsilon", y_label="standard deviation", log_y=True
    ),
    "repeated": lambda: line_chart(
        repeated(ROUNDS), x_label="rounds", y_label="epsilon", log_x=True, log_y=True
    ),
    "vectors": lambda: line_chart(
        vectors(DIMENSIONS),
        x_label="coordinates",
        y_label="standard deviation",
        log_x=True,
        log_y=True,
    ),
}


class MechanismFigure(SphinxDirective):
    """A chart as inline SVG, on white whatever the theme, with its caption."""

    required_arguments = 1
    has_content = True

    def run(self) -> list[nodes.Node]:
        """The chart and its caption."""
        draw = FIGURES.get(self.arguments[0])
        if draw is None:
            raise self.error(f"no figure {self.arguments[0]!r}; known: {', '.join(FIGURES)}")
        # The dependency makes the page new whenever this file is.
        self.env.note_dependency(__file__)
        chart = f'<div style="background: #fff; padding: .5rem; max-width: 42rem">{draw()}</div>'
        caption = nodes.paragraph("", "", nodes.emphasis("", "\n".join(self.content)))
        return [nodes.raw("", chart, format="html"), caption]


def setup(app: Any) -> dict[str, bool]:
    """Register with Sphinx."""
    app.add_directive("mechanism-figure", MechanismFigure)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
