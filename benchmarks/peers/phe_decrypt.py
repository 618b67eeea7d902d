"""Decryption by phe: one round.

``PaillierPrivateKey.decrypt`` takes one ciphertext a call, and works modulo p^2 and q^2.

Arguments: bits of the key, number of ciphertexts.
"""

import sys

from ciphertexts import plaintexts  # type: ignore[import-not-found]
from one_round import one_round  # type: ignore[import-not-found]
from phe_keys import encrypted, key_pair  # type: ignore[import-not-found]


def main(bits: int, count: int) -> None:
    public, private = key_pair(bits)
    values = plaintexts(count)
    numbers = list(encrypted(public, values))
    one_round(
        lambda: [private.decrypt(number) for number in numbers],
        operations=count,
        check=lambda decrypted: decrypted == values,
        warm_up=lambda: private.decrypt(numbers[0]),
    )


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
