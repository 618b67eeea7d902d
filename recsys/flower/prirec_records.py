"""How PriRec's messages lie in messages of Flower, and a node in its state: two records.

All arrays of a message lie in one array of bytes: Flower handles every array of a record as an
object of its own, which for many small ones takes longer than everything else.

Source: ours, for Flower 1.42.
Model: records come from anyone; what is no such record raises WireError.
Leaks: what the messages show.
"""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, RecordDict
from numpy.typing import NDArray

from mpc.core.errors import WireError
from mpc.core.wire import Message
from recsys.flower.prirec_messages import Table

RECORD, ARRAYS = "privrec.prirec", "privrec.arrays"

_KIND = "privrec.table"
_DTYPES = ("|i1", "|u1", "<u4", "<i4", "<i8", "<f8")
_AXES = 4


class _Packed(Message, frozen=True, tag="prirec.table"):
    """(name, dtype, shape, little-endian bytes), names rising."""

    rows: tuple[tuple[str, str, tuple[int, ...], bytes], ...]


def content_of(message: Message | bytes, arrays: Mapping[str, NDArray[Any]]) -> RecordDict:
    """The content of a message of Flower, or of a node's state."""
    data = message if isinstance(message, bytes) else message.to_bytes()
    packed = pack_table(arrays)
    array = Array(dtype="uint8", shape=(len(packed),), stype=_KIND, data=packed)
    return RecordDict({RECORD: ConfigRecord({"data": data}), ARRAYS: ArrayRecord({"all": array})})


def read_content(content: RecordDict) -> tuple[bytes, Table]:
    """Inverse of ``content_of``: bytes of a message, and arrays by name, which are copies."""
    record, arrays = content.get(RECORD), content.get(ARRAYS)
    data = record.get("data") if isinstance(record, ConfigRecord) else None
    packed = arrays.get("all") if isinstance(arrays, ArrayRecord) else None
    if not isinstance(data, bytes) or packed is None:
        raise WireError(f"the message has no records {RECORD!r} and {ARRAYS!r}")
    return data, unpack_table(packed.data)


def pack_table(arrays: Mapping[str, NDArray[Any]]) -> bytes:
    """Arrays by name as bytes. WireError for a dtype that has no place there."""
    rows = []
    for name, array in sorted(arrays.items()):
        kind = array.dtype.newbyteorder("<").str
        if kind not in _DTYPES or array.ndim > _AXES:
            raise WireError(f"array {name!r} of {array.dtype} has no place in a message")
        rows.append((name, kind, array.shape, array.astype(kind, copy=False).tobytes()))
    return _Packed(tuple(rows)).to_bytes()


def unpack_table(data: bytes) -> Table:
    """Inverse of ``pack_table``. WireError for any other bytes."""
    table: Table = {}
    for name, kind, shape, values in _Packed.from_bytes(data).rows:
        if kind not in _DTYPES or len(shape) > _AXES or name in table:
            raise WireError("a table has two arrays of one name, or an array that is none")
        dtype = np.dtype(kind)
        if len(values) != math.prod(shape) * dtype.itemsize:
            raise WireError(f"the array {name!r} has another size than its shape says")
        flat = np.frombuffer(values, dtype=dtype).astype(dtype.newbyteorder("="))
        table[name] = flat.reshape(shape)
    return table
