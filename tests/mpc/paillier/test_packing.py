"""Packed plaintexts: widths, limits of plan and key, arithmetic on all slots, refusals."""

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mpc.core.errors import AbortError, ParameterError
from mpc.paillier.encrypt import Textbook
from mpc.paillier.packing import PackedVector, PackingPlan, decrypt, weighted_sum
from tests.mpc.paillier.stored_keys import encryptor, private_key, toy_key

PRIVATE, PUBLIC = private_key(1024), private_key(1024).public
PLAN = PackingPlan(max_value=100, max_factor=10, terms=4)


def encrypt(values: Any, plan: PackingPlan = PLAN) -> PackedVector:
    return plan.encrypt(values, encryptor(1024))


@given(st.integers(1, 2**70), st.integers(1, 2**30), st.integers(1, 5000), st.integers(0, 9))
def test_a_slot_takes_value_factor_terms_sign_and_guard(
    value: int, factor: int, terms: int, guard: int
) -> None:
    plan = PackingPlan(value, factor, terms, guard)
    parts = value.bit_length() + factor.bit_length() + math.ceil(math.log2(terms))
    assert plan.slot_bits <= parts + 1 + guard
    assert plan.limit < 2 ** (plan.slot_bits - 1 - guard) <= 2 * plan.limit
    whole = PackingPlan(2**20 - 1, 2**21, 1000, guard)
    assert whole.slot_bits == 20 + 21 + 10 + 1 + guard


@pytest.mark.parametrize("guard_bits", [0, 1, 5])
def test_the_limits_of_plan_and_key_are_reached_in_every_slot(guard_bits: int) -> None:
    plan = PackingPlan(100, 10, 4, guard_bits)
    count = 3 * plan.capacity(PUBLIC)
    assert plan.plaintexts(PUBLIC, count) == 3
    for signs in (np.ones(count), -np.ones(count), 1 - 2 * (np.arange(count) % 2)):
        values = (100 * signs).astype(np.int64)
        total = encrypt(values, plan) * 10
        for _ in range(plan.terms - 1):
            total = total + encrypt(values, plan) * 10
        assert total.bound == plan.limit == 4000
        assert (decrypt(PRIVATE, total) == 40 * values).all()
        assert (decrypt(PRIVATE, -total) == -40 * values).all()


def test_the_planned_number_of_terms_is_taken_and_one_more_is_refused() -> None:
    plan = PackingPlan(max_value=7, terms=1000)
    vector = encrypt([7, -7, 0], plan)
    total = vector
    for _ in range(999):
        total = total + vector
    assert decrypt(PRIVATE, total).tolist() == [7000, -7000, 0]
    with pytest.raises(ParameterError, match="slots of this plan could be 1 bits short"):
        total + vector
    with pytest.raises(ParameterError, match="larger than the plan has room for"):
        total + 1


def test_the_largest_factor_is_taken_and_a_larger_one_is_refused() -> None:
    plan = PackingPlan(max_value=2**20, max_factor=1000)
    vector = encrypt([2**20, -(2**20)], plan)
    assert decrypt(PRIVATE, vector * -1000).tolist() == [-1000 * 2**20, 1000 * 2**20]
    for factor in (1001, -1001, 2**2000):
        with pytest.raises(ParameterError, match=r"plan for more terms or larger factors"):
            vector * factor


def test_without_the_account_one_more_term_spoils_the_slot_above() -> None:
    def unchecked(factor: int, guard_bits: int) -> list[int]:
        plan = PackingPlan(max_value=1, guard_bits=guard_bits)
        ciphertext = encrypt([1, 1, 0], plan).ciphertexts[0] * factor
        numbers: list[int] = plan.unpack(PUBLIC, [PRIVATE.decrypt(ciphertext)], 3, 1).tolist()
        return numbers

    assert unchecked(1, guard_bits=0) == [1, 1, 0]
    assert unchecked(3, guard_bits=0) == [-1, 0, 1]
    for factor in (2, 3, 6):  # what guard bits are for
        with pytest.raises(AbortError):
            unchecked(factor, guard_bits=2)


