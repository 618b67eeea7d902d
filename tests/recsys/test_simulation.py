"""Experiment coins belong to an index: no other user, order, batch or resume changes them."""

import pickle
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mpc.core.errors import ParameterError
from mpc.core.samplers import round_unbiased
from recsys.simulation import SimulationRng
from tests.support.stats import ALARM, chi_square_p_value, fits_binomial
from tests.support.vectors import cases

RNG = SimulationRng(0)
indices = st.integers(0, 2**32 - 1)


# --- coins


@pytest.mark.parametrize("case", cases("transcripts", "coins"), ids=lambda c: len(c["index"]))
def test_coins_equal_the_independent_transcript(case: dict[str, Any]) -> None:
    coin = SimulationRng(case["seed"]).coins(case["purpose"], *case["index"])
    assert int(coin) == case["coin"]


@given(st.lists(indices, min_size=1, max_size=20), st.lists(indices, max_size=3))
def test_a_coin_does_not_depend_on_place_or_company(users: list[int], rest: list[int]) -> None:
    coins = RNG.coins("split", users, *rest)
    assert coins.dtype == np.uint64
    assert coins.shape == (len(users),)
    for user, coin in zip(users, coins, strict=True):
        assert RNG.coins("split", user, *rest) == coin
    assert np.array_equal(RNG.coins("split", users[::-1], *rest), coins[::-1])
    assert np.array_equal(RNG.coins("split", users + users[:3], *rest)[: len(users)], coins)


def test_indices_broadcast_as_numpy_does() -> None:
    grid = RNG.coins("split", np.arange(3)[:, np.newaxis], np.arange(4))
    assert grid.shape == (3, 4)
    assert all(grid[i, j] == RNG.coins("split", i, j) for i in range(3) for j in range(4))
    assert RNG.coins("split", 1, 2).shape == ()
    assert RNG.coins("split", np.arange(0)).shape == (0,)
    with pytest.raises(ValueError, match="broadcast"):
        RNG.coins("split", np.arange(3), np.arange(4))


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int32, np.uint32, np.int64, np.uint64])
def test_the_dtype_of_an_index_does_not_count(dtype: Any) -> None:
    assert np.array_equal(
        RNG.coins("split", np.arange(5, dtype=dtype)), RNG.coins("split", range(5))
    )


def test_seed_purpose_index_and_number_of_indices_all_count() -> None:
    drawn = [
        SimulationRng(seed).coins(purpose, *index)
        for seed in (0, 1, 2**32, 2**64 - 1)
        for purpose in ("split", "order", "")
        for index in ((0,), (0, 0), (0, 0, 0), (0, 0, 0, 0), (1,), (0, 1), (1, 0), (2**32 - 1, 0))
    ]
    assert len({int(coin) for coin in drawn}) == len(drawn)
    whole = RNG.rows("split", 0).words((1, 2), np.uint64)
    assert int(whole[0, 0]) != int(RNG.coins("split", 0))


def test_two_generators_of_one_seed_agree_whatever_they_drew_before() -> None:
    used = SimulationRng(7)
    used.coins("other", np.arange(100))
    used.rows("other", 3).words((1, 5), np.uint8)
    assert used.coins("split", 4) == SimulationRng(7).coins("split", 4)
    assert pickle.loads(pickle.dumps(used)).coins("split", 4) == used.coins("split", 4)
    assert repr(used) == "SimulationRng(seed=7)"


def test_coins_fit_the_uniform_law() -> None:
    """10^6 coins of users in a row, both ends of each word, alarm 1e-9."""
    coins = RNG.coins("split", np.arange(1000)[:, np.newaxis], np.arange(1000)).reshape(-1)
    for shift in (0, 28, 56):
        byte = (coins >> np.uint64(shift)).astype(np.uint8)
        assert chi_square_p_value(np.bincount(byte, minlength=256)) > ALARM
    # Neighbours in the index are no neighbours in value: 10^6 pairs, each of 64 bits.
    flips = np.bitwise_count(coins[1:] ^ coins[:-1])
    assert fits_binomial(int(flips.sum()), 64 * len(flips), 0.5)


