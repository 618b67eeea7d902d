"""Means collected round after round: memoized 1BitMean answers for a grid, flipped afresh or not.

Source: Ding, Kulkarni and Yekhanin, "Collecting telemetry data privately" (NIPS 2017):
    alpha-point rounding, permanent memoization and output perturbation with probability gamma.
Model: the collector sees all reports of a user and knows that they are hers. Laws are those of
    ideal coins; computational for PRF coins (``ldp.coins``) and for the AES-CTR coins of the flips.
    Whoever holds her memo key reads her rounded values from her reports.
Leaks: with gamma = 0, that a rounded value changed, whenever a report did: no epsilon covers it.
    ``RepeatedMean.cost`` tells what the reports of T rounds give away together.
Error: in each round the estimate is unbiased over alpha, memo and flips, up to 2^-50 of the range.
    The errors of different rounds are no longer independent: alpha and memo stay, so an average
    over rounds keeps their noise. That is what protects a value that stays.
Differs: the paper states that histories of one "behaviour pattern" cannot be told apart. Here the
    losses are computed, between such histories and between any two (``ldp.repeated_cost``).

A user draws alpha once, uniform in one step of the grid, and rounds x up where it lies further than
alpha above the point below; so the mean over alpha is x, and a value that stays is always rounded
alike. For each grid point she keeps one answer of 1BitMean about that point, and reports it as long
as her value is rounded there, each time flipped with probability gamma.
"""

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from numbers import Real
from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ldp.accounting import compose
from ldp.coins import memo_coins, memo_words
from ldp.mean import PIECE, GridRounding, Range, checked_users, checked_words
from ldp.mechanism import Estimate, checked_epsilon
from ldp.memo import MemoStore
from ldp.randomized_response import RandomizedResponse
from ldp.repeated_cost import (
    DELTA_ROUNDS,
    EXACT_ROUNDS,
    RepeatedCost,
    bounding_loss,
    enumerated_delta,
    exact_ratio,
    flips_delta,
    loss_of,
)
from ldp.rounding import exact
from mpc.core.checks import integer
from mpc.core.errors import ParameterError
from mpc.core.rng import ONE, SYSTEM_RNG, Rng, Shape

_MOST_STEPS = 1 << 16
_MOST_ROUNDS = 1 << 31
_MOST_DELTA_ROUNDS = 100_000

# Words of 64 bits that are held together for a few users.
_WORDS = 1 << 20


@dataclass(frozen=True, eq=False, repr=False)
class Memos:
    """What users keep for ever: secret, since it reads their rounded values from their reports.

    alphas: uint64 (n,), a word for each user.  answers: bool (n, steps + 1), one for each point.
    """

    alphas: NDArray[np.uint64]
    answers: NDArray[np.bool_]


