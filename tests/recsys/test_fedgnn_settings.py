"""FedGNN on data as they come, and under settings of every kind: presets and refusals."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mpc.core.errors import ParameterError
from recsys.data.rating_files import load_ratings
from recsys.errors import DivergenceError
from recsys.fedgnn import (
    FedGNN,
)
from recsys.ratings.config import NETWORKS, RatingConfig
from recsys.ratings.model import rmse
from recsys.ratings.presets import PRESETS
from tests.recsys.baselines.cases import COLD_ITEM, COLD_USER, low_rank
from tests.recsys.data.matlab_files import version_73
from tests.recsys.fedgnn_cases import (
    WAYS,
    crowd,
    fitted,
    learner_of,
    named,
)
from tests.recsys.rating_worlds import ratings_of, world

# Data as they come.


def test_o21_ratings_count_as_they_are() -> None:
    """Fractions stay fractions, and a constant errs by the deviation, in units of the ratings."""
    values = [1.0, 99.0, 100.0, 0.5, 3.5]
    rows = [(user, item, values[(user + item) % 5]) for user in range(30) for item in range(5)]
    parts = replace(world(rows, test=[], users=30, items=5), low=0.0, high=100.0)
    still: dict[str, Any] = {"dim": 0, "user_fit": "steps", "learning_rate": 1e-300}
    found = fitted(parts, user_rate=1e-300, epochs=1, **still)
    learner = learner_of(found)
    inputs = learner.devices.inputs(learner.devices.active, learner.state.arrays)
    seen = inputs.ratings.numpy() + learner.state["mean"][0]
    assert seen == pytest.approx(parts.train.values, abs=1e-12)
    assert found.history_[0].loss == pytest.approx(np.var(values), rel=1e-6)
    test = ratings_of([(0, 0, 1.0), (0, 1, 99.0), (0, 2, 100.0)])
    assert rmse(test, np.full(3, 50.0)) == pytest.approx(49.34, abs=0.005)
    assert rmse(test, test.values) == 0


@pytest.mark.parametrize("mode", ["protocol", "simulate"])
def test_o23_a_catalogue_without_enough_items_ends_the_choice_and_not_the_training(
    mode: str,
) -> None:
    """5 items; one user rated all of them, the others three, and M is 1000."""
    rows = [(user, item, 1.0 + item) for user in range(20) for item in range(5 if not user else 3)]
    parts = world(rows, test=[], users=20, items=5)
    found = fitted(parts, mode=mode, aggregate="clear", pseudo=1000, epochs=1)
    learner = learner_of(found)
    assert learner.pseudo is not None
    assert learner.pseudo.of(0, 0).tolist() == []
    assert learner.pseudo.of(1, 0).tolist() == [3, 4]
    cover = learner.pseudo.coverage()
    assert (cover.bare, cover.least, cover.short) == (1, 0, 20)
    assert any("hiding of interactions is off" in note for note in cover.notes())
    if mode == "protocol":  # everybody sends the whole catalogue
        sent = learner.traffic.traffic["ratings.gradients"]
        assert (sent.messages, sent.bytes) == (20, 20 * learner.aggregation.upload_bytes(5))


@pytest.mark.parametrize("way", WAYS, ids=named)
def test_o26_what_is_unknown_is_left_out(way: dict[str, Any]) -> None:
    """Mean + item bias, mean + user bias, the mean; marked, and never NaN."""
    found = fitted(**way)
    mean, items = found.files.arrays["mean"][0], found.files.arrays["items"]
    parts = found.parts_
    asked = [("nobody", "i3"), (f"u{COLD_USER}", "i3"), ("nobody", "nothing"), ("u5", "nothing")]
    predicted = found.predict(asked)
    expected = [mean + items[3, -1], mean + items[3, -1], mean]
    assert predicted.value[:3] == pytest.approx(np.clip(expected, parts.low, parts.high))
    assert predicted.fallbacks == 4
    assert np.isfinite(predicted.value).all()
    biased = found.config.bias
    assert (predicted.value[3] != mean) == biased  # her bias alone, where there are any
    assert found.predict([("u5", "i3")]).fallbacks == 0
    cold = found.predict([("u5", f"i{COLD_ITEM}")])
    assert np.isfinite(cold.value).all()
    assert not cold.known_item[0]


def test_o26_a_user_whose_only_rating_is_tested_and_a_set_without_a_test_part() -> None:
    parts = crowd(30)
    alone = parts.train.users == 4
    only = replace(parts, train=parts.train.part(~alone), test=parts.train.part(alone))
    found = fitted(only, epochs=1)
    assert np.isfinite(found.evaluate(only.test) or np.nan)
    assert not found.predict([("u4", "i1")]).known_user[0]
    assert len(found.recommend("u4", k=3)) == 3
    everything = fitted(parts, epochs=1)
    assert everything.evaluate(parts.test) is None
    assert everything.history_[0].rmse is None
    assert len(everything.recommend("u4", k=3)) == 3


def test_o27_empty_rows_of_a_matlab_file_keep_their_place(tmp_path: Path) -> None:
    """The last user and the last item rated nothing: they have rows, fallbacks, and no part."""
    matrix = np.zeros((24, 9))
    matrix[:22, :8] = 1 + (np.arange(22)[:, np.newaxis] * np.arange(8)) % 5
    path = tmp_path / "set.mat"
    path.write_bytes(version_73({"M": matrix}))
    found = fitted(load_ratings(path), epochs=1)
    assert found.files.arrays["items"].shape == (9, 5)
    assert learner_of(found).devices.active.tolist() == list(range(22))
    assert found.predict([("23", "8"), ("0", "8")]).fallbacks == 2
    assert np.isfinite(found.predict([("23", "0"), ("23", "8"), ("0", "8")]).value).all()


# Presets.


@pytest.mark.parametrize("gnn", NETWORKS)
@pytest.mark.parametrize("name", PRESETS)
def test_every_preset_trains_with_every_network(name: str, gnn: str) -> None:
    settings = {**PRESETS[name], "gnn": gnn, "epochs": 2, "mode": "simulate", "seed": 1}
    if settings.get("dim", 0) > 32:
        settings["dim"] = 32
    found = FedGNN(RatingConfig(**{**settings, "match_items": 4})).fit(low_rank())
    assert len(found.history_) == 2


def test_the_papers_settings_stay_at_the_constant_predictor() -> None:
    """Three small steps of a noisy gradient move nothing; the constant is the training mean."""
    settings = RatingConfig(**PRESETS["paper"], mode="simulate", seed=0, match_items=4)
    found = FedGNN(settings).fit(low_rank())
    test, mean = found.parts_.test, found.parts_.train.values.mean()
    constant = float(np.sqrt(np.mean((test.values - mean) ** 2)))
    assert found.evaluate(test) == pytest.approx(constant, abs=0.01)


def test_rating_edges_belong_to_steps() -> None:
    with pytest.raises(ParameterError, match="rating_edges needs user_fit steps"):
        RatingConfig(rating_edges=True)


@pytest.mark.parametrize("neighbours", ["fixed", "trainable"])
def test_neighbours_without_embeddings_are_refused_before_training(neighbours: str) -> None:
    with pytest.raises(ParameterError, match="neighbours must be none with dim 0"):
        RatingConfig(dim=0, neighbours=neighbours)


def test_a_loss_far_beyond_guessing_is_divergence_whatever_came_before() -> None:
    """Steps too large for a sum of errors: finite for a long time, and of no use."""
    config = RatingConfig(
        mode="simulate", seed=0, user_fit="steps", optimizer="sgd", learning_rate=1.0, epochs=40,
        cohort=16, bound=1e6, frac_bits=8, ring_bits=64, penalty=0.0,
    )  # fmt: skip
    with pytest.raises(DivergenceError, match="no useful model has") as raised:
        FedGNN(config).fit(low_rank())
    assert "penalty" in raised.value.remedy
