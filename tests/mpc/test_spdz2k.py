"""Sharing with MACs: results, sizes, kits of a dealer, refusals."""

import copy
import pickle
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mpc.core.errors import AbortError, ParameterError, PeerError, StateError, WireError
from mpc.core.local import LocalNetwork
from mpc.core.ring import Ring, RingArray
from mpc.core.rng import SYSTEM_RNG
from mpc.core.wide_ring import WideRing
from mpc.party_run import PartyRun
from mpc.programs import Open, Program, Tell, together
from mpc.spdz2k import Authenticated, MacSession, Sizes
from mpc.spdz2k_kits import KitDealer, KitSupply, MacKit
from mpc.spdz2k_supply import LocalMacDealer, Random
from mpc.supply import Dims, Product
from tests.mpc.mac_runs import exchange, flip

SESSION = bytes(range(16))
Inputs = dict[int, RingArray]


def everything(
    session: MacSession, x: Inputs, shape: Dims
) -> Program[tuple[RingArray, RingArray | None]]:
    """Every operation once, for three parties: (x0 + x1 - x2) 3 x1 + 5 to all, a sum to party 1."""
    ring, data = session.ring, session.sizes.data
    a = yield from session.input(x, shape, 0)
    b = yield from session.input(x, shape, 1)
    total = yield from session.input_sum(x, shape, (0, 1, 2))
    c = session.sub(session.add(a, b), session.sub(session.sub(total, a), b))
    product = yield from session.multiply(c, session.scale(b, ring.reduce(3)))
    shifted = session.add_public(product, ring.reduce(np.full(shape, 5)))
    opened = yield from session.open(shifted)
    first = yield from session.open_to(1, total)
    second = yield from session.sum_to(1, x, shape, (2, 0))
    yield from session.check()
    both = None if first is None or second is None else data.add(first, second)
    return opened, both


def expected(x: Inputs, data: Ring) -> tuple[RingArray, RingArray]:
    c = data.sub(data.add(x[0], x[1]), x[2])
    opened = data.add(data.mul(data.mul(c, x[1]), data.reduce(3)), data.reduce(5))
    twice = data.add(data.add(x[0], x[2]), data.add(x[0], x[2]))
    return opened, data.add(twice, x[1])


def inputs(sizes: Sizes, shape: Dims) -> Inputs:
    return {party: sizes.data.random(shape, SYSTEM_RNG) for party in range(3)}


def check_result(found: tuple[RingArray, RingArray | None], x: Inputs, sizes: Sizes) -> None:
    opened, both = expected(x, sizes.data)
    assert found[0].dtype == sizes.data.dtype
    assert np.array_equal(found[0], opened)
    assert found[1] is not None
    assert np.array_equal(found[1], both)


WIDTHS = [(1, 1), (8, 3), (32, 32), (33, 32), (32, 64), (64, 1), (64, 64)]


@pytest.mark.parametrize(("k", "s"), WIDTHS)
@pytest.mark.parametrize("batch", [(), (1,), (4,)])
def test_results_are_those_of_the_ring(k: int, s: int, batch: Dims) -> None:
    sizes, shape = Sizes(k, s), (*batch, 2, 3)
    x = inputs(sizes, shape)
    session = MacSession(LocalMacDealer(3, sizes, batch=batch))
    check_result(together(everything(session, x, shape), 3), x, sizes)


@given(st.integers(1, 64), st.integers(1, 64), st.lists(st.integers(0, 3), max_size=2))
def test_results_for_any_sizes_and_shape(k: int, s: int, dims: list[int]) -> None:
    sizes, shape = Sizes(k, s), tuple(dims)
    x = inputs(sizes, shape)
    session = MacSession(LocalMacDealer(3, sizes))
    check_result(together(everything(session, x, shape), 3), x, sizes)


def dealt(program: Callable[[MacSession], Program[Any]], sizes: Sizes, n: int = 3) -> list[MacKit]:
    """The kits for a program: what it asks for does not depend on the inputs."""
    dealer = KitDealer(n, sizes, SESSION)
    together(program(MacSession(dealer)), n)
    return list(dealer.kits())


@pytest.mark.parametrize(("k", "s"), [(8, 3), (32, 32), (64, 64)])
def test_parties_with_kits_get_the_same_results(k: int, s: int) -> None:
    sizes, shape = Sizes(k, s), (2, 2)
    zero = {party: np.zeros(shape, sizes.data.dtype) for party in range(3)}
    kits = dealt(lambda session: everything(session, zero, shape), sizes)
    x, runs = inputs(sizes, shape), []
    for seat, kit in enumerate(kits):
        supply = KitSupply(MacKit.from_bytes(kit.to_bytes()))
        program = everything(MacSession(supply), {seat: x[seat]}, shape)
        runs.append(PartyRun(program, supply.seats, SESSION))
    assert exchange(runs) == [None] * 3
    opened, _ = expected(x, sizes.data)
    for seat, run in enumerate(runs):
        assert np.array_equal(run.result[0], opened)
        assert (run.result[1] is None) == (seat != 1)
    check_result(runs[1].result, x, sizes)


