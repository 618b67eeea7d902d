"""The two-word ring against Python's integers: every operation, no lost carry, no warning."""

import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from mpc.core.errors import ParameterError, WireError
from mpc.core.prg import Prg
from mpc.core.ring import Ring
from mpc.core.rng import SYSTEM_RNG
from mpc.core.wide_ring import WideRing
from tests.support.strategies import elements, shapes

WIDTHS = [65, 66, 95, 96, 97, 127, 128]
BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
}
CARRIES = [0, 1, 2**32 - 1, 2**32, 2**63, 2**64 - 1]
"""Words at which a carry between limbs comes about or not."""


def exact(array: Any) -> NDArray[Any]:
    """The same entries as Python integers."""
    records = np.asarray(array)
    out = np.empty(records.shape, dtype=object)
    out[...] = records["low"].astype(object) + (records["high"].astype(object) << 64)
    return out


def residues(values: Any, ring: Ring) -> list[Any]:
    left = np.asarray(values, dtype=object) % (1 << ring.bits)
    out: list[Any] = np.asarray(left, dtype=object).tolist()
    return out


def wide_rings() -> st.SearchStrategy[WideRing]:
    return (st.sampled_from(WIDTHS) | st.integers(65, 128)).map(WideRing)


@st.composite
def arrays(draw: st.DrawFn, ring: WideRing, shape: tuple[int, ...]) -> NDArray[Any]:
    """Elements whose words sit where carries come about more often than chance would have it."""
    words = st.sampled_from(CARRIES)
    tricky = st.tuples(words, words).map(lambda w: (w[0] + (w[1] << 64)) % (1 << ring.bits))
    count = int(np.prod(shape))
    values = draw(st.lists(tricky | elements(ring), min_size=count, max_size=count))
    flat = np.empty(count, dtype=object)
    flat[:] = values
    return ring.reduce(flat.reshape(shape))


@given(st.data(), wide_rings(), st.sampled_from(sorted(BINARY)))
def test_operations_agree_with_integers(data: st.DataObject, ring: WideRing, name: str) -> None:
    shape = data.draw(shapes())
    cut = data.draw(st.integers(0, len(shape)))
    one = data.draw(arrays(ring, shape))
    other = data.draw(arrays(ring, shape[cut:]))
    for a, b in ((one, other), (other, one)):
        found = getattr(ring, name)(a, b)
        assert isinstance(found, np.ndarray)
        assert found.dtype == ring.dtype
        assert found.shape == shape
        want = residues(BINARY[name](exact(a), exact(b)), ring)
        assert exact(found).tolist() == want


@pytest.mark.parametrize("bits", WIDTHS)
@pytest.mark.parametrize("name", sorted(BINARY))
def test_every_carry(bits: int, name: str) -> None:
    ring = WideRing(bits)
    values = [low + (high << 64) for low in CARRIES for high in CARRIES]
    column = ring.reduce(np.array(values, dtype=object))
    found = getattr(ring, name)(column[:, np.newaxis], column)
    e = exact(column)
    assert exact(found).tolist() == residues(BINARY[name](e[:, np.newaxis], e), ring)


@given(st.data(), wide_rings())
def test_negation_and_sums_agree_with_integers(data: st.DataObject, ring: WideRing) -> None:
    shape = data.draw(shapes())
    x = data.draw(arrays(ring, shape))
    assert exact(ring.neg(x)).tolist() == residues(-exact(x), ring)
    axes: list[Any] = [None, *range(-len(shape), len(shape)), tuple(range(len(shape)))]
    for axis in axes:
        total = ring.sum(x, axis=axis)
        assert isinstance(total, np.ndarray)
        assert exact(total).tolist() == residues(exact(x).sum(axis=axis), ring)


@pytest.mark.parametrize("bits", WIDTHS)
def test_a_long_sum_loses_no_carry(bits: int) -> None:
    ring = WideRing(bits)
    x = np.full(100_000, ring.reduce(-1))
    assert exact(ring.sum(x)).item() == -100_000 % (1 << bits)


@pytest.mark.parametrize("name", sorted(BINARY))
def test_results_go_into_out_even_where_it_is_an_operand(name: str) -> None:
    ring = WideRing(100)
    a, b = ring.random((4, 5), SYSTEM_RNG), ring.random((5,), SYSTEM_RNG)
    want = getattr(ring, name)(a, b)
    for out in (np.empty((4, 5), ring.dtype), a.copy(), np.empty((8, 5), ring.dtype)[::2]):
        first = out if np.array_equal(out, a) else a
        assert getattr(ring, name)(first, b, out=out) is out
        assert np.array_equal(out, want)
    single = ring.reduce(7)
    assert getattr(ring, name)(single, single, out=single) is single
    assert exact(single) == BINARY[name](7, 7)
    for wrong in (np.uint64, np.int64, object):
        with pytest.raises(ParameterError, match="two words"):
            getattr(ring, name)(a, b, out=np.empty((4, 5), wrong))


@given(wide_rings(), st.lists(st.integers(-(2**200), 2**200), max_size=5))
def test_integers_of_any_size_are_reduced(ring: WideRing, values: list[int]) -> None:
    assert exact(ring.reduce(values)).tolist() == residues(np.array(values, object), ring)
    for value in values:
        assert ring.reduce(value).shape == ()
        assert exact(ring.reduce(value)) == value % (1 << ring.bits)


