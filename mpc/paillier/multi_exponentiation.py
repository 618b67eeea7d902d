"""Products of powers modulo n^2: one for each row of a matrix of plain integer exponents.

Source: Pippenger (SIAM J. Comput. 9, 1980), the bucket method as in Bernstein, Doumen, Lange and
    Oosterwijk (INDOCRYPT 2012), with signed digits; for many rows, tables of subset products
    (Arlazarov, Dinic, Kronrod and Faradzev, 1970), one for each group of columns, which all rows
    and all bits of their exponents share. The cheaper of the two is taken, by counting products.
Model: arithmetic only. The time depends on the exponents, and so do the products skipped for zero
    digits; gmpy2 promises no constant time.
Error: none.
"""

from collections.abc import Iterator, Sequence

import gmpy2
import numpy as np
from gmpy2 import mpz

_SQUARING = 0.85  # of a product, reduction included
_WIDEST_WINDOW = 16
_WIDEST_GROUP = 12


def multi_exponentiation(
    bases: Sequence[mpz], rows: Sequence[Sequence[int]], modulus: mpz
) -> list[mpz]:
    """For each row of integers, the product of bases[j]^row[j] modulo ``modulus``.

    bases: units modulo ``modulus``.  rows: as many integers each, of any sign and size.
    """
    weights = [abs(weight) for row in rows for weight in row]
    bits = max(weights, default=0).bit_length()
    if not bits:
        return [mpz(1) for _ in rows]
    filled = sum(map(bool, weights)) / len(rows)
    window = min(range(1, _WIDEST_WINDOW + 1), key=lambda w: _bucket_cost(filled, bits, w))
    group = min(
        range(1, _WIDEST_GROUP + 1), key=lambda g: _subset_cost(len(bases), len(rows), bits, g)
    )
    one_by_one = len(rows) * _bucket_cost(filled, bits, window)
    if one_by_one <= _subset_cost(len(bases), len(rows), bits, group):
        return [by_buckets(bases, row, modulus, window) for row in rows]
    return by_subsets(bases, rows, modulus, group)


def _bucket_cost(terms: float, bits: int, window: int) -> float:
    """Products that ``by_buckets`` takes for so many terms, about."""
    digits = -(-bits // window)
    top = bits - window * (digits - 1)
    buckets = (digits - 1) * 2.0**window + 2.0 ** (top + 1)
    return digits * terms + buckets + 2 * _SQUARING * bits


def _subset_cost(columns: int, rows: int, bits: int, group: int) -> float:
    """Products that ``by_subsets`` takes, about."""
    groups = -(-columns // group)
    planes = rows * (bits + 1)
    return groups * (2.0**group - group - 1 + planes * (1 - 2.0**-group)) + (
        (1 + _SQUARING) * planes
    )


def by_buckets(bases: Sequence[mpz], row: Sequence[int], modulus: mpz, window: int) -> mpz:
    """One row of ``multi_exponentiation``, with digits of ``window`` bits (Pippenger).

    Every digit but the top one lies in (-2^(w-1), 2^(w-1)]. A base enters, for each of its digits,
    the bucket of that digit; numerators and denominators meet in one inversion at the end.
    """
    bits = max((abs(weight) for weight in row), default=0).bit_length()
    digits = max(1, -(-bits // window))
    half, full, mask = 1 << (window - 1), 1 << window, (1 << window) - 1
    # Index d holds the bucket of digit d; Python counts negative ones from the list's end.
    buckets: list[list[mpz | None]] = [[None] * (2 * half + 1) for _ in range(digits - 1)]
    # The rest is below 2^t in size, for the t bits on top, and a carry may bring it there.
    top: list[mpz | None] = [None] * ((2 << max(0, bits - window * (digits - 1))) + 1)
    for base, weight in zip(bases, row, strict=True):
        rest = weight
        for level in buckets:
            digit = rest & mask
            if digit > half:
                digit -= full
            rest = (rest - digit) >> window
            if digit:
                held = level[digit]
                level[digit] = base if held is None else held * base % modulus
            if not rest:
                break
        if rest:
            held = top[rest]
            top[rest] = base if held is None else held * base % modulus
    over, under = mpz(1), mpz(1)
    for level in (top, *reversed(buckets)):
        for _ in range(window):
            over, under = over * over % modulus, under * under % modulus
        reach = len(level) // 2
        over = over * _weighted(level[reach:0:-1], modulus) % modulus
        under = under * _weighted(level[reach + 1 :], modulus) % modulus
    return over if under == 1 else over * gmpy2.invert(under, modulus) % modulus


def _weighted(buckets: Sequence[mpz | None], modulus: mpz) -> mpz:
    """The product of buckets[i]^(len - i): the running product, once for each step down."""
    running, total = None, None
    for held in buckets:
        if held is not None:
            running = held if running is None else running * held % modulus
        if running is not None:
            total = running if total is None else total * running % modulus
    return mpz(1) if total is None else total


def by_subsets(
    bases: Sequence[mpz], rows: Sequence[Sequence[int]], modulus: mpz, group: int
) -> list[mpz]:
    """``multi_exponentiation`` by the products of all subsets of ``group`` bases at a time.

    The weights are cut into planes of bits, in two's complement. In each plane of each row, a
    group of bases takes one product: with the entry for the subset whose bits are set.
    """
    bits = 1 + max((abs(weight) for row in rows for weight in row), default=0).bit_length()
    planes: list[list[mpz | None]] = [[None] * bits for _ in rows]
    for start, subsets in _planes(rows, bits, group):
        table = _subset_products(bases[start : start + group], modulus)
        for line, row in zip(planes, subsets, strict=True):
            for bit, subset in enumerate(row):
                if subset:
                    held = line[bit]
                    line[bit] = table[subset] if held is None else held * table[subset] % modulus
    return [_folded(line, modulus) for line in planes]


def _planes(
    rows: Sequence[Sequence[int]], bits: int, group: int
) -> Iterator[tuple[int, list[list[int]]]]:
    """For each group of columns: its start, and [row][bit] -> the columns with that bit, as a set.

    A set of columns is an integer, the group's first column its lowest bit.
    """
    width, columns = -(-bits // 8), len(rows[0])
    data = b"".join(w.to_bytes(width, "little", signed=True) for row in rows for w in row)
    octets = np.frombuffer(data, np.uint8).reshape(len(rows), columns, width)
    for start in range(0, columns, group):
        part = octets[:, start : start + group]
        binary = np.unpackbits(part, axis=2, count=bits, bitorder="little").astype(np.int64)
        place = np.left_shift(1, np.arange(part.shape[1]))
        yield start, np.einsum("rcb,c->rb", binary, place).tolist()


def _subset_products(bases: Sequence[mpz], modulus: mpz) -> list[mpz]:
    table = [mpz(1)]
    for base in bases:
        table += [base, *(entry * base % modulus for entry in table[1:])]
    return table


def _folded(line: Sequence[mpz | None], modulus: mpz) -> mpz:
    """The product of line[b]^(2^b), where the last plane, the sign's, counts negatively."""
    *magnitudes, sign = line
    total = mpz(1) if sign is None else gmpy2.invert(sign, modulus)
    for held in reversed(magnitudes):
        total = total * total % modulus
        if held is not None:
            total = total * held % modulus
    return total
