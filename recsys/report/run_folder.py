"""A training run on disk: what must survive a kill, separated by who holds it.

    public/run.json        experiment seed, digest of the data, whether answers were given
    public/config.toml     all settings; ``privrec train --config`` reads it
    public/state.json      the learning curve, and which checkpoint counts; replaced last
    recommender/checkpoint-0007.npz
    users/checkpoint-0007.npz, memo-keys.npz, watermark    private: folder 0700, files 0600
    .lock                  held by the process that trains

Model: the process may be killed at any instant; whoever owns the machine is trusted, since the
    folder holds every party's secrets side by side.
Leaks: public/ holds no secret. The experiment seed decides split, order and rounding; it makes no
    key, share, mask or privacy coin. (A seed in public/config.toml makes privacy coins too: such a
    run has no privacy and says so.)
"""

import hashlib
import platform
import tomllib
from collections.abc import Callable, Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mpc.core.errors import ParameterError
from mpc.core.rng import SYSTEM_RNG
from recsys.array_files import pack_arrays, read_arrays
from recsys.data.prepare import Prepared
from recsys.data.ratings import RatingParts
from recsys.errors import DataError, PrivacyRefusal
from recsys.report import toml
from recsys.report.held_folder import HeldFolder, as_json, check_empty, read_json
from recsys.run import MEMO_KEY_BYTES, Snapshot
from secagg.watermark import FileWatermark

FORMAT = 1

_PARTS = ("public", "recommender", "users")
_OURS = {
    "public": (
        "run.json",  # first: without it the folder holds no run
        "config.toml",
        "state.json",
        "model.json",
        "report.html",
        "ledger.json",
        "metrics.json",
    ),
    "recommender": ("checkpoint-*.npz", "model.npz"),
    "users": (
        "checkpoint-*.npz",
        "models.npz",
        "memo-keys.npz",
        "report.html",
        "watermark",
        "watermark.*",
    ),
}
"""Files that a run makes, so that ``force`` deletes nothing else."""


