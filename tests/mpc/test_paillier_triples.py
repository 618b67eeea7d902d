"""Triples by Paillier: they are what they should be, for all together and for parties alone."""

import copy
from functools import cache
from typing import Any

import numpy as np
import pytest

from mpc.additive import reconstruct, share
from mpc.beaver import matmul, multiply
from mpc.core.errors import AbortError, ParameterError, PeerError, StateError
from mpc.core.local import LocalNetwork
from mpc.core.prg import Prg
from mpc.core.ring import Ring
from mpc.paillier.ciphertext import vector_bytes, vector_to_bytes
from mpc.paillier.encrypt import encryptor_for
from mpc.paillier.keys import PrivateKey, generate_small_for_tests
from mpc.paillier_triples import Plan, TripleSupply, triples
from mpc.party_run import PartyRun
from mpc.programs import KIND, Opening, Program, Seats, together, wire_bytes
from mpc.supply import Item, MatrixProduct, Product, Square, Truncation
from tests.mpc.paillier.stored_keys import private_key
from tests.mpc.party_runs import SESSION, exchange
from tests.mpc.test_supply import follows

ITEMS: list[Item] = [
    Product((3,)),
    Square((2, 2)),
    MatrixProduct((2, 3), (3, 2)),
    MatrixProduct((3,), (3,)),
    MatrixProduct((2, 1, 2), (2, 2)),
    Product(()),
    Product((0,)),
    MatrixProduct((2, 0), (0, 3)),
]


@cache
def keys(n: int) -> list[PrivateKey]:
    """A key of 1024 bits, and small ones of other sizes, so that slots differ by party."""
    return [private_key(1024), *(generate_small_for_tests(500 + 30 * i) for i in range(n - 1))]


def program(
    n: int, items: list[Item], ring: Ring, only: int | None = None, **options: Any
) -> Program[TripleSupply]:
    own = keys(n) if only is None else [keys(n)[only]]
    return triples(items, Seats(n, only), [key.public for key in keys(n)], own, ring, **options)


@pytest.mark.parametrize(("n", "bits"), [(2, 64), (3, 20), (4, 1)])
def test_triples_are_products_of_their_factors(n: int, bits: int) -> None:
    ring = Ring(bits)
    supply = together(program(n, ITEMS, ring), n)
    assert supply.seats == Seats(n)
    for item in ITEMS:
        assert follows(item, supply.take(item), ring)


def test_parties_alone_get_the_triples_and_send_what_is_counted() -> None:
    n, ring, items = 3, Ring(32), ITEMS[:4]
    runs = [
        PartyRun(program(n, items, ring, party), Seats(n, party), SESSION) for party in range(n)
    ]
    views = exchange(runs)
    network = LocalNetwork()
    together(program(n, items, ring), n, network=network)
    assert network.round == 2
    assert network.traffic[KIND].bytes == sum(len(data) for view in views for data in view)
    supplies = [run.result for run in runs]
    for item in items:
        taken = [supply.take(item) for supply in supplies]
        free = [np.concatenate(rows) for rows in zip(*(own.free for own in taken), strict=True)]
        (c,) = (np.concatenate(rows) for rows in zip(*(own.bound for own in taken), strict=True))
        (expected,) = item.follow([ring.sum(rows, axis=0) for rows in free], ring)
        assert np.array_equal(ring.sum(c, axis=0), expected)


def test_products_with_such_triples() -> None:
    n, ring = 3, Ring(64)
    supply = together(program(n, [Product((2,)), MatrixProduct((1, 2), (2, 1))], ring), n)
    x, y = np.array([3, 2**63 + 5], np.uint64), np.array([2**40, 7], np.uint64)
    rows = share(x, n, ring), share(y, n, ring)
    result = together(multiply(*rows, supply, ring), n)
    assert np.array_equal(reconstruct(result, ring), x * y)
    left, right = rows[0][:, np.newaxis, :], rows[1][..., np.newaxis]
    result = together(matmul(left, right, supply, ring), n)
    assert np.array_equal(reconstruct(result, ring), np.array([[x @ y]]))


def test_extreme_factors_do_not_leave_their_slots() -> None:
    """All shares of all factors are 2^l - 1, and so are the masks' bytes."""

    class Ones(Prg):
        def fill(self, out: Any) -> None:
            out[...] = np.iinfo(out.dtype).max

    ring, n = Ring(16), 2
    plan = Plan([MatrixProduct((1, 5), (5, 1))], n, ring, 40, [k.public for k in keys(2)])
    free = [(np.full((1, 1, 5), 65535, np.uint16)[0], np.full((5, 1), 65535, np.uint16))]
    asked = plan.read(plan.ask(0, free, rng=Prg(bytes(32))), 0, 5, 0)

    class Masks(Prg):
        """The masks are all ones; what re-randomises is random."""

        drawn = False

        def fill(self, out: Any) -> None:
            if self.drawn:
                super().fill(out)
            else:
                Masks.drawn = True
                Ones(bytes(32)).fill(out)

    answer, masks = plan.answer(asked, 0, 1, free, rng=Masks(bytes(32)))
    assert masks == [2**plan.mask_bits - 1]
    (value,) = plan.open(answer, 0, 1, keys(2)[0])
    assert value == 5 * 65535**2 + masks[0]
    assert value.bit_length() == plan.slot_bits