def test_shares_of_kits_add_up_and_fit_their_macs() -> None:
    sizes = Sizes(16, 16)
    dealer = KitDealer(4, sizes, SESSION)
    masks = dealer.take_masks((3,), (0, 2), 3)
    product = dealer.take(Product((3,)))
    supplies = [KitSupply(kit) for kit in dealer.kits()]
    again = [supply.take_masks((3,), (0, 2), 3) for supply in supplies]
    products = [supply.take(Product((3,))) for supply in supplies]
    ring = sizes.ring
    alpha = ring.sum(np.concatenate([supply.alpha for supply in supplies]))
    for ours, theirs in zip(
        (masks.total, *product),
        ([each.total for each in again], *zip(*products, strict=True)),
        strict=True,
    ):
        value = np.concatenate([each.value for each in theirs])
        mac = np.concatenate([each.mac for each in theirs])
        assert np.array_equal(value, ours.value)
        assert np.array_equal(mac, ours.mac)
        assert np.array_equal(ring.sum(mac, axis=0), ring.mul(alpha, ring.sum(value, axis=0)))
    known = ring.add(again[0].inputs[0], again[2].inputs[2])
    total = ring.sum(masks.total.value, axis=0)
    assert again[3].output is not None
    assert np.array_equal(sizes.lower(ring.sub(total, known)), again[3].output)
    assert [len(each.inputs) for each in again] == [1, 0, 1, 0]
    assert all(each.output is None for each in again[:3])


def test_only_the_last_party_gets_more_than_a_seed() -> None:
    dealer = KitDealer(3, Sizes(32, 32), SESSION)
    dealer.take_masks((100,), (0, 1), 2)
    kits = dealer.kits()
    assert [len(kit.corrections) for kit in kits] == [0, 0, 2 * 100 * 8]
    assert len({kit.seed for kit in kits}) == 3


def test_a_kit_serves_its_items_in_their_order_once() -> None:
    dealer = KitDealer(2, Sizes(8, 8), SESSION)
    dealer.take(Random((2,)))
    dealer.take_masks((2,), (0,))
    kit = dealer.kits()[1]
    for item in (Product((2,)), Random((3,))):
        with pytest.raises(StateError, match="another one"):
            KitSupply(kit).take(item)
    with pytest.raises(StateError, match="another one"):
        KitSupply(kit).take_masks((2,), (0,))
    supply = KitSupply(kit)
    supply.take(Random((2,)))
    for owners, party in (((1,), None), ((0,), 0), ((), None)):
        with pytest.raises(StateError):
            supply.take_masks((2,), owners, party)
    supply.take_masks((2,), (0,))
    with pytest.raises(StateError):
        supply.take_masks((2,), (0,))


def test_what_holds_seeds_is_neither_copied_nor_shown() -> None:
    dealer = KitDealer(2, Sizes(8, 8), SESSION)
    masks = dealer.take_masks((1,), (0,), 1)
    kit = dealer.kits()[1]
    supply = KitSupply(kit)
    for holder in (dealer, supply):
        with pytest.raises(TypeError):
            pickle.dumps(holder)
        with pytest.raises(TypeError):
            copy.copy(holder)
    assert "[" not in repr(masks)
    assert "seed=<32 bytes>" in repr(kit)
    with pytest.raises(StateError):
        dealer.take(Random((1,)))
    with pytest.raises(StateError):
        dealer.take_masks((1,), (0,))


@given(st.binary(max_size=200))
def test_arbitrary_bytes_are_no_kit(data: bytes) -> None:
    with pytest.raises(WireError):
        MacKit.from_bytes(data)


@pytest.mark.parametrize(
    "change",
    [
        {"session": bytes(15)},
        {"seed": bytes(31)},
        {"n": 1},
        {"seat": 3},
        {"k": 65},
        {"s": 0},
        {"corrections": b"x"},
    ],
)
def test_kits_out_of_range_are_refused(change: dict[str, Any]) -> None:
    whole: dict[str, Any] = {"session": SESSION, "seat": 0, "n": 3, "k": 8, "s": 8}
    whole |= {"seed": bytes(32), "items": (b"name",), "corrections": b""}
    assert MacKit.from_bytes(MacKit(**whole).to_bytes()) == MacKit(**whole)
    with pytest.raises(ParameterError):
        MacKit(**{**whole, **change})


def test_sizes() -> None:
    assert Sizes(32, 32).ring == Ring(64)
    assert Sizes(32, 33).ring == WideRing(65)
    assert Sizes(64, 64).ring == WideRing(128)
    assert Sizes(7, 3).failure == Fraction(4, 8)
    assert Sizes(32, 32).failure == Fraction(33, 2**32)
    for k, s in ((0, 1), (1, 0), (65, 1), (1, 65), (True, 1), (1.0, 1)):
        with pytest.raises(ParameterError):
            Sizes(k, s)  # type: ignore[arg-type]


