"""Encryption by pypaillier: one round.

``encrypt_integers`` takes a list; one thread, as on our side. The public key is made from the
modulus, so that no safe primes have to be found. A ciphertext is a byte that holds the scale and
the number, its highest byte first.

Arguments: bits of the key, number of plaintexts.
"""

import os
import sys

os.environ["RAYON_NUM_THREADS"] = "1"  # read when the first batch starts

import paillier  # type: ignore[import-not-found]
from ciphertexts import encrypts_rightly, plaintexts, primes  # type: ignore[import-not-found]
from one_round import one_round  # type: ignore[import-not-found]


def main(bits: int, count: int) -> None:
    p, q = primes(bits)
    public = paillier.PublicKey.from_n((p * q).to_bytes(bits // 8, "big"))
    values = plaintexts(count)
    one_round(
        lambda: paillier.encrypt_integers(public, values),
        operations=count,
        check=lambda blobs: encrypts_rightly(
            [int.from_bytes(blob[1:], "big") for blob in blobs], values, bits
        ),
        warm_up=lambda: paillier.encrypt_integers(public, values[:1]),
    )


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
