"""Exact laws of what coalitions see in a computation with MACs, and the twins that they catch.

A law is compared for each coalition over all keys and inputs that its own shares, its inputs and
its output do not tell apart: so what is sent tells of no other input, and of no other key share.
"""

from collections import defaultdict
from collections.abc import Callable, Sequence
from itertools import combinations, product
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from mpc.core.ring import Ring, RingArray
from mpc.programs import Program
from mpc.spdz2k import Authenticated, MacSession, Sizes
from mpc.spdz2k_supply import LocalMacDealer, Masks
from mpc.supply import Dims
from tests.mpc.affine_laws import AffineLaw, BatchRng, affine_laws
from tests.mpc.mac_runs import columns, watched
from tests.support.enumerate import law, tapes

Inputs = dict[int, RingArray]


@given(st.data())
def test_the_affine_method_agrees_with_enumeration(data: st.DataObject) -> None:
    entries = st.lists(st.integers(0, 3), min_size=3, max_size=3)
    row: st.SearchStrategy[Any] = entries.map(lambda each: np.array(each, np.uint64))
    rows: st.SearchStrategy[Any] = st.lists(row, min_size=3, max_size=3).map(np.stack)
    matrix, offset = data.draw(rows), data.draw(row)
    other, place = matrix[data.draw(st.permutations(range(3)))], offset + data.draw(row) @ matrix
    if data.draw(st.booleans()):  # or not another form of the same law
        other, place = data.draw(rows), data.draw(row)

    def kernel(t: NDArray[np.uint64]) -> dict[int, NDArray[np.uint64]]:
        return {0: (t @ matrix + offset) % 4, 1: (t @ other + place) % 4}

    found, views = affine_laws(kernel, 3, Ring(2)), kernel(tapes([4] * 3))
    assert (found[0] == found[1]) == (law(views[0]) == law(views[1]))


def test_the_affine_method_refuses_what_is_not_affine() -> None:
    with pytest.raises(ValueError, match="not affine"):
        affine_laws(lambda t: {0: t * t[:, :1] % (1 << 32)}, 3, Ring(32))


def opening(session: MacSession, x: Inputs, shape: Dims) -> Program[None]:
    """x0 + x1 to all three parties."""
    a = yield from session.input(x, shape, 0)
    b = yield from session.input(x, shape, 1)
    yield from session.open(session.add(a, b))
    yield from session.check()


def opening_to_one(session: MacSession, x: Inputs, shape: Dims) -> Program[None]:
    """x0 + x1 to party 2."""
    total = yield from session.input_sum(x, shape, (0, 1))
    yield from session.open_to(2, total)
    yield from session.check()


def summing(session: MacSession, x: Inputs, shape: Dims) -> Program[None]:
    """The sum of all parties but the last, to that one."""
    last = session.seats.n - 1
    yield from session.sum_to(last, x, shape, range(last))
    yield from session.check()


class Told(LocalMacDealer):
    """A dealer who remembers what it has dealt."""

    masks: list[Masks]
    shares: list[Authenticated]

    def shown(self, masks: Masks) -> RingArray | None:
        """What is told of an output's mask, as an element of the ring: its lower k bits, times 2^s,
        which makes it linear in the mask.
        """
        if masks.output is None:
            return None
        return self.sizes.ring.mul(masks.output, 1 << self.sizes.s)

    def take_masks(self, shape: Dims, owners: Sequence[int], party: int | None = None) -> Masks:
        masks = super().take_masks(shape, owners, party)
        total = Authenticated(masks.total.value.copy(), masks.total.mac.copy())
        inputs = {owner: mask.copy() for owner, mask in masks.inputs.items()}
        self.masks = [*getattr(self, "masks", []), Masks(total, inputs, masks.output)]
        return masks

    def take(self, item: Any) -> tuple[Authenticated, ...]:
        dealt = super().take(item)
        copies = [Authenticated(each.value.copy(), each.mac.copy()) for each in dealt]
        self.shares = [*getattr(self, "shares", []), *copies]
        return dealt