@dataclass(frozen=True)
class RepeatedMean:
    """Collects the mean of a number that may change from round to round.

    low, high: the public range.  steps: of the grid that values are rounded to, in [1, 2^16].
    coin: of a memoized answer.  flip: a report is flipped with probability flip / 2^64, afresh in
    each round; in [0, 2^63).
    """

    low: float
    high: float
    steps: int
    coin: RandomizedResponse
    flip: int

    def __post_init__(self) -> None:
        span = Range(self.low, self.high)
        object.__setattr__(self, "low", span.low)
        object.__setattr__(self, "high", span.high)
        object.__setattr__(self, "steps", integer("steps", self.steps, 1, _MOST_STEPS))
        given: object = self.coin
        if not isinstance(given, RandomizedResponse):
            raise ParameterError(f"coin must be a RandomizedResponse, got {type(given).__name__}")
        object.__setattr__(self, "flip", integer("flip", self.flip, 0, ONE // 2 - 1))

    @classmethod
    def from_epsilon(
        cls,
        epsilon: float,
        low: float = 0.0,
        high: float = 1.0,
        *,
        steps: int,
        gamma: float = 0.0,
    ) -> Self:
        """Memoized answers whose loss is at most ``epsilon``, in nats, flipped with ``gamma``.

        epsilon: finite, at least 2^-60.  gamma: in [0, 1/2), rounded up to a multiple of 2^-64.
        """
        given: object = gamma
        if isinstance(given, bool) or not isinstance(given, Real) or not 0 <= gamma < 0.5:
            raise ParameterError(f"gamma must be a real number in [0, 1/2), got {gamma!r}")
        flip = math.ceil(exact(gamma) * ONE)
        return cls(low, high, steps, RandomizedResponse.from_epsilon(epsilon), flip)

    @property
    def epsilon(self) -> float:
        """Loss of one memoized answer in nats, rounded up.

        All reports of a user together lose no more while her rounded value stays the same, however
        many they are. For other histories see ``cost``.
        """
        return self.coin.epsilon

    @property
    def unit(self) -> str:
        """What ``epsilon`` protects: a value that stays where it is."""
        return "unchanged value"

    @property
    def report_bits(self) -> int:
        """Bits of one report on the wire: one."""
        return 1

    @cached_property
    def range(self) -> Range:
        """The public range of a value."""
        return Range(self.low, self.high)

    @cached_property
    def _grid(self) -> Range:
        return Range(0, self.steps)

    @cached_property
    def ones(self) -> tuple[Fraction, ...]:
        """Probability that the memoized answer for each grid point is one, exactly."""
        # The very thresholds of the code, found by its own arithmetic.
        places = self._grid.fractions(np.arange(self.steps + 1, dtype=np.float64))
        keep = Fraction(self.coin.keep, ONE)
        shares = [Fraction(int(place * 2.0**62), 1 << 62) for place in places.tolist()]
        return tuple((1 - keep) + (2 * keep - 1) * share for share in shares)

    @cached_property
    def gamma(self) -> Fraction:
        """Probability of a flip, exactly."""
        return Fraction(self.flip, ONE)

    def cost(self, rounds: int) -> RepeatedCost:
        """What all reports of ``rounds`` rounds tell about a user; rounds in [1, 2^31]."""
        rounds = integer("rounds", rounds, 1, _MOST_ROUNDS)
        is_exact = rounds <= EXACT_ROUNDS
        if is_exact:
            ratio = exact_ratio(self.ones, self.gamma, rounds)
            moving = math.inf if ratio is None else loss_of(ratio)
        else:
            moving = bounding_loss(self.ones[-1], self.gamma, rounds)
        visited = min(rounds, self.steps + 1)
        return RepeatedCost(
            rounds=rounds,
            still=min(self.epsilon, moving),
            pattern=min(compose([self.epsilon] * visited), moving),
            moving=moving,
            is_exact=is_exact,
        )

    def delta(self, rounds: int, epsilon: float) -> float:
        """A delta with which any two histories are (epsilon, delta)-indistinguishable; rounded up.

        epsilon: finite, at least 0.  rounds: in [1, 10^5]; up to ``DELTA_ROUNDS`` it is the largest
        delta of grids with many points, beyond it is that of the flips alone. It is 1, no promise,
        where nothing is flipped.
        """
        rounds = integer("rounds", rounds, 1, _MOST_DELTA_ROUNDS)
        epsilon = checked_epsilon(epsilon, 0.0)
        if epsilon >= self.cost(rounds).moving:
            return 0.0
        if rounds <= DELTA_ROUNDS:
            return enumerated_delta(self.ones[-1], self.gamma, rounds, epsilon)
        return flips_delta(self.gamma, rounds, epsilon)

    def question(self, kind: str, point: int) -> bytes:
        """The name of a grid point for a user's coins of one kind; another grid has other names."""
        return f"{kind} {self.low.hex()} {self.high.hex()} {self.steps} {point}".encode()

    def points(self, x: ArrayLike, alphas: NDArray[np.uint64]) -> NDArray[np.int64]:
        """The grid point of each user's value: int64 (n,), from 0 at low to ``steps`` at high.

        x: (n,), within the range.  alphas: uint64 (n,), each user's own, the same in all rounds.
        """
        values = self.range.checked(x)
        if values.ndim != 1:
            raise ParameterError(f"x must have one axis, a value for each user, got {values.shape}")
        words = checked_words("alphas", alphas, values.shape)
        out = np.empty(values.size, dtype=np.int64)
        rounding = GridRounding(self.range, values.size)
        for start in range(0, values.size, PIECE):
            piece = slice(start, start + PIECE)
            out[piece] = rounding.to_points(values[piece], self.steps, words[piece])
        return out

    def rounded_bits(
        self, points: NDArray[np.int64], words: NDArray[np.uint64]
    ) -> NDArray[np.bool_]:
        """Each point rounded to a bit without bias, before the coin: what a memo answers about.

        points: in [0, steps], one axis.  words: uint64 of the same shape, a user's own for the
        point.
        """
        out = np.empty(points.shape, dtype=np.bool_)
        rounding = GridRounding(self._grid, points.size)
        for start in range(0, points.size, PIECE):
            piece = slice(start, start + PIECE)
            rounding.to_bits(points[piece].astype(np.float64), words[piece], out[piece])
        return out

    def memos(self, keys: NDArray[np.uint8], family: str) -> Memos:
        """The memos of a population: what each user's ``MemoStore`` would answer under ``family``.

        keys: uint8 (n_users, 32), their memo keys, uniform and secret.
        """
        alpha = [self.question("alpha", 0)]
        rounding, answer = (
            [self.question(kind, point) for point in range(self.steps + 1)]
            for kind in ("rounding", "answer")
        )
        answers = np.empty((keys.shape[0], self.steps + 1), dtype=np.bool_)
        alphas = np.empty(keys.shape[0], dtype=np.uint64)
        rows = max(1, _WORDS // (self.steps + 1))
        for start in range(0, keys.shape[0], rows):
            users = slice(start, start + rows)
            some = self.memos_with(
                memo_words(keys[users], family, alpha)[:, 0],
                memo_words(keys[users], family, rounding),
                memo_coins(keys[users], family, answer),
            )
            alphas[users], answers[users] = some.alphas, some.answers
        return Memos(alphas, answers)

    def memos_with(
        self,
        alphas: NDArray[np.uint64],
        rounding: NDArray[np.uint64],
        coins: NDArray[np.uint64],
    ) -> Memos:
        """Memos from given words, uniform and independent.

        alphas: uint64 (n,).  rounding, coins: uint64 (n, steps + 1).
        """
        shape = (np.shape(alphas)[0], self.steps + 1)
        words = checked_words("rounding", rounding, shape)
        points = np.tile(np.arange(self.steps + 1), shape[0])
        bits = self.rounded_bits(points, words.reshape(-1)).reshape(shape)
        return Memos(alphas, self.coin.perturb_with(bits, coins))

    def report(self, x: ArrayLike, memos: Memos, *, rng: Rng = SYSTEM_RNG) -> NDArray[np.bool_]:
        """One round: each user's memoized answer for her rounded value, flipped afresh.

        x: (n,), this round's values, within the range.  memos: those of all rounds.
        Returns bool (n,).
        """
        points = self.points(x, memos.alphas)
        told = memos.answers[np.arange(points.size), points]
        return told ^ rng.bernoulli(self.flip, told.size)

    def estimate(self, reports: NDArray[np.bool_]) -> Estimate:
        """Unbiased mean of the users' values in a round, along axis 0; may leave the range.

        reports: bool, shape (users, ...), such as (users, rounds).  Rounds have one Estimate each,
        whose errors are not independent.  Raises ParameterError without users.
        """
        bits = np.asarray(reports)
        if bits.dtype != np.bool_:
            raise ParameterError(f"reports must be a bool array, got dtype {bits.dtype}")
        n = checked_users(bits).shape[0]
        ones = np.sum(bits, axis=0, dtype=np.int64)
        # A report is one with probability 1/2 + gap (f - 1/2) for a value at fraction f.
        fraction = (2 * ones - n) / (2 * n * float(self._gap)) + 0.5
        square = self.range.width**2 / n
        mean = np.clip(fraction, 0.0, 1.0)
        return Estimate(
            value=np.asarray(self.range.low + self.range.width * fraction),
            variance=np.asarray(square * (self._noise + mean * (1 - mean))),
            worst=np.full(fraction.shape, square * (self._noise + 0.25)),
            n=n,
        )

    @cached_property
    def _gap(self) -> Fraction:
        return Fraction((2 * self.coin.keep - ONE) * (ONE - 2 * self.flip), ONE * ONE)

    @cached_property
    def _noise(self) -> float:
        return float((1 / self._gap**2 - 1) / 4)

    def pack(self, reports: NDArray[np.bool_]) -> bytes:
        """Reports of any shape, eight to a byte."""
        return self.coin.pack(reports)

    def unpack(self, data: bytes, shape: Shape) -> NDArray[np.bool_]:
        """Inverse of ``pack`` for a known shape; WireError for bytes that are no such reports."""
        return self.coin.unpack(data, shape)


class RepeatedReporter:
    """One user's side: answers from her memo on disk, the same after any restart.

    family: a name for the quantity that is collected, which never changes its meaning.
    ``MemoStore.spent`` adds up the answers given for her grid points; what her history loses is
    told by ``RepeatedMean.cost``.
    """

    def __init__(self, mechanism: RepeatedMean, store: MemoStore, family: str) -> None:
        self._mechanism = mechanism
        self._store = store
        self._family = family

    def report(self, x: float, *, rng: Rng = SYSTEM_RNG) -> bool:
        """This round's report about ``x``; its memoized answer is on disk on return.

        Raises StateError, and reports nothing, if the store answered about the same grid with
        another coin before.
        """
        mechanism, family = self._mechanism, self._family
        alpha = self._store.words(family, [mechanism.question("alpha", 0)])
        points = mechanism.points([x], alpha)
        point = int(points[0])
        word = self._store.words(family, [mechanism.question("rounding", point)])
        bit = mechanism.rounded_bits(points, word)
        question = mechanism.question("answer", point)
        told = self._store.answer(mechanism.coin, family, [question], bit)
        return bool(told[0] ^ rng.bernoulli(mechanism.flip, 1)[0])
