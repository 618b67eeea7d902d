"""Ciphertexts: the laws of their arithmetic, keys, kinds of operands, the wire form."""

import copy
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from gmpy2 import mpz
from hypothesis import given
from hypothesis import strategies as st

from mpc.core.errors import ParameterError, WireError
from mpc.paillier.ciphertext import (
    Ciphertext,
    total,
    vector_bytes,
    vector_from_bytes,
    vector_to_bytes,
)
from mpc.paillier.encrypt import Textbook
from mpc.paillier.keys import PublicKey
from tests.mpc.paillier.stored_keys import BITS, encryptor, private_key, stored, toy_key
from tests.support.faults import append, flips, truncations

KEY = private_key(1024)
PUBLIC = KEY.public
MOST = PUBLIC.max_plaintext
TOY = toy_key().public

# Sums of up to eight and products of two stay within the 1024-bit key's range.
numbers = st.integers(-(2**500), 2**500) | st.integers(-3, 3)


def enc(m: int) -> Ciphertext:
    return encryptor(1024).encrypt(m)


def dec(ciphertext: Ciphertext) -> int:
    return KEY.decrypt(ciphertext)


# --- laws


@given(numbers, numbers)
def test_sums_and_differences_decrypt_to_sums_and_differences(a: int, b: int) -> None:
    assert dec(enc(a) + enc(b)) == a + b
    assert dec(enc(a) - enc(b)) == a - b
    assert dec(-enc(a)) == -a


@given(numbers, numbers)
def test_plain_numbers_are_added_and_subtracted_on_either_side(a: int, b: int) -> None:
    ciphertext = enc(a)
    assert dec(ciphertext + b) == dec(b + ciphertext) == a + b
    assert dec(ciphertext - b) == a - b
    assert dec(b - ciphertext) == b - a


@given(numbers, numbers)
def test_products_with_plain_numbers_decrypt_to_products(a: int, k: int) -> None:
    assert dec(enc(a) * k) == dec(k * enc(a)) == a * k


@given(st.lists(numbers, min_size=1, max_size=8))
def test_a_total_is_the_sum(values: list[int]) -> None:
    ciphertexts = [enc(m) for m in values]
    assert dec(total(iter(ciphertexts))) == sum(values)
    assert dec(sum(ciphertexts, start=enc(0))) == sum(values)
    added = sum(ciphertexts)
    assert isinstance(added, Ciphertext)
    assert dec(added) == sum(values)


@given(numbers, numbers, numbers)
def test_a_linear_form_decrypts_to_its_value(a: int, b: int, k: int) -> None:
    assert dec((enc(a) - 5) * k + enc(b) * -3 + 1) == (a - 5) * k - 3 * b + 1


@given(numbers)
def test_rerandomising_keeps_the_plaintext(a: int) -> None:
    ciphertext = enc(a) * 2
    again = ciphertext.rerandomised(encryptor(1024))
    assert dec(again) == 2 * a
    assert again.value != ciphertext.value


@pytest.mark.parametrize("factor", [MOST, -MOST, 1, -1, 0])
def test_the_largest_factors_are_taken(factor: int) -> None:
    assert dec(enc(1) * factor) == factor
    assert dec(enc(0) + factor) == factor
    assert dec(enc(0) - factor) == -factor


def test_every_pair_of_a_toy_key_adds_and_multiplies_modulo_n() -> None:
    key = toy_key()
    plain = list(range(-356, 357, 31))
    ciphertexts = Textbook(TOY).encrypt_many(plain)

    def wrapped(m: int) -> int:
        return (m + 356) % 713 - 356

    for a, first in zip(plain, ciphertexts, strict=True):
        for b, second in zip(plain, ciphertexts, strict=True):
            assert key.decrypt(first + second) == wrapped(a + b)
            assert key.decrypt(first + b) == wrapped(a + b)
            assert key.decrypt(first - second) == wrapped(a - b)
            assert key.decrypt(first * b) == wrapped(a * b)


@pytest.mark.parametrize("bits", BITS)
def test_arithmetic_equals_the_independent_script(bits: int) -> None:
    public, entry = private_key(bits).public, stored(bits)
    first, second = (
        Ciphertext(int(case["c"], 16), public)
        for case in (entry["textbook"][1], entry["textbook"][3])
    )
    assert (first + second).value == int(entry["sum"], 16)
    assert total([first, second]).value == int(entry["sum"], 16)
    assert (second * -5).value == int(entry["times_minus_5"], 16)
    assert (second + -7).value == (second - 7).value == int(entry["plus_minus_7"], 16)


# --- kinds of operands (case O18)


@pytest.mark.parametrize("m", [np.int64(-5), np.uint8(200), np.int32(0), mpz(-9)])
def test_o18_scalars_of_numpy_and_gmpy2_count_as_integers(m: Any) -> None:
    ciphertext = enc(7)
    assert dec(ciphertext + m) == dec(m + ciphertext) == 7 + int(m)
    assert dec(ciphertext * m) == dec(m * ciphertext) == 7 * int(m)
    assert dec(ciphertext - m) == 7 - int(m)
    assert dec(m - ciphertext) == int(m) - 7


