"""Dicts of arrays as ring vectors: exact, with head-room, hidden weights; cases O13 to O15."""

import pickle
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from mpc.core.errors import AbortError, ParameterError
from mpc.core.prg import Prg
from mpc.core.ring import Ring, RingArray
from mpc.core.rng import Rng
from secagg.plan import plan
from secagg.vectors import Encoded, Field, VectorCodec
from tests.support.stats import hoeffding_half_width
from tests.support.strategies import seeds

Model = dict[str, NDArray[Any]]

MODEL: Model = {
    "dense/kernel": np.linspace(-1, 1, 6, dtype=np.float32).reshape(2, 3),
    "steps": np.array(7, dtype=np.int64),
    "bias": np.array([0.5, -0.25]),
    "counts": np.array([1, 2, 255], dtype=np.uint8),
    "half": np.array([[1.5]], dtype=np.float16),
    "empty": np.zeros((0, 3), dtype=np.float64),
}
CLIPS = {"dense/kernel": 1.0, "steps": 1000, "bias": 2, "counts": 255, "half": 4.0, "empty": 1.0}


def codec(**changes: Any) -> VectorCodec:
    chosen: dict[str, Any] = {
        "clip": CLIPS, "frac_bits": 12, "ring": Ring(40), "parties": 10, "max_weight": 50
    }  # fmt: skip
    return VectorCodec.like(MODEL, **(chosen | changes))


def total(of: VectorCodec, *vectors: RingArray) -> RingArray:
    return of.ring.sum(np.stack(vectors), axis=0)


def shifted(by: float) -> Model:
    """The model with other floats."""
    return {n: (a + by).astype(a.dtype) if a.dtype.kind == "f" else a for n, a in MODEL.items()}


# Names, shapes, dtypes.


def test_names_shapes_and_dtypes_are_kept_where_asked() -> None:
    used = codec()
    sent = used.encode(MODEL, 3)
    assert sent.vector.shape == (used.size,) == (6 + 1 + 2 + 3 + 1 + 0 + 1,)
    assert sent.vector.dtype == used.ring.dtype
    kept = used.means(sent.vector, keep_dtypes=True)
    assert list(kept) == list(MODEL)
    for name, array in MODEL.items():
        assert kept[name].dtype == array.dtype
        assert kept[name].shape == array.shape
        assert isinstance(kept[name], np.ndarray)
        assert np.all(np.abs(kept[name].astype(float) - array) <= 2.0**-12)
    for name, array in used.means(sent.vector).items():
        assert array.dtype == np.float64
        assert array.shape == MODEL[name].shape
        assert isinstance(array, np.ndarray)
    for name, array in used.sums(sent.vector).items():
        assert array.dtype == (np.int64 if name in ("steps", "counts") else np.float64)
        assert isinstance(array, np.ndarray)


def test_the_order_of_a_clients_dict_does_not_matter() -> None:
    used = codec()
    backwards = dict(reversed(MODEL.items()))
    first = used.encode(MODEL, 2, rng=Prg(bytes(32)))
    second = used.encode(backwards, 2, rng=Prg(bytes(32)))
    assert np.array_equal(first.vector, second.vector)


@pytest.mark.parametrize(
    "change",
    [
        {"bias": None},
        {"bias": np.zeros(3)},
        {"bias": np.zeros((2, 1))},
        {"bias": np.zeros(2, dtype=np.float32)},
        {"steps": np.array(7, dtype=np.int32)},
        {"steps": np.array(7.0)},
        {"another": np.zeros(2)},
    ],
)
def test_another_name_shape_or_dtype_is_refused(change: Model) -> None:
    arrays = {name: array for name, array in (MODEL | change).items() if array is not None}
    with pytest.raises(ParameterError, match="must be"):
        codec().encode(arrays, 1)


@pytest.mark.parametrize("dtype", [bool, complex, np.longdouble, "U3", object, "M8[s]"])
def test_arrays_of_other_dtypes_are_refused(dtype: Any) -> None:
    with pytest.raises(ParameterError, match="'x' has dtype"):
        Field("x", (2,), np.dtype(dtype), 1.0)


@pytest.mark.parametrize("name", ["", 3, None])
def test_a_name_that_is_none_is_refused(name: Any) -> None:
    with pytest.raises(ParameterError, match="name"):
        Field(name, (2,), np.dtype(np.float32), 1.0)


