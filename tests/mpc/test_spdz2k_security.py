"""The MAC check against the best attacker there is, and every message of a run altered."""

import hashlib
from contextlib import suppress
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import pytest

from mpc.core.errors import AbortError, ProtocolError
from mpc.core.ring import RingArray
from mpc.core.rng import SYSTEM_RNG
from mpc.programs import Open, Program, Tell
from mpc.spdz2k import MacSession, MacSupply, Sizes, residue
from tests.support.enumerate import tapes


def best_success(sizes: Sizes, openings: int) -> Fraction:
    """The largest probability of passing the check, over all alterations of what is opened.

    The attacker alters openings by fixed differences, at least one of them modulo 2^k, learns the
    coins, and then adds what she likes to her share of the residue: the likeliest value.
    """
    ring, k, s = sizes.ring, sizes.k, sizes.s
    size = 1 << ring.bits
    alpha = np.arange(size, dtype=ring.dtype)[np.newaxis, :]
    all_coins = tapes([1 << s] * openings).astype(ring.dtype)
    best = Fraction(0)
    for difference in product(range(size), repeat=openings):
        if not any(d % (1 << k) for d in difference):
            continue
        # All keys and coins in one batch of the kernel that runs; honest MACs are those of zero.
        z = np.array(difference, ring.dtype)[:, np.newaxis]
        passed = 0
        for chi in all_coins:
            macs = np.zeros((1, openings, size), ring.dtype)
            sigma = residue(alpha, z, macs, chi[:, np.newaxis], ring)[0]
            passed += int(np.bincount(sigma.astype(np.int64)).max())
        best = max(best, Fraction(passed, size * len(all_coins)))
    return best


@pytest.mark.parametrize(("k", "s", "openings"), [(1, 3, 1), (2, 3, 1), (1, 4, 1), (1, 3, 2)])
def test_the_best_attacker_succeeds_exactly_so_often(k: int, s: int, openings: int) -> None:
    found = best_success(Sizes(k, s), openings)
    assert found <= Fraction(s + 1, 2**s)
    if openings == 1:
        # A difference of 2^(k-1): chi has j zeros at its end with probability 2^-(j+1), and then
        # alpha times it takes 2^(s+1-j) values; chi is 0 with probability 2^-s.
        assert found == Fraction(s, 2 ** (s + 2)) + Fraction(1, 2**s)


def computation(session: MacSession, mine: dict[int, RingArray]) -> Program[tuple[RingArray, ...]]:
    """Inputs, a product, two openings, the check: every kind of message there is."""
    shape = next(iter(mine.values())).shape
    x, y, z = yield from session.input(shape, mine, [0, 1, 2])
    opened = yield from session.open(session.add(x, session.add(y, z)))
    product_ = yield from session.multiply(x, y)
    last = yield from session.open(product_)
    yield from session.check()
    return opened, last


def run(step: int | None, party: int, alter: Any, n: int = 3) -> tuple[RingArray, ...]:
    """The computation, with what ``party`` sends in one step altered on its way to all others."""
    sizes = Sizes(32, 32)
    supply = MacSupply(n, sizes)
    x = [SYSTEM_RNG.words((2,), np.uint32) for _ in range(3)]
    program = computation(MacSession(supply), dict(enumerate(x)))
    request, number = next(program), 0
    try:
        while True:
            if isinstance(request, Tell):
                told = list(request.payloads)
                if number == step:
                    told[party] = alter(told[party])
                answer: tuple[Any, ...] = tuple(told)
            else:
                sums = []
                for shares in request.shares:
                    rows = shares.copy()
                    if number == step:
                        data = alter(sizes.ring.to_bytes(rows[party]))
                        rows[party] = sizes.ring.from_bytes(data, rows[party].shape)
                    sums.append(sizes.ring.sum(rows, axis=0))
                answer = tuple(sums)
            request, number = program.send(answer), number + 1
    except StopIteration as end:
        result: tuple[RingArray, ...] = end.value
        expected = (x[0] + x[1] + x[2], x[0] * x[1])
        assert all((a == b).all() for a, b in zip(result, expected, strict=True))
        return result


STEPS = 8  # inputs, an opening, a product, an opening, and four of the check


def test_an_honest_run_is_right() -> None:
    assert len(run(None, 0, None)) == 2


@pytest.mark.parametrize("party", range(3))
@pytest.mark.parametrize("step", range(1, STEPS))
def test_every_altered_message_is_caught(step: int, party: int) -> None:
    """All but an own input: a party may choose that as she likes."""
    for bit in (0, 3, 17, 31, 40, 63):

        def flip(data: bytes, bit: int = bit) -> bytes:
            number = int.from_bytes(data, "little") ^ (1 << bit)
            return number.to_bytes(len(data), "little")

        if step < 4 and bit >= 32:
            # No result depends on the upper s bits of an opening: ``run`` checks that.
            with suppress(ProtocolError):
                run(step, party, flip)
        else:
            with pytest.raises(ProtocolError):
                run(step, party, flip)


def test_a_check_without_macs_is_caught_by_this_test(monkeypatch: pytest.MonkeyPatch) -> None:
    """The twin: with the residue forgotten, an altered opening passes and the result is wrong."""

    def forgotten(*arguments: Any) -> RingArray:
        sigma = residue(*arguments)
        return np.zeros_like(sigma)

    monkeypatch.setattr("mpc.spdz2k.residue", forgotten)

    def flip(data: bytes) -> bytes:
        return bytes([data[0] ^ 1]) + data[1:]

    with pytest.raises(AssertionError):
        run(1, 1, flip)


def test_who_opens_another_seed_is_named() -> None:
    with pytest.raises(AbortError, match="party 2"):
        run(5, 2, lambda data: hashlib.sha512(data).digest()[: len(data)])


def test_open_asks_for_shares() -> None:
    session = MacSession(MacSupply(3, Sizes(8, 8)))
    (item,) = session.supply.take_input((1,), 0)[:1]
    assert isinstance(next(session.open(item)), Open)
