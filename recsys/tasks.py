"""What a training learns from: visits to places, or ratings of items.

A task says which settings there are, which data set stands in where none is named, which rows a
comparison has and by which measure. It loads no model.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any, Literal

from mpc.core.errors import ParameterError
from recsys.config import TrainConfig
from recsys.data.prepare import PrepareConfig
from recsys.data.rating_split import SplitConfig
from recsys.ratings.config import RatingConfig
from recsys.ratings.presets import PRESETS
from recsys.ratings.search import ENOUGH as ENOUGH_OF_RATINGS
from recsys.ratings.search import GRID as RATING_GRIDS
from recsys.ratings.search import START, space_of
from recsys.ratings.variants import RATING_VARIANTS, ROWS
from recsys.search import ENOUGH, Space
from recsys.search import VISITS as VISIT_SPACE
from recsys.variants import VARIANTS, Variant

Config = TrainConfig | RatingConfig

DATA = "data"
"""The setting that is no field of a configuration: where the data come from."""

PRESET = "preset"
"""Stands for settings below those that are given; it is none itself."""

PRESET_MODEL = "fedgnn"


@dataclass(frozen=True, eq=False)
class Task:
    """One of ``TASKS``.

    name: as ``--task`` takes it.  learns_from: for a reader.  config: class of its settings, of
    which the field ``nested`` is of class ``nested_config``; flat settings have the fields of both
    under one roof.  default_data: the set that is trained on where none is named.
    variants: models and rows by name.  rows: of a comparison unless told otherwise.
    presets: settings by name, below those that are given.  own: by model, settings that suit it
    better than the configuration's defaults, below a preset.
    measure: field of rows and of records that says how good a model is.  lower: whether a lower one
    is better.  enough: trainings of a search that sees every axis to its end.
    """

    name: str
    learns_from: str
    config: type[TrainConfig] | type[RatingConfig]
    nested: str
    nested_config: type[PrepareConfig] | type[SplitConfig]
    default_data: str
    variants: Mapping[str, Variant]
    rows: tuple[str, ...]
    presets: Mapping[str, Mapping[str, Any]]
    own: Mapping[str, Mapping[str, Any]]
    measure: Literal["auc", "rmse"]
    lower: bool
    enough: int

    @cached_property
    def outer(self) -> tuple[str, ...]:
        """Names of the configuration's fields, the nested one left out."""
        return tuple(field.name for field in fields(self.config) if field.name != self.nested)

    @cached_property
    def inner(self) -> tuple[str, ...]:
        """Names of the nested configuration's fields."""
        return tuple(field.name for field in fields(self.nested_config))

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Names of all flat settings, ``data`` among them."""
        return (DATA, *self.outer, *self.inner)

    @property
    def models(self) -> str:
        """The names that ``model`` can have, for a sentence."""
        return ", ".join(self.variants)

    def flat(self, config: Config) -> dict[str, Any]:
        """One level of plain values."""
        values = config.to_dict()
        return {name: values[name] for name in self.outer} | dict(values[self.nested])

    def unflat(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Flat values as ``from_dict`` of the configuration takes them; absent ones stay absent."""
        inner = {name: values[name] for name in self.inner if name in values}
        outer = {name: values[name] for name in self.outer if name in values}
        return {**outer, self.nested: inner} if inner else outer

    def make(self, values: Mapping[str, Any]) -> Config:
        """The configuration of flat values, of which names that are no field are left out."""
        return self.config.from_dict(self.unflat(values))

    def completed(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Flat values without ``preset``; below them what it stands for, then the model's own.

        Raises ParameterError for an unknown preset, and for one that the model does not have.
        """
        settings = dict(values)
        model = settings.get("model", PRESET_MODEL)
        own = self.own.get(model, {}) if isinstance(model, str) else {}
        name = settings.pop(PRESET, None)
        if name is None:
            return {**own, **settings}
        if not isinstance(name, str) or name not in self.presets:
            raise ParameterError(f"preset must be one of {', '.join(self.presets)}, got {name!r}")
        if model != PRESET_MODEL:
            raise ParameterError(
                f"preset {name!r} is one of {PRESET_MODEL}, not of {model}", remedy="leave it out"
            )
        return {**own, **self.presets[name], **settings}

    def space(self, model: str) -> Space | None:
        """What a comparison searches for ``model``; None where there is nothing to search."""
        if self.config is TrainConfig:
            return VISIT_SPACE
        return space_of(model) if model in RATING_GRIDS else None

    def better(self, one: float, other: float) -> bool:
        """Whether the measure ``one`` is better than ``other``."""
        return one < other if self.lower else one > other


VISITS = Task(
    name="visits",
    learns_from="visits to places",
    config=TrainConfig,
    nested="prepare",
    nested_config=PrepareConfig,
    default_data="synthetic-city",
    variants=VARIANTS,
    rows=tuple(VARIANTS),
    presets={},
    own={},
    measure="auc",
    lower=False,
    enough=ENOUGH,
)


def whole(settings: Mapping[str, float]) -> dict[str, Any]:
    """Settings of a search, of which those that count something are whole numbers."""
    defaults = RatingConfig().to_dict()
    return {n: int(v) if isinstance(defaults[n], int) else v for n, v in settings.items()}


RATING = Task(
    name="rating",
    learns_from="ratings of items",
    config=RatingConfig,
    nested="split",
    nested_config=SplitConfig,
    default_data="synthetic-ratings",
    variants=RATING_VARIANTS,
    rows=ROWS,
    presets=PRESETS,
    # FedGNN has own settings for each network, which None stands for.
    own={model: whole(settings) for model, settings in START.items() if model != "fedgnn"},
    measure="rmse",
    lower=True,
    enough=ENOUGH_OF_RATINGS,
)

TASKS = {task.name: task for task in (VISITS, RATING)}

NAMES = tuple(dict.fromkeys((*VISITS.names, *RATING.names)))
"""All flat settings of both tasks."""


def task_of(config: Config) -> Task:
    """The task of a configuration."""
    return RATING if isinstance(config, RatingConfig) else VISITS


def find_task(name: str) -> Task:
    """The task called ``name``; ParameterError, with the names there are, for any other."""
    if name not in TASKS:
        raise ParameterError(f"task must be one of {', '.join(TASKS)}, got {name!r}")
    return TASKS[name]
