"""Pseudo-interacted items: sets that are uniform, stay, and never hold a rated item; their rows.

Statistical tests use fixed seeds and hold with probability above 1 - 1e-9 for a fresh one.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import combinations, permutations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from mpc.core.errors import ParameterError
from mpc.core.prg import Prg
from recsys.data.ratings import Triples
from recsys.errors import DivergenceError
from recsys.ratings.gradients import Gradients
from recsys.ratings.pseudo import (
    PseudoItems,
    PseudoSets,
    pseudo_keys,
    smallest,
    with_pseudo,
)
from recsys.report.run_folder import RunFolder
from recsys.run import MemoryRun
from recsys.simulation import SimulationRng
from tests.support.stats import fits_multinomial

Keys = NDArray[np.uint8]
HOW = ("sticky", "resampled")


def ratings(histories: Sequence[Sequence[int]]) -> Triples:
    """Each user's items, in rising order."""
    users = np.repeat(np.arange(len(histories)), [len(items) for items in histories])
    items = np.array([item for history in histories for item in history])
    return Triples(users.astype(np.int32), items.astype(np.int32), np.ones(items.size))


def keys_of(users: int, secret: int = 0) -> Keys:
    return Prg(bytes([secret]) * 32).words((users, 32), np.uint8)


def sampler(
    histories: Sequence[Sequence[int]], n_items: int, count: int, how: str = "sticky"
) -> PseudoItems:
    users = len(histories)
    return PseudoItems(ratings(histories), users, n_items, count, keys_of(users), how)


@pytest.mark.parametrize("how", HOW)
def test_o23_a_user_who_rated_everything_has_no_pseudo_item(how: str) -> None:
    pseudo = sampler([[0, 1, 2, 3, 4]], 5, 3, how)
    assert pseudo.of(0, 0).size == 0
    coverage = pseudo.coverage()
    assert (coverage.bare, coverage.least, coverage.short) == (1, 0, 1)
    assert any("hiding of interactions is off" in note for note in coverage.notes())


@pytest.mark.parametrize("how", HOW)
def test_o23_a_small_catalogue_gives_exactly_what_is_left(how: str) -> None:
    pseudo = sampler([[0, 2, 3]], 5, 1000, how)
    assert pseudo.of(0, 0).tolist() == [1, 4]
    coverage = pseudo.coverage()
    assert (coverage.least, coverage.mean, coverage.short, coverage.outnumbered) == (2, 2.0, 1, 1)
    assert coverage.bare == 0
    assert "2.0 on average, 2 at least" in coverage.notes()[0]


def test_coverage_counts_users_with_ratings_only() -> None:
    histories = [[0], [], [0, 1, 2], [0, 1, 2, 3], list(range(8))]
    coverage = sampler(histories, 8, 4).coverage()
    assert coverage.users == 4
    assert coverage.mean == (4 + 4 + 4 + 0) / 4
    assert (coverage.least, coverage.short, coverage.bare) == (0, 1, 1)
    assert coverage.outnumbered == 2  # four of four, and none of eight
    assert len(coverage.notes()) == 3


def test_a_large_catalogue_needs_no_note() -> None:
    assert sampler([[1, 2], [5]], 100, 10).coverage().notes() == ()
    assert sampler([[], []], 100, 10).coverage().users == 0


histories = st.lists(st.lists(st.integers(0, 11), unique=True).map(sorted), min_size=1, max_size=5)


@given(histories, st.integers(0, 15), st.sampled_from(HOW))
def test_a_set_has_its_size_and_no_rated_item(
    histories: list[list[int]], count: int, how: str
) -> None:
    pseudo = sampler(histories, 12, count, how)
    for round_ in (0, 1):
        drawn = pseudo.draw(np.arange(len(histories), dtype=np.int32), round_)
        assert drawn.items.dtype == np.int32
        for user, history in enumerate(histories):
            items = drawn.items[drawn.starts[user] : drawn.starts[user + 1]]
            assert np.array_equal(items, pseudo.of(user, round_))
            assert items.size == min(count, 12 - len(history))
            assert (np.diff(items) > 0).all()
            assert not set(items.tolist()) & set(history)


