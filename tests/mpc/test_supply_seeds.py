"""Supplies from seeds: the dealer's items at parties elsewhere, and what is refused."""

import copy
import pickle
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mpc.core.errors import ParameterError, PeerError, StateError, WireError
from mpc.core.prg import Prg
from mpc.core.ring import Ring
from mpc.supply import Item, MatrixProduct, Product, Shares, Square, Truncation, deal
from mpc.supply_seeds import Correction, SeedDealer, SeedSupply, SupplyGrant, stream
from tests.mpc.party_runs import SESSION, seed_supplies
from tests.support.faults import flips, truncations

RING = Ring(24)
ITEMS: list[Item] = [
    Product((3,)),
    Product((3,)),
    Truncation((2, 2), 5),
    Square(()),
    MatrixProduct((2, 3), (3,)),
    Product((70_000,)),
]


def components(shares: Shares) -> list[bytes]:
    return [rows.tobytes() for rows in (*shares.free, *shares.bound)]


@pytest.mark.parametrize("n", [2, 3, 5])
def test_parties_elsewhere_hold_byte_for_byte_what_is_dealt(n: int) -> None:
    """One implementation: dealer, parties and ``deal`` on the same streams agree."""
    grants = [SeedDealer(n, RING, SESSION, rng=Prg(bytes(32))).grant(p) for p in range(n)]
    whole = SeedDealer(n, RING, SESSION, rng=Prg(bytes(32)))
    supplies = seed_supplies(n, RING, ITEMS, Prg(bytes(32)))
    for number, item in enumerate(ITEMS):
        rngs = [stream(g.seed, SESSION, number, item, RING) for g in grants]
        expected, together = deal(item, n, RING, rngs), whole.take(item)
        assert components(together) == components(expected)
        for party, supply in enumerate(supplies):
            assert components(supply.take(item)) == components(expected.of(party))


def test_no_two_items_parties_sessions_or_rings_share_a_stream() -> None:
    seen = set()
    for seed in (bytes(32), b"s" * 32):
        for session in (SESSION, bytes(16)):
            for number in (0, 1, 256):
                for item in (Product((3,)), Square((3,)), Product((3, 1))):
                    for ring in (Ring(24), Ring(25)):
                        seen.add(stream(seed, session, number, item, ring).bytes(16))
    assert len(seen) == 2 * 2 * 3 * 3 * 2


def test_a_party_who_asks_for_another_item_gets_no_stream_twice() -> None:
    supply = SeedSupply(SeedDealer(2, RING, SESSION, rng=Prg(bytes(32))).grant(0))
    taken = [supply.take(item) for item in (Product((4,)), Product((4,)), Square((4,)))]
    drawn = [rows.tobytes() for shares in taken for rows in (*shares.free, *shares.bound)]
    assert len(set(drawn)) == len(drawn)


def test_the_last_party_waits_for_corrections_and_takes_them_in_order() -> None:
    dealer = SeedDealer(2, RING, SESSION)
    supply = SeedSupply(dealer.grant(1))
    with pytest.raises(StateError, match="correction of item 0 has not come"):
        supply.take(Product((1,)))
    corrections = [dealer.correct(Product((1,))) for _ in range(3)]
    with pytest.raises(PeerError, match="not that of item 0") as caught:
        supply.receive(corrections[1])
    assert caught.value.party == -1
    supply.receive(corrections[0])
    for wrong in (corrections[0], corrections[2]):
        with pytest.raises(PeerError, match="not that of item 1"):
            supply.receive(wrong)
    supply.receive(corrections[1])
    supply.take(Product((1,)))
    supply.receive(corrections[2])
    supply.take(Product((1,)))
    supply.take(Product((1,)))
    with pytest.raises(StateError, match="correction of item 3"):
        supply.take(Product((1,)))


def test_another_session_another_item_and_another_size_are_refused_and_use_nothing_up() -> None:
    dealer, other = SeedDealer(2, RING, SESSION), SeedDealer(2, RING, bytes(16))
    supply = SeedSupply(dealer.grant(1))
    with pytest.raises(PeerError, match="of this session"):
        supply.receive(other.correct(Product((1,))))
    good = dealer.correct(Product((2,)))
    supply.receive(good)
    with pytest.raises(StateError, match="item 0 is another one"):
        supply.take(Product((3,)))
    assert supply.take(Product((2,))).bound[0].shape == (1, 2)
    for payload in (b"", good.payload[:-1], good.payload + b"\0", b"\xff" * 8):
        supply = SeedSupply(dealer.grant(1))
        supply.receive(Correction(SESSION, 0, good.name, payload))
        with pytest.raises(PeerError):
            supply.take(Product((2,)))


def test_only_the_last_party_takes_corrections() -> None:
    dealer = SeedDealer(3, RING, SESSION)
    correction = dealer.correct(Product((1,)))
    for party in (0, 1):
        with pytest.raises(StateError, match="only the last party"):
            SeedSupply(dealer.grant(party)).receive(correction)


@pytest.mark.parametrize("party", [-1, 3, True, 1.0])
def test_a_grant_is_for_a_party_of_the_dealing(party: Any) -> None:
    with pytest.raises(ParameterError, match="party"):
        SeedDealer(3, RING, SESSION).grant(party)


BAD_GRANTS: list[dict[str, Any]] = [
    {"session": bytes(15)},
    {"party": 3},
    {"n": 1},
    {"bits": 0},
    {"bits": 65},
    {"seed": bytes(31)},
]


@pytest.mark.parametrize("change", BAD_GRANTS)
def test_a_grant_with_sizes_out_of_range_is_refused(change: dict[str, Any]) -> None:
    fields: dict[str, Any] = {"session": SESSION, "party": 2, "n": 3, "bits": 8, "seed": bytes(32)}
    SupplyGrant(**fields)
    with pytest.raises(ParameterError):
        SupplyGrant(**{**fields, **change})


def test_messages_come_back_from_their_bytes_and_damage_is_refused_or_another_message() -> None:
    dealer = SeedDealer(3, RING, SESSION)
    for message in (dealer.grant(2), dealer.correct(Product((2,)))):
        data, kind = message.to_bytes(), type(message)
        assert kind.from_bytes(data) == message
        for bad in truncations(data):
            with pytest.raises(WireError):
                kind.from_bytes(bad)
        for bad in flips(data):
            try:
                assert kind.from_bytes(bad) != message
            except WireError:
                continue


@given(data=st.binary(max_size=120))
def test_arbitrary_bytes_are_no_messages(data: bytes) -> None:
    for kind in (SupplyGrant, Correction):
        with pytest.raises(WireError):
            kind.from_bytes(data)


def test_seeds_are_neither_shown_nor_copied() -> None:
    dealer = SeedDealer(2, RING, SESSION, rng=Prg(bytes(32)))
    supply = SeedSupply(dealer.grant(0))
    assert dealer.grant(0).seed.hex() not in repr(dealer.grant(0))
    for holder in (dealer, supply):
        with pytest.raises(TypeError, match="pickl"):
            pickle.dumps(holder)
        with pytest.raises(TypeError, match="pickl"):
            copy.copy(holder)


def test_corrections_are_all_that_the_dealer_sends_after_the_grants() -> None:
    dealer = SeedDealer(3, RING, SESSION)
    for item, elements in ((Product((5,)), 5), (Truncation((5,), 2), 10), (Square((0,)), 0)):
        assert len(dealer.correct(item).payload) == 4 * elements
    assert all(len(dealer.grant(party).to_bytes()) < 100 for party in range(3))
