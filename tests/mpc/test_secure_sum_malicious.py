"""PriRec's sum with MACs: results, parties, traffic, and neighbours who alter what they forward."""

from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from mpc import secure_sum_malicious
from mpc.core.errors import AbortError, ParameterError, PeerError, StateError
from mpc.core.local import LocalNetwork
from mpc.core.ring import Ring, RingArray
from mpc.core.rng import SYSTEM_RNG, Rng
from mpc.party_run import PartyRun
from mpc.programs import together
from mpc.secure_sum import (
    DirectChannel,
    Groups,
    HandOver,
    MaliciousSum,
    PairKeys,
    SealedRelay,
    SumTerms,
    batch_sum,
)
from mpc.secure_sum_malicious import sum_program, take_sum
from mpc.spdz2k import MacSession, Sizes
from mpc.spdz2k_kits import KitDealer, KitSupply, MacKit
from mpc.spdz2k_supply import LocalMacDealer
from tests.mpc.affine_laws import BatchRng
from tests.mpc.mac_runs import Alter, corrupted, exchange, flip, honest, watched

SESSION = bytes(range(16))
NEIGHBOURS = (7, 3, 11)
RECEIVER = 5
DIM = 4
STEPS = 6  # inputs, the opening, and four of the check


def terms(ring: Ring, dim: int = DIM, round: int = 0) -> SumTerms:
    return SumTerms(SESSION, round, RECEIVER, NEIGHBOURS, dim, ring)


@pytest.mark.parametrize("s", [1, 20, 32, 64])
@pytest.mark.parametrize("bits", [1, 7, 16, 32, 64])
@pytest.mark.parametrize(("n", "batch", "dim"), [(3, 1, 1), (4, 5, 3), (10, 2, 40)])
def test_the_sum_is_right(bits: int, s: int, n: int, batch: int, dim: int) -> None:
    ring = Ring(bits)
    x = ring.random((n, batch, dim), SYSTEM_RNG)
    total = batch_sum(x, ring, security="malicious", s=s)
    assert total.dtype == ring.dtype
    assert np.array_equal(total, ring.sum(x, axis=0))
    assert np.array_equal(total, batch_sum(x, ring))


@given(st.integers(1, 64), st.integers(3, 6), st.integers(0, 5), st.integers(1, 5), st.data())
def test_the_sum_is_right_in_blocks(
    bits: int, n: int, batch: int, dim: int, data: st.DataObject
) -> None:
    ring = Ring(bits)
    x = ring.random((n, batch, dim), SYSTEM_RNG)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(secure_sum_malicious, "_PLANE_BYTES", data.draw(st.integers(1, 2000)))
        total = batch_sum(x, ring, security="malicious")
    assert np.array_equal(total, ring.sum(x, axis=0))


@pytest.mark.parametrize("shape", [(2, 1, 4), (3, 4), (3, 1, 0)])
def test_wrong_shapes_are_refused(shape: tuple[int, ...]) -> None:
    x = np.zeros(shape, np.uint8)
    with pytest.raises(ParameterError):
        batch_sum(x, Ring(8), security="malicious")
    with pytest.raises(ParameterError):
        secure_sum_malicious.batch_sum(x, Ring(8))


@pytest.mark.parametrize("s", [0, 65, 1.5, True])
def test_wrong_security_is_refused(s: Any) -> None:
    x = np.zeros((3, 1, 1), np.uint8)
    with pytest.raises(ParameterError):
        batch_sum(x, Ring(8), security="malicious", s=s)
    with pytest.raises(ParameterError):
        MaliciousSum(terms(Ring(8)), s=s)
    with pytest.raises(ParameterError, match="'semi-honest' or 'malicious'"):
        batch_sum(x, Ring(8), security="covert")


def test_channels_that_carry_shares_are_refused() -> None:
    x = np.zeros((3, 1, 1), np.uint8)
    groups = Groups(SESSION, 0, np.array([9]), np.array([[1], [2], [3]]))
    relay = SealedRelay(LocalNetwork(), PairKeys())
    recording = DirectChannel(LocalNetwork(record=True))
    for channel in (relay, recording):
        with pytest.raises(ParameterError, match="DirectChannel"):
            batch_sum(x, Ring(8), security="malicious", channel=channel, groups=groups)
    network = LocalNetwork()
    batch_sum(x, Ring(8), security="malicious", channel=HandOver(), groups=groups)
    batch_sum(x, Ring(8), security="malicious", channel=DirectChannel(network), groups=groups)
    assert network.messages == STEPS * 4 * 3


# The parties by themselves.


