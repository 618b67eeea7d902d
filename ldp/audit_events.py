"""Events that may betray which of two inputs a report came from, chosen on samples of both.

An event says that a number of the report (``ldp.audit_views``) lies in a union of intervals: a
single value, a tail, or the values in falling order of their likelihood ratio.

Source: Neyman and Pearson, "On the problem of the most efficient tests of statistical hypotheses"
    (1933): no set that is as rare under one law is likelier under the other than one of the values
    with the largest ratios.
Model: any event is sound, however it was found, as long as the reports it is tested on are others
    than those it was chosen on.
"""

from dataclasses import dataclass
from itertools import groupby
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldp.audit_statistics import epsilon_bound
from ldp.audit_views import FEW, HEAD, Statistic, Views, statistics
from mpc.core.errors import ParameterError

_SIMPLER = 0.99
"""A set that takes more words must promise more than this part of what a simpler one does."""

_NAMED, _LISTED = 8, 4  # values and intervals of an event that are spelled out


@dataclass(frozen=True, eq=False)
class Bins:
    """Intervals of a statistic: code 0 lies below all edges, code i in [edges[i-1], edges[i]).

    edges: increasing, in the statistic's own dtype, so that no comparison is rounded. What is not
    below the last edge has the last code but one, and NaN the last.
    """

    edges: NDArray[Any]

    @classmethod
    def between(cls, one: NDArray[Any], other: NDArray[Any]) -> "Bins":
        """Edges that tell apart what two samples hold: every value of few, else quantiles.

        Beside the quantiles there are edges at the extremes of both samples, where a tail that is
        cut off shows, and on both sides of a value that many reports share.
        """
        samples = [np.sort(_numbers(part[:HEAD])) for part in (one, other)]
        pooled = np.sort(np.concatenate(samples))
        values = np.unique(pooled)
        if values.size <= FEW:
            return cls(np.unique(np.concatenate([values, _next_up(values)])))
        picked = pooled[np.linspace(0, pooled.size - 1, FEW + 1).astype(np.intp)]
        shared = picked[1:][picked[1:] == picked[:-1]]
        parts = [picked, _next_up(shared)]
        for sample in samples:
            if sample.size:
                ranks = (1 << np.arange((max(sample.size // 32, 1)).bit_length())) - 1
                parts += [sample[ranks], sample[-1 - ranks], _next_up(sample[-1:])]
        return cls(np.unique(np.concatenate(parts)))

    @property
    def size(self) -> int:
        """Number of codes."""
        return self.edges.size + 2

    def encode(self, values: NDArray[Any]) -> NDArray[np.intp]:
        """The code of each entry of (n,)."""
        codes = np.searchsorted(self.edges, values, side="right")
        if values.dtype.kind == "f":
            codes[np.isnan(values)] = self.size - 1
        return codes

    def count(self, values: NDArray[Any]) -> NDArray[np.int64]:
        """How often each code occurs: (size,)."""
        if values.dtype == np.uint8:
            # Bits and small values are the commonest reports, and a table is faster than a search.
            codes = self.encode(np.arange(256, dtype=np.uint8))
            each = np.bincount(values, minlength=256)
            counts = np.zeros(self.size, dtype=np.int64)
            np.add.at(counts, codes, each)
            return counts
        return np.bincount(self.encode(values), minlength=self.size)

    def value(self, code: int) -> int | float | None:
        """The only number that has ``code``, or None if there are several."""
        if not 0 < code < self.edges.size:
            return None
        low, high = self.edges[code - 1 : code + 1]
        return low.item() if _next_up(low) == high else None

    def words(self, code: int, last: int) -> str:
        """The codes ``code`` to ``last``, without a gap, as an interval."""
        if code == self.size - 1:
            return "is NaN"
        whole = self.edges.dtype.kind in "iu"
        low = None if code == 0 else self.edges[code - 1].item()
        high = None if last >= self.edges.size else self.edges[last].item()
        if low is None:
            return "is any number" if high is None else f"is below {_shown(high)}"
        if high is None:
            return f"is at least {_shown(low)}"
        if whole:
            return f"is {low}" if high == low + 1 else f"is {low} to {high - 1}"
        if _next_up(self.edges[code - 1]) == high:
            return f"is {_shown(low)}"
        return f"is in [{_shown(low)}, {_shown(high)})"


@dataclass(frozen=True, eq=False)
class Event:
    """That a statistic of the report has one of ``codes`` (increasing)."""

    statistic: Statistic
    bins: Bins
    codes: tuple[int, ...]

    def count(self, views: Views) -> NDArray[np.int64]:
        """How often each code occurs, those of the event and the others: (bins.size,)."""
        return self.bins.count(self.statistic.of(views))

    def hits(self, counts: NDArray[np.int64]) -> int:
        """How many of the reports with these ``counts`` the event holds for."""
        return int(counts[list(self.codes)].sum())

    def label(self, code: int) -> str:
        """One code in words."""
        tell, value = self.statistic.tell, self.bins.value(code)
        if value is None:
            return self.bins.words(code, code).removeprefix("is ")
        return _shown(value) if tell is None else tell(int(value))

    def __str__(self) -> str:
        values = [self.bins.value(code) for code in self.codes]
        if all(value is not None for value in values) and len(self.codes) <= _NAMED:
            return f"{self.statistic.name} is {_either([self.label(c) for c in self.codes])}"
        if self.statistic.tell is not None:
            return f"{self.statistic.name} is one of {len(self.codes)} values"
        runs = [
            [code for _, code in run]
            for _, run in groupby(enumerate(self.codes), lambda pair: pair[1] - pair[0])
        ]
        if len(runs) > _LISTED:
            return f"{self.statistic.name} lies in one of {len(runs)} intervals"
        words = [self.bins.words(run[0], run[-1]) for run in runs]
        return f"{self.statistic.name} {_either(words)}"


@dataclass(frozen=True, eq=False)
class Candidate:
    """An event, and what it would show if it did as well on other reports."""

    event: Event
    promise: float


def choose(one: Views, other: Views, error: float, delta: float) -> tuple[Event, Event]:
    """The most telling event for ``one`` against ``other``, and the one for the reverse.

    one, other: as many reports of each of two inputs.  error: of one confidence limit later on.
    """
    best: list[Candidate | None] = [None, None]
    for statistic in statistics(one, other):
        values = statistic.of(one), statistic.of(other)
        bins = Bins.between(*values)
        # Ordered and measured on the same reports, a set of many codes would promise too much.
        half = values[0].size // 2
        ordering = [bins.count(part[:half]) for part in values]
        measure = [bins.count(part[half:]) for part in values]
        for way in (0, 1):
            order = _by_ratio(ordering[way], ordering[1 - way])
            n = values[0].size - half
            promise, codes = best_codes(order, measure[way], measure[1 - way], n, error, delta)
            found = Candidate(Event(statistic, bins, codes), promise)
            best[way] = _better(best[way], found)
    forward, backward = best
    if forward is None or backward is None:
        raise ParameterError("the reports hold nothing to look at")
    return forward.event, backward.event


def best_codes(
    order: NDArray[np.intp],
    likely: NDArray[np.int64],
    rare: NDArray[np.int64],
    n: int,
    error: float,
    delta: float,
) -> tuple[float, tuple[int, ...]]:
    """The set of codes with the largest bound, and that bound; simple sets come first.

    order: codes, those that should tell most first; its heads are tried as sets.
    likely, rare: how often each code occurred in ``n`` reports of either input.
    """
    tail = np.arange(likely.size - 1)  # without NaN
    families = [
        (order[:, np.newaxis], False),
        (tail, True),
        (tail[::-1], True),
        (order, True),
    ]
    best: tuple[float, tuple[int, ...]] = (-np.inf, (int(order[0]),))
    for codes, growing in families:
        hits, others = likely[codes], rare[codes]
        if growing:
            hits, others = np.cumsum(hits), np.cumsum(others)
        bounds = epsilon_bound(hits, others, n, error, delta).reshape(-1)
        place = int(np.argmax(bounds))
        if _outdoes(float(bounds[place]), best[0]):
            chosen = codes[: place + 1] if growing else codes[place]
            best = float(bounds[place]), tuple(sorted(int(code) for code in chosen))
    return best


def _by_ratio(likely: NDArray[np.int64], rare: NDArray[np.int64]) -> NDArray[np.intp]:
    """Codes in falling order of their likelihood ratio; at least one, those never seen left out."""
    order = np.argsort(-(likely + 0.5) / (rare + 0.5), kind="stable")
    return order[likely[order] > 0] if likely.any() else order[:1]


def _better(known: Candidate | None, found: Candidate) -> Candidate:
    return found if known is None or _outdoes(found.promise, known.promise) else known


def _outdoes(promise: float, simpler: float) -> bool:
    return promise > max(simpler, simpler / _SIMPLER)


def _numbers(values: NDArray[Any]) -> NDArray[Any]:
    return values[~np.isnan(values)] if values.dtype.kind == "f" else values


def _next_up(values: NDArray[Any]) -> NDArray[Any]:
    """The next larger number of the dtype; an integer that has none stays."""
    given = np.asarray(values)
    if given.dtype.kind == "f":
        following: NDArray[Any] = np.nextafter(given, given.dtype.type(np.inf))
        return following
    largest = np.iinfo(given.dtype).max
    return np.where(given == largest, given, given + (given != largest).astype(given.dtype))


def _either(words: list[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} or {words[-1]}"


def _shown(value: float) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)
