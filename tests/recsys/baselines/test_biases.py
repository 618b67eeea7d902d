"""Constants and biases: values by hand, the exact optimum, fallbacks, storage, resuming."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mpc.core.errors import ParameterError
from recsys.baselines.biases import PENALTY, Biases
from recsys.data.ratings import RatingParts
from recsys.ratings.config import MEANS, RatingConfig
from tests.recsys.baselines.cases import low_rank
from tests.recsys.rating_worlds import world
from tests.recsys.worlds import KeepingRun

# User 2 and item 3 are in no training rating.
TRAIN = [(0, 0, 5.0), (0, 1, 3.0), (1, 0, 4.0), (1, 1, 1.0), (1, 2, 1.0), (3, 0, 4.0)]
TEST = [(2, 0, 4.0), (0, 3, 3.0)]


def by_hand() -> RatingParts:
    return world(TRAIN, test=TEST, users=4, items=4)


def fitted(model: str, **changes: Any) -> Biases:
    return Biases(RatingConfig(model=model, seed=0, epochs=1, **changes)).fit(by_hand())


def test_the_global_mean_answers_everything() -> None:
    found = fitted("global-mean").predict([("u0", "i0"), ("u2", "i3"), ("nobody", "nothing")])
    assert found.value == pytest.approx([3.0, 3.0, 3.0])


def test_the_mean_of_a_user_is_hers_alone_and_not_shrunk() -> None:
    found = fitted("user-mean", penalty=7.0)
    told = found.predict([("u0", "i3"), ("u1", "i0"), ("u3", "i1"), ("u2", "i0")]).value
    assert told == pytest.approx([4.0, 2.0, 4.0, 3.0])


@pytest.mark.parametrize("penalty", [None, 0.5, 20.0])
def test_biases_are_the_exact_optimum(penalty: float | None) -> None:
    """Of the squared error plus penalty times all squared biases, by one dense linear system."""
    found = fitted("bias", penalty=penalty)
    weight = PENALTY if penalty is None else penalty
    design, target = np.zeros((len(TRAIN), 8)), np.zeros(len(TRAIN))
    for row, (user, item, value) in enumerate(TRAIN):
        design[row, [user, 4 + item]] = 1
        target[row] = value - 3.0
    expected = np.linalg.solve(design.T @ design + weight * np.eye(8), design.T @ target)
    arrays = found.files.arrays
    biases = np.concatenate([arrays["user_bias"], arrays["item_bias"]])
    assert biases == pytest.approx(expected, abs=1e-8)


def test_further_epochs_change_nothing_to_speak_of() -> None:
    once, often = (
        Biases(RatingConfig(model="bias", seed=0, epochs=epochs)).fit(low_rank())
        for epochs in (1, 9)
    )
    for name, array in once.files.arrays.items():
        assert often.files.arrays[name] == pytest.approx(array, abs=1e-7)


def test_each_answers_better_than_the_one_before() -> None:
    found = [
        Biases(RatingConfig(model=model, seed=0)).fit(low_rank())
        for model in ("global-mean", "user-mean", "bias")
    ]
    errors = [fit.evaluate(fit.parts_.test) or 0.0 for fit in found]
    assert errors[0] > errors[1] + 0.02 > errors[2] + 0.04


def test_unknown_users_and_items_leave_out_their_bias() -> None:
    found = fitted("bias")
    arrays = found.files.arrays
    told = found.predict([("nobody", "i0"), ("u1", "nothing"), ("nobody", "nothing")])
    expected = [3.0 + arrays["item_bias"][0], 3.0 + arrays["user_bias"][1], 3.0]
    assert told.value == pytest.approx(expected)
    assert told.fallbacks == 3
    cold = found.predict([("u2", "i0"), ("u1", "i3"), ("u2", "i3")])
    assert np.array_equal(cold.value, told.value)
    assert cold.fallbacks == 3


def test_recommending_to_who_rated_nothing_goes_by_the_items() -> None:
    found = fitted("bias")
    order = np.argsort(-found.files.arrays["item_bias"], kind="stable")
    assert [entry.item for entry in found.recommend("u2", k=4)] == [f"i{item}" for item in order]
    assert [entry.item for entry in found.recommend("u1", k=4)] == ["i3"]


def test_no_rating_to_test_on_is_no_figure() -> None:
    found = Biases(RatingConfig(model="bias", seed=0)).fit(world(TRAIN, test=[], users=4, items=4))
    assert found.evaluate(found.parts_.test) is None


def test_a_saved_model_comes_back_and_users_keep_their_own(tmp_path: Path) -> None:
    found = fitted("bias")
    found.save(tmp_path)
    again = Biases.load(tmp_path)
    assert again.model_digest == found.model_digest
    assert np.array_equal(again.predict([("u0", "i1")]).value, found.predict([("u0", "i1")]).value)
    with np.load(tmp_path / "recommender" / "model.npz") as held:
        assert {name for name in held.files if name.startswith("model.")} == {
            "model.mean",
            "model.item_bias",
        }


@pytest.mark.parametrize("model", MEANS)
def test_resuming_gives_the_same_digest(model: str) -> None:
    run, config = KeepingRun(), RatingConfig(model=model, epochs=3)
    whole = Biases(config).fit(low_rank(), run=run)
    for snapshot in run.snapshots:
        resumed = Biases(config).fit(low_rank(), run=KeepingRun(snapshot))
        assert resumed.model_digest == whole.model_digest


def test_another_model_is_refused() -> None:
    with pytest.raises(ParameterError, match="Biases trains global-mean or user-mean or bias"):
        Biases(RatingConfig(model="pmf"))
