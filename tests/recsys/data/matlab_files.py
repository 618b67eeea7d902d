"""MATLAB files as MATLAB writes them: versions 5 to 7 through scipy, 7.3 through h5py."""

from io import BytesIO
from typing import Any

import h5py
import numpy as np
from scipy.io import savemat
from scipy.sparse import csc_matrix

HEADER_73 = b"MATLAB 7.3 MAT-file, Platform: GLNXA64, HDF5 schema 1.00 ."
CLASSES = {"f8": "double", "f4": "single", "b1": "logical", "u1": "uint8", "i4": "int32"}


def version_5(variables: dict[str, Any], *, compressed: bool = False) -> bytes:
    out = BytesIO()
    savemat(out, variables, do_compression=compressed)  # type: ignore[arg-type]
    return out.getvalue()


def version_73(variables: dict[str, Any]) -> bytes:
    """Dense arrays transposed; sparse ones as a group of data, ir and jc with its rows."""
    out = BytesIO()
    with h5py.File(out, "w", userblock_size=512) as file:
        for name, value in variables.items():
            if isinstance(value, csc_matrix):
                _put_sparse(file, name, value)
                continue
            array = np.asarray(value)
            stored = array.astype(np.uint8) if array.dtype == np.bool_ else array
            node = file.create_dataset(name, data=stored.T)
            node.attrs["MATLAB_class"] = np.bytes_(CLASSES[array.dtype.str[1:]])
    data = out.getvalue()
    return HEADER_73.ljust(124) + b"\x00\x02IM" + bytes(384) + data[512:]


def _put_sparse(file: Any, name: str, value: Any) -> None:
    value = value.copy()
    value.sort_indices()
    group = file.create_group(name)
    group.attrs["MATLAB_class"] = np.bytes_(CLASSES[value.dtype.str[1:]])
    group.attrs["MATLAB_sparse"] = np.uint64(value.shape[0])
    if value.nnz:  # without entries MATLAB writes jc alone
        group["data"] = value.data
        group["ir"] = value.indices.astype(np.uint64)
    group["jc"] = value.indptr.astype(np.uint64)
