"""Exact laws of every coalition's view in the batched kernel, and its identity with the parties.

All random tapes form the batch axis, so the kernel that runs is the kernel that is enumerated.
"""

from collections import defaultdict
from collections.abc import Callable
from fractions import Fraction
from itertools import combinations, product
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from mpc.core.local import Delivery, LocalNetwork
from mpc.core.ring import Ring, RingArray
from mpc.core.rng import SYSTEM_RNG, Rng
from mpc.secure_sum import (
    DirectChannel,
    Groups,
    HandOver,
    Neighbour,
    PartialSum,
    Receiver,
    ShareMessage,
    batch_sum,
)
from mpc.secure_sum_messages import SumMessage
from tests.support.enumerate import TapeRng, joint, law, tapes

N = 3
SESSION = bytes(range(16))
MakeRng = Callable[[NDArray[np.uint64]], Rng]
Coalition = tuple[tuple[int, ...], bool]
"""Seats of the colluding neighbours, and whether the receiver is with them."""


def plain(values: NDArray[np.uint64]) -> Rng:
    return TapeRng(values, axis=1)


class Spy(HandOver):
    """Keeps all that is sent in a batch."""

    def __init__(self) -> None:
        self._planes: dict[int, RingArray] = {}
        self._partials: RingArray | None = None

    def shares(self, columns: slice, offset: int, shares: RingArray) -> RingArray:
        assert offset not in self._planes  # one block, or the tapes would be cut
        self._planes[offset] = shares.copy()
        return shares

    def partials(self, partials: RingArray) -> RingArray:
        self._partials = partials.copy()
        return partials

    def view(self, coalition: Coalition) -> NDArray[np.uint64]:
        """The members' coins and all that they receive, (tapes, columns)."""
        seats, with_receiver = coalition
        n = len(self._planes) + 1
        parts = [
            plane[seat]
            for offset, plane in self._planes.items()
            for seat in range(n)
            if seat in seats or (seat + offset) % n in seats
        ]
        if with_receiver and self._partials is not None:
            parts += list(self._partials)
        return joint(*parts)


# With the receiver n-2 neighbours may collude; without her n-1 may.
COALITIONS: list[Coalition] = [
    ((), True),
    *(((seat,), True) for seat in range(N)),
    *(((seat,), False) for seat in range(N)),
    *((pair, False) for pair in combinations(range(N), 2)),
]


def telling_coalitions(bits: int, make_rng: MakeRng = plain) -> set[Coalition]:
    """Coalitions whose view tells apart inputs that their own inputs and output do not."""
    ring = Ring(bits)
    values = tapes([2**bits] * (N * (N - 1)))
    laws: dict[Coalition, dict[Any, list[dict[bytes, Fraction]]]] = {
        coalition: defaultdict(list) for coalition in COALITIONS
    }
    for inputs in product(range(2**bits), repeat=N):
        x = np.empty((N, len(values), 1), dtype=ring.dtype)
        x[...] = np.array(inputs)[:, np.newaxis, np.newaxis]
        spy = Spy()
        total = batch_sum(x, ring, rng=make_rng(values), channel=spy)
        assert (total == sum(inputs) % 2**bits).all()
        for (seats, with_receiver), by_output in laws.items():
            output = sum(inputs) % 2**bits if with_receiver else None
            known = (output, *(inputs[seat] for seat in seats))
            by_output[known].append(law(spy.view((seats, with_receiver))))
    return {
        coalition
        for coalition, by_output in laws.items()
        if any(one != group[0] for group in by_output.values() for one in group)
    }


@pytest.mark.parametrize("bits", [1, 2])
def test_no_coalition_learns_more_than_its_output(bits: int) -> None:
    assert telling_coalitions(bits) == set()


def test_the_receiver_does_learn_the_sum() -> None:
    """The laws above are no artefact of a view that shows nothing."""
    ring = Ring(2)
    values = tapes([4] * (N * (N - 1)))
    views = []
    for total in range(4):
        spy = Spy()
        x = np.zeros((N, len(values), 1), dtype=ring.dtype)
        x[0] = total
        batch_sum(x, ring, rng=plain(values), channel=spy)
        views.append(set(law(spy.view(((), True)))))
    assert all(one.isdisjoint(other) for one, other in combinations(views, 2))


class BiasedRng(TapeRng):
    """The ring sample taken modulo 2^l - 1: the top residue is never reached, zero comes twice."""

    def fill(self, out: NDArray[Any]) -> None:
        super().fill(out)
        out[out == out.max()] = 0  # among all tapes there are some with the top residue


class SentTwiceRng(TapeRng):
    """Each sender gives its first share to every other neighbour."""

    _first: NDArray[Any] | None = None

    def fill(self, out: NDArray[Any]) -> None:
        if self._first is None:
            super().fill(out)
            self._first = out.copy()
        out[...] = self._first


class CancellingRng(SentTwiceRng):
    """The masks cancel: the share that stays at home is the bare input, and the sum is right."""

    def fill(self, out: NDArray[Any]) -> None:
        again = self._first is not None
        super().fill(out)
        if again:
            out[...] = np.negative(out)


