"""The spaces of rating models: one budget, valid settings, and a walk that goes down."""

from typing import Any

import pytest

from mpc.core.errors import ParameterError
from recsys.ratings.config import MODELS, RatingConfig
from recsys.ratings.search import ENOUGH, GRID, START, space_of
from recsys.search import search

NAMES = sorted(GRID)


@pytest.mark.parametrize("name", NAMES)
def test_no_model_has_more_trainings_than_the_budget(name: str) -> None:
    assert space_of(name).enough <= ENOUGH


@pytest.mark.parametrize("name", NAMES)
def test_a_search_begins_on_its_grid(name: str) -> None:
    space = space_of(name)
    assert set(space.grid) <= set(space.start)
    assert all(space.start[axis] in values for axis, values in space.grid.items())
    for values in space.grid.values():
        assert list(values) == sorted(set(values))


@pytest.mark.parametrize("name", NAMES)
def test_every_point_is_a_valid_configuration(name: str) -> None:
    start: dict[str, Any] = dict(START[name])
    for axis, values in GRID[name].items():
        for value in values:
            made = RatingConfig(model=name, **{**start, axis: value})
            assert getattr(made, axis) == value


@pytest.mark.parametrize("name", NAMES)
def test_the_lowest_error_is_kept(name: str) -> None:
    """Where the error is lowest at the last value of every axis, the walk ends there."""
    grid = GRID[name]
    best = {axis: values[-1] for axis, values in grid.items()}

    def trial(settings: Any) -> float:
        return float(sum(settings[axis] != value for axis, value in best.items()))

    found = search(trial, ENOUGH, space_of(name))
    assert {axis: found.settings[axis] for axis in grid} == best
    assert found.measure == 0
    assert len(found.trials) == space_of(name).enough


def test_names_are_those_of_models() -> None:
    assert set(GRID) == set(START)
    assert set(GRID) <= set(MODELS)


def test_fcf_and_fedmf_are_searched_alike() -> None:
    """They learn the same: what one finds the other would have found."""
    assert space_of("fcf") == space_of("fedmf")


def test_a_model_without_settings_is_refused() -> None:
    with pytest.raises(ParameterError, match="global-mean has no settings to search"):
        space_of("global-mean")
