"""One party's run: the views of all together, and what is refused on the way."""

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mpc.additive import share
from mpc.beaver import matmul, multiply, square
from mpc.core.errors import AbortError, ParameterError, PeerError, StateError, WireError
from mpc.core.local import LocalNetwork
from mpc.core.prg import Prg
from mpc.core.ring import Ring, RingArray
from mpc.party_run import PartyRun
from mpc.programs import Open, Opening, Program, Seats, Tell, together
from mpc.supply import Item, MatrixProduct, Product, Square, Supply, Truncation
from mpc.supply_seeds import SeedDealer
from mpc.truncation import truncate
from tests.mpc.party_runs import SESSION, exchange, runs, seed_supplies
from tests.support.faults import flips, truncations

Rows = tuple[RingArray, RingArray]


def multiplied(x: Rows, supply: Supply, ring: Ring) -> Program[RingArray]:
    return multiply(x[0], x[1], supply, ring)


def squared(x: Rows, supply: Supply, ring: Ring) -> Program[RingArray]:
    return square(x[0], supply, ring)


def matrices(x: Rows, supply: Supply, ring: Ring) -> Program[RingArray]:
    left, right = x[0][:, np.newaxis, :], x[1][..., np.newaxis]
    return matmul(left, right, supply, ring)


def truncated(x: Rows, supply: Supply, ring: Ring) -> Program[RingArray]:
    product = yield from multiply(x[0], x[1], supply, ring)
    return (yield from truncate(product, 2, supply, ring))


CASES: list[tuple[Callable[..., Program[RingArray]], Callable[[int], list[Item]]]] = [
    (multiplied, lambda m: [Product((m,))]),
    (squared, lambda m: [Square((m,))]),
    (matrices, lambda m: [MatrixProduct((1, m), (m, 1))]),
    (truncated, lambda m: [Product((m,)), Truncation((m,), 2)]),
]


@pytest.mark.parametrize(("program", "items"), CASES)
@pytest.mark.parametrize(("n", "bits", "m"), [(2, 64, 3), (3, 20, 1), (5, 8, 7), (3, 64, 40_000)])
def test_parties_alone_see_byte_for_byte_what_all_together_send(
    program: Callable[..., Program[RingArray]],
    items: Callable[[int], list[Item]],
    n: int,
    bits: int,
    m: int,
) -> None:
    ring, seed, network = Ring(bits), bytes(32), LocalNetwork(record=True)
    x, y = (share(ring.random((m,), Prg(bytes([i]) * 32)), n, ring) for i in range(2))
    dealer = SeedDealer(n, ring, SESSION, rng=Prg(seed))
    whole = together(program((x, y), dealer, ring), n, network=network, session=SESSION)

    def own(party: int, supply: Supply) -> Program[RingArray]:
        rows = slice(party, party + 1)
        return program((x[rows], y[rows]), supply, ring)

    parties = runs(own, seed_supplies(n, ring, items(m), Prg(seed)))
    views = exchange(parties)
    for party, (run, view) in enumerate(zip(parties, views, strict=True)):
        assert [delivery.data for delivery in network.view(party)] == view
        assert np.array_equal(run.result, whole[party : party + 1])


# What follows runs a program of two steps for party 1 of 3, its peers played by the test.
RING = Ring(16)


def two_steps() -> Program[tuple[list[int], tuple[bytes, ...]]]:
    (opened,) = yield Open(RING, (np.array([[1, 2]], np.uint16),))
    told = yield Tell((1, 2, 3), (b"ab",))
    return opened.tolist(), told


def party_1() -> PartyRun[Any]:
    return PartyRun(two_steps(), Seats(3, 1), SESSION)


def sends_nothing(run: PartyRun[Any]) -> bool:
    return run.outgoing is None


def numbers(sender: int, *values: int) -> Opening:
    return Opening.make(SESSION, 0, sender, RING.to_bytes(np.array(values, np.uint16)))


def told(sender: int, payload: bytes) -> Opening:
    return Opening.make(SESSION, 1, sender, payload)