OPERATIONS = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(["add", "subtract"]), st.lists(st.integers(-100, 100))),
        st.tuples(st.just("add plain"), st.lists(st.integers(-500, 500))),
        st.tuples(st.sampled_from(["add all", "from all"]), st.integers(-500, 500)),
        st.tuples(st.just("times"), st.integers(-9, 9)),
    ),
    max_size=10,
)


@given(st.lists(st.integers(-100, 100), min_size=1, max_size=200), OPERATIONS)
def test_any_history_is_that_of_the_plain_vectors_or_refused(
    first: list[int], steps: list[tuple[str, Any]]
) -> None:
    vector, exact = encrypt(first), np.array(first)
    bound = 100
    for kind, operand in steps:
        if isinstance(operand, list):
            other = np.resize(np.array(operand or [0]), len(first))
            largest = 100 if kind in ("add", "subtract") else int(np.abs(other).max())
        else:
            other, largest = operand, abs(operand)
        new = bound * largest if kind == "times" else bound + largest
        try:
            if kind == "add":
                result, plain = vector + encrypt(other), exact + other
            elif kind == "subtract":
                result, plain = vector - encrypt(other), exact - other
            elif kind == "times":
                result, plain = other * vector, other * exact
            elif kind == "from all":
                result, plain = other - vector, other - exact
            else:
                result, plain = other + vector, exact + other
        except ParameterError:
            assert new > PLAN.limit
            continue
        assert new <= PLAN.limit
        vector, exact, bound = result, plain, new
    assert vector.bound == bound
    assert decrypt(PRIVATE, vector).tolist() == exact.tolist()


def test_plain_arrays_are_subtracted_entry_by_entry() -> None:
    vector = encrypt([1, 2, 3])
    assert decrypt(PRIVATE, vector - np.array([3, 2, 1])).tolist() == [-2, 0, 2]
    assert decrypt(PRIVATE, np.array([3, 2, 1]) - vector).tolist() == [2, 0, -2]
    assert decrypt(PRIVATE, np.int64(2) * vector).tolist() == [2, 4, 6]
    assert decrypt(PRIVATE, vector - [1, 1, 1]).tolist() == [0, 1, 2]


def test_a_weighted_sum_is_that_of_the_plain_vectors() -> None:
    table = np.arange(600).reshape(4, 150) % 201 - 100
    factors = [10, -10, 0, 7]
    vectors = [encrypt(row) for row in table]
    total = weighted_sum(vectors, factors)
    assert total.bound == 2700
    assert (decrypt(PRIVATE, total) == factors @ table).all()
    full = weighted_sum(vectors, np.array([10, -10, 10, 10]))  # type: ignore[arg-type]
    assert full.bound == PLAN.limit
    with pytest.raises(ParameterError, match="slots of this plan"):
        weighted_sum(vectors, [10, -10, 10, 11])
    with pytest.raises(ParameterError, match="4 vectors and 3 factors"):
        weighted_sum(vectors, [1, 2, 3])
    with pytest.raises(ParameterError, match="one plan and one length"):
        weighted_sum([vectors[0], encrypt([1])], [1, 1])


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int32, np.int64, np.uint64, object])
def test_every_dtype_of_integers_packs_alike(dtype: Any) -> None:
    values = np.array([0, 1, 100, 77], dtype=dtype)
    assert PLAN.pack(PUBLIC, values) == PLAN.pack(PUBLIC, [0, 1, 100, 77])
    assert decrypt(PRIVATE, encrypt(values)).dtype == np.int64


