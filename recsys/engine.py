"""Where the work of many users is done: in this process, or in workers elsewhere.

What the users of a cohort compute in a round is a function of their own data, of what is public and
of the round. An engine applies it to the members chunk by chunk and hands the results back in the
order of the chunks. The configuration says how large a chunk is, and never how many workers there
are: so every engine gives the same numbers, and a run may go on under another one.

Model: the owner of a simulation holds the data of all its users, and so do the workers that she
    sends them to. What is a secret between parties (pads, masks, shares, keys of protocols) is made
    in the process that trains and stays there; ``docs/guide-command-line.md`` lists what travels.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from itertools import pairwise
from types import TracebackType
from typing import Any, Protocol, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from recsys.stopwatch import Stopwatch

LOCAL = "local"
RAY = "ray"
ENGINES = (LOCAL, RAY)

SharedT = TypeVar("SharedT")
CurrentT = TypeVar("CurrentT")
ChunkT = TypeVar("ChunkT")
PartT = TypeVar("PartT")


class Shared(Protocol):
    """What all chunks of a training need, from its beginning to its end; it can be pickled."""

    def probe(self) -> bytes:
        """A digest of a small part of the work, on made-up parameters.

        Machines that do not agree on it round differently somewhere.
        """


class Engine(ABC):
    """Applies functions to chunks; a context manager that ends its workers with the block.

    It serves one training after another: ``start``, then ``map`` as often as there are rounds.
    """

    name: str
    """Of ``ENGINES``."""

    remote: bool
    """Whether parts travel, so that it pays to add them up before they do."""

    @abstractmethod
    def start(self, shared: Shared) -> None:
        """Hand every worker what it keeps. EngineError where none comes up."""

    @abstractmethod
    def map(
        self,
        function: Callable[[SharedT, CurrentT, ChunkT], PartT],
        current: CurrentT,
        chunks: Sequence[ChunkT],
    ) -> list[PartT]:
        """``function(shared, current, chunk)`` of every chunk, in the order of ``chunks``.

        function: of a module, without side effects; it may be applied to a chunk more than once.
        current: the same for all chunks, and changed by nobody. Arrays of the parts may be
        read-only.
        Raises what the function raises, of the first chunk where it does; EngineError where a
        chunk could not be done.
        """

    @abstractmethod
    def describe(self) -> str:
        """Where the work is done, in words."""

    def close(self) -> None:  # noqa: B027 - most have nothing to do
        """End the workers; a second time does nothing."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


class LocalEngine(Engine):
    """One chunk after the other, in the process that trains."""

    name = LOCAL
    remote = False

    def __init__(self) -> None:
        self._shared: Any = None

    def start(self, shared: Shared) -> None:
        """See ``Engine.start``."""
        self._shared = shared

    def map(
        self,
        function: Callable[[SharedT, CurrentT, ChunkT], PartT],
        current: CurrentT,
        chunks: Sequence[ChunkT],
    ) -> list[PartT]:
        """See ``Engine.map``."""
        return [function(self._shared, current, chunk) for chunk in chunks]

    def describe(self) -> str:
        """See ``Engine.describe``."""
        return "this process"


def start_on(engine: Engine, shared: Shared, clock: Stopwatch) -> None:
    """Start ``engine``; where workers have to come up, that is a step of the clock."""
    with clock.step("start of workers") if engine.remote else nullcontext():
        engine.start(shared)


def split(members: NDArray[np.int32], size: int) -> list[slice]:
    """Where the chunks of ``members`` begin and end: as few as ``size`` allows, as even as can be.

    It depends on nothing else, so every engine has the same ones. Nobody makes no chunk.
    """
    count = -(-members.size // size)
    ends = [members.size * at // count for at in range(count + 1)] if count else []
    return [slice(start, stop) for start, stop in pairwise(ends)]
