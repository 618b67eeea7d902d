"""Hadamard response keeps its epsilon: exact tables of the sampler that runs, and broken twins."""

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import pytest

from ldp.hadamard import HadamardResponse, Words
from ldp.thresholds import MIN_EPSILON, largest_threshold, loss
from mpc.core.rng import ONE, Rng
from tests.ldp.oracle_laws import at_most_exp
from tests.ldp.sent_laws import EPSILONS, is_product, is_unbiased, law, laws
from tests.support.walk import worst_ratio

SIZES = [(2, 1), (3, 1), (5, 1), (7, 1), (2, 2), (3, 4), (5, 2), (6, 4)]


def half_of(mechanism: HadamardResponse, x: int, report: int) -> int:
    """0 in C_x, 1 in the rest of its block, 2 elsewhere: from the definition of the matrix."""
    length = 2
    while length <= -(-mechanism.k // mechanism.blocks):
        length *= 2
    block, row = x % mechanism.blocks, x // mechanism.blocks + 1
    if report // length != block:
        return 2
    return (row & report % length).bit_count() % 2


@pytest.mark.parametrize(("k", "blocks"), SIZES)
def test_the_table_of_the_running_sampler_is_exact(k: int, blocks: int) -> None:
    for epsilon in EPSILONS:
        mechanism = HadamardResponse.from_epsilon(k, epsilon, blocks)
        found = laws(mechanism)
        keep = Fraction(mechanism.keep, ONE)
        half = 2**mechanism.report_bits // blocks // 2
        for x, table in enumerate(found):
            assert len(table) == 2**mechanism.report_bits
            for data, probability in table.items():
                report = int(mechanism.unpack(data, 1)[0])
                share = (1 - keep) / (2 * blocks - 1) if half_of(mechanism, x, report) else keep
                assert probability == share / half
        worst = worst_ratio(found)
        assert at_most_exp(worst, epsilon)
        assert mechanism.epsilon == loss(worst) <= epsilon
        assert epsilon - mechanism.epsilon < 1e-9


@pytest.mark.parametrize("blocks", [1, 2, 4])
def test_the_next_coin_would_break_the_promise(blocks: int) -> None:
    for epsilon in (0.1, 1.0, 2.0, 8.0):
        mechanism = HadamardResponse.from_epsilon(4, epsilon, blocks)
        twin = HadamardResponse(4, mechanism.keep + 1, blocks)
        assert not at_most_exp(worst_ratio(laws(twin)), epsilon)


def test_the_table_rejects_a_coin_that_forgets_the_number_of_half_blocks() -> None:
    twin = HadamardResponse(6, largest_threshold(2.0), blocks=4)
    assert not at_most_exp(worst_ratio(laws(twin)), 2.0)
    assert not at_most_exp(worst_ratio(laws(twin)), 3.9)  # it spends nearly 2 + ln 7


@dataclass(frozen=True)
class MembershipInClear(HadamardResponse):
    """The twin that forgets the coin: every report supports the user's own value."""

    def _half_blocks(self, n: int, rng: Rng) -> Words:
        return np.zeros_like(super()._half_blocks(n, rng))


@dataclass(frozen=True)
class FirstValueInClear(HadamardResponse):
    """The twin whose coin decides nothing for the first row: x = 0 always gives an even parity."""

    def _reports(self, x: Words, rng: Rng) -> Words:
        told = super()._reports(x, rng)
        odd = (np.bitwise_count(told & 1) & 1).astype(told.dtype)
        told ^= odd * (x == 0)
        return told


@dataclass(frozen=True)
class BlockInClear(HadamardResponse):
    """The twin that lies about the half and never about the block."""

    def _half_blocks(self, n: int, rng: Rng) -> Words:
        halves = super()._half_blocks(n, rng)
        halves &= 1
        return halves


@pytest.mark.parametrize("twin", [MembershipInClear, FirstValueInClear, BlockInClear])
def test_the_table_rejects_broken_twins(twin: type[HadamardResponse]) -> None:
    blocks = 2 if twin is BlockInClear else 1
    keep = HadamardResponse.from_epsilon(4, 1.0, blocks).keep
    with pytest.raises(ValueError, match="impossible"):
        worst_ratio(laws(twin(4, keep, blocks)))


@dataclass(frozen=True)
class RowsFromZero(HadamardResponse):
    """The twin without the + 1: value 0 has the row that is +1 everywhere, and is never told."""

    def _reports(self, x: Words, rng: Rng) -> Words:
        return super()._reports(x - 1, rng)


def test_row_0_would_tell_nothing_of_its_value() -> None:
    honest = HadamardResponse.from_epsilon(3, 1.0)
    twin = RowsFromZero(3, honest.keep)
    assert set(law(twin, 0).values()) == {Fraction(1, 4)}  # as if the user had not answered
    assert is_unbiased(honest, laws(honest))
    assert not is_unbiased(honest, laws(twin))


@dataclass(frozen=True)
class OneCoinForAll(HadamardResponse):
    """The twin that draws one half block for the whole batch."""

    def _half_blocks(self, n: int, rng: Rng) -> Words:
        return np.repeat(super()._half_blocks(1, rng), n)


def test_users_are_randomized_independently() -> None:
    """O06 for a batch: the joint law of two reports is the product of their laws."""
    assert is_product(HadamardResponse.from_epsilon(3, 0.1), 2, 0)
    mechanism = HadamardResponse.from_epsilon(3, 0.1, 2)
    assert is_product(mechanism, 2, 1)
    assert not is_product(OneCoinForAll(3, mechanism.keep, 2), 2, 1)


@pytest.mark.parametrize("epsilon", [MIN_EPSILON, 1e-12, 44.0, 710.0, 800.0])
def test_the_promise_holds_at_both_ends_of_the_domain(epsilon: float) -> None:
    mechanism = HadamardResponse.from_epsilon(5, epsilon)
    assert at_most_exp(worst_ratio(laws(mechanism)), epsilon)
    assert 0 < mechanism.epsilon <= epsilon
