"""Fractions in Paillier plaintexts: one public exponent for all, and an account of the room left.

Source: fixed point in base two, the rest of the plaintext space kept for products. The account (an
    upper bound of the integers and of the error, beside each ciphertext) is ours.
Model: the account is public. It depends on the codec and on the plain numbers that were added and
    multiplied, never on what is encrypted: fresh encryptions of one codec all have the same.
Leaks: the account of a product tells how large and how precise its plain factor was, that of a
    sum how large its plain summand; ``EncryptedFraction.declare`` puts a wider account, fixed
    beforehand, in its place. Decryption shows a result in full, the digits below the error too.
Error: encoding rounds to nearest, ties to even, by at most half of 2^-frac_bits. Every number
    carries the bound that follows from its history, ``Account.max_error``.
Differs: the codec of python-paillier gives each number an exponent of its own, in the clear, which
    tells its magnitude, and sees an overflow only by chance, after decryption. Here an operation
    that could leave the plaintext space is refused before it is computed.
"""

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mpc.core.checks import integer
from mpc.core.errors import AbortError, ParameterError
from mpc.core.rng import SYSTEM_RNG, Rng
from mpc.paillier.ciphertext import Ciphertext
from mpc.paillier.encrypt import Encryptor
from mpc.paillier.exact import Number, fraction, objects, places, scaled
from mpc.paillier.keys import PrivateKey, PublicKey

MOST_FRAC_BITS = 1 << 16


