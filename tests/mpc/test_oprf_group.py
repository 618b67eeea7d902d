"""ristretto255 as the oblivious PRF uses it: known answers, what is no element, exact scalars."""

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mpc.core.errors import ParameterError, WireError
from mpc.core.rng import SYSTEM_RNG
from mpc.oprf_group import (
    RISTRETTO255,
    Group,
    check_elements,
    invert_all,
    is_scalar,
    random_scalars,
    sum_of,
)
from tests.mpc.oprf_groups import CountingGroup, ToyGroup
from tests.support.script import ScriptRng, explore
from tests.support.vectors import cases, load

R = RISTRETTO255
ORDER = R.order
MULTIPLES = [bytes.fromhex(encoding) for encoding in load("rfc9496")["multiples"]]
GENERATOR = MULTIPLES[1]


def scalar(number: int) -> bytes:
    return number.to_bytes(32, "little")


def number(data: bytes) -> int:
    return int.from_bytes(data, "little")


scalars = st.sampled_from([0, 1, 2, ORDER - 1]) | st.integers(0, ORDER - 1)


# --- elements


def test_multiples_of_the_generator_are_those_of_rfc_9496() -> None:
    total = R.identity
    for n, want in enumerate(MULTIPLES):
        assert R.multiply_base(scalar(n)) == R.multiply(scalar(n), GENERATOR) == total == want
        total = R.add(total, GENERATOR)


@pytest.mark.parametrize("case", cases("rfc9496", "invalid"), ids=lambda c: c["encoding"][:12])
def test_invalid_encodings_of_rfc_9496_are_refused_by_every_operation(case: dict[str, str]) -> None:
    wrong = bytes.fromhex(case["encoding"])
    operations: list[Callable[[], bytes]] = [
        lambda: R.multiply(scalar(7), wrong),
        lambda: R.multiply(scalar(0), wrong),
        lambda: R.add(wrong, GENERATOR),
        lambda: R.add(GENERATOR, wrong),
    ]
    for operation in operations:
        with pytest.raises(WireError, match="no element"):
            operation()


@pytest.mark.parametrize("case", cases("rfc9496", "uniform"), ids=lambda c: c["uniform"][:12])
def test_elements_from_uniform_bytes_are_those_of_rfc_9496(case: dict[str, str]) -> None:
    assert R.from_uniform(bytes.fromhex(case["uniform"])).hex() == case["element"]


def test_results_that_are_the_identity_are_given_and_not_refused() -> None:
    minus = R.multiply_base(scalar(ORDER - 1))
    assert R.add(GENERATOR, minus) == R.identity
    assert R.multiply(scalar(0), GENERATOR) == R.multiply(scalar(5), R.identity) == R.identity
    assert R.multiply_base(scalar(0)) == R.identity
    assert R.add(R.identity, GENERATOR) == GENERATOR


@given(scalars, scalars)
def test_multiplication_by_scalars_is_that_of_a_group(a: int, b: int) -> None:
    point = R.multiply_base(scalar(a))
    assert R.multiply(scalar(b), point) == R.multiply_base(scalar(a * b % ORDER))
    assert R.add(point, R.multiply_base(scalar(b))) == R.multiply_base(scalar((a + b) % ORDER))
    assert sum_of(R, [point, point, point]) == R.multiply(scalar(3), point)


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        (bytes(31), "31 bytes"),
        (bytes(33), "33 bytes"),
        (b"", "0 bytes"),
        (bytearray(32), "bytearray"),
        ("a" * 32, "str"),
        (None, "NoneType"),
        (bytes(32), "identity"),
    ],
)
def test_what_has_not_the_form_of_an_element_is_refused_by_its_place(wrong: Any, why: str) -> None:
    with pytest.raises(WireError, match=f"element 1 .*{why}"):
        check_elements(R, [GENERATOR, wrong])
    check_elements(R, [GENERATOR])


# --- scalars


@given(scalars, scalars)
def test_scalars_are_the_integers_modulo_the_order(a: int, b: int) -> None:
    assert number(R.scalar_multiply(scalar(a), scalar(b))) == a * b % ORDER
    assert number(R.scalar_subtract(scalar(a), scalar(b))) == (a - b) % ORDER
    if a:
        assert number(R.scalar_invert(scalar(a))) == pow(a, -1, ORDER)


@given(st.binary(min_size=64, max_size=64))
def test_64_bytes_are_reduced_as_a_little_endian_integer(data: bytes) -> None:
    assert number(R.reduce(data)) == number(data) % ORDER


@pytest.mark.parametrize(
    ("data", "right"),
    [
        (scalar(0), True),
        (scalar(ORDER - 1), True),
        (scalar(ORDER), False),
        (scalar(ORDER + 1), False),
        (b"\xff" * 32, False),
        (scalar(1)[:-1], False),
        (scalar(1) + b"\x00", False),
    ],
)
def test_a_scalar_has_one_encoding(data: bytes, right: bool) -> None:
    assert is_scalar(R, data) is right


@pytest.mark.parametrize("group", [R, ToyGroup()], ids=lambda group: group.name)
@given(data=st.data())
def test_a_batch_is_inverted_as_one_by_one(group: Group, data: st.DataObject) -> None:
    numbers = data.draw(st.lists(st.integers(1, group.order - 1), min_size=1, max_size=9))
    batch = [n.to_bytes(group.scalar_bytes, "little") for n in numbers]
    assert invert_all(group, batch) == [group.scalar_invert(one) for one in batch]


@pytest.mark.parametrize("place", range(3))
def test_zero_is_not_inverted_anywhere_in_a_batch(place: int) -> None:
    batch = [scalar(3), scalar(4), scalar(5)]
    batch[place] = scalar(0)
    with pytest.raises(ParameterError, match="zero has no inverse"):
        invert_all(R, batch)


@pytest.mark.parametrize("count", [1, 2, 100])
def test_a_batch_costs_one_inversion_and_three_products_for_each_further_scalar(count: int) -> None:
    group = CountingGroup()
    invert_all(group, [scalar(n) for n in range(1, count + 1)])
    assert group.calls["scalar_invert"] == 1
    assert group.calls["scalar_multiply"] == 3 * (count - 1)


@pytest.mark.parametrize("count", [1, 2])
def test_random_scalars_are_uniform_over_all_but_zero(count: int) -> None:
    toy = ToyGroup()
    # Two of the 32 words are refused, so three words leave a small rest for two scalars as well.
    law, rest = explore(lambda rng: tuple(random_scalars(toy, count, rng)), 32, Fraction(1, 50))
    assert len(law) == (toy.order - 1) ** count
    assert len(set(law.values())) == 1
    assert sum(law.values()) + rest == 1


def test_bits_above_the_order_are_cleared_and_refused_draws_are_drawn_again_in_their_place() -> (
    None
):
    top, good = [0xFF] * 32, [*scalar(7)]
    unmasked = [*scalar(9 + (0b101 << 253))]
    rng = ScriptRng([*top, *unmasked, *bytes(32), *scalar(ORDER), *good, *good, *scalar(ORDER - 1)])
    assert [number(s) for s in random_scalars(R, 4, rng)] == [7, 9, 7, ORDER - 1]
    assert rng.left == 0


def test_system_scalars_are_canonical_and_differ() -> None:
    drawn = random_scalars(R, 500, SYSTEM_RNG)
    assert len(set(drawn)) == 500
    assert all(is_scalar(R, one) and any(one) for one in drawn)
    assert any(number(one) >= 2**251 for one in drawn)