@pytest.mark.parametrize("largest", [2**62, 2**63 - 1, 2**63, 2**100])
def test_values_of_a_word_and_beyond(largest: int) -> None:
    plan = PackingPlan(largest, 3)
    values = [largest, -largest, 0, largest - 1, 5]
    numbers = decrypt(PRIVATE, encrypt(values, plan) * -3)
    assert numbers.tolist() == [-3 * value for value in values]
    fresh = decrypt(PRIVATE, encrypt(values, plan))
    assert fresh.tolist() == values
    assert fresh.dtype == (np.int64 if largest < 2**63 else object)


def test_a_hundred_thousand_values() -> None:
    values = (np.arange(100_000) * 2_654_435_761 % 2**21 - 2**20).astype(np.int64)
    plan = PackingPlan(2**20, 2**21, 1000)
    packed = plan.pack(PUBLIC, values)
    assert len(packed) == plan.plaintexts(PUBLIC, 100_000) == 5264
    scaled = [-(2**21) * 1000 * plaintext for plaintext in packed]
    assert max(map(abs, scaled)) <= PUBLIC.max_plaintext
    unpacked = plan.unpack(PUBLIC, scaled, 100_000, plan.limit)
    assert (unpacked == -(2**21) * 1000 * values).all()


FIXED = PackingPlan(max_value=2**20, max_factor=8, terms=2, frac_bits=10)


@given(st.lists(st.floats(-1024, 1024) | st.integers(-1024, 1024), min_size=1, max_size=70))
def test_fractions_are_off_by_half_a_step_at_most(values: list[float]) -> None:
    packed = FIXED.pack(PUBLIC, values)
    assert packed == FIXED.pack(PUBLIC, np.array(values, dtype=np.float64))
    numbers = FIXED.unpack(PUBLIC, packed, len(values), FIXED.max_value)
    assert numbers.dtype == np.float64
    assert np.abs(numbers - values).max() <= 2.0**-11
    total = (encrypt(values, FIXED) - 0.5) * -3
    assert np.abs(decrypt(PRIVATE, total) + 3 * (np.array(values) - 0.5)).max() <= 3 * 2.0**-11


def test_fractions_of_every_type() -> None:
    values = [0.5, -1.25, 3, Fraction(1, 3), np.float32(2.5)]
    expected = [0.5, -1.25, 3, 341 / 1024, 2.5]
    assert decrypt(PRIVATE, encrypt(values, FIXED)).tolist() == expected
    assert decrypt(PRIVATE, encrypt(np.array([3, -4]), FIXED)).tolist() == [3, -4]
    assert decrypt(PRIVATE, encrypt(np.array([0.5], np.float16), FIXED)).tolist() == [0.5]
    wide = PackingPlan(max_value=2**80, frac_bits=40)
    assert decrypt(PRIVATE, encrypt([2.0**40, -0.75], wide)).tolist() == [2.0**40, -0.75]


@pytest.mark.parametrize(
    ("values", "refusal"),
    [
        ([1, 101], r"values\[1\] is larger"),
        ([-101], r"values\[0\] is larger"),
        (np.array([1, 2, 2**63], np.uint64), r"values\[2\] is larger"),
        (np.array([-(2**63)]), r"values\[0\] is larger"),
        ([2**200], r"values\[0\] is larger"),
        ([1, 0.5], r"values\[1\] is not an integer"),
        ([1, 2.0], r"values\[1\] is not an integer"),
        (np.array([1.0]), r"values\[0\] is not an integer"),
        ([True], r"values\[0\] is a boolean"),
        (np.array([1, 0], bool), r"values\[0\] is a boolean"),
        (["1"], r"values\[0\] must be a real number"),
        ([[1, 2]], "one dimension"),
        (3, "one dimension"),
        ([], "count must lie in"),
    ],
)
def test_values_outside_the_plan_are_refused_by_their_index(values: Any, refusal: str) -> None:
    with pytest.raises(ParameterError, match=refusal):
        encrypt(values)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf, 1024.1, 1e300])
