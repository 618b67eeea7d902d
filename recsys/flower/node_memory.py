"""What a node keeps between messages: a key, and arrays that only its users hold.

Flower runs each message in a process of its own. What is kept lies in ``Context.state``, which the
SuperNode holds in memory, and, where the node's configuration names a folder (``privrec-folder``),
in a file there too, so that a restarted node goes on with its users' parameters and its key.

Model: both are the node's own; nothing of them is in a message.
Leaks: to whoever reads the node's memory or folder all that its users hold.
"""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, RecordDict
from numpy.typing import NDArray

from mpc.core.durable import PRIVATE, write_durably
from mpc.core.errors import ParameterError
from mpc.core.keys import KEY_BYTES, derive
from mpc.core.prg import Prg
from mpc.core.rng import SYSTEM_RNG
from recsys.array_files import pack_arrays, read_arrays
from recsys.run import MEMO_KEY_BYTES, MemoryRun
from recsys.training import Arrays

FOLDER = "privrec-folder"
"""The key of ``node_config`` for a folder of the node's own."""

_KEY, _ARRAYS = "privrec.key", "privrec.own"
_FILE = "node.npz"


class NodeRun(MemoryRun):
    """Implements ``recsys.run.Run`` from one key: the same coins and keys whenever it is asked."""

    def __init__(self, key: bytes) -> None:
        super().__init__()
        self._key = key

    def experiment_seed(self) -> int:
        """The seed of this node's split, order and rounding."""
        return int.from_bytes(derive(self._key, "flower.seed", length=8), "big")

    def memo_keys(self, users: int) -> NDArray[np.uint8]:
        """Each user's key, (users, 32): rows do not depend on how many there are."""
        keys: NDArray[np.uint8] = Prg(derive(self._key, "flower.memo")).words(
            (users, MEMO_KEY_BYTES), np.uint8
        )
        return keys


class NodeMemory:
    """key: 32 bytes, drawn once.  arrays: float64 by name, changed by whoever holds them."""

    def __init__(self, key: bytes, arrays: Arrays, folder: Path | None) -> None:
        self.key, self.arrays, self.folder = key, arrays, folder

    @classmethod
    def open(cls, state: RecordDict, node_config: Mapping[str, object]) -> "NodeMemory":
        """What the state holds, else the folder, else a new key and no arrays.

        Raises DataError for a damaged file, ParameterError for a folder that is no path.
        """
        folder = folder_of(node_config)
        key, arrays = state.get(_KEY), state.get(_ARRAYS)
        if isinstance(key, ConfigRecord) and isinstance(key.get("key"), bytes):
            held = arrays if isinstance(arrays, ArrayRecord) else ArrayRecord()
            return cls(bytes(key["key"]), _doubles(held), folder)  # type: ignore[arg-type]
        if folder is not None and (folder / _FILE).exists():
            stored = read_arrays(folder / _FILE)
            return cls(stored.pop("key").tobytes(), stored, folder)
        return cls(SYSTEM_RNG.bytes(KEY_BYTES), {}, folder)

    @property
    def run(self) -> NodeRun:
        """Where this node's seeds and keys come from."""
        return NodeRun(self.key)

    def keep(self, state: RecordDict) -> None:
        """Store everything. A file that is there already is replaced only where arrays changed."""
        state[_KEY] = ConfigRecord({"key": self.key})
        state[_ARRAYS] = ArrayRecord({name: Array(array) for name, array in self.arrays.items()})
        if self.folder is None or (not self.arrays and (self.folder / _FILE).exists()):
            return
        self.folder.mkdir(parents=True, exist_ok=True)
        self.folder.chmod(0o700)
        key = np.frombuffer(self.key, dtype=np.uint8)
        write_durably(self.folder / _FILE, pack_arrays({"key": key, **self.arrays}), mode=PRIVATE)


def folder_of(node_config: Mapping[str, object]) -> Path | None:
    """The folder that a node's configuration names, None for none. ParameterError for no path."""
    given = node_config.get(FOLDER)
    if given is None:
        return None
    if not isinstance(given, str) or not given:
        raise ParameterError(f"{FOLDER} must be a path, got {type(given).__name__}")
    return Path(given)


def _doubles(record: ArrayRecord) -> Arrays:
    return {name: array.numpy().astype(np.float64) for name, array in record.items()}