@pytest.mark.parametrize(("k", "s"), WIDTHS)
def test_data_go_up_and_down(k: int, s: int) -> None:
    sizes = Sizes(k, s)
    x = sizes.data.random((50,), SYSTEM_RNG)
    upper = sizes.top(sizes.ring.random((50,), SYSTEM_RNG))
    assert np.array_equal(sizes.lower(sizes.ring.add(sizes.lift(x), upper)), x)
    assert not sizes.lower(upper).any()


def start(k: int = 8, s: int = 8, n: int = 3) -> tuple[MacSession, Authenticated]:
    session = MacSession(LocalMacDealer(n, Sizes(k, s)))
    return session, session.supply.take_masks((2,), (0,)).total


def test_a_session_goes_on_after_a_check() -> None:
    """Each check takes what was opened since the last one, and four steps if there is any."""
    session, x = start()
    network = LocalNetwork()
    expected = session.sizes.lower(session.ring.sum(x.value, axis=0))

    def program() -> Program[None]:
        yield from session.check()
        assert network.round == 0
        for _ in range(3):
            assert np.array_equal((yield from session.open(x)), expected)
        yield from session.check()
        yield from session.check()

    together(program(), 3, network=network)
    assert network.round == 3 * (1 + 4)


def test_a_failed_check_ends_the_session() -> None:
    session, x = start()
    x.value[1] += np.uint16(1)

    def program() -> Program[None]:
        yield from session.open(x)
        yield from session.check()

    with pytest.raises(AbortError, match="a MAC does not fit:"):
        together(program(), 3)
    zero = {0: np.zeros(2, np.uint8)}
    for again in (session.open(x), session.check(), session.input(zero, (2,), 0)):
        with pytest.raises(StateError, match="aborted"):
            next(again)
    with pytest.raises(StateError, match="aborted"):
        next(session.multiply(x, x))


def test_a_check_that_is_broken_off_ends_the_session() -> None:
    session, x = start()
    together(session.open(x), 3)
    next(session.check())
    with pytest.raises(StateError, match="aborted"):
        next(session.open(x))


def test_a_batch_says_how_many_checks_failed() -> None:
    session = MacSession(LocalMacDealer(2, Sizes(32, 32), batch=(5,)))
    x = session.supply.take_masks((5, 2), (0,)).total
    x.value[1, [0, 3]] += np.uint64(1)

    def program() -> Program[None]:
        yield from session.open(x)
        yield from session.check()

    with pytest.raises(AbortError, match="in 2 of 5 computations"):
        together(program(), 2)


@pytest.mark.parametrize("x", [{}, {0: np.zeros(3, np.uint8)}, {1: np.zeros(2, np.uint8)}])
def test_a_missing_or_misshapen_input_is_refused(x: Inputs) -> None:
    session, _ = start()
    with pytest.raises(ParameterError, match="party 0 must bring"):
        next(session.input(x, (2,), 0))


def test_inputs_outside_the_data_are_refused() -> None:
    session, _ = start(k=7)
    with pytest.raises(ParameterError, match="outside"):
        next(session.input({0: np.array([128, 0], np.uint8)}, (2,), 0))


@pytest.mark.parametrize(
    ("owners", "party"), [((0, 0), None), ((3,), None), ((-1,), None), ((0,), 3)]
)
def test_unknown_or_repeated_owners_are_refused(owners: Dims, party: int | None) -> None:
    with pytest.raises(ParameterError, match="owners"):
        LocalMacDealer(3, Sizes(8, 8)).take_masks((1,), owners, party)


def test_a_stream_is_missing() -> None:
    with pytest.raises(ParameterError):
        LocalMacDealer(3, Sizes(8, 8), streams=[SYSTEM_RNG] * 2)


@pytest.mark.parametrize(("k", "s", "top"), [(20, 12, 31), (30, 10, 63), (64, 20, 127)])
def test_what_is_no_element_is_refused_with_its_sender(k: int, s: int, top: int) -> None:
    """In rings that do not fill their words, a bit above the ring has no meaning."""
    sizes = Sizes(k, s)
    bits = 8 * sizes.ring.element_bytes()
    if bits == k + s:  # every word is an element
        assert sizes.ring.from_bytes(flip(bytes(bits // 8), top), ()) != 0
        return
    session = MacSession(LocalMacDealer(3, sizes))
    program = session.input({2: np.zeros(2, sizes.data.dtype)}, (2,), 2)
    request = next(program)
    assert isinstance(request, Tell)
    told = list(request.payloads)
    told[2] = flip(told[2], top)
    with pytest.raises(PeerError, match="outside") as caught:
        program.send(tuple(told))
    assert caught.value.party == 2


def test_open_asks_for_shares_and_an_input_for_payloads() -> None:
    session, x = start()
    assert isinstance(next(session.open(x)), Open)
    request = next(session.input({1: np.zeros(2, np.uint8)}, (2,), 1))
    assert isinstance(request, Tell)
    assert request.sizes == (0, 4, 0)
