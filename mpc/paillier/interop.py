"""Keys, ciphertexts and encoded numbers to and from ``phe`` (python-paillier), which is GPLv3.

Only this module imports phe, and only where it is called; the extra ``privrec[phe]`` installs it.
Whoever distributes software that uses the two together keeps the terms of the GPL version 3.

Source: phe 1.5: ``PaillierPublicKey``, ``PaillierPrivateKey``, ``EncryptedNumber``,
    ``EncodedNumber``. Both take g = n + 1, so that ciphertexts are the same integers.
Model: phe's floats carry an exponent of 16 each, in the clear, which tells their magnitude to
    whoever sees it. What comes from phe keeps that leak; what goes there shows the account's.
Leaks: a ciphertext changes its hands without being re-randomised. Ours comes back not fresh; phe
    takes it as not obfuscated, and obfuscates it before it gives it out.
Error: none. What cannot be converted exactly raises ParameterError.
Differs: a phe key makes no promise on the form of its primes, so ``Djn`` refuses what
    ``public_from_phe`` returns, and ``Textbook`` encrypts under it. phe keeps integers within n/3
    of zero, we within n/2.
"""

import math
from fractions import Fraction
from typing import Any

import gmpy2
from gmpy2 import mpz

from mpc.core.checks import integer
from mpc.core.errors import MissingLibraryError, ParameterError
from mpc.paillier.ciphertext import Ciphertext
from mpc.paillier.codec import (
    MOST_FRAC_BITS,
    Account,
    EncryptedFraction,
    FractionCodec,
    check_room,
)
from mpc.paillier.exact import fraction, places
from mpc.paillier.keys import PrivateKey, PublicKey

_DIGIT_BITS = 4  # phe's exponents count digits of base 16


def _phe() -> Any:
    try:
        import phe  # noqa: PLC0415 - an extra, and GPLv3: nothing else may load it
    except ImportError as error:
        raise MissingLibraryError(
            "keys and ciphertexts of phe need the package phe (GPLv3)",
            remedy="pip install 'privrec[phe]'",
        ) from error
    return phe


def public_from_phe(key: Any, *, small_for_tests: bool = False) -> PublicKey:
    """A ``phe.PaillierPublicKey`` as ours, checked anew, without the promise of Blum form."""
    _check_type("key", key, "PaillierPublicKey")
    if key.g != key.n + 1:
        raise ParameterError("the phe key must have g = n + 1")
    return PublicKey(mpz(key.n), small_for_tests=small_for_tests)


def public_to_phe(public: PublicKey) -> Any:
    """Our key as a ``phe.PaillierPublicKey``."""
    return _phe().PaillierPublicKey(int(public.n))


def private_from_phe(key: Any, *, small_for_tests: bool = False) -> PrivateKey:
    """A ``phe.PaillierPrivateKey`` as ours, checked anew.

    Its public key promises Blum form where the primes, which are seen here, have it. Raises
    ParameterError for what ``PrivateKey`` refuses, such as primes of different length.
    """
    _check_type("key", key, "PaillierPrivateKey")
    p, q = mpz(key.p), mpz(key.q)
    blum = p % 4 == q % 4 == 3 and gmpy2.gcd(p - 1, q - 1) == 2
    return PrivateKey(p, q, blum=bool(blum), small_for_tests=small_for_tests)


def private_to_phe(private: PrivateKey) -> Any:
    """Our key as a ``phe.PaillierPrivateKey``: the primes themselves."""
    return _phe().PaillierPrivateKey(public_to_phe(private.public), *private.primes())


def ciphertext_from_phe(number: Any, public: PublicKey) -> Ciphertext:
    """A ``phe.EncryptedNumber`` of exponent 0 as a ciphertext of the same integer; not fresh.

    Raises ParameterError for another key or exponent, and for a value outside Z_(n^2)^*.
    """
    ciphertext = _ciphertext(number, public)
    if number.exponent:
        raise ParameterError(
            f"the number has exponent {number.exponent}, so its plaintext is not its value",
            remedy="take fraction_from_phe",
        )
    return ciphertext


def ciphertext_to_phe(ciphertext: Ciphertext) -> Any:
    """Our ciphertext as a ``phe.EncryptedNumber`` of exponent 0.

    phe decodes integers within n/3 of zero, and takes others for overflows.
    """
    return _phe().EncryptedNumber(public_to_phe(ciphertext.public), int(ciphertext.value), 0)


