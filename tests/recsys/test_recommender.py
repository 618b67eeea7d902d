"""fit, predict, recommend, save and load, with scikit-learn's habits; who and what is unknown."""

import math
import tracemalloc
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import recsys.scoring
from mpc.core.errors import ParameterError, StateError
from recsys.baselines.fm import FM
from recsys.config import TrainConfig
from recsys.data.checkins import CheckIns
from recsys.data.prepare import PrepareConfig
from recsys.features import Features
from recsys.models import fm
from recsys.prirec import PriRec
from recsys.recommender import Recommender
from recsys.scoring import score_pairs
from tests.recsys.worlds import LAST, city, everyone, small, world

FM_CONFIG = TrainConfig(model="fm", seed=0, epochs=2)
BOTH = [
    pytest.param(PriRec(small()), id="prirec"),
    pytest.param(FM(FM_CONFIG), id="fm"),
]


@pytest.fixture(scope="module")
def prirec() -> Recommender:
    return PriRec(small()).fit(city())


@pytest.mark.parametrize("model", BOTH)
def test_fit_returns_the_model_and_sets_what_it_promises(model: Recommender) -> None:
    assert model.fit(city()) is model
    assert model.prepared_.name == city().name
    assert model.features_.dim == model.files.arrays["v"].shape[0]
    assert len(model.history_) == 2
    assert len(model.model_digest) == 64


def test_defaults_are_those_of_the_class() -> None:
    assert PriRec().config == TrainConfig()
    assert FM().config.model == "fm"


def test_a_class_refuses_the_settings_of_another() -> None:
    with pytest.raises(ParameterError, match="FM trains fm, got model 'prirec'"):
        FM(TrainConfig())
    with pytest.raises(ParameterError, match="PriRec trains prirec or prirec-, got model 'fm'"):
        PriRec(FM_CONFIG)


def test_before_fit_there_is_nothing_to_ask(tmp_path: Path) -> None:
    model = PriRec()
    for ask in (
        lambda: model.predict([("u1", "p1")]),
        lambda: model.recommend("u1"),
        lambda: model.save(tmp_path / "model"),
        lambda: model.model_digest,
    ):
        with pytest.raises(StateError, match="the model is not trained yet"):
            ask()
    assert not (tmp_path / "model").exists()
    assert model.traffic is None


def test_fitting_again_starts_anew() -> None:
    model = PriRec(small())
    first = model.fit(city()).model_digest
    assert model.fit(city()).model_digest == first


# Prediction


def test_a_prediction_is_eq_1_and_its_logistic(prirec: Recommender) -> None:
    files = prirec.files
    found = prirec.predict([("u3", files.poi_ids[5]), ("u0", files.poi_ids[0])])
    for at, (user, poi) in enumerate(((files.user_ids.index("u3"), 5), (0, 0))):
        x = files.features.poi[poi]
        expected = float(fm.forward(x, files.arrays["w"][user], files.arrays["v"]).score)
        assert found.score[at] == pytest.approx(expected)
        assert found.probability[at] == pytest.approx(1 / (1 + math.exp(-expected)))
    assert found.known_user.all()
    assert found.known_poi.all()
    assert found.fallbacks == 0


@pytest.mark.parametrize("model", BOTH)
def test_o26_unknown_users_and_pois_get_marked_fallbacks(model: Recommender) -> None:
    model.fit(city())
    known = model.files.poi_ids[2]
    found = model.predict([("u1", known), ("nobody", known), ("u1", "new"), ("nobody", "new")])
    assert found.known_user.tolist() == [True, False, True, False]
    assert found.known_poi.tolist() == [True, True, False, False]
    assert found.fallbacks == 3
    assert np.isfinite(found.score).all()
    assert ((found.probability > 0) & (found.probability < 1)).all()


