"""Memoized answers against a collector who asks again, and against a crash at any point."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from ldp.memo import MemoStore, memo_coins
from ldp.randomized_response import RandomizedResponse
from mpc.core.prg import Prg
from tests.support.source import ROOT
from tests.support.stats import fits_binomial

Bits = NDArray[np.bool_]
Client = Callable[[Bits], Bits]

MECHANISM = RandomizedResponse.from_epsilon(1.0)
ITEMS = 4096
QUESTIONS = np.arange(ITEMS, dtype=np.uint32)
TRUTH = np.arange(ITEMS) % 7 == 0


def memoized(folder: Path) -> Client:
    store = MemoStore.create(folder, rng=Prg(b"the user's key, of a fixed seed."))
    return lambda x: store.answer(MECHANISM, "visited", QUESTIONS, x)


def fresh() -> Client:
    """The broken twin of memoization: new coins at each collection."""
    coins = Prg(b"fresh coins at each collection..")
    return lambda x: MECHANISM.perturb(x, rng=coins)


def value_keyed() -> Client:
    """The other broken twin: coins by PRF, but the answer follows the true bit."""
    key = np.frombuffer(b"the user's key, of a fixed seed.", dtype=np.uint8)[np.newaxis]
    coins = memo_coins(key, "visited", QUESTIONS)[0]
    return lambda x: MECHANISM.perturb_with(x, coins)


def resists_averaging(client: Client) -> bool:
    """Whether 31 collections read no more true bits by majority than a single one does.

    Correct guesses among 4,096 fit the truth probability .73106 of one report: exact binomial
    bounds, false alarm 1e-9.
    """
    votes = np.sum([client(TRUTH) for _ in range(31)], axis=0)
    right = int(np.sum((votes > 15) == TRUTH))
    return fits_binomial(right, ITEMS, MECHANISM.keep / 2**64)


def hides_a_change(client: Client) -> bool:
    """Whether the reports after a change of the true bits tell which bits changed.

    Only a client whose reports do not depend on the later bits can pass: they are all equal.
    """
    changed = TRUTH ^ (np.arange(ITEMS) % 2 == 0)
    return np.array_equal(client(TRUTH), client(changed))


def test_averaging_reads_no_more_than_one_report_does(tmp_path: Path) -> None:
    assert resists_averaging(memoized(tmp_path / "memo"))
    assert not resists_averaging(fresh())


def test_a_change_of_the_true_bits_does_not_show(tmp_path: Path) -> None:
    assert hides_a_change(memoized(tmp_path / "memo"))
    assert not hides_a_change(value_keyed())
    assert not hides_a_change(fresh())


def test_the_value_keyed_twin_betrays_exactly_the_changed_bits() -> None:
    client, changed = value_keyed(), np.arange(ITEMS) % 5 == 0
    assert np.array_equal(client(TRUTH) ^ client(TRUTH ^ changed), changed)


def test_memo_coins_keep_their_probability_across_users() -> None:
    """1,000,000 memoized reports of zero; exact binomial bounds, false alarm 1e-9."""
    keys = Prg(b"c" * 32).words((1_000, 32), np.uint8)
    coins = memo_coins(keys, "visited", QUESTIONS[:1_000])
    told = MECHANISM.perturb_with(np.zeros(coins.shape, dtype=np.bool_), coins)
    assert fits_binomial(int(told.sum()), told.size, 1 - MECHANISM.keep / 2**64)
    # The twin takes the coin's low half for the whole of it.
    halved = coins & np.uint64(2**32 - 1)
    told = MECHANISM.perturb_with(np.zeros(coins.shape, dtype=np.bool_), halved)
    assert not fits_binomial(int(told.sum()), told.size, 1 - MECHANISM.keep / 2**64)


def walk(folder: Path, client: str, stride: int) -> dict[str, int]:
    command = [sys.executable, "-m", "tests.ldp.memo_kills", str(folder), client, str(stride)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT)
    result: dict[str, int] = json.loads(done.stdout)
    return result


def test_a_kill_at_any_step_contradicts_no_answer_that_was_sent(tmp_path: Path) -> None:
    """SIGKILL at every 13th of some 400 steps; the deep test takes every one of them."""
    result = walk(tmp_path, "honest", 13)
    assert result["kills"] >= 20
    assert (result["contradictions"], result["loose"]) == (0, 0)


@pytest.mark.deep
def test_a_kill_at_every_single_step_contradicts_no_answer_that_was_sent(tmp_path: Path) -> None:
    result = walk(tmp_path, "honest", 1)
    assert result["kills"] >= 260
    assert (result["contradictions"], result["loose"]) == (0, 0)


def test_a_client_that_sends_before_it_stores_is_caught_by_the_kills(tmp_path: Path) -> None:
    assert walk(tmp_path, "late", 5)["contradictions"] > 0


def test_two_processes_give_one_answer(tmp_path: Path) -> None:
    """Two stores of one folder, as two processes have them: the first answer binds both."""
    store = MemoStore.create(tmp_path / "memo")
    other = MemoStore.open(tmp_path / "memo")
    half = ITEMS // 2
    first = store.answer(MECHANISM, "visited", QUESTIONS[:half], TRUTH[:half])
    both = other.answer(MECHANISM, "visited", QUESTIONS, ~TRUTH)
    assert np.array_equal(both[:half], first)
    assert np.array_equal(store.answer(MECHANISM, "visited", QUESTIONS, TRUTH), both)
