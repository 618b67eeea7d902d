"""The built-in rating set: reproducible, of the size asked for, and with something to learn."""

from typing import Any

import numpy as np
import pytest

from mpc.core.errors import ParameterError
from recsys.baselines.biases import Biases
from recsys.data.rating_split import SplitConfig, split_ratings
from recsys.data.ratings import Floats, Indices, RatingParts, Ratings
from recsys.data.synthetic_ratings import SyntheticRatingsConfig, synthetic_ratings
from recsys.ratings.config import RatingConfig
from recsys.ratings.model import rmse
from recsys.simulation import SimulationRng

RATINGS = synthetic_ratings()


def same(one: Ratings, other: Ratings) -> bool:
    return all(
        np.array_equal(getattr(one.triples, name), getattr(other.triples, name))
        for name in ("users", "items", "values")
    )


def test_the_same_config_is_the_same_set() -> None:
    assert same(RATINGS, synthetic_ratings(SyntheticRatingsConfig()))
    assert not same(RATINGS, synthetic_ratings(SyntheticRatingsConfig(seed=1)))


def test_its_form() -> None:
    t = RATINGS.triples
    assert (RATINGS.n_users, RATINGS.n_items) == (600, 400)
    assert RATINGS.user_ids[:2] == ("u0", "u1")
    assert RATINGS.item_ids[:2] == ("i0", "i1")
    assert set(t.values.tolist()) == {1.0, 2.0, 3.0, 4.0, 5.0}
    assert (RATINGS.low, RATINGS.high, RATINGS.test) == (1, 5, None)
    assert t.users.dtype == t.items.dtype == np.int32
    assert (np.diff(t.users.astype(np.int64) * 400 + t.items) > 0).all(), "each pair once, sorted"
    assert 36 < len(t) / 600 < 44
    assert set(t.users.tolist()) == set(range(600)), "everyone rates something"


def test_popularity_is_skewed() -> None:
    count = np.sort(np.bincount(RATINGS.triples.items, minlength=400))
    assert count[-40:].sum() > 0.25 * count.sum(), "a tenth of the items, evenly .1"
    assert count[-1] > 4 * np.median(count)


def test_users_who_join_change_nothing_for_the_others() -> None:
    small, large = (synthetic_ratings(SyntheticRatingsConfig(users=users)) for users in (50, 120))
    others = large.triples.part(large.triples.users < 50)
    assert np.array_equal(small.triples.items, others.items)
    assert np.array_equal(small.triples.values, others.values)


def ridge(index: Indices, x: Floats, y: Floats, size: int) -> Floats:
    """Weights (size, d) that fit each index's rows by ridge regression."""
    out = np.zeros((size, x.shape[1]))
    for at in range(size):
        mine = index == at
        gram = x[mine].T @ x[mine] + 3 * np.eye(x.shape[1])
        out[at] = np.linalg.solve(gram, x[mine].T @ y[mine])
    return out


def factors(parts: RatingParts, bias: Floats) -> float | None:
    """RMSE on test of two factors fitted to what the biases leave, by alternating regressions."""
    train, test = parts.train, parts.test
    rest = train.values - bias[: len(train)]
    traits = SimulationRng(5).generator("start").normal(size=(parts.n_items, 2))
    for _ in range(8):
        tastes = ridge(train.users, traits[train.items], rest, parts.n_users)
        traits = ridge(train.items, tastes[train.users], rest, parts.n_items)
    liking = (tastes[test.users] * traits[test.items]).sum(axis=1)
    return rmse(test, np.clip(bias[len(train) :] + liking, 1, 5))


@pytest.mark.parametrize("seed", range(3))
def test_factors_beat_biases_and_biases_beat_the_mean(seed: int) -> None:
    data = synthetic_ratings(SyntheticRatingsConfig(users=300, items=200, seed=seed))
    parts = split_ratings(data, SplitConfig(validation_fraction=0), SimulationRng(seed))
    errors = {}
    for model in ("global-mean", "bias"):
        fitted = Biases(RatingConfig(model=model, epochs=1, seed=0)).fit(parts)
        errors[model] = fitted.evaluate(parts.test)
    pairs = (parts.train, parts.test)
    bias = np.concatenate([fitted.score(part.users, part.items) for part in pairs])
    errors["factors"] = factors(parts, bias)
    assert errors["bias"] is not None
    assert errors["factors"] is not None
    assert errors["global-mean"] is not None
    assert errors["bias"] < errors["global-mean"] - 0.05, errors
    assert errors["factors"] < errors["bias"] - 0.1, errors


@pytest.mark.parametrize(
    "config",
    [
        SyntheticRatingsConfig(users=1, items=1),
        SyntheticRatingsConfig(users=3, items=5, per_user=5),
        SyntheticRatingsConfig(users=40, items=2, per_user=1.5),
    ],
)
def test_tiny_sets(config: SyntheticRatingsConfig) -> None:
    data = synthetic_ratings(config)
    assert (data.n_users, data.n_items) == (config.users, config.items)
    assert set(data.triples.users.tolist()) == set(range(config.users))


def test_a_mean_near_one_is_met() -> None:
    data = synthetic_ratings(SyntheticRatingsConfig(users=5_000, items=50, per_user=1.4))
    assert len(data.triples) / 5_000 == pytest.approx(1.4, abs=0.05)


@pytest.mark.parametrize(
    "settings",
    [
        {"users": 0},
        {"users": True},
        {"users": 10**6 + 1},
        {"items": 0},
        {"users": 10**5, "items": 10**5},
        {"per_user": 0.5},
        {"per_user": 401},
        {"per_user": float("nan")},
        {"per_user": "many"},
        {"seed": -1},
        {"seed": 2**64},
    ],
)
def test_sizes_out_of_range_are_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(ParameterError):
        SyntheticRatingsConfig(**settings)
