"""Basic composition of privacy losses for one user, and a budget that fails closed.

Source: sequential composition, Dwork and Roth, "The Algorithmic Foundations of Differential
    Privacy" (2014), theorem 3.16: losses about one user add up.
Model: all reports of the user are seen together; each mechanism's epsilon holds as stated.
Error: none towards less; sums are exact rationals, rounded up once when they are reported.
"""

import threading
from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldp.mechanism import Mechanism, checked_epsilon
from ldp.rounding import exact, round_down, round_up, shown
from mpc.core.checks import integer
from mpc.core.errors import BudgetError
from mpc.core.rng import SYSTEM_RNG, Rng

_MOST_RELEASES = 2**63 - 1


def compose(epsilons: Iterable[float]) -> float:
    """The loss of all releases together: their exact sum, rounded up to a double; 0.0 for none.

    Raises ParameterError if one is negative, NaN, infinite or no real number.
    """
    return round_up(sum((exact_loss(epsilon) for epsilon in epsilons), Fraction(0)))


@dataclass(frozen=True)
class Cost:
    """What releases cost one user: for a single unit of her data, and for all of it together.

    unit: what ``epsilon`` protects, as ``Mechanism.unit`` names it.  epsilon: the loss about one
    such unit.  releases: how many a user makes.  user: the loss about the user as a whole.
    """

    unit: str
    epsilon: float
    releases: int
    user: float

    def __str__(self) -> str:
        return (
            f"epsilon {shown(self.epsilon)} for each {self.unit}, {shown(self.user)} for each user "
            f"({self.releases} releases, basic composition)"
        )


def cost(mechanism: Mechanism, releases: int) -> Cost:
    """The cost of ``releases`` reports of one user, each about another unit of her data."""
    releases = integer("releases", releases, 0, _MOST_RELEASES)
    total = exact_loss(mechanism.epsilon) * releases
    return Cost(mechanism.unit, mechanism.epsilon, releases, round_up(total))


class AbstractBudget(ABC):
    """The privacy loss that one user allows in total: what holds wherever it is written down.

    Losses are those of the very doubles: 0.1 is stored as a little more than a tenth, so the total
    for three such queries is ``compose([0.1] * 3)``.
    """

    def spend(self, epsilon: float, *, releases: int = 1) -> None:
        """Book ``releases`` losses of ``epsilon``; call it before anything is drawn or sent.

        Raises BudgetError, and books nothing, if the exact sum would pass the total.
        """
        releases = integer("releases", releases, 0, _MOST_RELEASES)
        self._book(exact_loss(epsilon) * releases)

    def perturb(
        self, mechanism: Mechanism, x: NDArray[Any], *, rng: Rng = SYSTEM_RNG
    ) -> NDArray[Any]:
        """Pay for each entry of ``x``, all of them this user's, and randomize them.

        Raises BudgetError and returns nothing if the budget does not cover all of them. A budget
        that has paid stays spent even if ``perturb`` fails afterwards.
        """
        self.spend(mechanism.epsilon, releases=int(np.size(x)))
        return mechanism.perturb(x, rng=rng)

    @property
    def spent(self) -> float:
        """The loss booked so far, rounded up."""
        return round_up(self._state()[1])

    @property
    def remaining(self) -> float:
        """What is left, rounded down."""
        total, spent = self._state()
        return round_down(total - spent)

    @abstractmethod
    def _book(self, asked: Fraction) -> None:
        """Add ``asked`` to what is spent, atomically; BudgetError, with nothing booked, if over."""

    @abstractmethod
    def _state(self) -> tuple[Fraction, Fraction]:
        """The exact total and what of it is spent."""


class Budget(AbstractBudget):
    """A budget in memory; it ends with its process. Spending is atomic across threads.

    total: finite, at least 0, in nats.
    """

    def __init__(self, total: float) -> None:
        self._total = exact_loss(total)
        self._spent = Fraction(0)
        self._lock = threading.Lock()

    def _book(self, asked: Fraction) -> None:
        with self._lock:
            self._spent = booked(self._total, self._spent, asked)

    def _state(self) -> tuple[Fraction, Fraction]:
        return self._total, self._spent

    def __repr__(self) -> str:
        return f"Budget(total={shown(round_down(self._total))}, spent={shown(self.spent)})"


def booked(total: Fraction, spent: Fraction, asked: Fraction) -> Fraction:
    """What is spent once ``asked`` is booked; BudgetError if that passes the total."""
    if spent + asked > total:
        raise BudgetError(
            f"a query of epsilon {round_up(asked)!r} exceeds the remaining "
            f"{round_down(total - spent)!r} of {round_down(total)!r}",
            remedy="repeat an answer already given with ldp.memo, or raise the budget",
        )
    return spent + asked


def exact_loss(epsilon: float) -> Fraction:
    """A loss as the rational number that it is; ParameterError unless finite and at least 0."""
    checked_epsilon(epsilon, 0.0)
    return exact(epsilon)
