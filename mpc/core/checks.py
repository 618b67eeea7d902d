"""The check that nearly every argument needs: an integer of a stated range."""

import operator
from typing import SupportsIndex

from mpc.core.errors import ParameterError


def integer(name: str, value: SupportsIndex, low: int, high: int) -> int:
    """``value`` as a Python int in [low, high], both ends included.

    numpy's integers count; booleans and floats do not, not even ``True`` and ``2.0``.
    Raises ParameterError with ``name``, the value and the range; so never pass a secret.
    """
    number = value if type(value) is int else _index(name, value)
    if not low <= number <= high:
        raise ParameterError(
            f"{name} must lie in [{_shown(low)}, {_shown(high)}], got {_shown(number)}"
        )
    return number


def _index(name: str, value: SupportsIndex) -> int:
    try:
        if not isinstance(value, bool):
            return operator.index(value)
    except TypeError:
        pass
    raise ParameterError(f"{name} must be an integer, got {type(value).__name__}")


def _shown(number: int) -> str:
    size = abs(number)
    sign = "-" if number < 0 else ""
    if size < 1 << 16:
        return f"{number}"
    if size & (size - 1) == 0:
        return f"{sign}2^{size.bit_length() - 1}"
    if size & (size + 1) == 0:
        return f"{sign}(2^{size.bit_length()} - 1)" if sign else f"2^{size.bit_length()} - 1"
    # Python refuses to print integers of thousands of digits, and nobody reads them.
    return f"{number}" if size.bit_length() <= 128 else f"an integer of {size.bit_length()} bits"