def view(
    dealer: Told, steps: list[tuple[Any, ...]], coalition: Sequence[int], party: int | None
) -> NDArray[np.uint64]:
    """What a coalition holds and sees, but for what is hashed: (B, columns).

    party: to whom the output goes.
    """
    sizes = dealer.sizes
    size = sizes.ring.element_bytes()
    parts: list[NDArray[Any]] = []
    for masks in getattr(dealer, "masks", []):
        parts += [mask for owner, mask in masks.inputs.items() if owner in coalition]
        told = dealer.shown(masks)
        if told is not None and party in coalition:
            parts.append(told)
    for shared in [m.total for m in getattr(dealer, "masks", [])] + getattr(dealer, "shares", []):
        parts += [rows[member] for rows in (shared.value, shared.mac) for member in coalition]
    *running, _, _, _, residues = steps
    for step in running:
        for sent in step:
            if isinstance(sent, bytes):
                count = len(sent) // size
                parts.append(sizes.ring.from_bytes(sent, (count,)).reshape(-1, 1))
            else:
                parts += list(sent)
    batch = dealer.batch[0]
    for sealed in residues:
        rows = np.frombuffer(sealed, np.uint8).reshape(batch, -1)[:, :size]
        parts.append(sizes.ring.from_bytes(rows.tobytes(), (batch,)))
    return columns(*(part for part in parts if part.size))


Make = Callable[[MacSession, Inputs, Dims], Program[None]]


def telling(
    make: Make,
    n: int,
    sizes: Sizes,
    draws: int,
    inputs: Sequence[tuple[int, ...]],
    *,
    to: int | None,
    dealer: type[Told] = Told,
    split: int | None = None,
) -> set[tuple[int, ...]]:
    """Coalitions whose views tell more than their shares, inputs and outputs.

    inputs: of the parties from 0 on.  to: who gets the sum; everybody by default.  split: the draw
    of the tape that is an output's mask, of which a party is told the lower k bits.
    """
    ring, k = sizes.ring, sizes.k
    coalitions = [c for size in range(1, n) for c in combinations(range(n), size)]
    laws: dict[Any, list[AffineLaw]] = defaultdict(list)
    for alpha, x in product(product((0, 1), repeat=n), inputs):

        def kernel(tape: NDArray[np.uint64], alpha: Any = alpha, x: Any = x) -> Any:
            batch = len(tape)
            drawn = [np.full((batch, 1), share, np.uint64) for share in alpha]
            if split is None:
                drawn.append(tape)
            else:
                mask = tape[:, split : split + 1]
                halves = [mask & np.uint64((1 << k) - 1), mask >> np.uint64(k)]
                drawn += [tape[:, :split], *halves, tape[:, split + 1 :]]
            supply = dealer(n, sizes, batch=(batch,), rng=BatchRng(np.hstack(drawn)))
            values = {p: np.full((batch, 1), v).astype(sizes.data.dtype) for p, v in enumerate(x)}
            _, steps = watched(make(MacSession(supply), values, (batch, 1)), ring)
            return {coalition: view(supply, steps, coalition, to) for coalition in coalitions}

        output = sum(x) % (1 << k)
        for coalition, found in affine_laws(kernel, draws, ring).items():
            own = tuple((p, alpha[p], x[p] if p < len(x) else None) for p in coalition)
            known = output if to is None or to in coalition else None
            laws[own, known].append(found)
    assert max(map(len, laws.values())) > 1
    return {
        tuple(p for p, _, _ in own)
        for (own, _), found in laws.items()
        if any(one != found[0] for one in found)
    }


PAIRS = list(product(range(2), repeat=2))
LARGE = [(5, 2**32 - 1), (2**31, 2**31 + 4), (4, 0), (7, 2**32 - 3), (1, 2)]
TRIPLES = list(product(range(2), repeat=3))
# Draws of the dealer for three parties. An input's mask: three for its owner, two for the other
# one, none for the last. A random element: a share and a MAC's, for the last one only the share.
OPENING, OPENING_TO_ONE = 5 + 5 + 5, 6 + 1 + 4


@pytest.fixture
def public_coins(monkeypatch: pytest.MonkeyPatch) -> None:
    """Coins that do not depend on the tape: a law is that of the view for given coins."""

    def coins(count: int, sizes: Sizes, seeds: Sequence[bytes]) -> RingArray:
        row = np.arange(3, 3 + count) % (1 << sizes.s)
        return sizes.ring.reduce(np.tile(row, (len(seeds), 1)))

    monkeypatch.setattr("mpc.spdz2k.coins", coins)