def fraction_from_phe(
    number: Any, public: PublicKey, *, bound: int | Fraction | float | None = None
) -> EncryptedFraction:
    """A ``phe.EncryptedNumber`` of any exponent as an encrypted fraction of the same value.

    bound: what its absolute value is known not to exceed, since phe keeps no account: without it
    phe's own n/3 is assumed, which leaves no room for products. The account's error is 0: the
    number is taken as phe encoded it.
    Raises ParameterError where the exponent or the bound needs more than a plaintext holds.
    """
    ciphertext = _ciphertext(number, public)
    exponent = _exponent(number.exponent)
    frac_bits = -_DIGIT_BITS * min(exponent, 0)
    lift = 1 << _DIGIT_BITS * max(exponent, 0)
    if bound is None:
        most = _most_in_phe(public) * lift
    else:
        most = math.ceil(fraction("bound", bound) * (1 << frac_bits))
        if most < 0:
            raise ParameterError("bound must not be negative")
    check_room(f"a number of exponent {exponent}", most, public, public.max_plaintext.bit_length())
    return EncryptedFraction(
        ciphertext * lift if lift > 1 else ciphertext, Account(frac_bits, max(1, most), 0)
    )


def fraction_to_phe(number: EncryptedFraction) -> Any:
    """An encrypted fraction as a ``phe.EncryptedNumber`` of the same value.

    phe has fractional bits by the four, so up to three are added. Raises ParameterError where the
    number, by its account, may then exceed the n/3 that phe decodes.
    """
    account = number.account
    digits = -(-account.frac_bits // _DIGIT_BITS)
    pad = _DIGIT_BITS * digits - account.frac_bits
    public = number.ciphertext.public
    if account.bound << pad > _most_in_phe(public):
        raise ParameterError(
            f"the account allows for numbers beyond n/3 of phe, with {pad} bits added to fill up "
            "its digits of base 16",
            remedy="use fewer fractional bits, a multiple of 4, or a larger key",
        )
    ciphertext = number.ciphertext * (1 << pad) if pad else number.ciphertext
    return _phe().EncryptedNumber(public_to_phe(public), int(ciphertext.value), -digits)


def encoded_from_phe(encoded: Any, codec: FractionCodec) -> int:
    """The integer by which ``codec`` encodes exactly the value of a ``phe.EncodedNumber``.

    Raises ParameterError for another key, a value that overflowed in phe, one out of the codec's
    range, and one finer than its steps.
    """
    _check_type("encoded", encoded, "EncodedNumber")
    _check_key(encoded.public_key, codec.public)
    n, most = int(codec.public.n), _most_in_phe(codec.public)
    residue = int(encoded.encoding)
    if not 0 <= residue < n or most < residue < n - most:
        raise ParameterError("the encoded number overflowed in phe: it lies beyond n/3")
    mantissa = residue if residue <= most else residue - n
    exponent = _exponent(encoded.exponent)
    value = Fraction(mantissa) * Fraction(2) ** (_DIGIT_BITS * exponent)
    if places(value) > codec.frac_bits:
        raise ParameterError(
            f"the encoded number has {places(value)} fractional bits, the codec {codec.frac_bits}",
            remedy="use a codec of more fractional bits, or encode the float with it anew",
        )
    return codec.encode(value)


def encoded_to_phe(mantissa: int, codec: FractionCodec) -> Any:
    """What ``codec`` encoded as ``mantissa``, as a ``phe.EncodedNumber`` of the same value.

    Its exponent is the same for all numbers of the codec. Raises ParameterError beyond phe's n/3.
    """
    digits = -(-codec.frac_bits // _DIGIT_BITS)
    lifted = codec.public.check_plaintext(mantissa) << (_DIGIT_BITS * digits - codec.frac_bits)
    if abs(lifted) > _most_in_phe(codec.public):
        raise ParameterError("the encoded number lies beyond n/3, which phe takes for an overflow")
    phe = _phe()
    return phe.EncodedNumber(public_to_phe(codec.public), lifted % int(codec.public.n), -digits)


def _ciphertext(number: Any, public: PublicKey) -> Ciphertext:
    _check_type("number", number, "EncryptedNumber")
    _check_key(number.public_key, public)
    return Ciphertext(mpz(number.ciphertext(be_secure=False)), public)


def _check_type(name: str, value: Any, kind: str) -> None:
    if not isinstance(value, getattr(_phe(), kind)):
        raise ParameterError(f"{name} must be a phe.{kind}, got {type(value).__name__}")


def _check_key(key: Any, public: PublicKey) -> None:
    if key.n != public.n:
        raise ParameterError("the number of phe belongs to another key")


def _exponent(value: Any) -> int:
    return integer("phe's exponent", value, -MOST_FRAC_BITS // _DIGIT_BITS, MOST_FRAC_BITS)


def _most_in_phe(public: PublicKey) -> int:
    return int(public.n) // 3 - 1