def test_the_uniformity_test_sees_a_multiplicative_hash() -> None:
    """The twin spreads the index by a multiplication: even bytes, but neighbours that agree."""
    index = np.arange(10**6, dtype=np.uint64)
    twin = index * np.uint64(0x9E3779B97F4A7C15)
    flips = np.bitwise_count(twin[1:] ^ twin[:-1])
    assert not fits_binomial(int(flips.sum()), 64 * len(flips), 0.5)
    assert (
        chi_square_p_value(np.bincount((index % np.uint64(255)).astype(int), minlength=256)) < ALARM
    )


@pytest.mark.parametrize("seed", [-1, 2**64, 0.0, 1.5, "0", None, True, float("nan"), [1]])
def test_a_seed_that_is_no_integer_of_64_bits_is_refused(seed: Any) -> None:
    with pytest.raises(ParameterError, match="seed must"):
        SimulationRng(seed)


def test_the_ends_of_the_seed_range_are_seeds() -> None:
    assert SimulationRng(0).coins("a", 0) != SimulationRng(2**64 - 1).coins("a", 0)
    assert SimulationRng(np.int64(3)).coins("a", 0) == SimulationRng(3).coins("a", 0)  # type: ignore[arg-type]


@pytest.mark.parametrize("bad", [[-1], [2**32], [0, 2**40], [0.5], [True], ["0"], [None], [1j]])
def test_an_index_outside_its_range_is_refused(bad: Any) -> None:
    for call in (RNG.coins, RNG.order, RNG.rows):
        with pytest.raises(ParameterError, match="indices"):
            call("split", bad)


def test_none_or_too_many_indices_are_refused() -> None:
    with pytest.raises(ParameterError, match="1 to 4 indices, got 0"):
        RNG.coins("split")
    with pytest.raises(ParameterError, match="1 to 4 indices, got 5"):
        RNG.coins("split", 1, 2, 3, 4, 5)


# --- order


@given(st.integers(0, 60), st.integers(0, 2**32 - 1))
def test_an_order_is_a_permutation_of_the_positions(size: int, round_: int) -> None:
    order = RNG.order("order", np.arange(size), round_)
    assert sorted(order.tolist()) == list(range(size))
    assert np.array_equal(order, SimulationRng(0).order("order", np.arange(size), round_))


def test_an_order_keeps_the_relation_of_those_who_stay() -> None:
    """Whoever leaves, the others keep their order: it hangs on their own coins."""
    users = np.arange(50)
    whole = users[RNG.order("order", users)]
    some = users[users % 3 == 0]
    assert some[RNG.order("order", some)].tolist() == [user for user in whole if user % 3 == 0]


def test_orders_of_rounds_differ_and_are_uniform() -> None:
    """40,000 orders of three positions, in six cells, alarm 1e-9; the twin never moves the last."""
    orders = RNG.order("order", np.arange(3), np.arange(40_000)[:, np.newaxis])
    assert orders.shape == (40_000, 3)
    assert np.array_equal(np.sort(orders, axis=1), np.tile(np.arange(3), (40_000, 1)))
    counts = np.unique(orders @ np.array([9, 3, 1]), return_counts=True)[1]
    assert counts.size == 6
    assert chi_square_p_value(counts) > ALARM
    swapped = int((orders[:, 0] < orders[:, 1]).sum())
    assert chi_square_p_value([swapped, 0, 0, 40_000 - swapped, 0, 0]) < ALARM


def test_an_order_of_one_is_that_one() -> None:
    assert RNG.order("order", 5).tolist() == [0]


# --- rows


@pytest.mark.parametrize("case", cases("transcripts", "rows"), ids=lambda case: case["row"])
def test_rows_equal_the_independent_transcript(case: dict[str, Any]) -> None:
    rng = SimulationRng(case["seed"]).rows(case["purpose"], case["row"], case["index"])
    assert rng.words((1, 5), np.uint64)[0].tolist() == case["first"]
    assert rng.words((1, 2), np.uint32)[0].tolist() == case["second"]


