"""What the networks among the baselines take from PyTorch: one thread, float32, starts, dropout.

One thread, so that a digest does not depend on how many cores there are.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Generic, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from recsys.data.ratings import Floats
from recsys.metrics import model_digest
from recsys.simulation import SimulationRng
from recsys.training import Arrays

Values = Mapping[str, Tensor]
T = TypeVar("T")


@contextmanager
def one_thread() -> Iterator[None]:
    """PyTorch computes on one thread inside, and as before outside."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@contextmanager
def inference() -> Iterator[None]:
    """One thread, and no gradients."""
    with one_thread(), torch.no_grad():
        yield


def tensors(arrays: Mapping[str, NDArray[Any]]) -> dict[str, Tensor]:
    """Copies, float32."""
    return {name: torch.from_numpy(array).to(torch.float32) for name, array in arrays.items()}


def glorot(sim: SimulationRng, name: str, *shape: int) -> Floats:
    """Weights at the start, uniform, of variance 2 / (shape[-2] + shape[-1]).

    Source: Glorot and Bengio, "Understanding the difficulty of training deep feedforward neural
    networks" (AISTATS 2010), equation 16.
    """
    bound = np.sqrt(6 / (shape[-2] + shape[-1]))
    return sim.generator(name).uniform(-bound, bound, shape)


class Dropout:
    """Leaves out a share of what it is given, and scales up the rest so that the mean stays."""

    def __init__(self, share: float = 0.0, coins: np.random.Generator | None = None) -> None:
        self._share = share
        self._coins = coins

    def __call__(self, x: Tensor, shape: tuple[int, ...] | None = None) -> Tensor:
        """x with entries dropped. shape: of the coins, which broadcast against x."""
        if self._coins is None or not self._share:
            return x
        kept = self._coins.random(shape or tuple(x.shape), dtype=np.float32) >= self._share
        return x * torch.from_numpy(kept / np.float32(1 - self._share))


NO_DROPOUT = Dropout()


class Latest(Generic[T]):
    """What is computed from the parameters last seen, which change in place while training."""

    def __init__(self, compute: Callable[[Values], T]) -> None:
        self._compute = compute
        self._digest = ""
        self._found: T

    def __call__(self, own: Arrays) -> T:
        """``compute`` of ``own``, without gradients."""
        digest = model_digest(own)
        if digest != self._digest:
            with inference():
                self._found = self._compute(tensors(own))
            self._digest = digest
        return self._found