def test_a_codec_needs_arrays_of_distinct_names() -> None:
    field = Field("x", (2,), np.dtype(np.float32), 1.0)
    for fields in ((), (field, field)):
        with pytest.raises(ParameterError, match="distinct names"):
            VectorCodec(fields, 8, Ring(32), 3)
    with pytest.raises(ParameterError, match="'bias' has no clip"):
        codec(clip={name: clip for name, clip in CLIPS.items() if name != "bias"})


@pytest.mark.parametrize(
    ("change", "name"),
    [
        ({"frac_bits": -1}, "frac_bits"),
        ({"frac_bits": 63}, "frac_bits"),
        ({"parties": 1}, "parties"),
        ({"max_weight": 0}, "max_weight"),
        ({"max_weight": 2.5}, "max_weight"),
        ({"ring": 32}, "ring"),
    ],
)
def test_parameters_out_of_range_are_refused(change: dict[str, Any], name: str) -> None:
    with pytest.raises(ParameterError, match=name):
        codec(**change)


def test_a_codec_can_be_kept_and_compared() -> None:
    used = codec()
    assert pickle.loads(pickle.dumps(used)) == used == codec()
    assert hash(used) == hash(codec())


def test_the_digest_covers_whatever_changes_the_meaning_of_a_sum() -> None:
    used = codec()
    field = used.fields[0]
    others = [
        replace(used, frac_bits=11),
        replace(used, ring=Ring(41)),
        replace(used, parties=11),
        replace(used, max_weight=49),
        replace(used, max_weight=None),
        replace(used, fields=used.fields[1:]),
        replace(used, fields=used.fields[::-1]),
    ]
    changes: list[dict[str, Any]] = [
        *({"name": "dense"}, {"shape": (3, 2)}, {"shape": (6,)}),
        *({"dtype": np.dtype(np.float64)}, {"clip": 0.5}),
    ]
    for change in changes:
        others.append(replace(used, fields=(replace(field, **change), *used.fields[1:])))
    assert len({used.digest, *(other.digest for other in others)}) == len(others) + 1
    assert codec().digest == used.digest


# Exactness.


