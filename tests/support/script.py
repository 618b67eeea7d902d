"""A generator that reads from a script, and the walk over all scripts that a kernel can ask for."""

from collections import defaultdict
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from mpc.core.rng import Rng

Outcome = TypeVar("Outcome")


class ScriptEndError(Exception):
    """The kernel asked for more words than the script has."""


class ScriptRng(Rng):
    """Gives the words of ``script`` in order, whatever shape and dtype they are asked in."""

    def __init__(self, script: Sequence[int]) -> None:
        self._script = list(script)
        self.used = 0

    def fill(self, out: NDArray[Any]) -> None:
        words = self._script[self.used : self.used + out.size]
        if len(words) < out.size:
            raise ScriptEndError
        self.used += out.size
        out[...] = np.array(words, dtype=out.dtype).reshape(out.shape)

    @property
    def left(self) -> int:
        """Words not read yet."""
        return len(self._script) - self.used


def explore(
    kernel: Callable[[Rng], Outcome], choices: int, residual: Fraction
) -> tuple[dict[Outcome, Fraction], Fraction]:
    """The law of ``kernel`` over words uniform in [0, choices), and the mass not walked to its end.

    For kernels that draw until they are content: scripts grow by one word at a time, likeliest
    first, until those on which the kernel still asks for more weigh at most ``residual``. Meant
    for kernels that refuse few words: the walk branches at each word that is refused.
    """
    law: defaultdict[Outcome, Fraction] = defaultdict(Fraction)
    scripts: list[tuple[int, ...]] = [()]
    depth = 0
    while Fraction(len(scripts), choices**depth) > residual:
        unfinished = []
        for script in scripts:
            rng = ScriptRng(script)
            try:
                outcome = kernel(rng)
            except ScriptEndError:
                unfinished.append(script)
                continue
            if rng.left:
                raise AssertionError("the kernel used less of the script than it did before")
            law[outcome] += Fraction(1, choices**depth)
        depth += 1
        scripts = [(*script, word) for script in unfinished for word in range(choices)]
    return dict(law), Fraction(len(scripts), choices**depth)
