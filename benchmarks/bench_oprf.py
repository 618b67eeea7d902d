"""The oblivious PRF by mode and batch: blind, evaluate, finalize; the key holder by herself."""

from typing import Any

import pytest

from benchmarks.peers.items import INFO, SEED, items, tokens_are_right
from mpc.oprf import OPRF, VOPRF, ServerKey, Suite, blind, evaluate, finalize, output_of

modes = pytest.mark.parametrize("suite", [OPRF, VOPRF], ids=["oprf", "voprf"])
batches = pytest.mark.parametrize("batch", [2, 100, 1000])


def _describe(benchmark: Any, batch: int, sent: int = 0) -> None:
    benchmark.extra_info.update(operations=batch, rounds=1, bytes=sent // batch, key_bits=256)


def _inputs(batch: int) -> list[bytes]:
    return items(batch)


@pytest.mark.benchmark(group="oprf.blind")
@batches
@modes
def test_blind(benchmark: Any, suite: Suite, batch: int) -> None:
    kept, sent = benchmark(blind, _inputs(batch), suite=suite)
    assert kept.elements == sent
    assert len(set(sent)) == batch
    _describe(benchmark, batch, sum(map(len, sent)))


@pytest.mark.benchmark(group="oprf.evaluate")
@batches
@modes
def test_evaluate(benchmark: Any, suite: Suite, batch: int) -> None:
    """In VOPRF mode with the proof."""
    key = ServerKey.derive(SEED, INFO, suite)
    kept, sent = blind(_inputs(batch), suite=suite)
    answer = benchmark(evaluate, key, sent)
    _check(finalize(kept, answer.elements, _published(key), answer.proof), key)
    _describe(benchmark, batch, sum(map(len, answer.elements)) + len(answer.proof))


@pytest.mark.benchmark(group="oprf.finalize")
@batches
@modes
def test_finalize(benchmark: Any, suite: Suite, batch: int) -> None:
    """In VOPRF mode with the check of the proof."""
    key = ServerKey.derive(SEED, INFO, suite)
    kept, sent = blind(_inputs(batch), suite=suite)
    answer = evaluate(key, sent)
    tokens = benchmark(finalize, kept, answer.elements, _published(key), answer.proof)
    _check(tokens, key)
    _describe(benchmark, batch)


@pytest.mark.benchmark(group="oprf.output_of")
@modes
def test_output_of(benchmark: Any, suite: Suite) -> None:
    key = ServerKey.derive(SEED, INFO, suite)
    item = _inputs(2)[0]
    token = benchmark(output_of, key, item)
    assert token == output_of(key, item)
    _describe(benchmark, 1)


def _published(key: ServerKey) -> bytes:
    return key.public if key.suite.verifiable else b""


def _check(tokens: list[bytes], key: ServerKey) -> None:
    inputs = _inputs(len(tokens))
    evaluated = [output_of(key, item) for item in inputs]
    assert tokens == evaluated
    assert not key.suite.verifiable or tokens_are_right(inputs, tokens, evaluated)
