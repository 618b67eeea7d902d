"""Parts of a rating set: coins of their own, and who is left with nothing to train on (O26)."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from mpc.core.errors import ParameterError
from recsys.baselines.biases import Biases
from recsys.data.rating_split import SplitConfig, split_ratings
from recsys.data.ratings import RatingParts, Ratings, Triples
from recsys.data.synthetic_ratings import SyntheticRatingsConfig, synthetic_ratings
from recsys.ratings.config import RatingConfig
from recsys.simulation import SimulationRng

DATA = synthetic_ratings(SyntheticRatingsConfig(users=200, items=100))


def ratings(pairs: list[tuple[int, int, float]], test: list[bool] | None = None) -> Ratings:
    users, items, values = zip(*pairs, strict=True)
    return Ratings(
        name="small",
        triples=Triples(
            np.array(users, dtype=np.int32), np.array(items, dtype=np.int32), np.array(values)
        ),
        test=None if test is None else np.array(test),
        user_ids=tuple(f"u{n}" for n in range(max(users) + 1)),
        item_ids=tuple(f"i{n}" for n in range(max(items) + 1)),
        low=1,
        high=5,
        notes=("from the file",),
    )


def split(data: Ratings, seed: int = 0, **settings: Any) -> RatingParts:
    return split_ratings(data, SplitConfig(**settings), SimulationRng(seed))


def keys(part: Triples) -> set[tuple[int, int]]:
    return set(zip(part.users.tolist(), part.items.tolist(), strict=True))


def test_every_rating_is_in_one_part_and_each_part_is_sorted() -> None:
    parts = split(DATA, validation_fraction=0.2, test_fraction=0.3)
    found = [keys(part) for part in (parts.train, parts.validation, parts.test)]
    assert sum(map(len, found)) == len(set.union(*found)) == len(DATA.triples)
    for part, share in ((parts.test, 0.3), (parts.validation, 0.7 * 0.2)):
        # 5 standard deviations of a binomial with this many ratings: a false alarm in 10^6 runs.
        n = len(DATA.triples)
        assert abs(len(part) - share * n) < 5 * np.sqrt(n * share * (1 - share))
        order = part.users.astype(np.int64) * 100 + part.items
        assert (np.diff(order) > 0).all()


def test_the_coins_are_the_seed_s() -> None:
    assert keys(split(DATA, 3).test) == keys(split(DATA, 3).test)
    assert keys(split(DATA, 3).test) != keys(split(DATA, 4).test)


def test_who_joins_behind_the_others_changes_nobody_s_parts() -> None:
    fewer = replace(
        DATA, triples=DATA.triples.part(DATA.triples.users < 120), user_ids=DATA.user_ids[:120]
    )
    small, large = split(fewer), split(DATA)
    for name in ("train", "validation", "test"):
        others = {pair for pair in keys(getattr(large, name)) if pair[0] < 120}
        assert keys(getattr(small, name)) == others


def test_the_published_test_part_is_kept_or_replaced() -> None:
    published = np.arange(len(DATA.triples)) % 5 == 0
    data = replace(DATA, test=published)
    kept = split(data)
    assert keys(kept.test) == keys(DATA.triples.part(published))
    assert kept.notes == ()
    drawn = split(data, published=False)
    assert keys(drawn.test) == keys(split(DATA).test)
    assert drawn.notes == ("the published test part is not used, another one is drawn",)


def test_o26_users_and_items_without_a_training_rating_are_counted() -> None:
    pairs = [(0, 0, 5.0), (0, 1, 4.0), (1, 0, 3.0), (2, 2, 1.0), (2, 3, 2.0)]
    parts = split(ratings(pairs, [False, False, False, True, True]), validation_fraction=0.0)
    assert parts.notes == (
        "from the file",
        "users without a training rating: 1 of 3, who have 2 of 2 test ratings",
        "items without a training rating: 2 of 4, which have 2 of 2 test ratings",
        "no rating is held out for validation",
    )
    assert (parts.n_users, parts.n_items) == (3, 4)


def test_o26_a_model_answers_for_all_of_them() -> None:
    pairs = [(0, 0, 5.0), (0, 1, 4.0), (1, 0, 3.0), (2, 2, 1.0), (2, 0, 2.0)]
    data = ratings(pairs, [False, False, False, True, True])
    model = Biases(RatingConfig(model="bias", epochs=1, seed=0)).fit(data)
    assert model.evaluate(model.parts_.test) is not None
    told = model.predict([("u2", "i2"), ("u2", "new"), ("new", "i0"), ("new", "new")])
    assert np.isfinite(told.value).all()
    assert told.fallbacks == 4


def test_o26_all_for_training_and_nothing_to_test() -> None:
    parts = split(DATA, test_fraction=0, validation_fraction=0)
    assert len(parts.train) == len(DATA.triples)
    assert parts.notes == (
        "no rating is held out for validation",
        "no rating is held out for test",
    )
    model = Biases(RatingConfig(model="bias", epochs=1, seed=0)).fit(parts)
    assert model.evaluate(parts.test) is None


def test_one_rating_is_in_some_part() -> None:
    seen = set()
    for seed in range(60):
        parts = split(ratings([(0, 0, 3.0)]), seed, validation_fraction=0.3, test_fraction=0.3)
        seen.add((len(parts.train), len(parts.validation), len(parts.test)))
    assert seen == {(1, 0, 0), (0, 1, 0), (0, 0, 1)}


@pytest.mark.parametrize(
    "test", [np.zeros(3, dtype=np.bool_), np.zeros(len(DATA.triples), dtype=np.int64)]
)
def test_a_test_part_that_does_not_fit_is_refused(test: NDArray[Any]) -> None:
    with pytest.raises(ParameterError, match="test must be bool of shape"):
        split(replace(DATA, test=test))


@pytest.mark.parametrize(
    "settings",
    [
        {"validation_fraction": 1.0},
        {"validation_fraction": float("nan")},
        {"test_fraction": -0.1},
        {"test_fraction": True},
        {"test_fraction": "0.1"},
        {"published": 1},
    ],
)
def test_settings_that_are_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(ParameterError):
        split(DATA, **settings)
