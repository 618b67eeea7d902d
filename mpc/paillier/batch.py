"""Encryption and decryption of many numbers in chunks, over the caller's ``map``.

Source: none; the arithmetic is that of ``mpc.paillier.encrypt`` and ``mpc.paillier.keys``.
Model: this module starts no process. A ``map`` such as that of a ``concurrent.futures`` pool
    carries each task to a worker: the key as bytes, plaintexts and results as integers, and a seed
    of 32 bytes from which the worker expands the coins of its chunk. All of these are as secret as
    the plaintexts, so the workers must be as trusted as the caller and the way to them private.
    A *private* key goes there only where the caller says ``send_private_key=True``; the worker
    process keeps it, as any other, for the next task.
Leaks: the number of values and the chunk's size to whoever sees the tasks.
Error: none. Results come in the order of the input and depend on ``chunk`` and the rng's bytes,
    never on ``map``: any number of processes gives what one process gives.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, SupportsIndex, TypeVar

from gmpy2 import mpz

from mpc.core.checks import integer
from mpc.core.errors import ParameterError
from mpc.core.prg import SEED_BYTES, Prg
from mpc.core.rng import SYSTEM_RNG, Rng
from mpc.paillier.ciphertext import Ciphertext, check_same_key
from mpc.paillier.encrypt import Djn, Encryptor, Owner, Textbook
from mpc.paillier.keys import PrivateKey, PublicKey

CHUNK = 256
"""Numbers in a task: a tenth of a second of work for the fastest encryption under 2048 bits."""

Map = Callable[..., Iterable[Any]]
"""The builtin ``map``, or ``Executor.map``: results in the order of the tasks."""

_MOST_IN_CHUNK = 1 << 24
_T = TypeVar("_T")


@dataclass(frozen=True)
class _Recipe:
    """From what each process makes the same encryptor. ``key`` may be the private one."""

    kind: str
    key: bytes = field(repr=False)
    small_for_tests: bool
    seed: bytes = field(repr=False)


class BatchEncryptor:
    """Encrypts and re-randomises many numbers; made by ``textbook``, ``djn`` or ``owner``."""

    __slots__ = ("_public", "_recipe")

    def __init__(self, public: PublicKey, recipe: _Recipe) -> None:
        self._public, self._recipe = public, recipe

    @classmethod
    def textbook(cls, public: PublicKey) -> "BatchEncryptor":
        """``mpc.paillier.encrypt.Textbook`` in every process."""
        key, small = public.to_bytes(), public.small_for_tests
        return cls(public, _Recipe("textbook", key, small, b""))

    @classmethod
    def djn(cls, public: PublicKey, *, rng: Rng = SYSTEM_RNG) -> "BatchEncryptor":
        """``mpc.paillier.encrypt.Djn`` with one h and u, expanded from 32 bytes of ``rng``.

        Each process builds the table of h once. ParameterError for a key that ``Djn`` refuses.
        """
        if not public.blum:
            raise ParameterError(
                "the owner of the key does not promise the form of its primes that Djn needs",
                remedy="use BatchEncryptor.textbook",
            )
        key, small = public.to_bytes(), public.small_for_tests
        return cls(public, _Recipe("djn", key, small, rng.bytes(SEED_BYTES)))

    @classmethod
    def owner(cls, private: PrivateKey, *, send_private_key: bool) -> "BatchEncryptor":
        """``mpc.paillier.encrypt.Owner`` in every process: each task carries the private key.

        Raises ParameterError unless ``send_private_key`` is True.
        """
        _check_sending(send_private_key)
        key, small = private.to_bytes(), private.public.small_for_tests
        return cls(private.public, _Recipe("owner", key, small, b""))

    @property
    def public(self) -> PublicKey:
        """The key that it encrypts under."""
        return self._public

    def encrypt_many(
        self,
        plaintexts: Iterable[SupportsIndex],
        *,
        map: Map = map,
        chunk: int = CHUNK,
        rng: Rng = SYSTEM_RNG,
    ) -> list[Ciphertext]:
        """Fresh ciphertexts of integers in (-n/2, n/2), in order.

        Each chunk expands its coins from 32 bytes of ``rng``. Raises ParameterError, before any
        task is made, for what ``Encryptor.encrypt`` refuses.
        """
        checked = [self._public.check_plaintext(m) for m in plaintexts]
        return self._run(_encrypt, checked, map, chunk, rng)

    def rerandomise_many(
        self,
        ciphertexts: Iterable[Ciphertext],
        *,
        map: Map = map,
        chunk: int = CHUNK,
        rng: Rng = SYSTEM_RNG,
    ) -> list[Ciphertext]:
        """Fresh ciphertexts of the same plaintexts, in order; ParameterError for another key's."""
        values = _values(ciphertexts, self._public)
        return self._run(_rerandomise, values, map, chunk, rng)

    def _run(
        self,
        work: Callable[[tuple[_Recipe, bytes, list[int]]], list[int]],
        numbers: list[int],
        map: Map,
        chunk: int,
        rng: Rng,
    ) -> list[Ciphertext]:
        tasks = [(self._recipe, rng.bytes(SEED_BYTES), part) for part in _chunks(numbers, chunk)]
        return [
            Ciphertext.unchecked(mpz(value), self._public, True)
            for done in map(work, tasks)
            for value in done
        ]

    def __repr__(self) -> str:
        return f"BatchEncryptor.{self._recipe.kind}({self._public!r})"


