"""Dot products and matrix products of encrypted vectors, of integers and of fractions."""

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from gmpy2 import mpz, powmod
from hypothesis import given
from hypothesis import strategies as st

from mpc.core.errors import ParameterError, StateError
from mpc.paillier.ciphertext import Ciphertext
from mpc.paillier.codec import Account, FractionCodec, decrypt
from mpc.paillier.encrypt import Textbook
from mpc.paillier.products import dot, dot_fractions, matrix_vector, matrix_vector_fractions
from tests.mpc.paillier.stored_keys import encryptor, private_key, toy_key

PRIVATE, PUBLIC = private_key(1024), private_key(1024).public
CODEC = FractionCodec(PUBLIC, frac_bits=20, magnitude_bits=10)


@given(st.lists(st.tuples(st.integers(-(2**40), 2**40), st.integers(-(2**30), 2**30)), min_size=1))
def test_a_dot_product_decrypts_to_the_plain_one(terms: list[tuple[int, int]]) -> None:
    values, weights = zip(*terms, strict=True)
    product = dot(encryptor(1024).encrypt_many(values), weights)
    assert PRIVATE.decrypt(product) == sum(a * b for a, b in terms)


def test_a_dot_product_is_the_product_of_the_powers() -> None:
    ciphertexts = encryptor(1024).encrypt_many([3, -4, 5])
    weights = [7, -(2**60), 0]
    expected = mpz(1)
    for ciphertext, weight in zip(ciphertexts, weights, strict=True):
        power = powmod(ciphertext.value, weight, PUBLIC.n_squared)
        expected = expected * power % PUBLIC.n_squared
    assert dot(ciphertexts, weights).value == expected


@pytest.mark.parametrize("rows", [1, 5, 40])
def test_a_matrix_product_decrypts_to_numpys(rows: int) -> None:
    table = np.arange(rows * 12).reshape(rows, 12) * 7919 % 2001 - 1000
    x = np.arange(12) * 31 % 17 - 8
    products = matrix_vector(table, encryptor(1024).encrypt_many(x))
    assert PRIVATE.decrypt_many(products) == (table @ x).tolist()
    again = matrix_vector(table.tolist(), encryptor(1024).encrypt_many(x))
    assert PRIVATE.decrypt_many(again) == (table @ x).tolist()


def test_no_rows_give_no_products() -> None:
    assert matrix_vector([], [encryptor(1024).encrypt(1)]) == []


@pytest.mark.parametrize(
    "weights",
    [
        (1, 2, -3),
        [mpz(1), 2, np.int8(-3)],
        np.array([1, 2, -3], np.int16),
        np.array([1, 2, -3], object),
        np.array([1, 9, 2, 9, -3])[::2],
    ],
    ids=["tuple", "mixed", "int16", "object", "strided"],
)
def test_all_types_of_integers_are_weights(weights: Any) -> None:
    assert PRIVATE.decrypt(dot(encryptor(1024).encrypt_many([10, 20, 30]), weights)) == -40


def test_the_largest_weights_are_those_of_the_plaintext_space() -> None:
    one = [encryptor(1024).encrypt(1)]
    for weight in (PUBLIC.max_plaintext, -PUBLIC.max_plaintext):
        assert PRIVATE.decrypt(dot(one, [weight])) == weight
        with pytest.raises(ParameterError, match=r"weights must be integers in \(-n/2, n/2\)"):
            dot(one, [2 * weight])


@pytest.mark.parametrize(
    "weights",
    [
        [1, 2],
        [1, 2, 3, 4],
        [1, 2, 0.5],
        [1, 2, True],
        [1, 2, [3]],
        [1, 2, None],
        3,
        None,
        "123",
        np.array([1.0, 2.0, 3.0]),
        np.array([True, False, True]),
        np.array([[1, 2, 3]]),
        np.array([[1], [2], [3]]),
        np.array(3),
    ],
    ids=repr,
)
def test_what_are_no_integer_weights_is_refused(weights: Any) -> None:
    ciphertexts = encryptor(1024).encrypt_many([1, 2, 3])
    with pytest.raises(ParameterError, match="weights must"):
        dot(ciphertexts, weights)


def test_a_product_needs_ciphertexts_of_one_key() -> None:
    with pytest.raises(ParameterError, match="at least one ciphertext"):
        dot([], [])
    foreign = Textbook(toy_key().public).encrypt(1)
    with pytest.raises(ParameterError, match="different keys"):
        dot([encryptor(1024).encrypt(1), foreign], [1, 1])


def test_a_product_is_not_fresh_and_does_not_travel() -> None:
    ciphertexts = encryptor(1024).encrypt_many([1, 2])
    product = dot(ciphertexts, [1, 0])
    # Why: this one is its operand's very ciphertext, which shows the weights to who sent it.
    assert product.value == ciphertexts[0].value
    assert not product.is_fresh
    with pytest.raises(StateError):
        product.to_bytes()
    sent = product.rerandomised(encryptor(1024))
    assert PRIVATE.decrypt(Ciphertext.from_bytes(sent.to_bytes(), PUBLIC)) == 1


FLOATS = st.floats(-100, 100)


