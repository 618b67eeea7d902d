"""Ratings by users' stars: as the reference has them, fallbacks, and whatever else is asked."""

from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from recsys.data.ratings import Triples
from recsys.models.star_devices import unflat
from recsys.models.star_model import StarModel
from recsys.models.star_scorer import StarScorer
from tests.recsys.models.star_cases import (
    NETWORKS,
    WAYS,
    client_of,
    model_of,
    reference_of,
)
from tests.recsys.models.test_star_devices import ITEMS, RATINGS, USERS, arrays_of

PAIRS = tuple(part.reshape(-1).astype(np.int32) for part in np.indices((USERS, ITEMS)))
"""Every user with every item."""


def named(way: dict[str, Any]) -> str:
    return "-".join(map(str, way.values()))


def some(*indices: int) -> NDArray[np.int32]:
    return np.array(indices, dtype=np.int32)


def scorer_of(model: StarModel, ratings: Triples = RATINGS) -> StarScorer:
    return StarScorer(model, ratings, USERS)


def expected_score(model: StarModel, gnn: str, user: int, item: int) -> float:
    """By the plain reference, with the whole star or, for what is on it, as training did."""
    arrays = arrays_of(model)
    inputs = scorer_of(model).devices.inputs(some(user), arrays)
    client, reference = client_of(inputs, 0), reference_of(gnn, model)
    mine = RATINGS.part(RATINGS.users == user)
    if item in mine.items:
        at = mine.items.tolist().index(item)
        return float(mine.values[at] - reference.errors(client)[at].item())
    row = torch.from_numpy(arrays["items"][item])
    return float(arrays["mean"][0] + reference.predicted(client, row[:-1], row[-1]).item())


@pytest.mark.parametrize("way", WAYS, ids=named)
@pytest.mark.parametrize("gnn", NETWORKS)
def test_every_score_is_that_of_the_reference(gnn: str, way: dict[str, Any]) -> None:
    """What is on a star without its own rating where the model can, all else by the whole star."""
    model = model_of(gnn, neighbours="fixed", **way)
    found = scorer_of(model).score(arrays_of(model), *PAIRS)
    for score, user, item in zip(found, *PAIRS, strict=True):
        if user != 1:
            expected = expected_score(model, gnn, int(user), int(item))
            assert score == pytest.approx(expected, abs=1e-9)


def test_a_rating_on_the_star_has_no_part_in_its_score() -> None:
    model = model_of("gat")
    changed = RATINGS.values.copy()
    changed[4] += 1.0  # user 3, item 2
    other = Triples(RATINGS.users, RATINGS.items, changed)
    before, after = (
        scorer_of(model, one).score(arrays_of(model), *PAIRS) for one in (RATINGS, other)
    )
    moved = np.flatnonzero(np.abs(after - before) > 1e-9).tolist()
    assert moved == [3 * ITEMS + item for item in range(ITEMS) if item != 2]


@pytest.mark.parametrize("way", WAYS[:2], ids=named)
def test_what_is_unknown_is_left_out(way: dict[str, Any]) -> None:
    """Mean and one bias, or the mean; who rated nothing is as unknown as who is not there."""
    model = model_of("gcn", **way)
    arrays, scorer = arrays_of(model), scorer_of(model)
    mean, biases = arrays["mean"][0], arrays["items"][:, -1]
    found = scorer.score(arrays, some(-1, 1, -1, 1, 3), some(2, 2, -1, -1, -1))
    assert found[:4] == pytest.approx([mean + biases[2], mean + biases[2], mean, mean])
    inputs = scorer.devices.inputs(some(3), arrays)
    own = float(model.represent(inputs).biases[0])
    assert found[4] == pytest.approx(mean + own)
    assert own != 0
    # User 3 has the last item on her star, which is next to what is unknown of user 4.
    pair = scorer.score(arrays, some(3, 4), some(ITEMS - 1, -1))
    assert pair[1] == scorer.score(arrays, some(4), some(-1))[0]


def test_no_pair_no_score() -> None:
    model = model_of("gcn")
    assert scorer_of(model).score(arrays_of(model), some(), some()).size == 0
    assert scorer_of(model).score(arrays_of(model), some(1), some(0)).size == 1


@pytest.mark.parametrize("rows", [1, 5, 1 << 15])
def test_scores_do_not_depend_on_what_else_is_asked(
    rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In any order, repeated, with unknown ones between, and any number of users at a time."""
    model = model_of("ggnn", neighbours="fixed")
    arrays, scorer = arrays_of(model), scorer_of(model)
    whole = scorer.score(arrays, *PAIRS)
    order = np.random.default_rng(0).integers(0, whole.size, 2 * whole.size)
    monkeypatch.setattr("recsys.models.star_scorer._ROWS", rows)
    users, items = (np.insert(part[order], [3, 20], -1) for part in PAIRS)
    found = np.delete(scorer.score(arrays, users, items), [3, 21])
    assert found == pytest.approx(whole[order], abs=1e-12)


def test_tables_are_the_ratings_and_come_back() -> None:
    model = model_of("gcn")
    scorer = scorer_of(model)
    tables = scorer.tables
    assert set(tables) == {"users", "items", "values", "n_users"}
    again = StarScorer.stored(model, tables)
    assert np.array_equal(
        again.score(arrays_of(model), *PAIRS), scorer.score(arrays_of(model), *PAIRS)
    )
    with pytest.raises(KeyError):
        StarScorer.stored(model, {name: tables[name] for name in ("users", "items", "values")})


def test_scores_follow_arrays_that_change_in_place() -> None:
    model = model_of("gcn")
    arrays, scorer = arrays_of(model), scorer_of(model)
    before = scorer.score(arrays, *PAIRS)
    unflat(arrays["weights"], model.shapes())["convolution"][:] *= 2
    assert not np.array_equal(scorer.score(arrays, *PAIRS), before)
