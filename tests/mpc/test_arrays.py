"""Shared arrays against numpy, within the stated error; refusals that name the missing bits."""

import operator
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst
from numpy.typing import NDArray

from mpc.arrays import Engine, SharedArray
from mpc.core.errors import ParameterError
from mpc.core.local import LocalNetwork
from mpc.core.ring import Ring
from mpc.fixed import FixedPoint
from mpc.supply import Item, LocalDealer, Shares

F = 16
UNIT = 2.0**-F
MAGNITUDE = 8.0
numbers = st.floats(-MAGNITUDE, MAGNITUDE, width=32)
Array = NDArray[np.float64]


class Counted(LocalDealer):
    """A dealer that counts what is asked for."""

    def __init__(self, n: int, ring: Ring) -> None:
        super().__init__(n, ring)
        self.taken: list[str] = []

    def take(self, item: Item) -> Shares:
        self.taken.append(type(item).__name__)
        return super().take(item)


def engine(n: int = 3, bits: int = 64, frac_bits: int = F) -> Engine:
    fixed = FixedPoint(Ring(bits), frac_bits)
    return Engine(n, fixed, supply=Counted(n, fixed.ring))


def taken(e: Engine) -> list[str]:
    assert isinstance(e.supply, Counted)
    items, e.supply.taken = e.supply.taken, []
    return items


def arrays(shape: Any) -> st.SearchStrategy[Array]:
    return npst.arrays(np.float64, shape, elements=numbers)


def close(result: Array, expected: Any, error: Any) -> bool:
    """Whether all numbers are within ``error``, and the shapes are equal."""
    assert result.shape == np.shape(expected)
    # A hundredth of a unit for numpy's own rounding of the expected numbers.
    return bool(np.all(np.abs(result - expected) <= error + UNIT / 100))


broadcast = npst.mutually_broadcastable_shapes(num_shapes=2, max_dims=3, max_side=3, min_side=0)


@given(data=st.data(), shapes=broadcast, n=st.integers(2, 4))
def test_sums_differences_and_products_broadcast_as_numpy_does(
    data: st.DataObject, shapes: Any, n: int
) -> None:
    x, y = (data.draw(arrays(shape)) for shape in shapes.input_shapes)
    e = engine(n)
    own_x, own_y = e.share(x, magnitude=MAGNITUDE), e.share(y, magnitude=MAGNITUDE)
    assert close(e.open(own_x + own_y), x + y, UNIT)
    assert close(e.open(own_x - own_y), x - y, UNIT)
    assert taken(e) == []
    # Half a unit of either factor times the other, and the truncation.
    error = UNIT / 2 * (np.abs(x) + np.abs(y) + UNIT) + UNIT
    assert close(e.open(own_x * own_y), x * y, error)
    assert taken(e) == ["Product", "Truncation"]


@given(data=st.data(), shapes=broadcast)
def test_public_operands_on_either_side_take_no_triple(data: st.DataObject, shapes: Any) -> None:
    x, y = (data.draw(arrays(shape)) for shape in shapes.input_shapes)
    e = engine()
    own = e.share(x, magnitude=MAGNITUDE)
    assert close(e.open(own + y), x + y, UNIT)
    assert close(e.open(y + own), x + y, UNIT)
    assert close(e.open(own - y), x - y, UNIT)
    assert close(e.open(y - own), y - x, UNIT)
    error = UNIT / 2 * (np.abs(x) + np.abs(y) + UNIT) + UNIT
    assert close(e.open(own * y), x * y, error)
    assert close(e.open(y * own), x * y, error)
    assert set(taken(e)) <= {"Truncation"}


MATRICES = [((2, 3), (3, 4)), ((3,), (3,)), ((3,), (3, 2)), ((2, 3), (3,)), ((2, 1, 3), (3, 2))]


