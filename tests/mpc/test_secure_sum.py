"""The batched secure sum: exact sums, traffic by formula, refusals."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mpc.core.errors import ParameterError
from mpc.core.local import LocalNetwork
from mpc.core.ring import Ring, RingArray
from mpc.core.rng import SYSTEM_RNG
from mpc.fixed import FixedPoint
from mpc.secure_sum import DirectChannel, Groups, HandOver, batch_sum
from tests.support.strategies import party_counts, ring_arrays, rings

SESSION = bytes(range(16))


def random_groups(n: int, batch: int, users: int = 5000) -> Groups:
    """Distinct receivers, each with n distinct neighbours; ids of one to two bytes."""
    receivers = np.arange(batch)
    rows = np.arange(1, n + 1)[:, np.newaxis]
    return Groups(SESSION, 3, receivers, (receivers + 17 * rows) % users + batch)


@given(st.data(), rings(), party_counts(3, 8), st.integers(0, 4), st.integers(1, 4))
def test_sums_are_exact_for_all_sizes(
    data: st.DataObject, ring: Ring, n: int, batch: int, dim: int
) -> None:
    x = data.draw(ring_arrays(ring, (n, batch, dim)))
    given_x = x.copy()
    total = batch_sum(x, ring)
    assert total.dtype == ring.dtype
    assert np.array_equal(total, ring.sum(x, axis=0))
    assert np.array_equal(x, given_x)  # the input is left alone


@pytest.mark.parametrize(("n", "batch", "dim"), [(30, 500, 7), (10, 300, 90), (3, 2, 30_000)])
@pytest.mark.parametrize("bits", [31, 32, 64])
def test_sums_are_exact_across_cache_blocks(n: int, batch: int, dim: int, bits: int) -> None:
    ring = Ring(bits)
    x = ring.random((n, batch, dim), SYSTEM_RNG)
    assert np.array_equal(batch_sum(x, ring), ring.sum(x, axis=0))
    strided = np.repeat(x, 2, axis=1)[:, ::2]
    assert np.array_equal(batch_sum(strided, ring), ring.sum(x, axis=0))


def test_weighted_models_come_out_within_half_a_step_each() -> None:
    """Line 2 before, line 11 after: weights are public and multiplied before the encoding."""
    fixed = FixedPoint(Ring(32), 16)
    models = np.sin(np.arange(30 * 20 * 7)).reshape(30, 20, 7)
    weights = 0.5 / np.arange(1, 31)
    weighted = weights[:, np.newaxis, np.newaxis] * models
    mixed = fixed.decode(batch_sum(fixed.encode(weighted), fixed.ring))
    assert np.abs(mixed - weighted.sum(axis=0)).max() <= 30 * fixed.resolution / 2


class Altered(HandOver):
    """A link that adds one to a single element of a single share, or of a single partial sum."""

    def __init__(self, where: str) -> None:
        self._where = where

    def shares(self, columns: slice, offset: int, shares: RingArray) -> RingArray:
        changed = shares.copy()
        if self._where == "share" and offset == 2:
            changed[1, 4, 2:3] += np.uint8(1)
        return changed

    def partials(self, partials: RingArray) -> RingArray:
        changed = partials.copy()
        if self._where == "partial":
            changed[1, 4, 2:3] += np.uint8(1)
        return changed


@pytest.mark.parametrize(("where", "change"), [("nowhere", 0), ("share", 1), ("partial", 1)])
def test_one_altered_message_changes_the_result(where: str, change: int) -> None:
    ring = Ring(8)
    x = ring.random((4, 6, 3), SYSTEM_RNG)
    difference = ring.sub(batch_sum(x, ring, channel=Altered(where)), ring.sum(x, axis=0))
    assert difference[4, 2] == change
    assert difference.sum() == change


def share_bytes(dim: int, element: int) -> int:
    """Version, array of 5, tag of 12, session of 16, route of 16, bits, payload below 256."""
    return 1 + 1 + (1 + 12) + (2 + 16) + (2 + 16) + 1 + 2 + dim * element


def partial_bytes(dim: int, element: int) -> int:
    """The same with a tag of 10 letters."""
    return share_bytes(dim, element) - 2


@given(party_counts(3, 12), st.integers(0, 9), st.integers(1, 31), st.sampled_from([8, 31, 64]))
def test_traffic_equals_the_formula(n: int, batch: int, dim: int, bits: int) -> None:
    ring = Ring(bits)
    network = LocalNetwork()
    batch_sum(np.zeros((n, batch, dim), ring.dtype), ring, channel=DirectChannel(network))
    shares, partials = network.traffic["secure_sum.share"], network.traffic["secure_sum.partial"]
    assert shares.messages == batch * n * (n - 1)
    assert shares.bytes == shares.messages * share_bytes(dim, ring.element_bytes())
    assert partials.messages == batch * n
    assert partials.bytes == partials.messages * partial_bytes(dim, ring.element_bytes())
    assert network.round == 2
    assert (network.messages, network.bytes) == (
        shares.messages + partials.messages,
        shares.bytes + partials.bytes,
    )


def test_counted_traffic_is_what_real_messages_weigh() -> None:
    """Whatever the ids, and whether messages are sent or only counted."""
    ring = Ring(32)
    x = ring.random((4, 5, 70), SYSTEM_RNG)  # 280 bytes of payload: a longer length field
    traffic = []
    for record in (False, True):
        for groups in (None, random_groups(4, 5)):
            network = LocalNetwork(record=record)
            total = batch_sum(x, ring, channel=DirectChannel(network), groups=groups)
            assert np.array_equal(total, ring.sum(x, axis=0))
            assert network.round == 2
            traffic.append(dict(network.traffic))
    assert all(one == traffic[0] for one in traffic)


def test_a_channel_serves_batch_after_batch() -> None:
    ring = Ring(16)
    network = LocalNetwork()
    channel = DirectChannel(network)
    for batch in (3, 1, 4):
        x = ring.random((3, batch, 2), SYSTEM_RNG)
        assert np.array_equal(batch_sum(x, ring, channel=channel), ring.sum(x, axis=0))
    assert network.traffic["secure_sum.partial"].messages == 3 * (3 + 1 + 4)
    assert network.round == 6


@pytest.mark.parametrize("n", [0, 1, 2])
def test_fewer_than_three_neighbours_are_refused(n: int) -> None:
    """N = 1 sends the model in the clear; with N = 2 the receiver and one neighbour read it."""
    with pytest.raises(ParameterError, match=f"at least 3 neighbours, got {n}"):
        batch_sum(np.zeros((n, 4, 2), np.uint8), Ring(8))
    with pytest.raises(ParameterError, match=f"at least 3 neighbours, got {n}"):
        Groups(SESSION, 0, np.arange(4), np.arange(4 * n).reshape(n, 4) + 4)


@pytest.mark.parametrize("shape", [(), (3,), (3, 2), (3, 2, 0), (3, 2, 1, 1)])
def test_a_wrong_shape_is_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(ParameterError, match="shape"):
        batch_sum(np.zeros(shape, np.uint8), Ring(8))


@pytest.mark.parametrize(
    "x",
    [
        np.zeros((3, 1, 1)),
        np.full((3, 1, 1), np.nan),
        np.zeros((3, 1, 1), np.int8),
        np.zeros((3, 1, 1), np.uint32),
        np.full((3, 1, 1), 8, np.uint8),
    ],
)
def test_what_is_no_ring_element_is_refused(x: Any) -> None:
    with pytest.raises(ParameterError):
        batch_sum(x, Ring(3))


def test_groups_must_fit_the_batch() -> None:
    with pytest.raises(ParameterError, match=r"groups must name \(3, 5\) neighbours"):
        batch_sum(np.zeros((3, 5, 1), np.uint8), Ring(8), groups=random_groups(3, 4))


GOOD: dict[str, Any] = {
    "session": SESSION,
    "round": 0,
    "receivers": np.array([7, 8]),
    "neighbours": np.array([[1, 2], [3, 1], [2, 3]]),
}
BAD: list[tuple[dict[str, Any], str]] = [
    ({"session": b"short"}, "session"),
    ({"session": "sixteen letters!"}, "session"),
    ({"round": -1}, "round"),
    ({"round": 2**32}, "round"),
    ({"round": True}, "round"),
    ({"receivers": np.array([7.0, 8.0])}, "receivers"),
    ({"receivers": np.array([[7, 8]])}, "receivers"),
    ({"receivers": np.array([7, 2**32])}, "receivers"),
    ({"receivers": np.array([7])}, "one column for each"),
    ({"receivers": np.array([7, 7])}, "receivers must be distinct"),
    ({"receivers": np.array([7, 1])}, "distinct parties"),
    ({"neighbours": np.array([1, 2, 3])}, "neighbours"),
    ({"neighbours": np.array([[1, 2], [3, 1], [-1, 3]])}, "neighbours"),
    ({"neighbours": np.array([[1, 2], [3, 1], [1, 3]])}, "distinct parties"),
]


@pytest.mark.parametrize(("change", "match"), BAD)
def test_groups_that_would_give_one_party_two_seats_are_refused(
    change: dict[str, Any], match: str
) -> None:
    assert Groups(**GOOD).neighbours.shape == (3, 2)
    with pytest.raises(ParameterError, match=match):
        Groups(**(GOOD | change))
