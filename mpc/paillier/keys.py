"""Paillier keys: what makes one valid, its generation, its wire form, decryption by CRT.

Source: Paillier, "Public-Key Cryptosystems Based on Composite Degree Residuosity Classes"
    (EUROCRYPT 1999), with g = n + 1; decryption modulo p^2 and q^2 is in section 7 there.
    Strengths: NIST SP 800-56B revision 2, appendix D; how long they serve: SP 800-57 part 1
    revision 5, table 4; lengths and distance of the primes: FIPS 186-5, A.1.3. Form of the
    primes: Damgard, Jurik and Nielsen, "A generalization of Paillier's public-key system with
    applications to electronic voting" (Int. J. Inf. Secur. 9, 2010).
Model: chosen plaintexts, under the decisional composite residuosity assumption (DCR). Not chosen
    ciphertexts: whoever may ask for decryptions reads everything.
    Nothing here is constant time. ``constant_time_powmod=True`` runs the exponentiations by GMP's
    ``mpz_powm_sec``, whose time does not depend on the exponent, and costs about 1.5 times as
    much; what surrounds them (reductions, inverses, primality tests, Python) stays as it is.
    Memory is not wiped.
Leaks: a ciphertext shows the key it was made for.
Error: none; see ``mpc.paillier.primes`` for composites taken as primes.
Differs: Paillier allows any n with gcd(n, phi(n)) = 1; ours have two primes of equal length, by
    default of *Blum form*: p = q = 3 mod 4 and gcd(p-1, q-1) = 2.
"""

import hashlib
import operator
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Protocol, SupportsIndex

import gmpy2
import numpy as np
from gmpy2 import mpz
from numpy.typing import NDArray

from mpc.core.checks import integer
from mpc.core.errors import ParameterError, WireError
from mpc.core.keys import label
from mpc.core.rng import SYSTEM_RNG, Rng
from mpc.core.wire import Message
from mpc.paillier.primes import below, draw_prime, is_prime

SIZES = (2048, 3072, 4096)
"""Bits of n: as strong as 112, 128 and 152 bits of a symmetric key."""

DEFAULT_BITS = 3072
"""128 bits of strength: what is encrypted today should outlive 2030, NIST's end for 112 bits."""

_SMALL_PRIMES_BELOW = 1 << 16
_FERMAT_STEPS = 64
_MAX_WIRE_BYTES = 4096
_ENCODE = "encode fractions by mpc.paillier.codec, encrypt arrays by encrypt_array"


class Encrypted(Protocol):
    """What a private key decrypts: ``mpc.paillier.ciphertext.Ciphertext``."""

    @property
    def value(self) -> mpz:
        """An element of Z_(n^2)^*."""

    @property
    def public(self) -> "PublicKey":
        """The key that it belongs to."""


class _PublicWire(Message, frozen=True, tag="paillier.public"):
    """n in big-endian order, in as many bytes as ``bits`` need."""

    bits: int
    n: bytes
    blum: int


class _PrivateWire(Message, frozen=True, tag="paillier.private"):
    """The smaller and the larger prime, big-endian, in as many bytes as half of ``bits`` need."""

    bits: int
    p: bytes
    q: bytes
    blum: int


