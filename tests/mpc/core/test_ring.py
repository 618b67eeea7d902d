"""The ring against Python's integers: every operation, every width, no float and no warning."""

import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst
from numpy.typing import NDArray

from mpc.core.errors import ParameterError, WireError
from mpc.core.prg import Prg
from mpc.core.ring import Ring
from tests.support.script import ScriptRng
from tests.support.strategies import elements, ring_arrays, rings, shapes

BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
}
WIDTHS = [1, 2, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64]


def exact(array: Any) -> NDArray[Any]:
    """The same entries as Python integers, which never wrap."""
    return np.asarray(array).astype(object)


def modulo(array: Any, ring: Ring) -> list[Any]:
    """Residues of exact integers, as nested lists."""
    out: list[Any] = np.asarray(np.asarray(array, dtype=object) % (1 << ring.bits)).tolist()
    return out


def assert_ring(array: NDArray[Any], ring: Ring, want: Any) -> None:
    assert isinstance(array, np.ndarray)
    assert array.dtype == ring.dtype
    assert array.tolist() == want


@pytest.mark.parametrize("bits", range(1, 65))
def test_the_dtype_is_the_smallest_word_that_holds_the_ring(bits: int) -> None:
    ring = Ring(bits)
    size = ring.dtype.itemsize
    assert ring.dtype.kind == "u"
    assert bits <= 8 * size
    assert size == 1 or bits > 4 * size
    assert ring.element_bytes() == size
    assert int(ring.mask) == 2**bits - 1
    assert ring.mask.dtype == ring.dtype


@pytest.mark.parametrize("bits", [0, -1, 65, 128, 32.0, "32", True, None])
def test_other_sizes_are_refused(bits: Any) -> None:
    with pytest.raises(ParameterError, match="bits must"):
        Ring(bits)


def test_rings_of_one_size_are_equal_and_picklable() -> None:
    assert Ring(20) == Ring(np.int64(20))  # type: ignore[arg-type]
    assert len({Ring(20), Ring(20), Ring(21)}) == 2
    assert pickle.loads(pickle.dumps(Ring(20))) == Ring(20)
    with pytest.raises(AttributeError):
        Ring(20).bits = 21  # type: ignore[misc]


@pytest.mark.parametrize("name", BINARY)
@pytest.mark.parametrize("bits", [1, 2, 3, 4])
def test_small_rings_are_right_on_every_pair(name: str, bits: int) -> None:
    ring = Ring(bits)
    a, b = np.indices((1 << bits, 1 << bits), dtype=ring.dtype)
    out = getattr(ring, name)(a, b)
    assert_ring(out, ring, modulo(BINARY[name](exact(a), exact(b)), ring))


@given(st.data(), rings(), st.sampled_from(sorted(BINARY)))
def test_operations_equal_python_integers_with_broadcasting(
    data: st.DataObject, ring: Ring, name: str
) -> None:
    first, second = data.draw(
        npst.mutually_broadcastable_shapes(num_shapes=2, max_dims=3, min_side=0, max_side=3)
    ).input_shapes
    a, b = data.draw(ring_arrays(ring, first)), data.draw(ring_arrays(ring, second))
    before = a.copy(), b.copy()
    out = getattr(ring, name)(a, b)
    assert_ring(out, ring, modulo(BINARY[name](exact(a), exact(b)), ring))
    assert np.array_equal(a, before[0])
    assert np.array_equal(b, before[1])


@given(st.data(), rings(), st.sampled_from(sorted(BINARY)))
def test_out_holds_the_result_and_may_be_an_operand(
    data: st.DataObject, ring: Ring, name: str
) -> None:
    shape = data.draw(shapes())
    a, b = data.draw(ring_arrays(ring, shape)), data.draw(ring_arrays(ring, shape))
    want = modulo(BINARY[name](exact(a), exact(b)), ring)
    operation = getattr(ring, name)
    fresh = np.empty(shape, dtype=ring.dtype)
    assert operation(a, b, out=fresh) is fresh
    assert_ring(fresh, ring, want)
    assert operation(a, b, out=a) is a
    assert_ring(a, ring, want)