def test_the_fallbacks_are_those_that_are_documented(prirec: Recommender) -> None:
    """V and the public features for an unknown user, the mean POI for an unknown POI."""
    files = prirec.files
    found = prirec.predict([("nobody", files.poi_ids[4]), ("u1", "new")])
    nobody = fm.forward(
        files.features.poi[4], np.zeros(files.arrays["w"].shape[1]), files.arrays["v"]
    ).score
    user = files.user_ids.index("u1")
    new = fm.forward(
        files.features.poi.mean(axis=0), files.arrays["w"][user], files.arrays["v"]
    ).score
    assert found.score == pytest.approx([float(nobody), float(new)])


def test_o26_a_user_without_training_visits_is_a_marked_fallback() -> None:
    """Her only rating went to the test part: the mean of her neighbours' models scores her."""
    rows = [row for row in everyone(8) if row[0] != 2]
    prepared = world(rows, test=[(2, 1, 1), (2, 6, -1)], users=8, pois=8)
    model = PriRec(small(mode="float", epochs=3)).fit(prepared)
    found = model.predict([("u2", "p1"), ("u3", "p1")])
    assert found.known_user.tolist() == [False, True]
    assert found.fallbacks == 1
    assert found.score[0] != model.predict([("nobody", "p1")]).score[0]
    assert [poi.poi for poi in model.recommend("u2", k=2)]


@pytest.mark.parametrize("model", BOTH)
def test_o24_ids_come_as_numbers_too(model: Recommender) -> None:
    """Items {0, 10, 3952}, users {0, 6040}: no padding, no gap, external ids come back."""
    rows = [(user, poi) for user in range(2) for poi in range(3) if (user, poi) != (1, 0)]
    users, pois = (np.array(part, dtype=np.int32) for part in zip(*rows, strict=True))
    data = CheckIns(
        *("gaps", users, pois, ("0", "6040"), ("0", "10", "3952")),
        *(np.zeros(3), np.arange(3.0), np.full(3, -1, dtype=np.int32), ()),
        *(None, np.ones(len(rows), dtype=np.int64)),
    )
    config = small(
        model=model.models[0],
        mode="float",
        neighbours=1,
        regions=0,
        prepare=replace(LAST, min_visitors=0, test_fraction=0.0),
    )
    model = type(model)(config).fit(data)
    assert model.files.arrays["w"].shape[0] in (2, model.features_.dim + 1)
    found = model.predict([(0, 0), (6040, 3952), (np.int64(6040), "10"), (1, 0)])
    assert found.known_user.tolist() == [True, True, True, False]
    assert found.known_poi.all()
    assert [poi.poi for poi in model.recommend(6040)] == ["0"]
    assert model.recommend(0) == []


def test_no_pairs_give_no_predictions(prirec: Recommender) -> None:
    found = prirec.predict([])
    assert found.score.shape == found.probability.shape == (0,)
    assert found.fallbacks == 0


# Recommendation


def test_visited_pois_are_never_recommended() -> None:
    model = PriRec(small()).fit(city())
    prepared = model.prepared_
    visited: dict[int, set[str]] = {user: set() for user in range(prepared.n_users)}
    for user, poi in zip(*prepared.train.positives(), strict=True):
        visited[int(user)].add(prepared.poi_ids[poi])
    for user, ident in enumerate(prepared.user_ids):
        found = [poi.poi for poi in model.recommend(ident, k=1000)]
        assert not visited[user] & set(found)
        # All others come, held-out ones too, each once.
        assert sorted([*found, *visited[user]]) == sorted(prepared.poi_ids)


def test_visits_that_training_leaves_out_are_not_recommended_either() -> None:
    """``max_positives`` keeps visits out of every part; the user has been there all the same."""
    prepare = replace(LAST, max_positives=2, test_fraction=0.0)
    model = PriRec(small(prepare=prepare)).fit(city())
    prepared = model.prepared_
    user, poi = np.divmod(prepared.visited.keys, prepared.n_pois)
    assert len(prepared.train) < 2 * user.size
    for index in range(3):
        found = {rec.poi for rec in model.recommend(prepared.user_ids[index], k=1000)}
        assert not found & {prepared.poi_ids[at] for at in poi[user == index]}