@dataclass(frozen=True, slots=True, repr=False)
class PublicKey:
    """The modulus n, checked as far as it can be without its factors.

    blum: the owner promises p = q = 3 mod 4 and gcd(p-1, q-1) = 2, which ``Djn`` relies on. Only n
    = 1 mod 4 can be checked here.
    small_for_tests: take n of 8 to 2047 bits, which protects nothing.
    Two keys are equal if n and the promise are. Raises ParameterError for another size, an even
    or prime n, a perfect power, a factor below 2^16, and factors so close that Fermat's method
    finds them at once.
    """

    n: mpz
    blum: bool = False
    small_for_tests: bool = field(default=False, compare=False)
    bits: int = field(init=False, compare=False)
    n_squared: mpz = field(init=False, compare=False)
    max_plaintext: int = field(init=False, compare=False)
    """(n - 1) / 2: plaintexts are the integers of [-max_plaintext, max_plaintext]."""
    fingerprint: bytes = field(init=False, compare=False)
    """32 bytes: SHA-256 of n under a label, the same whatever the owner promises."""

    def __post_init__(self) -> None:
        n = mpz(_index("n", self.n))
        if n < 1:
            raise ParameterError("n must be positive")
        _check_size(n.bit_length(), self.small_for_tests)
        _check_modulus(n, self.small_for_tests)
        if self.blum and n % 4 != 1:
            raise ParameterError("n must be 1 modulo 4 where both of its primes are 3 modulo 4")
        bits = n.bit_length()
        derived = {
            "n": n,
            "blum": bool(self.blum),
            "bits": bits,
            "n_squared": n * n,
            "max_plaintext": int(n // 2),
            "fingerprint": hashlib.sha256(label("paillier.key", _big_endian(n, bits))).digest(),
        }
        for name, value in derived.items():
            object.__setattr__(self, name, value)

    @property
    def ciphertext_bytes(self) -> int:
        """The length of an element of Z_(n^2) as bytes."""
        return (int(self.n_squared.bit_length()) + 7) // 8

    def check_plaintext(self, m: SupportsIndex) -> int:
        """``m`` as a Python integer within [-max_plaintext, max_plaintext].

        Integers of Python, gmpy2 and numpy count; booleans, floats and arrays with an axis do not.
        Raises ParameterError, which never quotes ``m``.
        """
        number: int = m if type(m) is int else _index("a plaintext", m, _ENCODE)
        if not -self.max_plaintext <= number <= self.max_plaintext:
            raise ParameterError(
                f"a plaintext must lie within (-n/2, n/2) of the key's n of {self.bits} bits",
                remedy="take a larger key or smaller numbers: nothing is reduced silently",
            )
        return number

    def signed(self, residue: mpz) -> int:
        """The plaintext in (-n/2, n/2) that is congruent to ``residue`` in [0, n)."""
        return int(residue if residue <= self.max_plaintext else residue - self.n)

    def to_bytes(self) -> bytes:
        """The canonical wire form; ``from_bytes`` is its exact inverse."""
        return _PublicWire(self.bits, _big_endian(self.n, self.bits), int(self.blum)).to_bytes()

    @classmethod
    def from_bytes(cls, data: bytes, *, small_for_tests: bool = False) -> "PublicKey":
        """The key that ``data`` encodes, checked anew. WireError for anything else."""
        wire = _PublicWire.from_bytes(data, limit=_MAX_WIRE_BYTES)
        n = _number(wire.n, wire.bits)
        try:
            return cls(n, blum=_flag(wire.blum), small_for_tests=small_for_tests)
        except ParameterError as error:
            raise WireError(f"not a Paillier public key: {error}") from None

    def __repr__(self) -> str:
        return f"PublicKey({self.bits} bits, {self.fingerprint[:6].hex()}, blum={self.blum})"


class PrivateKey:
    """The two primes, in either order, checked whole; ``public`` is the key to hand out.

    blum: demand Blum form, and promise it in the public key. A key made elsewhere may lack it: it
    is taken with ``blum=False``, and ``Textbook`` encrypts under it.
    Raises ParameterError unless p and q are primes of equal length (so that gcd(n, phi(n)) = 1),
    more than 2^(half the bits - 100) apart (FIPS 186-5), and n is of a size in ``SIZES``.
    No repr shows the primes. Two private keys are the same exactly if their public keys are. It
    can be pickled, because worker processes decrypt: a pickle holds the primes in the clear.
    """

    __slots__ = ("_half_p", "_half_q", "_p", "_p_inverse", "_public", "_q", "_square_inverse")

    def __init__(
        self,
        p: SupportsIndex,
        q: SupportsIndex,
        *,
        blum: bool = True,
        small_for_tests: bool = False,
    ) -> None:
        first, second = sorted(mpz(_index("a prime", prime)) for prime in (p, q))
        _check_primes(first, second, blum, small_for_tests)
        self._set(first, second, PublicKey(first * second, blum, small_for_tests))

    def _set(self, p: mpz, q: mpz, public: PublicKey) -> None:
        self._public = public
        self._p, self._q = p, q
        self._p_inverse = gmpy2.invert(p, q)
        self._square_inverse = gmpy2.invert(p * p, q * q)
        self._half_p, self._half_q = _Half(p, q), _Half(q, p)

    @property
    def public(self) -> PublicKey:
        """The public key."""
        return self._public

    def decrypt(self, ciphertext: Encrypted, *, constant_time_powmod: bool = False) -> int:
        """The plaintext, in (-n/2, n/2). ParameterError for a ciphertext of another key."""
        self._check_key(ciphertext)
        return self.public.signed(
            self.decrypt_unchecked(ciphertext.value, constant_time_powmod=constant_time_powmod)
        )

    def decrypt_many(
        self, ciphertexts: Iterable[Encrypted], *, constant_time_powmod: bool = False
    ) -> list[int]:
        """The plaintexts of many ciphertexts, in order.

        GMP runs without Python's lock meanwhile, unless ``constant_time_powmod``.
        """
        taken = list(ciphertexts)
        for ciphertext in taken:
            self._check_key(ciphertext)
        values = [ciphertext.value for ciphertext in taken]
        mod_p = self._half_p.decrypt(values, constant_time_powmod)
        mod_q = self._half_q.decrypt(values, constant_time_powmod)
        return [self.public.signed(self._join(a, b)) for a, b in zip(mod_p, mod_q, strict=True)]

    def decrypt_array(
        self, ciphertexts: NDArray[np.object_], *, constant_time_powmod: bool = False
    ) -> NDArray[np.object_]:
        """The plaintexts, Python integers, of an array of ciphertexts: dtype object, same shape."""
        values = np.asarray(ciphertexts, dtype=np.object_)
        decrypted = np.empty(values.shape, dtype=np.object_)
        decrypted.reshape(-1)[:] = self.decrypt_many(
            values.reshape(-1).tolist(), constant_time_powmod=constant_time_powmod
        )
        return decrypted

    def decrypt_unchecked(self, value: mpz, *, constant_time_powmod: bool = False) -> mpz:
        """The plaintext modulo n, in [0, n), of an element of Z_(n^2)^*, which is not checked."""
        (mod_p,) = self._half_p.decrypt([value], constant_time_powmod)
        (mod_q,) = self._half_q.decrypt([value], constant_time_powmod)
        return self._join(mod_p, mod_q)

    def random_residues(
        self, count: int, *, rng: Rng = SYSTEM_RNG, constant_time_powmod: bool = False
    ) -> list[mpz]:
        """``count`` uniform n-th residues modulo n^2: the law of r^n with r uniform in Z_n^*.

        The n-th powers modulo p^2 are the p - 1 elements x^p, one for each x in Z_p^*, because q
        does not divide p - 1; likewise modulo q^2, and independently.
        """
        drawn = [(below(self._p - 1, rng) + 1, below(self._q - 1, rng) + 1) for _ in range(count)]
        p_squared, q_squared = self._half_p.square, self._half_q.square
        mod_p = _powers([x for x, _ in drawn], self._p, p_squared, constant_time_powmod)
        mod_q = _powers([y for _, y in drawn], self._q, q_squared, constant_time_powmod)
        return [
            a + p_squared * ((b - a) * self._square_inverse % q_squared)
            for a, b in zip(mod_p, mod_q, strict=True)
        ]

    def primes(self) -> tuple[int, int]:
        """The two secret primes, the smaller one first, for the owner's own conversions."""
        return int(self._p), int(self._q)

    def to_bytes(self) -> bytes:
        """The secret key itself, in canonical form, for the owner's own storage."""
        bits = self.public.bits
        p, q = _big_endian(self._p, bits // 2), _big_endian(self._q, bits // 2)
        return _PrivateWire(bits, p, q, int(self.public.blum)).to_bytes()

    @classmethod
    def from_bytes(cls, data: bytes, *, small_for_tests: bool = False) -> "PrivateKey":
        """The key that ``data`` encodes, checked anew. WireError for anything else."""
        wire = _PrivateWire.from_bytes(data, limit=_MAX_WIRE_BYTES)
        p, q = (_number(prime, wire.bits // 2) for prime in (wire.p, wire.q))
        if p >= q:
            raise WireError("the primes of a private key are not in ascending order")
        try:
            key = cls(p, q, blum=_flag(wire.blum), small_for_tests=small_for_tests)
        except ParameterError as error:
            raise WireError(f"not a Paillier private key: {error}") from None
        if key.public.bits != wire.bits:
            raise WireError("a private key has another size than it states")
        return key

    def _join(self, mod_p: mpz, mod_q: mpz) -> mpz:
        return mod_p + self._p * ((mod_q - mod_p) * self._p_inverse % self._q)

    def _check_key(self, ciphertext: Encrypted) -> None:
        if ciphertext.public is not self.public and ciphertext.public.n != self.public.n:
            raise ParameterError("the ciphertext belongs to another key")

    def __getstate__(self) -> tuple[mpz, mpz, PublicKey]:
        return self._p, self._q, self.public

    def __setstate__(self, state: tuple[mpz, mpz, PublicKey]) -> None:
        self._set(*state)

    def __repr__(self) -> str:
        return f"PrivateKey(public={self.public!r})"


class _Half:
    """One prime's side of the Chinese remainder theorem; ``other`` is the other prime."""

    __slots__ = ("_factor", "_order", "_prime", "square")

    def __init__(self, prime: mpz, other: mpz) -> None:
        self._prime = prime
        self._order = prime - 1
        self.square = prime * prime
        # (1 + n)^(p-1) = 1 - n modulo p^2, so Paillier's L(g^(p-1)) is -q, and we divide by it.
        self._factor = prime - gmpy2.invert(other, prime)

    def decrypt(self, values: list[mpz], constant_time: bool) -> list[mpz]:
        """The plaintexts modulo the prime."""
        reduced = [value % self.square for value in values]
        powers = _powers(reduced, self._order, self.square, constant_time)
        return [(power - 1) // self._prime * self._factor % self._prime for power in powers]

    def __repr__(self) -> str:
        return "_Half()"


def _powers(bases: list[mpz], exponent: mpz, modulus: mpz, constant_time: bool) -> list[mpz]:
    if constant_time:
        return [gmpy2.powmod_sec(base, exponent, modulus) for base in bases]
    powers: list[mpz] = gmpy2.powmod_base_list(bases, exponent, modulus)
    return powers


def generate(bits: int = DEFAULT_BITS, *, rng: Rng = SYSTEM_RNG) -> PrivateKey:
    """A fresh key of Blum form; n has exactly ``bits`` bits, one of ``SIZES``.

    Takes about 0.1 s for 2048 bits, 0.3 s for 3072, 0.8 s for 4096, and sometimes thrice as long.
    """
    _check_size(integer("bits", bits, 1, 1 << 16), small_for_tests=False)
    return _generate(bits, rng, small_for_tests=False)


def generate_small_for_tests(bits: int, *, rng: Rng = SYSTEM_RNG) -> PrivateKey:
    """A key of ``bits`` bits, even, in [10, 2046], which protects nothing."""
    if integer("bits", bits, 10, SIZES[0] - 2) % 2:
        raise ParameterError(f"bits must be even, got {bits}")
    return _generate(bits, rng, small_for_tests=True)


def _generate(bits: int, rng: Rng, *, small_for_tests: bool) -> PrivateKey:
    half = int(bits) // 2
    p = draw_prime(half, rng)
    q = draw_prime(half, rng, lambda q: gmpy2.gcd(p - 1, q - 1) == 2 and _are_apart(p, q))
    return PrivateKey(p, q, small_for_tests=small_for_tests)


def _are_apart(p: mpz, q: mpz) -> bool:
    return bool(abs(p - q) > 1 << max(p.bit_length() - 100, 0))


def _check_primes(p: mpz, q: mpz, blum: bool, small_for_tests: bool) -> None:
    # Equal length makes gcd(n, phi(n)) = 1: if p divided q - 1, which is even, q would exceed 2 p.
    if p.bit_length() != q.bit_length() or p < 2:
        raise ParameterError("the primes of a key must have equal length")
    _check_size((p * q).bit_length(), small_for_tests)
    if not _are_apart(p, q):
        raise ParameterError(
            "the primes of a key are equal or too close", remedy="draw keys by generate"
        )
    if not (is_prime(p) and is_prime(q)):
        raise ParameterError("a factor of the key is not prime")
    if blum and not (p % 4 == q % 4 == 3 and gmpy2.gcd(p - 1, q - 1) == 2):
        raise ParameterError(
            "the primes must be 3 modulo 4, with gcd(p-1, q-1) = 2",
            remedy="pass blum=False for a key that was made elsewhere",
        )


def _check_size(bits: int, small_for_tests: bool) -> None:
    if small_for_tests:
        if not 8 <= bits < SIZES[0]:
            raise ParameterError(f"a key for tests has 8 to {SIZES[0] - 1} bits, got {bits}")
    elif bits not in SIZES:
        raise ParameterError(f"a key has 2048, 3072 or 4096 bits, got {bits}")


def _check_modulus(n: mpz, small_for_tests: bool) -> None:
    if n % 2 == 0:
        raise ParameterError("n must be odd")
    if is_prime(n):
        raise ParameterError("n must be composite, and is prime")
    if gmpy2.is_power(n):
        raise ParameterError("n must not be a perfect power")
    if small_for_tests:
        return
    if gmpy2.gcd(n, _small_primes()) != 1:
        raise ParameterError(f"n has a prime factor below {_SMALL_PRIMES_BELOW}")
    root = gmpy2.isqrt(n)
    if any(gmpy2.is_square((root + i) ** 2 - n) for i in range(1, _FERMAT_STEPS + 1)):
        raise ParameterError("the factors of n are too close: Fermat's method finds them at once")


@cache
def _small_primes() -> mpz:
    """The product of all primes below 2^16."""
    return gmpy2.primorial(_SMALL_PRIMES_BELOW)


def _index(name: str, value: SupportsIndex, remedy: str = "") -> int:
    """``value`` as an int; ParameterError, which does not quote it, for what is no integer."""
    if not isinstance(value, bool):
        with suppress(TypeError):
            return operator.index(value)
    raise ParameterError(f"{name} must be an integer, got {type(value).__name__}", remedy=remedy)


def _big_endian(number: mpz, bits: int) -> bytes:
    return bytes(number.to_bytes((bits + 7) // 8, "big"))


def _number(data: bytes, bits: int) -> mpz:
    number: Any = mpz.from_bytes(data, "big")
    if len(data) != (bits + 7) // 8 or number.bit_length() != bits:
        raise WireError(f"a number of a Paillier key does not have the {bits} bits stated")
    return number


def _flag(value: int) -> bool:
    if value not in (0, 1):
        raise WireError("a flag of a Paillier key is neither 0 nor 1")
    return value == 1
