"""Settings from five places: options, environment, --config FILE, a preset, and the defaults.

They are flat: the fields of a configuration and of the one that it nests under one roof, plus
``data``, where the data come from. Names are those of the options, with ``_`` for ``-``. There are
two tasks with settings of their own (``recsys.tasks``); the model says which one is meant.
"""

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import typer
from click.core import ParameterSource

from mpc.core.errors import ParameterError
from recsys.cli.task_choice import unknown_model
from recsys.errors import DataError
from recsys.tasks import DATA, NAMES, PRESET, TASKS, VISITS, Config, Task, task_of
from recsys.variants import with_variant

PREFIX = "PRIVREC_"
NONE = "none"

MODELS = ", ".join(task.models for task in TASKS.values())
"""All that ``train`` can train, for a sentence."""

SWITCHED_OFF = ("clip", "laplace", "embedding_epsilon")
"""Settings that the word ``none`` takes out of what a preset or a file says."""


@dataclass(frozen=True)
class Settings:
    """data: name or path of the data.  train: everything else, checked."""

    data: str
    train: Config

    @property
    def task(self) -> Task:
        """What the model learns from."""
        return task_of(self.train)

    def flat(self) -> dict[str, Any]:
        """One level of plain values, the inverse of ``build``."""
        return {DATA: self.data, **self.task.flat(self.train)}


@dataclass(frozen=True)
class Given:
    """What somebody said somewhere, by name, before any default.

    origin: where a value came from, in words, if not from an option; errors name it.
    variables, options: of the values, those from the environment and from the command line.
    """

    ctx: typer.Context
    values: Mapping[str, Any]
    origin: Mapping[str, str]
    variables: frozenset[str]
    options: frozenset[str]

    def settings(self, task: Task | None = None) -> Settings:
        """All settings, checked. task: the model's own if None.

        Raises UsageError for an option or a variable of another task, else as ``build``.
        """
        task = task or named_task(self.values, self.origin)
        for name in self.values:
            word = self._word(name)
            if word and not _belongs(name, task):
                raise click.UsageError(f"{word} {_meaningless(self.values, task)}", self.ctx)
        return build(self.values, self.origin, task)

    def _word(self, name: str) -> str:
        """What the user wrote on the command line or into the environment, else empty."""
        if name in self.options:
            return f"--{name.replace('_', '-')}"
        return variable(name) if name in self.variables else ""


def build(
    values: Mapping[str, Any],
    origin: Mapping[str, str] | None = None,
    task: Task | None = None,
) -> Settings:
    """Settings from flat values; what is absent takes its preset's value, or its default.

    origin: see ``Given``.  task: the model's own if None.
    Raises ParameterError for unknown names and values out of range.
    """
    origin = origin or {}
    task = task or named_task(values, origin)
    _check_names(values, origin, task)
    values = task.completed(with_variant(values, task.variants))
    data = values.get(DATA, task.default_data)
    if not isinstance(data, str):
        raise ParameterError(f"data must be a name or a path, got {data!r}")
    try:
        return Settings(data, task.make(values))
    except ParameterError as error:
        # Messages begin with the name of the setting.
        place = origin.get(error.message.partition(" ")[0], "")
        raise type(error)(f"{error.message}{place}", remedy=error.remedy) from None
    except TypeError as error:  # from a file, which may hold any type
        raise ParameterError(f"a setting has a wrong type: {error}") from None


def named_task(values: Mapping[str, Any], origin: Mapping[str, str]) -> Task:
    """The task of the model that flat values name; that of visits if they name none.

    Raises ParameterError for a model that there is not.
    """
    if "model" not in values:
        return VISITS
    model = values["model"]
    for task in TASKS.values():
        if isinstance(model, str) and model in task.variants:
            return task
    raise unknown_model(model, origin.get("model", ""))


def collect(ctx: typer.Context, config: Path | None) -> Given:
    """What options, environment and file say, each setting from the first place that has it."""
    values: dict[str, Any] = {}
    origin: dict[str, str] = {}
    found: dict[ParameterSource, set[str]] = {
        ParameterSource.COMMANDLINE: set(),
        ParameterSource.ENVIRONMENT: set(),
    }
    if config is not None:
        values = {name.replace("-", "_"): value for name, value in read_toml(config).items()}
        origin = dict.fromkeys(values, f" (in {config})")
    for name in (*NAMES, PRESET):
        value = ctx.params.get(name)
        if value is not None:
            values[name] = _value(name, value)
            origin.pop(name, None)
            source = ctx.get_parameter_source(name)
            if source in found:
                found[source].add(name)
            if source is ParameterSource.ENVIRONMENT:
                origin[name] = f" (in {variable(name)})"
    return Given(
        ctx,
        values,
        origin,
        variables=frozenset(found[ParameterSource.ENVIRONMENT]),
        options=frozenset(found[ParameterSource.COMMANDLINE]),
    )


def given_options(ctx: typer.Context, names: Sequence[str]) -> dict[str, Any]:
    """Those of ``names`` that stand on the command line itself, with their values."""
    return {
        name: _value(name, ctx.params[name])
        for name in names
        if ctx.get_parameter_source(name) is ParameterSource.COMMANDLINE
    }


def _value(name: str, given: Any) -> Any:
    return None if given == NONE and name in SWITCHED_OFF else given


def variable(name: str) -> str:
    """The environment variable of an option. $PRIVREC_DATA is the folder of all data sets."""
    return f"{PREFIX}DATASET" if name == DATA else PREFIX + name.upper()


def read_toml(path: Path) -> dict[str, Any]:
    """The settings of a TOML file. DataError if it is missing or no TOML."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise DataError("no such file", file=str(path)) from None
    except OSError as error:
        raise DataError(f"cannot be read ({error.strerror})", file=str(path)) from None
    except ValueError as error:  # TOML or UTF-8
        raise DataError(
            f"not TOML: {error}", file=str(path), expected="lines like epochs = 20"
        ) from None


def _check_names(values: Mapping[str, Any], origin: Mapping[str, str], task: Task) -> None:
    for name in sorted(values):
        if _belongs(name, task):
            continue
        place = origin.get(name, "")
        if name in (*NAMES, PRESET):
            raise ParameterError(
                f"{name}{place} {_meaningless(values, task)}", remedy="leave it out"
            )
        raise ParameterError(
            f"unknown setting {name!r}{place}", remedy=f"known: {', '.join(task.names)}"
        )


def _belongs(name: str, task: Task) -> bool:
    return name in task.names or (name == PRESET and bool(task.presets))


def _meaningless(values: Mapping[str, Any], task: Task) -> str:
    subject = f"{values['model']}, which learns" if "model" in values else "models that learn"
    return f"has no meaning with {subject} from {task.learns_from}"