def test_every_order_of_the_numbers_counts_alike() -> None:
    """All 120 orders of five numbers: each set of two comes from twelve of them."""
    items = np.array([3, 4, 8, 9, 20], dtype=np.int32)
    found = Counter(
        tuple(smallest(items, np.array(order, dtype=np.uint64), 2).tolist())
        for order in permutations(range(5))
    )
    assert found == dict.fromkeys(combinations(items.tolist(), 2), 12)


def test_equal_numbers_make_no_set_larger() -> None:
    numbers = np.array([7, 1, 7, 7], dtype=np.uint64)
    assert smallest(np.arange(4, dtype=np.int32), numbers, 2).tolist() == [0, 1]


Chooser = Callable[[int, int], Sequence[int]]


def sets_are_uniform(choose: Chooser, drawn: int) -> bool:
    """The ten pairs of five unrated items among ``drawn`` sets, by exact binomial bounds."""
    order = {pair: k for k, pair in enumerate(combinations((0, 2, 3, 5, 6), 2))}
    counts = np.zeros(len(order), dtype=np.int64)
    for k in range(drawn):
        counts[order[tuple(choose(k, k))]] += 1  # type: ignore[index]
    return fits_multinomial(counts, [0.1] * 10)


@pytest.mark.parametrize("how", HOW)
def test_sets_are_uniform(how: str) -> None:
    """30,000 users or rounds; a window of neighbours and a modulo are rejected."""
    drawn = 30_000
    users = drawn if how == "sticky" else 1
    pseudo = PseudoItems(ratings([[1, 4]] * users), users, 7, 2, keys_of(users), how)
    unrated, coins = [0, 2, 3, 5, 6], Prg(bytes(32)).words((drawn, 2), np.uint8)

    def honest(user: int, round_: int) -> Sequence[int]:
        items: Sequence[int] = pseudo.of(user % users, round_).tolist()
        return items

    def window(user: int, round_: int) -> Sequence[int]:
        start = int(coins[user, 0]) % 4
        return unrated[start : start + 2]

    def modulo(user: int, round_: int) -> Sequence[int]:
        first, second = int(coins[user, 0] & 7) % 5, int(coins[user, 1] & 7) % 4
        return sorted([unrated[first], [x for x in unrated if x != unrated[first]][second]])

    assert sets_are_uniform(honest, drawn)
    assert not sets_are_uniform(window, drawn)
    assert not sets_are_uniform(modulo, drawn)


def test_sticky_sets_stay_and_resampled_ones_belong_to_their_round() -> None:
    sticky, resampled = (sampler([[1, 5]], 500, 50, how) for how in HOW)
    first = sticky.of(0, 0)
    for round_ in (1, 7, 0):
        assert np.array_equal(sticky.of(0, round_), first)
    rounds = [resampled.of(0, round_) for round_ in range(20)]
    assert len({tuple(items.tolist()) for items in rounds}) == 20
    assert all(np.array_equal(resampled.of(0, k), items) for k, items in enumerate(rounds))


def test_users_have_sets_of_their_own() -> None:
    pseudo = sampler([[1]] * 20, 500, 50)
    assert len({tuple(pseudo.of(user, 0).tolist()) for user in range(20)}) == 20


@pytest.mark.parametrize("how", HOW)
def test_a_set_depends_on_the_key_and_on_what_is_unrated(how: str) -> None:
    """Of the same key: fewer are a part of more, and a new rating or item moves one other."""
    few, many = (set(sampler([[1, 5]], 300, count, how).of(0, 3).tolist()) for count in (20, 40))
    assert few < many
    member = min(few)
    with_it = set(sampler([sorted({1, 5, member})], 300, 20, how).of(0, 3).tolist())
    assert len(few - with_it) == 1
    assert member not in with_it
    grown = set(sampler([[1, 5]], 301, 20, how).of(0, 3).tolist())
    assert len(few - grown) <= 1


