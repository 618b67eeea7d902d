"""Fractions in Paillier: cases O18 and O19, the laws of the account, refusals before any wrap."""

import itertools
import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mpc.core.errors import AbortError, ParameterError
from mpc.paillier.codec import (
    Account,
    EncryptedFraction,
    FractionCodec,
    decrypt,
    decrypt_array,
)
from mpc.paillier.encrypt import Textbook
from tests.mpc.paillier.stored_keys import encryptor, private_key, toy_key

PRIVATE, PUBLIC = private_key(1024), private_key(1024).public
CODEC = FractionCodec(PUBLIC, frac_bits=32, magnitude_bits=31)


def encrypt(value: Any, codec: FractionCodec = CODEC) -> EncryptedFraction:
    return codec.encrypt(value, encryptor(1024))


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (np.int64(0), 0),
        (np.int64(-5), -5),
        (np.uint8(200), 200),
        (np.float32(0.5), 0.5),
        (np.float16(-1.5), -1.5),
    ],
)
def test_o18_numpy_scalars(value: Any, expected: float) -> None:
    assert decrypt(PRIVATE, encrypt(value)) == expected


@pytest.mark.parametrize("value", [np.bool_(True), True])
def test_o18_booleans_are_refused(value: Any) -> None:
    with pytest.raises(ParameterError, match="value is a boolean"):
        encrypt(value)


@pytest.mark.parametrize(
    "values", [np.array([1, -2, 3]), [1, -2, 3], np.array([1, -2, 3], np.float32)]
)
def test_o18_an_array_goes_entry_by_entry(values: Any) -> None:
    encrypted = CODEC.encrypt_array(values, encryptor(1024))
    assert encrypted.shape == (3,)
    assert decrypt_array(PRIVATE, encrypted).tolist() == [1, -2, 3]
    assert decrypt(PRIVATE, encrypted.sum()) == 2


def products(
    factor: Any, frac_bits: int | None = None
) -> tuple[list[EncryptedFraction], ParameterError]:
    """E(0.5) times ``factor`` again and again, a hundred times at most, and what ended it."""
    numbers = [encrypt(0.5)]
    while len(numbers) <= 100:
        try:
            numbers.append(numbers[-1].multiply(factor, frac_bits=frac_bits))
        except ParameterError as refusal:
            return numbers, refusal
    raise AssertionError("the range was never used up")


def test_o19_every_product_is_right_until_the_range_is_used_up() -> None:
    numbers, refusal = products(0.3)
    for k, number in enumerate(numbers):
        exact = Fraction(1, 2) * Fraction(0.3) ** k
        assert abs(decrypt(PRIVATE, number) - exact) <= number.account.max_error
        # The error is a part of the result, not of the unit: it shrinks with it.
        assert number.account.max_error <= exact * Fraction(1, 2**32)
    assert len(numbers) - 1 == 18
    left = [number.bits_left for number in numbers]
    assert {a - b for a, b in itertools.pairwise(left)} <= {52, 53}
    assert left[-1] < 53
    assert f"this factor takes 53 bits, and {left[-1]} bits are left" in str(refusal)


def test_o19_a_factor_of_fewer_bits_leaves_room_for_more_steps() -> None:
    numbers, refusal = products(Fraction(3, 10), frac_bits=12)
    for k, number in enumerate(numbers):
        exact = Fraction(1, 2) * Fraction(3, 10) ** k
        assert abs(decrypt(PRIVATE, number) - exact) <= number.account.max_error
    assert len(numbers) - 1 >= 80
    assert "this factor takes 11 bits" in str(refusal)


def test_o19_the_refusal_names_fractional_bits_that_still_fit() -> None:
    number = encrypt(0.5)
    while number.bits_left >= 53:
        number = number * 0.3
    with pytest.raises(ParameterError) as refused:
        number.multiply(0.3)
    fitting = int(str(refused.value).partition("frac_bits of at most ")[2].partition(",")[0])
    assert number.multiply(0.3, frac_bits=fitting).bits_left >= 0
    with pytest.raises(ParameterError, match=f"frac_bits of at most {fitting},"):
        number.multiply(0.3, frac_bits=fitting + 1)


