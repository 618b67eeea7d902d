"""Batches: equal to single calls, over real worker processes too; who gets the private key."""

import multiprocessing
import pickle
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from typing import Any

import pytest

from mpc.core.errors import ParameterError
from mpc.core.prg import Prg
from mpc.paillier.batch import BatchEncryptor, decrypt_many
from mpc.paillier.encrypt import Djn, Encryptor, Owner, Textbook
from mpc.paillier.keys import PrivateKey
from tests.mpc.paillier.stored_keys import encryptor, private_key, toy_key

PRIVATE, PUBLIC = private_key(1024), private_key(1024).public
VALUES = [0, 1, -1, PUBLIC.max_plaintext, -PUBLIC.max_plaintext, *range(100, 140)]
SEED = bytes(range(32))

RECIPES: dict[str, Callable[[], BatchEncryptor]] = {
    "textbook": lambda: BatchEncryptor.textbook(PUBLIC),
    "djn": lambda: BatchEncryptor.djn(PUBLIC, rng=Prg(SEED)),
    "owner": lambda: BatchEncryptor.owner(PRIVATE, send_private_key=True),
}


@pytest.fixture(scope="module")
def pool() -> Iterator[ProcessPoolExecutor]:
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(2, mp_context=context) as executor:
        yield executor


@pytest.mark.parametrize("kind", RECIPES)
def test_two_processes_give_what_one_gives(kind: str, pool: ProcessPoolExecutor) -> None:
    batch = RECIPES[kind]()
    here = batch.encrypt_many(VALUES, chunk=7, rng=Prg(SEED))
    there = batch.encrypt_many(VALUES, map=pool.map, chunk=7, rng=Prg(SEED))
    assert [c.value for c in there] == [c.value for c in here]
    assert all(ciphertext.is_fresh and ciphertext.public is PUBLIC for ciphertext in there)
    assert PRIVATE.decrypt_many(there) == VALUES
    again = batch.rerandomise_many(here, chunk=7, rng=Prg(bytes(32)))
    moved = batch.rerandomise_many(here, map=pool.map, chunk=7, rng=Prg(bytes(32)))
    assert [c.value for c in moved] == [c.value for c in again]
    assert not {c.value for c in moved} & {c.value for c in here}
    assert PRIVATE.decrypt_many(moved) == VALUES


def test_decryption_over_two_processes_gives_what_single_calls_give(
    pool: ProcessPoolExecutor,
) -> None:
    ciphertexts = encryptor(1024).encrypt_many(VALUES)
    single = [PRIVATE.decrypt(ciphertext) for ciphertext in ciphertexts]
    assert decrypt_many(PRIVATE, ciphertexts) == single == VALUES
    for chunk in (1, 7, 1000):
        moved = decrypt_many(PRIVATE, ciphertexts, map=pool.map, chunk=chunk, send_private_key=True)
        assert moved == VALUES


def test_a_key_of_full_size_goes_to_workers_and_back(pool: ProcessPoolExecutor) -> None:
    private = private_key(2048)
    batch = BatchEncryptor.textbook(private.public)
    encrypted = batch.encrypt_many([5, -6, 7], map=pool.map, chunk=2)
    opened = decrypt_many(private, encrypted, map=pool.map, chunk=2, send_private_key=True)
    assert opened == [5, -6, 7]


def test_a_batch_is_the_encryptor_on_the_coins_of_each_chunk() -> None:
    coins = Prg(SEED)
    seeds = [coins.bytes(32) for _ in range(7)]
    chunks = [VALUES[start : start + 7] for start in range(0, len(VALUES), 7)]
    singles: dict[str, Encryptor] = {
        "textbook": Textbook(PUBLIC),
        "djn": Djn(PUBLIC, rng=Prg(Prg(SEED).bytes(32))),
        "owner": Owner(PRIVATE),
    }
    for kind, single in singles.items():
        expected = [
            ciphertext.value
            for seed, chunk in zip(seeds, chunks, strict=True)
            for ciphertext in single.encrypt_many(chunk, rng=Prg(seed))
        ]
        batch = RECIPES[kind]().encrypt_many(VALUES, chunk=7, rng=Prg(SEED))
        assert [ciphertext.value for ciphertext in batch] == expected


