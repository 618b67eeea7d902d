"""The MAC check against the best attacker there is, and every message of a run altered."""

import hashlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from mpc.core.errors import AbortError, PeerError
from mpc.core.ring import RingArray
from mpc.core.rng import SYSTEM_RNG, Rng
from mpc.party_run import PartyRun
from mpc.programs import Program, Seats, Tell, together
from mpc.spdz2k import Authenticated, MacSession, Sizes
from mpc.spdz2k_check import SALT_BYTES, Transcript, residue
from mpc.spdz2k_kits import KitDealer, KitSupply
from mpc.supply import Dims
from tests.mpc.mac_runs import Alter, corrupted, exchange, flip, honest
from tests.support.enumerate import tapes

SESSION = bytes(range(16))
Inputs = dict[int, RingArray]


# The check by itself: keys and coins enumerated.


def passing(sizes: Sizes, difference: Sequence[int], keys: RingArray) -> NDArray[np.int64]:
    """For all coins, (coins,), with how many of the keys an alteration passes at most.

    The attacker alters openings by ``difference``, learns the coins, and then adds to her share of
    the residue what passes with the most keys. All run in one batch of the kernel itself.
    """
    ring = sizes.ring
    chi = tapes([1 << sizes.s] * len(difference)).astype(ring.dtype)[np.newaxis]
    z = np.array(difference, ring.dtype)
    # Honest MACs cancel in the residue, so that those of zero stand for all.
    macs = np.zeros((1, len(difference)), ring.dtype)
    sigma = residue(keys[np.newaxis, :, np.newaxis], z, macs[np.newaxis], chi, ring)[0]
    size = 1 << ring.bits
    places = np.arange(chi.shape[1]) * size + sigma.astype(np.int64)
    counts = np.bincount(places.reshape(-1), minlength=chi.shape[1] * size)
    best: NDArray[np.int64] = counts.reshape(-1, size).max(axis=1)
    return best


def differences(sizes: Sizes, openings: int) -> Iterable[tuple[int, ...]]:
    """All alterations of openings, at least one of them modulo 2^k."""
    every = product(range(1 << sizes.ring.bits), repeat=openings)
    return (each for each in every if any(d % (1 << sizes.k) for d in each))


def all_keys(sizes: Sizes) -> RingArray:
    return np.arange(1 << sizes.ring.bits).astype(sizes.ring.dtype)


def best_success(sizes: Sizes, openings: int, keys: RingArray | None = None) -> Fraction:
    """The best attacker's probability of passing the check."""
    chosen = all_keys(sizes) if keys is None else keys
    cases = len(chosen) << (sizes.s * openings)
    found = (int(passing(sizes, each, chosen).sum()) for each in differences(sizes, openings))
    return Fraction(max(found), cases)


@pytest.mark.parametrize("s", [3, 4])
@pytest.mark.parametrize(("k", "openings"), [(1, 1), (2, 1), (3, 1), (1, 2)])
def test_the_best_attacker_succeeds_exactly_so_often(k: int, s: int, openings: int) -> None:
    found = best_success(Sizes(k, s), openings)
    # By a difference of 2^(k-1): chi ends with j < s zeros with probability 2^-(j+1), and then
    # alpha times it takes 2^(s+1-j) values; chi is 0 with probability 2^-s. A second opening adds
    # nothing to it.
    assert found == Fraction(s, 2 ** (s + 2)) + Fraction(1, 2**s)
    assert found <= Sizes(k, s).failure == Fraction(s + 1, 2**s)


def test_without_a_key_the_attacker_always_passes() -> None:
    """The twin: MACs left out, which is a key of zero."""
    assert best_success(Sizes(1, 3), 1, np.zeros(16, np.uint8)) == 1


def test_a_key_of_k_bits_is_caught() -> None:
    """The twin: a key without the upper s bits. MACs in a ring without them are as bad."""
    sizes = Sizes(1, 4)
    assert best_success(sizes, 1, np.arange(2).astype(np.uint8)) > sizes.failure


def test_coins_known_before_the_openings_are_caught() -> None:
    """The twin: who knows the coins alters two openings so that they cancel."""
    sizes = Sizes(1, 3)
    best = np.max([passing(sizes, d, all_keys(sizes)) for d in differences(sizes, 2)], axis=0)
    known = Fraction(int(best.sum()), 16 * len(best))
    assert known > sizes.failure
    assert known > Fraction(9, 10)


# A computation with every kind of message.


def computation(
    session: MacSession, x: Inputs, shape: Dims
) -> Program[tuple[RingArray, RingArray, RingArray | None]]:
    """Inputs, alone and added up, a product, openings to all and to party 2, the check."""
    a = yield from session.input(x, shape, 0)
    b = yield from session.input(x, shape, 1)
    total = yield from session.input_sum(x, shape, (0, 1, 2))
    opened = yield from session.open(session.add(total, a))
    last = yield from session.open((yield from session.multiply(a, b)))
    own = yield from session.sum_to(2, x, shape, (0, 1, 2))
    yield from session.check()
    return opened, last, own