@pytest.mark.parametrize("name", BINARY)
def test_out_of_another_dtype_is_refused_untouched(name: str) -> None:
    """numpy would cast into a wider dtype, in which the word has not wrapped."""
    for dtype in (np.uint64, np.int64, np.float64, np.uint8):
        out = np.zeros(2, dtype=dtype)
        with pytest.raises(ParameterError, match="out must have dtype uint32"):
            getattr(Ring(32), name)(np.ones(2, np.uint32), np.ones(2, np.uint32), out=out)
        assert not out.any()


@given(st.data(), rings())
def test_negation_and_sums_equal_python_integers(data: st.DataObject, ring: Ring) -> None:
    x = data.draw(ring_arrays(ring))
    assert_ring(ring.neg(x), ring, modulo(-exact(x), ring))
    assert_ring(ring.sum(x), ring, sum(exact(x).reshape(-1).tolist()) % (1 << ring.bits))
    for axis in range(x.ndim):
        assert_ring(ring.sum(x, axis=axis), ring, modulo(exact(x).sum(axis=axis), ring))
    if x.ndim:
        axes = tuple(range(x.ndim - 1))
        before = x.copy()
        assert_ring(ring.sum(x, axis=axes), ring, modulo(exact(x).sum(axis=axes), ring))
        assert np.array_equal(x, before)


@pytest.mark.parametrize("bits", WIDTHS)
def test_long_sums_wrap_and_never_overflow(bits: int) -> None:
    ring = Ring(bits)
    x = np.full(1000, ring.mask, dtype=ring.dtype)
    assert int(ring.sum(x)) == -1000 % (1 << bits)


@given(st.data(), rings())
def test_reduce_takes_integers_of_any_kind_and_size(data: st.DataObject, ring: Ring) -> None:
    values = data.draw(st.lists(st.integers(-(2**70), 2**70), max_size=5))
    want = [value % (1 << ring.bits) for value in values]
    assert_ring(ring.reduce(values), ring, want)
    assert_ring(ring.reduce(np.array(values, dtype=object)), ring, want)
    for value in values:
        assert_ring(ring.reduce(value), ring, value % (1 << ring.bits))


@given(
    st.data(),
    rings(),
    npst.integer_dtypes(endianness="?") | npst.unsigned_integer_dtypes(endianness="?"),
)
def test_reduce_takes_every_integer_dtype(
    data: st.DataObject, ring: Ring, dtype: np.dtype[Any]
) -> None:
    x = data.draw(npst.arrays(dtype, shapes()))
    before = x.copy()
    out = ring.reduce(x)
    assert_ring(out, ring, modulo(exact(x), ring))
    assert not np.shares_memory(out, x)
    assert np.array_equal(x, before)
    for value in x.reshape(-1)[:2]:
        assert_ring(ring.reduce(value), ring, int(value) % (1 << ring.bits))


@pytest.mark.parametrize(
    ("x", "want"),
    [
        ([2**63, -1], [2**63, 2**64 - 1]),  # numpy makes floats of this list
        ([2**64, -(2**80)], [0, 0]),
        ([np.uint64(2**63 + 1), -1], [2**63 + 1, 2**64 - 1]),
        ([np.array([1, 2]), [2**63, -1]], [[1, 2], [2**63, 2**64 - 1]]),
        ([True, -2], [1, 2**64 - 2]),
        (np.array([True, False]), [1, 0]),
        (np.array([True, np.True_, np.int8(-1), 5], dtype=object), [1, 1, 2**64 - 1, 5]),
        ([], []),
        (np.array([], dtype=object), []),
        (np.zeros((0, 2), dtype=np.int8), []),
    ],
    ids=repr,
)
def test_reduce_takes_mixed_lists_without_a_detour_through_floats(x: Any, want: Any) -> None:
    assert_ring(Ring(64).reduce(x), Ring(64), want)


