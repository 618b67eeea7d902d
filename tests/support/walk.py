"""Exact laws of samplers: walk the tree of every choice that a kernel makes.

The kernel runs as it is, on a generator whose primitives (``bernoulli``, ``uniform`` and words of
eight bits) are choices with exact weights instead of bytes. Their own laws are enumerated from
bytes in ``tests/mpc/core``; what is walked here is all that is built on them. A kernel that may go
on for ever is walked, likeliest branch first, until the rest weighs at most ``residual``.
"""

import heapq
from collections import defaultdict
from collections.abc import Callable, Sequence
from fractions import Fraction
from itertools import count
from typing import Any, TypeVar

import numpy as np
from numpy.typing import DTypeLike, NDArray

from mpc.core.rng import ONE, Rng, Shape

Outcome = TypeVar("Outcome")

RESIDUAL = Fraction(1, 2**40)
MAX_RUNS = 400_000


class _ChoiceError(Exception):
    """The path ends here: these are the weights of the next choice."""

    def __init__(self, weights: Sequence[Fraction]) -> None:
        super().__init__()
        self.weights = weights


class WalkRng(Rng):
    """Follows a path of choices; asks for the next one where the path ends."""

    def __init__(self, path: Sequence[int]) -> None:
        self._path = path
        self._used = 0

    def choose(self, weights: Sequence[Fraction]) -> int:
        """The next choice among outcomes of these weights, which add up to one."""
        if self._used == len(self._path):
            raise _ChoiceError(weights)
        self._used += 1
        return self._path[self._used - 1]

    def fill(self, out: NDArray[Any]) -> None:
        if out.dtype.itemsize > 1:
            raise AssertionError(f"words of {8 * out.dtype.itemsize} bits are too many to walk")
        flat = out.reshape(-1)
        for i in range(flat.size):
            flat[i] = self.choose([Fraction(1, 256)] * 256)

    def uniform(self, bound: int, shape: Shape = (), dtype: DTypeLike = np.uint64) -> NDArray[Any]:
        out = np.empty(shape, dtype=dtype)
        flat = out.reshape(-1)
        for i in range(flat.size):
            flat[i] = self.choose([Fraction(1, bound)] * bound)
        return out

    def bernoulli(self, threshold: int, shape: Shape = ()) -> NDArray[np.bool_]:
        out = np.empty(shape, dtype=np.bool_)
        flat = out.reshape(-1)
        p = Fraction(threshold, ONE)
        for i in range(flat.size):
            flat[i] = bool(self.choose([1 - p, p])) if 0 < p < 1 else p == 1
        return out

    @property
    def is_used_up(self) -> bool:
        return self._used == len(self._path)


def walk(
    kernel: Callable[[Rng], Outcome], residual: Fraction = RESIDUAL
) -> tuple[dict[Outcome, Fraction], Fraction]:
    """The law of ``kernel`` (an outcome must be hashable), and the mass not walked to its end.

    A kernel that always ends is walked completely: the mass left is then 0. Each outcome's true
    probability lies between its entry and its entry plus the mass left.
    """
    law: defaultdict[Outcome, Fraction] = defaultdict(Fraction)
    order = count()
    heap: list[tuple[Fraction, int, tuple[int, ...]]] = [(Fraction(-1), next(order), ())]
    left = Fraction(1)
    for _ in range(MAX_RUNS):
        if not heap or left <= residual:
            return dict(law), left
        weight, _, path = heapq.heappop(heap)
        rng = WalkRng(path)
        try:
            outcome = kernel(rng)
        except _ChoiceError as choice:
            for option, share in enumerate(choice.weights):
                if share:
                    heapq.heappush(heap, (weight * share, next(order), (*path, option)))
            continue
        if not rng.is_used_up:
            raise AssertionError("the kernel made fewer choices than it did before")
        law[outcome] -= weight
        left += weight
    raise AssertionError(f"{MAX_RUNS} runs leave a mass of {float(left):.3g}")


def worst_ratio(laws: Sequence[dict[Outcome, Fraction]]) -> Fraction:
    """The largest P(outcome | x) / P(outcome | x') over all pairs of inputs.

    ValueError if some input can never give what another one can: no epsilon covers that.
    """
    worst = Fraction(1)
    for outcome in {outcome for law in laws for outcome in law}:
        probabilities = [law.get(outcome, Fraction(0)) for law in laws]
        if min(probabilities) == 0:
            raise ValueError(f"outcome {outcome!r} is impossible for some input")
        worst = max(worst, max(probabilities) / min(probabilities))
    return worst
