"""Graph expansion: both modes alike, the right neighbours, coins, payloads, traffic, refusals."""

from collections import Counter
from typing import Any

import numpy as np
import pytest

from mpc.core.errors import AbortError, ParameterError
from mpc.core.local import LocalNetwork
from recsys.errors import DivergenceError
from recsys.ratings import expansion
from recsys.ratings.config import RatingConfig
from recsys.ratings.expansion_payloads import EMBEDDING_CLIP, EmbeddingGrid, embedding_noise
from tests.mpc.matching.session import Session
from tests.recsys.ratings.expansions import (
    BOTH,
    CONFIG,
    DIM,
    USERS,
    embeddings,
    expand,
    histories,
    owners,
    sharing,
    triples,
)
from tests.recsys.worlds import KnownKeysRun
from tests.support.stats import fits_multinomial

modes = pytest.mark.parametrize("mode", BOTH)

# --- both modes


@pytest.mark.parametrize("epsilon", [None, 2.0])
@pytest.mark.parametrize("limits", [{}, {"match_items": 3, "most_neighbours": 2, "min_group": 3}])
def test_both_modes_give_the_same_bytes_under_a_seed(
    epsilon: float | None, limits: dict[str, Any]
) -> None:
    real, plain = (expand(mode=mode, embedding_epsilon=epsilon, **limits) for mode in BOTH)
    assert len(real.embeddings) > 0
    assert real.starts.tobytes() == plain.starts.tobytes()
    assert real.embeddings.tobytes() == plain.embeddings.tobytes()
    assert real.starts.dtype == np.int64
    assert real.embeddings.dtype == np.float64


def test_another_seed_gives_another_choice() -> None:
    first, second = (expand(mode="simulate", most_neighbours=2, seed=seed) for seed in (1, 2))
    assert owners(first) != owners(second)


# --- the right neighbours


@modes
@pytest.mark.parametrize("group", [2, 3, 6])
@pytest.mark.parametrize("seed", [11, None])
def test_neighbours_are_those_with_an_item_in_common(
    mode: str, group: int, seed: int | None
) -> None:
    found = owners(expand(mode=mode, min_group=group, seed=seed))
    expected = sharing(histories(), group)
    assert [set(mine) for mine in found] == expected
    assert [len(mine) for mine in found] == [len(mine) for mine in expected]  # each once
    assert any(expected)


@modes
@pytest.mark.parametrize("seed", [11, None])
def test_with_few_items_and_few_neighbours_all_of_them_are_right(
    mode: str, seed: int | None
) -> None:
    found = owners(expand(mode=mode, match_items=3, most_neighbours=4, seed=seed))
    for mine, right in zip(found, sharing(histories()), strict=True):
        assert set(mine) <= right
        assert len(mine) == len(set(mine)) <= 4
    assert max(map(len, found)) == 4


@modes
def test_who_has_more_neighbours_gets_as_many_as_she_may(mode: str) -> None:
    found = owners(expand(mode=mode, most_neighbours=5))
    assert [len(mine) for mine in found] == [min(5, len(mine)) for mine in sharing(histories())]


@modes
def test_a_user_without_items_has_no_neighbours_and_is_nobodys(mode: str) -> None:
    found = owners(expand(mode=mode))
    assert found[USERS - 2 :] == [[], []]
    assert found[2] == []  # nobody else holds her only item
    assert not {2, USERS - 2, USERS - 1} & {user for mine in found for user in mine}


@modes
def test_dummies_make_nobody_neighbours(mode: str) -> None:
    found = expand([[], [], [], []], mode=mode)
    assert found.starts.tolist() == [0] * 5
    assert found.embeddings.shape == (0, DIM)
    assert found.figures["alone"] == 4


# --- coins

FIVE = [[0], [0], [0], [0], [0]]


@pytest.mark.parametrize("seeded", [True, False])
def test_which_neighbours_come_in_which_order_is_uniform(seeded: bool) -> None:
    """1,500 ordered pairs of four neighbours, false alarms 1e-9."""
    draws = 1500
    found = Counter(
        tuple(owners(expand(FIVE, mode="simulate", most_neighbours=2, seed=seed))[4])
        for seed in (range(draws) if seeded else [None] * draws)
    )
    pairs = [(a, b) for a in range(4) for b in range(4) if a != b]
    assert set(found) <= set(pairs)
    counts = [found[pair] for pair in pairs]
    assert fits_multinomial(counts, [1 / 12] * 12)
    # The wrong twin always hands on users in the order of their numbers.
    assert not fits_multinomial(
        [found[a, b] + found[b, a] if a < b else 0 for a, b in pairs], [1 / 12] * 12
    )


