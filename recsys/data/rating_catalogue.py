"""Rating sets by name: the built-in one, a path, or a folder below $PRIVREC_DATA.

Nothing is ever substituted: a name that leads nowhere is an error that lists what was tried.
"""

import os
from dataclasses import dataclass
from pathlib import Path

from mpc.core.errors import ParameterError
from recsys.data.catalogue import ROOT_VARIABLE
from recsys.data.checkins import is_there
from recsys.data.movielens import SPLITS
from recsys.data.rating_files import holds_ratings, load_ratings
from recsys.data.ratings import Ratings
from recsys.data.synthetic_ratings import NAME, SyntheticRatingsConfig, synthetic_ratings
from recsys.errors import DataError

_FORM = f"{NAME}[:USERSxITEMS][,per_user=MEAN][,seed=SEED]"


@dataclass(frozen=True)
class RatingSet:
    """Where a named set comes from: ``path`` on disk, or ``synthetic`` if it is made on the spot.

    split: the published split that the name asks for, or None.
    """

    name: str
    path: Path | None = None
    synthetic: SyntheticRatingsConfig | None = None
    split: str | None = None

    def load(self) -> Ratings:
        """Read or build the set; raises DataError if its files are not right."""
        if self.path is None:
            return synthetic_ratings(self.synthetic)
        return load_ratings(self.path, split=self.split)


def list_rating_sets(root: Path | None = None) -> tuple[RatingSet, ...]:
    """The built-in set and those below ``root``, by default $PRIVREC_DATA, sorted by name."""
    root = root or _root()
    found = [RatingSet(NAME, synthetic=SyntheticRatingsConfig())]
    if root is not None and root.is_dir():
        found += [
            RatingSet(path.name, path) for path in sorted(root.iterdir()) if holds_ratings(path)
        ]
    return tuple(found)


def find_ratings(name: str, root: Path | None = None) -> RatingSet:
    """The set called ``name``: the built-in one, else a path, else what lies below ``root``.

    name: ``synthetic-ratings``, with ``:USERSxITEMS`` and further settings after commas for another
        size, as in ``synthetic-ratings:600x400,per_user=40,seed=1``; or a path; or the name of a
        set below ``root``, by default $PRIVREC_DATA. A split may follow after a colon, as in
        ``ml-100k:u3``.
    Raises DataError, with the places that were looked at and the names that are known.
    """
    if name == NAME or name.startswith((f"{NAME}:", f"{NAME},")):
        return RatingSet(name, synthetic=_synthetic(name))
    root = root or _root()
    whole, colon, split = name.rpartition(":")
    for place in _places(name, root):
        if name and is_there(place):
            return RatingSet(name, place)
    if colon and whole and split in SPLITS:
        for place in _places(whole, root):
            if is_there(place):
                return RatingSet(name, place, split=split)
        name = whole
    looked = ", ".join(f"'{place}'" for place in _places(name, root))
    known = ", ".join(known.name for known in list_rating_sets(root))
    unset = "" if root is not None else f", or set {ROOT_VARIABLE} to the folder that holds it"
    raise DataError(
        f"there is no rating set {name!r}, looked at {looked}; the known sets are {known}",
        remedy=f"give the path of a folder or file{unset}",
    )


def resolve(name: str, root: Path | None = None) -> Ratings:
    """The ratings of the set called ``name``; see ``find_ratings``."""
    return find_ratings(name, root).load()


def _root() -> Path | None:
    folder = os.environ.get(ROOT_VARIABLE)
    return Path(folder).expanduser() if folder else None


def _places(name: str, root: Path | None) -> list[Path]:
    return [Path(name).expanduser(), *([root / name] if root is not None else [])]


def _synthetic(name: str) -> SyntheticRatingsConfig:
    settings: dict[str, int | float] = {}
    try:
        for part in name.removeprefix(NAME).lstrip(":,").split(","):
            key, equals, value = part.partition("=")
            if equals and key == "per_user":
                settings[key] = float(value)
            elif equals and key == "seed":
                settings[key] = int(value)
            elif part and not equals:
                settings["users"], settings["items"] = (int(size) for size in part.split("x"))
            elif part:
                raise ValueError(key)
    except ValueError:
        raise DataError(
            f"{name!r} does not describe a rating set", expected=f"the form {_FORM}"
        ) from None
    try:
        return SyntheticRatingsConfig(**settings)  # type: ignore[arg-type]
    except ParameterError as error:
        raise DataError(f"{name!r}: {error.message}", remedy=error.remedy) from error
