"""Terms of a round: canonical bytes, the codec they give, and what the context covers."""

import io
import struct
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from flwr.app import Array, ArrayRecord, ConfigRecord, MetricRecord, RecordDict
from hypothesis import given
from hypothesis import strategies as st

from mpc.core.errors import ParameterError, PeerError, WireError
from mpc.core.ring import Ring
from secagg.flower.records import RECORD, VECTOR
from secagg.flower.terms import METRIC, Terms, content_digest, context, read_arrays
from secagg.full.params import RoundParams
from secagg.vectors import MAX_INTEGER

BASE: dict[str, Any] = {
    "clip": {"*": 8.0, "steps": 1000},
    "frac_bits": 16,
    "ring_bits": 60,
    "parties": 5,
    "max_weight": 100,
    "weight_key": "num-examples",
    "metrics": {"loss": 10.0, "accuracy": 1.0},
}


def terms(**changes: Any) -> Terms:
    return Terms.make(**{**BASE, **changes})


def model(**arrays: Any) -> ArrayRecord:
    return ArrayRecord({name: Array(np.asarray(array)) for name, array in arrays.items()})


def content(**changes: Any) -> RecordDict:
    records: dict[str, Any] = {
        "arrays": model(a=np.zeros(3, np.float32), b=np.ones((), np.float64)),
        "config": ConfigRecord({"lr": 0.5, "round": 1, "name": "x", "raw": b"x", "on": True}),
        "more": MetricRecord({"last": [0.5, 1.0]}),
    }
    return RecordDict({**records, **changes})


def test_bytes_are_canonical_and_read_back() -> None:
    made = terms()
    assert Terms.from_bytes(made.to_bytes()) == made
    assert made.clip == {"*": 8.0, "steps": 1000.0}
    assert made.metric_clips == {"accuracy": 1.0, "loss": 10.0}
    # The order in which a mapping was written does not count.
    assert terms(metrics={"accuracy": 1.0, "loss": 10.0}) == made
    assert terms(clip=8.0) == terms(clip={"*": 8.0})


@pytest.mark.parametrize(
    "changes",
    [
        {"clip": 8.5},
        {"frac_bits": 15},
        {"ring_bits": 59},
        {"parties": 6},
        {"max_weight": 99},
        {"weight_key": "n"},
        {"metrics": {"loss": 10.0}},
    ],
    ids=lambda changes: next(iter(changes)),
)
def test_every_term_counts(changes: dict[str, Any]) -> None:
    assert terms(**changes).digest != terms().digest


@given(st.binary(max_size=200))
def test_arbitrary_bytes_raise_wire_error_or_are_canonical(data: bytes) -> None:
    try:
        read = Terms.from_bytes(data)
    except WireError:
        return
    assert read.to_bytes() == data


@given(st.data())
def test_changed_bytes_raise_wire_error_or_are_other_terms(data: st.DataObject) -> None:
    good = bytearray(terms().to_bytes())
    at = data.draw(st.integers(0, len(good) - 1))
    good[at] ^= data.draw(st.integers(1, 255))
    try:
        read = Terms.from_bytes(bytes(good))
    except WireError:
        return
    assert read != terms()


@pytest.mark.parametrize(
    "clips",
    [
        (("b", struct.pack("<d", 1.0)), ("a", struct.pack("<d", 1.0))),
        (("a", struct.pack("<d", 1.0)), ("a", struct.pack("<d", 1.0))),
        (("", struct.pack("<d", 1.0)),),
        (("a", b"1234567"),),
        (("a", struct.pack("<d", float("nan"))),),
        (("a", struct.pack("<d", -1.0)),),
        (),
    ],
)
def test_clips_that_no_codec_takes_are_refused(clips: Any) -> None:
    good = terms()
    fields = {name: getattr(good, name) for name in good.__struct_fields__}
    with pytest.raises(ParameterError):
        Terms(**{**fields, "clips": clips})


def test_the_codec_has_the_model_s_arrays_in_order_then_the_metrics() -> None:
    codec = terms().codec(model(w=np.zeros((2, 3), np.float16), steps=np.zeros(4, np.int64)))
    told = [(f.name, f.shape, f.dtype, f.clip) for f in codec.fields]
    assert told == [
        ("w", (2, 3), np.dtype(np.float16), 8.0),
        ("steps", (4,), np.dtype(np.int64), 1000),
        (METRIC + "accuracy", (), np.dtype(np.float64), 1.0),
        (METRIC + "loss", (), np.dtype(np.float64), 10.0),
    ]
    assert (codec.frac_bits, codec.ring.bits, codec.parties, codec.max_weight) == (16, 60, 5, 100)