@pytest.mark.parametrize(("left", "right"), [*MATRICES, ((2, 0), (0, 2)), ((0, 2), (2, 3))])
@given(data=st.data())
def test_a_matrix_product_has_one_truncation_for_each_sum(
    data: st.DataObject, left: tuple[int, ...], right: tuple[int, ...]
) -> None:
    x, y = data.draw(arrays(left)), data.draw(arrays(right))
    e = engine()
    own_x, own_y = e.share(x, magnitude=MAGNITUDE), e.share(y, magnitude=MAGNITUDE)
    error = UNIT / 2 * (np.abs(x) @ np.ones(right) + np.ones(left) @ np.abs(y) + UNIT) + UNIT
    result = own_x @ own_y
    assert taken(e) == ["MatrixProduct", "Truncation"]
    assert close(e.open(result), x @ y, error)
    assert close(e.open(own_x @ y), x @ y, error)
    assert close(e.open(x @ own_y), x @ y, error)
    assert set(taken(e)) <= {"Truncation"}


def test_a_dot_product_of_thousands_is_off_by_one_unit_and_what_its_factors_are() -> None:
    e, terms = engine(), 4096
    x = np.resize([1.5, -0.25, 3.0], terms)  # all exact
    own = e.share(x, magnitude=4)
    assert close(e.open(own @ own), x @ x, UNIT)
    assert e.network.bytes < 3 * 2 * (2 * 8 * terms + 200)  # the sum alone is truncated


@given(x=arrays((3, 4)), axis=st.sampled_from([None, 0, 1, -1, (0, 1), (), (1,)]))
def test_sums_squares_and_means(x: Array, axis: Any) -> None:
    e = engine()
    own = e.share(x, magnitude=MAGNITUDE)
    terms = 12 if axis is None else int(np.prod([x.shape[a] for a in np.atleast_1d(axis)] or [1]))
    assert close(e.open(own.sum(axis)), x.sum(axis), terms * UNIT / 2)
    assert taken(e) == []
    assert close(e.open(own.square()), x * x, UNIT * (np.abs(x) + UNIT) + UNIT)
    assert taken(e) == ["Square", "Truncation"]
    assert close(e.open(own.mean(axis)), x.mean(axis), UNIT / 2 + UNIT)
    assert set(taken(e)) <= {"Truncation"}


def test_the_mean_of_a_million_is_as_good_as_that_of_ten() -> None:
    """Its factor has as many fractional bits as there is room for, not those of the numbers."""
    e = engine()
    x = np.resize([7.5, -2.25, 1.0], 1_000_001)
    assert close(e.open(e.share(x, magnitude=MAGNITUDE).mean()), x.mean(), UNIT)


@pytest.mark.parametrize("factor", [0.001, 1 / 3, -1e-6, 1e-30, 0.1])
def test_a_small_public_factor_keeps_its_digits(factor: float) -> None:
    e = engine()
    x = np.array([8.0, -7.9, 0.5])
    assert close(e.open(e.share(x, magnitude=MAGNITUDE) * factor), x * factor, UNIT)
    assert close(e.open(e.share(x, magnitude=MAGNITUDE) / (1 / factor)), x * factor, UNIT)


@pytest.mark.parametrize(("factor", "openings"), [(2, 0), (2.0, 0), (-3, 0), (0.0, 0), (0.5, 1)])
def test_whole_factors_take_no_message_and_are_exact(factor: float, openings: int) -> None:
    e = engine()
    x = np.array([1.25, -3.5])
    result = e.share(x) * factor
    assert e.network.round == openings
    assert np.array_equal(e.open(result), x * factor)


