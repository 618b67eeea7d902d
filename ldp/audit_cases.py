"""The mechanisms of this package as cases for ``ldp.audit``, by name.

Inputs are made up, and chosen where a mechanism is most likely to give itself away: the ends of a
range, the first and the last value, each bit of a vector in turn.

Model: a case sees what the collector sees of one report, except for ``memo``, which is
    asked about the same bit again and again and must still not lose more than once.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ldp.audit import Case
from ldp.audit_views import Views
from ldp.clipped_laplace import ClippedLaplace
from ldp.coins import memo_coins
from ldp.dbitflip import DBitFlip
from ldp.discrete_gaussian import DiscreteGaussian
from ldp.discrete_laplace import DiscreteLaplace
from ldp.duchi import Duchi
from ldp.hadamard import HadamardResponse
from ldp.hybrid import Hybrid
from ldp.k_ary import KaryRandomizedResponse
from ldp.local_hashing import LocalHashing
from ldp.mechanism import Mechanism, checked_epsilon
from ldp.one_bit_mean import OneBitMean
from ldp.piecewise import Piecewise
from ldp.randomized_response import RandomizedResponse
from ldp.repeated import RepeatedMean
from ldp.repeated_cost import RepeatedCost
from ldp.skellam import Skellam
from ldp.subset_selection import SubsetSelection
from ldp.thresholds import MIN_EPSILON
from ldp.unary import UnaryEncoding
from mpc.core.checks import integer
from mpc.core.errors import ParameterError
from mpc.core.keystream import KEY_BYTES
from mpc.core.rng import Rng

MAX_VALUES = 4096
"""Of a frequency oracle under audit; a report may have as many bits, and half of them are kept."""

_BITS = 8
_ASKED = 8
"""How often a memo is asked about the same bit, or a mean is collected."""

_STEPS = 4  # of the grid of a repeated mean


@dataclass(frozen=True)
class Request:
    """What an audited mechanism is made for.

    epsilon: asked of ``from_epsilon``.  delta: for Gaussian and Skellam noise, which has no pure
    epsilon.  values: k of a frequency oracle, in [2, 4096].
    """

    epsilon: float = 1.0
    delta: float = 1e-5
    values: int = 8

    def __post_init__(self) -> None:
        checked_epsilon(self.epsilon, MIN_EPSILON)
        if not 0 < self.delta < 1:
            raise ParameterError(f"delta must lie in (0, 1), got {self.delta!r}")
        integer("values", self.values, 2, MAX_VALUES)


def shipped(name: str, request: Request) -> Case:
    """The case of the mechanism ``name``, one of NAMES.

    Raises ParameterError for another name, or if the mechanism cannot meet the request.
    """
    make = _CASES.get(name)
    if make is None:
        raise ParameterError(
            f"no mechanism is called {name!r}", remedy=f"known: {', '.join(NAMES)}"
        )
    return make(name, request)


# Bits


def _bits(name: str, request: Request) -> Case:
    """Vectors of bits in which one bit differs, each in turn."""
    mechanism = RandomizedResponse.from_epsilon(request.epsilon)
    vectors = [np.zeros(_BITS, dtype=np.bool_), *np.eye(_BITS, dtype=np.bool_)]
    words = ["no bit set", *(f"bit {place} set" for place in range(_BITS))]

    def draw(x: NDArray[np.bool_], n: int, rng: Rng) -> NDArray[np.bool_]:
        return mechanism.perturb(np.broadcast_to(x, (n, _BITS)), rng=rng)

    pairs = [(0, place + 1) for place in range(_BITS)]
    inputs = list(zip(words, vectors, strict=True))
    return Case(name, mechanism.epsilon, inputs, draw, unit=mechanism.unit, pairs=pairs)


def _memo(name: str, request: Request) -> Case:
    """The same questions asked several times under one memo key."""
    mechanism = RandomizedResponse.from_epsilon(request.epsilon)

    def draw(x: bool, n: int, rng: Rng) -> NDArray[np.bool_]:
        keys = np.frombuffer(rng.bytes(KEY_BYTES), np.uint8)[np.newaxis]
        held, questions = np.full(n, x), np.arange(n)
        answers = [
            mechanism.perturb_with(held, memo_coins(keys, name, questions)[0])
            for _ in range(_ASKED)
        ]
        return np.stack(answers, axis=1)

    inputs = [("0", False), ("1", True)]
    return Case(name, mechanism.epsilon, inputs, draw, unit=mechanism.unit)


# Values


def _oracle(
    make: Callable[[int, float], Mechanism],
    supports: Callable[[Any, NDArray[Any], int], NDArray[Any]] | None = None,
) -> Callable[[str, Request], Case]:
    """Three values, the last among them.

    supports: (mechanism, reports, value) -> what each report says about the value, where that
    takes more than a look at its fields.
    """

    def case(name: str, request: Request) -> Case:
        mechanism = make(request.values, request.epsilon)
        held = sorted({0, 1, request.values - 1})

        def draw(x: int, n: int, rng: Rng) -> Views:
            reports = mechanism.perturb(np.full(n, x), rng=rng)
            if supports is None:
                return {"report": reports}
            told = {f"about {value}": supports(mechanism, reports, value) for value in held}
            return {"report": reports, **told}

        inputs = [(str(value), value) for value in held]
        return Case(name, mechanism.epsilon, inputs, draw, unit=mechanism.unit)

    return case


def _same(mechanism: Mechanism, reports: NDArray[Any], value: int) -> NDArray[Any]:
    """Whether the value itself is reported: of many values, no quantile would single it out."""
    told: NDArray[Any] = reports == value
    return told


def _hashed(mechanism: LocalHashing, reports: NDArray[np.void], value: int) -> NDArray[Any]:
    """Whether the value's bucket is the one reported."""
    half, mask = np.uint64(mechanism.width // 2), np.uint64((1 << mechanism.width) - 1)
    word = reports["a"].astype(np.uint64) * np.uint64(value) + reports["b"] & mask
    bucket = (word >> half) * np.uint64(mechanism.g) >> half
    told: NDArray[Any] = bucket == reports["y"]
    return told


def _in_half(mechanism: HadamardResponse, reports: NDArray[Any], value: int) -> NDArray[Any]:
    """1 for the half of the value's block that supports it, 0 for the other, 2 for other blocks."""
    inner_bits = mechanism.report_bits - (mechanism.blocks.bit_length() - 1)
    words = reports.astype(np.uint64)
    row = np.uint64(1 + value // mechanism.blocks)
    inner = words & np.uint64((1 << inner_bits) - 1)
    sign = np.bitwise_count(inner & row) & 1
    block = words >> np.uint64(inner_bits)
    return np.where(block == value % mechanism.blocks, 1 - sign, 2)


def _asked(mechanism: DBitFlip, reports: NDArray[np.void], value: int) -> NDArray[Any]:
    """The bit that a report gives about a value, 2 if it was not asked."""
    about = reports["asked"] == value
    return np.where(about.any(axis=1), (about & reports["bits"]).any(axis=1), 2)


# Numbers


def _number(
    make: Callable[[float], Mechanism], low: float, high: float
) -> Callable[[str, Request], Case]:
    """Both ends of a range, and its middle."""

    def case(name: str, request: Request) -> Case:
        return Case.of(name, make(request.epsilon), low, (low + high) / 2, high)

    return case


class _NoiseWithDelta(Mechanism, Protocol):
    """Additive noise that is (epsilon, delta)-private."""

    def delta_at(self, epsilon: float) -> float:
        """The least delta at ``epsilon``."""

    def epsilon_at(self, delta: float) -> float:
        """The least epsilon at ``delta``."""


def _with_delta(make: Callable[[float], _NoiseWithDelta]) -> Callable[[str, Request], Case]:
    """Integer noise of the least size that meets epsilon and delta; make: from its size."""

    def case(name: str, request: Request) -> Case:
        size = least_size(lambda trial: make(trial).delta_at(request.epsilon) <= request.delta)
        mechanism = make(size)

        def draw(x: int, n: int, rng: Rng) -> NDArray[Any]:
            return mechanism.perturb(np.full(n, x), rng=rng)

        claim = mechanism.epsilon_at(request.delta)
        inputs = [("0", 0), ("1", 1)]
        return Case(name, claim, inputs, draw, delta=request.delta, unit=mechanism.unit)

    return case


def _laplace(name: str, request: Request) -> Case:
    return Case.of(name, DiscreteLaplace.from_epsilon(request.epsilon), 0, 1)


def _clipped(name: str, request: Request) -> Case:
    """Numbers beyond either end, which clipping must bring to the ends."""
    mechanism = ClippedLaplace.from_epsilon(request.epsilon, 1.0)
    return Case.of(name, mechanism, -math.inf, 0.0, 1.5)


# Repeated collection


def _repeated(
    gamma: float, histories: Sequence[Sequence[float]], cost: Callable[[RepeatedCost], float]
) -> Callable[[str, Request], Case]:
    """All reports of a user over some rounds. cost: which account of them is the claim."""

    def case(name: str, request: Request) -> Case:
        mechanism = RepeatedMean.from_epsilon(request.epsilon, steps=_STEPS, gamma=gamma)

        def draw(x: Sequence[float], n: int, rng: Rng) -> NDArray[np.bool_]:
            alphas, *words = (
                rng.words(shape, np.uint64) for shape in ((n,), (n, _STEPS + 1), (n, _STEPS + 1))
            )
            memos = mechanism.memos_with(alphas, *words)
            told = [mechanism.report(np.full(n, value), memos, rng=rng) for value in x]
            return np.stack(told, axis=1)

        inputs = [(_history(x), x) for x in histories]
        claim = cost(mechanism.cost(len(histories[0])))
        return Case(name, claim, inputs, draw, unit="history")

    return case


def _history(x: Sequence[float]) -> str:
    if len(set(x)) == 1:
        return f"{x[0]:g} in {len(x)} rounds"
    return ", ".join(f"{value:g}" for value in x)


_CASES: dict[str, Callable[[str, Request], Case]] = {
    "randomized-response": _bits,
    "memo": _memo,
    "k-ary": _oracle(KaryRandomizedResponse.from_epsilon, _same),
    "unary-symmetric": _oracle(UnaryEncoding.symmetric),
    "unary-optimized": _oracle(UnaryEncoding.optimized),
    "subset-selection": _oracle(SubsetSelection.from_epsilon),
    "local-hashing": _oracle(LocalHashing.from_epsilon, _hashed),
    "hadamard": _oracle(HadamardResponse.from_epsilon, _in_half),
    "dbitflip": _oracle(
        lambda k, epsilon: DBitFlip.from_epsilon(k, epsilon, max(1, k // 2)), _asked
    ),
    "one-bit-mean": _number(OneBitMean.from_epsilon, 0.0, 1.0),
    "duchi": _number(Duchi.from_epsilon, -1.0, 1.0),
    "piecewise": _number(Piecewise.from_epsilon, -1.0, 1.0),
    "hybrid": _number(Hybrid.from_epsilon, -1.0, 1.0),
    "repeated-mean": _repeated(
        0.1, [[value] * _ASKED for value in (0.0, 0.5, 1.0)], lambda cost: cost.still
    ),
    "repeated-mean-moving": _repeated(
        0.25, [[0.0] * 4, [1.0] * 4, [0.0, 1.0] * 2], lambda cost: cost.moving
    ),
    "discrete-laplace": _laplace,
    "clipped-laplace": _clipped,
    "discrete-gaussian": _with_delta(DiscreteGaussian),
    "skellam": _with_delta(Skellam),
}

NAMES = tuple(_CASES)
"""Every shipped mechanism."""

WITH_DELTA = ("discrete-gaussian", "skellam")
"""Mechanisms whose claim has a delta."""

WITH_VALUES = tuple(
    name
    for name in NAMES
    if name.startswith(("k-ary", "unary", "subset", "local", "hadamard", "dbitflip"))
)
"""Mechanisms on k values."""


def least_size(enough: Callable[[float], bool]) -> float:
    """A size of noise that is enough, at most 1 % above the least one in [2^-8, 2^20].

    enough: true from some size on.  Raises ParameterError if 2^20 is not enough.
    """
    low = high = 2.0**-8
    while not enough(high):
        low, high = high, 2 * high
        if high > 2.0**20:
            raise ParameterError(
                "no noise of size 2^20 or less is enough", remedy="raise epsilon or delta"
            )
    while high > 1.01 * low:
        middle = (low + high) / 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high
