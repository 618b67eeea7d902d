"""Arrays by name in one file, and never pickled."""

import io
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recsys.errors import DataError


def pack_arrays(arrays: Mapping[str, NDArray[Any]]) -> bytes:
    """The bytes of an uncompressed .npz archive without pickled objects."""
    buffer = io.BytesIO()
    np.savez(buffer, allow_pickle=False, **arrays)
    return buffer.getvalue()


def read_arrays(path: Path) -> dict[str, NDArray[Any]]:
    """The arrays of an .npz archive; DataError if it is missing, damaged or holds objects."""
    try:
        # Opened here, because numpy leaves its own file open if the archive is damaged.
        with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
            return {name: archive[name] for name in archive.files}
    except FileNotFoundError:
        raise DataError(
            "no such file", file=str(path), expected="a model folder", remedy="train one first"
        ) from None
    except Exception:
        # Whatever zipfile and numpy make of damaged bytes: a flipped bit may claim encryption, an
        # unknown method or an impossible shape, and each has an exception of its own.
        raise DataError("damaged array file", file=str(path), remedy="train again") from None
