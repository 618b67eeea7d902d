"""Timing two things side by side: the rows of ``python -m benchmarks.ratios``.

A row names an operation and what it is compared with. Its last dotted part tells the direction:
``vs_X`` and ``of_X`` give other / ours (larger is better), ``over_X`` gives ours / other (smaller
is better). Both sides run in turns within the same minutes, because the speed of a shared machine
drifts by more than the differences of interest.
"""

import gc
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Protocol

from benchmarks.environments import Environments, PeerUnavailableError

GROUPS = ("core", "ldp", "paillier", "mpc", "secagg")
ROUNDS = 7
"""Rounds behind each median."""

LEAST_SECONDS = 0.05
"""Shortest time that one round measures: far above the clock's and the scheduler's noise."""

_OTHER_OVER_OURS = ("vs_", "of_")
_OURS_OVER_OTHER = ("over_",)


SCRIPTS = Path(__file__).resolve().parent / "peers"
"""Where the peers' scripts lie."""


@dataclass(frozen=True)
class Peer:
    """The other side in an environment of its own, where its requirements cannot meet ours.

    environment: name of a folder under ``.peers/``, built on first use. Peers of one environment
        have the same requirements.
    requirements: what pip installs there, exact versions; the peer itself comes first.
    script: runs one round and prints one JSON line {"seconds": per operation, "ok": bool}.
    """

    environment: str
    requirements: tuple[str, ...]
    script: Path
    arguments: tuple[str, ...] = ()


@dataclass(frozen=True)
class Case:
    """The two sides of a row with their inputs made, ready to be timed.

    other: None where the row has a Peer.
    operations: operations in one call, of ``ours`` and of a callable ``other`` alike.
    check: compares both results (of ``ours`` alone where a Peer checks its own); called untimed,
        after the last round.
    """

    ours: Callable[[], object]
    other: Callable[[], object] | None
    operations: int
    check: Callable[[], bool]
    note: str = ""


@dataclass(frozen=True)
class Row:
    """A named comparison. ``make`` builds the inputs, so that listing rows costs nothing.

    peer: the other side, where it needs an environment of its own.
    """

    name: str
    groups: tuple[str, ...]
    unit: str
    make: Callable[[], Case]
    peer: Peer | None = None

    def __post_init__(self) -> None:
        if not self._suffix.startswith(_OTHER_OVER_OURS + _OURS_OVER_OTHER):
            raise ValueError(f"row {self.name!r} must end with .vs_X, .of_X or .over_X")
        unknown = set(self.groups) - set(GROUPS)
        if unknown or not self.groups:
            raise ValueError(f"row {self.name!r} has groups {self.groups}, known are {GROUPS}")

    @property
    def _suffix(self) -> str:
        return self.name.rpartition(".")[2]

    def ratio(self, ours: float, other: float) -> float:
        """The figure of the row, from seconds per operation of both sides."""
        return ours / other if self._suffix.startswith(_OURS_OVER_OTHER) else other / ours


@dataclass(frozen=True)
class Result:
    """What one row came to. Seconds are per operation; None where a side could not run.

    ok: both results were compared and are right.
    failed: a result is wrong or our code raised; a missing peer alone is no failure.
    """

    name: str
    ours: float | None
    other: float | None
    unit: str
    ratio: float | None
    ok: bool
    note: str
    failed: bool = False


class _Side(Protocol):
    def seconds(self) -> float: ...


def measure(
    row: Row,
    environments: Environments,
    *,
    rounds: int = ROUNDS,
    least_seconds: float = LEAST_SECONDS,
) -> Result:
    """Time both sides of ``row`` in alternation and check their results.

    A peer that cannot be built or run leaves ``other`` and ``ratio`` None, with the reason in the
    note; ``ok`` is False then, because nothing was compared.
    Raises ValueError for a row with two other sides or none.
    """
    case = row.make()
    ours: _Side = _Timed(case.ours, case.operations, least_seconds)
    other = _other_side(row, case, environments, least_seconds)
    times: dict[_Side, list[float]] = {ours: [], other: []}
    turns = [ours, other]
    reason = ""
    for _ in range(rounds):
        for side in tuple(turns):
            try:
                times[side].append(side.seconds())
            except PeerUnavailableError as error:
                reason = str(error)
                turns.remove(side)
        turns.reverse()  # neither side is always the one that finds the caches cold
    mine = median(times[ours])
    theirs = None if reason else median(times[other])
    wrong = not case.check() or (isinstance(other, _PeerRuns) and not other.ok)
    return Result(
        name=row.name,
        ours=mine,
        other=theirs,
        unit=row.unit,
        ratio=None if theirs is None else row.ratio(mine, theirs),
        ok=not wrong and theirs is not None,
        note="; ".join(part for part in (case.note, reason) if part),
        failed=wrong,
    )


def _other_side(
    row: Row, case: Case, environments: Environments, least_seconds: float
) -> "_Timed | _PeerRuns":
    if row.peer is not None and case.other is None:
        return _PeerRuns(row.peer, environments)
    if row.peer is None and case.other is not None:
        return _Timed(case.other, case.operations, least_seconds)
    raise ValueError(f"row {row.name!r} must have one other side: a peer, or a call of its case")


class _Timed:
    """A callable in this process, repeated until a round lasts long enough."""

    def __init__(self, call: Callable[[], object], operations: int, least_seconds: float) -> None:
        self._call = call
        self._operations = operations
        call()  # fills caches and tables, which are paid once and not per operation
        self._repeats = 1
        while (spent := self._spend()) < least_seconds:
            # At most tenfold a step: a first call that was slow by chance must not end the search.
            factor = min(10.0, 1.2 * least_seconds / max(spent, 1e-9))
            self._repeats = max(self._repeats + 1, int(self._repeats * factor))

    def seconds(self) -> float:
        return self._spend() / (self._repeats * self._operations)

    def _spend(self) -> float:
        call = self._call
        with _collector_off():
            start = time.perf_counter()
            for _ in range(self._repeats):
                call()
            return time.perf_counter() - start


class _PeerRuns:
    """A peer's script, one process for each round."""

    def __init__(self, peer: Peer, environments: Environments) -> None:
        self._peer = peer
        self._environments = environments
        self.ok = True

    def seconds(self) -> float:
        peer = self._peer
        python = self._environments.python(peer.environment, peer.requirements)
        seconds, ok = self._environments.run(python, peer.script, peer.arguments)
        self.ok = self.ok and ok
        return seconds


@contextmanager
def _collector_off() -> Iterator[None]:
    gc.collect()
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
