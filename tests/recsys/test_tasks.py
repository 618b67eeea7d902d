"""The two tasks: their settings, presets, and what lies below what was given."""

from typing import Any

import pytest

from mpc.core.errors import ParameterError
from recsys.config import TrainConfig
from recsys.data.prepare import PrepareConfig
from recsys.fedgnn import OWN
from recsys.ratings.config import MODELS, RatingConfig
from recsys.ratings.search import START, space_of
from recsys.ratings.variants import RATING_VARIANTS, ROWS
from recsys.tasks import NAMES, RATING, TASKS, VISITS, Task, find_task, task_of


@pytest.mark.parametrize("task", TASKS.values(), ids=TASKS)
def test_flat_settings_are_those_of_the_configuration_and_back(task: Task) -> None:
    config = task.config()
    flat = task.flat(config)
    assert ("data", *flat) == task.names
    assert task.make(flat) == config
    assert task_of(config) is task
    assert find_task(task.name) is task
    assert set(task.names) <= set(NAMES)


def test_what_is_absent_takes_its_default() -> None:
    assert VISITS.make({"epochs": 3}) == TrainConfig(epochs=3)
    changed = VISITS.make({"order": "literal"})
    assert changed == TrainConfig(prepare=PrepareConfig(order="literal"))
    assert RATING.unflat({"dim": 3, "published": False, "factors": 9}) == {
        "dim": 3,
        "split": {"published": False},
    }


def test_an_unknown_task_is_refused_with_those_there_are() -> None:
    with pytest.raises(ParameterError, match="task must be one of visits, rating, got 'poi'"):
        find_task("poi")


def test_every_model_of_ratings_is_a_variant_and_a_row() -> None:
    assert {variant.model for variant in RATING_VARIANTS.values()} == set(MODELS)
    assert {RATING_VARIANTS[name].model for name in ROWS} == set(MODELS)
    assert set(ROWS) >= {"fedgnn-ggnn", "fedgnn-gcn", "fedgnn-gat", "fedgnn-ldp", "fedgnn-paper"}
    assert set(ROWS) < set(RATING_VARIANTS)


def test_given_wins_over_preset_over_the_models_own_settings(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    presets = {"some": {"epochs": 5, "dim": 5}}
    monkeypatch.setitem(RATING.__dict__, "presets", presets)
    monkeypatch.setitem(RATING.__dict__, "own", {"fedgnn": {"dim": 4, "decay": 0.4}})
    found = RATING.completed({"model": "fedgnn", "preset": "some", "epochs": 6})
    assert found == {"model": "fedgnn", "epochs": 6, "dim": 5, "decay": 0.4}
    with pytest.raises(ParameterError, match="preset 'some' is one of fedgnn, not of pmf"):
        RATING.completed({"model": "pmf", "preset": "some"})
    wrong: object
    for wrong in ("other", 3, []):
        with pytest.raises(ParameterError, match="preset must be one of some"):
            RATING.completed({"model": "fedgnn", "preset": wrong})


@pytest.mark.parametrize("model", sorted(set(START) - {"fedgnn"}))
def test_the_models_own_settings_are_where_their_search_begins(model: str) -> None:
    config = RATING.make(RATING.completed({"model": model}))
    found = RATING.flat(config)
    assert {name: found[name] for name in START[model]} == START[model]
    assert RATING.space(model) == space_of(model)
    assert space_of(model).enough <= RATING.enough


def test_fedgnns_own_settings_are_those_of_its_network_and_a_search_begins_with_convolutions() -> (
    None
):
    assert RATING.completed({"model": "fedgnn"}) == {"model": "fedgnn"}
    own = OWN["gcn"]
    start = {"learning_rate": own.learning_rate, "penalty": own.penalty}
    start |= {"bias_penalty": own.bias_penalty, "decay": RatingConfig().decay}
    assert start == START["fedgnn"]
    assert RATING.space("fedgnn") == space_of("fedgnn")
    assert space_of("fedgnn").enough <= RATING.enough


def test_models_without_a_space_are_not_searched() -> None:
    assert RATING.space("global-mean") is None
    assert VISITS.space("fm") is not None


def test_what_is_better_depends_on_the_measure() -> None:
    assert VISITS.better(0.8, 0.7)
    assert RATING.better(0.7, 0.8)
    assert not RATING.better(0.8, 0.8)


def test_whole_numbers_of_a_search_stay_whole() -> None:
    own: Any = RATING.own["pmf"]
    assert isinstance(own["dim"], int)
    assert isinstance(own["penalty"], float)
    RatingConfig(model="pmf", **own)