def test_o19_without_the_account_the_refused_product_is_a_wrong_number() -> None:
    number = encrypt(2**30)
    while number.bits_left >= 53:
        number = number * 0.9
    mantissa = (number.ciphertext * int(0.9 * 2**53)) * int(0.9 * 2**53)  # the unchecked twin
    wrong = Fraction(PRIVATE.decrypt(mantissa), 2 ** (number.account.frac_bits + 106))
    true = decrypt(PRIVATE, number) * Fraction(int(0.9 * 2**53), 2**53) ** 2
    assert wrong != true


VALUES = st.integers(-(2**31), 2**31) | st.floats(-(2.0**31), 2.0**31) | st.fractions(-9, 9)


@given(VALUES)
def test_encoding_is_off_by_half_a_step_at_most(value: Any) -> None:
    error = abs(CODEC.decode(CODEC.encode(value)) - Fraction(value))
    assert error <= CODEC.account.max_error == Fraction(1, 2**33)
    assert (error == 0) == ((Fraction(value) * 2**32).denominator == 1)


@given(VALUES)
def test_the_account_of_a_fresh_number_tells_nothing_of_it(value: Any) -> None:
    assert encrypt(value).account == CODEC.account == Account(32, 2**63, 1)


def test_an_exponent_for_each_number_would_tell_its_magnitude() -> None:
    # The twin that is wrong: the exponents that floats have of themselves, as phe sends them.
    own_exponents = {math.frexp(value)[1] for value in (1e-9, 1.0, 1e9)}
    ours = {encrypt(value).account.frac_bits for value in (1e-9, 1.0, 1e9)}
    assert len(own_exponents) == 3
    assert len(ours) == 1


# Twelve of these, at 60 bits each at most, never use up the range.
FACTORS = st.integers(-(10**6), 10**6) | st.floats(-100, 100).map(lambda x: round(x, 6))
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("add"), VALUES),
        st.tuples(st.just("add plain"), VALUES),
        st.tuples(st.just("subtract"), VALUES),
        st.tuples(st.just("subtract plain"), VALUES),
        st.tuples(st.just("from plain"), VALUES),
        st.tuples(st.just("negate"), st.just(0)),
        st.tuples(st.just("times"), FACTORS),
        st.tuples(st.just("about"), st.fractions(-50, 50)),
    ),
    max_size=12,
)


@given(VALUES, STEPS)
def test_any_history_keeps_value_bound_and_error(first: Any, steps: list[tuple[str, Any]]) -> None:
    number, exact = encrypt(first), Fraction(first)
    for kind, operand in steps:
        other = Fraction(operand)
        if kind == "add":
            number, exact = number + encrypt(operand), exact + other
        elif kind == "add plain":
            number, exact = operand + number, exact + other
        elif kind == "subtract":
            number, exact = number - encrypt(operand), exact - other
        elif kind == "subtract plain":
            number, exact = number - operand, exact - other
        elif kind == "from plain":
            number, exact = operand - number, other - exact
        elif kind == "negate":
            number, exact = -number, -exact
        elif kind == "times":
            number, exact = operand * number, exact * other
        else:
            number, exact = number.multiply(operand, frac_bits=10), exact * other
    account = number.account
    opened = decrypt(PRIVATE, number)
    assert abs(opened) <= account.magnitude
    assert abs(opened - exact) <= account.max_error
    assert account.bound * 2 ** account.bits_left(PUBLIC) <= PUBLIC.max_plaintext


@given(st.integers(1, 2**40), st.integers(1, 2**40))
def test_a_sum_is_refused_exactly_where_its_bound_leaves_the_space(a: int, b: int) -> None:
    top = PUBLIC.max_plaintext
    near = encrypt(0).declare(Account(32, top - a, 1))
    other = encrypt(0, FractionCodec(PUBLIC, 32, -32)).declare(Account(32, b, 1))
    if b <= a:
        assert (near + other).account.bound == top - a + b
    else:
        with pytest.raises(ParameterError, match="this sum could leave the plaintext space"):
            near + other


