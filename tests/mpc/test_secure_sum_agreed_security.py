"""Exact laws: a coalition's view of sums in one step depends on its inputs and outputs alone.

Streams are an ideal random function of the very key that the kernel derives, so that a stream that
serves twice is one random word. All outcomes form the batch axis of the kernel that runs.
"""

from collections import defaultdict
from collections.abc import Callable, Mapping
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from mpc.core.errors import ParameterError
from mpc.core.keys import derive
from mpc.core.prg import PrgFactory
from mpc.core.ring import Ring, RingArray
from mpc.core.rng import Rng
from mpc.secure_sum_agreed import mask
from mpc.secure_sum_messages import SumTerms
from tests.support.enumerate import joint, law, tapes

N = 3
BITS = 1
RING = Ring(BITS)
PAIRS = {(a, b): bytes([a, b]) * 16 for a in range(N) for b in range(a + 1, N)}

Kernel = Callable[[SumTerms, int, RingArray, Mapping[int, bytes], PrgFactory], RingArray]
Coalition = tuple[frozenset[int], bool]
"""Colluding neighbours, and whether the receiver of both sums is with them."""


class Streams:
    """A random function: (key) -> a column of all outcomes."""

    def __init__(self, values: NDArray[np.uint64]) -> None:
        self._values = values
        self._columns: dict[bytes, int] = {}

    def __call__(self, key: bytes, offset: int) -> Rng:
        return _Stream(self.column(key))

    def column(self, key: bytes) -> NDArray[np.uint64]:
        at = self._columns.setdefault(key, len(self._columns))
        if at >= self._values.shape[1]:
            raise ParameterError("the kernel draws more than the tapes hold")
        return self._values[:, at]


class _Stream(Rng):
    def __init__(self, column: NDArray[np.uint64]) -> None:
        self._column = column

    def fill(self, out: NDArray[Any]) -> None:
        out[...] = self._column[:, np.newaxis].astype(out.dtype)


def ours(
    terms: SumTerms, party: int, x: RingArray, keys: Mapping[int, bytes], prg: PrgFactory
) -> RingArray:
    return mask(terms, party, x, keys, b"", prg)


def keys_of(party: int) -> dict[int, bytes]:
    return {sum(pair) - party: key for pair, key in PAIRS.items() if party in pair}


class Seen:
    """What the kernel's parties draw, so that a coalition's own streams are in its view."""

    def __init__(self, streams: Streams) -> None:
        self._streams = streams
        self.drawn: list[NDArray[np.uint64]] = []

    def __call__(self, key: bytes, offset: int) -> Rng:
        self.drawn.append(self._streams.column(key))
        return self._streams(key, offset)


# With the receiver n-2 neighbours may collude; without her n-1 may.
COALITIONS: list[Coalition] = [
    (frozenset(), True),
    *((frozenset({party}), True) for party in range(N)),
    *((frozenset({a, b}), False) for a, b in PAIRS),
]

# Of one receiver in two rounds, and of two receivers in one.
SUMS = {
    "two rounds": [SumTerms(bytes(16), round, 9, (0, 1, 2), 1, RING) for round in range(2)],
    "two receivers": [SumTerms(bytes(16), 0, who, (0, 1, 2), 1, RING) for who in (8, 9)],
}


def telling(kernel: Kernel, sums: list[SumTerms]) -> set[Coalition]:
    """Coalitions whose view tells apart inputs that their own inputs and outputs do not."""
    values = tapes([2**BITS] * (len(PAIRS) * len(sums)))
    laws: dict[Coalition, dict[Any, list[dict[bytes, Fraction]]]] = {
        coalition: defaultdict(list) for coalition in COALITIONS
    }
    for inputs in product(range(2**BITS), repeat=N * len(sums)):
        streams = Streams(values)
        by_sum = [inputs[N * at : N * (at + 1)] for at in range(len(sums))]
        sent: list[list[RingArray]] = []
        own: list[list[NDArray[np.uint64]]] = [[] for _ in range(N)]
        for terms, of_sum in zip(sums, by_sum, strict=True):
            row = []
            for party in range(N):
                seen = Seen(streams)
                x = np.full((len(values), 1), of_sum[party], RING.dtype)
                row.append(kernel(terms, party, x, keys_of(party), seen))
                own[party] += seen.drawn
            assert (RING.sum(np.stack(row), axis=0) == sum(of_sum) % 2**BITS).all()
            sent.append(row)
        for (members, with_receiver), by_output in laws.items():
            outputs = [sum(of) % 2**BITS for of in by_sum] if with_receiver else []
            known = (*outputs, *(of[party] for of in by_sum for party in sorted(members)))
            nothing = np.zeros((len(values), 0), np.uint64)
            parts = [nothing, *(column for party in sorted(members) for column in own[party])]
            if with_receiver:
                parts += [masked for row in sent for masked in row]
            by_output[known].append(law(joint(*parts)))
    return {
        coalition
        for coalition, by_output in laws.items()
        if any(one != group[0] for group in by_output.values() for one in group)
    }


@pytest.mark.parametrize("sums", SUMS.values(), ids=SUMS)
def test_no_coalition_learns_more_than_its_outputs(sums: list[SumTerms]) -> None:
    assert telling(ours, sums) == set()


def plain(
    terms: SumTerms, party: int, x: RingArray, keys: Mapping[int, bytes], prg: PrgFactory
) -> RingArray:
    """A twin that masks nothing."""
    return x


def one_stream_for_all_sums(
    terms: SumTerms, party: int, x: RingArray, keys: Mapping[int, bytes], prg: PrgFactory
) -> RingArray:
    """A twin whose streams know nothing of round and receiver."""
    first = SumTerms(terms.session, 0, 9, terms.neighbours, terms.dim, terms.ring)
    return mask(first, party, x, keys, b"", prg)


def one_pair_has_no_stream(
    terms: SumTerms, party: int, x: RingArray, keys: Mapping[int, bytes], prg: PrgFactory
) -> RingArray:
    """A twin in which 0 and 1 do not mask against each other: 2 opens them with the receiver."""
    masked, stream = x.copy(), np.empty_like(x)
    for other in sorted(terms.others(party)):
        if {party, other} != {0, 1}:
            prg(derive(keys[other], "twin", terms.round, terms.receiver), 0).fill(stream)
            masked = RING.add(masked, stream) if party < other else RING.sub(masked, stream)
    return masked


@pytest.mark.parametrize("sums", SUMS.values(), ids=SUMS)
@pytest.mark.parametrize("twin", [plain, one_stream_for_all_sums, one_pair_has_no_stream])
def test_a_twin_with_a_fault_is_caught(twin: Kernel, sums: list[SumTerms]) -> None:
    caught = telling(twin, sums)
    assert any(with_receiver for _, with_receiver in caught)


def test_the_receiver_does_learn_the_sum() -> None:
    """The laws above are no artefact of a view that shows nothing."""
    terms, values = SUMS["two rounds"][0], tapes([2**BITS] * len(PAIRS))
    views = []
    for first in range(2):
        streams = Streams(values)
        sent = [
            ours(
                terms,
                party,
                np.full((len(values), 1), first * (party == 0), RING.dtype),
                keys_of(party),
                streams,
            )
            for party in range(N)
        ]
        views.append(set(law(joint(*sent))))
    assert views[0].isdisjoint(views[1])