def test_the_list_is_sorted_by_probability_and_tells_what_it_names(prirec: Recommender) -> None:
    found = prirec.recommend("u1", k=7)
    assert len(found) == 7
    chances = [poi.probability for poi in found]
    assert chances == sorted(chances, reverse=True)
    files = prirec.files
    scores = prirec.predict([("u1", poi.poi) for poi in found])
    assert scores.probability.tolist() == chances
    for poi in found:
        index = files.poi_ids.index(poi.poi)
        assert (poi.lat, poi.lon) == (files.lat[index], files.lon[index])
        category = files.category[index]
        assert poi.category == (files.category_names[category] if category >= 0 else "")
    assert prirec.recommend("u1", k=3) == found[:3]


def test_ties_go_by_index() -> None:
    """Without any feature all POIs score alike."""
    config = small(features="static", regions=0, categories=False)
    model = PriRec(config).fit(city())
    found = [model.files.poi_ids.index(poi.poi) for poi in model.recommend("u1", k=1000)]
    assert found == sorted(found)
    assert len({poi.probability for poi in model.recommend("u1", k=1000)}) == 1


@pytest.mark.parametrize("k", [0, -1, 2.0, "3", True, math.nan])
def test_k_must_be_a_whole_number_from_1(prirec: Recommender, k: int) -> None:
    with pytest.raises(ParameterError, match="k must be an integer of at least 1, got"):
        prirec.recommend("u1", k)


def test_an_unknown_user_is_refused_with_a_hint_that_names_nobody_else(
    prirec: Recommender,
) -> None:
    unknown = "user 'nobody' was not in the training data of 40"
    with pytest.raises(ParameterError, match=unknown) as refused:
        prirec.recommend("nobody")
    assert refused.value.remedy
    words = set(str(refused.value).replace(",", " ").split())
    assert not words & set(prirec.files.user_ids)


# Evaluation


def test_o26_without_a_test_part_there_is_no_auc_and_no_nan() -> None:
    """Trained on all data: recommendations come, the AUC is None."""
    prepare = PrepareConfig(test_fraction=0.0, validation_fraction=0.0)
    model = PriRec(small(prepare=prepare)).fit(city())
    assert len(model.prepared_.test) == 0
    assert model.evaluate(model.prepared_.test) == (None, None)
    assert model.recommend("u1")
    assert all(record.auc is None for record in model.history_)


def test_one_pair_alone_has_no_auc() -> None:
    prepared = world(everyone(4), test=[(0, 7, 1)], users=4, pois=8)
    model = PriRec(small(mode="float")).fit(prepared)
    assert model.evaluate(prepared.test) == (None, None)


# Scoring in pieces


@pytest.mark.parametrize("central", [False, True])
def test_pieces_make_no_difference(monkeypatch: pytest.MonkeyPatch, central: bool) -> None:
    rng = np.random.default_rng(0)
    features = Features(rng.random((4, 2)), rng.random((9, 3)), ("",) * 5, ())
    w, v = rng.random(6 if central else (4, 6)), rng.random((5, 2))
    users, pois = (rng.integers(-1, most, 50).astype(np.int32) for most in (4, 9))
    whole = score_pairs(features, w, v, users, pois)
    for chunk in (1, 5, 17):
        monkeypatch.setattr(recsys.scoring, "_CHUNK", chunk)
        assert score_pairs(features, w, v, users, pois) == pytest.approx(whole)


def test_scoring_holds_a_bounded_number_of_features() -> None:
    """400,000 pairs of 105 features would take 336 MB at once; pieces take a few times 32 MiB."""
    features = Features(np.zeros((10, 5)), np.ones((1000, 100)), ("",) * 105, ())
    users = np.zeros(400_000, dtype=np.int32)
    pois = (np.arange(users.size) % 1000).astype(np.int32)
    tracemalloc.start()
    scores = score_pairs(features, np.ones((10, 106)), np.zeros((105, 2)), users, pois)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert (scores == 101).all()
    assert peak < 6 * 32 * 2**20