class RunFolder(HeldFolder):
    """Implements ``recsys.run.Run`` in a folder: opens the run that it holds, or starts one.

    settings: flat values for public/config.toml, for a new run only.
    libraries: those whose versions decide the digest too, for a new run only.
    force: replace a run that is there, and start in a folder that holds other files.
    Raises ParameterError for a folder in use, one with other files, and settings for a run that
    has its own; DataError for damaged files. Close it to release the lock; it is a context manager.
    """

    _run: dict[str, Any]
    _state: dict[str, Any] | None

    def __init__(
        self,
        folder: Path | str,
        *,
        settings: Mapping[str, toml.Value] | None = None,
        libraries: Sequence[str] = (),
        force: bool = False,
    ) -> None:
        self.meter: Callable[[], dict[str, Any]] | None = None
        """Asked at each checkpoint for plain values that ``spent`` gives back after a resume."""
        self.listener: Callable[[str], None] | None = None
        """Hears how far a long step is."""
        path = Path(folder)
        if not force:
            _check_free(path, new=settings is not None)
        super().__init__(path)
        try:
            if force:
                self._clear()
            self.is_new = not holds_run(self.path)
            if self.is_new:
                self._start(settings or {}, libraries)
            self._open()
        except BaseException:
            self.close()
            raise

    def discard(self) -> None:
        """Delete a run that never came to a checkpoint; one that did is kept."""
        if self._state is not None:
            return
        self._clear()
        self._remove(self.path / part for part in _PARTS)

    @property
    def settings(self) -> dict[str, Any]:
        """What public/config.toml holds; DataError if it is damaged."""
        path = self.path / "public" / "config.toml"
        try:
            return tomllib.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            raise DataError("damaged file", file=str(path), remedy="start a new run") from None

    @property
    def checkpoints(self) -> int:
        """How many checkpoints were made: the epochs that a resume need not repeat."""
        return 0 if self._state is None else int(self._state["checkpoint"])

    @property
    def spent(self) -> dict[str, Any] | None:
        """What ``meter`` said at the last checkpoint of earlier processes, None without one."""
        return self._spent

    def changed_versions(self) -> list[str]:
        """A sentence for each library whose version is not the one that the run began with."""
        began: dict[str, str] = self._run["versions"]
        present = _versions([name for name in began if name not in _versions()])
        return [
            f"the run began with {name} {began.get(name)} and goes on with {now}: the digest may "
            "differ"
            for name, now in present.items()
            if began.get(name) != now
        ]

    def check_data(self, digest: str) -> None:
        """Bind a new run to its data; DataError if a resumed one gets others."""
        if self._run["data"] is None:
            self._write_run(data=digest)
        elif self._run["data"] != digest:
            raise DataError(
                "the data are not those that the run began with",
                file=str(self.path),
                remedy="give it the same data, or start a new run",
            )

    def use_engine(self, name: str) -> None:
        """Note that a process goes on under the engine ``name``."""
        if name not in self.engines:
            self._write_run(engines=[*self.engines, name])

    @property
    def engines(self) -> tuple[str, ...]:
        """Names of the engines that processes of this run have had, in order of first use."""
        return tuple(self._run.get("engines", ()))

    def experiment_seed(self) -> int:
        """The seed of split, order and rounding: drawn once, on disk before it is returned."""
        if self._run["experiment_seed"] is None:
            self._write_run(experiment_seed=int.from_bytes(SYSTEM_RNG.bytes(8), "big"))
        return int(self._run["experiment_seed"])

    def memo_keys(self, users: int) -> NDArray[np.uint8]:
        """Each user's memo key, uint8 (users, 32), on disk before it is returned.

        Raises PrivacyRefusal if keys are lost or damaged: new ones would answer the same questions
        with new coins, which spends the users' privacy a second time.
        """
        path = self.path / "users" / "memo-keys.npz"
        if path.exists():
            keys = self._read_memo_keys(path, users)
        elif self._run["answers_given"]:
            raise _lost(path, "is lost")
        else:
            keys = SYSTEM_RNG.words((users, MEMO_KEY_BYTES), np.uint8)
            self.write_private(path.name, pack_arrays({"keys": keys}))
        if not self._run["answers_given"]:
            self._write_run(answers_given=True)
        return keys

    def tell(self, text: str) -> None:
        """See ``recsys.run.Run``."""
        if self.listener is not None:
            self.listener(text)

    def watermark(self) -> FileWatermark:
        """The marks of all pad keys that any process of this run has used.

        Pad keys never outlive their process, so a resumed run starts marks of its own beside them.
        """
        return FileWatermark(self.path / "users" / "watermark")

    def load(self) -> Snapshot | None:
        """The snapshot that state.json names, None before the first; DataError if damaged."""
        if self._state is None:
            return None
        name = _checkpoint(self.checkpoints)
        return Snapshot(
            users=read_arrays(self.path / "users" / name),
            recommender=read_arrays(self.path / "recommender" / name),
            progress=self._state["progress"],
        )

    def save(self, snapshot: Snapshot) -> None:
        """Write both checkpoints, then state.json, which makes them count; then drop older ones."""
        number = self.checkpoints + 1
        name = _checkpoint(number)
        self.write_private(name, pack_arrays(snapshot.users))
        self.write_private(name, pack_arrays(snapshot.recommender), "recommender")
        state: dict[str, Any] = {
            "format": FORMAT,
            "checkpoint": number,
            "progress": snapshot.progress,
            "spent": None if self.meter is None else self.meter(),
        }
        self.write_public("state.json", as_json(state))
        self._state = state
        self._drop_checkpoints(keep=name)

    def _start(self, settings: Mapping[str, toml.Value], libraries: Sequence[str]) -> None:
        for part in _PARTS:
            (self.path / part).mkdir(exist_ok=True)
        (self.path / "users").chmod(0o700)
        if not (self.path / "users" / "watermark").exists():  # a kill may have left one
            FileWatermark.create(self.path / "users" / "watermark")
        self.write_public("config.toml", toml.dump(settings).encode())
        # This file makes the folder a run, so it comes last.
        self._run = {"format": FORMAT}
        self._write_run(
            experiment_seed=None, data=None, answers_given=False, versions=_versions(libraries)
        )

    def _open(self) -> None:
        self._run = _read_json(self.path / "public" / "run.json")
        state = self.path / "public" / "state.json"
        self._state = _read_json(state) if state.exists() else None
        self._spent = None if self._state is None else self._state["spent"]
        self._drop_checkpoints(keep=_checkpoint(self.checkpoints))
        for part in _PARTS:
            for leftover in (self.path / part).glob(".*.tmp"):
                leftover.unlink()

    def _clear(self) -> None:
        """Delete what a run made, if there is one; first the file that makes it a run."""
        if not holds_run(self.path) and not (self.path / "public" / "model.json").is_file():
            return
        for part, patterns in _OURS.items():
            for pattern in patterns:
                for file in (self.path / part).glob(pattern):
                    file.unlink()

    def _drop_checkpoints(self, *, keep: str) -> None:
        for part in ("users", "recommender"):
            for file in (self.path / part).glob("checkpoint-*.npz"):
                if file.name != keep:
                    file.unlink()

    def _read_memo_keys(self, path: Path, users: int) -> NDArray[np.uint8]:
        try:
            keys = read_arrays(path).get("keys")
        except DataError:
            raise _lost(path, "is damaged") from None
        if keys is None or keys.dtype != np.uint8 or keys.shape != (users, MEMO_KEY_BYTES):
            raise _lost(path, f"does not hold the keys of {users} users")
        return keys

    def _write_run(self, **changes: object) -> None:
        self._run = {**self._run, **changes}
        self.write_public("run.json", as_json(self._run))