def test_products_with_integers_use_the_last_bit_of_the_space() -> None:
    codec = FractionCodec(PUBLIC, 0, 8)
    largest = PUBLIC.max_plaintext // 2**8
    assert decrypt(PRIVATE, encrypt(-256, codec) * largest) == -256 * largest
    with pytest.raises(ParameterError, match=r"bits are left .*decrypt and encrypt anew"):
        encrypt(0, codec) * (largest + 1)


def test_a_factor_zero_uses_no_bits() -> None:
    number = encrypt(3) * 0
    assert decrypt(PRIVATE, number) == 0
    assert number.account.bound == 1
    assert decrypt(PRIVATE, number + 5) == 5
    assert decrypt(PRIVATE, number * 2**900 + 2.0**-32) == Fraction(1, 2**32)
    with pytest.raises(ParameterError, match="bits are left"):
        number * 2**1100


def test_numbers_of_different_exponents_are_aligned() -> None:
    coarse = encrypt(2.5, FractionCodec(PUBLIC, 4, 8))
    total = coarse + encrypt(0.125)
    assert total.account.frac_bits == 32
    assert decrypt(PRIVATE, total) == 2.625
    assert decrypt(PRIVATE, coarse - encrypt(0.125)) == 2.375


def test_a_declared_account_is_all_that_a_product_shows() -> None:
    agreed = Account(64, 2**110, 2**70)
    declared = {(encrypt(0.75) * factor).declare(agreed).account for factor in (2, 0.5, 1000.25)}
    own = {(encrypt(0.75) * factor).account for factor in (2, 0.5, 1000.25)}
    assert declared == {agreed}
    assert len(own) == 3
    assert decrypt(PRIVATE, (encrypt(0.75) * 1000.25).declare(agreed)) == 750.1875


@pytest.mark.parametrize(
    ("account", "refusal"),
    [
        (Account(31, 2**100, 2**70), "at least 32 fractional bits"),
        (Account(32, 2**63 - 1, 1), "must bound the number and its error"),
        (Account(33, 2**64, 1), "must bound the number and its error"),
        (Account(32, 2**1100, 1), "this account could leave the plaintext space"),
    ],
)
def test_a_declared_account_must_be_wider(account: Account, refusal: str) -> None:
    with pytest.raises(ParameterError, match=refusal):
        encrypt(1).declare(account)


def test_results_are_not_fresh_until_they_are_rerandomised() -> None:
    number = encrypt(1)
    assert number.ciphertext.is_fresh
    product = number * 0.5
    assert not product.ciphertext.is_fresh
    fresh = product.rerandomised(encryptor(1024))
    assert fresh.ciphertext.is_fresh
    assert fresh.account == product.account
    assert decrypt(PRIVATE, fresh) == 0.5


def test_arrays_work_entry_by_entry() -> None:
    values = np.array([[1.5, -2.25], [0.0, 1e6]])
    encrypted = CODEC.encrypt_array(values, encryptor(1024))
    doubled = (2 * encrypted + values) * np.float64(0.5) - encrypted[0, 0]
    assert (decrypt_array(PRIVATE, doubled).astype(float) == 1.5 * values - 1.5).all()
    assert decrypt_array(PRIVATE, encrypted[0, 0] - encrypted).tolist() == (1.5 - values).tolist()
    assert decrypt(PRIVATE, (encrypted * values).sum()) == (values**2).sum()
    assert CODEC.encrypt_array(np.zeros((0, 2)), encryptor(1024)).shape == (0, 2)
    assert CODEC.encrypt_array(2.5, encryptor(1024)).shape == ()


def test_a_number_outside_its_account_is_no_result() -> None:
    forged = EncryptedFraction(encryptor(1024).encrypt(2**63 + 1), CODEC.account)
    with pytest.raises(AbortError, match="outside the bound"):
        decrypt(PRIVATE, forged)
    with pytest.raises(AbortError, match="outside the bound"):
        decrypt_array(PRIVATE, [encrypt(1), forged])


