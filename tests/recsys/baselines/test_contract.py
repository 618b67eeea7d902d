"""What every baseline with factors promises: it learns, falls back, is stored and resumes."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mpc.core.errors import ParameterError
from recsys.baselines.biases import Biases
from recsys.data.ratings import Ratings
from recsys.ratings.config import RatingConfig
from recsys.ratings.model import RatingModel
from recsys.ratings.search import START
from tests.recsys.baselines.cases import (
    CASES,
    COLD_ITEM,
    COLD_USER,
    ITEMS,
    ITERATIVE,
    USERS,
    low_rank,
    model,
)
from tests.recsys.worlds import KeepingRun


@pytest.fixture(scope="module", params=CASES)
def trained(request: pytest.FixtureRequest) -> RatingModel:
    """Each case, trained once for all tests of this module."""
    return model(request.param).fit(low_rank())


def test_it_beats_two_biases_by_far(trained: RatingModel) -> None:
    """The noise has a deviation of .2, two biases leave more than .7."""
    biases = Biases(RatingConfig(model="bias", seed=0, penalty=1.0)).fit(low_rank())
    known = trained.parts_.test.part(trained.parts_.test.items != COLD_ITEM)
    of_biases, of_factors = biases.evaluate(known), trained.evaluate(known)
    assert of_biases is not None
    assert of_factors is not None
    assert of_biases > 0.7
    assert of_factors < 0.5


def test_a_rating_is_mean_biases_and_product(trained: RatingModel) -> None:
    arrays, parts = trained.files.arrays, trained.parts_
    p, q = arrays["users"], arrays["items"]
    table = arrays["mean"] + p[:, :-1] @ q[:, :-1].T + p[:, -1:] + q[:, -1]
    users, items = (part.reshape(-1).astype(np.int32) for part in np.indices((USERS, ITEMS)))
    found = trained.score(users, items).reshape(USERS, ITEMS)
    assert found == pytest.approx(np.clip(table, parts.low, parts.high))


def test_what_is_unknown_is_left_out(trained: RatingModel) -> None:
    """Mean + item bias, mean + user bias, the mean; a user or item without ratings likewise."""
    arrays, parts = trained.files.arrays, trained.parts_
    mean = arrays["mean"][0]
    asked = [("nobody", "i3"), ("u5", "nothing"), ("nobody", "nothing")]
    cold = [(f"u{COLD_USER}", "i3"), ("u5", f"i{COLD_ITEM}"), (f"u{COLD_USER}", f"i{COLD_ITEM}")]
    expected = [mean + arrays["items"][3, -1], mean + arrays["users"][5, -1], mean]
    for pairs in (asked, cold):
        found = trained.predict(pairs)
        assert found.value == pytest.approx(np.clip(expected, parts.low, parts.high))
        assert found.fallbacks == 3
    assert trained.predict([("u5", "i3")]).fallbacks == 0


def test_who_rated_nothing_has_no_row(trained: RatingModel) -> None:
    arrays = trained.files.arrays
    assert not arrays["users"][COLD_USER].any()
    assert not arrays["items"][COLD_ITEM].any()


def test_a_saved_model_comes_back_as_it_was(trained: RatingModel, tmp_path: Path) -> None:
    trained.save(tmp_path)
    again = type(trained).load(tmp_path)
    assert again.model_digest == trained.model_digest
    asked = [("u1", "i3"), ("nobody", "i3"), ("u1", "nothing")]
    assert np.array_equal(again.predict(asked).value, trained.predict(asked).value)
    assert again.recommend("u1", k=4) == trained.recommend("u1", k=4)


@pytest.mark.parametrize("name", ITERATIVE)
def test_resuming_at_every_epoch_gives_the_same_digest(name: str) -> None:
    run = KeepingRun()
    settings = {"seed": None, "epochs": 4, "patience": 4}
    whole = model(name, **settings).fit(low_rank(), run=run)
    assert len(run.snapshots) == 4
    for snapshot in run.snapshots:
        resumed = model(name, **settings).fit(low_rank(), run=KeepingRun(snapshot))
        assert resumed.model_digest == whole.model_digest
        assert resumed.history_ == whole.history_


@pytest.mark.parametrize("name", CASES)
def test_the_seed_decides(name: str) -> None:
    first, same, other = (
        model(name, seed=seed, epochs=2).fit(low_rank()).model_digest for seed in (3, 3, 4)
    )
    assert first == same
    assert first != other


@pytest.mark.parametrize("name", ["pmf", "grals", "fcf", "fedmf"])
def test_without_centring_the_mean_is_zero(name: str) -> None:
    found = model(name, center=False, epochs=2).fit(low_rank())
    assert found.files.arrays["mean"] == [0.0]


@pytest.mark.parametrize("name", ["grals", "fcf", "fedmf"])
def test_without_biases_there_are_none(name: str) -> None:
    found = model(name, bias=False, epochs=3).fit(low_rank())
    assert not found.files.arrays["users"][:, -1].any()
    assert not found.files.arrays["items"][:, -1].any()
    assert found.files.arrays["users"][:, :-1].any()


@pytest.mark.parametrize("name", ["svdpp", "grals", "fcf", "fedmf"])
def test_without_factors_it_is_two_biases(name: str) -> None:
    """Not the same ones, but no worse than by .05."""
    found = model(name, dim=0).fit(low_rank())
    biases = Biases(RatingConfig(model="bias", seed=0)).fit(low_rank())
    known = found.parts_.test.part(found.parts_.test.items != COLD_ITEM)
    of_biases, measured = biases.evaluate(known), found.evaluate(known)
    assert of_biases is not None
    assert measured == pytest.approx(of_biases, abs=0.05)


@pytest.mark.parametrize("name", ["grals", "fcf", "fedmf"])
def test_a_ridge_needs_a_penalty(name: str) -> None:
    with pytest.raises(ParameterError, match="penalty must be positive"):
        model(name, penalty=0.0).fit(low_rank())


@pytest.mark.parametrize("name", CASES)
def test_none_takes_what_the_search_begins_with(name: str) -> None:
    given: dict[str, Any] = {
        "model": name,
        "seed": 0,
        "epochs": 2,
        "mode": "simulate",
        "cohort": 20,
    }
    start: dict[str, Any] = {
        key: START[name][key] for key in ("learning_rate", "penalty") if key in START[name]
    }
    cls = CASES[name][0]
    silent = cls(RatingConfig(**given)).fit(low_rank())
    told = cls(RatingConfig(**given, **start)).fit(low_rank())
    assert silent.model_digest == told.model_digest


def test_the_set_is_as_it_says() -> None:
    data: Ratings = low_rank()
    assert data.test is not None
    assert COLD_USER not in data.triples.users
    assert data.test[data.triples.items == COLD_ITEM].all()