@pytest.mark.parametrize(
    "x",
    [1.0, [1.0], np.float64(1), np.ones(2), np.float32(1), [1, 2.0], float("nan"), "1", b"1",
     None, [None], 1j, np.array([1, 2.0], dtype=object), np.array([], dtype=np.float64),
     np.array(["1"]), np.array(1, dtype="m8[s]"), [2**63, -1.0]],
    ids=repr,
)  # fmt: skip
def test_what_is_no_integer_is_refused_by_every_operation(x: Any) -> None:
    ring = Ring(64)
    one = np.ones((), dtype=ring.dtype)
    calls: list[Callable[[], object]] = [
        lambda: ring.reduce(x),
        lambda: ring.add(one, x),
        lambda: ring.sub(x, one),
        lambda: ring.mul(one, x),
        lambda: ring.neg(x),
        lambda: ring.sum(x),
    ]
    for call in calls:
        with pytest.raises(ParameterError, match="ring elements are integers"):
            call()


def test_o04b_a_large_share_and_a_signed_integer_stay_exact() -> None:
    """uint64 with int64 becomes float64 in numpy, 9.223372036854776e18; here it stays exact."""
    ring = Ring(64)
    share = np.array([2**63 + 1], dtype=np.uint64)
    for one in (np.array([1], dtype=np.int64), np.int64(1), 1, [1], np.array(1), True):
        assert_ring(ring.add(share, one), ring, [2**63 + 2])
        assert_ring(ring.add(one, share), ring, [2**63 + 2])
        assert_ring(ring.sub(share, one), ring, [2**63])
        assert_ring(ring.mul(share, one), ring, [2**63 + 1])
    assert_ring(ring.add(share[0], np.int64(1)), ring, 2**63 + 2)
    assert_ring(ring.sub(share, np.int64(-1)), ring, [2**63 + 2])
    assert_ring(ring.sum(np.concatenate([share, share])), ring, 2)
    for fraction in (1.0, np.array([1.0]), np.float32(1), [0.5]):
        with pytest.raises(ParameterError, match="integers"):
            ring.add(share, fraction)


@pytest.mark.parametrize("bits", WIDTHS)
def test_o04b_nothing_is_promoted_in_any_ring(bits: int) -> None:
    """The whole kind of O04(b): every ring with every narrower, wider and signed partner."""
    ring = Ring(bits)
    top = ring.reduce([-1])
    for dtype in (np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64):
        partner = np.array([1, 2], dtype=dtype)
        assert_ring(ring.add(top, partner), ring, modulo([0, 1], ring))
        assert_ring(ring.add(partner[0], top[0]), ring, 0)
        assert_ring(ring.mul(top, partner), ring, modulo([-1, -2], ring))


@pytest.mark.parametrize("bits", WIDTHS)
def test_numpy_scalars_wrap_without_a_warning(bits: int) -> None:
    ring = Ring(bits)
    top = ring.dtype.type((1 << bits) - 1)
    assert_ring(ring.add(top, top), ring, (-2) % (1 << bits))
    assert_ring(ring.mul(top, top), ring, 1)
    assert_ring(ring.sub(ring.dtype.type(0), top), ring, 1)
    assert_ring(ring.neg(top), ring, 1)


@given(st.data(), rings())
def test_check_passes_elements_through_and_refuses_the_rest(
    data: st.DataObject, ring: Ring
) -> None:
    x = data.draw(ring_arrays(ring))
    assert ring.check(x) is x
    if ring.bits < 8 * ring.dtype.itemsize and x.size:
        x.reshape(-1)[-1] = 1 << ring.bits
        with pytest.raises(ParameterError, match="outside"):
            ring.check(x)


@pytest.mark.parametrize("x", [[1], 1, [], np.zeros(1, ">u4"), np.zeros(1, np.int32), [0.5], None])
def test_check_refuses_what_is_not_of_the_dtype_with_a_remedy(x: Any) -> None:
    with pytest.raises(ParameterError, match=r"dtype uint32, got .*Ring\.reduce"):
        Ring(32).check(x)


@given(st.data(), rings())
def test_signed_is_the_residue_around_zero(data: st.DataObject, ring: Ring) -> None:
    x = data.draw(ring_arrays(ring))
    half = 1 << (ring.bits - 1)
    out = ring.signed(x)
    assert isinstance(out, np.ndarray)
    assert out.dtype == np.int64
    want = np.asarray((exact(x) + half) % (1 << ring.bits) - half)
    assert out.tolist() == want.tolist()
    assert np.array_equal(ring.reduce(out), x)


