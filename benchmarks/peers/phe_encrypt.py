"""Encryption by phe: one round.

``PaillierPublicKey.encrypt`` takes one number a call; gmpy2 does its arithmetic.

Arguments: bits of the key, number of plaintexts.
"""

import sys

from ciphertexts import encrypts_rightly, plaintexts  # type: ignore[import-not-found]
from one_round import one_round  # type: ignore[import-not-found]
from phe_keys import key_pair  # type: ignore[import-not-found]


def main(bits: int, count: int) -> None:
    public, _ = key_pair(bits)
    values = plaintexts(count)
    one_round(
        lambda: [public.encrypt(value) for value in values],
        operations=count,
        check=lambda numbers: encrypts_rightly(
            [number.ciphertext(be_secure=False) for number in numbers], values, bits
        ),
        warm_up=lambda: public.encrypt(values[0]),
    )


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