def test_integers_need_a_whole_clip_of_their_own() -> None:
    with pytest.raises(ParameterError, match="'n' of int32 has no clip of its own"):
        terms().codec(model(n=np.zeros(2, np.int32)))
    with pytest.raises(ParameterError, match="'steps' of integers"):
        terms(clip={"steps": 1000.5}).codec(model(steps=np.zeros(2, np.int32)))
    assert MAX_INTEGER > 2**53  # beyond which a float does not tell whole numbers apart


@pytest.mark.parametrize(
    "array",
    [
        Array("float32", (2,), "numpy.ndarray", b"not an array"),
        Array("float32", (2,), "torch.tensor", b"x"),
        Array("bool", (2,), "numpy.ndarray", Array(np.zeros(2, np.bool_)).data),
        Array("complex64", (2,), "numpy.ndarray", Array(np.zeros(2, np.complex64)).data),
        Array("float32", (0,), "numpy.ndarray", b""),
    ],
    ids=["junk", "torch", "bool", "complex", "empty"],
)
def test_an_array_that_cannot_be_summed_is_refused_by_name(array: Array) -> None:
    with pytest.raises(ParameterError, match="'w'"):
        terms().codec(ArrayRecord({"w": array}))


def test_no_pickle_is_read_from_an_array() -> None:
    file = io.BytesIO()
    np.save(file, np.array([object()]), allow_pickle=True)
    with pytest.raises(ParameterError, match="cannot be read"):
        read_arrays(ArrayRecord({"w": Array("object", (1,), "numpy.ndarray", file.getvalue())}))


def test_terms_must_be_those_of_the_round() -> None:
    def params(bits: int, n: int) -> RoundParams:
        return RoundParams(bytes(16), 0, tuple(range(n)), 3, Ring(bits), 4)

    terms().check_round(params(60, 5))
    for bits, n in ((59, 5), (60, 6)):
        with pytest.raises(PeerError, match="terms for 5 clients and 60 bits"):
            terms().check_round(params(bits, n))


# What the context covers.

CHANGES: dict[str, Callable[[], RecordDict]] = {
    "an entry": lambda: content(arrays=model(a=np.array([0, 0, 1e-30], np.float32), b=1.0)),
    "a name": lambda: content(arrays=model(c=np.zeros(3, np.float32), b=np.float64(1))),
    "the order of arrays": lambda: content(
        arrays=model(b=np.ones((), np.float64), a=np.zeros(3, np.float32))
    ),
    "a dtype": lambda: content(arrays=model(a=np.zeros(3, np.float64), b=np.float64(1))),
    "a shape": lambda: content(arrays=model(a=np.zeros((3, 1), np.float32), b=np.float64(1))),
    "one array less": lambda: content(arrays=model(a=np.zeros(3, np.float32))),
    "a number": lambda: content(config=ConfigRecord({"lr": 0.25})),
    "a kind of number": lambda: content(
        config=ConfigRecord({"lr": 0.5, "round": 1.0, "name": "x", "raw": b"x", "on": True})
    ),
    "truth for one": lambda: content(
        config=ConfigRecord({"lr": 0.5, "round": True, "name": "x", "raw": b"x", "on": True})
    ),
    "text for bytes": lambda: content(
        config=ConfigRecord({"lr": 0.5, "round": 1, "name": "x", "raw": "x", "on": True})
    ),
    "a list": lambda: content(more=MetricRecord({"last": [0.5, 1.5]})),
    "a list's cut": lambda: content(more=MetricRecord({"last": [0.5], "next": [1.0]})),
    "a record's kind": lambda: content(more=ConfigRecord({"last": [0.5, 1.0]})),
    "a record more": lambda: content(another=ConfigRecord({})),
    "the order of records": lambda: RecordDict(dict(reversed(list(content().items())))),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_of_what_clients_train_on_changes_the_digest(change: str) -> None:
    assert content_digest(CHANGES[change]()) != content_digest(content())


def test_equal_contents_have_equal_digests_and_our_own_records_do_not_count() -> None:
    ours = content()
    ours[RECORD], ours[VECTOR] = ConfigRecord({"step": 1}), model(x=1.0)
    assert content_digest(ours) == content_digest(content())


def test_the_whole_range_of_flower_s_integers_has_a_digest() -> None:
    ends = [-(2**63), -1, 0, 2**63, 2**64 - 1]
    found = {content_digest(content(config=ConfigRecord({"n": n}))) for n in ends}
    assert len(found) == len(ends)


def test_the_context_covers_terms_content_type_and_roster() -> None:
    digest = content_digest(content())
    made = context(terms(), digest, "train")
    assert len(made) == 32
    others = [
        context(terms(clip=7.0), digest, "train"),
        context(terms(), content_digest(content(more=MetricRecord({}))), "train"),
        context(terms(), digest, "train.other"),
        context(terms(), digest, "train", bytes(32)),
    ]
    assert made not in others
