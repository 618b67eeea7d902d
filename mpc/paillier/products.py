"""Encrypted vectors times plain matrices, of integers or of fractions, by multi-exponentiation.

Source: Paillier (EUROCRYPT 1999), section 8, all powers of a row at once: see
    ``mpc.paillier.multi_exponentiation``.
Model: whoever computes knows the weights.
Leaks: a result is not fresh: it is a function of the inputs, and whoever knows these can test
    guesses of the weights against it, so it has no wire form before it is re-randomised. The
    account of a product of fractions tells a bound of the weights. The time depends on the weights.
Error: for integers none while the true result lies in (-n/2, n/2), and the caller counts bits;
    for fractions the account's ``max_error``, and what could leave that range is refused.
"""

from collections.abc import Sequence
from itertools import compress
from operator import mul
from typing import Any, SupportsIndex

import numpy as np
from numpy.typing import NDArray

from mpc.core.errors import ParameterError
from mpc.paillier.ciphertext import Ciphertext, check_same_key
from mpc.paillier.codec import Account, EncryptedFraction, check_room, checked_frac_bits
from mpc.paillier.exact import fraction, objects, places, scaled
from mpc.paillier.keys import PublicKey
from mpc.paillier.multi_exponentiation import multi_exponentiation

Integers = Sequence[SupportsIndex] | NDArray[Any]
"""Integers of Python, gmpy2 or numpy, or an array of an integer dtype or of dtype object."""

Numbers = Sequence[Any] | NDArray[Any]
"""What the codec takes: integers, floats and fractions, or an array of them."""


def dot(ciphertexts: Sequence[Ciphertext], weights: Integers) -> Ciphertext:
    """A ciphertext, not fresh, of the sum of weights[j] times the plaintext of ciphertexts[j].

    ciphertexts: D >= 1, of one key.  weights: D integers in (-n/2, n/2).
    Raises ParameterError otherwise; booleans and floats are refused.
    """
    return matrix_vector([weights], ciphertexts)[0]


def matrix_vector(
    matrix: Sequence[Integers] | NDArray[Any], ciphertexts: Sequence[Ciphertext]
) -> list[Ciphertext]:
    """The integer ``matrix`` (M, D) times a vector of D >= 1 ciphertexts: M of them, not fresh.

    Takes and refuses what ``dot`` does, row by row. Many rows share tables of their columns, where
    that is cheaper: from about 100 rows of 1000 columns, or 10 of 64, on.
    """
    if not len(ciphertexts):
        raise ParameterError("a product needs at least one ciphertext")
    public = ciphertexts[0].public
    for ciphertext in ciphertexts:
        check_same_key(public, ciphertext.public)
    rows = [_integers(row, len(ciphertexts), public) for row in matrix]
    bases = [ciphertext.value for ciphertext in ciphertexts]
    values = multi_exponentiation(bases, rows, public.n_squared)
    return [Ciphertext.unchecked(value, public) for value in values]


def _integers(row: Integers, columns: int, public: PublicKey) -> list[int]:
    """One row of weights as Python integers, checked."""
    weights: Any = row.tolist() if isinstance(row, np.ndarray) and row.dtype.kind in "iuO" else row
    if not isinstance(weights, Sequence) or len(weights) != columns:
        raise ParameterError(
            f"a row of weights must hold {columns} integers",
            remedy="multiply by fractions with mpc.paillier.codec",
        )
    try:
        return [public.check_plaintext(weight) for weight in weights]
    except ParameterError:
        raise ParameterError(
            "weights must be integers in (-n/2, n/2)",
            remedy="multiply by fractions with mpc.paillier.codec",
        ) from None


def dot_fractions(
    numbers: Sequence[EncryptedFraction], weights: Numbers, *, frac_bits: int | None = None
) -> EncryptedFraction:
    """The sum of weights[j] * numbers[j]: ``matrix_vector_fractions`` with one row."""
    return matrix_vector_fractions([weights], numbers, frac_bits=frac_bits)[0]


def matrix_vector_fractions(
    matrix: Sequence[Numbers] | NDArray[Any],
    numbers: Sequence[EncryptedFraction],
    *,
    frac_bits: int | None = None,
) -> list[EncryptedFraction]:
    """The plain ``matrix`` (M, D) times D >= 1 encrypted fractions.

    frac_bits: what entries are rounded to. Without it they are taken exactly, in the fractional
    bits that the finest has, which is about 60 for floats and costs in proportion.
    All M results have the same account, which holds for the largest row. Raises ParameterError,
    before anything is computed, for what could leave the plaintext space.
    """
    encrypted = list(numbers)
    if not encrypted:
        raise ParameterError("a product needs at least one encrypted fraction")
    shift, rows = _scaled_rows(matrix, len(encrypted), frac_bits)
    finest = max(number.account.frac_bits for number in encrypted)
    lifts = [finest - number.account.frac_bits for number in encrypted]
    accounts = [number.account.aligned(finest) for number in encrypted]
    bounds = [account.bound for account in accounts]
    errors = [account.error for account in accounts]
    roundings = [account.rounding for account in accounts]
    bound, error = 1, 0
    for mantissas, inexact in rows:
        sizes = [abs(mantissa) for mantissa in mantissas]
        bound = max(bound, sum(map(mul, sizes, bounds)))
        error = max(error, sum(map(mul, sizes, errors)) + sum(compress(roundings, inexact)))
    public = encrypted[0].ciphertext.public
    left = min(number.bits_left for number in encrypted)
    check_room("a sum of products", bound, public, left)
    account = Account(finest + shift, bound, error)
    weights = [[m << lift for m, lift in zip(row, lifts, strict=True)] for row, _ in rows]
    products = matrix_vector(weights, [number.ciphertext for number in encrypted])
    return [EncryptedFraction(product, account) for product in products]


def _scaled_rows(
    matrix: Any, columns: int, frac_bits: int | None
) -> tuple[int, list[tuple[list[int], list[bool]]]]:
    """The fractional bits, and for each row its integers and which of them were rounded."""
    array = matrix if isinstance(matrix, np.ndarray) else objects(matrix)
    if array.ndim != 2 or array.shape[1] != columns:
        raise ParameterError(f"the matrix must have {columns} columns, got shape {array.shape}")
    if frac_bits is not None:
        frac_bits = checked_frac_bits(frac_bits)
        if array.dtype.kind == "f" and array.dtype.itemsize <= 8:
            # A power of two only moves the exponent, so nothing is rounded before rint.
            with np.errstate(over="ignore", invalid="ignore"):
                steps = np.ldexp(array.astype(np.float64), frac_bits)
                nearest = np.rint(steps)
            if np.all(np.abs(nearest) < 2.0**63):  # false for NaN, whose index the other way names
                integers, inexact = nearest.astype(np.int64).tolist(), (nearest != steps).tolist()
                return frac_bits, list(zip(integers, inexact, strict=True))
    entries = [
        [fraction(f"matrix[{i}, {j}]", entry) for j, entry in enumerate(row)]
        for i, row in enumerate(array)
    ]
    if frac_bits is None:
        frac_bits = max((places(entry) for row in entries for entry in row), default=0)
    rows = []
    for row in entries:
        pairs = [scaled(entry, frac_bits) for entry in row]
        rows.append(([nearest for nearest, _ in pairs], [not is_exact for _, is_exact in pairs]))
    return frac_bits, rows
