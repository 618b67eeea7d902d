"""Settings from four places: options, then environment, then --config FILE, then the defaults.

They are flat: the fields of ``TrainConfig`` and of its ``PrepareConfig`` under one roof, plus
``data``, where the check-ins come from. Names are those of the options, with ``_`` for ``-``.
"""

import tomllib
from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import typer
from click.core import ParameterSource

from mpc.core.errors import ParameterError
from recsys.config import TrainConfig
from recsys.data.prepare import PrepareConfig
from recsys.errors import DataError
from recsys.variants import with_variant

DATA = "data"
DEFAULT_DATA = "synthetic-city"
PREFIX = "PRIVREC_"

_PREPARE = tuple(field.name for field in fields(PrepareConfig))
_TRAIN = tuple(field.name for field in fields(TrainConfig) if field.name != "prepare")
NAMES = (DATA, *_TRAIN, *_PREPARE)


@dataclass(frozen=True)
class Settings:
    """data: name or path of the check-ins.  train: everything else, checked."""

    data: str
    train: TrainConfig

    def flat(self) -> dict[str, Any]:
        """One level of plain values, the inverse of ``build``."""
        values = self.train.to_dict()
        return {DATA: self.data, **{n: values[n] for n in _TRAIN}, **values["prepare"]}


def build(values: dict[str, Any], origin: dict[str, str] | None = None) -> Settings:
    """Settings from flat values; what is absent takes its default.

    origin: where a value came from, if not from an option; errors name it.
    Raises ParameterError for unknown names and values out of range.
    """
    origin = origin or {}
    unknown = sorted(set(values) - set(NAMES))
    if unknown:
        raise ParameterError(
            f"unknown setting {unknown[0]!r}{origin.get(unknown[0], '')}",
            remedy=f"known: {', '.join(NAMES)}",
        )
    values = with_variant(values)
    data = values.get(DATA, DEFAULT_DATA)
    if not isinstance(data, str):
        raise ParameterError(f"data must be a name or a path, got {data!r}")
    try:
        prepare = PrepareConfig(**{name: values[name] for name in _PREPARE if name in values})
        train = {name: values[name] for name in _TRAIN if name in values}
        return Settings(data, TrainConfig(**train, prepare=prepare))
    except ParameterError as error:
        # Messages begin with the name of the setting.
        place = origin.get(error.message.partition(" ")[0], "")
        raise type(error)(f"{error.message}{place}", remedy=error.remedy) from None
    except TypeError as error:  # from a file, which may hold any type
        raise ParameterError(f"a setting has a wrong type: {error}") from None


def gather(ctx: typer.Context, config: Path | None) -> tuple[Settings, frozenset[str]]:
    """The settings of a new run, each from the first place that has it; and those given at all."""
    values: dict[str, Any] = {}
    origin: dict[str, str] = {}
    if config is not None:
        values = {name.replace("-", "_"): value for name, value in read_toml(config).items()}
        origin = dict.fromkeys(values, f" (in {config})")
    for name in NAMES:
        value = ctx.params.get(name)
        if value is not None:
            values[name] = value
            origin.pop(name, None)
            if ctx.get_parameter_source(name) is ParameterSource.ENVIRONMENT:
                origin[name] = f" (in {variable(name)})"
    return build(values, origin), frozenset(values)


def given_options(ctx: typer.Context, names: Sequence[str]) -> dict[str, Any]:
    """Those of ``names`` that stand on the command line itself, with their values."""
    return {
        name: ctx.params[name]
        for name in names
        if ctx.get_parameter_source(name) is ParameterSource.COMMANDLINE
    }


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
