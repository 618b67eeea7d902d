"""What every network promises: it learns, keeps apart what it may not see, is stored, resumes."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from mpc.core.errors import ParameterError
from recsys.baselines.biases import Biases
from recsys.data.rating_split import split_ratings
from recsys.data.ratings import RatingParts
from recsys.ratings.config import RatingConfig
from recsys.ratings.model import RatingModel
from recsys.ratings.search import START
from recsys.simulation import SimulationRng
from tests.recsys.baselines.cases import COLD_ITEM, COLD_USER, low_rank
from tests.recsys.baselines.networks import NETWORKS, PRODUCTS, few, network
from tests.recsys.worlds import KeepingRun


@pytest.fixture(scope="module", params=NETWORKS)
def trained(request: pytest.FixtureRequest) -> RatingModel:
    """Each network, trained once for all tests of this module."""
    return network(request.param).fit(low_rank())


def parts() -> RatingParts:
    return split_ratings(low_rank(), RatingConfig().split, SimulationRng(0))


def reversed_values(of: RatingParts, part: str) -> RatingParts:
    """The same pairs in ``part``, with the ratings of others."""
    triples = getattr(of, part)
    return replace(of, **{part: replace(triples, values=triples.values[::-1].copy())})


def test_it_beats_two_biases_by_far(trained: RatingModel) -> None:
    """The noise has a deviation of .2, two biases leave more than .7."""
    biases = Biases(RatingConfig(model="bias", seed=0, penalty=1.0)).fit(low_rank())
    known = trained.parts_.test.part(trained.parts_.test.items != COLD_ITEM)
    of_biases, of_network = biases.evaluate(known), trained.evaluate(known)
    assert of_biases is not None
    assert of_network is not None
    assert of_biases > 0.7
    assert of_network < 0.5


@pytest.mark.parametrize("name", NETWORKS)
def test_the_loss_is_the_mean_squared_error(name: str) -> None:
    """Of the samples as they were seen: here by parameters that hardly move."""
    found = network(name, epochs=1, dropout=0.0, learning_rate=1e-12).fit(low_rank())
    train = found.parts_.train
    arrays = found.learner_.state.arrays
    errors = train.values - found.learner_.scorer.score(arrays, train.users, train.items)
    assert found.history_[0].loss == pytest.approx(np.mean(errors**2), rel=1e-5)


@pytest.mark.parametrize("name", NETWORKS)
def test_ratings_of_the_test_part_change_nothing(name: str) -> None:
    seen = parts()
    models = [network(name, epochs=2).fit(data) for data in (seen, reversed_values(seen, "test"))]
    assert models[0].model_digest == models[1].model_digest
    control = network(name, epochs=2).fit(reversed_values(seen, "train"))
    assert control.model_digest != models[0].model_digest


@pytest.mark.parametrize("name", NETWORKS)
def test_ratings_of_the_validation_part_only_choose_the_epoch(name: str) -> None:
    seen = parts()
    first, second = (
        network(name, epochs=2).fit(data).learner_.state.arrays
        for data in (seen, reversed_values(seen, "validation"))
    )
    assert all(np.array_equal(first[array], second[array]) for array in first)


def test_what_is_unknown_falls_back_to_mean_and_biases(trained: RatingModel) -> None:
    """An id that nobody knows, and one without a training rating, alike."""
    arrays, seen = trained.files.arrays, trained.parts_
    mean, b, c = arrays["mean"][0], arrays["user_bias"][5], arrays["item_bias"][3]
    asked = [("nobody", "i3"), ("u5", "nothing"), ("nobody", "nothing")]
    cold = [(f"u{COLD_USER}", "i3"), ("u5", f"i{COLD_ITEM}"), (f"u{COLD_USER}", f"i{COLD_ITEM}")]
    for pairs in (asked, cold):
        found = trained.predict(pairs)
        expected = np.clip([mean + c, mean + b, mean], seen.low, seen.high)
        assert found.value == pytest.approx(expected, rel=1e-6)
        assert found.fallbacks == 3
    assert trained.predict([("u5", "i3")]).fallbacks == 0


def test_the_recommender_holds_everything(trained: RatingModel) -> None:
    assert trained.files.private == frozenset()


def test_a_saved_model_comes_back_as_it_was(trained: RatingModel, tmp_path: Path) -> None:
    trained.save(tmp_path)
    again = type(trained).load(tmp_path)
    assert again.model_digest == trained.model_digest
    asked = [("u1", "i3"), ("nobody", "i3"), ("u1", "nothing"), ("u7", "i9")]
    assert np.array_equal(again.predict(asked).value, trained.predict(asked).value)
    assert again.recommend("u1", k=4) == trained.recommend("u1", k=4)


def test_scores_follow_arrays_that_change_in_place(trained: RatingModel) -> None:
    scorer, pair = trained.learner_.scorer, np.array([1], dtype=np.int32)
    arrays = {name: array.copy() for name, array in trained.files.arrays.items()}
    before = scorer.score(arrays, pair, pair)
    for array in arrays.values():
        np.multiply(array, 0.5, out=array)
    after = scorer.score(arrays, pair, pair)
    assert after != before
    assert np.array_equal(scorer.score(trained.files.arrays, pair, pair), before)


@pytest.mark.parametrize("name", NETWORKS)
def test_resuming_at_every_epoch_gives_the_same_digest(name: str) -> None:
    run = KeepingRun()
    settings = {"seed": None, "epochs": 3, "patience": 3, "dropout": 0.2}
    whole = network(name, **settings).fit(low_rank(), run=run)
    assert len(run.snapshots) == 3
    for snapshot in run.snapshots:
        resumed = network(name, **settings).fit(low_rank(), run=KeepingRun(snapshot))
        assert resumed.model_digest == whole.model_digest
        assert resumed.history_ == whole.history_


@pytest.mark.parametrize("name", NETWORKS)
def test_the_seed_decides(name: str) -> None:
    first, same, other = (
        network(name, seed=seed, epochs=1, dropout=0.2).fit(low_rank()).model_digest
        for seed in (3, 3, 4)
    )
    assert first == same
    assert first != other


@pytest.mark.parametrize("name", NETWORKS)
def test_threads_do_not_decide(name: str) -> None:
    before = torch.get_num_threads()
    digests = []
    try:
        for threads in (1, 2):
            torch.set_num_threads(threads)
            digests.append(network(name, epochs=1).fit(low_rank()).model_digest)
            assert torch.get_num_threads() == threads  # set back to what it was
    finally:
        torch.set_num_threads(before)
    assert digests[0] == digests[1]


@pytest.mark.parametrize("name", NETWORKS)
def test_seven_ratings_are_enough(name: str) -> None:
    """Fewer than batches: some are empty. Nothing is divided by zero."""
    found = network(name, epochs=3).fit(few())
    users, items = (part.reshape(-1).astype(np.int32) for part in np.indices((5, 6)))
    assert np.isfinite(found.score(users, items)).all()


@pytest.mark.parametrize("name", NETWORKS)
def test_a_network_needs_a_dimension(name: str) -> None:
    with pytest.raises(ParameterError, match=f"dim must be at least 1 for {name}"):
        network(name, dim=0).fit(few())


@pytest.mark.parametrize("name", NETWORKS)
def test_none_takes_what_the_search_begins_with(name: str) -> None:
    given: dict[str, Any] = {"model": name, "seed": 0, "epochs": 1, "dim": 4}
    start: dict[str, Any] = {
        key: START[name][key] for key in ("learning_rate", "penalty") if key in START[name]
    }
    cls = NETWORKS[name][0]
    silent = cls(RatingConfig(**given)).fit(few())
    told = cls(RatingConfig(**given, **start)).fit(few())
    assert silent.model_digest == told.model_digest


@pytest.mark.parametrize("name", PRODUCTS)
def test_without_centring_the_mean_is_zero(name: str) -> None:
    found = network(name, center=False, epochs=2).fit(low_rank())
    assert found.files.arrays["mean"] == [0.0]
    assert found.files.arrays["user_bias"].any()


@pytest.mark.parametrize("name", PRODUCTS)
def test_without_biases_there_are_none(name: str) -> None:
    found = network(name, bias=False, epochs=2).fit(low_rank())
    assert not found.files.arrays["user_bias"].any()
    assert not found.files.arrays["item_bias"].any()
    assert found.history_[-1].loss < found.history_[0].loss


@pytest.mark.parametrize("name", PRODUCTS)
def test_a_penalty_makes_rows_smaller(name: str) -> None:
    """Also where it is the only thing that differs."""
    norms = []
    for penalty in (0.0, 50.0):
        found = network(name, penalty=penalty, epochs=4).fit(low_rank())
        users = np.arange(40, dtype=np.int32)
        spread = found.learner_.scorer.score(found.learner_.state.arrays, users, users)
        biases = found.learner_.state
        parts_of = biases["mean"] + biases["user_bias"][:40] + biases["item_bias"][:40]
        norms.append(float(np.abs(spread - parts_of).mean()))
    assert norms[1] < norms[0] / 3
