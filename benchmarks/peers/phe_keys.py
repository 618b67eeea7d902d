"""phe's objects for the key of the rows, and many ciphertexts under it at little cost."""

from collections.abc import Iterator, Sequence

from ciphertexts import primes  # type: ignore[import-not-found]
from phe import EncryptedNumber, PaillierPrivateKey, PaillierPublicKey
from phe.util import HAVE_GMP

if not HAVE_GMP:
    raise SystemExit("phe found no gmpy2, without which it is many times slower")


def key_pair(bits: int) -> tuple[PaillierPublicKey, PaillierPrivateKey]:
    """The public and the private key of the stored primes."""
    p, q = primes(bits)
    public = PaillierPublicKey(p * q)
    return public, PaillierPrivateKey(public, p, q)


def encrypted(public: PaillierPublicKey, values: Sequence[int]) -> Iterator[EncryptedNumber]:
    """Ciphertexts of ``values``, whose masks are the powers of one mask.

    They are as large as those of ``encrypt`` and serve wherever their masks are of no interest.
    """
    mask = zero = public.encrypt(0)
    for value in values:
        yield mask + value
        mask += zero