def test_fractions_outside_the_plan_are_refused_by_their_index(bad: float) -> None:
    for values in ([0.0, bad], np.array([0.0, bad]), [1, bad]):
        with pytest.raises(ParameterError, match=r"values\[1\] is (larger|not finite)") as caught:
            encrypt(values, FIXED)
        assert "1024.1" not in str(caught.value)


def test_a_plaintext_that_left_the_plan_is_no_result() -> None:
    slot = 2**PLAN.slot_bits
    for plaintext in (
        4001,
        -4001,
        4001 * slot,
        slot ** PLAN.capacity(PUBLIC),
        -PUBLIC.max_plaintext,
    ):
        with pytest.raises(AbortError):
            PLAN.unpack(PUBLIC, [plaintext], 2, PLAN.limit)
    assert PLAN.unpack(PUBLIC, [4000 - 4000 * slot], 2, PLAN.limit).tolist() == [4000, -4000]
    with pytest.raises(AbortError, match="exceeds the bound"):
        PLAN.unpack(PUBLIC, [101], 1, 100)
    forged = PackedVector(PLAN, 1, encrypt([100]).ciphertexts, 99)
    with pytest.raises(AbortError):
        decrypt(PRIVATE, forged)


def test_operands_must_match() -> None:
    vector = encrypt([1, 2, 3])
    with pytest.raises(ParameterError, match="one plan and one length"):
        vector + encrypt([1, 2])
    with pytest.raises(ParameterError, match="one plan and one length"):
        vector + encrypt([1, 2, 3], PackingPlan(100, 10, 5))
    foreign = PackingPlan(1).encrypt([1], Textbook(toy_key().public))
    with pytest.raises(ParameterError, match="different keys"):
        encrypt([1]) + foreign
    with pytest.raises(ParameterError, match="must have 3 entries"):
        vector + np.array([1, 2])
    with pytest.raises(ParameterError, match="factor must be an integer"):
        vector * 0.5  # type: ignore[operator]
    with pytest.raises(ParameterError, match="not an integer"):
        vector + 0.5
    with pytest.raises(ParameterError, match="2 ciphertexts do not hold 3 values"):
        PackedVector(PLAN, 3, vector.ciphertexts * 2, 100)
    with pytest.raises(ParameterError, match="bound must lie in"):
        PackedVector(PLAN, 3, vector.ciphertexts, PLAN.limit + 1)
    with pytest.raises(ParameterError, match="3 values take 1 plaintexts, got 2"):
        PLAN.unpack(PUBLIC, [0, 0], 3, 100)


def test_results_are_not_fresh_until_they_are_rerandomised() -> None:
    vector = encrypt(np.arange(100)) * 2
    assert not any(ciphertext.is_fresh for ciphertext in vector.ciphertexts)
    fresh = vector.rerandomised(encryptor(1024))
    assert all(ciphertext.is_fresh for ciphertext in fresh.ciphertexts)
    assert (decrypt(PRIVATE, fresh) == 2 * np.arange(100)).all()


@pytest.mark.parametrize(
    "fields",
    [
        {"max_value": 0},
        {"max_value": 1.5},
        {"max_value": 1, "max_factor": 0},
        {"max_value": 1, "terms": 0},
        {"max_value": 1, "guard_bits": -1},
        {"max_value": 1, "frac_bits": 64},
        {"max_value": True},
    ],
)
def test_a_plan_holds_positive_integers(fields: dict[str, Any]) -> None:
    with pytest.raises(ParameterError, match="must"):
        PackingPlan(**fields)


def test_a_slot_must_fit_the_key() -> None:
    assert PackingPlan(2**1021 - 1, guard_bits=0).capacity(PUBLIC) == 1
    with pytest.raises(ParameterError, match="a slot takes 1024 bits, a plaintext has 1023"):
        PackingPlan(2**1022, guard_bits=0).capacity(PUBLIC)
    assert PackingPlan(2**20 - 1, guard_bits=0).capacity(private_key(2048).public) == 97