OPERATIONS: list[Callable[[Any, Any], Any]] = [
    lambda c, x: c + x,
    lambda c, x: x + c,
    lambda c, x: c - x,
    lambda c, x: x - c,
    lambda c, x: c * x,
    lambda c, x: x * c,
]


@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize(
    "operand", [0.5, 2.0, np.float64(2), np.float32(0.5), True, np.bool_(False), 1j, None, b"1"]
)
def test_o18_floats_and_booleans_are_refused(
    operation: Callable[[Any, Any], Any], operand: Any
) -> None:
    with pytest.raises(ParameterError, match="must be an integer"):
        operation(enc(7), operand)


@pytest.mark.parametrize("operation", OPERATIONS)
def test_plain_operands_outside_the_range_are_refused(
    operation: Callable[[Any, Any], Any],
) -> None:
    for operand in (MOST + 1, -MOST - 1):
        with pytest.raises(ParameterError, match="within"):
            operation(enc(7), operand)


def test_two_ciphertexts_are_not_multiplied() -> None:
    with pytest.raises(ParameterError, match="two ciphertexts"):
        enc(1) * enc(2)  # type: ignore[operator]


def test_arrays_go_entry_by_entry() -> None:
    plain = np.array([[1, -2, 3], [4, 5, -6]])
    array = encryptor(1024).encrypt_array(plain)
    weights = np.array([2, -3, 4])
    for result, expected in [
        (array + array, plain + plain),
        (array - array[0], plain - plain[0]),
        (array * weights, plain * weights),
        (weights * array, weights * plain),
        (array + 10, plain + 10),
        (array + weights, plain + weights),
        (-array, -plain),
        (enc(7) + plain, 7 + plain),
        (plain - enc(7), plain - 7),
        (enc(7) * plain, 7 * plain),
        (array.sum(axis=0), plain.sum(axis=0)),
        (np.array(2) * array, 2 * plain),
    ]:
        assert isinstance(result, np.ndarray)
        assert np.array_equal(KEY.decrypt_array(result), expected)


def test_an_array_of_floats_is_refused_entry_by_entry() -> None:
    with pytest.raises(ParameterError, match="must be an integer"):
        enc(7) * np.array([1.0, 0.5])


# --- keys


def test_ciphertexts_of_two_keys_do_not_mix() -> None:
    ours, theirs = enc(1), encryptor(2048).encrypt(1)
    for mix in (
        lambda: ours + theirs,
        lambda: ours - theirs,
        lambda: total([ours, theirs]),
        lambda: vector_to_bytes([ours, theirs]),
        lambda: ours.rerandomised(encryptor(2048)),
    ):
        with pytest.raises(ParameterError, match="different keys"):
            mix()


def test_an_equal_key_is_the_same_key() -> None:
    other = PublicKey(PUBLIC.n, small_for_tests=True)
    moved = Ciphertext(enc(4).value, other)
    assert dec(moved + enc(5)) == dec(enc(5) + moved) == 9
    assert dec(total([enc(5), moved])) == 9
    assert dec(moved.rerandomised(encryptor(1024))) == 4


def test_a_sum_of_nothing_is_refused() -> None:
    with pytest.raises(ParameterError, match="at least one"):
        total([])
    with pytest.raises(ParameterError, match="at least one"):
        vector_to_bytes([])


# --- the object


@pytest.mark.parametrize("value", [0, -1, 713**2, 713**2 + 5, 23, 31 * 5, 713, 1.0, True, "5"])
def test_a_value_outside_the_group_is_refused(value: Any) -> None:
    with pytest.raises(ParameterError, match="value"):
        Ciphertext(value, TOY)


def test_equality_is_identity() -> None:
    ciphertext = enc(1)
    twin = Ciphertext(ciphertext.value, PUBLIC)
    assert ciphertext == ciphertext  # noqa: PLR0124
    assert ciphertext != twin
    assert len({ciphertext, twin}) == 2


def test_a_ciphertext_cannot_be_changed() -> None:
    ciphertext = enc(1)
    for name in ("value", "public", "is_fresh"):
        with pytest.raises(AttributeError):
            setattr(ciphertext, name, None)
    with pytest.raises(AttributeError):
        ciphertext.other = None  # type: ignore[attr-defined]


def test_operators_leave_their_operands_as_they_were() -> None:
    first, second = enc(1), enc(2)
    before = (first.value, second.value)
    for operation in OPERATIONS[:4]:
        operation(first, second)
    first += 5
    assert (first - second).public is first.public
    assert before[1] == second.value
    assert dec(first) == 6


