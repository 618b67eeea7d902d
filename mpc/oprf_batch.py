"""Work on whole batches, cut into pieces that a caller's ``map`` may spread over threads.

Model: with threads nothing leaves the process, and libsodium runs without the interpreter's lock.
    With worker processes, what a piece needs travels to them pickled, secret scalars included.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

_Result = TypeVar("_Result")

PIECE = 16
"""Items of one piece: about a millisecond of work, so that handing it over costs little."""

Map = Callable[..., Iterable[Any]]
"""The builtin ``map``, or the ``map`` of an executor of ``concurrent.futures``: results of one
function on the first items of all columns, the second, and so on, in this order."""


def spread(
    function: Callable[..., _Result], map: Map, *columns: Sequence[Any]
) -> Iterable[_Result]:
    """The results of ``function`` on the first pieces of all columns, the second, and so on."""
    starts = range(0, len(columns[0]), PIECE)
    return map(function, *([column[i : i + PIECE] for i in starts] for column in columns))


def joined(pieces: Iterable[list[bytes]]) -> list[bytes]:
    """The items of all pieces in one list."""
    return [item for piece in pieces for item in piece]