def parties(
    ring: Ring,
    x: NDArray[Any],
    s: int = 32,
    corrupt: dict[int, Callable[[int, bytes], bytes]] | None = None,
) -> list[PartyRun[RingArray | None]]:
    """The runs of all parties, in the order of their seats; ``corrupt`` lies by seat."""
    run = MaliciousSum(terms(ring, x.shape[1]), s)
    kits = {party: MacKit.from_bytes(kit.to_bytes()) for party, kit in run.deal().items()}
    runs = [run.neighbour(p, own, kits[p]) for p, own in zip(NEIGHBOURS, x, strict=True)]
    runs.append(run.receiver(kits[RECEIVER]))
    for seat, lie in (corrupt or {}).items():
        supply = KitSupply(kits[(*NEIGHBOURS, RECEIVER)[seat]])
        mine = {seat: x[seat]} if seat < len(x) else {}
        program = sum_program(MacSession(supply), mine, x.shape[1:])
        lying = corrupted(program, lie, run.sizes.ring)
        runs[seat] = PartyRun(lying, supply.seats, run.session)
    return runs


def summed(runs: list[PartyRun[RingArray | None]]) -> RingArray:
    """What the receiver holds in the end."""
    total = runs[-1].result
    assert total is not None
    return total


@pytest.mark.parametrize(("bits", "s"), [(1, 7), (32, 32), (32, 46), (64, 64)])
def test_parties_give_the_receiver_the_sum_and_nobody_else(bits: int, s: int) -> None:
    ring = Ring(bits)
    x = ring.random((3, DIM), SYSTEM_RNG)
    runs = parties(ring, x, s)
    assert exchange(runs) == [None] * 4
    assert [run.result for run in runs[:3]] == [None] * 3
    assert np.array_equal(summed(runs), ring.sum(x, axis=0))


def test_seats_follow_the_terms() -> None:
    run = MaliciousSum(terms(Ring(8)))
    assert [run.seat(party) for party in (*NEIGHBOURS, RECEIVER)] == [0, 1, 2, 3]
    with pytest.raises(ParameterError):
        run.seat(99)


def test_other_terms_have_another_session() -> None:
    base = MaliciousSum(terms(Ring(8)))
    others = [
        MaliciousSum(terms(Ring(8)), s=33),
        MaliciousSum(terms(Ring(9))),
        MaliciousSum(terms(Ring(8), round=1)),
        MaliciousSum(terms(Ring(8), dim=5)),
        MaliciousSum(SumTerms(SESSION, 0, RECEIVER, (3, 7, 11), DIM, Ring(8))),
        MaliciousSum(SumTerms(SESSION, 0, 6, NEIGHBOURS, DIM, Ring(8))),
        MaliciousSum(SumTerms(bytes(16), 0, RECEIVER, NEIGHBOURS, DIM, Ring(8))),
    ]
    assert len({base.session, *(other.session for other in others)}) == len(others) + 1
    kits = base.deal()
    for other in others[:4]:
        with pytest.raises(StateError, match="another sum"):
            other.receiver(kits[RECEIVER])


def test_wrong_kits_and_inputs_are_refused() -> None:
    run = MaliciousSum(terms(Ring(8)))
    kits, x = run.deal(), np.zeros(DIM, np.uint8)
    with pytest.raises(StateError, match="another party"):
        run.neighbour(3, x, kits[7])
    with pytest.raises(StateError, match="another party"):
        run.receiver(kits[7])
    for wrong in (np.zeros(DIM + 1, np.uint8), np.zeros(DIM, np.uint16)):
        with pytest.raises(ParameterError):
            run.neighbour(3, wrong, kits[3])
    with pytest.raises(ParameterError):
        run.neighbour(RECEIVER, x, kits[RECEIVER])


def test_a_message_of_another_sum_is_refused() -> None:
    ring = Ring(8)
    x = ring.random((3, DIM), SYSTEM_RNG)
    run = parties(ring, x)[0]
    other = MaliciousSum(terms(ring, round=1))
    kits = other.deal()
    message = other.neighbour(3, x[1], kits[3]).outgoing
    assert message is not None
    with pytest.raises(PeerError, match="another session"):
        run.receive(message)


@pytest.mark.parametrize(
    ("n", "batch", "dim", "bits", "s"), [(3, 2, 5, 32, 32), (5, 3, 40, 32, 64)]
)
def test_traffic_is_what_the_parties_send(n: int, batch: int, dim: int, bits: int, s: int) -> None:
    ring, network, single = Ring(bits), LocalNetwork(), LocalNetwork()
    x = ring.random((n, batch, dim), SYSTEM_RNG)
    batch_sum(x, ring, security="malicious", s=s, channel=DirectChannel(network))
    for column in range(batch):
        session = MacSession(LocalMacDealer(n + 1, Sizes(32, s)))
        mine = dict(enumerate(x[:, column]))
        together(sum_program(session, mine, (dim,)), n + 1, network=single)
    assert network.traffic == single.traffic
    assert network.round == STEPS
    assert single.round == STEPS * batch


