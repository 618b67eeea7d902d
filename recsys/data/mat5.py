"""MATLAB files of versions 5 to 7: their matrices of numbers, and the names of all variables.

Source: MathWorks, "MAT-File Format" (2024), chapter on level 5.
Error: none; numbers become float64, which is exact for all but integers beyond 2^53.
Differs: cells, structures, texts, objects and complex numbers are refused where they are asked for.
    Every length is checked before it is used, so that a damaged file is an error and never more;
    scipy.io.loadmat can end the process on one.
"""

import struct
import zlib
from collections.abc import Collection, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mpc.core.errors import ParameterError
from recsys.data.matrix import Matrix, from_columns, from_compressed_columns

HEADER_BYTES = 128
LITTLE, BIG = b"IM", b"MI"
"""The end of the header, by the order of bytes in the rest."""

_NUMBERS = {
    1: "i1",
    2: "u1",
    3: "i2",
    4: "u2",
    5: "i4",
    6: "u4",
    7: "f4",
    9: "f8",
    12: "i8",
    13: "u8",
}
_MATRIX, _COMPRESSED = 14, 15
_SPARSE = 5
_DENSE = range(6, 16)  # double to uint64
_KINDS = {1: "a cell array", 2: "a structure", 3: "an object", 4: "text", 16: "a function"}
_COMPLEX = 0x0800


@dataclass(frozen=True)
class _Element:
    kind: int
    data: memoryview


def is_mat5(head: bytes) -> bool:
    """Whether a file that starts with ``head`` is of these versions."""
    return head[HEADER_BYTES - 2 : HEADER_BYTES] in (LITTLE, BIG)


def read_mat5(data: bytes, wanted: Collection[str]) -> tuple[list[str], dict[str, Matrix]]:
    """The names of all variables, and those of ``wanted`` that are there, as matrices.

    Raises ParameterError for a file that is cut off or damaged, and for a wanted variable that is
    no matrix of numbers.
    """
    order = "<" if data[HEADER_BYTES - 2 : HEADER_BYTES] == LITTLE else ">"
    names, found = [], {}
    for variable in _elements(memoryview(data)[HEADER_BYTES:], order):
        if variable.kind == _COMPRESSED:
            variable = _unpacked(variable, order)  # noqa: PLW2901 - the same variable
        if variable.kind != _MATRIX:
            raise ParameterError(
                f"an element of kind {variable.kind} stands where a variable should"
            )
        parts = _elements(variable.data, order)
        flags, size, label = (_next(parts) for _ in range(3))
        name = bytes(label.data).decode("latin-1")
        names.append(name)
        if name in wanted:
            shape = tuple(_numbers(size, order).tolist())
            try:
                found[name] = _matrix(int(_numbers(flags, order)[0]), shape, parts, order)
            except ParameterError as error:
                raise ParameterError(f"{name}: {error.message}") from error
    return names, found


def _matrix(flags: int, shape: tuple[int, ...], parts: Iterator[_Element], order: str) -> Matrix:
    kind = flags & 0xFF
    if kind != _SPARSE and kind not in _DENSE:
        raise ParameterError(f"this is {_KINDS.get(kind, 'an object')}, no matrix of numbers")
    if flags & _COMPLEX:
        raise ParameterError("the numbers are complex")
    if len(shape) != 2 or min(shape) < 0:
        raise ParameterError(f"the shape {shape} is not that of a matrix")
    rows, columns = shape
    if kind == _SPARSE:
        ir, jc, values = (_numbers(_next(parts), order) for _ in range(3))
        return from_compressed_columns((rows, columns), jc, ir, values)
    values = _numbers(_next(parts), order)
    if values.size != rows * columns:
        raise ParameterError(f"there are {values.size} numbers, of {rows} times {columns}")
    return from_columns((rows, columns), [values.reshape(columns, rows)])


def _numbers(element: _Element, order: str) -> NDArray[np.generic]:
    kind = _NUMBERS.get(element.kind)
    if kind is None:
        raise ParameterError(f"an element of kind {element.kind} stands where numbers should")
    dtype = np.dtype(order + kind)
    if len(element.data) % dtype.itemsize:
        raise ParameterError(f"{len(element.data)} bytes do not divide into numbers of {kind}")
    return np.frombuffer(element.data, dtype=dtype)


def _unpacked(element: _Element, order: str) -> _Element:
    try:
        data = zlib.decompress(element.data)
    except zlib.error as error:
        raise ParameterError(f"a compressed variable is damaged ({error})") from error
    return _next(_elements(memoryview(data), order))


def _next(elements: Iterator[_Element]) -> _Element:
    element = next(elements, None)
    if element is None:
        raise ParameterError("a variable ends too early")
    return element


def _elements(data: memoryview, order: str) -> Iterator[_Element]:
    """The elements that stand one behind the other in ``data``."""
    at = 0
    while at < len(data):
        if at + 8 > len(data):
            raise ParameterError("the file is cut off")
        kind, size = struct.unpack_from(f"{order}II", data, at)
        if kind >> 16:  # a short element: its size and its data stand in the tag
            kind, size, start, end = kind & 0xFFFF, kind >> 16, at + 4, at + 8
        else:
            start = at + 8
            # All but compressed elements fill up their last eight bytes.
            end = start + (size if kind == _COMPRESSED else -(-size // 8) * 8)
        if size > end - start or start + size > len(data):
            raise ParameterError("the file is cut off")
        yield _Element(kind, data[start : start + size])
        at = end
