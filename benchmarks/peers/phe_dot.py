"""Dot products of encrypted numbers with plain weights by phe: one round.

A weight times an ``EncryptedNumber`` is a power of it; the sum is added up by ``+`` and keeps the
masks of its terms.

Arguments: bits of the key, dimension.
"""

import sys

from ciphertexts import decrypts_to, plaintexts, weights  # type: ignore[import-not-found]
from one_round import one_round  # type: ignore[import-not-found]
from phe_keys import encrypted, key_pair  # type: ignore[import-not-found]


def main(bits: int, dim: int) -> None:
    public, _ = key_pair(bits)
    x, w = plaintexts(dim), weights(dim)
    numbers = list(encrypted(public, x))
    one_round(
        lambda: sum(number * weight for number, weight in zip(numbers, w, strict=True)),
        operations=1,
        check=lambda total: decrypts_to(
            total.ciphertext(be_secure=False), sum(a * b for a, b in zip(x, w, strict=True)), bits
        ),
    )


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