class FlatRng(Rng):
    """Gives the entries of a tape in order."""

    def __init__(self, tape: NDArray[np.uint64]) -> None:
        self._tape = tape
        self._used = 0

    def fill(self, out: NDArray[Any]) -> None:
        part = self._tape[self._used : self._used + out.size]
        out[...] = part.reshape(out.shape).astype(out.dtype)
        self._used += out.size


def test_the_batch_sends_what_the_parties_send() -> None:
    """Byte for byte, on equal coins: a batch's messages are those of its parties one by one."""
    ring, n, batch, dim = Ring(16), 3, 5, 2
    sizes = Sizes(16, 16)
    x = ring.random((n, batch, dim), SYSTEM_RNG)
    *dealt, upper = (SYSTEM_RNG.words((batch, 20), np.uint64) for _ in range(n + 2))
    # For the check, in order: a seed of coins and two salts from each party, 32 bytes each.
    coins = SYSTEM_RNG.words((batch, 3, n + 1, 32), np.uint8).astype(np.uint64)

    supply = LocalMacDealer(
        n + 1,
        sizes,
        batch=(batch,),
        rng=BatchRng(upper),
        streams=[BatchRng(tape) for tape in dealt],
    )
    session = MacSession(supply, rng=BatchRng(coins.reshape(batch, -1)))
    total, steps = watched(sum_program(session, dict(enumerate(x)), (batch, dim)), sizes.ring)

    sent: list[list[list[bytes]]] = [[[] for _ in range(n + 1)] for _ in range(STEPS)]
    for column in range(batch):
        streams = iter([FlatRng(tape[column]) for tape in dealt])
        seeds = np.zeros(32 * (n + 1), np.uint64)  # drawn, and not used: streams stand for them
        rng = FlatRng(np.concatenate([seeds, upper[column]]))
        dealer = KitDealer(n + 1, sizes, SESSION, rng=rng, prg=lambda *_, s=streams: next(s))
        take_sum(dealer, (dim,))
        runs = []
        for seat, kit in enumerate(dealer.kits()):
            own = KitSupply(kit, prg=lambda *_, t=dealt[seat][column]: FlatRng(t))
            party = MacSession(own, rng=FlatRng(coins[column, :, seat].reshape(-1)))
            mine = {seat: x[seat, column]} if seat < n else {}
            runs.append(PartyRun(sum_program(party, mine, (dim,)), own.seats, SESSION))

        def keep(step: int, sender: int, receiver: int, payload: bytes) -> bytes:
            if receiver == (sender + 1) % (n + 1):
                sent[step][sender].append(payload)
            return payload

        assert exchange(runs, keep) == [None] * (n + 1)
        assert total is not None
        assert np.array_equal(summed(runs), total[column])
    assert len(steps) == STEPS
    for step, singles in zip(steps, sent, strict=True):
        whole = step if isinstance(step[0], bytes) else map(sizes.ring.to_bytes, step[0])
        assert list(whole) == [b"".join(payloads) for payloads in singles]


def test_the_dealer_deals_what_the_sum_takes() -> None:
    """Parties with kits send what the batch sends whose dealer has the kits' seeds."""
    ring = Ring(16)
    run = MaliciousSum(terms(ring), 16)
    dealer = KitDealer(4, run.sizes, run.session)
    take_sum(dealer, (DIM,))
    kits = dealer.kits()
    assert {len(kit.items) for kit in kits} == {1}
    x = ring.random((3, DIM), SYSTEM_RNG)
    runs = [run.neighbour(p, x[i], kits[i]) for i, p in enumerate(NEIGHBOURS)]
    runs.append(run.receiver(kits[3]))
    assert exchange(runs) == [None] * 4
    assert np.array_equal(summed(runs), ring.sum(x, axis=0))


# Parties who cheat.


def outcome(
    attacker: int,
    lie: Callable[[int, bytes], bytes] | None = None,
    alter: Alter = honest,
    s: int = 32,
    lies: list[RingArray] | None = None,
) -> list[BaseException | None]:
    """Errors of the honest parties; the receiver, if honest, has the right sum or an error.

    lies: what the attacker has added to her input; a choice of hers, no fault.
    """
    ring = Ring(32)
    x = ring.random((3, DIM), SYSTEM_RNG)
    runs = parties(ring, x, s, {} if lie is None else {attacker: lie})
    errors = exchange(runs, alter, attacker)
    if attacker < 3 and runs[3].is_done:
        expected = ring.sum(x, axis=0)
        for each in lies or []:
            expected = ring.add(expected, each)
        assert np.array_equal(summed(runs), expected)
    return [error for seat, error in enumerate(errors) if seat != attacker]