@pytest.mark.parametrize("how", HOW)
def test_a_resumed_run_uploads_the_same(tmp_path: Path, how: str) -> None:
    sim, sets = SimulationRng(0), []
    for _ in range(2):
        with RunFolder(tmp_path / "run") as run:
            keys = pseudo_keys(2, sim, run, seeded=False)
            pseudo = PseudoItems(ratings([[1], [2]]), 2, 100, 10, keys, how)
            sets.append(pseudo.draw(np.array([0, 1], dtype=np.int32), 4))
    assert np.array_equal(sets[0].items, sets[1].items)
    assert np.array_equal(sets[0].seeds, sets[1].seeds)


def test_keys_of_a_seeded_run_follow_from_its_seed_and_others_from_the_system() -> None:
    run = MemoryRun()
    one, again, other = (pseudo_keys(5, SimulationRng(s), run, seeded=True) for s in (1, 1, 2))
    assert np.array_equal(one, again)
    assert not (one == other).all(axis=1).any()
    assert np.array_equal(one[:3], pseudo_keys(3, SimulationRng(1), run, seeded=True))
    first, second = (pseudo_keys(5, SimulationRng(1), run, seeded=False) for _ in range(2))
    assert not (first == second).all(axis=1).any()


@pytest.mark.parametrize(
    "keys", [keys_of(3), keys_of(2)[:, :31], keys_of(2).astype(np.int16), keys_of(2).reshape(-1)]
)
def test_other_keys_are_refused(keys: Any) -> None:
    with pytest.raises(ParameterError, match="keys"):
        PseudoItems(ratings([[1], [2]]), 2, 5, 1, keys)


def test_other_settings_are_refused() -> None:
    with pytest.raises(ParameterError, match="sticky, resampled"):
        sampler([[1]], 5, 1, "fresh")
    with pytest.raises(ParameterError, match="count"):
        sampler([[1]], 5, -1)
    with pytest.raises(ParameterError, match="round"):
        sampler([[1]], 5, 1, "resampled").of(0, -1)


HISTORIES = ([2, 5, 9], [7], [0, 1, 2, 3], [4, 6])
MEMBERS = np.array([0, 1, 3], dtype=np.int32)


def gradients(histories: Sequence[Sequence[int]] = HISTORIES, width: int = 4) -> Gradients:
    """Made-up ones of three of the four users."""
    chosen = [histories[user] for user in MEMBERS]
    starts = np.cumsum([0, *(len(history) for history in chosen)]).astype(np.int64)
    items = np.array([item for history in chosen for item in history], dtype=np.int32)
    generator = np.random.default_rng(3)
    return Gradients(
        MEMBERS,
        starts,
        items,
        generator.normal(size=(items.size, width)),
        generator.normal(size=(3, 2)),
    )


@pytest.mark.parametrize("how", HOW)
def test_an_upload_holds_the_real_rows_and_the_pseudo_ones(how: str) -> None:
    pseudo, real = sampler(HISTORIES, 12, 5, how), gradients()
    drawn = pseudo.draw(MEMBERS, 2)
    both = with_pseudo(real, drawn, frac_bits=16)
    assert np.array_equal(both.members, MEMBERS)
    assert both.weights is real.weights
    for k, user in enumerate(MEMBERS):
        rows = slice(both.starts[k], both.starts[k + 1])
        items = both.items[rows]
        assert items.dtype == np.int32
        assert (np.diff(items) > 0).all()
        expected = [*HISTORIES[user], *pseudo.of(int(user), 2).tolist()]
        assert items.tolist() == sorted(expected)
        own = slice(real.starts[k], real.starts[k + 1])
        is_real = np.isin(items, HISTORIES[user])
        assert np.array_equal(both.rows[rows][is_real], real.rows[own])
        assert not (both.rows[rows][~is_real] == 0).any()
    assert np.array_equal(both.rows[both.starts[1]], both.rows[both.starts[1] + 1])  # K = 1


def part(of: Gradients, sets: PseudoSets, k: int) -> tuple[Gradients, PseudoSets]:
    """Client ``k`` alone."""
    own = slice(of.starts[k], of.starts[k + 1])
    extra = slice(sets.starts[k], sets.starts[k + 1])
    one = slice(k, k + 1)
    return (
        Gradients(
            of.members[one],
            of.starts[k : k + 2] - of.starts[k],
            of.items[own],
            of.rows[own],
            of.weights[one],
        ),
        PseudoSets(
            sets.members[one],
            sets.starts[k : k + 2] - sets.starts[k],
            sets.items[extra],
            sets.seeds[one],
        ),
    )


