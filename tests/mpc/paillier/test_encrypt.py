"""Encryption: answers of the independent script, shapes, kinds of integers, what is refused."""

import pickle
from collections.abc import Callable
from typing import Any

import gmpy2
import numpy as np
import pytest
from gmpy2 import mpz
from hypothesis import given
from hypothesis import strategies as st

from mpc.core.errors import ParameterError
from mpc.core.prg import Prg
from mpc.paillier.ciphertext import Ciphertext
from mpc.paillier.encrypt import EXPONENT_BITS, Djn, Encryptor, Owner, Textbook, encryptor_for
from mpc.paillier.keys import SIZES, PrivateKey, PublicKey
from tests.mpc.paillier.stored_keys import BITS, BytesRng, encryptor, private_key, stored, toy_key

SEED = bytes(range(32))

MAKERS: list[Callable[[PrivateKey], Encryptor]] = [
    lambda key: Textbook(key.public),
    Owner,
    lambda key: Owner(key, constant_time_powmod=True),
    lambda key: Djn(key.public, rng=Prg(SEED)),
]
NAMES = ["textbook", "owner", "owner constant time", "djn"]

every_encryptor = pytest.mark.parametrize("make", MAKERS, ids=NAMES)


def number(entry: dict[str, Any], name: str) -> int:
    return int(entry[name], 16)