@given(
    st.lists(indices, min_size=1, max_size=6),
    st.lists(indices, max_size=2),
    st.lists(
        st.tuples(st.sampled_from([np.uint8, np.uint32, np.uint64]), st.integers(0, 5)), max_size=4
    ),
)
def test_a_row_draws_in_a_batch_what_it_draws_alone(
    rows: list[int], rest: list[int], draws: list[tuple[Any, int]]
) -> None:
    batch = RNG.rows("rounding", rows, *rest)
    alone = [RNG.rows("rounding", row, *rest) for row in rows]
    for dtype, width in draws:
        together = batch.words((len(rows), width), dtype)
        assert np.array_equal(together, np.concatenate([r.words((1, width), dtype) for r in alone]))


def test_rounding_in_a_batch_is_rounding_row_by_row() -> None:
    x = np.linspace(-3, 3, 35).reshape(5, 7)
    batch = round_unbiased(x, RNG.rows("rounding", np.arange(10, 15), 2))
    for i, row in enumerate(x):
        alone = round_unbiased(row[np.newaxis], RNG.rows("rounding", 10 + i, 2))
        assert np.array_equal(batch[i], alone[0])
    again = round_unbiased(x, RNG.rows("rounding", np.arange(10, 15), 3))
    assert not np.array_equal(batch, again)


def test_rows_have_no_common_bytes_and_do_not_repeat() -> None:
    rng = RNG.rows("rounding", np.arange(200))
    words = np.concatenate([rng.words((200, 50), np.uint64) for _ in range(4)], axis=1)
    assert len(np.unique(words)) == words.size
    assert chi_square_p_value(np.bincount(words.view(np.uint8).reshape(-1), minlength=256)) > ALARM


def test_words_of_either_byte_order_have_the_same_values() -> None:
    little, big = (RNG.rows("a", [1, 2]).words((2, 3), dtype) for dtype in ("<u4", ">u4"))
    assert little.tolist() == big.tolist()


def test_rows_of_many_axes_and_of_none() -> None:
    deep = RNG.rows("a", [1, 2]).words((2, 3, 4), np.uint16)
    assert np.array_equal(deep.reshape(2, 12), RNG.rows("a", [1, 2]).words((2, 12), np.uint16))
    assert RNG.rows("a", np.arange(0)).words((0, 3), np.uint8).shape == (0, 3)
    assert RNG.rows("a", [1, 2]).words((2,), np.uint64).shape == (2,)


@pytest.mark.parametrize("shape", [(), (1,), (3,), (3, 2), (0,)])
def test_a_draw_without_one_line_for_each_row_is_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(ParameterError, match="out must have 2 rows"):
        RNG.rows("a", [1, 2]).words(shape, np.uint64)


def test_a_draw_of_no_fixed_width_is_refused() -> None:
    """Rejection would tie a row's later coins to the luck of the others."""
    for rows in ([1, 2], 1):
        with pytest.raises(ParameterError, match=r"different number of words.*coins"):
            RNG.rows("a", rows).uniform(3, (2, 2))
        with pytest.raises(ParameterError, match=r"different number of words.*coins"):
            RNG.rows("a", rows).bernoulli(1 << 63, (2, 2))


def test_rows_of_two_axes_and_too_many_indices_are_refused() -> None:
    with pytest.raises(ParameterError, match="rows must have one axis"):
        RNG.rows("a", [[1, 2], [3, 4]])
    with pytest.raises(ParameterError, match="up to 2 indices, got 3"):
        RNG.rows("a", [1], 1, 2, 3)
    for bad in (-1, 2**32, 0.5, None):
        with pytest.raises(ParameterError, match="an index must"):
            RNG.rows("a", [1], bad)  # type: ignore[arg-type]


# --- generator


def test_a_generator_is_fixed_by_seed_purpose_and_index() -> None:
    def draw(seed: int, purpose: str, *index: int) -> bytes:
        return SimulationRng(seed).generator(purpose, *index).bytes(16)

    drawn = [
        draw(0, "homes"),
        draw(1, "homes"),
        draw(0, "tastes"),
        draw(0, "homes", 0),
        draw(0, "homes", 1),
    ]
    assert len(set(drawn)) == len(drawn)
    assert draw(0, "homes", 1) == drawn[-1]
