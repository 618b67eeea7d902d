"""Numbers of Python and numpy as exact fractions, and as integers in steps of a power of two.

Source: IEEE 754: every finite float is an integer times a power of two.
Model: conversion only. Errors name the place of a number, never the number.
Error: none in ``fraction``; ``scaled`` rounds to nearest, ties to even, and says whether it did.
"""

from fractions import Fraction
from typing import Any, SupportsIndex

import numpy as np
from numpy.typing import NDArray

from mpc.core.errors import ParameterError

Number = SupportsIndex | float | Fraction | np.floating[Any]
"""Integers, floats of any width and fractions, of Python and numpy; booleans are refused."""


def fraction(where: str, value: Any) -> Fraction:
    """``value`` itself; ParameterError for booleans, NaN, infinities and what is no number."""
    if isinstance(value, bool | np.bool_):
        raise ParameterError(f"{where} is a boolean", remedy="give the integer that it stands for")
    try:
        if isinstance(value, np.ndarray):
            raise TypeError
        ratio = getattr(value, "as_integer_ratio", None)
        return Fraction(*ratio()) if ratio is not None else Fraction(value.__index__())
    except (OverflowError, ValueError):
        raise ParameterError(f"{where} is not finite") from None
    except (AttributeError, TypeError):
        raise ParameterError(f"{where} must be a real number, got {type(value).__name__}") from None


def places(value: Fraction) -> int:
    """The fractional bits that ``value`` has; ParameterError where they have no end."""
    denominator = value.denominator
    if denominator & (denominator - 1):
        raise ParameterError(
            "a fraction without an end in base two cannot be taken exactly",
            remedy="give the number of fractional bits to round it to",
        )
    return denominator.bit_length() - 1


def scaled(value: Fraction, frac_bits: int) -> tuple[int, bool]:
    """The integer nearest to value 2^frac_bits, and whether it is equal to it."""
    steps = value * (1 << frac_bits)
    nearest = round(steps)
    return nearest, nearest == steps


def objects(values: Any) -> NDArray[np.object_]:
    """An array of the very numbers given: numpy would turn [2^63, -1] and [True, 2] into others.

    Raises ParameterError for rows of unequal size.
    """
    if isinstance(values, np.ndarray):
        # astype would make Python's booleans and floats of numpy's, which is just as exact.
        return values.astype(np.object_)
    try:
        array = np.array(values, dtype=np.object_)
    except ValueError:
        raise ParameterError("values must form an array, got rows of unequal size") from None
    if any(isinstance(entry, list | tuple) for entry in array.reshape(-1)):
        raise ParameterError("values must form an array, got rows of unequal size")
    return array