def unit_bytes(value: int, bits: int) -> bytes:
    """What a draw below n must read to give ``value``: ``bits`` is a multiple of 8."""
    return value.to_bytes(bits // 8, "big")


# --- independent answers


@pytest.mark.parametrize("bits", BITS)
def test_textbook_ciphertexts_equal_the_independent_script(bits: int) -> None:
    public = private_key(bits).public
    for entry in stored(bits)["textbook"]:
        rng = BytesRng(unit_bytes(number(entry, "r"), bits))
        ciphertext = Textbook(public).encrypt(number(entry, "m"), rng=rng)
        assert ciphertext.value == number(entry, "c")
        assert ciphertext.to_bytes().hex() == entry["wire"]


@pytest.mark.parametrize("bits", BITS)
def test_djn_ciphertexts_equal_the_independent_script(bits: int) -> None:
    public, entry = private_key(bits).public, stored(bits)["djn"]
    bases = unit_bytes(number(entry, "x"), bits) + unit_bytes(number(entry, "u"), bits)
    djn = Djn(public, rng=BytesRng(bases))
    for case in entry["cases"]:
        coins = number(case, "e").to_bytes(djn.exponent_bits // 8, "little") + bytes([case["b"]])
        ciphertext = djn.encrypt(number(case, "m"), rng=BytesRng(coins))
        assert ciphertext.value == number(case, "c")


@pytest.mark.parametrize("bits", SIZES)
def test_exponents_are_four_times_as_long_as_the_key_is_strong(bits: int) -> None:
    strength = {2048: 112, 3072: 128, 4096: 152}[bits]
    assert encryptor(bits).exponent_bits == EXPONENT_BITS[bits] == 4 * strength


# --- round trips


@every_encryptor
@pytest.mark.parametrize("bits", [1024, 2048])
def test_what_is_encrypted_decrypts(make: Callable[[PrivateKey], Encryptor], bits: int) -> None:
    key = private_key(bits)
    most = key.public.max_plaintext
    plain = [0, 1, -1, 2**64, -(2**64), most, -most]
    ciphertexts = make(key).encrypt_many(plain)
    assert key.decrypt_many(ciphertexts) == plain
    assert all(c.is_fresh and c.public is key.public for c in ciphertexts)
    assert len({int(c.value) for c in ciphertexts}) == len(plain)


@given(st.integers(-356, 356), st.binary(min_size=32, max_size=32))
@every_encryptor
def test_any_plaintext_round_trips_under_a_toy_key(
    make: Callable[[PrivateKey], Encryptor], m: int, seed: bytes
) -> None:
    key = toy_key()
    assert key.decrypt(make(key).encrypt(m, rng=Prg(seed))) == m


@every_encryptor
def test_a_batch_is_its_entries_in_a_row(make: Callable[[PrivateKey], Encryptor]) -> None:
    key = private_key(1024)
    by_batch, by_entry = Prg(SEED), Prg(SEED)
    encryptor = make(key)
    batch = encryptor.encrypt_many([5, -6, 7], rng=by_batch)
    single = [encryptor.encrypt(m, rng=by_entry) for m in (5, -6, 7)]
    assert [c.value for c in batch] == [c.value for c in single]
    again = encryptor.rerandomise_many(batch, rng=by_batch)
    assert [c.value for c in again] == [
        c.rerandomised(encryptor, rng=by_entry).value for c in single
    ]


@every_encryptor
def test_two_ciphertexts_of_one_plaintext_differ(make: Callable[[PrivateKey], Encryptor]) -> None:
    encryptor = make(private_key(1024))
    assert encryptor.encrypt(5).value != encryptor.encrypt(5).value
    first = encryptor.encrypt(5)
    assert first.rerandomised(encryptor).value != first.value


@every_encryptor
def test_an_empty_batch_is_empty(make: Callable[[PrivateKey], Encryptor]) -> None:
    encryptor = make(private_key(1024))
    assert encryptor.encrypt_many([]) == []
    assert encryptor.rerandomise_many(iter(())) == []
    assert encryptor.encrypt_array(np.empty((0, 3), np.int64)).shape == (0, 3)


def test_every_window_gives_residues_that_change_no_plaintext() -> None:
    key = private_key(1024)
    for window in (1, 4, 7, 8, 14):
        djn = Djn(key.public, exponent_bits=56, window=window)
        assert key.decrypt_many(djn.encrypt_many([1, -2, 3])) == [1, -2, 3]


# --- integers of all kinds, and arrays (case O18)


@pytest.mark.parametrize("m", [np.int64(0), np.int64(-5), np.uint8(200), mpz(-1), np.uint64(2**63)])
def test_o18_scalars_of_numpy_and_gmpy2_encrypt_as_their_value(m: Any) -> None:
    assert private_key(1024).decrypt(encryptor(1024).encrypt(m)) == int(m)


@pytest.mark.parametrize("m", [np.float32(0.5), 0.5, np.bool_(True), True, "5", [1, -2, 3], None])
def test_o18_floats_booleans_and_lists_are_refused(m: Any) -> None:
    with pytest.raises(ParameterError, match="must be an integer"):
        encryptor(1024).encrypt(m)
    with pytest.raises(ParameterError, match="must be an integer"):
        encryptor(1024).encrypt_many([1, m])


@pytest.mark.parametrize("dtype", [np.int8, np.int64, object])
def test_o18_an_array_is_encrypted_entry_by_entry(dtype: Any) -> None:
    key = private_key(1024)
    encrypted = encryptor(1024).encrypt_array(np.array([1, -2, 3], dtype=dtype))
    assert encrypted.shape == (3,)
    assert key.decrypt_array(encrypted).tolist() == [1, -2, 3]
    assert key.decrypt(encrypted.sum()) == 2


@given(st.lists(st.integers(-(2**200), 2**200), min_size=6, max_size=6))
def test_arrays_keep_their_shape(values: list[int]) -> None:
    plain = np.array(values, dtype=object).reshape(2, 3)
    encrypted = encryptor(1024).encrypt_array(plain)
    assert encrypted.shape == (2, 3)
    assert np.array_equal(private_key(1024).decrypt_array(encrypted), plain)
    scalar = encryptor(1024).encrypt_array(values[0])
    assert scalar.shape == ()
    assert private_key(1024).decrypt(scalar.item()) == values[0]


@pytest.mark.parametrize(
    "array",
    [np.array([0.5]), np.array([True]), np.array(["1"]), np.array([1, 0.5], dtype=object), [1.0]],
)
def test_an_array_of_anything_else_is_refused(array: Any) -> None:
    with pytest.raises(ParameterError):
        encryptor(1024).encrypt_array(array)


@pytest.mark.parametrize("bits", [1024, 2048])
def test_plaintexts_outside_the_range_are_refused(bits: int) -> None:
    most = private_key(bits).public.max_plaintext
    for m in (most + 1, -most - 1, 2**5000):
        with pytest.raises(ParameterError, match="within"):
            encryptor(bits).encrypt(m)


# --- which key, which encryptor


def test_djn_needs_the_promise_of_the_key_s_owner() -> None:
    silent = PublicKey(private_key(2048).public.n)
    with pytest.raises(ParameterError, match="promise") as refused:
        Djn(silent)
    assert "Textbook" in refused.value.remedy
    assert private_key(2048).decrypt(Textbook(silent).encrypt(9)) == 9


def test_the_encryptor_for_a_key_follows_its_promise() -> None:
    promised = private_key(1024).public
    assert isinstance(encryptor_for(promised), Djn)
    silent = PublicKey(promised.n, small_for_tests=True)
    assert isinstance(encryptor_for(silent), Textbook)


@pytest.mark.parametrize("bits", [0, 440, 2**17, 448.0, True])
def test_an_exponent_shorter_than_the_key_s_strength_asks_for_is_refused(bits: Any) -> None:
    with pytest.raises(ParameterError, match="exponent_bits"):
        Djn(private_key(2048).public, exponent_bits=bits)


def test_a_longer_exponent_is_taken() -> None:
    assert Djn(private_key(2048).public, exponent_bits=456).exponent_bits == 456


@every_encryptor
def test_ciphertexts_of_another_key_are_not_rerandomised(
    make: Callable[[PrivateKey], Encryptor],
) -> None:
    encryptor = make(private_key(1024))
    foreign = Ciphertext(1, private_key(2048).public)
    with pytest.raises(ParameterError, match="different keys"):
        encryptor.rerandomise_many([foreign])
    with pytest.raises(ParameterError, match="different keys"):
        foreign.rerandomised(encryptor)


def test_djn_and_owner_survive_a_pickle() -> None:
    key = private_key(1024)
    djn = pickle.loads(pickle.dumps(encryptor(1024)))
    coins = bytes(range(57))
    assert djn.encrypt(5, rng=BytesRng(coins)).value == (
        encryptor(1024).encrypt(5, rng=BytesRng(coins)).value
    )
    owner = pickle.loads(pickle.dumps(Owner(key)))
    assert key.decrypt(owner.encrypt(-5)) == -5


def test_residues_are_n_th_powers() -> None:
    key = private_key(1024)
    n, (p, q) = key.public.n, key.primes()
    order = gmpy2.lcm(p - 1, q - 1)  # of the group of n-th residues modulo n^2
    for make in MAKERS:
        for residue in make(key).residues(3):
            assert 0 < residue < key.public.n_squared
            assert gmpy2.powmod(residue, order, key.public.n_squared) == 1
    assert gmpy2.powmod(1 + n, order, key.public.n_squared) != 1
