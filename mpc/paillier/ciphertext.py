"""Paillier ciphertexts: sums, and products with plain integers, without the private key.

Source: Paillier (EUROCRYPT 1999), section 8: E(a) E(b) encrypts a + b, E(a)^k encrypts k a, and
    E(a) (1 + n)^b encrypts a + b, all modulo n.
Model: semi-honest. Paillier is malleable: whoever holds a ciphertext can shift and scale what it
    decrypts to. GMP's time depends on the plain factor k; nothing here is constant time.
Leaks: a result of arithmetic is a function of its operands, and whoever knows these can test
    guesses of k or b against it. So each ciphertext says whether it is *fresh*, that is encrypted
    or re-randomised in full by ourselves and untouched since; only a fresh one has a wire form.
    What came over the wire is not fresh either: its sender would recognise it.
Error: none while the true result lies in (-n/2, n/2); otherwise it wraps modulo n, and nothing can
    tell. The caller counts bits (``mpc.paillier.codec``).
"""

from collections.abc import Iterable, Sequence
from typing import Any, Protocol, SupportsIndex, final

import gmpy2
import numpy as np
from gmpy2 import mpz

from mpc.core.checks import integer
from mpc.core.errors import ParameterError, StateError, WireError
from mpc.core.rng import SYSTEM_RNG, Rng
from mpc.core.wire import Message
from mpc.paillier.keys import PublicKey

_MAX_HEADER_BYTES = 128
_new = object.__new__


class Randomizer(Protocol):
    """What re-randomises: every ``mpc.paillier.encrypt.Encryptor``."""

    @property
    def public(self) -> PublicKey:
        """The key that the residues belong to."""

    def residues(self, count: int, *, rng: Rng = SYSTEM_RNG) -> list[mpz]:
        """``count`` independent random n-th residues modulo n^2."""


class _Wire(Message, frozen=True, tag="paillier.ciphertexts"):
    """``count`` elements of Z_(n^2), big-endian, each in ``PublicKey.ciphertext_bytes``."""

    key: bytes
    count: int
    values: bytes


@final
class Ciphertext:
    """An element of Z_(n^2)^* and the key that it belongs to; immutable.

    ``a + b``, ``a - b``, ``-a`` take ciphertexts of one key and plain integers; ``a * k`` takes a
    plain integer. Plain operands lie in (-n/2, n/2); floats and booleans are refused: the codec
    encodes fractions. Arrays of dtype object work entry by entry. There is no equality but
    identity: two encryptions of one number differ.
    The constructor checks ``value`` (0 < value < n^2, no factor in common with n; ParameterError)
    and gives a ciphertext that is not fresh; ``Encryptor.encrypt`` gives fresh ones.
    """

    __slots__ = ("_fresh", "_public", "_value")
    _fresh: bool
    _public: PublicKey
    _value: mpz

    def __init__(self, value: SupportsIndex, public: PublicKey) -> None:
        number = mpz(integer("value", value, 1, int(public.n_squared - 1)))
        if not _are_valid([number], public):
            raise ParameterError("value has a factor in common with the key's n")
        self._value, self._public, self._fresh = number, public, False

    @staticmethod
    def unchecked(value: mpz, public: PublicKey, is_fresh: bool = False) -> "Ciphertext":
        """A ciphertext of an ``mpz`` known to lie in Z_(n^2)^*: for kernels, not for input.

        is_fresh: only where ``value`` has just been multiplied by a random n-th residue.
        """
        made = _new(Ciphertext)
        made._value, made._public, made._fresh = value, public, is_fresh
        return made

    @property
    def value(self) -> mpz:
        """The element of Z_(n^2)^*."""
        return self._value

    @property
    def public(self) -> PublicKey:
        """The key that the ciphertext belongs to."""
        return self._public

    @property
    def is_fresh(self) -> bool:
        """Whether it was encrypted or re-randomised in full here, and not computed with since."""
        return self._fresh

    def __add__(self, other: "Ciphertext | SupportsIndex") -> "Ciphertext":
        # Written out, because a sum takes GMP only a few microseconds.
        public = self._public
        if type(other) is Ciphertext:
            if other._public is not public:
                check_same_key(public, other._public)
            made = _new(Ciphertext)
            made._value = self._value * other._value % public.n_squared
            made._public = public
            made._fresh = False
            return made
        if _is_array(other):
            return NotImplemented
        plain = public.check_plaintext(other)
        return self.unchecked(self._value * (1 + plain * public.n) % public.n_squared, public)

    def __radd__(self, other: SupportsIndex) -> "Ciphertext":
        return self + other

    def __neg__(self) -> "Ciphertext":
        public = self._public
        return self.unchecked(gmpy2.invert(self._value, public.n_squared), public)

    def __sub__(self, other: "Ciphertext | SupportsIndex") -> "Ciphertext":
        if _is_array(other):
            return NotImplemented
        if isinstance(other, Ciphertext):
            return self + -other
        return self + -self._public.check_plaintext(other)

    def __rsub__(self, other: SupportsIndex) -> "Ciphertext":
        return -self + other

    def __mul__(self, factor: SupportsIndex) -> "Ciphertext":
        if _is_array(factor):
            return NotImplemented
        public = self._public
        exponent = public.check_plaintext(_plain(factor))
        return self.unchecked(gmpy2.powmod(self._value, exponent, public.n_squared), public)

    def __rmul__(self, factor: SupportsIndex) -> "Ciphertext":
        return self * factor

    def rerandomised(self, encryptor: Randomizer, *, rng: Rng = SYSTEM_RNG) -> "Ciphertext":
        """A fresh ciphertext of the same plaintext: this one times a random n-th residue.

        Raises ParameterError if the encryptor's key is another one.
        """
        public = self._public
        check_same_key(public, encryptor.public)
        (residue,) = encryptor.residues(1, rng=rng)
        return self.unchecked(self._value * residue % public.n_squared, public, True)

    def to_bytes(self) -> bytes:
        """The wire form, of a fresh ciphertext only; StateError for any other."""
        return vector_to_bytes([self])

    @classmethod
    def from_bytes(cls, data: bytes, public: PublicKey) -> "Ciphertext":
        """The ciphertext under ``public`` that ``data`` encodes; it is not fresh.

        WireError for anything else, such as another key's ciphertext or a factor shared with n.
        """
        (ciphertext,) = vector_from_bytes(data, public, 1)
        return ciphertext

    def __repr__(self) -> str:
        return f"Ciphertext({self._public!r}, is_fresh={self._fresh})"


