"""Paillier encryption in three ways: textbook, the key owner's, and with short exponents.

A ciphertext of m is (1 + m n) times a random n-th residue modulo n^2. The ways differ in how that
residue is drawn; each also re-randomises.

Source: Paillier (EUROCRYPT 1999), scheme 1 with g = n + 1; Damgard, Jurik and Nielsen, "A
    generalization of Paillier's public-key system with applications to electronic voting" (Int. J.
    Inf. Secur. 9, 2010): h = -x^2 and c = (1 + m n) h_s^e with h_s = h^n modulo n^2.
Model: chosen plaintexts. ``Textbook`` and ``Owner`` draw r^n with r uniform in Z_n^* and rest on
    DCR alone. ``Djn`` rests on DCR and on this: for n of Blum form (p = q = 3 mod 4, gcd(p-1, q-1)
    = 2), x uniform in Z_n^*, h = -x^2, u uniform in Z_n^* with Jacobi symbol -1, e uniform in [0,
    2^l) and b uniform in {0, 1}, nobody without the factors tells (n, h, u, h^e u^b mod n) from
    (n, h, u, r) with r uniform in Z_n^*. (Raising to the power n is an isomorphism of Z_n^* onto
    the n-th residues modulo n^2.) Here l is four times the strength of n; Pollard's kangaroos find
    e in about 2^(l/2) steps.
    h and u are the encryptor's own. An h of somebody else's could have an order that she knows,
    and then h_s^e hides nothing. That n has Blum form is the owner's word; false, it could open
    plaintexts to others, which she who reads them all can do anyway.
    *Against the owner of the key* only a textbook residue hides what a ciphertext was computed
    from, and it does so completely (if gcd(n, phi(n)) = 1, which n alone does not show: an honest
    key). ``Djn`` does not: for an odd prime f that divides p - 1, and honest keys have small ones,
    one h in f is an f-th power modulo p, and then h_s^e leaves the f-th power character of a result
    as it was, which tells her its operands modulo f. And she may have chosen p and q so that
    discrete logarithms are easy, find e and take h_s^e off again. Where she must not learn the
    operands of a result that she decrypts, re-randomise it by ``Textbook``.
    Nothing here is constant time; see ``mpc.paillier.keys`` and ``mpc.paillier.fixed_base``.
Leaks: the key, and nothing of m; h_s^e u^b has either Jacobi symbol alike, as r^n has.
Error: none.
Differs: Damgard, Jurik and Nielsen take an exponent of half the bits of n, publish h_s in the key,
    and have no u. Without it every residue has Jacobi symbol 1, which anybody can compute: E(a)^k
    h_s^e has the symbol of E(a)^k, which tells whether k is odd wherever E(a) has symbol -1.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import SupportsIndex

import gmpy2
import numpy as np
from gmpy2 import mpz
from numpy.typing import ArrayLike, NDArray

from mpc.core.checks import integer
from mpc.core.errors import ParameterError
from mpc.core.rng import SYSTEM_RNG, Rng
from mpc.paillier.ciphertext import Ciphertext, check_same_key
from mpc.paillier.fixed_base import FixedBase
from mpc.paillier.keys import PrivateKey, PublicKey
from mpc.paillier.primes import unit

EXPONENT_BITS = {2048: 448, 3072: 512, 4096: 608}
"""Bits of n to bits of a short exponent: four times its strength of 112, 128 or 152 bits."""

_MAX_EXPONENT_BITS = 1 << 16


class Encryptor(ABC):
    """Encrypts and re-randomises under one key; subclasses draw the random n-th residues."""

    __slots__ = ("_public",)

    def __init__(self, public: PublicKey) -> None:
        self._public = public

    @property
    def public(self) -> PublicKey:
        """The key that it encrypts under."""
        return self._public

    @abstractmethod
    def residues(self, count: int, *, rng: Rng = SYSTEM_RNG) -> list[mpz]:
        """``count`` independent random n-th residues modulo n^2."""

    def encrypt(self, m: SupportsIndex, *, rng: Rng = SYSTEM_RNG) -> Ciphertext:
        """A fresh ciphertext of the integer ``m`` in (-n/2, n/2).

        Integers of Python, gmpy2 and numpy count; booleans, floats and arrays raise
        ParameterError, which never quotes ``m``.
        """
        return self.encrypt_many((m,), rng=rng)[0]

    def encrypt_many(
        self, plaintexts: Iterable[SupportsIndex], *, rng: Rng = SYSTEM_RNG
    ) -> list[Ciphertext]:
        """Fresh ciphertexts of many integers, in order; ParameterError if one is refused."""
        public = self._public
        n, modulus = public.n, public.n_squared
        checked = [public.check_plaintext(m) for m in plaintexts]
        drawn = self.residues(len(checked), rng=rng)
        return [
            Ciphertext.unchecked((1 + m * n) * residue % modulus, public, True)
            for m, residue in zip(checked, drawn, strict=True)
        ]

    def encrypt_array(self, plaintexts: ArrayLike, *, rng: Rng = SYSTEM_RNG) -> NDArray[np.object_]:
        """Fresh ciphertexts of an array of integers: dtype object, the same shape.

        plaintexts: any integer dtype, or object with integers as entries; ParameterError otherwise.
        """
        values = np.asarray(plaintexts)
        if values.dtype.kind not in "iuO":
            raise ParameterError(
                f"plaintexts must be integers, got dtype {values.dtype}",
                remedy="encode fractions by mpc.paillier.codec",
            )
        encrypted = np.empty(values.shape, dtype=np.object_)
        encrypted.reshape(-1)[:] = self.encrypt_many(values.reshape(-1).tolist(), rng=rng)
        return encrypted

    def rerandomise_many(
        self, ciphertexts: Iterable[Ciphertext], *, rng: Rng = SYSTEM_RNG
    ) -> list[Ciphertext]:
        """Fresh ciphertexts of the same plaintexts; ParameterError for another key's."""
        taken = list(ciphertexts)
        for ciphertext in taken:
            check_same_key(self._public, ciphertext.public)
        modulus = self._public.n_squared
        drawn = self.residues(len(taken), rng=rng)
        return [
            Ciphertext.unchecked(ciphertext.value * residue % modulus, self._public, True)
            for ciphertext, residue in zip(taken, drawn, strict=True)
        ]

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._public!r})"


