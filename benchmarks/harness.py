"""Timing two things side by side: the rows of ``python -m benchmarks.ratios``.

A row names an operation and what it is compared with. Its last dotted part tells the direction:
``vs_X`` and ``of_X`` give other / ours (larger is better), ``over_X`` gives ours / other (smaller
is better). All sides run in turns within the same minutes, because the speed of a shared machine
drifts by more than the differences of interest. A row may have several peers; its other side is
then the fastest of them in that very run.
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
    requirements: what pip installs there, exact versions; the peer itself comes first. Those before
        ``environments.NO_DEPS`` are installed without what they ask for.
    script: runs one round and prints one JSON line {"seconds": per operation, "ok": bool}.
    """

    environment: str
    requirements: tuple[str, ...]
    script: Path
    arguments: tuple[str, ...] = ()

    @property
    def shown(self) -> str:
        """Name and version for a note."""
        return self.requirements[0].replace("==", " ") if self.requirements else self.environment


@dataclass(frozen=True)
class Case:
    """The two sides of a row with their inputs made, ready to be timed.

    other: None where the row has peers.
    operations: operations in one call, of ``ours`` and of a callable ``other`` alike.
    check: compares both results (of ``ours`` alone where peers check their own); called untimed,
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

    peers: the other side, where it needs an environment of its own; of several, the fastest one of
        the run.
    """

    name: str
    groups: tuple[str, ...]
    unit: str
    make: Callable[[], Case]
    peers: tuple[Peer, ...] = ()

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

    ok: the results of all sides were compared and are right. Where one of several peers could not
        run, ``ratio`` is to the fastest of the others, and ``ok`` is False.
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
    @property
    def name(self) -> str: ...

    @property
    def ok(self) -> bool: ...

    def seconds(self) -> float: ...


def measure(
    row: Row,
    environments: Environments,
    *,
    rounds: int = ROUNDS,
    least_seconds: float = LEAST_SECONDS,
) -> Result:
    """Time all sides of ``row`` in alternation and check their results.

    The figure of a side is the median of its rounds; of several peers the fastest one stands for
    the other side, and the note has the figure of each. A peer that cannot be built or run leaves
    the reason in the note and ``ok`` False; without any peer ``other`` and ``ratio`` are None.
    Raises ValueError for a row with two kinds of other side or none.
    """
    case = row.make()
    ours = _Timed("ours", case.ours, case.operations, least_seconds)
    others = _other_sides(row, case, environments, least_seconds)
    turns: list[_Side] = [ours, *others]
    times: dict[_Side, list[float]] = {side: [] for side in turns}
    notes = [case.note]
    for _ in range(rounds):
        for side in tuple(turns):
            try:
                times[side].append(side.seconds())
            except PeerUnavailableError as error:
                notes.append(str(error))
                turns.remove(side)
        turns.reverse()  # no side is always the one that finds the caches cold
    mine = median(times[ours])
    # One that broke off has no figure: the rounds it still did were under other conditions.
    figures = sorted((median(times[side]), side.name) for side in others if side in turns)
    theirs = figures[0][0] if figures else None
    if len(others) > 1:
        notes += [f"{name}: {seconds_shown(figure)}" for figure, name in figures]
    notes += [f"{side.name} gave a wrong result" for side in others if not side.ok]
    wrong = not case.check() or not all(side.ok for side in others)
    return Result(
        name=row.name,
        ours=mine,
        other=theirs,
        unit=row.unit,
        ratio=None if theirs is None else row.ratio(mine, theirs),
        ok=not wrong and len(figures) == len(others),
        note="; ".join(part for part in notes if part),
        failed=wrong,
    )


def seconds_shown(seconds: float) -> str:
    """Seconds for a reader, three digits with a unit that fits."""
    for factor, unit in ((1, "s"), (1e3, "ms"), (1e6, "us")):
        if seconds * factor >= 1:
            return f"{seconds * factor:.3g} {unit}"
    return f"{seconds * 1e9:.3g} ns"


def _other_sides(
    row: Row, case: Case, environments: Environments, least_seconds: float
) -> list[_Side]:
    if row.peers and case.other is None:
        return [_PeerRuns(peer, environments) for peer in row.peers]
    if not row.peers and case.other is not None:
        return [_Timed("other", case.other, case.operations, least_seconds)]
    raise ValueError(f"row {row.name!r} must have one other side: peers, or a call of its case")


class _Timed:
    """A callable in this process, repeated until a round lasts long enough."""

    ok = True  # the case checks it

    def __init__(
        self, name: str, call: Callable[[], object], operations: int, least_seconds: float
    ) -> None:
        self.name = name
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
        self.name = peer.shown
        self.ok = True
        self._peer = peer
        self._environments = environments

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