def decrypt_many(
    private: PrivateKey,
    ciphertexts: Iterable[Ciphertext],
    *,
    map: Map | None = None,
    chunk: int = CHUNK,
    send_private_key: bool = False,
    constant_time_powmod: bool = False,
) -> list[int]:
    """The plaintexts in (-n/2, n/2), in order; in this process alone where ``map`` is None.

    Raises ParameterError for a ciphertext of another key, and for a ``map`` that was not allowed,
    by ``send_private_key``, to carry the private key to other processes.
    """
    values = _values(ciphertexts, private.public)
    if map is None:
        taken = [Ciphertext.unchecked(mpz(value), private.public) for value in values]
        return private.decrypt_many(taken, constant_time_powmod=constant_time_powmod)
    _check_sending(send_private_key)
    key, small = private.to_bytes(), private.public.small_for_tests
    tasks = [(key, small, constant_time_powmod, part) for part in _chunks(values, chunk)]
    return [plaintext for done in map(_decrypt, tasks) for plaintext in done]


def _values(ciphertexts: Iterable[Ciphertext], public: PublicKey) -> list[int]:
    taken = list(ciphertexts)
    for ciphertext in taken:
        check_same_key(public, ciphertext.public)
    return [int(ciphertext.value) for ciphertext in taken]


def _chunks(numbers: Sequence[_T], chunk: int) -> Iterator[Sequence[_T]]:
    size = integer("chunk", chunk, 1, _MOST_IN_CHUNK)
    return (numbers[start : start + size] for start in range(0, len(numbers), size))


def _check_sending(send_private_key: bool) -> None:
    if send_private_key is not True:
        raise ParameterError(
            "worker processes would get the private key",
            remedy="say send_private_key=True, or decrypt in this process",
        )


def _encrypt(task: tuple[_Recipe, bytes, list[int]]) -> list[int]:
    recipe, seed, plaintexts = task
    done = _encryptor(recipe).encrypt_many(plaintexts, rng=Prg(seed))
    return [int(ciphertext.value) for ciphertext in done]


def _rerandomise(task: tuple[_Recipe, bytes, list[int]]) -> list[int]:
    recipe, seed, values = task
    encryptor = _encryptor(recipe)
    taken = [Ciphertext.unchecked(mpz(value), encryptor.public) for value in values]
    done = encryptor.rerandomise_many(taken, rng=Prg(seed))
    return [int(ciphertext.value) for ciphertext in done]


def _decrypt(task: tuple[bytes, bool, bool, list[int]]) -> list[int]:
    key, small, constant_time_powmod, values = task
    private = _private(key, small)
    taken = [Ciphertext.unchecked(mpz(value), private.public) for value in values]
    return private.decrypt_many(taken, constant_time_powmod=constant_time_powmod)


@lru_cache(maxsize=4)
def _encryptor(recipe: _Recipe) -> Encryptor:
    if recipe.kind == "owner":
        return Owner(_private(recipe.key, recipe.small_for_tests))
    public = PublicKey.from_bytes(recipe.key, small_for_tests=recipe.small_for_tests)
    if recipe.kind == "djn":
        return Djn(public, rng=Prg(recipe.seed))
    return Textbook(public)


@lru_cache(maxsize=4)
def _private(key: bytes, small_for_tests: bool) -> PrivateKey:
    return PrivateKey.from_bytes(key, small_for_tests=small_for_tests)