@pytest.mark.usefixtures("public_coins")
@pytest.mark.parametrize(
    ("sizes", "inputs"), [(Sizes(1, 2), PAIRS), (Sizes(32, 32), LARGE)], ids=["1,2", "32,32"]
)
def test_no_coalition_learns_more_from_an_opening(
    sizes: Sizes, inputs: list[tuple[int, ...]]
) -> None:
    assert telling(opening, 3, sizes, OPENING, inputs, to=None) == set()
    found = telling(opening_to_one, 3, sizes, OPENING_TO_ONE, inputs, to=2, split=6)
    assert found == set()


@pytest.mark.usefixtures("public_coins")
@pytest.mark.parametrize("s", [1, 2])
def test_no_coalition_learns_more_from_a_sum(s: int) -> None:
    # A mask of the output, then three for each neighbour.
    assert telling(summing, 4, Sizes(1, s), 1 + 9, TRIPLES, to=3, split=0) == set()


@pytest.mark.usefixtures("public_coins")
def test_a_coalition_is_told_by_the_upper_bits_unmasked(monkeypatch: pytest.MonkeyPatch) -> None:
    """The twin: everybody sees whether x0 + x1 has passed 2^k, and so that both are large."""
    monkeypatch.setattr(Sizes, "top", lambda sizes, x: sizes.ring.mul(x, 0))
    assert (2,) in telling(opening, 3, Sizes(1, 2), OPENING, PAIRS, to=None)


@pytest.mark.usefixtures("public_coins")
def test_a_coalition_is_told_by_the_whole_mask_of_its_output() -> None:
    """The twin: the receiver knows the upper bits of her mask too."""

    class Whole(Told):
        def shown(self, masks: Masks) -> RingArray | None:
            ring = self.sizes.ring
            inputs = ring.sum(list(masks.inputs.values()), axis=0)
            return ring.sub(ring.sum(masks.total.value, axis=0), inputs)

    found = telling(summing, 3, Sizes(1, 2), 1 + 6, PAIRS, to=2, split=0)
    assert found == set()
    found = telling(summing, 3, Sizes(1, 2), 1 + 6, PAIRS, to=2, split=0, dealer=Whole)
    assert found == {(2,)}


@pytest.mark.usefixtures("public_coins")
def test_a_coalition_is_told_by_a_mask_used_twice() -> None:
    class Twice(Told):
        def take_masks(self, shape: Dims, owners: Sequence[int], party: int | None = None) -> Masks:
            masks = self.masks[0] if hasattr(self, "masks") else super().take_masks(shape, (0,))
            inputs = {owners[0]: masks.inputs[0].copy()}
            total = Authenticated(masks.total.value.copy(), masks.total.mac.copy())
            return Masks(total, inputs, None)

    # Both inputs have the same mask: their difference is seen by all.
    assert (2,) in telling(opening, 3, Sizes(1, 2), 5 + 5, PAIRS, to=None, dealer=Twice)


@pytest.mark.usefixtures("public_coins")
def test_a_coalition_is_told_the_key_by_bare_macs() -> None:
    """The twin: the shares of MACs are zero but for the last party's, who holds the MAC itself."""

    class Bare(Told):
        def _shared(self, rows: RingArray, secret: RingArray) -> Authenticated:
            rows[:-1, 1] = 0
            return super()._shared(rows, secret)

    found = telling(summing, 3, Sizes(1, 2), 1 + 6, PAIRS, to=2, split=0, dealer=Bare)
    assert (2,) in found


@pytest.mark.usefixtures("public_coins")
def test_a_coalition_is_told_by_a_biased_mask() -> None:
    """The twin: the masks of inputs are even."""

    class Biased(Told):
        def take_masks(self, shape: Dims, owners: Sequence[int], party: int | None = None) -> Masks:
            masks = super().take_masks(shape, owners, party)
            for mask in masks.inputs.values():
                mask[...] = self.sizes.ring.mul(mask, 2)
            return masks

    assert (2,) in telling(opening, 3, Sizes(1, 2), OPENING, PAIRS, to=None, dealer=Biased)