def total(ciphertexts: Iterable[Ciphertext]) -> Ciphertext:
    """The sum of one ciphertext or more, all of one key; ParameterError otherwise. Not fresh."""
    rest = iter(ciphertexts)
    first = next(rest, None)
    if first is None:
        raise ParameterError("a sum needs at least one ciphertext")
    public = first.public
    modulus = public.n_squared
    value = first.value
    for ciphertext in rest:
        if ciphertext._public is not public:
            check_same_key(public, ciphertext._public)
        value = value * ciphertext._value % modulus
    return Ciphertext.unchecked(value, public)


def vector_to_bytes(ciphertexts: Sequence[Ciphertext]) -> bytes:
    """The wire form of one ciphertext or more under one key, one message for all.

    Raises StateError if one of them is not fresh, ParameterError if their keys differ.
    """
    if not ciphertexts:
        raise ParameterError("a vector of ciphertexts has at least one entry")
    public = ciphertexts[0].public
    for index, ciphertext in enumerate(ciphertexts):
        check_same_key(public, ciphertext.public)
        if not ciphertext.is_fresh:
            raise StateError(
                f"ciphertext {index} was computed or received, and may show its operands",
                remedy="send what rerandomised(encryptor) gives",
            )
    size = public.ciphertext_bytes
    values = b"".join(ciphertext.value.to_bytes(size, "big") for ciphertext in ciphertexts)
    return _Wire(public.fingerprint, len(ciphertexts), values).to_bytes()


def vector_bytes(bits: int, count: int) -> int:
    """Bytes of ``count`` ciphertexts as ``vector_to_bytes`` makes them, 0 for none, under a key of
    ``bits`` bits.
    """
    bits = integer("bits", bits, 8, 1 << 16)
    # n has exactly ``bits`` bits, and n^2 twice as many or one less.
    values = integer("count", count, 0, 1 << 32) * ((2 * bits + 7) // 8)
    return len(_Wire(bytes(32), count, bytes(values)).to_bytes()) if count else 0


def vector_from_bytes(data: bytes, public: PublicKey, count: int) -> list[Ciphertext]:
    """The ``count`` ciphertexts under ``public`` that ``data`` encodes; none is fresh.

    WireError for another count, another key, or a value outside Z_(n^2)^*.
    """
    count = integer("count", count, 1, 1 << 32)
    size = public.ciphertext_bytes
    wire = _Wire.from_bytes(data, limit=count * size + _MAX_HEADER_BYTES)
    if wire.key != public.fingerprint:
        raise WireError("the ciphertexts belong to another key")
    if wire.count != count or len(wire.values) != count * size:
        raise WireError(f"{wire.count} ciphertexts came, {count} of {size} bytes are expected")
    values = [
        mpz.from_bytes(wire.values[start : start + size], "big")
        for start in range(0, count * size, size)
    ]
    if not _are_valid(values, public):
        raise WireError("a ciphertext does not lie in (0, n^2), or has a factor in common with n")
    return [Ciphertext.unchecked(value, public) for value in values]


def check_same_key(first: PublicKey, second: PublicKey) -> None:
    """Refuse two keys with different n by ParameterError; what their owners promise may differ."""
    if first is not second and first.fingerprint != second.fingerprint:
        raise ParameterError(
            "the ciphertexts belong to different keys",
            remedy="compute only with ciphertexts of one key",
        )


def _are_valid(values: list[mpz], public: PublicKey) -> bool:
    """Whether all are in (0, n^2) and prime to n: one gcd for the product of all modulo n."""
    product = mpz(1)
    for value in values:
        if not 0 < value < public.n_squared:
            return False
        product = product * value % public.n
    return bool(gmpy2.gcd(product, public.n) == 1)


def _is_array(operand: Any) -> bool:
    """An array goes entry by entry, by numpy's own operators."""
    return isinstance(operand, np.ndarray)


def _plain(operand: Any) -> SupportsIndex:
    if isinstance(operand, Ciphertext):
        raise ParameterError(
            "two ciphertexts cannot be multiplied", remedy="multiply by a plain integer"
        )
    number: SupportsIndex = operand
    return number
