"""Addition of ciphertexts by phe: one round.

``+`` of two ``EncryptedNumber`` multiplies them; the sums keep the masks of their terms.

Arguments: bits of the key, number of sums.
"""

import sys

from ciphertexts import decrypts_to, plaintexts  # type: ignore[import-not-found]
from one_round import one_round  # type: ignore[import-not-found]
from phe_keys import encrypted, key_pair  # type: ignore[import-not-found]

CHECKED = 32
"""Sums that the check decrypts."""


def main(bits: int, count: int) -> None:
    public, _ = key_pair(bits)
    values = plaintexts(2 * count)
    numbers = list(encrypted(public, values))
    left, right = numbers[:count], numbers[count:]

    def check(sums: list) -> bool:  # type: ignore[type-arg]
        return len(sums) == count and all(
            decrypts_to(sums[i].ciphertext(be_secure=False), values[i] + values[count + i], bits)
            for i in range(0, count, -(-count // CHECKED))
        )

    one_round(
        lambda: [a + b for a, b in zip(left, right, strict=True)], operations=count, check=check
    )


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