@given(
    weights=st.lists(st.integers(0, 50), min_size=1, max_size=10).filter(any),
    shift=st.floats(-2, 2),
    seed=seeds(),
)
def test_means_and_sums_are_within_the_stated_error(
    weights: list[int], shift: float, seed: bytes
) -> None:
    used, rng = codec(), Prg(seed)
    models = [
        shifted(shift * at) | {"steps": MODEL["steps"] + np.int64(at)} for at in range(len(weights))
    ]
    models = [m | {"steps": np.asarray(m["steps"])} for m in models]
    sent = [used.encode(m, w, rng=rng) for m, w in zip(models, weights, strict=True)]
    everything = total(used, *(one.vector for one in sent))
    sums, means, weight = used.sums(everything), used.means(everything), sum(weights)
    assert used.total_weight(everything) == weight
    for field in used.fields:
        pairs = list(zip(models, weights, strict=True))
        if field.is_integer:
            exact = sum(m[field.name].astype(np.int64) * w for m, w in pairs)
            assert np.array_equal(sums[field.name], exact)
            assert np.allclose(means[field.name], exact / weight, rtol=2.0**-52, atol=0)
            continue
        clipped = [np.clip(m[field.name].astype(float), -field.clip, field.clip) for m in models]
        near = sum(c * w for c, w in zip(clipped, weights, strict=True))
        assert np.all(np.abs(sums[field.name] - near) < weight * (2.0**-12 + 1e-12))
        assert np.all(np.abs(means[field.name] - near / weight) < 2.0**-12 + 1e-12)
        for one, m in zip(sent, models, strict=True):
            outside = np.abs(m[field.name].astype(float)) > field.clip
            assert one.clipped[field.name] == np.count_nonzero(outside)


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int16, np.uint32, np.int64, np.uint64])
@pytest.mark.parametrize("ring", [Ring(62), Ring(64)])
def test_integers_are_summed_exactly_up_to_the_edge(dtype: Any, ring: Ring) -> None:
    parties = 4
    clip = min(int(np.iinfo(dtype).max), (2 ** (ring.bits - 1) - 1) // parties)
    low = 0 if np.dtype(dtype).kind == "u" else -clip
    x = np.array([clip, low, 1, 0], dtype=dtype)
    used = VectorCodec.like({"x": x}, clip=clip, frac_bits=0, ring=ring, parties=parties)
    everything = total(used, *(used.encode({"x": x}).vector for _ in range(parties)))
    assert used.sums(everything)["x"].tolist() == [4 * clip, 4 * low, 4, 0]


def test_integers_beyond_their_clip_are_refused_and_never_clipped() -> None:
    used = codec()
    for value in (1001, -1001, 2**63 - 1, -(2**63)):
        with pytest.raises(ParameterError, match=r"'steps' lies outside \[-1000, 1000\]") as error:
            used.encode(MODEL | {"steps": np.array(value)}, 1)
        assert str(value) not in str(error.value).replace("[-1000, 1000]", "")
    limited = VectorCodec.like(
        {"x": np.zeros(1, np.uint64)}, clip=9, frac_bits=0, ring=Ring(8), parties=2
    )
    with pytest.raises(ParameterError, match="'x' lies outside"):
        limited.encode({"x": np.array([2**64 - 1], dtype=np.uint64)})


def test_the_mean_of_integers_is_rounded_to_the_nearest_where_their_dtype_is_kept() -> None:
    used = codec()
    vectors = [used.encode(MODEL | {"steps": np.array(s)}, 1).vector for s in (1, 2, 2)]
    everything = total(used, *vectors)
    assert used.means(everything)["steps"] == 5 / 3
    assert used.means(everything, keep_dtypes=True)["steps"] == 2


def test_a_dtype_without_room_for_the_sum_is_refused() -> None:
    used = codec()
    everything = total(used, *(used.encode(MODEL, 1).vector for _ in range(2)))
    assert used.sums(everything)["counts"].tolist() == [2, 4, 510]
    with pytest.raises(ParameterError, match="'counts' has a result beyond uint8"):
        used.sums(everything, keep_dtypes=True)
    half = {"x": np.array([60_000], dtype=np.float16)}
    wide = VectorCodec.like(half, clip=65_504.0, frac_bits=2, ring=Ring(32), parties=3)
    everything = total(wide, *(wide.encode(half).vector for _ in range(3)))
    assert abs(wide.sums(everything)["x"][0] - 3 * float(half["x"][0])) < 1
    with pytest.raises(ParameterError, match="'x' has a result beyond float16"):
        wide.sums(everything, keep_dtypes=True)


class Coins(Rng):
    """Gives 16-bit words with the top two bits it was made with."""

    def __init__(self, quarter: int) -> None:
        self._quarter = quarter

    def fill(self, out: NDArray[Any]) -> None:
        out[...] = self._quarter << 14


def test_the_mean_over_all_coins_is_the_weighted_input() -> None:
    used = codec(frac_bits=0)
    model = MODEL | {"dense/kernel": np.arange(-3, 3, dtype=np.float32).reshape(2, 3) / 4}
    sums = [used.sums(used.encode(model, 3, rng=Coins(quarter)).vector) for quarter in range(4)]
    assert np.array_equal(
        sum(one["dense/kernel"] for one in sums) / 4, 3 * model["dense/kernel"].astype(float)
    )


def test_the_mean_of_many_encodings_is_the_input_and_a_bias_is_caught() -> None:
    """100,000 roundings of 0.3 within one unit of 1/4; Hoeffding, false alarm 1e-9."""
    n = 100_000
    x = {"x": np.full(n, 0.3, dtype=np.float32)}
    used = VectorCodec.like(x, clip=1.0, frac_bits=2, ring=Ring(16), parties=3, max_weight=7)
    mean = used.means(used.encode(x, 7, rng=Prg(bytes(32))).vector)["x"].mean()
    width = hoeffding_half_width(n, 0.25)
    assert abs(mean - float(np.float32(0.3))) < width
    assert abs(np.rint(0.3 * 4) / 4 - 0.3) > width


# O13: clipping.


@pytest.mark.parametrize("clip", [0, 0.0, -1, float("nan"), float("inf"), "8", None, True])
def test_o13_a_clip_without_meaning_is_refused_at_construction(clip: Any) -> None:
    for dtype in (np.float32, np.int32):
        with pytest.raises(ParameterError, match="clip"):
            VectorCodec.like(
                {"x": np.zeros(2, dtype)}, clip=clip, frac_bits=4, ring=Ring(32), parties=3
            )


def test_o13_a_clip_of_integers_is_a_whole_number() -> None:
    with pytest.raises(ParameterError, match="'steps' of integers: clip"):
        codec(clip=CLIPS | {"steps": 10.5})


def test_o13_saturation_comes_with_its_count_by_name() -> None:
    used = VectorCodec.like(
        {"a": np.zeros(1), "b": np.zeros(2)}, clip=8, frac_bits=8, ring=Ring(32), parties=2
    )
    sent = [used.encode({"a": np.array([a]), "b": np.array([a, 1])}) for a in (9.0, 20.0)]
    assert [one.clipped for one in sent] == [{"a": 1, "b": 1}] * 2
    sums = used.sums(total(used, *(one.vector for one in sent)))
    assert sums["a"].tolist() == [16.0]
    assert sums["b"].tolist() == [16.0, 2.0]
    assert repr(sent[0]) == "Encoded(<3 elements>)"


def test_o13_strict_refuses_to_clip_and_names_array_and_entry() -> None:
    model = MODEL | {"dense/kernel": np.array([[0, 0, 0], [0, -2, 9]], dtype=np.float32)}
    with pytest.raises(
        ParameterError, match=r"'dense/kernel', flattened: 2 entries exceed clip.*\(4,\)"
    ):
        codec().encode(model, 1, strict=True)
    assert codec().encode(model, 1).clipped["dense/kernel"] == 2
    assert isinstance(codec().encode(MODEL, 1, strict=True), Encoded)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_nan_and_infinities_are_refused_with_array_and_entry(bad: float) -> None:
    model = MODEL | {"bias": np.array([0.0, bad])}
    with pytest.raises(ParameterError, match=r"'bias', flattened: x must be finite; entry \(1,\)"):
        codec().encode(model, 1)


# O14: head-room.


@pytest.mark.parametrize(("parties", "missing"), [(511, 0), (512, 1), (1024, 2), (1025, 2)])
def test_o14_a_cohort_that_would_wrap_is_refused_with_the_missing_bits(
    parties: int, missing: int
) -> None:
    x = {"x": np.array([64.0])}
    chosen: dict[str, Any] = {"clip": 64.0, "frac_bits": 16, "parties": parties}
    if missing:
        with pytest.raises(ParameterError, match=f": {missing} more than the ring's 32"):
            VectorCodec.like(x, ring=Ring(32), **chosen)
    used = VectorCodec.like(x, ring=Ring(32 + missing), **chosen)
    assert used.largest == 2**22
    everything = total(used, *([used.encode(x).vector] * parties))
    assert used.sums(everything)["x"].tolist() == [64.0 * parties]


def test_o14_weights_count() -> None:
    x = {"x": np.array([8191, -8191])}
    chosen: dict[str, Any] = {"clip": 8191, "frac_bits": 0, "parties": 8, "max_weight": 60_000}
    with pytest.raises(ParameterError, match=r": 1 more than the ring's 32 \(take a ring of 33"):
        VectorCodec.like(x, ring=Ring(32), **chosen)
    used = VectorCodec.like(x, ring=Ring(33), **chosen)
    everything = total(used, *([used.encode(x, 60_000).vector] * 8))
    assert used.sums(everything)["x"].tolist() == [8 * 60_000 * 8191, -8 * 60_000 * 8191]
    assert used.means(everything, keep_dtypes=True)["x"].tolist() == [8191, -8191]


@given(
    clip=st.floats(1e-3, 1e4),
    frac_bits=st.integers(0, 20),
    parties=st.integers(3, 5),
    weight=st.integers(1, 1000),
)
def test_o14_the_ring_that_plan_takes_holds_the_extreme_sums(
    clip: float, frac_bits: int, parties: int, weight: int
) -> None:
    def made(ring: Ring) -> VectorCodec:
        return VectorCodec.like(
            {"x": np.zeros(2)}, clip=clip, frac_bits=frac_bits, ring=ring, parties=parties,
            max_weight=weight,
        )  # fmt: skip

    largest = made(Ring(64)).largest
    ring = plan(parties, dropout=0, corrupt=0, largest=largest).ring
    used = made(ring)
    vectors = [used.encode({"x": np.array([clip, -clip])}, weight).vector for _ in range(parties)]
    means = used.means(total(used, *vectors))["x"]
    assert np.all(np.abs(means - [clip, -clip]) < 2.0**-frac_bits * (1 + 1e-9))
    with pytest.raises(ParameterError, match="1 more than the ring's"):
        made(Ring(ring.bits - 1))


# O15: weights.


def test_o15_a_total_weight_of_zero_gives_an_error_and_no_mean() -> None:
    used = codec()
    sent = [used.encode(MODEL, 0).vector for _ in range(3)]
    assert not any(vector.any() for vector in sent)
    with pytest.raises(AbortError, match="total weight is 0") as error:
        used.means(total(used, *sent))
    assert error.value.remedy == "keep the model as it is"
    assert used.total_weight(total(used, *sent)) == 0


def test_o15_a_client_of_weight_zero_has_no_effect() -> None:
    used = codec()
    bias = [np.array([4.0, -4.0]), np.array([1.0, 2.0]), np.array([2.0, -1.0])]
    vectors = [
        used.encode(MODEL | {"bias": b}, w).vector for b, w in zip(bias, (0, 2, 3), strict=True)
    ]
    assert used.means(total(used, *vectors))["bias"].tolist() == [8 / 5, 1 / 5]


@pytest.mark.parametrize(
    "weight", [-1, -0.5, 0.5, float("nan"), float("inf"), 51, 2**70, True, "3", None, 1j]
)
def test_o15_bad_weights_are_refused_without_a_word_about_their_value(weight: Any) -> None:
    with pytest.raises(ParameterError, match="weight") as error:
        codec().encode(MODEL, weight)
    assert str(error.value) in (
        "weight must be a whole number in [0, 50]",
        "weight must be a whole number (scale fractional weights to integers)",
        "this codec takes a weight",
    )


@pytest.mark.parametrize("weight", [3, 3.0, np.int8(3), np.float32(3), np.uint64(3)])
def test_whole_weights_of_every_type_are_the_same(weight: Any) -> None:
    used = codec()
    sent = used.encode(MODEL, weight, rng=Prg(bytes(32)))
    assert np.array_equal(sent.vector, used.encode(MODEL, 3, rng=Prg(bytes(32))).vector)


def test_a_codec_without_weights_has_sums_alone() -> None:
    used = codec(max_weight=None)
    with pytest.raises(ParameterError, match="takes no weight"):
        used.encode(MODEL, 1)
    sent = used.encode(MODEL)
    assert sent.vector.size == used.size == codec().size - 1
    assert used.sums(sent.vector)["steps"] == 7
    for ask in (used.means, used.total_weight):
        with pytest.raises(ParameterError, match="without weights"):
            ask(sent.vector)


def test_a_vector_times_its_weight_shows_no_weight_to_a_sum() -> None:
    """Two cohorts with the same sum of w x and of w have the same total, exactly."""
    used = codec(frac_bits=2)
    zero = {name: np.zeros_like(array) for name, array in MODEL.items()}

    def of(*pairs: tuple[float, int]) -> RingArray:
        return total(
            used, *(used.encode(zero | {"bias": np.full(2, x)}, w).vector for x, w in pairs)
        )

    assert np.array_equal(of((1.0, 4), (0.0, 2)), of((2.0, 1), (0.5, 4), (0.0, 1)))
    assert not np.array_equal(of((1.0, 4)), of((1.0, 3), (1.0, 2)))


# Totals that no clients can have made.


@pytest.mark.parametrize("weight", [-1, 501, 2**38])
def test_a_total_weight_that_no_cohort_can_reach_ends_without_a_result(weight: int) -> None:
    used = codec()
    forged = used.encode(MODEL, 1).vector
    forged[-1] = weight % 2**40
    for ask in (used.means, used.sums, used.total_weight):
        with pytest.raises(AbortError, match=r"outside \[0, 500\]"):
            ask(forged)


@pytest.mark.parametrize(
    ("at", "value", "name"),
    [
        (0, 2 * 2**12 + 1, "dense/kernel"),
        (6, -2001, "steps"),
        (9, -1, "counts"),
        (9, 511, "counts"),
    ],
)
def test_an_entry_beyond_the_total_weight_times_its_clip_ends_without_a_result(
    at: int, value: int, name: str
) -> None:
    used = codec()
    forged = used.encode(MODEL, 2).vector
    forged[at] = value % 2**40
    for ask in (used.means, used.sums):
        with pytest.raises(AbortError, match=name):
            ask(forged)


def test_a_vector_whose_masks_did_not_cancel_ends_without_a_result() -> None:
    used = codec()
    noise = used.ring.random((used.size,), Prg(bytes(32)))
    with pytest.raises(AbortError):
        used.means(used.ring.add(used.encode(MODEL, 2).vector, noise))


def test_a_total_of_another_shape_or_dtype_is_refused() -> None:
    used = codec()
    vector = used.encode(MODEL, 1).vector
    for other in (vector[:-1], vector[np.newaxis], vector.astype(np.uint32)):
        with pytest.raises(ParameterError):
            used.sums(other)


def test_the_stated_error_of_a_sum_is_reached_nearly() -> None:
    """The bound is not loose: an entry just above a unit may be rounded up by nearly one."""
    used = codec(frac_bits=0)
    bias = np.array([2.0**-30, 0.0])

    class Highest(Rng):
        def fill(self, out: NDArray[Any]) -> None:
            out[...] = 0  # open, and then up for every rest

    vector = used.encode(MODEL | {"bias": bias}, 50, rng=Highest()).vector
    error = used.sums(vector)["bias"] - 50 * bias
    assert 49.999 < error[0] < 50
    assert error[1] == 0