INPUTS = {0: (0,), 1: (1,), 2: (0, 1, 2), 10: (0, 1, 2)}
"""The steps in which inputs come, and whose."""

OPENINGS = (3, 4, 9, 15)
"""The data that are opened, the product's factors, its result, and what goes to party 2."""

STEPS = 20  # with a check of four after 4, 10 and 15

SHAPE = (2,)


Lie = Callable[[int, bytes], bytes]
"""(step, payload) to what an attacker tells everybody instead."""


def truth(step: int, payload: bytes) -> bytes:
    return payload


def parties(sizes: Sizes, attacker: int, lie: Lie) -> tuple[list[PartyRun[Any]], Inputs]:
    dealer = KitDealer(3, sizes, SESSION)
    zero = {party: np.zeros(SHAPE, sizes.data.dtype) for party in range(3)}
    together(computation(MacSession(dealer), zero, SHAPE), 3)
    x = {party: sizes.data.random(SHAPE, SYSTEM_RNG) for party in range(3)}
    runs = []
    for seat, kit in enumerate(dealer.kits()):
        supply = KitSupply(kit)
        program = computation(MacSession(supply), {seat: x[seat]}, SHAPE)
        if seat == attacker:
            program = corrupted(program, lie, sizes.ring)
        runs.append(PartyRun(program, supply.seats, SESSION))
    return runs, x


def changed(sizes: Sizes, before: bytes, after: bytes) -> RingArray:
    """By how much an input changes with its message."""
    ring = sizes.ring
    return sizes.lower(ring.sub(ring.from_bytes(after, SHAPE), ring.from_bytes(before, SHAPE)))


def outcome(
    sizes: Sizes,
    attacker: int,
    lie: Lie = truth,
    *,
    alter: Alter = honest,
    lies: dict[int, RingArray] | None = None,
) -> list[BaseException | None]:
    """Run the computation against an attacker; the errors of the honest parties.

    lie: what she tells all alike.  alter: what she tells single parties, once she has seen all
    others' messages of the step.  lies: by how much her input is another one, by step. All honest
    parties who reach the end must have the results of such inputs: this asserts it.
    """
    runs, x = parties(sizes, attacker, lie)
    errors = exchange(runs, alter, attacker)
    data = sizes.data
    told = {step: dict(x) for step in INPUTS}
    for step, difference in (lies or {}).items():
        told[step][attacker] = data.add(x[attacker], difference)
    sums = {step: data.sum(np.stack(list(told[step].values())), axis=0) for step in (2, 10)}
    expected = [data.add(sums[2], told[0][0]), data.mul(told[0][0], told[1][1]), sums[10]]
    for seat, run in enumerate(runs):
        if seat != attacker and run.is_done:
            for found, right in zip(run.result, expected, strict=True):
                assert found is None or np.array_equal(found, right)
    return [error for seat, error in enumerate(errors) if seat != attacker]


def test_an_honest_run_is_right() -> None:
    runs, _ = parties(Sizes(32, 32), 0, truth)
    assert exchange(runs) == [None] * 3
    assert outcome(Sizes(32, 32), 0) == [None, None]
    assert {run.is_done for run in runs} == {True}