@pytest.mark.parametrize("seeded", [True, False])
def test_which_items_a_user_brings_is_uniform(seeded: bool) -> None:
    """User 0 brings one of four items, each shared with one other; false alarms 1e-9."""
    rated, draws = [[0, 1, 2, 3], [0], [1], [2], [3]], 1500
    found = Counter(
        owners(expand(rated, mode="simulate", match_items=1, seed=seed))[0][0]
        for seed in (range(draws) if seeded else [None] * draws)
    )
    assert fits_multinomial([found[user] for user in range(1, 5)], [1 / 4] * 4)


@pytest.mark.parametrize("pairs", [1, 7, 40])
def test_the_order_does_not_depend_on_how_many_users_are_sorted_at_once(
    pairs: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = expand(mode="simulate", most_neighbours=6)
    monkeypatch.setattr(expansion, "_ORDERED_PAIRS", pairs)
    pieces = expand(mode="simulate", most_neighbours=6)
    assert pieces.starts.tobytes() == whole.starts.tobytes()
    assert pieces.embeddings.tobytes() == whole.embeddings.tobytes()


def test_coins_belong_to_a_user_so_that_a_newcomer_changes_nobodys() -> None:
    """She brings an item of her own, and comes last."""
    settings: dict[str, Any] = {
        "mode": "simulate",
        "match_items": 3,
        "most_neighbours": 2,
        "embedding_epsilon": 1.0,
    }
    before = expand(**settings)
    after = expand([*histories(), [99]], **settings)
    assert after.starts.tolist() == [*before.starts.tolist(), before.starts[-1]]
    assert after.embeddings.tobytes() == before.embeddings.tobytes()


def test_a_resumed_run_repeats_items_and_noise_and_another_run_does_not() -> None:
    """Without a seed all of it follows from stored keys; only the order is the matcher's own."""
    settings: dict[str, Any] = {
        "mode": "simulate",
        "match_items": 2,
        "embedding_epsilon": 1.0,
        "seed": None,
    }
    first, resumed, other, second = (
        expand(run=KnownKeysRun(secret), number=number, **settings)
        for secret, number in ((1, 0), (1, 0), (2, 0), (1, 1))
    )
    assert np.array_equal(first.starts, resumed.starts)
    assert vectors(first) == vectors(resumed)
    assert not vectors(first) & vectors(other)
    assert not vectors(first) & vectors(second)


def vectors(found: Any) -> set[bytes]:
    """All distinct embeddings that were handed on."""
    return {row.tobytes() for row in found.embeddings}


# --- payloads


@modes
def test_what_arrives_is_the_embedding_rounded_to_the_grid(mode: str) -> None:
    given = np.random.default_rng(3).normal(0, 0.3, (3, DIM))
    found = expand([[0], [0], []], given, mode=mode, frac_bits=12)
    assert np.array_equal(found.embeddings, np.rint(given[[1, 0]] * 4096) / 4096)
    assert np.abs(found.embeddings - given[[1, 0]]).max() <= 2.0**-13


def test_noise_has_the_scale_that_epsilon_asks_for() -> None:
    """One value in 20,000 coordinates under a scale of 1: their mean square is 2, sd 0.032.

    The fourth moment of the law is 24, so that the mean square has variance 20 / 20,000; seven
    standard deviations on either side.
    """
    given = np.full((4, 5000), 0.25)
    found = expand([[0], [0], [0], [0]], given, mode="simulate", embedding_epsilon=1.0)
    noise = found.embeddings[found.starts[0] : found.starts[1]]
    distinct = np.concatenate([noise, found.embeddings[found.starts[1] :]])
    rows = np.unique(distinct, axis=0) - 0.25
    assert rows.shape == (4, 5000)
    spread, width = float(np.mean(rows**2)), 7 * (20 / 20_000) ** 0.5
    assert abs(spread - 2.0) < width
    assert abs(spread * 0.8 - 2.0) > width  # noise ten percent too small is caught


def test_under_noise_a_coordinate_is_clipped() -> None:
    given = np.array([[9.0, -9.0, 0.0]] * 3)
    found = expand([[0], [0], [0]], given, mode="simulate", embedding_epsilon=1e6, frac_bits=16)
    expected = np.array([EMBEDDING_CLIP, -EMBEDDING_CLIP, 0.0])
    assert np.abs(found.embeddings - expected).max() <= 40 * 2.0**-16


def test_one_noisy_vector_goes_to_all_receivers() -> None:
    found = expand(FIVE, embedding_epsilon=1.0)
    assert len(found.embeddings) == 20
    assert len(vectors(found)) == 5


@pytest.mark.parametrize("wrong", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("epsilon", [None, 1.0])
def test_an_embedding_that_is_not_finite_is_refused(wrong: float, epsilon: float | None) -> None:
    given = embeddings()
    given[3, 1] = wrong
    with pytest.raises(DivergenceError, match="not finite"):
        expand(given=given, mode="simulate", embedding_epsilon=epsilon)


def test_an_embedding_beyond_the_grid_is_refused() -> None:
    given = embeddings()
    given[3, 1] = -(2.0**54)
    with pytest.raises(DivergenceError, match="8 fractional bits"):
        expand(given=given, mode="simulate")
    given[3, 1] = -(2.0**53)
    assert -(2.0**53) in expand(given=given, mode="simulate").embeddings


def test_a_grid_too_coarse_for_the_clip_is_refused() -> None:
    with pytest.raises(ParameterError, match="clip must be between 1 and"):
        embedding_noise(RatingConfig(embedding_epsilon=1.0, frac_bits=0))
    assert EmbeddingGrid.of(RatingConfig(frac_bits=0)).noise is None


# --- traffic and figures


def test_traffic_is_what_the_party_objects_send() -> None:
    """Payloads of one coordinate have the eight bytes of the sessions in the tests of matching."""
    rated = histories()
    network = LocalNetwork()
    found = expand(rated, embeddings(dim=1), network=network, most_neighbours=4)
    sets = {str(user): items for user, items in enumerate(rated)}
    session = Session(sets, items=8, max_neighbours=4, min_users=3).collect_all()
    weight = Counter(
        {
            "matching.terms": (2 * USERS + 1) * len(session.terms.to_bytes()),
            "matching.ticket": 2 * USERS * 104,
        }
    )
    for name, client in session.clients.items():
        weight["matching.upload"] += len(session.uploads[name].to_bytes())
        weight["matching.blinded"] += len(session.requests[name].to_bytes())
        assert client.phase.value == "uploaded"
    # An evaluation is as many elements and a proof of 64 bytes with its header.
    weight["matching.evaluated"] = weight["matching.blinded"] + USERS * 68
    for _, answer in session.matcher.match():
        weight["matching.neighbours"] += len(answer.to_bytes())
    assert {kind: one.bytes for kind, one in network.traffic.items()} == weight
    assert found.figures["bytes"] == network.bytes == sum(weight.values())
    assert found.figures["messages"] == network.messages == 8 * USERS + 1
    assert network.round == 5


def test_lengths_are_those_of_the_protocols_page() -> None:
    """20 items and payloads of 128 bytes, as the table in docs/protocols/matching.md has them."""
    network = LocalNetwork()
    expand(FIVE, np.zeros((5, 16)), network=network, match_items=20, most_neighbours=2)
    assert {kind: one.bytes / one.messages for kind, one in network.traffic.items()} == {
        "matching.terms": 81,
        "matching.blinded": 696,
        "matching.evaluated": 764,
        "matching.ticket": 104,
        "matching.upload": 505,
        "matching.neighbours": 65 + 2 * 128,
    }


def test_simulate_sends_nothing() -> None:
    network = LocalNetwork()
    found = expand(mode="simulate", network=network)
    assert network.messages == network.round == 0
    assert found.figures["messages"] == found.figures["bytes"] == 0
    assert "simulated, so that nothing was sent" in found.describe()


@modes
def test_the_description_states_sizes_quota_and_who_learns(mode: str) -> None:
    found = expand(mode=mode, most_neighbours=7)
    text = "\n".join(found.describe())
    alone = sum(not mine for mine in sharing(histories()))
    for part in (
        "24 users (at least 3 are needed) matched on 8 items each",
        "fewer than 2 holders",
        "quota: 8 evaluations for each user",
        f"{len(found.embeddings):,} embeddings of 3 coordinates in 24 bytes",
        "at most 7 to a user",
        f"{alone} users have no neighbour",
        "the matcher: user-token graph",
        "the recommender (key holder): who takes part",
    ):
        assert part in text


# --- refusals


@modes
@pytest.mark.parametrize(
    ("users", "settings", "crowd"),
    [(2, {}, 3), (7, {"min_cohort": 8}, 8), (7, {"min_group": 9}, 9), (0, {}, 3)],
)
def test_too_few_users_are_refused_and_nothing_is_sent(
    mode: str, users: int, settings: dict[str, Any], crowd: int
) -> None:
    network = LocalNetwork()
    with pytest.raises(AbortError, match=f"{users} users .* at least {crowd} are needed") as caught:
        expand([[0]] * users, mode=mode, network=network, **settings)
    assert "lower min_cohort" in caught.value.remedy
    assert network.messages == 0


@pytest.mark.parametrize(
    "given",
    [np.zeros((USERS, 3), dtype=np.float32), np.zeros(USERS), np.zeros((USERS, 0))],
    ids=["dtype", "one axis", "no coordinate"],
)
def test_arrays_that_are_no_embeddings_are_refused(given: Any) -> None:
    with pytest.raises(ParameterError, match="embeddings must be float64"):
        expand(given=given)


def test_ratings_of_a_user_without_an_embedding_are_refused() -> None:
    with pytest.raises(ParameterError, match="ratings of user 4, but 4 embeddings"):
        expand(FIVE, embeddings(4))
    assert triples(FIVE).users[-1] == 4
    assert CONFIG.min_cohort <= 4