@given(x=arrays((2, 3)))
def test_indexing_reshaping_and_turning_are_those_of_numpy(x: Array) -> None:
    e = engine()
    own = e.share(x)
    exact = e.open(own)
    keys: list[Any] = [0, (1, 2), slice(1), (..., 0), (None, 1), [1, 0], ([0, 1], [2, 0])]
    keys += [(slice(None), [0, 2]), exact > 0, (slice(None), None, [1])]
    for key in keys:
        assert np.array_equal(e.open(own[key]), exact[key])
    cube = own.reshape(1, 2, 3, 1)
    key = ([0], slice(None), [2, 0, 1])  # whose axes numpy puts first
    assert np.array_equal(e.open(cube[key]), exact.reshape(1, 2, 3, 1)[key])
    assert np.array_equal(e.open(own.reshape(3, -1)), exact.reshape(3, -1))
    assert np.array_equal(e.open(own.T), exact.T)
    assert np.array_equal(e.open(cube.T), exact.reshape(1, 2, 3, 1).T)
    assert np.array_equal(e.open(-own), -exact)
    assert (+own, own.shape, own.ndim, own.size, len(own)) == (own, (2, 3), 2, 6, 2)


def test_numbers_without_an_axis_and_arrays_without_numbers() -> None:
    e = engine()
    one, none = e.share(1.5), e.share(np.zeros((0, 3)))
    assert e.open(one * one + 1 - one.square()).tolist() == 1.0
    assert e.open(one.sum()).tolist() == e.open(one.mean()).tolist() == 1.5
    assert e.open(none * 0.3 + none.square() - none * none).shape == (0, 3)
    assert e.open(none.sum(0)).tolist() == [0, 0, 0]
    assert e.open(none.sum()).tolist() == 0
    assert e.open(none.T @ none).tolist() == [[0] * 3] * 3
    with pytest.raises(ParameterError, match="mean of no numbers"):
        none.mean(0)
    with pytest.raises(TypeError):
        len(one)


# Fractional bits.
def test_integers_and_fractions_mix() -> None:
    e = engine()
    whole, parts = e.share([1, 2, -3], frac_bits=0), e.share([0.5, 1.25, 2.0])
    assert whole.frac_bits == 0
    for result, expected in (
        (whole + parts, [1.5, 3.25, -1.0]),
        (parts - whole, [-0.5, -0.75, 5.0]),
        (whole * parts, [0.5, 2.5, -6.0]),
        (whole + 0.75, [1.75, 2.75, -2.25]),
        (0.75 - whole, [-0.25, -1.25, 3.75]),
        (whole * 0.5, [0.5, 1.0, -1.5]),
        (whole * 3 + 1, [4, 7, -8]),
        (whole * whole, [1, 4, 9]),
        (whole / 4, [0.25, 0.5, -0.75]),
        (whole.mean(), 0.0),
    ):
        assert np.abs(e.open(result) - expected).max() <= UNIT
    assert (whole * whole).frac_bits == (whole * 3 + 1).frac_bits == 0
    assert e.open(whole @ parts).tolist() == 0.5 + 2.5 - 6


def test_integers_are_exact_and_take_one_opening() -> None:
    e = engine()
    x = np.array([2**30 - 1, -(2**30)])
    own = e.share(x, frac_bits=0)
    product = own * own
    assert e.network.round == 1
    assert e.open(product).tolist() == (x * x).tolist()


# Cases.
def test_case_o02_a_the_ring_is_too_small_for_the_precision() -> None:
    e = engine(frac_bits=32)
    with pytest.raises(ParameterError, match="68 bits, 4 more than Z_2\\^64 has"):
        e.share(1.5) * e.share(2.0)
    assert e.network.messages == 0
    fits = engine(frac_bits=30)
    assert fits.open(fits.share(1.5) * fits.share(2.0)).tolist() == 3.0


O03: list[Any] = [
    [0.5, -0.5, 0.99999, -0.99999],
    np.array([0.5, -0.5, 0.99999, -0.99999]),
    np.array([0.5, -0.5, 0.99999, -0.99999], dtype=np.float32),
]


@pytest.mark.parametrize("values", O03)
def test_case_o03_every_input_type_is_rounded_alike(values: Any) -> None:
    e, expected = engine(), np.array([32768, -32768, 65535, -65535]) / 65536
    assert np.array_equal(e.open(e.share(values)), expected)
    assert np.array_equal(e.open(e.share(np.zeros(4)) + values), expected)
    for value, number in zip(values, expected, strict=True):
        assert e.open(e.share(float(value))) == number
        assert e.open(e.share(np.asarray(value))) == number


