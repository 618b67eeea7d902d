"""Keys: generation, what is refused, the wire form, decryption against the defining formula."""

import pickle
from math import gcd, lcm
from typing import Any

import gmpy2
import numpy as np
import pytest
from gmpy2 import mpz
from hypothesis import given
from hypothesis import strategies as st

from mpc.core.errors import ParameterError, WireError
from mpc.core.prg import Prg
from mpc.paillier.ciphertext import Ciphertext
from mpc.paillier.keys import (
    DEFAULT_BITS,
    SIZES,
    PrivateKey,
    PublicKey,
    generate,
    generate_small_for_tests,
)
from mpc.paillier.primes import is_prime
from tests.mpc.paillier.stored_keys import BITS, private_key, stored, toy_key
from tests.support.faults import append, flips, truncations
from tests.support.vectors import cases

SEED = bytes(range(32))


def primes(bits: int) -> tuple[int, int]:
    return private_key(bits).primes()


def next_prime(start: int, residue: int) -> int:
    number = start + (residue - start) % 4
    while not is_prime(mpz(number)):
        number += 4
    return number


# --- generation


def test_the_default_is_a_key_as_strong_as_128_bits() -> None:
    assert DEFAULT_BITS == 3072
    assert generate(rng=Prg(SEED)).public.bits == 3072