@dataclass(frozen=True)
class Account:
    """What is public of an integer m that stands for m 2^-frac_bits: |m| <= bound, and its error.

    bound: an integer of at least 1.  error: a non-negative integer, in halves of 2^-frac_bits.
    """

    frac_bits: int
    bound: int
    error: int

    def __post_init__(self) -> None:
        integer("frac_bits", self.frac_bits, 0, MOST_FRAC_BITS)
        for name, least in (("bound", 1), ("error", 0)):
            value = getattr(self, name)
            if type(value) is not int or value < least:
                raise ParameterError(f"{name} must be an integer of at least {least}")

    @property
    def magnitude(self) -> Fraction:
        """The largest absolute value that the number can have."""
        return Fraction(self.bound, 1 << self.frac_bits)

    @property
    def max_error(self) -> Fraction:
        """How far the decoded number can be from the exact result on the numbers encoded."""
        return Fraction(self.error, 2 << self.frac_bits)

    @property
    def rounding(self) -> int:
        """What a factor that is off by half of its unit adds to the error of the product."""
        # |s x - s' x'| <= |s'| |x - x'| + |s - s'| |x|, and |x| is at most bound plus error.
        return self.bound + (self.error + 1) // 2

    def bits_left(self, public: PublicKey) -> int:
        """The most b for which a product with 2^b is sure to stay in the plaintext space."""
        return (public.max_plaintext // self.bound).bit_length() - 1

    def aligned(self, frac_bits: int) -> "Account":
        """The same account in finer units; ``frac_bits`` is at least the present one."""
        more = frac_bits - self.frac_bits
        return Account(frac_bits, self.bound << more, self.error << more)


@dataclass(frozen=True)
class FractionCodec:
    """Numbers of absolute value at most 2^magnitude_bits, in steps of 2^-frac_bits.

    Both are public and the same for all numbers. frac_bits: in [0, 2^16].  magnitude_bits: at
    least -frac_bits, so that there is a step.  Raises ParameterError if the plaintext space of
    ``public`` cannot hold them; what it holds beyond is the room for sums and products.
    """

    public: PublicKey
    frac_bits: int
    magnitude_bits: int

    def __post_init__(self) -> None:
        frac_bits = integer("frac_bits", self.frac_bits, 0, MOST_FRAC_BITS)
        room = self.public.max_plaintext.bit_length() - 1
        most = integer("magnitude_bits", self.magnitude_bits, -frac_bits, MOST_FRAC_BITS)
        if frac_bits + most > room:
            raise ParameterError(
                f"frac_bits + magnitude_bits must be at most {room}, got {frac_bits + most}",
                remedy="take a larger key, or fewer bits",
            )
        object.__setattr__(self, "frac_bits", frac_bits)
        object.__setattr__(self, "magnitude_bits", most)

    @property
    def account(self) -> Account:
        """That of every number that this codec encodes, whatever its value."""
        return Account(self.frac_bits, 1 << (self.frac_bits + self.magnitude_bits), 1)

    def encode(self, value: Number) -> int:
        """The integer nearest to value 2^frac_bits, ties to even.

        Raises ParameterError for booleans, NaN, infinities and what is no number, and for a value
        out of range, with the number of bits that the range lacks.
        """
        return self._encode("value", value)

    def encode_array(self, values: ArrayLike) -> NDArray[np.object_]:
        """``encode`` for each entry: dtype object, the same shape. Errors name the index."""
        array = objects(values)
        encoded = np.empty(array.shape, dtype=np.object_)
        for index in np.ndindex(array.shape):
            where = f"values[{', '.join(map(str, index))}]" if index else "values"
            encoded[index] = self._encode(where, array[index])
        return encoded

    def decode(self, mantissa: int) -> Fraction:
        """The fraction that ``mantissa`` stands for, exactly."""
        return Fraction(int(mantissa), 1 << self.frac_bits)

    def encrypt(
        self, value: Number, encryptor: Encryptor, *, rng: Rng = SYSTEM_RNG
    ) -> "EncryptedFraction":
        """A fresh encryption of ``value``, which ``encode`` may refuse."""
        self._check_key(encryptor)
        return EncryptedFraction(encryptor.encrypt(self.encode(value), rng=rng), self.account)

    def encrypt_array(
        self, values: ArrayLike, encryptor: Encryptor, *, rng: Rng = SYSTEM_RNG
    ) -> NDArray[np.object_]:
        """Fresh encryptions of an array, entry by entry: dtype object, the same shape."""
        self._check_key(encryptor)
        encrypted = encryptor.encrypt_array(self.encode_array(values), rng=rng)
        account = self.account
        flat = encrypted.reshape(-1)
        flat[:] = [EncryptedFraction(ciphertext, account) for ciphertext in flat]
        return encrypted

    def _encode(self, where: str, value: Number) -> int:
        mantissa, _ = scaled(fraction(where, value), self.frac_bits)
        missing = (abs(mantissa) - 1).bit_length() - self.frac_bits - self.magnitude_bits
        if mantissa and missing > 0:
            raise ParameterError(
                f"{where} lies outside [-2^{self.magnitude_bits}, 2^{self.magnitude_bits}]: "
                f"{missing} more magnitude_bits are needed"
            )
        return mantissa

    def _check_key(self, encryptor: Encryptor) -> None:
        if encryptor.public.n != self.public.n:
            raise ParameterError("the encryptor's key is not the codec's")


@dataclass(frozen=True, slots=True, eq=False)
class EncryptedFraction:
    """A ciphertext of an integer m that stands for m 2^-frac_bits, and the account of it.

    ``a + b``, ``a - b``, ``-a`` take encrypted fractions of one key and plain numbers, ``a * k``
    a plain number, which need not be an integer. Arrays of dtype object work entry by entry,
    ``sum()`` included. Results are not fresh: re-randomise before sending.
    Raises ParameterError, before anything is computed, for what could leave the plaintext space.
    """

    ciphertext: Ciphertext
    account: Account

    def __post_init__(self) -> None:
        check_room("an encrypted fraction", self.account.bound, self.ciphertext.public, 0)

    @property
    def bits_left(self) -> int:
        """Bits that factors may still take; a float takes up to 53 of them."""
        return self.account.bits_left(self.ciphertext.public)

    def __add__(self, other: "EncryptedFraction | Number") -> "EncryptedFraction":
        if isinstance(other, np.ndarray):
            return NotImplemented
        if not isinstance(other, EncryptedFraction):
            return self._add_plain(fraction("a summand", other))
        frac_bits = max(self.account.frac_bits, other.account.frac_bits)
        ours, theirs = self.account.aligned(frac_bits), other.account.aligned(frac_bits)
        bound = ours.bound + theirs.bound
        check_room("this sum", bound, self.ciphertext.public, self.bits_left)
        ciphertext = self._shifted(frac_bits) + other._shifted(frac_bits)
        return EncryptedFraction(ciphertext, Account(frac_bits, bound, ours.error + theirs.error))

    def __radd__(self, other: Number) -> "EncryptedFraction":
        return self + other

    def __neg__(self) -> "EncryptedFraction":
        return EncryptedFraction(-self.ciphertext, self.account)

    def __sub__(self, other: "EncryptedFraction | Number") -> "EncryptedFraction":
        if isinstance(other, np.ndarray):
            return NotImplemented
        if isinstance(other, EncryptedFraction):
            return self + -other
        return self._add_plain(-fraction("a summand", other))

    def __rsub__(self, other: Number) -> "EncryptedFraction":
        return -self + other

    def __mul__(self, factor: Number) -> "EncryptedFraction":
        return NotImplemented if isinstance(factor, np.ndarray) else self.multiply(factor)

    def __rmul__(self, factor: Number) -> "EncryptedFraction":
        return self * factor

    def multiply(self, factor: Number, *, frac_bits: int | None = None) -> "EncryptedFraction":
        """The product with a plain number, rounded to ``frac_bits`` fractional bits if given.

        Without it the factor is taken exactly, whatever that costs: up to 53 bits for a float, as
        many as it has for an integer; fractions without an end in base two are refused.
        """
        exact = fraction("a factor", factor)
        shift = places(exact) if frac_bits is None else checked_frac_bits(frac_bits)
        mantissa, is_exact = scaled(exact, shift)
        public, account = self.ciphertext.public, self.account
        if account.bound * abs(mantissa) > public.max_plaintext:
            raise ParameterError(
                f"this factor takes {abs(mantissa).bit_length()} bits, and {self.bits_left} bits "
                "are left",
                remedy=_remedy(exact, public.max_plaintext // account.bound),
            )
        error = abs(mantissa) * account.error + (0 if is_exact else account.rounding)
        bound = max(1, account.bound * abs(mantissa))
        product = Account(account.frac_bits + shift, bound, error)
        return EncryptedFraction(self.ciphertext * mantissa, product)

    def declare(self, account: Account) -> "EncryptedFraction":
        """The same number under a wider ``account``, which is all that its reader then learns.

        Raises ParameterError unless the account has at least our fractional bits and, in its
        units, our bound and error.
        """
        ours = self.account
        if account.frac_bits < ours.frac_bits:
            raise ParameterError(
                f"the account must have at least {ours.frac_bits} fractional bits, got "
                f"{account.frac_bits}"
            )
        ours = ours.aligned(account.frac_bits)
        if account.bound < ours.bound or account.error < ours.error:
            raise ParameterError("the account must bound the number and its error")
        check_room("this account", account.bound, self.ciphertext.public, self.bits_left)
        return EncryptedFraction(self._shifted(account.frac_bits), account)

    def rerandomised(self, encryptor: Encryptor, *, rng: Rng = SYSTEM_RNG) -> "EncryptedFraction":
        """The same number and account with a fresh ciphertext."""
        return EncryptedFraction(self.ciphertext.rerandomised(encryptor, rng=rng), self.account)

    def _shifted(self, frac_bits: int) -> Ciphertext:
        more = frac_bits - self.account.frac_bits
        return self.ciphertext * (1 << more) if more else self.ciphertext

    def _add_plain(self, summand: Fraction) -> "EncryptedFraction":
        account = self.account
        mantissa, is_exact = scaled(summand, account.frac_bits)
        bound = account.bound + abs(mantissa)
        check_room("this sum", bound, self.ciphertext.public, self.bits_left)
        total = Account(account.frac_bits, bound, account.error + (not is_exact))
        return EncryptedFraction(self.ciphertext + mantissa, total)


def decrypt(private: PrivateKey, number: EncryptedFraction) -> Fraction:
    """The number, exactly as decrypted: within ``number.account.max_error`` of the true result.

    Raises AbortError if it lies outside its account: whoever made it did not keep the rules.
    """
    return _opened(private.decrypt(number.ciphertext), number.account)


def decrypt_array(private: PrivateKey, numbers: Any) -> NDArray[np.object_]:
    """``decrypt`` for an array of encrypted fractions, entry by entry: fractions, same shape.

    ``astype(float)`` gives the nearest floats.
    """
    array = np.asarray(numbers, dtype=np.object_)
    entries = array.reshape(-1).tolist()
    plain = private.decrypt_many(number.ciphertext for number in entries)
    decrypted = np.empty(array.shape, dtype=np.object_)
    decrypted.reshape(-1)[:] = [
        _opened(mantissa, number.account) for mantissa, number in zip(plain, entries, strict=True)
    ]
    return decrypted


def _opened(mantissa: int, account: Account) -> Fraction:
    if abs(mantissa) > account.bound:
        raise AbortError(
            "a decrypted number lies outside the bound that its account states",
            remedy="its sender did not encode it, or computed with it, as agreed",
        )
    return Fraction(mantissa, 1 << account.frac_bits)


def check_room(what: str, bound: int, public: PublicKey, left: int) -> None:
    """Refuse integers up to ``bound`` that the plaintext space may not hold, by ParameterError.

    left: the bits that are left before the operation, for the message.
    """
    if bound > public.max_plaintext:
        missing = (bound // public.max_plaintext).bit_length()
        raise ParameterError(
            f"{what} could leave the plaintext space: {missing} bits too few, {left} bits are left",
            remedy="use fewer fractional bits, a larger key, or decrypt and encrypt anew",
        )


def _remedy(factor: Fraction, largest: int) -> str:
    """How to bring ``factor`` below ``largest``, as the integer that it is encoded as."""
    fits = (largest / abs(factor)).__floor__()
    if fits < 1:
        return "take a larger key, or decrypt and encrypt anew"
    return (
        f"give it with frac_bits of at most {fits.bit_length() - 1}, take a larger key, or "
        "decrypt and encrypt anew"
    )


def checked_frac_bits(frac_bits: int) -> int:
    """``frac_bits`` as an integer in [0, 2^16]; ParameterError otherwise."""
    return integer("frac_bits", frac_bits, 0, MOST_FRAC_BITS)