@pytest.mark.parametrize("s", [32, 64])
@pytest.mark.parametrize(("step", "attacker"), list(product(range(STEPS), range(4))))
def test_every_altered_message_is_caught_or_harmless(step: int, attacker: int, s: int) -> None:
    sizes = Sizes(32, s)
    for bit in (0, 15, 31, 32, 32 + s - 1):
        lies: list[RingArray] = []

        def lie(at: int, payload: bytes, bit: int = bit, lies: Any = lies) -> bytes:
            if at != step or not payload:
                return payload
            after = flip(payload, bit)
            if at == 0:
                ring = sizes.ring
                pair = (ring.from_bytes(each, (DIM,)) for each in (after, payload))
                lies.append(sizes.lower(ring.sub(*pair)))
            return after

        errors = outcome(attacker, lie, s=s, lies=lies)
        is_harmless = step == 0 or (step == 1 and bit >= 32)
        assert is_harmless or all(isinstance(error, AbortError) for error in errors)
        assert all(error is None or isinstance(error, AbortError) for error in errors)


@pytest.mark.parametrize(("step", "attacker"), list(product(range(STEPS), range(4))))
def test_who_tells_honest_parties_different_things_is_caught(step: int, attacker: int) -> None:
    victim = (attacker + 1) % 4

    def alter(at: int, sender: int, receiver: int, payload: bytes) -> bytes:
        is_lie = (at, sender, receiver) == (step, attacker, victim) and payload
        return flip(payload, 63) if is_lie else payload

    errors = outcome(attacker, alter=alter)
    if (step, attacker) == (0, 3):
        assert errors == [None] * 3  # the receiver has no input, and nothing to lie about
    else:
        assert any(isinstance(error, AbortError) for error in errors)
        assert step >= 2 or all(isinstance(error, AbortError) for error in errors)


def test_a_neighbour_who_knows_what_she_adds_is_caught_too() -> None:
    """She shifts the sum by one, and her share of the residue by what would be right for a key of
    zero, or for her own share of the key.
    """
    ring = Sizes(32, 32).ring

    def lie(step: int, payload: bytes) -> bytes:
        if step != 1:
            return payload
        shares = ring.from_bytes(payload, (DIM,))
        return ring.to_bytes(ring.add(shares, ring.reduce(np.arange(DIM) == 0)))

    assert all(isinstance(error, AbortError) for error in outcome(0, lie))


def test_without_the_check_the_sum_is_wrong_unnoticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The twin: these tests see a sum whose MACs nobody looks at."""

    monkeypatch.setattr(MacSession, "check", lambda _: iter(()))

    def lie(step: int, payload: bytes) -> bytes:
        return flip(payload, 0) if step == 1 else payload

    with pytest.raises(AssertionError):
        outcome(1, lie)


def test_a_batch_with_an_altered_share_aborts(monkeypatch: pytest.MonkeyPatch) -> None:
    class Altered(LocalMacDealer):
        def take_masks(self, *arguments: Any) -> Any:
            masks = super().take_masks(*arguments)
            masks.total.value[1, 2, 3] += np.uint64(1)
            return masks

    ring = Ring(32)
    x = ring.random((3, 4, 5), SYSTEM_RNG)
    batch_sum(x, ring, security="malicious")
    monkeypatch.setattr(secure_sum_malicious, "LocalMacDealer", Altered)
    with pytest.raises(AbortError, match="in 1 of 4 computations"):
        batch_sum(x, ring, security="malicious")


def test_what_it_cannot_stop_a_lie_about_an_own_input() -> None:
    ring = Ring(32)
    x = ring.random((3, DIM), SYSTEM_RNG)
    runs = parties(ring, x)
    honest_sum = ring.sum(x, axis=0)
    lying = parties(ring, np.stack([ring.add(x[0], ring.reduce(1)), x[1], x[2]]))
    for each in (runs, lying):
        assert exchange(each) == [None] * 4
    assert np.array_equal(summed(lying), ring.add(honest_sum, ring.reduce(1)))


def test_what_it_cannot_stop_a_receiver_who_leaves_with_the_sum() -> None:
    """She has opened it after two steps; the others wait for a check that never comes."""
    ring = Ring(32)
    x = ring.random((3, DIM), SYSTEM_RNG)
    run = MaliciousSum(terms(ring))
    kits = run.deal()
    runs = [run.neighbour(p, own, kits[p]) for p, own in zip(NEIGHBOURS, x, strict=True)]
    supply = KitSupply(kits[RECEIVER])
    leaving = MacSession(supply).sum_to(3, {}, (DIM,), range(3))
    runs.append(PartyRun(leaving, supply.seats, run.session))
    assert exchange(runs) == [None] * 4
    assert np.array_equal(summed(runs), ring.sum(x, axis=0))
    for neighbour in runs[:3]:
        with pytest.raises(StateError, match=r"waits for \[3\]"):
            _ = neighbour.result