@pytest.mark.parametrize("is_fresh", [True, False])
def test_copies_and_pickles_keep_value_key_and_freshness(is_fresh: bool) -> None:
    ciphertext = enc(3) if is_fresh else enc(1) + 2
    for twin in (copy.copy(ciphertext), pickle.loads(pickle.dumps(ciphertext))):
        assert twin.value == ciphertext.value
        assert twin.public == PUBLIC
        assert twin.is_fresh is is_fresh
        assert dec(twin + ciphertext) == 6


# --- wire form


@pytest.mark.parametrize("bits", BITS)
def test_wire_forms_equal_the_independent_script(bits: int) -> None:
    public, entry = private_key(bits).public, stored(bits)
    values = [mpz(entry["textbook"][i]["c"]) for i in (1, 3)]
    fresh = [Ciphertext.unchecked(value, public, True) for value in values]
    assert vector_to_bytes(fresh).hex() == entry["vector"]
    assert fresh[0].to_bytes().hex() == entry["textbook"][1]["wire"]
    decoded = vector_from_bytes(bytes.fromhex(entry["vector"]), public, 2)
    assert [c.value for c in decoded] == values


@given(st.lists(numbers, min_size=1, max_size=5))
def test_vectors_survive_the_wire(values: list[int]) -> None:
    sent = encryptor(1024).encrypt_many(values)
    data = vector_to_bytes(sent)
    received = vector_from_bytes(data, PUBLIC, len(values))
    assert [c.value for c in received] == [c.value for c in sent]
    assert KEY.decrypt_many(received) == values
    assert not any(c.is_fresh for c in received)


@pytest.mark.parametrize("bits", BITS)
@pytest.mark.parametrize("count", [1, 2, 127, 128])
def test_the_size_of_a_vector_is_known_from_its_count(bits: int, count: int) -> None:
    """Ahead of any key; the header grows where counts and lengths take another byte."""
    sent = vector_to_bytes([encryptor(bits).encrypt(1)] * count)
    assert vector_bytes(bits, count) == len(sent)


def test_every_element_of_a_toy_group_has_one_encoding() -> None:
    seen = set()
    for value in range(1, 713**2, 97):
        if value % 23 and value % 31:
            data = Ciphertext.unchecked(mpz(value), TOY, True).to_bytes()
            assert Ciphertext.from_bytes(data, TOY).value == value
            seen.add(data)
    assert len({len(data) for data in seen}) == 1
    assert len(seen) == sum(1 for v in range(1, 713**2, 97) if v % 23 and v % 31)


@pytest.mark.parametrize("value", [0, 713**2, 2**24 - 1, 23, 31, 713, 23 * 713])
def test_values_outside_the_group_do_not_decode(value: int) -> None:
    data = Ciphertext.unchecked(mpz(value), TOY, True).to_bytes()
    with pytest.raises(WireError, match="n\\^2"):
        Ciphertext.from_bytes(data, TOY)


def test_one_bad_entry_spoils_a_vector() -> None:
    values = [mpz(5), mpz(23), mpz(7)]
    data = vector_to_bytes([Ciphertext.unchecked(value, TOY, True) for value in values])
    with pytest.raises(WireError, match="common with n"):
        vector_from_bytes(data, TOY, 3)


def test_another_key_s_ciphertexts_do_not_decode() -> None:
    data = enc(1).to_bytes()
    with pytest.raises(WireError):
        Ciphertext.from_bytes(data, private_key(2048).public)
    toy = Ciphertext.unchecked(mpz(5), TOY, True).to_bytes()
    other = PublicKey(mpz(23 * 47), small_for_tests=True)
    with pytest.raises(WireError, match="another key"):
        Ciphertext.from_bytes(toy, other)


def test_a_vector_of_another_length_does_not_decode() -> None:
    data = vector_to_bytes(encryptor(1024).encrypt_many([1, 2]))
    for count in (1, 3):
        with pytest.raises(WireError):
            vector_from_bytes(data, PUBLIC, count)
    with pytest.raises(WireError):
        Ciphertext.from_bytes(data, PUBLIC)
    with pytest.raises(ParameterError, match="count"):
        vector_from_bytes(data, PUBLIC, 0)


def test_truncated_prolonged_and_flipped_bytes_raise_only_wire_errors() -> None:
    data = Ciphertext.unchecked(mpz(300_000), TOY, True).to_bytes()
    for changed in [*truncations(data), append(data)]:
        with pytest.raises(WireError):
            Ciphertext.from_bytes(changed, TOY)
    for changed in flips(data):
        try:
            decoded = Ciphertext.from_bytes(changed, TOY)
        except WireError:
            continue
        assert decoded.value != 300_000
        assert Ciphertext.unchecked(decoded.value, TOY, True).to_bytes() == changed


@given(st.binary(max_size=200))
def test_arbitrary_bytes_raise_only_wire_errors(data: bytes) -> None:
    start = Ciphertext.unchecked(mpz(300_000), TOY, True).to_bytes()[:20]
    for bytes_ in (data, start + data):
        with pytest.raises(WireError):
            Ciphertext.from_bytes(bytes_, TOY)