def test_slots_have_the_width_that_is_stated() -> None:
    publics = [key.public for key in keys(2)]
    for items, bits, sigma, width in (
        ([Product((1,))], 64, 40, 2 * 64 + 40 + 1),
        ([MatrixProduct((1, 5), (5, 1)), Square((2,))], 64, 41, 2 * 64 + 3 + 41 + 1),
        ([MatrixProduct((1, 4), (4, 1))], 8, 40, 2 * 8 + 2 + 40 + 1),
    ):
        plan = Plan(items, 2, Ring(bits), sigma, publics)
        assert plan.slot_bits == width
        assert plan.slots == [(1024 - 2) // width, (500 - 2) // width]


def test_bytes_are_those_of_the_formula() -> None:
    """A ciphertext for each element, and one for each ``slots`` products of each two parties."""
    n, ring, publics = 3, Ring(64), [private_key(1024).public] * 3
    plan = Plan([Product((20,)), Square((4,))], n, ring, 40, publics)
    network = LocalNetwork()
    own = [private_key(1024)] * n
    together(
        triples([Product((20,)), Square((4,))], Seats(n), publics, own, ring), n, network=network
    )
    asked = [24, 24, 20]  # nobody needs the last party's numbers for squares
    answers = [[20, 20], [24, 20], [24, 24]]  # of party p for the two others, in order
    assert [plan.request_count(p) for p in range(n)] == asked
    first = [vector_bytes(publics[0].bits, count) for count in asked]
    second = [
        sum(vector_bytes(publics[0].bits, -(-e // 6)) for e in entries) for entries in answers
    ]
    assert network.bytes == 2 * sum(map(wire_bytes, first + second))
    assert vector_bytes(publics[0].bits, 24) == 24 * 256 + 61


def test_a_triple_serves_once() -> None:
    supply = together(program(2, [Product((1,)), Product((1,))], Ring(8)), 2)
    supply.take(Product((1,)))
    with pytest.raises(StateError, match="of this kind and size is left"):
        supply.take(Product((2,)))
    supply.take(Product((1,)))
    with pytest.raises(StateError, match="of this kind and size is left"):
        supply.take(Product((1,)))
    with pytest.raises(TypeError, match="copied or pickled"):
        copy.copy(supply)


def test_what_is_no_product_needs_a_dealer() -> None:
    with pytest.raises(ParameterError, match="Truncation is no product of shares"):
        together(program(2, [Truncation((1,), 3)], Ring(8)), 2)


def test_keys_that_do_not_fit_are_refused() -> None:
    publics = [key.public for key in keys(2)]
    items, ring = [Product((1,))], Ring(8)
    for seats, own, given in (
        (Seats(2), keys(2)[::-1], publics),
        (Seats(2, 1), keys(2), publics),
        (Seats(2, 1), keys(2)[:1], publics),
        (Seats(3), keys(2), publics),
    ):
        with pytest.raises(ParameterError, match="key"):
            next(triples(items, seats, given, own, ring))
    small = [generate_small_for_tests(64)] * 2
    with pytest.raises(ParameterError, match="a slot takes 169 bits"):
        next(triples(items, Seats(2), [k.public for k in small], small, Ring(64)))


def test_a_short_sigma_is_for_keys_of_tests_alone() -> None:
    real, small = private_key(2048), private_key(1024)
    for own in ([real, real], [real, small]):
        with pytest.raises(ParameterError, match="sigma must lie in"):
            Plan([Product((1,))], 2, Ring(8), 39, [key.public for key in own])
    Plan([Product((1,))], 2, Ring(8), 1, [small.public] * 2)
    with pytest.raises(ParameterError, match="sigma must lie in"):
        Plan([Product((1,))], 2, Ring(8), 0, [small.public] * 2)


def party_0() -> PartyRun[TripleSupply]:
    return PartyRun(program(2, [Product((1,))], Ring(8), 0), Seats(2, 0), SESSION)


def encrypted(key: PrivateKey, number: int) -> bytes:
    return vector_to_bytes([encryptor_for(key.public).encrypt(number)])


def test_a_request_of_no_ciphertexts_is_refused() -> None:
    run = party_0()
    size = len(encrypted(keys(2)[1], 1))
    with pytest.raises(PeerError, match="Wire") as caught:
        run.receive(Opening.make(SESSION, 0, 1, bytes(size)))
    assert caught.value.party == 1
    with pytest.raises(StateError, match="was aborted"):
        _ = run.result


@pytest.mark.parametrize("number", [-1, 1 << 1020])
def test_a_response_that_has_not_the_form_of_one_is_refused(number: int) -> None:
    run, (mine, theirs) = party_0(), keys(2)
    run.receive(Opening.make(SESSION, 0, 1, encrypted(theirs, 1)))
    with pytest.raises(AbortError, match="party 1 has answered"):
        run.receive(Opening.make(SESSION, 1, 1, encrypted(mine, number)))