@pytest.mark.parametrize("dtype", [np.int8, np.int64, np.uint8, np.uint64, np.bool_])
def test_machine_integers_are_reduced(dtype: Any) -> None:
    ring = WideRing(80)
    kind = np.dtype(dtype)
    ends = [0, 1] if kind.kind == "b" else [np.iinfo(kind).min, 0, 1, np.iinfo(kind).max]
    values = np.array(ends, dtype)
    assert exact(ring.reduce(values)).tolist() == residues(values.astype(object), ring)
    assert exact(ring.reduce(values[0])).tolist() == residues(int(values[0]), ring)
    assert exact(ring.add(values, 5)).tolist() == residues(values.astype(object) + 5, ring)


def test_elements_of_a_wider_ring_are_reduced() -> None:
    x = WideRing(128).random((50,), SYSTEM_RNG)
    before = x.copy()
    ring = WideRing(70)
    assert exact(ring.reduce(x)).tolist() == residues(exact(x), ring)
    assert np.array_equal(x, before)


@pytest.mark.parametrize(
    "x", [1.0, [0.5], np.array([1.0]), ["1"], [None], np.array([1, 2.5], object)]
)
def test_what_is_no_integer_is_refused(x: Any) -> None:
    ring = WideRing(96)
    for operation in (ring.reduce, ring.neg, ring.sum, lambda v: ring.add(v, 1)):
        with pytest.raises(ParameterError, match="integers"):
            operation(x)


@pytest.mark.parametrize("bits", [0, 1, 64, 129, -65, 96.0, "96", True, None])
def test_other_sizes_are_refused(bits: Any) -> None:
    with pytest.raises(ParameterError, match="bits must"):
        WideRing(bits)


def test_what_has_no_place_in_one_word_is_refused() -> None:
    ring = WideRing(96)
    with pytest.raises(ParameterError, match="mask"):
        _ = ring.mask
    with pytest.raises(ParameterError, match="int64"):
        ring.signed(ring.reduce([1]))


def test_rings_of_one_size_are_equal() -> None:
    assert WideRing(96) == WideRing(96) != WideRing(97)
    assert hash(WideRing(96)) == hash(WideRing(96))
    assert pickle.loads(pickle.dumps(WideRing(96))) == WideRing(96)


@pytest.mark.parametrize("bits", WIDTHS)
def test_elements_are_checked(bits: int) -> None:
    ring = WideRing(bits)
    x: Any = ring.random((3,), SYSTEM_RNG)
    assert id(ring.check(x)) == id(x)
    for wrong in (x["low"], x.tolist(), np.zeros(3, np.uint8), 1.5):
        with pytest.raises(ParameterError, match="two words"):
            ring.check(wrong)
    if bits < 128:
        x["high"][1] = 1 << (bits - 64)
        with pytest.raises(ParameterError, match="outside"):
            ring.check(x)
        with pytest.raises(ParameterError, match="outside"):
            ring.to_bytes(x)


@given(st.data(), wide_rings())
def test_bytes_are_little_endian_numbers_and_come_back(data: st.DataObject, ring: WideRing) -> None:
    shape = data.draw(shapes())
    x = data.draw(arrays(ring, shape))
    wire = ring.to_bytes(x)
    assert wire == b"".join(int(v).to_bytes(16, "little") for v in exact(x).reshape(-1))
    assert len(wire) == x.size * ring.element_bytes()
    assert np.array_equal(ring.from_bytes(wire, shape), x)
    turned = np.ascontiguousarray(x.T).T
    assert ring.to_bytes(turned) == wire


@given(wide_rings(), st.binary(max_size=64), st.integers(0, 4))
def test_arbitrary_bytes_are_refused_or_come_back(ring: WideRing, data: bytes, count: int) -> None:
    try:
        found = ring.from_bytes(data, count)
    except WireError:
        fits = len(data) == 16 * count
        numbers = (int.from_bytes(data[i : i + 16], "little") for i in range(0, len(data), 16))
        assert not fits or any(number >> ring.bits for number in numbers)
    else:
        assert ring.to_bytes(found) == data


def test_what_was_read_can_be_written_to() -> None:
    ring = WideRing(96)
    x = ring.from_bytes(bytes(32), 2)
    ring.add(x, 1, out=x)
    assert exact(x).tolist() == [1, 1]


@pytest.mark.parametrize("bits", WIDTHS)
def test_random_elements_are_the_stream_with_the_surplus_bits_cleared(bits: int) -> None:
    ring, seed = WideRing(bits), bytes(range(32))
    words = Prg(seed).words((6, 2), np.uint64).astype(object)
    want = (words[:, 0] + (words[:, 1] << 64)) % (1 << bits)
    assert exact(ring.random((2, 3), Prg(seed))).reshape(-1).tolist() == want.tolist()
    space = np.empty((3, 6), ring.dtype)
    assert np.array_equal(ring.fill(space[1], Prg(seed)), ring.random(6, Prg(seed)))
    single = np.empty((), ring.dtype)
    assert exact(ring.fill(single, Prg(seed))) == want[0]
    x = ring.random(2000, SYSTEM_RNG)
    # A given bit is missing with probability 2^-2000.
    every = np.bitwise_or.reduce(exact(x))
    assert every == 2**bits - 1


def test_other_places_are_not_filled() -> None:
    ring = WideRing(96)
    with pytest.raises(ParameterError, match="two words"):
        ring.fill(np.empty(3, np.uint64), SYSTEM_RNG)
    with pytest.raises(ParameterError, match="contiguous"):
        ring.fill(np.empty(6, ring.dtype)[::2], SYSTEM_RNG)


def test_low_words_are_residues() -> None:
    ring = WideRing(101)
    x = ring.random((3, 2), SYSTEM_RNG)
    low = ring.low_words(x)
    assert low.dtype == np.uint64
    assert low.tolist() == (exact(x) % 2**64).tolist()