@pytest.mark.parametrize("value", [math.nan, math.inf, np.float32("-inf")])
def test_nan_and_infinities_are_refused(value: Any) -> None:
    number = encrypt(1)
    for call in (CODEC.encode, number.__add__, number.__sub__, number.__mul__, number.__rsub__):
        with pytest.raises(ParameterError, match="is not finite"):
            call(value)


@pytest.mark.parametrize(
    ("value", "missing"), [(2**31 + 1, 1), (-(2.0**32) - 1, 2), (2**40, 9), (1e30, 69)]
)
def test_a_value_out_of_range_is_refused_with_the_bits_that_lack(value: Any, missing: int) -> None:
    with pytest.raises(ParameterError, match=f"{missing} more magnitude_bits are needed") as caught:
        encrypt(value)
    assert str(value) not in str(caught.value)
    wider = FractionCodec(PUBLIC, 32, 31 + missing)
    assert wider.decode(wider.encode(value)) == Fraction(value)
    with pytest.raises(ParameterError):
        FractionCodec(PUBLIC, 32, 30 + missing).encode(value)


def test_a_refused_entry_of_an_array_is_named_by_its_index() -> None:
    with pytest.raises(ParameterError, match=r"^values\[1, 0\] is not finite"):
        CODEC.encode_array([[1.0, 2.0], [math.nan, 3.0]])
    with pytest.raises(ParameterError, match=r"^values\[2\] lies outside"):
        CODEC.encode_array([1, 2, 2**40])
    with pytest.raises(ParameterError, match="is a boolean"):
        CODEC.encode_array(np.array([True]))


def test_the_ends_of_the_range_are_taken() -> None:
    assert decrypt_array(
        PRIVATE, CODEC.encrypt_array([2**31, -(2**31), 2.0**-32], encryptor(1024))
    ).tolist() == [2**31, -(2**31), Fraction(1, 2**32)]
    whole = FractionCodec(PUBLIC, 5, PUBLIC.max_plaintext.bit_length() - 6)
    top = 2**whole.magnitude_bits
    assert decrypt(PRIVATE, encrypt(-top, whole)) == -top
    assert encrypt(top, whole).bits_left == 0


@pytest.mark.parametrize(
    ("frac_bits", "magnitude_bits"), [(-1, 3), (32, -33), (1000, 23), (0, 2000), (2**17, 1)]
)
def test_a_codec_must_fit_the_key(frac_bits: int, magnitude_bits: int) -> None:
    with pytest.raises(ParameterError, match="bits"):
        FractionCodec(PUBLIC, frac_bits, magnitude_bits)


def test_a_fraction_without_an_end_needs_frac_bits() -> None:
    with pytest.raises(ParameterError, match="without an end in base two"):
        encrypt(3) * Fraction(1, 3)
    third = encrypt(3).multiply(Fraction(1, 3), frac_bits=40)
    assert abs(decrypt(PRIVATE, third) - 1) <= third.account.max_error < Fraction(1, 2**9)


def test_keys_must_agree() -> None:
    other = Textbook(toy_key().public)
    with pytest.raises(ParameterError, match="key is not the codec's"):
        CODEC.encrypt(1, other)
    foreign = FractionCodec(other.public, 2, 3).encrypt(1, other)
    with pytest.raises(ParameterError):
        encrypt(1) + foreign
    with pytest.raises(ParameterError, match="another key"):
        decrypt(PRIVATE, foreign)


@pytest.mark.parametrize("factor", ["2", None, 1j, True, [1]])
def test_what_is_no_number_is_refused_as_an_operand(factor: Any) -> None:
    number = encrypt(1)
    for operation in (number.__mul__, number.__add__, number.__rsub__, number.multiply):
        with pytest.raises(ParameterError, match=r"a (factor|summand) (must be|is a boolean)"):
            operation(factor)
    with pytest.raises(ParameterError, match="a factor must be a real number"):
        encrypt(1).multiply(encrypt(2))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "fields", [(-1, 1, 1), (0, 0, 0), (0, 1, -1), (0, 1.5, 0), (0, True, 0), (2**17, 1, 1)]
)
def test_an_account_holds_integers_of_its_ranges(fields: tuple[Any, Any, Any]) -> None:
    with pytest.raises(ParameterError):
        Account(*fields)