def test_no_coins_are_used_twice() -> None:
    for make in RECIPES.values():
        batch = make()
        encrypted = batch.encrypt_many([1] * 40, chunk=4) + batch.encrypt_many([1] * 40, chunk=4)
        assert len({ciphertext.value for ciphertext in encrypted}) == 80
    first, second = (BatchEncryptor.djn(PUBLIC).encrypt_many([1], rng=Prg(SEED)) for _ in "ab")
    assert first[0].value != second[0].value  # each has an h of its own


class Recording:
    """The builtin map, which keeps the tasks that it was given, as they would travel."""

    def __init__(self) -> None:
        self.tasks: list[bytes] = []

    def __call__(self, function: Callable[[Any], Any], tasks: Iterable[Any]) -> list[Any]:
        given = list(tasks)
        self.tasks += [pickle.dumps(task) for task in given]
        return [function(task) for task in given]


def holds_private_key(tasks: list[bytes], private: PrivateKey) -> bool:
    """Whether a task holds one of the primes, in either order of bytes or as a pickle does."""
    return any(
        prime.to_bytes(64, order) in task
        for prime in private.primes()
        for task in tasks
        for order in ("big", "little")
    )


def test_only_who_asks_for_it_sends_the_private_key() -> None:
    recording = Recording()
    for kind in ("textbook", "djn"):
        RECIPES[kind]().encrypt_many(VALUES, map=recording, chunk=7)
    assert len(recording.tasks) == 14
    assert not holds_private_key(recording.tasks, PRIVATE)
    sending = Recording()
    decrypt_many(PRIVATE, encryptor(1024).encrypt_many([1]), map=sending, send_private_key=True)
    RECIPES["owner"]().encrypt_many([1], map=sending)
    assert all(holds_private_key([task], PRIVATE) for task in sending.tasks)  # the twin
    assert len(sending.tasks) == 2


@pytest.mark.parametrize("allowed", [False, 1, None])
def test_the_private_key_stays_here_unless_it_is_named(allowed: Any) -> None:
    ciphertexts = encryptor(1024).encrypt_many([1])
    recording = Recording()
    with pytest.raises(ParameterError, match=r"would get the private key .*send_private_key=True"):
        decrypt_many(PRIVATE, ciphertexts, map=recording, send_private_key=allowed)
    with pytest.raises(ParameterError, match="would get the private key"):
        BatchEncryptor.owner(PRIVATE, send_private_key=allowed)
    assert recording.tasks == []


def test_what_is_refused_is_refused_before_a_task_is_made() -> None:
    recording = Recording()
    batch = BatchEncryptor.textbook(PUBLIC)
    foreign = Textbook(toy_key().public).encrypt(1)
    for bad in (PUBLIC.max_plaintext + 1, 0.5, True, "1"):
        with pytest.raises(ParameterError, match="a plaintext must"):
            batch.encrypt_many([1, bad], map=recording)  # type: ignore[list-item]
    with pytest.raises(ParameterError, match="different keys"):
        batch.rerandomise_many([foreign], map=recording)
    with pytest.raises(ParameterError, match="different keys"):
        decrypt_many(PRIVATE, [foreign], map=recording, send_private_key=True)
    for chunk in (0, -1, 1.5):
        with pytest.raises(ParameterError, match="chunk must"):
            batch.encrypt_many([1], map=recording, chunk=chunk)  # type: ignore[arg-type]
    assert recording.tasks == []


def test_empty_batches_are_empty() -> None:
    batch = BatchEncryptor.textbook(PUBLIC)
    assert batch.encrypt_many([]) == []
    assert batch.rerandomise_many([]) == []
    assert decrypt_many(PRIVATE, []) == []


def test_djn_is_refused_for_a_key_without_the_promise() -> None:
    without = PrivateKey(*PRIVATE.primes(), blum=False, small_for_tests=True)
    with pytest.raises(ParameterError, match=r"does not promise .*BatchEncryptor\.textbook"):
        BatchEncryptor.djn(without.public)


def test_no_repr_shows_key_or_seed() -> None:
    for kind, make in RECIPES.items():
        batch = make()
        shown = repr(batch) + repr(batch._recipe)
        assert kind in shown
        assert "b'" not in shown
        assert len(shown) < 300
        assert batch.public is PUBLIC
