"""The keys and plaintexts of the Paillier rows, and what right ciphertexts of them satisfy.

The checks decrypt by the definition of the scheme, from the primes and with Python's integers, so
that no side is asked for its opinion of itself.
"""

from collections.abc import Sequence

PLAINTEXT_BITS = 32
WEIGHT_BITS = 21

# Safe primes p and q for each length of n = p q, drawn once by OpenSSL: the search takes seconds,
# and both sides measure under the same key. They are published here and protect nothing.
_PRIMES = {
    2048: (
        "ecc98cdb24329294fe93359502417c99225fd3f7a48944c6eac70d3aae3ecd8d2a3167dba78a907a"
        "14fe596c610db9444a2a1f9a5760847b4a3ec8c74a672b6945a9f729b4d0a07837200598d17f5083"
        "670a0e6800616bae72980f4e40572fc35794cd4e448d963b9804adc4ba799b73f63c03a7293677f0"
        "b5a5c14fce8715c3",
        "e14af7f06c2e9f11a1dbbfc36df0aa9c98b948cc9dee8af2b206352ad21be2eeeded775118d15cb3"
        "6532efae538375efa8626d3f3909a78c440329b296fdb5d51a661e2aa510b666d13cbd08c3c6b55e"
        "d4b760ed4d334a66ce6a103cdd5c73bd2629946f7d53ead2d642acdf596b29b1c7c46877340e1149"
        "9e327c89bbb9bbeb",
    ),
    3072: (
        "de1ab33eef4bf0a627678d14fa2b1c03364e5f1b79ee06c3a04b230025c8bc796ac4293c922b55c4"
        "266b94810f22e8b46d6a7510dbdef2ff103a776eb38205bd4effa7c886679d3f10680558b9c29bae"
        "77b1b4a49f55e16100a70630eb88afcb45a7ebf85f8b5b774c9cfc90a3ad4a505d513c21a6c440e5"
        "b6a7ec8523ca143128e45b0da4a82c97bbf94a861b69e86b5b960aa47f8e9b51f303e189aa512a22"
        "cc344dbb7c09a0201c626a4b63d3cb12ef2a24bc30c48216c21a5f9c9abf6527",
        "d2b6e9284c7b0c5711a7124dc1cba4221aa320f7a9ca73ab6f14a5d0cf4ed41c7e53bd45cc9067ac"
        "63691334c2723c960296c08d1fe0d591df176fb8269c6643de4c775aa4b4e431af0651a381748f9d"
        "851a138b2fa687109e3c6e161690305148436431138155d5b153905f83cecf0593df8e92e94f5b94"
        "f7322f41d98f2eb96212e4c1aa5191511b914689e2963c3a00116fea0031a5ed472e211f9b11e754"
        "a706424a0383af9c73d3daa707c44b8639ca851bab7adc115c374e650b1cf23f",
    ),
}

_STEP = 0x9E3779B97F4A7C15  # odd, so that the words of 64 bits are all different


def primes(bits: int) -> tuple[int, int]:
    """The primes p and q of the key whose modulus n = p q has ``bits`` bits: 2048 or 3072."""
    p, q = (int(digits, 16) for digits in _PRIMES[bits])
    return p, q


def plaintexts(count: int) -> list[int]:
    """Integers below 2^32, the same ones at every call; each of them twice in a row."""
    return [_word(i // 2) >> (64 - PLAINTEXT_BITS) for i in range(count)]


def weights(count: int) -> list[int]:
    """Different-looking integers of exactly 21 bits, the same ones at every call."""
    least = 1 << (WEIGHT_BITS - 1)
    return [least | _word(i) >> (65 - WEIGHT_BITS) for i in range(count)]


def decrypts_to(ciphertext: int, value: int, bits: int) -> bool:
    """Whether ``ciphertext`` under the key of ``bits`` holds ``value``, which may be negative.

    Modulo each prime: c^(p-1) = 1 + m (p-1) n mod p^2, since c = (1 + n)^m r^n and the order of
    r^n divides p - 1.
    """
    p, q = primes(bits)
    n = p * q
    if not 0 < ciphertext < n * n:
        return False
    return all(
        pow(ciphertext, prime - 1, prime**2) == (1 + value * (prime - 1) * n) % prime**2
        for prime in (p, q)
    )


def encrypts_rightly(ciphertexts: Sequence[int], values: Sequence[int], bits: int) -> bool:
    """Whether ``ciphertexts`` hold ``values``, each behind a mask of its own.

    Modulo n a ciphertext is its mask, whatever it holds: the mask must not be 1, nor serve twice.
    """
    p, q = primes(bits)
    masks = {ciphertext % (p * q) for ciphertext in ciphertexts} - {1}
    return len(masks) == len(ciphertexts) == len(values) and all(
        decrypts_to(c, value, bits) for c, value in zip(ciphertexts, values, strict=True)
    )


def _word(i: int) -> int:
    return (i + 1) * _STEP % 2**64
