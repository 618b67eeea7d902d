"""Data sets by name: the built-in city, a path, or a folder below $PRIVREC_DATA.

Nothing is ever substituted: a name that leads nowhere is an error that lists what was tried.
"""

import os
from dataclasses import dataclass
from pathlib import Path

from mpc.core.errors import ParameterError
from recsys.data.checkins import CheckIns, holds_checkins, is_there, load_checkins
from recsys.data.city import NAME, CityConfig, synthetic_city
from recsys.errors import DataError

ROOT_VARIABLE = "PRIVREC_DATA"
"""Environment variable: the folder whose sub-folders are data sets by name."""

_CITY_FORM = f"{NAME}[:USERSxPOIS][,pois_per_user=MEAN][,seed=SEED]"


@dataclass(frozen=True)
class DataSet:
    """Where a named set comes from: ``path`` on disk, or ``city`` if it is made on the spot."""

    name: str
    path: Path | None = None
    city: CityConfig | None = None

    def load(self) -> CheckIns:
        """Read or build the set; raises DataError if its files are not right."""
        return synthetic_city(self.city) if self.path is None else load_checkins(self.path)


def list_sets(root: Path | None = None) -> tuple[DataSet, ...]:
    """The built-in city and the sets below ``root``, by default $PRIVREC_DATA, sorted by name."""
    root = root or _root()
    found = [DataSet(NAME, city=CityConfig())]
    if root is not None and root.is_dir():
        found += [
            DataSet(path.name, path) for path in sorted(root.iterdir()) if holds_checkins(path)
        ]
    return tuple(found)


def find(name: str, root: Path | None = None) -> DataSet:
    """The set called ``name``: the city, else a path, else a folder or file below ``root``.

    name: ``synthetic-city``, with ``:USERSxPOIS`` and further settings after commas for another
        size, as in ``synthetic-city:11824x13924,pois_per_user=39.09,seed=1``; or a path; or the
        name of a set below ``root``, by default $PRIVREC_DATA.
    Raises DataError, with the places that were looked at and the names that are known.
    """
    if name == NAME or name.startswith(f"{NAME}:") or name.startswith(f"{NAME},"):
        return DataSet(name, city=_city(name))
    root = root or _root()
    places = [Path(name).expanduser(), *([root / name] if root is not None else [])]
    for place in places:
        if name and is_there(place):
            return DataSet(name, place)
    looked = ", ".join(f"'{place}'" for place in places)
    known = ", ".join(known.name for known in list_sets(root))
    unset = "" if root is not None else f", or set {ROOT_VARIABLE} to the folder that holds it"
    raise DataError(
        f"there is no data set {name!r}, looked at {looked}; the known sets are {known}",
        remedy=f"give the path of a folder or csv file{unset}",
    )


def resolve(name: str, root: Path | None = None) -> CheckIns:
    """The check-ins of the set called ``name``; see ``find``."""
    return find(name, root).load()


def _root() -> Path | None:
    folder = os.environ.get(ROOT_VARIABLE)
    return Path(folder).expanduser() if folder else None


def _city(name: str) -> CityConfig:
    settings: dict[str, int | float] = {}
    try:
        for part in name.removeprefix(NAME).lstrip(":,").split(","):
            key, equals, value = part.partition("=")
            if equals and key == "pois_per_user":
                settings[key] = float(value)
            elif equals and key == "seed":
                settings[key] = int(value)
            elif part and not equals:
                settings["users"], settings["pois"] = (int(size) for size in part.split("x"))
            elif part:
                raise ValueError(key)
    except ValueError:
        raise DataError(
            f"{name!r} does not describe a city", expected=f"the form {_CITY_FORM}"
        ) from None
    try:
        return CityConfig(**settings)  # type: ignore[arg-type]
    except ParameterError as error:
        raise DataError(f"{name!r}: {error.message}", remedy=error.remedy) from error