class Textbook(Encryptor):
    """r^n with r uniform in Z_n^*: DCR alone, for any key, and the slowest."""

    __slots__ = ()

    def residues(self, count: int, *, rng: Rng = SYSTEM_RNG) -> list[mpz]:
        """``count`` independent uniform n-th residues modulo n^2."""
        public = self._public
        drawn = [unit(public.n, rng) for _ in range(count)]
        powers: list[mpz] = gmpy2.powmod_base_list(drawn, public.n, public.n_squared)
        return powers


class Owner(Encryptor):
    """The textbook law, drawn modulo p^2 and q^2 by who holds the private key.

    constant_time_powmod: as for ``PrivateKey.decrypt``.
    """

    __slots__ = ("_constant_time_powmod", "_private")

    def __init__(self, private: PrivateKey, *, constant_time_powmod: bool = False) -> None:
        super().__init__(private.public)
        self._private = private
        self._constant_time_powmod = constant_time_powmod

    def residues(self, count: int, *, rng: Rng = SYSTEM_RNG) -> list[mpz]:
        """``count`` independent uniform n-th residues modulo n^2."""
        return self._private.random_residues(
            count, rng=rng, constant_time_powmod=self._constant_time_powmod
        )


class Djn(Encryptor):
    """h_s^e with a short exponent e from a table, times u^n or 1: see the module's Model.

    public: a key whose owner promises Blum form; ParameterError for any other.
    exponent_bits: a multiple of ``window``, by default and at least what ``EXPONENT_BITS`` says
    (448 for keys of tests, where less is taken too).
    window: bits of the exponent taken at once; a wider one takes fewer products and a larger
    table (``FixedBase``).
    h and u are drawn here, from ``rng``, for this object; there is no way to pass any in. It can
    be pickled, table and all, for worker processes.
    """

    __slots__ = ("_signs", "_table")

    def __init__(
        self,
        public: PublicKey,
        *,
        exponent_bits: int | None = None,
        window: int = 8,
        rng: Rng = SYSTEM_RNG,
    ) -> None:
        super().__init__(public)
        if not public.blum:
            raise ParameterError(
                "the owner of the key does not promise the form of its primes that Djn needs",
                remedy="encrypt by Textbook",
            )
        default = EXPONENT_BITS.get(public.bits, EXPONENT_BITS[2048])
        least = 1 if public.small_for_tests else default
        bits = default if exponent_bits is None else exponent_bits
        bits = integer("exponent_bits", bits, least, _MAX_EXPONENT_BITS)
        n, modulus = public.n, public.n_squared
        x = unit(n, rng)
        u = unit(n, rng)
        while gmpy2.jacobi(u, n) != -1:
            u = unit(n, rng)
        self._table = FixedBase(gmpy2.powmod(-x * x, n, modulus), n, bits, window)
        self._signs = (mpz(1), gmpy2.powmod(u, n, modulus))

    @property
    def exponent_bits(self) -> int:
        """Bits of the random exponents."""
        return self._table.bits

    def residues(self, count: int, *, rng: Rng = SYSTEM_RNG) -> list[mpz]:
        """``count`` independent n-th residues modulo n^2, uniform by the assumption only."""
        modulus, table, signs = self._public.n_squared, self._table, self._signs
        # Uniform digits make a uniform exponent; the last column gives b.
        shape = (count, table.digits + 1)
        drawn = rng.uniform(1 << table.window, shape, np.uint8 if table.window <= 8 else np.uint16)
        return [
            table.power_of_digits(digits) * signs[last & 1] % modulus
            for *digits, last in drawn.tolist()
        ]


def encryptor_for(public: PublicKey, *, rng: Rng = SYSTEM_RNG) -> Encryptor:
    """``Djn`` where the key promises Blum form, else ``Textbook``.

    Take ``Textbook`` yourself for results whose operands the key's owner must not learn.
    """
    return Djn(public, rng=rng) if public.blum else Textbook(public)
