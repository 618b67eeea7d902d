"""SVD++: scored as the library scores, trained in one epoch, and no coin but the seed's."""

import numpy as np
import pytest
from surprise import SVDpp as Trainer
from surprise import Trainset

import recsys.baselines.svdpp as module
from recsys.baselines.svdpp import SVDpp, SVDppLearner
from recsys.data.rating_split import split_ratings
from recsys.errors import DivergenceError
from recsys.simulation import SimulationRng
from tests.recsys.baselines.cases import ITEMS, USERS, config, low_rank, model


def test_every_rating_is_the_librarys_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """Known or not: the library's estimate over the whole table, and for users and items beyond."""
    kept = []

    class Kept(Trainer):  # type: ignore[misc]
        def fit(self, trainset: Trainset) -> "Kept":
            kept.append(self)
            super().fit(trainset)
            return self

    monkeypatch.setattr(module, "Trainer", Kept)
    found = model("svdpp", epochs=5).fit(low_rank())
    (trainer,) = kept
    users, items = (part.reshape(-1).astype(np.int32) for part in np.indices((USERS, ITEMS)))
    arrays, scorer = found.files.arrays, found.learner_.scorer
    train = found.parts_.train
    expected = [
        trainer.estimate(
            int(u) if u in train.users else "unknown", int(i) if i in train.items else "unknown"
        )
        for u, i in zip(users, items, strict=True)
    ]
    assert scorer.score(arrays, users, items) == pytest.approx(expected, abs=1e-12)


def test_one_epoch_is_the_whole_training() -> None:
    found = model("svdpp", epochs=7).fit(low_rank())
    assert len(found.history_) == 1
    train, score = found.parts_.train, found.learner_.scorer.score
    errors = train.values - score(found.files.arrays, train.users, train.items)
    assert found.history_[0].loss == pytest.approx(np.mean(errors**2))


def test_more_epochs_fit_the_training_part_better() -> None:
    few, many = (model("svdpp", epochs=n).fit(low_rank()).history_[0].loss for n in (5, 60))
    assert many < few - 0.05


def test_numpys_own_generator_is_left_alone() -> None:
    """The library falls back on it where it is given no seed."""
    np.random.seed(11)  # noqa: NPY002
    before = np.random.get_state()[1].copy()  # type: ignore[index]  # noqa: NPY002
    model("svdpp", epochs=1).fit(low_rank())
    after = np.random.get_state()[1]  # type: ignore[index]  # noqa: NPY002
    assert np.array_equal(before, after)


def test_what_a_user_rated_counts_and_not_only_how() -> None:
    """Her row is p_u and the mean of what her items say of her, scaled by the root of their number.

    Without any step all y_j keep their start, so the sum can be told from the library's own draw.
    """
    settings = config("svdpp", epochs=1, learning_rate=1e-300, dim=2, init_scale=1.0)
    parts = split_ratings(low_rank(), settings.split, SimulationRng(0))
    made = SVDppLearner(parts, settings, SimulationRng(0))
    made.epoch(0)
    drawn = np.random.RandomState(made._seed)
    p, _, y = (drawn.normal(0, 1, (size, 2)) for size in (USERS, ITEMS, ITEMS))
    for user in (0, 17):
        mine = parts.train.items[parts.train.users == user]
        expected = p[user] + y[mine].sum(axis=0) / np.sqrt(mine.size)
        assert made.state["users"][user, :-1] == pytest.approx(expected)


def test_a_learning_rate_far_too_large_is_divergence() -> None:
    with pytest.raises(DivergenceError, match="training diverged in epoch 1"):
        SVDpp(config("svdpp", learning_rate=100.0)).fit(low_rank())