GOOD = [numbers(0, 10, 20), numbers(2, 65535, 5), told(0, b"x"), told(2, b"xyz")]
RESULT = ([10, 27], (b"x", b"ab", b"xyz"))


def test_a_run_from_its_first_message_to_its_result() -> None:
    run = party_1()
    assert run.outgoing == numbers(1, 1, 2)
    with pytest.raises(StateError, match=r"waits for \[0, 2\]"):
        _ = run.result
    run.receive(GOOD[0])
    run.receive(GOOD[1])
    assert run.outgoing == told(1, b"ab")
    run.receive(GOOD[2])
    run.receive(GOOD[3])
    assert run.is_done
    assert sends_nothing(run)
    assert run.result == RESULT
    with pytest.raises(StateError, match="has ended"):
        run.receive(GOOD[3])


@given(order=st.permutations(range(4)))
def test_any_order_of_steps_that_a_network_allows(order: list[int]) -> None:
    """A peer is one step ahead at most, and her own messages may overtake each other."""
    run = party_1()
    for index in order:
        run.receive(GOOD[index])
    assert run.result == RESULT


WRONG: list[tuple[Opening, str]] = [
    (Opening.make(bytes(16), 0, 0, bytes(4)), "another session"),
    (numbers(1, 1, 2), "nothing to send"),
    (numbers(3, 1, 2), "nothing to send"),
    (numbers(2**32 - 1, 1, 2), "nothing to send"),
    (Opening.make(SESSION, 2, 0, b"x"), "step 2 came in step 0"),
    (Opening.make(SESSION, 2**32 - 1, 0, b"x"), "came in step 0"),
    (numbers(0, 1), "2 bytes came where 4"),
    (numbers(0, 1, 2, 3), "6 bytes came where 4"),
    (Opening.make(SESSION, 0, 0, bytes(1 << 20)), "1048576 bytes came where 4"),
    (Opening.make(SESSION, 0, 0, b""), "0 bytes came where 4"),
]


@pytest.mark.parametrize(("message", "complaint"), WRONG)
def test_what_does_not_fit_is_refused_and_changes_nothing(message: Opening, complaint: str) -> None:
    run = party_1()
    with pytest.raises(PeerError, match=complaint) as caught:
        run.receive(message)
    assert caught.value.party == message.sender
    for good in GOOD:
        run.receive(good)
    assert run.result == RESULT


@pytest.mark.parametrize("index", [0, 2])
def test_a_repeat_is_refused_in_its_step_and_early(index: int) -> None:
    run = party_1()
    run.receive(GOOD[index])
    for again in (GOOD[index], Opening.make(SESSION, GOOD[index].step, 0, b"other")):
        with pytest.raises(PeerError, match="has sent step"):
            run.receive(again)
    for good in GOOD:
        if good is not GOOD[index]:
            run.receive(good)
    assert run.result == RESULT


def test_a_message_of_a_step_before_is_refused() -> None:
    run = party_1()
    for good in GOOD[:2]:
        run.receive(good)
    with pytest.raises(PeerError, match="step 0 came in step 1"):
        run.receive(GOOD[0])
    for good in GOOD[2:]:
        run.receive(good)
    assert run.result == RESULT


def test_early_messages_that_do_not_fit_are_dropped_when_their_step_begins() -> None:
    run = party_1()
    run.receive(told(0, b"too long"))
    run.receive(told(2, b""))
    run.receive(GOOD[0])
    with pytest.raises(PeerError, match="8 bytes came where 1") as caught:
        run.receive(GOOD[1])  # which is taken: the complaint is about another
    assert caught.value.party == 0
    assert run.outgoing == told(1, b"ab")
    run.receive(GOOD[2])
    run.receive(GOOD[3])
    assert run.result == RESULT