def test_case_o03_integers_by_type_are_the_same_numbers() -> None:
    e = engine()
    for values in ([1, -2], np.array([1, -2], np.int8), np.array([1.0, -2.0]), [1.0, -2]):
        assert e.open(e.share(values)).tolist() == [1, -2]
        assert e.open(e.share([0.5, 0.25]) * values).tolist() == [0.5, -0.5]
        assert e.open(e.share([0.5, 0.25]) + values).tolist() == [1.5, -1.75]


def test_case_o04_a_any_number_of_parties() -> None:
    for n in range(2, 65):
        e = engine(n)
        for value in (1.5, -1.5):
            assert e.open(e.share(np.full(50, value))).tolist() == [value] * 50


def test_case_o04_b_machine_integers_of_any_type_stay_exact() -> None:
    e = engine()
    big = e.share([2**62 - 1, -(2**62)], frac_bits=0)
    summands: list[Any] = [1, np.int64(1), np.uint64(1), np.array([1, 1], np.uint8), True]
    for one in summands:
        for result, expected in (
            (big + one, [2**62, 1 - 2**62]),
            (big - one, [2**62 - 2, -1 - 2**62]),
        ):
            assert result.shares.dtype == np.uint64
            opened = e.fixed.ring.sum(result.shares, axis=0)
            assert e.fixed.ring.signed(opened).tolist() == expected
    unsigned = np.array([3, 200], np.uint8)
    assert e.open(unsigned - e.share([1, 2], frac_bits=0)).tolist() == [2, 198]
    assert e.open(e.share([1, 2], frac_bits=0) - unsigned).tolist() == [-2, -198]


# The budget.
OPERATIONS: list[Callable[[SharedArray, SharedArray], SharedArray]] = [
    operator.add,
    operator.sub,
    operator.mul,
    operator.matmul,
    lambda x, y: x.square(),
    lambda x, y: x.sum(),
    lambda x, y: x * 3,
    lambda x, y: x * 0.7,
    lambda x, y: x + 1000.0,
    lambda x, y: x @ [3, 5],
    lambda x, y: [0.3, 0.5] @ x,
]


@pytest.mark.parametrize("operation", OPERATIONS)
@given(frac_bits=st.integers(1, 20), size=st.floats(0.5, 1000), data=st.data())
def test_a_ring_with_the_missing_bits_is_large_enough_and_none_smaller(
    operation: Callable[[SharedArray, SharedArray], SharedArray],
    frac_bits: int,
    size: float,
    data: st.DataObject,
) -> None:
    """Whatever is refused names how many bits are missing: that many, and not one fewer."""
    least = (int(size) + 1).bit_length() + frac_bits + 3
    bits = data.draw(st.integers(least, 64))

    def run(bits: int) -> int:
        """The bits that are missing; 0 if the result came."""
        e = engine(2, bits, frac_bits)
        x, y = (e.share([size, -size], magnitude=size) for _ in range(2))
        try:
            operation(x, y)
        except ParameterError as error:
            assert e.network.messages == 0
            if "outside" in error.message:  # a public number does not fit by itself
                return -1
            return int(error.message.split(", ")[1].split()[0])
        return 0

    missing = run(bits)
    if missing > 0 and bits + missing <= 64:
        assert run(bits + missing) == 0
        assert run(bits + missing - 1) == 1
    elif missing > 0:
        assert run(64) > 0


def test_what_is_accepted_is_right_at_the_edge_of_the_budget() -> None:
    """Factors as large as the budget of their ring admits: no large error in 10^5 products."""
    e = engine(bits=40, frac_bits=8)
    limit = 2.0 ** (19 - 8)
    x = np.resize([limit, -limit, limit - 1], 100_000)
    own = e.share(x, magnitude=limit)
    assert np.abs(e.open(own * own) - x * x).max() <= 2.0**-8
    with pytest.raises(ParameterError, match="1 more than Z_2"):
        own * e.share(x, magnitude=limit * 1.01)