def test_a_generated_key_has_the_form_that_it_promises() -> None:
    bits = 2048
    key = generate(bits, rng=Prg(SEED))
    p, q = key.primes()
    assert key.public.n == p * q
    assert key.public.bits == key.public.n.bit_length() == bits
    assert key.public.blum
    assert p.bit_length() == q.bit_length() == bits // 2
    assert p % 4 == q % 4 == 3
    assert gcd(p - 1, q - 1) == 2
    assert abs(p - q) > 2 ** (bits // 2 - 100)
    assert gcd(p * q, (p - 1) * (q - 1)) == 1


@given(st.integers(5, 40), st.binary(min_size=32, max_size=32))
def test_small_keys_of_every_length_have_the_form_too(half: int, seed: bytes) -> None:
    key = generate_small_for_tests(2 * half, rng=Prg(seed))
    p, q = key.primes()
    assert p < q
    assert key.public.bits == 2 * half
    assert p % 4 == q % 4 == 3
    assert gcd(p - 1, q - 1) == 2


def test_a_key_depends_on_its_generator_alone() -> None:
    first, again = (generate_small_for_tests(512, rng=Prg(SEED)) for _ in range(2))
    other = generate_small_for_tests(512, rng=Prg(bytes(32)))
    assert first.public == again.public
    assert first.public != other.public


@pytest.mark.parametrize("bits", [0, 1024, 2047, 2050, 3000, 8192, 2048.0, True, "2048"])
def test_other_sizes_are_refused(bits: Any) -> None:
    with pytest.raises(ParameterError, match="bits"):
        generate(bits)


@pytest.mark.parametrize("bits", [0, 8, 9, 11, 513, 2047, 2048, 3072])
def test_a_test_key_is_small_and_even(bits: int) -> None:
    with pytest.raises(ParameterError, match="bits"):
        generate_small_for_tests(bits)


# --- what a private key refuses


def test_equal_primes_are_refused() -> None:
    p, _ = primes(2048)
    with pytest.raises(ParameterError, match="equal or too close"):
        PrivateKey(p, p)


def test_primes_that_are_too_close_are_refused() -> None:
    p, _ = primes(2048)
    close = next_prime(p + 2**900, 3)
    with pytest.raises(ParameterError, match="too close"):
        PrivateKey(p, close, blum=False)


@pytest.mark.parametrize("which", [0, 1])
def test_a_factor_that_is_not_prime_is_refused(which: int) -> None:
    factors = list(primes(2048))
    factors[which] += 4
    with pytest.raises(ParameterError, match="not prime"):
        PrivateKey(*factors)


def test_primes_of_unequal_length_are_refused() -> None:
    _, q = primes(2048)
    with pytest.raises(ParameterError, match="equal length"):
        PrivateKey(primes(1024)[0], q)


@pytest.mark.parametrize(("p", "q"), [(7, 11), (23, 7), (0, 0), (1, 1), (-23, 31), (-23, -31)])
def test_tiny_and_negative_factors_are_refused(p: int, q: int) -> None:
    with pytest.raises(ParameterError):
        PrivateKey(p, q, small_for_tests=True)


def test_equal_length_leaves_n_and_its_order_without_a_common_factor() -> None:
    small = [p for p in range(3, 512) if is_prime(mpz(p))]
    for p in small:
        for q in small:
            if p != q and p.bit_length() == q.bit_length():
                assert gcd(p * q, (p - 1) * (q - 1)) == 1
    assert gcd(3 * 7, 2 * 6) == 3  # of unequal length


def test_small_primes_are_refused_where_a_key_is_meant_to_protect() -> None:
    with pytest.raises(ParameterError, match="2048, 3072 or 4096"):
        PrivateKey(*primes(1024))
    with pytest.raises(ParameterError, match="for tests"):
        PrivateKey(*primes(2048), small_for_tests=True)


def test_orders_with_a_common_factor_are_refused() -> None:
    # 19 - 1 and 31 - 1 share 6.
    with pytest.raises(ParameterError, match="gcd"):
        PrivateKey(19, 31, small_for_tests=True)
    assert not PrivateKey(19, 31, blum=False, small_for_tests=True).public.blum


def test_primes_1_modulo_4_are_taken_only_without_the_promise() -> None:
    p, _ = primes(2048)
    q = next_prime(p + 2**1000, 1)
    with pytest.raises(ParameterError, match="3 modulo 4") as refused:
        PrivateKey(p, q)
    assert "blum=False" in refused.value.remedy
    key = PrivateKey(p, q, blum=False)
    assert not key.public.blum
    assert not PrivateKey(*primes(2048), blum=False).public.blum


@pytest.mark.parametrize("prime", [3.0, True, "23", None, np.float64(23), np.array([23])])
def test_a_prime_that_is_no_integer_is_refused(prime: Any) -> None:
    with pytest.raises(ParameterError, match="a prime must be an integer"):
        PrivateKey(prime, 31, small_for_tests=True)


def test_the_order_of_the_primes_does_not_matter() -> None:
    p, q = primes(2048)
    assert PrivateKey(q, p).to_bytes() == PrivateKey(p, q).to_bytes()
    assert PrivateKey(np.int64(23), mpz(31), small_for_tests=True).primes() == (23, 31)


# --- what a public key refuses


def test_an_even_modulus_is_refused() -> None:
    with pytest.raises(ParameterError, match="odd"):
        PublicKey(private_key(2048).public.n + 1)


def test_a_prime_modulus_is_refused() -> None:
    with pytest.raises(ParameterError, match="composite"):
        PublicKey(mpz(next_prime(2**2047 + 2**2046, 1)))


@pytest.mark.parametrize("power", [2, 3])
def test_a_perfect_power_is_refused(power: int) -> None:
    root = gmpy2.iroot(mpz(2) ** 2048 - 1, power)[0]
    root -= 1 - root % 2
    with pytest.raises(ParameterError, match="perfect power"):
        PublicKey(root**power)


def test_a_modulus_with_a_small_factor_is_refused() -> None:
    small = 65521  # the largest prime below 2^16
    cofactor = mpz(2) ** 2047 // small + 1
    cofactor += 1 - cofactor % 2
    assert (small * cofactor).bit_length() == 2048
    with pytest.raises(ParameterError, match=r"factor below 65536"):
        PublicKey(small * cofactor)


def test_factors_that_fermat_finds_are_refused() -> None:
    p = next_prime(2**1023 + 2**1022 + 2**1021, 3)
    with pytest.raises(ParameterError, match="Fermat"):
        PublicKey(mpz(p) * next_prime(p + 2**500, 3))


@pytest.mark.parametrize("bits", [1024, 2047, 2049, 5000])
def test_a_modulus_of_another_size_is_refused(bits: int) -> None:
    with pytest.raises(ParameterError, match="2048, 3072 or 4096"):
        PublicKey(mpz(2) ** (bits - 1) + 1)


@pytest.mark.parametrize("n", [0, 1, -713, 127, 2**2047 + 1])
def test_a_test_key_has_8_to_2047_bits(n: int) -> None:
    with pytest.raises(ParameterError):
        PublicKey(mpz(n), small_for_tests=True)


def test_a_promise_that_n_contradicts_is_refused() -> None:
    # 23 * 29 = 667 = 3 mod 4, so not both factors are 3 mod 4.
    with pytest.raises(ParameterError, match="1 modulo 4"):
        PublicKey(mpz(667), blum=True, small_for_tests=True)


@pytest.mark.parametrize("n", [713.0, True, "713", None])
def test_a_modulus_that_is_no_integer_is_refused(n: Any) -> None:
    with pytest.raises(ParameterError):
        PublicKey(n, small_for_tests=True)


@pytest.mark.parametrize("bits", BITS)
def test_a_key_knows_its_bounds(bits: int) -> None:
    public = private_key(bits).public
    assert public.n_squared == public.n**2
    assert 2 * public.max_plaintext + 1 == public.n
    assert 256 ** (public.ciphertext_bytes - 1) <= public.n_squared < 256**public.ciphertext_bytes


def test_keys_are_equal_if_modulus_and_promise_are() -> None:
    p, q = primes(2048)
    promised, silent = PublicKey(mpz(p * q), blum=True), PublicKey(mpz(p * q))
    assert promised == private_key(2048).public
    assert hash(promised) == hash(private_key(2048).public)
    assert promised != silent
    assert promised.fingerprint == silent.fingerprint
    assert promised.fingerprint != private_key(3072).public.fingerprint


def test_a_public_key_cannot_be_changed() -> None:
    with pytest.raises(AttributeError):
        toy_key().public.n = mpz(15)  # type: ignore[misc]


# --- plaintexts (case O18)


def test_plaintexts_are_the_integers_of_the_symmetric_range() -> None:
    public = toy_key().public
    assert public.max_plaintext == 356
    assert [public.check_plaintext(m) for m in (-356, 0, 356)] == [-356, 0, 356]
    for outside in (-357, 357, 2**70, -(2**70)):
        with pytest.raises(ParameterError, match="within"):
            public.check_plaintext(outside)


@pytest.mark.parametrize(
    "m", [np.int64(-5), np.uint8(200), np.int8(-1), mpz(7), np.uint64(0), np.array(3)]
)
def test_o18_integers_of_numpy_and_gmpy2_become_python_integers(m: Any) -> None:
    checked = toy_key().public.check_plaintext(m)
    assert type(checked) is int
    assert checked == int(m)


@pytest.mark.parametrize(
    "m",
    [True, np.bool_(True), 0.5, 2.0, np.float32(0.5), "1", b"1", None, np.array([1, -2]), 1j],
)
def test_o18_booleans_floats_and_arrays_are_refused_with_a_remedy(m: Any) -> None:
    with pytest.raises(ParameterError, match="must be an integer") as refused:
        toy_key().public.check_plaintext(m)
    assert "codec" in refused.value.remedy
    assert "encrypt_array" in refused.value.remedy


def test_residues_and_signed_plaintexts_correspond() -> None:
    public = toy_key().public
    signed = [public.signed(mpz(residue)) for residue in range(713)]
    assert sorted(signed) == list(range(-356, 357))
    assert all((m - residue) % 713 == 0 for residue, m in enumerate(signed))
    assert type(signed[0]) is int


# --- decryption


def paillier_decrypt(c: int, p: int, q: int) -> int:
    """Paillier's own formula: L(c^lambda mod n^2) / L(g^lambda mod n^2) mod n."""
    n = p * q
    order = lcm(p - 1, q - 1)
    over, under = (pow(base, order, n * n) // n for base in (c, n + 1))
    return over * pow(under, -1, n) % n


def test_decryption_is_paillier_s_formula_on_every_element_of_a_toy_group() -> None:
    key = toy_key()
    n = 23 * 31
    for c in range(1, n * n, 11):
        if gcd(c, n) == 1:
            expected = paillier_decrypt(c, 23, 31)
            assert key.decrypt_unchecked(mpz(c)) == expected
            assert key.decrypt_unchecked(mpz(c), constant_time_powmod=True) == expected


@pytest.mark.parametrize("bits", BITS)
@pytest.mark.parametrize("constant_time", [False, True])
def test_stored_ciphertexts_decrypt(bits: int, constant_time: bool) -> None:
    key = private_key(bits)
    entries = stored(bits)["textbook"] + stored(bits)["djn"]["cases"]
    ciphertexts = [Ciphertext(int(entry["c"], 16), key.public) for entry in entries]
    plain = [int(entry["m"], 16) for entry in entries]
    assert key.decrypt_many(ciphertexts, constant_time_powmod=constant_time) == plain
    for ciphertext, m in zip(ciphertexts, plain, strict=True):
        decrypted = key.decrypt(ciphertext, constant_time_powmod=constant_time)
        assert type(decrypted) is int
        assert decrypted == m


@pytest.mark.parametrize("constant_time", [False, True])
def test_the_argument_decides_which_exponentiation_sees_the_secret_exponents(
    constant_time: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    key, exponents = toy_key(), []

    def spy(base: mpz, exponent: mpz, modulus: mpz) -> mpz:
        exponents.append(int(exponent))
        return pow(base, exponent, modulus)

    monkeypatch.setattr(gmpy2, "powmod_sec", spy)
    ciphertext = Ciphertext(1 + 5 * 713, key.public)
    key.decrypt(ciphertext, constant_time_powmod=constant_time)
    key.decrypt_many([ciphertext], constant_time_powmod=constant_time)
    key.decrypt_array(np.array([ciphertext]), constant_time_powmod=constant_time)
    key.random_residues(1, constant_time_powmod=constant_time)
    assert exponents == ([22, 30] * 3 + [23, 31] if constant_time else [])


def test_many_are_decrypted_in_order_and_none_too() -> None:
    key = toy_key()
    ciphertexts = [Ciphertext(1 + m * 713, key.public) for m in (5, 0, 712)]
    assert key.decrypt_many(iter(ciphertexts)) == [5, 0, -1]
    assert key.decrypt_many([]) == []
    array = np.array([[ciphertexts[0], ciphertexts[2]]], dtype=object)
    assert key.decrypt_array(array).tolist() == [[5, -1]]
    assert key.decrypt_array(np.empty((0, 3), dtype=object)).shape == (0, 3)


def test_a_ciphertext_of_another_key_is_refused() -> None:
    ciphertext = Ciphertext(1, private_key(2048).public)
    for decrypt in (private_key(3072).decrypt, lambda c: private_key(3072).decrypt_many([c])):
        with pytest.raises(ParameterError, match="another key"):
            decrypt(ciphertext)


def test_a_key_with_another_promise_is_the_same_key() -> None:
    ciphertext = Ciphertext(1, PublicKey(mpz(713), small_for_tests=True))
    assert toy_key().decrypt(ciphertext) == 0


# --- wire form


@pytest.mark.parametrize("entry", cases("paillier", "keys"), ids=lambda entry: str(entry["bits"]))
def test_wire_forms_and_fingerprint_equal_the_independent_script(entry: dict[str, Any]) -> None:
    small = entry["bits"] < min(SIZES)
    key = private_key(entry["bits"])
    assert key.public.to_bytes().hex() == entry["public"]
    assert key.public.fingerprint.hex() == entry["fingerprint"]
    assert key.to_bytes().hex() == entry["private"]
    public = PublicKey.from_bytes(bytes.fromhex(entry["public"]), small_for_tests=small)
    assert public == key.public
    private = PrivateKey.from_bytes(bytes.fromhex(entry["private"]), small_for_tests=small)
    assert private.primes() == key.primes()
    assert private.public == key.public


def test_the_promise_travels() -> None:
    p, q = primes(2048)
    for blum in (False, True):
        key = PrivateKey(p, q, blum=blum)
        assert PrivateKey.from_bytes(key.to_bytes()).public.blum is blum
        assert PublicKey.from_bytes(key.public.to_bytes()).blum is blum


def test_small_keys_do_not_load_unasked() -> None:
    key = private_key(1024)
    with pytest.raises(WireError, match="2048, 3072 or 4096"):
        PublicKey.from_bytes(key.public.to_bytes())
    with pytest.raises(WireError, match="2048, 3072 or 4096"):
        PrivateKey.from_bytes(key.to_bytes())


def test_truncated_and_prolonged_keys_are_refused() -> None:
    key = toy_key()
    for data, load in ((key.public.to_bytes(), PublicKey), (key.to_bytes(), PrivateKey)):
        for changed in [*truncations(data), append(data)]:
            with pytest.raises(WireError):
                load.from_bytes(changed, small_for_tests=True)


def test_a_key_with_a_flipped_bit_is_another_key_or_refused() -> None:
    key = toy_key()
    for changed in flips(key.public.to_bytes()):
        try:
            loaded = PublicKey.from_bytes(changed, small_for_tests=True)
        except WireError:
            continue
        assert loaded != key.public
        assert loaded.to_bytes() == changed
    for changed in flips(key.to_bytes()):
        try:
            other = PrivateKey.from_bytes(changed, small_for_tests=True)
        except WireError:
            continue
        assert other.public != key.public
        assert other.to_bytes() == changed


@given(st.binary(max_size=300))
def test_arbitrary_bytes_raise_only_wire_errors(data: bytes) -> None:
    for load in (PublicKey, PrivateKey):
        for start in (b"", toy_key().public.to_bytes()[:18], toy_key().to_bytes()[:19]):
            with pytest.raises(WireError):
                load.from_bytes(start + data)


def test_primes_in_the_wrong_order_are_not_canonical() -> None:
    key = toy_key()
    data = key.to_bytes()
    p, q = (bytes([0xC4, 1, prime]) for prime in key.primes())
    assert data.count(p + q) == 1
    with pytest.raises(WireError, match="ascending"):
        PrivateKey.from_bytes(data.replace(p + q, q + p), small_for_tests=True)


def test_a_public_key_is_no_private_key() -> None:
    key = private_key(2048)
    with pytest.raises(WireError):
        PrivateKey.from_bytes(key.public.to_bytes())
    with pytest.raises(WireError):
        PublicKey.from_bytes(key.to_bytes())


# --- pickles, for worker processes


def test_keys_survive_a_pickle() -> None:
    key = private_key(2048)
    public = pickle.loads(pickle.dumps(key.public))
    assert public == key.public
    assert public.fingerprint == key.public.fingerprint
    private = pickle.loads(pickle.dumps(key))
    assert private.primes() == key.primes()
    assert private.decrypt(Ciphertext(1 + 5 * key.public.n, public)) == 5
