"""Audits: lower bounds on the privacy loss of a running mechanism, from samples of its reports.

A mechanism is run many times on two inputs. If an event happens with probability p for one and q
for the other, then its epsilon is at least ln((p - delta) / q), whatever its documentation says.

Source: Ding, Wang, Wang, Zhang and Kifer, "Detecting violations of differential privacy" (CCS
    2018), for events chosen on other samples than those they are tested on; Jagielski, Ullman and
    Oprea, "Auditing differentially private machine learning: how private is private SGD?" (NeurIPS
    2020), for the bound.
Model: reports are independent, and the auditor sees what the collector sees.
Error: with probability at least 1 - alpha, no bound of one call exceeds the true epsilon of its
    mechanism (union bound over all confidence limits of all mechanisms). The converse does not
    hold: a bound below the claim proves nothing, since it knows neither all events nor all inputs.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldp.audit_events import Event, choose
from ldp.audit_statistics import epsilon_bound, largest_bound
from ldp.audit_views import Views, as_views
from ldp.mechanism import Mechanism, checked_epsilon
from mpc.core.checks import integer
from mpc.core.errors import ParameterError
from mpc.core.rng import SYSTEM_RNG, Rng

DEFAULT_SAMPLES = 100_000
DEFAULT_ALPHA = 0.01
MIN_SAMPLES = 100

_PIECE = 1 << 16  # reports that are drawn at a time where they are only counted
_PREFIXES = 9
_SHORTEST = 1000
_LONGEST = 40  # letters of an input

Draw = Callable[[Any, int, Rng], NDArray[Any] | Views]
"""(input, n, rng) -> n independent reports about that input: an array, or several by name."""

Told = Callable[[str, float], None]
"""Hears the name of a case and the share of its reports that has been drawn."""


@dataclass(frozen=True, eq=False)
class Case:
    """A promise to be tested: no two ``inputs`` differ by more than (epsilon, delta).

    inputs: (in words, value) of each, made up and differing in one unit of privacy.
    unit: that unit.  pairs: positions of the inputs to be compared, both ways; by default all.
    Raises ParameterError for fewer than two inputs and for epsilon or delta out of range.
    """

    name: str
    epsilon: float
    inputs: Sequence[tuple[str, Any]]
    draw: Draw
    delta: float = 0.0
    unit: str = "value"
    pairs: Sequence[tuple[int, int]] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", checked_epsilon(self.epsilon, 0.0))
        if not 0 <= self.delta < 1:
            raise ParameterError(f"delta must lie in [0, 1), got {self.delta!r}")
        count = len(self.inputs)
        if count < 2:
            raise ParameterError(f"an audit compares at least two inputs, got {count}")
        pairs = tuple(self.pairs) or tuple(combinations(range(count), 2))
        if not all(0 <= a < count and 0 <= b < count and a != b for a, b in pairs):
            raise ParameterError(f"pairs must name two of {count} inputs each, got {pairs}")
        object.__setattr__(self, "pairs", pairs)

    @classmethod
    def of(
        cls,
        name: str,
        mechanism: Mechanism,
        *inputs: Any,
        pairs: Sequence[tuple[int, int]] = (),
    ) -> "Case":
        """The claim of ``mechanism`` about its own ``perturb``.

        inputs: what one user may hold, scalars or arrays of one shape. Those of a pair must differ
        in one unit of ``mechanism``: bit vectors in one bit.
        """

        def draw(x: NDArray[Any], n: int, rng: Rng) -> NDArray[Any]:
            return mechanism.perturb(np.broadcast_to(x, (n, *x.shape)), rng=rng)

        held = [(_words(x, number), np.asarray(x)) for number, x in enumerate(inputs)]
        return cls(name, mechanism.epsilon, held, draw, unit=mechanism.unit, pairs=pairs)


@dataclass(frozen=True)
class Prefix:
    """What the first ``n`` reports of each input alone would have shown."""

    n: int
    count: int
    other_count: int
    bound: float


@dataclass(frozen=True, eq=False)
class Finding:
    """One event, and how often it happened for the input it favours and for the other.

    counts, other_counts: of each code of the event's statistic, all ``n`` reports together.
    bound: epsilon is at least this, -inf where nothing is shown.
    history: prefixes of the reports, shortest first; each bound has the error of the last one, but
    only the last belongs to the audit's statement.
    """

    input: str
    other: str
    event: Event
    counts: NDArray[np.int64]
    other_counts: NDArray[np.int64]
    history: tuple[Prefix, ...]

    @property
    def n(self) -> int:
        """Reports of each input that the event was tested on."""
        return self.history[-1].n

    @property
    def count(self) -> int:
        """How often the event happened for ``input``."""
        return self.history[-1].count

    @property
    def other_count(self) -> int:
        """How often it happened for ``other``."""
        return self.history[-1].other_count

    @property
    def bound(self) -> float:
        """What all ``n`` reports show."""
        return self.history[-1].bound


@dataclass(frozen=True, eq=False)
class Audit:
    """What was shown about one mechanism.

    epsilon, delta: the claim.  samples: reports drawn of each input, half of them to choose events.
    confidence: of all audits of the call together.  error: of one confidence limit.
    findings: one for each ordered pair of inputs.
    reachable: the largest epsilon that so many reports could have shown.
    """

    name: str
    unit: str
    epsilon: float
    delta: float
    samples: int
    confidence: float
    error: float
    findings: tuple[Finding, ...]
    reachable: float

    @property
    def worst(self) -> Finding:
        """The finding with the largest bound."""
        return max(self.findings, key=lambda finding: finding.bound)

    @property
    def lower_bound(self) -> float:
        """Epsilon is at least this, in nats; 0 where nothing was shown."""
        return max(0.0, self.worst.bound)

    @property
    def exceeds(self) -> bool:
        """Whether the claim is refuted."""
        return self.lower_bound > self.epsilon


def audit(
    case: Case,
    samples: int = DEFAULT_SAMPLES,
    *,
    alpha: float = DEFAULT_ALPHA,
    rng: Rng = SYSTEM_RNG,
    told: Told | None = None,
) -> Audit:
    """``audit_all`` for a single case."""
    return audit_all([case], samples, alpha=alpha, rng=rng, told=told)[0]


def audit_all(
    cases: Sequence[Case],
    samples: int = DEFAULT_SAMPLES,
    *,
    alpha: float = DEFAULT_ALPHA,
    rng: Rng = SYSTEM_RNG,
    told: Told | None = None,
) -> tuple[Audit, ...]:
    """Test every case on ``samples`` reports of each of its inputs (at least 100).

    alpha: the probability with which any claim that holds may be refuted, in (0, 1).
    For each ordered pair of inputs an event is chosen on the first half of the reports and counted
    on the second, which is drawn afterwards. There are two confidence limits for each, and all
    limits of the call share ``alpha`` evenly.
    """
    samples = integer("samples", samples, MIN_SAMPLES, 2**40)
    if not 0 < alpha < 1:
        raise ParameterError(f"alpha must lie in (0, 1), got {alpha!r}")
    limits = 4 * sum(len(case.pairs) for case in cases)
    runs = (_Run(case, samples, alpha, alpha / limits, rng, told) for case in cases)
    return tuple(run.audit() for run in runs)


class _Tally:
    """The event chosen for one ordered pair of inputs, counted piece by piece."""

    def __init__(self, inputs: tuple[int, int], event: Event) -> None:
        self._inputs = inputs
        self._event = event
        self._counts = np.zeros((2, event.bins.size), dtype=np.int64)
        self._history: list[Prefix] = []

    def add(self, views: Sequence[Views]) -> None:
        """Count further reports; views: of each input of the case."""
        self._counts += [self._event.count(views[number]) for number in self._inputs]

    def mark(self, error: float, delta: float) -> None:
        """Note what the reports so far show."""
        n = int(self._counts[0].sum())
        count, other = (self._event.hits(row) for row in self._counts)
        bound = float(epsilon_bound(count, other, n, error, delta))
        self._history.append(Prefix(n, count, other, bound))

    def finding(self, case: Case) -> Finding:
        """What came out."""
        one, other = (case.inputs[number][0] for number in self._inputs)
        counts, other_counts = self._counts
        return Finding(one, other, self._event, counts, other_counts, tuple(self._history))


@dataclass
class _Run:
    """The audit of one case. error: of each confidence limit."""

    case: Case
    samples: int
    alpha: float
    error: float
    rng: Rng
    told: Told | None
    _drawn: int = field(default=0, init=False)

    def audit(self) -> Audit:
        case, kept = self.case, self.samples - self.samples // 2
        # The second half does not exist yet when the events are fixed.
        tallies = self._chosen(self.samples // 2)
        done = 0
        for end in _prefixes(kept):
            while done < end:
                views = self._draw(min(_PIECE, end - done))
                done += min(_PIECE, end - done)
                for tally in tallies:
                    tally.add(views)
            for tally in tallies:
                tally.mark(self.error, case.delta)
        return Audit(
            name=case.name,
            unit=case.unit,
            epsilon=case.epsilon,
            delta=case.delta,
            samples=self.samples,
            confidence=1 - self.alpha,
            error=self.error,
            findings=tuple(tally.finding(case) for tally in tallies),
            reachable=max(0.0, largest_bound(kept, self.error, case.delta)),
        )

    def _chosen(self, n: int) -> list[_Tally]:
        views = self._draw(n)
        tallies = []
        for a, b in self.case.pairs:
            self._tell()  # a choice among millions of reports takes its time
            forward, backward = choose(views[a], views[b], self.error, self.case.delta)
            tallies += [_Tally((a, b), forward), _Tally((b, a), backward)]
        return tallies

    def _draw(self, n: int) -> list[Views]:
        """``n`` reports of each input."""
        views = []
        for _, x in self.case.inputs:
            self._tell()
            views.append(as_views(self.case.draw(x, n, self.rng), n))
            self._drawn += n
        return views

    def _tell(self) -> None:
        if self.told is not None:
            self.told(self.case.name, self._drawn / (self.samples * len(self.case.inputs)))


def _prefixes(n: int) -> Iterator[int]:
    """Rising numbers of reports up to ``n``, about evenly apart on a logarithmic axis."""
    shortest = min(n, max(_SHORTEST, n // 1000))
    yield from np.unique(np.geomspace(shortest, n, _PREFIXES).round().astype(np.int64)).tolist()


def _words(x: Any, number: int) -> str:
    text = str(np.asarray(x).tolist())
    return text if len(text) <= _LONGEST else f"input {number}"
