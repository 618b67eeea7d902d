"""Exact laws of mean mechanisms: the code that runs, on coins that can be listed."""

from collections.abc import Callable
from decimal import Decimal, localcontext
from fractions import Fraction
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ldp.mechanism import Estimate
from mpc.core.rng import ONE, Rng, Shape
from tests.support.walk import walk

Law = dict[Any, Fraction]


class Perturbs(Protocol):
    """What is walked: a mechanism, or a twin of one."""

    def perturb(self, x: NDArray[np.float64], *, rng: Rng) -> NDArray[Any]:
        """A report for each entry."""


class CoarseWords(Rng):
    """Coins of ``rng``; a 64-bit word is one of ``parts`` evenly spaced values, equally likely.

    The law is that of uniform words wherever the words are compared only with thresholds that are
    multiples of 2^64 / parts: then all words from one value to the next decide alike. A draw below
    share * bound, for one of ``bounds``, is a multiple of share, since whole shares are alike too.
    """

    def __init__(self, rng: Rng, parts: int, bounds: tuple[int, ...] = ()) -> None:
        self._rng = rng
        self._parts = parts
        self._shared = {bound * (2**32 // bound): bound for bound in bounds}

    def fill(self, out: NDArray[Any]) -> None:
        if out.dtype != np.uint64:
            raise AssertionError("only 64-bit words are coarse")
        chosen = self._rng.uniform(self._parts, out.size).tolist()
        words = [part * (ONE // self._parts) for part in chosen]
        out[...] = np.array(words, dtype=np.uint64).reshape(out.shape)

    def uniform(self, bound: int, shape: Shape = (), dtype: Any = np.uint64) -> NDArray[Any]:
        small = self._shared.get(bound, bound)
        chosen = self._rng.uniform(small, shape).astype(np.uint64) * np.uint64(bound // small)
        return chosen.astype(dtype)

    def bernoulli(self, threshold: int, shape: Shape = ()) -> NDArray[np.bool_]:
        return self._rng.bernoulli(threshold, shape)


def law(mechanism: Perturbs, x: float, parts: int = 16, bounds: tuple[int, ...] = ()) -> Law:
    """The exact law of the report about ``x``, which lies at a multiple of 1/parts of a step.

    bounds: those of the mechanism's uniform draws that are no powers of two.
    """

    def kernel(rng: Rng) -> Any:
        return mechanism.perturb(np.array([x]), rng=CoarseWords(rng, parts, bounds))[0].item()

    found, left = walk(kernel, residual=Fraction(0))
    assert left == 0
    return found


def mean_and_variance(table: Law, says: Callable[[Any], Fraction]) -> tuple[Fraction, Fraction]:
    """Of the value that a report stands for, exactly."""
    mean = sum((p * says(report) for report, p in table.items()), Fraction(0))
    square = sum((p * says(report) ** 2 for report, p in table.items()), Fraction(0))
    return mean, square - mean**2


def coverage(result: Estimate, truth: float, scale: float = 1.0) -> float:
    """The share of 95 % intervals that hold ``truth``, with the variance times ``scale``."""
    half = 1.959964 * np.sqrt(result.variance * scale)
    return float(np.mean(np.abs(result.value - truth) <= half))


def at_most_exp(ratio: Fraction, epsilon: float) -> bool:
    """Whether ratio <= e^epsilon, at far more digits than any pair here needs."""
    with localcontext() as context:
        context.prec = 130
        return ratio <= Fraction(Decimal(epsilon).exp())


def first_word_that_changes(report: Callable[[int], int]) -> int:
    """The least word w in (0, 2^64] with report(w) != report(0), if reports change only once."""
    low, high = 0, ONE
    start = report(0)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if report(middle) == start else (low, middle)
    return high