def holds_run(folder: Path) -> bool:
    """Whether ``folder`` holds a run that was started."""
    return (folder / "public" / "run.json").is_file()


def _check_free(folder: Path, *, new: bool) -> None:
    """Refuse before anything is touched; ``new``: the caller wants to start a run."""
    if not holds_run(folder):
        check_empty(folder, "run")
    elif new:
        raise ParameterError(
            f"{folder} holds a run already", remedy="--resume that one, or --force a new one"
        )


def data_digest(prepared: Prepared, user_features: NDArray[np.float64] | None) -> str:
    """SHA-256 over all that training sees of the data; names and notes do not count."""
    arrays: list[NDArray[Any]] = [prepared.lat, prepared.lon, prepared.category]
    arrays += [prepared.visited.keys, prepared.visited.visits]
    if prepared.visited.last is not None:
        arrays.append(prepared.visited.last)
    for part in (prepared.train, prepared.validation, prepared.test):
        arrays += [part.users, part.pois, part.labels]
    if user_features is not None:
        arrays.append(user_features)
    return _digest(arrays, (prepared.user_ids, prepared.poi_ids))


def parts_digest(parts: RatingParts) -> str:
    """The same of ratings, of their range and of the graphs that came with them."""
    arrays: list[NDArray[Any]] = [np.array([parts.low, parts.high])]
    for part in (parts.train, parts.validation, parts.test):
        arrays += [part.users, part.items, part.values]
    for graph in (parts.user_graph, parts.item_graph):
        arrays += [] if graph is None else [graph.source, graph.target]
    return _digest(arrays, (parts.user_ids, parts.item_ids))


def _digest(arrays: Sequence[NDArray[Any]], names: Sequence[Sequence[str]]) -> str:
    digest = hashlib.sha256()
    for array in arrays:
        little = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<"))
        digest.update(f"{little.dtype.str}{little.shape}".encode())
        digest.update(little.tobytes())
    for ids in names:
        digest.update(as_json(list(ids)))
    return digest.hexdigest()


def _checkpoint(number: int) -> str:
    return f"checkpoint-{number:04d}.npz"


def _versions(more: Sequence[str] = ()) -> dict[str, str]:
    found = {"python": platform.python_version()}
    for name in ("privrec", "numpy", "scipy", "cryptography", *more):
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            found[name] = "none"
    return found


def _read_json(path: Path) -> dict[str, Any]:
    return read_json(path, FORMAT, "run format", "start a new run")


def _lost(path: Path, how: str) -> PrivacyRefusal:
    return PrivacyRefusal(
        f"{path} {how}; new keys would give the same users' answers again with new coins",
        remedy="restore the file, or start a new run, whose answers are a release of their own",
    )