class SharedMaskRng(TapeRng):
    """All senders use the masks of the first."""

    def fill(self, out: NDArray[Any]) -> None:
        super().fill(out)
        out[...] = out[:1]


@pytest.mark.parametrize("bits", [1, 2])
@pytest.mark.parametrize("twin", [BiasedRng, SentTwiceRng, CancellingRng, SharedMaskRng])
def test_a_twin_with_a_fault_is_caught(twin: type[TapeRng], bits: int) -> None:
    telling = telling_coalitions(bits, lambda values: twin(values, axis=1))
    # The sums stay right in all of them; the receiver with one neighbour sees the fault.
    assert any(with_receiver and seats for seats, with_receiver in telling)


def test_with_all_but_one_neighbour_the_receiver_opens_the_last_input() -> None:
    """Why n = colluders + 2: the output itself tells it, no protocol could hide it."""
    ring = Ring(8)
    x = ring.random((N, 1, 1), SYSTEM_RNG)
    total = batch_sum(x, ring)
    assert ring.sub(total, ring.sum(x[1:], axis=0)) == x[0]


def test_two_sums_that_differ_in_one_input_open_the_difference() -> None:
    """What one sum protects, two do not: the receiver subtracts."""
    ring = Ring(32)
    x = ring.random((5, 1, 7), SYSTEM_RNG)
    later = x.copy()
    later[2] = ring.random((1, 7), SYSTEM_RNG)
    difference = ring.sub(batch_sum(later, ring), batch_sum(x, ring))
    assert np.array_equal(difference, ring.sub(later[2], x[2]))


def run_parties(
    x: RingArray, ring: Ring, groups: Groups, coins: NDArray[np.uint64], network: LocalNetwork
) -> RingArray:
    """Each sum by its party objects, one after the other; coins (offsets, n, B, D)."""
    n, batch, dim = x.shape
    totals = np.empty((batch, dim), dtype=ring.dtype)
    for column in range(batch):
        terms = groups.terms(column, dim, ring)
        neighbours = [
            Neighbour(terms, party, rng=TapeRng(coins[:, seat, column].reshape(1, -1), axis=1))
            for seat, party in enumerate(terms.neighbours)
        ]
        dealt = [party.share(x[seat, column]) for seat, party in enumerate(neighbours)]
        for offset in range(n - 1):
            for messages in dealt:
                message = messages[offset]
                network.send(message.sender, message.to, "secure_sum.share", message.to_bytes())
        for party in neighbours:
            for delivery in network.receive(party.party):
                party.receive(terms.share_from_bytes(delivery.data))
        receiver = Receiver(terms)
        for party in neighbours:
            partial = party.partial_sum()
            network.send(partial.sender, partial.to, "secure_sum.partial", partial.to_bytes())
        for delivery in network.receive(terms.receiver):
            receiver.receive(terms.partial_from_bytes(delivery.data))
        totals[column] = receiver.total()
    return totals


KINDS: dict[str, type[SumMessage]] = {
    "secure_sum.share": ShareMessage,
    "secure_sum.partial": PartialSum,
}


def by_sum(view: tuple[Delivery, ...]) -> dict[int, list[tuple[int, str, bytes]]]:
    """A view taken apart by the sums that it belongs to, the order within each kept."""
    parts = defaultdict(list)
    for d in view:
        receiver = KINDS[d.kind].from_bytes(d.data).receiver
        parts[receiver].append((d.sender, d.kind, d.data))
    return parts


@pytest.mark.parametrize(
    ("n", "batch", "dim", "bits"), [(3, 4, 2, 2), (5, 3, 7, 32), (4, 3, 1, 64)]
)
def test_batched_views_are_the_concatenated_views_of_the_parties(
    n: int, batch: int, dim: int, bits: int
) -> None:
    ring = Ring(bits)
    x = ring.random((n, batch, dim), SYSTEM_RNG)
    coins = SYSTEM_RNG.words((n - 1, n, batch, dim), np.uint64)
    receivers = np.arange(batch)
    neighbours = (receivers + np.arange(n)[:, np.newaxis]) % (n + 2) + batch  # groups overlap
    groups = Groups(SESSION, 9, receivers, neighbours)

    batched, single = LocalNetwork(record=True), LocalNetwork(record=True)
    tape = TapeRng(np.moveaxis(coins, 2, 0).reshape(batch, -1), axis=1)
    totals = batch_sum(x, ring, rng=tape, channel=DirectChannel(batched), groups=groups)
    assert np.array_equal(totals, run_parties(x, ring, groups, coins, single))
    assert np.array_equal(totals, ring.sum(x, axis=0))

    for party in range(batch + n + 2):
        one, other = batched.view(party), single.view(party)
        assert by_sum(one) == by_sum(other)
        assert len(one) > 0
    assert batched.traffic == single.traffic
    assert {d.round for party in range(batch) for d in batched.view(party)} == {1}
    assert {d.round for party in range(batch, batch + n + 2) for d in batched.view(party)} == {0}