@pytest.mark.parametrize("sizes", [Sizes(32, 32), Sizes(64, 32)], ids=str)
@pytest.mark.parametrize("attacker", range(3))
@pytest.mark.parametrize("step", range(STEPS))
def test_every_altered_message_is_caught_or_harmless(
    step: int, attacker: int, sizes: Sizes
) -> None:
    """One bit flipped for all. Harmless are an own input, which anybody may choose, and the upper s
    bits of data that are opened: no result depends on them.
    """
    for bit in (0, sizes.k // 2, sizes.k - 1, sizes.k, sizes.k + sizes.s - 1):
        lies: dict[int, RingArray] = {}

        def lie(at: int, payload: bytes, bit: int = bit, lies: Any = lies) -> bytes:
            if at != step or not payload:
                return payload
            if at in INPUTS:
                lies[at] = changed(sizes, payload, flip(payload, bit))
            return flip(payload, bit)

        errors = outcome(sizes, attacker, lie, lies=lies)
        is_harmless = step in INPUTS or (step in OPENINGS and bit >= sizes.k)
        assert is_harmless or all(errors)
        assert all(error is None or isinstance(error, AbortError) for error in errors)


@pytest.mark.parametrize("attacker", range(3))
@pytest.mark.parametrize("step", range(STEPS))
def test_who_tells_honest_parties_different_things_is_caught(step: int, attacker: int) -> None:
    """Whatever the bit: in all that counts, by everybody, by the transcript.

    In the check itself the victim sees it at once and sends no more; the last message of all comes
    too late for others to learn of it.
    """
    victim = (attacker + 1) % 3
    if step in INPUTS and attacker not in INPUTS[step]:
        return  # she has nothing to send
    for bit in (0, 31, 63):

        def alter(at: int, sender: int, receiver: int, payload: bytes, bit: int = bit) -> bytes:
            is_lie = (at, sender, receiver) == (step, attacker, victim)
            return flip(payload, bit) if is_lie else payload

        errors = outcome(Sizes(32, 32), attacker, alter=alter)
        aborts = [error for error in errors if isinstance(error, AbortError)]
        assert len(aborts) == (2 if step in INPUTS or step in OPENINGS else 1)


def test_without_a_transcript_it_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    """The twin: half of all keys let an input pass that differs in the top bit of the ring."""

    def alter(step: int, sender: int, receiver: int, payload: bytes) -> bytes:
        return flip(payload, 63) if (step, sender, receiver) == (0, 0, 1) else payload

    monkeypatch.setattr(Transcript, "note", lambda *_: None)
    # 40 runs all fail with probability 2^-40.
    assert any(outcome(Sizes(32, 32), 0, alter=alter) == [None, None] for _ in range(40))


class Rushing:
    """Party 1, who shifts an opening and then cancels it in the check, once she knows the rest.

    She sees all honest messages of a step before she sends her own.
    """

    def __init__(self, sizes: Sizes) -> None:
        self.sizes = sizes
        self.seen: dict[tuple[int, int], bytes] = {}

    def shift(self, step: int, payload: bytes) -> bytes:
        """Bit 0 of the last opening."""
        return flip(payload, 0) if step == OPENINGS[-1] else payload

    def cancel(self, step: int, sender: int, receiver: int, payload: bytes) -> bytes:
        """Her last message: minus all others' shares of the residue, so that the sum is zero."""
        if sender != 1 or step < STEPS - 1:
            self.seen[step, sender] = payload
            return payload
        ring, size = self.sizes.ring, self.sizes.ring.element_bytes()
        others = [self.seen[step, other][:size] for other in (0, 2)]
        total = ring.sum([ring.from_bytes(each, ()) for each in others])
        return ring.to_bytes(ring.neg(total)) + payload[size:]

    def attack(self) -> list[BaseException | None]:
        return outcome(self.sizes, 1, self.shift, alter=self.cancel)


def test_a_rushing_attacker_cannot_cancel_what_she_committed_to() -> None:
    errors = Rushing(Sizes(32, 32)).attack()
    assert [str(error).startswith("party 1 did not open") for error in errors] == [True, True]


def told_bare(values: NDArray[Any], transcript: Transcript, seats: Seats, rng: Rng) -> Program[Any]:
    """``committed`` without commitments: an empty step keeps the numbers of the steps."""
    n, (_, count, size) = seats.n, values.shape
    yield Tell((0,) * n, (b"",) * len(seats.present))
    salted = np.concatenate([values, np.zeros((len(values), count, SALT_BYTES), np.uint8)], axis=-1)
    after = yield Tell((salted[0].size,) * n, tuple(row.tobytes() for row in salted))
    return np.frombuffer(b"".join(after), np.uint8).reshape(n, count, -1)[..., :size]


def test_without_commitments_she_can(monkeypatch: pytest.MonkeyPatch) -> None:
    """The twin: the check passes and the honest parties hold a wrong result."""
    monkeypatch.setattr("mpc.spdz2k.committed", told_bare)
    with pytest.raises(AssertionError):
        Rushing(Sizes(32, 32)).attack()


@pytest.mark.parametrize("step", [5, 7, 16, 18])
def test_a_copied_commitment_does_not_open(step: int) -> None:
    """The attacker repeats an honest party's commitment, and then what that one opens."""
    seen: dict[int, bytes] = {}

    def alter(at: int, sender: int, receiver: int, payload: bytes) -> bytes:
        if sender == 0:
            seen[at] = payload
        return seen[at] if sender == 1 and at in (step, step + 1) else payload

    errors = outcome(Sizes(32, 32), 1, alter=alter)
    assert any(isinstance(error, AbortError) and "party 1" in str(error) for error in errors)


def test_who_opens_another_seed_is_named() -> None:
    def lie(step: int, payload: bytes) -> bytes:
        return hashlib.sha512(payload).digest()[: len(payload)] if step == 17 else payload

    assert all("party 2" in str(error) for error in outcome(Sizes(32, 32), 2, lie))


def test_a_check_without_macs_is_caught_by_these_tests(monkeypatch: pytest.MonkeyPatch) -> None:
    """The twin: with the residue forgotten, an altered opening passes and the result is wrong."""

    def forgotten(*arguments: Any) -> RingArray:
        return np.zeros_like(residue(*arguments))

    monkeypatch.setattr("mpc.spdz2k.residue", forgotten)
    for step in OPENINGS:

        def lie(at: int, payload: bytes, step: int = step) -> bytes:
            return flip(payload, 0) if at == step else payload

        with pytest.raises(AssertionError):
            outcome(Sizes(32, 32), 1, lie)


def test_coins_that_are_known_are_caught_by_these_tests(monkeypatch: pytest.MonkeyPatch) -> None:
    """The twin: all coins are 1, and two elements of one opening change by 1 and by -1."""
    sizes = Sizes(32, 32)

    def lie(step: int, payload: bytes) -> bytes:
        if step != 3:
            return payload
        shares = sizes.ring.from_bytes(payload, SHAPE)
        return sizes.ring.to_bytes(sizes.ring.add(shares, sizes.ring.reduce([1, -1])))

    def ones(count: int, sizes: Sizes, seeds: Sequence[bytes]) -> RingArray:
        return np.ones((len(seeds), count), np.uint64)

    assert all(outcome(sizes, 1, lie))
    monkeypatch.setattr("mpc.spdz2k.coins", ones)
    with pytest.raises(AssertionError):
        outcome(sizes, 1, lie)


def factors(session: MacSession, x: Inputs, shape: Dims) -> Program[RingArray]:
    """The product of two inputs, to everybody; the factors stay secret."""
    a = yield from session.input(x, shape, 0)
    b = yield from session.input(x, shape, 1)
    opened = yield from session.open((yield from session.multiply(a, b)))
    yield from session.check()
    return opened


class Hasty(MacSession):
    """The twin: opens a result before the check of what led to it."""

    def open(self, x: Authenticated) -> Program[RingArray]:
        waiting = self._opened, self._macs
        self._opened, self._macs = [], []
        opened = yield from super().open(x)
        self._opened, self._macs = waiting[0] + self._opened, waiting[1] + self._macs
        return opened


def bent_product(session: type[MacSession]) -> tuple[Inputs, dict[int, dict[int, bytes]]]:
    """Party 2 adds 1 to the first factor where it is opened: the product grows by the second.

    Returns the factors, and what all have sent, by step and sender. The honest parties abort.
    """
    sizes = Sizes(32, 32)
    ring, steps = sizes.ring, []
    sent: dict[int, dict[int, bytes]] = defaultdict(dict)

    def lie(step: int, payload: bytes) -> bytes:
        steps.append(step)
        if step != 2 or steps.count(2) > 1:  # the second array is the other factor
            return payload
        return ring.to_bytes(ring.add(ring.from_bytes(payload, (1, *SHAPE)), 1))

    def keep(step: int, sender: int, receiver: int, payload: bytes) -> bytes:
        sent[step][sender] = payload
        return payload

    x = {party: sizes.data.random(SHAPE, SYSTEM_RNG) for party in range(2)}
    dealer = KitDealer(3, sizes, SESSION)
    together(factors(MacSession(dealer), x, SHAPE), 3)
    runs = []
    for seat, kit in enumerate(dealer.kits()):
        supply = KitSupply(kit)
        program = factors(session(supply), x if seat < 2 else {}, SHAPE)
        if seat == 2:
            program = corrupted(program, lie, ring)
        runs.append(PartyRun(program, supply.seats, SESSION))
    errors = exchange(runs, keep, 2)
    assert all(isinstance(error, AbortError) for error in errors[:2])
    return x, sent


def test_no_share_of_a_result_leaves_before_what_led_to_it_is_checked() -> None:
    _, sent = bent_product(MacSession)
    assert max(sent) == 6  # inputs, the factors, and a check


def test_a_result_opened_before_the_check_tells_a_factor() -> None:
    """The twin aborts too, but the attacker has read x0 x1 + x1 before, and she may know x0 x1."""
    x, sent = bent_product(Hasty)
    sizes = Sizes(32, 32)
    shares = [sizes.ring.from_bytes(payload, SHAPE) for payload in sent[3].values()]
    opened = sizes.lower(sizes.ring.sum(np.stack(shares), axis=0))
    assert np.array_equal(opened, x[0] * x[1] + x[1])


def test_bytes_that_are_no_elements_name_their_sender() -> None:
    """In a ring that does not fill its words; the run ends, as after any lie."""

    def lie(step: int, payload: bytes) -> bytes:
        return flip(payload, 63) if step == 1 else payload

    errors = outcome(Sizes(20, 20), 1, lie)
    assert [isinstance(error, PeerError) and error.party for error in errors] == [1, 1]