@given(st.lists(st.tuples(FLOATS, FLOATS), min_size=1, max_size=8), st.integers(0, 40))
def test_a_dot_product_of_fractions_keeps_its_account(
    terms: list[tuple[float, float]], frac_bits: int
) -> None:
    values, weights = zip(*terms, strict=True)
    exact = sum(Fraction(a) * Fraction(b) for a, b in terms)
    numbers = list(CODEC.encrypt_array(list(values), encryptor(1024)))
    for given_weights in (list(weights), np.array(weights)):
        product = dot_fractions(numbers, given_weights, frac_bits=frac_bits)
        assert product.account.frac_bits == 20 + frac_bits
        opened = decrypt(PRIVATE, product)
        assert abs(opened - exact) <= product.account.max_error
        assert abs(opened) <= product.account.magnitude


def test_the_fast_way_for_arrays_of_floats_rounds_as_the_exact_way() -> None:
    numbers = list(CODEC.encrypt_array([1, 2, 3, 4], encryptor(1024)))
    weights = [0.5, 1.5, -2.5, 0.3]
    for frac_bits in (0, 1, 10, 60):
        fast = dot_fractions(numbers, np.array(weights), frac_bits=frac_bits)
        exact = dot_fractions(numbers, weights, frac_bits=frac_bits)
        assert fast.account == exact.account
        assert fast.ciphertext.value == exact.ciphertext.value


def test_exact_weights_take_the_places_of_the_finest() -> None:
    numbers = list(CODEC.encrypt_array([1, 2, 3], encryptor(1024)))
    product = dot_fractions(numbers, [0.5, -0.125, 7])
    assert product.account == Account(23, 2**30 * (4 + 1 + 56), 4 + 1 + 56)
    assert decrypt(PRIVATE, product) == Fraction(85, 4)
    with pytest.raises(ParameterError, match="without an end in base two"):
        dot_fractions(numbers, [Fraction(1, 3), 1, 1])


def test_all_rows_of_a_matrix_of_fractions_share_one_account() -> None:
    numbers = list(CODEC.encrypt_array([1.5, -2], encryptor(1024)))
    rows = matrix_vector_fractions([[1, 2], [100, -0.25]], numbers, frac_bits=8)
    assert len({row.account for row in rows}) == 1
    assert [decrypt(PRIVATE, row) for row in rows] == [Fraction(-5, 2), Fraction(301, 2)]
    table = np.arange(24.0).reshape(8, 3) / 7
    x = [0.5, -0.25, 3]
    encrypted = list(CODEC.encrypt_array(x, encryptor(1024)))
    products = matrix_vector_fractions(table, encrypted, frac_bits=30)
    for product, row in zip(products, table, strict=True):
        exact = sum(Fraction(a) * Fraction(b) for a, b in zip(row.tolist(), x, strict=True))
        assert abs(decrypt(PRIVATE, product) - exact) <= product.account.max_error


def test_numbers_of_different_exponents_meet_in_a_dot_product() -> None:
    coarse = FractionCodec(PUBLIC, 2, 10).encrypt(2.5, encryptor(1024))
    fine = CODEC.encrypt(0.125, encryptor(1024))
    product = dot_fractions([coarse, fine, coarse * 0.5], [3, -4, 8])
    assert decrypt(PRIVATE, product) == 7.5 - 0.5 + 10


def test_a_sum_that_could_leave_the_space_is_refused_before_it_is_computed() -> None:
    numbers = list(CODEC.encrypt_array([0, 0], encryptor(1024)))
    largest = PUBLIC.max_plaintext // 2**30
    fits = dot_fractions(numbers, [largest - 1, 1])
    assert fits.account.bound == largest * 2**30
    with pytest.raises(ParameterError, match="a sum of products could leave the plaintext space"):
        dot_fractions(numbers, [largest, 1])
    with pytest.raises(ParameterError, match=r"\d+ bits are left"):
        matrix_vector_fractions([[0, 0], [largest, 1]], numbers)


@pytest.mark.parametrize(
    ("matrix", "refusal"),
    [
        ([[1, 2, 3]], "must have 2 columns"),
        ([1, 2], "must have 2 columns"),
        ([[1, 2], [3]], "rows of unequal size"),
        ([[1, float("nan")]], r"matrix\[0, 1\] is not finite"),
        (np.array([[1, 2], [np.inf, 1]]), r"matrix\[1, 0\] is not finite"),
        ([[1, True]], r"matrix\[0, 1\] is a boolean"),
        (np.array([[True, False]]), r"matrix\[0, 0\] is a boolean"),
        ([[1, "2"]], r"matrix\[0, 1\] must be a real number"),
    ],
)
def test_what_is_no_matrix_of_numbers_is_refused(matrix: Any, refusal: str) -> None:
    numbers = list(CODEC.encrypt_array([0, 0], encryptor(1024)))
    with pytest.raises(ParameterError, match=refusal):
        matrix_vector_fractions(matrix, numbers, frac_bits=3)
    with pytest.raises(ParameterError, match="at least one encrypted fraction"):
        matrix_vector_fractions(matrix, [])