def test_a_refusal_does_not_advise_a_ring_that_does_not_exist() -> None:
    wide, narrow = engine(), engine(bits=32)
    with pytest.raises(ParameterError, match="more than Z_2") as caught:
        wide.share(2.0**40) * wide.share(2.0**40)
    assert "larger ring" not in str(caught.value)
    with pytest.raises(ParameterError, match="more than Z_2") as caught:
        narrow.share(100.0) * narrow.share(100.0)
    assert "larger ring" in str(caught.value)


# Refusals.
BAD: list[Callable[[Engine, SharedArray], Any]] = [
    lambda e, x: x + float("nan"),
    lambda e, x: x * float("inf"),
    lambda e, x: x * [1.0, float("nan")],
    lambda e, x: x + "1",
    lambda e, x: x * 1j,
    lambda e, x: x / 0,
    lambda e, x: x / [1, 0],
    lambda e, x: operator.truediv(x, x),
    lambda e, x: bool(x),
    lambda e, x: x + engine().share([1.0, 2.0]),
    lambda e, x: x * engine().share([1.0, 2.0]),
    lambda e, x: x @ engine().share([1.0, 2.0]),
    lambda e, x: x @ 3.0,
    lambda e, x: 3 @ x,
    lambda e, x: x @ [1.0, 2.0, 3.0],
    lambda e, x: e.share([1.0], magnitude=0.5),
    lambda e, x: e.share([1.0], magnitude=0),
    lambda e, x: e.share([1.0], magnitude=float("nan")),
    lambda e, x: e.share([1.0], frac_bits=64),
    lambda e, x: e.share([2.0**47]),
    lambda e, x: Engine(1, e.fixed),
    lambda e, x: Engine(2, e.fixed, supply=e.supply),
]


@pytest.mark.parametrize("bad", BAD)
def test_what_has_no_meaning_is_refused_before_anything_is_sent(
    bad: Callable[[Engine, SharedArray], Any],
) -> None:
    e = engine()
    x = e.share([1.0, 2.0])
    with pytest.raises(ParameterError):
        bad(e, x)
    assert e.network.messages == 0
    assert taken(e) == []


def test_messages_name_no_secret() -> None:
    e = engine()
    with pytest.raises(ParameterError) as caught:
        e.share([1234.5], magnitude=0.5)
    assert "1234" not in str(caught.value)
    assert "shares" not in repr(e.share([1234.5], magnitude=2000))


# Traffic, and large arrays.
@pytest.mark.parametrize("record", [False, True])
def test_large_arrays_are_worked_on_in_pieces_and_count_as_one(record: bool) -> None:
    fixed, network = FixedPoint(Ring(64), F), LocalNetwork(record=record)
    e = Engine(3, fixed, network=network)
    x = np.resize([1.5, -2.0, 0.25], 70_000).reshape(7, 10_000)
    own = e.share(x, magnitude=4)
    product = own * own
    assert network.round == 2
    assert network.messages == 2 * 3 * 2
    assert np.abs(e.open(product) - x * x).max() <= UNIT
    assert np.abs(e.open(own * own[0]) - x * x[0]).max() <= UNIT
    assert np.abs(e.open(own.square() - product)).max() <= 2 * UNIT
    assert np.abs(e.open(own * 0.3) - x * 0.3).max() <= UNIT


def test_bounds_hold_and_are_public() -> None:
    """The bound of each result is a function of the bounds of the operands alone."""
    e = engine()
    small, large = (e.share(v, magnitude=4) for v in ([0.0, 0.0], [4.0, -4.0]))
    for operation in (operator.add, operator.mul, operator.matmul):
        a, b = operation(small, small), operation(large, large)
        assert a.bound == b.bound
        units = Fraction(float(np.abs(e.open(b)).max())) * 2**F
        assert units <= b.bound