@given(st.data(), rings())
def test_bytes_round_trip_as_little_endian_words(data: st.DataObject, ring: Ring) -> None:
    x = data.draw(ring_arrays(ring))
    size = ring.element_bytes()
    wire = ring.to_bytes(x)
    assert wire == b"".join(int(v).to_bytes(size, "little") for v in x.reshape(-1))
    back = ring.from_bytes(wire, x.shape)
    assert back.dtype == ring.dtype
    assert back.shape == x.shape
    assert np.array_equal(back, x)
    assert back.flags.writeable
    if x.flags.c_contiguous and x.ndim == 2:
        assert ring.to_bytes(np.asfortranarray(x)) == wire


@given(rings(), st.integers(0, 5), st.binary(max_size=48))
def test_bytes_of_another_size_or_outside_the_ring_raise_wire_error(
    ring: Ring, count: int, data: bytes
) -> None:
    size = ring.element_bytes()
    words = [int.from_bytes(data[i : i + size], "little") for i in range(0, len(data), size)]
    if len(data) == count * size and all(word < 1 << ring.bits for word in words):
        assert ring.from_bytes(data, count).tolist() == words
    else:
        with pytest.raises(WireError):
            ring.from_bytes(data, count)


@pytest.mark.parametrize("shape", [-1, (-1,), (-2, -2), (2.0,), 2**64, (None,)])
def test_a_shape_that_is_none_is_refused(shape: Any) -> None:
    with pytest.raises(ParameterError, match="a length must"):
        Ring(8).from_bytes(bytes(4), shape)


def test_from_bytes_gives_every_shape_of_a_size() -> None:
    ring = Ring(16)
    assert ring.from_bytes(b"\x01\x02", ()).tolist() == 0x0201
    assert ring.from_bytes(b"", (0, 3)).shape == (0, 3)
    assert ring.from_bytes(bytes(12), (2, 3)).shape == (2, 3)
    assert ring.from_bytes(memoryview(bytes(4)), 2).tolist() == [0, 0]  # type: ignore[arg-type]


@given(st.data(), rings(), shapes())
def test_random_elements_are_the_low_bits_of_words(
    data: st.DataObject, ring: Ring, shape: tuple[int, ...]
) -> None:
    count = int(np.prod(shape, dtype=np.int64))
    word = st.integers(0, 2 ** (8 * ring.element_bytes()) - 1)
    script = data.draw(st.lists(word, min_size=count, max_size=count))
    rng = ScriptRng(script)
    out = ring.random(shape, rng)
    assert out.shape == shape
    assert_ring(out.reshape(-1), ring, [value % (1 << ring.bits) for value in script])
    assert rng.left == 0


@pytest.mark.parametrize("bits", [1, 3, 5, 8])
def test_random_elements_have_the_exact_uniform_law(bits: int) -> None:
    out = Ring(bits).random(256, ScriptRng(range(256)))
    assert np.bincount(out).tolist() == [256 >> bits] * (1 << bits)


@given(st.data(), rings())
def test_ring_laws_hold(data: st.DataObject, ring: Ring) -> None:
    a, b, c = (np.array(data.draw(elements(ring)), dtype=ring.dtype) for _ in range(3))
    assert ring.sub(ring.add(a, b), b) == a
    assert ring.add(a, ring.neg(a)) == 0
    assert ring.mul(a, ring.add(b, c)) == ring.add(ring.mul(a, b), ring.mul(a, c))


def test_shapes_that_do_not_broadcast_raise_as_in_numpy() -> None:
    with pytest.raises(ValueError, match="broadcast"):
        Ring(8).add(np.zeros(2, np.uint8), np.zeros(3, np.uint8))


def test_masking_makes_shares_of_a_prg_cancel() -> None:
    ring = Ring(33)
    x = ring.random((4, 5), Prg(bytes(32)))
    mask = ring.random((4, 5), Prg(b"m" * 32))
    assert np.array_equal(ring.sub(ring.add(x, mask), mask), x)
