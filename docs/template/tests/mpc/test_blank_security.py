"""mpc.blank: the exact law of every coalition's view, and the broken twins that it must catch.

Replace: `view` (all that a coalition sees), `leaks` (all that it may learn) and the twins.
"""

from collections.abc import Callable
from fractions import Fraction
from itertools import combinations, product

import numpy as np
import pytest
from numpy.typing import NDArray

from mpc.blank import RING, announcement
from mpc.core.ring import RingArray
from tests.support.enumerate import TapeRng, joint, law, tapes

Kernel = Callable[[RingArray, RingArray, RingArray], RingArray]
Coalition = tuple[int, ...]


def view(kernel: Kernel, messages: tuple[int, ...], coalition: Coalition) -> NDArray[np.uint64]:
    """The coalition's view on every tape: its pads, drawn and handed, and all announcements."""
    n = len(messages)
    tape = tapes([2] * n)
    pads = RING.random((n, len(tape), 1), TapeRng(tape, axis=1))
    handed = np.roll(pads, 1, axis=0)
    inputs = np.broadcast_to(np.array(messages, np.uint8)[:, np.newaxis, np.newaxis], pads.shape)
    said = kernel(inputs, pads, handed)
    own = [array[party] for party in coalition for array in (pads, handed)]
    return joint(*own, *said)


def leaks(messages: tuple[int, ...], coalition: Coalition) -> tuple[tuple[int, ...], ...]:
    """What the module says a coalition learns: its own messages, and each honest run's parity."""
    n = len(messages)
    own = tuple(messages[party] for party in coalition)
    if not coalition:
        return (own, (sum(messages) % 2,))
    runs = []
    for start, end in zip(coalition, (*coalition[1:], coalition[0] + n), strict=True):
        runs.append(sum(messages[party % n] for party in range(start + 1, end)) % 2)
    return (own, tuple(runs))


def keeps_its_promise(kernel: Kernel, n: int) -> bool:
    """Whether every coalition's view has one law for all inputs that `leaks` does not tell apart,
    and different laws for all others: it learns what is stated, no more and no less.
    """
    for size in range(n):
        for coalition in combinations(range(n), size):
            laws: dict[object, dict[bytes, Fraction]] = {}
            for messages in product((0, 1), repeat=n):
                found = law(view(kernel, messages, coalition))
                if laws.setdefault(leaks(messages, coalition), found) != found:
                    return False
            supports = [outcome for one in laws.values() for outcome in one]
            if len(supports) != len(set(supports)):
                return False
    return True


@pytest.mark.parametrize("n", [3, 4, 5])
def test_every_coalition_learns_what_is_stated_and_nothing_else(n: int) -> None:
    assert keeps_its_promise(announcement, n)


def handed_pad_left_out(message: RingArray, drawn: RingArray, handed: RingArray) -> RingArray:
    return RING.add(message, drawn)


def no_pad_at_all(message: RingArray, drawn: RingArray, handed: RingArray) -> RingArray:
    return message


def one_pad_used_twice(message: RingArray, drawn: RingArray, handed: RingArray) -> RingArray:
    return RING.add(RING.add(message, drawn), drawn)


def party_0_unmasked(message: RingArray, drawn: RingArray, handed: RingArray) -> RingArray:
    said = announcement(message, drawn, handed)
    said[0] = message[0]
    return said


@pytest.mark.parametrize(
    "twin", [handed_pad_left_out, no_pad_at_all, one_pad_used_twice, party_0_unmasked]
)
def test_a_broken_twin_is_caught(twin: Kernel) -> None:
    assert not keeps_its_promise(twin, 3)