@pytest.mark.parametrize("shared", [False, True])
def test_a_round_is_its_clients_in_a_row(shared: bool) -> None:
    """Whether each has coins of her own or all draw from one stream."""
    real, drawn = gradients(), sampler(HISTORIES, 12, 5).draw(MEMBERS, 1)
    coins = [Prg(bytes(32)) if shared else None for _ in range(2)]
    whole = with_pseudo(real, drawn, coins[0], frac_bits=16)
    parts = [with_pseudo(*part(real, drawn, k), coins[1], frac_bits=16) for k in range(3)]
    assert np.array_equal(whole.rows, np.concatenate([one.rows for one in parts]))
    assert np.array_equal(whole.items, np.concatenate([one.items for one in parts]))


def test_a_repeated_round_repeats_its_rows_and_another_round_does_not() -> None:
    """Else the rows that stay the same, when a round is sent again, would be the real ones."""
    pseudo, real = sampler(HISTORIES, 12, 5), gradients()
    first, again, other = (
        with_pseudo(real, pseudo.draw(MEMBERS, round_), frac_bits=16) for round_ in (1, 1, 2)
    )
    assert np.array_equal(first.rows, again.rows)
    changed = (first.rows != other.rows).any(axis=1)
    inner = slice(0, int(first.starts[1]))
    assert np.array_equal(~changed[inner], np.isin(first.items[inner], HISTORIES[0]))


def test_clients_draw_rows_of_their_own() -> None:
    """Two with the same gradients and the same pseudo items."""
    same = replace(
        gradients([[1, 3]] * 4),
        rows=np.tile(np.array([[1.0, 2.0, 3.0, 4.0], [-1.0, 0, 1, 5]]), (3, 1)),
    )
    sets = sampler([[1, 3]] * 4, 6, 10).draw(MEMBERS, 0)
    both = with_pseudo(same, sets, frac_bits=16).rows.reshape(3, 6, 4)
    assert not (both[0] == both[1]).all(axis=1)[[0, 2, 4, 5]].any()


def test_without_pseudo_items_nothing_changes() -> None:
    real = gradients()
    both = with_pseudo(real, sampler(HISTORIES, 12, 0).draw(MEMBERS, 0), frac_bits=16)
    assert np.array_equal(both.items, real.items)
    assert np.array_equal(both.rows, real.rows)
    assert np.array_equal(both.starts, real.starts)


def test_sets_that_do_not_fit_are_refused() -> None:
    real, pseudo = gradients(), sampler(HISTORIES, 12, 5)
    with pytest.raises(ParameterError, match="not those of the clients"):
        with_pseudo(real, pseudo.draw(np.array([0, 1, 2], dtype=np.int32), 0), frac_bits=16)
    rated = replace(pseudo.draw(MEMBERS, 0), items=np.arange(15, dtype=np.int32))
    with pytest.raises(ParameterError, match="user 0"):
        with_pseudo(real, rated, frac_bits=16)
    nothing = sampler([[], [7], [], [4, 6]], 12, 5)
    empty = gradients([[], [7], [], [4, 6]])
    with pytest.raises(ParameterError, match="without a gradient"):
        with_pseudo(empty, nothing.draw(MEMBERS, 0), frac_bits=16)
    with pytest.raises(ParameterError, match="frac_bits"):
        with_pseudo(real, pseudo.draw(MEMBERS, 0), frac_bits=-1)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_a_gradient_that_is_not_finite_is_refused(value: float) -> None:
    real = gradients()
    real.rows[1, 2] = value
    with pytest.raises(DivergenceError, match="not finite"):
        with_pseudo(real, sampler(HISTORIES, 12, 5).draw(MEMBERS, 0), frac_bits=16)


def test_a_set_of_a_large_catalogue_takes_two_bytes_for_each_item() -> None:
    pseudo = sampler([[1]], 10_677, 1000)
    assert pseudo.of(0, 0).dtype == np.int32
    assert pseudo._sets[0].nbytes == 2000
