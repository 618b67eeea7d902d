"""A trained model on disk in three parts, separated by who holds what.

recommender/model.npz  what the recommender holds: shared arrays, and facts of places or items
users/models.npz       what only users hold; folder 0700, file 0600
public/model.json      kind and version, settings, names of arrays, digest; written last, so that
                       a folder without it holds no model
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mpc.core.durable import PUBLIC, write_durably
from mpc.core.errors import ParameterError
from recsys.array_files import pack_arrays, read_arrays
from recsys.errors import DataError
from recsys.metrics import model_digest
from recsys.training import Arrays

_SHARED = Path("recommender") / "model.npz"
_PRIVATE = Path("users") / "models.npz"
_PUBLIC = Path("public") / "model.json"


@dataclass(frozen=True)
class Kind:
    """What a folder holds. format: its version.  name: empty for models of visits, the first."""

    format: int
    name: str = ""

    def header(self) -> dict[str, Any]:
        """How public/model.json begins."""
        return {"format": self.format} | ({"kind": self.name} if self.name else {})


@dataclass(frozen=True)
class ModelParts:
    """What is written.

    arrays: what was learned, by name.  private: names of those that only users hold.
    tables: what a scorer needs besides; users hold them.
    shared, own: further arrays, of the recommender and of the users.
    public: further plain values for public/model.json, settings first.
    """

    arrays: Arrays
    private: frozenset[str]
    tables: Mapping[str, NDArray[Any]]
    shared: Mapping[str, NDArray[Any]]
    own: Mapping[str, NDArray[Any]]
    public: Mapping[str, Any]


class IdRows:
    """Rows of external ids, which are told apart as texts."""

    def __init__(self, names: Sequence[str]) -> None:
        self._rows = {name: row for row, name in enumerate(names)}

    def of(self, ids: Sequence[object]) -> NDArray[np.int32]:
        """The row of each id; -1 for an unknown one."""
        return np.array([self._rows.get(str(name), -1) for name in ids], dtype=np.int32)


def write_parts(folder: Path, kind: Kind, parts: ModelParts) -> None:
    """Write the three files; public/model.json comes last and makes the model complete."""
    shared, own = dict(parts.shared), dict(parts.own)
    for name, array in parts.arrays.items():
        (own if name in parts.private else shared)[_array(name)] = array
    own |= {_table(name): table for name, table in parts.tables.items()}
    for file in (_SHARED, _PRIVATE, _PUBLIC):
        (folder / file).parent.mkdir(parents=True, exist_ok=True)
    (folder / _PRIVATE).parent.chmod(0o700)
    write_durably(folder / _SHARED, pack_arrays(shared))
    write_durably(folder / _PRIVATE, pack_arrays(own))
    public = {
        **kind.header(),
        **parts.public,
        "arrays": sorted(parts.arrays),
        "tables": sorted(parts.tables),
        "model_digest": model_digest(parts.arrays),
    }
    text = json.dumps(public, indent=2) + "\n"
    write_durably(folder / _PUBLIC, text.encode(), mode=PUBLIC)


def read_parts(folder: Path, kind: Kind) -> ModelParts:
    """Inverse of ``write_parts``.

    Raises DataError if a file is missing, damaged, of another model or of another kind.
    """
    public = _read_public(folder / _PUBLIC, kind)
    shared = read_arrays(folder / _SHARED)
    own = read_arrays(folder / _PRIVATE)
    with of_one_model(folder):
        both = shared | own
        parts = ModelParts(
            arrays={name: both[_array(name)] for name in public["arrays"]},
            private=frozenset(name for name in public["arrays"] if _array(name) in own),
            tables={name: own[_table(name)] for name in public["tables"]},
            shared=shared,
            own=own,
            public=public,
        )
        digest = public["model_digest"]
    if model_digest(parts.arrays) != digest:
        raise DataError(
            f"the model arrays do not belong to {_PUBLIC.as_posix()}",
            file=str(folder),
            remedy="train again",
        )
    return parts


@contextmanager
def of_one_model(folder: Path) -> Iterator[None]:
    """What is put together in the block came from ``folder``: DataError for what it lacks."""
    try:
        yield
    except KeyError as error:
        raise DataError(f"{error} is missing", file=str(folder), remedy="train again") from None
    except ParameterError as error:
        raise DataError(error.message, file=str(folder), remedy=error.remedy) from None


def holds_kind(folder: Path, kind: Kind) -> bool:
    """Whether ``folder`` holds a finished model of ``kind``, as far as its public part tells."""
    try:
        public = json.loads((folder / _PUBLIC).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return isinstance(public, dict) and public.get("kind", "") == kind.name


def _read_public(path: Path, kind: Kind) -> dict[str, Any]:
    try:
        public = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise DataError(
            "no trained model here",
            file=str(path),
            expected="the --out folder of a finished 'privrec train'",
        ) from None
    except (OSError, ValueError):
        public = None
    if not isinstance(public, dict):
        raise DataError("damaged file", file=str(path), remedy="train again")
    name, version = public.get("kind", ""), public.get("format")
    if name != kind.name:
        found, expected = (f"a model of {each or 'visits'}" for each in (name, kind.name))
        raise DataError(found, file=str(path), expected=expected)
    if version != kind.format:
        raise DataError(
            f"model format {version!r}", file=str(path), expected=f"format {kind.format}"
        )
    return public


def _array(name: str) -> str:
    """The name in its file of an array that was learned, apart from what comes with the data."""
    return f"model.{name}"


def _table(name: str) -> str:
    return f"table.{name}"
