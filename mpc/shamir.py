"""Shamir's t-of-n sharing over a prime field, for all shares of many secrets at once.

Source: Shamir, "How to share a secret" (Communications of the ACM 22, 1979). Names: the threshold t
    is Shamir's k, the shares are D_1 to D_n, the field's prime p is ``Field.prime``.
Model: t-1 of the n holders collude and learn nothing, perfectly, given uniform coefficients. The
    dealer is honest. Nothing here notices an altered share: ``mpc.share_commitments`` does.
Leaks: number and size of the secrets, n and t.
Error: none. Products of field elements are summed in doubles that hold them exactly, so that all
    shares of all secrets are one matrix product.
Differs: a secret of 32 bytes is 16 elements of Z_65537, each shared by a polynomial of its own.
"""

import operator
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, SupportsIndex

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mpc.core.checks import integer
from mpc.core.errors import ParameterError, WireError
from mpc.core.rng import SYSTEM_RNG, Rng

Elements = NDArray[np.uint32]

MAX_PARTIES = 2**16
_EXACT = 1 << 53  # doubles hold all integers up to here
_PIECE_BYTES = 1 << 22


@dataclass(frozen=True)
class Field:
    """Z_p for a prime p of at most 26 bits, so that a product fits a double. Elements are uint32.

    Raises ParameterError unless ``prime`` is one.
    """

    prime: int = 65_537

    def __post_init__(self) -> None:
        prime = integer("prime", self.prime, 2, (1 << 26) - 1)
        if any(prime % d == 0 for d in range(2, int(prime**0.5) + 1)):
            raise ParameterError(f"prime must be a prime, got {prime}")

    def check(self, x: ArrayLike) -> Elements:
        """``x`` itself if it holds elements as uint32; ParameterError otherwise."""
        array = np.asarray(x)
        if array.dtype != np.uint32:
            raise ParameterError(f"field elements have dtype uint32, got {array.dtype}")
        if array.size and array.max() >= self.prime:
            raise ParameterError(f"an element lies outside [0, {self.prime})")
        return array

    def matmul(self, left: NDArray[Any], right: NDArray[Any]) -> Elements:
        """The matrix product of (m, k) and (k, j) elements: (m, j), exact.

        Elements as uint32, or as float64 where one matrix serves many products.
        """
        (rows, terms), columns = left.shape, right.shape[1]
        most = max(1, (_EXACT - 1) // (self.prime - 1) ** 2)
        wide = max(1, _PIECE_BYTES // (8 * max(1, min(terms, most))))
        out = np.empty((rows, columns), np.uint32)
        for first in range(0, columns, wide):
            column = slice(first, first + wide)
            total = np.zeros((rows, 1))
            for start in range(0, terms, most):
                part = slice(start, start + most)
                # At most ``most`` products below p^2 add up in any order, and all sums are exact.
                product = _doubles(left[:, part]) @ _doubles(right[part, column])
                total = np.fmod(product, self.prime) + total
            out[:, column] = np.fmod(total, self.prime) if terms > most else total
        return out


def _doubles(elements: NDArray[Any]) -> NDArray[np.float64]:
    return elements.astype(np.float64, copy=False)


FIELD = Field()


def share(
    secrets: ArrayLike, n: int, t: int, *, field: Field = FIELD, rng: Rng = SYSTEM_RNG
) -> Elements:
    """Split field elements into ``n`` shares, any ``t`` of which give them back.

    secrets: uint32 below p, any shape s.  Returns (n, *s): row i is the share of index i + 1.
    Raises ParameterError unless 2 <= t <= n < p, and n <= 2^16.
    """
    given = field.check(secrets)
    n = integer("n", n, 2, min(MAX_PARTIES, field.prime - 1))
    t = integer("t", t, 2, n)
    powers, flat = _powers(n, t, field), given.reshape(-1)
    shares = np.empty((n, flat.size), np.uint32)
    # As many secrets at once as leave their coefficients in the third cache level.
    step = max(1, _PIECE_BYTES // (8 * t))
    for start in range(0, flat.size, step):
        piece = flat[start : start + step]
        coefficients = np.empty((t, piece.size))
        coefficients[0] = piece
        coefficients[1:] = rng.uniform(field.prime, (t - 1, piece.size), np.uint32)
        shares[:, start : start + step] = field.matmul(powers, coefficients)
    return shares.reshape(n, *given.shape)


def reconstruct(
    indices: Sequence[SupportsIndex] | NDArray[Any],
    shares: ArrayLike,
    t: int,
    *,
    field: Field = FIELD,
) -> Elements:
    """The secrets (*s) from at least ``t`` shares (k, *s); row j has the index indices[j].

    The first t shares count, and their weights are kept for the next secrets. Raises
    ParameterError for fewer shares, for an index twice or 0, and for entries outside the field; an
    altered share gives a wrong secret.
    """
    rows = field.check(shares)
    t = integer("t", t, 2, min(MAX_PARTIES, field.prime - 1))
    given = _exact(indices)
    if rows.ndim == 0 or rows.shape[0] != len(given):
        raise ParameterError(f"{len(given)} indices do not name shares of shape {rows.shape}")
    if len(given) < t:
        raise ParameterError(f"{t} shares are needed, got {len(given)}")
    if len(set(given)) < len(given) or min(given) < 1:
        raise ParameterError("indices of shares are distinct, and at least 1")
    flat = rows[:t].reshape(t, -1)
    return field.matmul(_weights(given[:t], field), flat).reshape(rows.shape[1:])


def _exact(indices: Sequence[SupportsIndex] | NDArray[Any]) -> tuple[int, ...]:
    try:
        return tuple(map(operator.index, indices))
    except TypeError:
        raise ParameterError("indices of shares are integers") from None


@lru_cache(maxsize=64)
def lagrange(indices: tuple[int, ...], field: Field = FIELD) -> Elements:
    """Lagrange's weights at 0 for distinct indices in [1, p): uint32 (t,).

    Raises ParameterError for an index twice, or out of range.
    """
    p = field.prime
    for index in indices:
        integer("an index", index, 1, p - 1)
    if len(set(indices)) < len(indices):
        raise ParameterError("a share's index occurs twice")
    points = np.array(indices, dtype=np.int64)
    numerators, denominators = np.ones_like(points), np.ones_like(points)
    for point in points:
        # The factor of the point itself is 1 in both.
        numerators = numerators * np.where(points == point, 1, point) % p
        denominators = denominators * np.where(points == point, 1, (point - points) % p) % p
    inverses = [pow(int(d), -1, p) for d in denominators]
    weights: Elements = (numerators * np.array(inverses) % p).astype(np.uint32)
    weights.flags.writeable = False
    return weights


@lru_cache(maxsize=64)
def _weights(indices: tuple[int, ...], field: Field) -> NDArray[np.float64]:
    """``lagrange`` as a matrix (1, t) of doubles."""
    weights = _doubles(lagrange(indices, field)[np.newaxis])
    weights.flags.writeable = False
    return weights


@lru_cache(maxsize=16)
def _powers(n: int, t: int, field: Field) -> NDArray[np.float64]:
    """i^j for i = 1..n and j = 0..t-1, as doubles."""
    points = np.arange(1, n + 1, dtype=np.uint64)
    table = np.ones((n, t))
    column = np.ones(n, dtype=np.uint64)
    for power in range(1, t):
        column = column * points % np.uint64(field.prime)
        table[:, power] = column
    table.flags.writeable = False
    return table


def words(secret: bytes) -> Elements:
    """A secret of an even number of bytes as elements of Z_65537: uint32 (len / 2,).

    Raises ParameterError for other lengths.
    """
    if not isinstance(secret, bytes) or not secret or len(secret) % 2:
        raise ParameterError("a secret is bytes, an even number of them and at least two")
    return np.frombuffer(secret, "<u2").astype(np.uint32)


def secret_of(elements: ArrayLike) -> bytes:
    """Inverse of ``words``. Raises WireError for 65536, which is no word: a share was altered."""
    given = FIELD.check(elements)
    if given.size and given.max() > 0xFFFF:
        raise WireError("the reconstructed elements are no bytes: a share was altered")
    return given.astype("<u2").tobytes()


def pack(shares: ArrayLike) -> bytes:
    """Elements of Z_65537, (w,), as 2 w bytes and a bit for each that is 65536."""
    given = FIELD.check(shares).reshape(-1)
    top = np.packbits(given == 0x10000, bitorder="little")
    return given.astype("<u2").tobytes() + top.tobytes()


def unpack(data: bytes, size: int) -> Elements:
    """Inverse of ``pack`` for ``size`` elements; WireError for bytes that it does not make."""
    if len(data) != 2 * size + (size + 7) // 8:
        raise WireError(f"{size} elements take {2 * size + (size + 7) // 8} bytes, got {len(data)}")
    low = np.frombuffer(data[: 2 * size], "<u2").astype(np.uint32)
    bits = np.unpackbits(np.frombuffer(data[2 * size :], np.uint8), bitorder="little")
    top: NDArray[Any] = bits[:size].astype(np.uint32)
    if bits[size:].any() or (low * top).any():
        raise WireError("the bytes encode no element of the field")
    return low + (top << np.uint32(16))