def test_elements_outside_the_ring_are_refused() -> None:
    ring = Ring(12)

    def program() -> Program[int]:
        (opened,) = yield Open(ring, (np.array([1], np.uint16),))
        return int(opened)

    run = PartyRun(program(), Seats(2, 0), SESSION)
    with pytest.raises(PeerError, match="outside"):
        run.receive(Opening.make(SESSION, 0, 1, (4096).to_bytes(2, "little")))
    run.receive(Opening.make(SESSION, 0, 1, (4095).to_bytes(2, "little")))
    assert run.result == 0


@given(data=st.binary(max_size=80))
def test_arbitrary_bytes_are_refused_or_leave_a_run_that_goes_on(data: bytes) -> None:
    run = party_1()
    with suppress(WireError, PeerError):
        run.receive(Opening.from_bytes(data))
    for good in GOOD:
        run.receive(good)
    assert run.result == RESULT


def test_damaged_messages_are_refused_or_are_other_numbers() -> None:
    data = GOOD[0].to_bytes()
    for bad in [*truncations(data), *flips(data), data + b"\0"]:
        run = party_1()
        try:
            run.receive(Opening.from_bytes(bad))
        except (WireError, PeerError):
            continue
        for good in GOOD[1:]:
            with suppress(PeerError):  # its sender or its step was flipped to that of another
                run.receive(good)
        assert not run.is_done or run.result != RESULT


def test_an_error_of_the_program_ends_the_run() -> None:
    def program() -> Program[None]:
        yield Open(RING, (np.zeros((1, 1), np.uint16),))
        raise AbortError("a check has failed")

    run = PartyRun(program(), Seats(2, 0), SESSION)
    with pytest.raises(AbortError, match="a check has failed"):
        run.receive(Opening.make(SESSION, 0, 1, bytes(2)))
    assert run.outgoing is None
    assert not run.is_done
    with pytest.raises(StateError, match="was aborted"):
        _ = run.result
    with pytest.raises(StateError, match="has ended"):
        run.receive(Opening.make(SESSION, 1, 1, bytes(2)))


def test_a_run_can_be_aborted_in_the_middle_and_drops_its_program() -> None:
    closed = []

    def program() -> Program[None]:
        try:
            yield Open(RING, (np.zeros((1, 1), np.uint16),))
        finally:
            closed.append(True)

    run = PartyRun(program(), Seats(2, 0), SESSION)
    run.receive(Opening.make(SESSION, 1, 1, b"early"))
    run.abort()
    assert closed
    assert run.outgoing is None
    with pytest.raises(StateError, match="was aborted"):
        _ = run.result
    with pytest.raises(StateError, match="has ended"):
        run.receive(Opening.make(SESSION, 0, 1, bytes(2)))
    run.abort()


def test_aborting_after_the_end_keeps_the_result() -> None:
    run = party_1()
    for good in GOOD:
        run.receive(good)
    run.abort()
    assert run.result == RESULT


def test_a_program_without_a_step_is_done_at_once() -> None:
    def program(steps: int) -> Program[str]:
        for _ in range(steps):
            yield Tell((0, 0), (b"",))
        return "done"

    assert PartyRun(program(0), Seats(2, 1), SESSION).result == "done"


@pytest.mark.parametrize("session", [b"", bytes(15), bytes(17), "0123456789abcdef"])
def test_a_session_of_another_size_is_refused(session: bytes) -> None:
    with pytest.raises(ParameterError, match="session must be 16 bytes"):
        PartyRun(two_steps(), Seats(3, 1), session)


def test_a_run_for_all_parties_is_refused() -> None:
    with pytest.raises(ParameterError, match="for a single party"):
        PartyRun(two_steps(), Seats(3), SESSION)


def test_a_message_with_another_header_is_refused() -> None:
    with pytest.raises(ParameterError, match="route 8"):
        Opening(SESSION, bytes(7), b"")
    with pytest.raises(ParameterError, match="session has 16"):
        Opening(bytes(15), bytes(8), b"")


def test_payloads_and_shares_stay_out_of_texts() -> None:
    step = Open(RING, (np.full((1, 2), 4242, np.uint16),))
    assert "4242" not in repr(step)
    assert "secret" not in repr(Tell((6,), (b"secret",)))
    assert "secret" not in repr(told(0, b"secret"))
