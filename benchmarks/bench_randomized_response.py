"""Randomized response: the client, its memoized form, and the collector's estimate."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ldp.memo import MemoStore, memo_coins
from ldp.packed import pack
from ldp.randomized_response import RandomizedResponse
from mpc.core.rng import SYSTEM_RNG

EPSILON = 1.0


@pytest.mark.benchmark(group="rr.perturb")
@pytest.mark.parametrize("reports", [1, 1_000, 1_000_000])
def test_perturb(benchmark: Any, reports: int) -> None:
    mechanism = RandomizedResponse.from_epsilon(EPSILON)
    x = np.arange(reports) % 10 < 3
    result = benchmark(mechanism.perturb, x)
    assert result.shape == x.shape
    assert result.dtype == np.bool_
    benchmark.extra_info.update(rounds=1, bytes=len(pack(result)), epsilon=mechanism.epsilon)


@pytest.mark.benchmark(group="rr.memo")
@pytest.mark.parametrize(("users", "questions"), [(2_172, 2_184), (64, 118_598)])
def test_memo_reports(benchmark: Any, users: int, questions: int) -> None:
    """A whole population's memoized reports: coins by PRF, one cipher context for each user."""
    mechanism = RandomizedResponse.from_epsilon(EPSILON)
    keys = SYSTEM_RNG.words((users, 32), np.uint8)
    ids = np.arange(questions, dtype=np.uint32)
    x = np.zeros((users, questions), dtype=np.bool_)
    first = mechanism.perturb_with(x, memo_coins(keys, "visited", ids))
    again = benchmark(lambda: mechanism.perturb_with(x, memo_coins(keys, "visited", ids)))
    assert np.array_equal(first, again)
    benchmark.extra_info.update(rounds=1, bytes=users * -(-questions // 8))


@pytest.mark.benchmark(group="rr.memo_store")
@pytest.mark.parametrize("questions", [1, 2_184])
def test_memo_store_repeats(benchmark: Any, tmp_path: Path, questions: int) -> None:
    """One user's durable answers, asked for again."""
    mechanism = RandomizedResponse.from_epsilon(EPSILON)
    store = MemoStore.create(tmp_path / "memo")
    ids = np.arange(questions, dtype=np.uint32)
    x = np.zeros(questions, dtype=np.bool_)
    first = store.answer(mechanism, "visited", ids, x)
    again = benchmark(store.answer, mechanism, "visited", ids, ~x)
    assert np.array_equal(first, again)


@pytest.mark.benchmark(group="rr.estimate")
@pytest.mark.parametrize(("users", "items"), [(1_000_000, 1), (2_172, 2_184)])
def test_estimate_count(benchmark: Any, users: int, items: int) -> None:
    mechanism = RandomizedResponse.from_epsilon(EPSILON)
    x = np.broadcast_to((np.arange(users) % 10 < 3)[:, np.newaxis], (users, items))
    reports = mechanism.perturb(x)
    estimate = benchmark(mechanism.estimate_count, reports)
    assert np.all(np.abs(estimate.value - x[:, 0].sum()) < 8 * np.sqrt(estimate.variance))
