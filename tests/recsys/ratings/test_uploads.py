"""Uploads in the clear: exact inverses, exact sizes, and refusals that name the client."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mpc.core.errors import ParameterError, PeerError, WireError
from recsys.ratings.aggregate_vector import Layout
from recsys.ratings.uploads import GradientUpload, UploadFormat, word_for

SESSION = bytes(range(16))
FORMAT = UploadFormat(SESSION, Layout(7, 2, 3), 3)
ITEMS = np.array([0, 4, 6], dtype=np.int32)
VALUES = np.array([1, -1, 0, 2**23 - 1, -(2**23), 5, 70_000, -70_000, 256])


def message(**changes: Any) -> GradientUpload:
    given_ = {"client": 5, "round_": 9, "items": ITEMS, "values": VALUES, **changes}
    return FORMAT.message(**given_)


def test_the_bytes_are_these() -> None:
    """Version, an array of tag and four fields, then little-endian words."""
    expected = bytes.fromhex(
        "01 95 b1"  # version 1; five entries, the first a string of 17 characters
    )
    expected += b"ratings.gradients"
    expected += b"\xc4\x10" + SESSION + b"\xc4\x08" + b"\x05\0\0\0" + b"\x09\0\0\0"
    expected += b"\xc4\x0c" + b"\0\0\0\0" + b"\x04\0\0\0" + b"\x06\0\0\0"
    expected += b"\xc4\x1b" + bytes.fromhex(
        "010000 ffffff 000000 ffff7f 000080 050000 701101 90eefe 000100"
    )
    assert message().to_bytes() == expected
    assert FORMAT.size(3) == len(expected)


@given(
    word=st.integers(1, 8),
    sizes=st.tuples(st.integers(0, 6), st.integers(1, 3), st.integers(0, 4)),
    seed=st.integers(0, 2**32 - 1),
)
def test_reading_is_the_inverse_of_packing(
    word: int, sizes: tuple[int, int, int], seed: int
) -> None:
    rng = np.random.default_rng(seed)
    layout = Layout(*sizes)
    form = UploadFormat(SESSION, layout, word)
    items = np.flatnonzero(rng.random(layout.n_items) < 0.5).astype(np.int32)
    top = 2 ** (8 * word - 1)
    values = rng.integers(
        -top, top - 1, items.size * layout.width + layout.n_weights, endpoint=True
    )
    data = form.message(1, 2, items, values).to_bytes()
    assert len(data) == form.size(items.size)
    back = form.read(data, 1, 2)
    assert np.array_equal(back[0], items)
    assert np.array_equal(back[1], values)
    assert [part.dtype.name for part in back] == ["int32", "int64"]


def test_long_uploads_are_packed_piece_by_piece() -> None:
    form = UploadFormat(SESSION, Layout(2, 40_000, 1), 5)
    values = np.arange(-40_000, 40_001) * 2**15
    data = form.message(0, 0, np.array([0, 1], dtype=np.int32), values).to_bytes()
    assert np.array_equal(form.read(data, 0, 0)[1], values)


def test_a_value_beyond_its_word_is_the_nearest_that_fits() -> None:
    values = np.array([2**23, -(2**23) - 1, 2**62, -(2**62), 0, 0, 0, 0, 1])
    read = FORMAT.read(message(values=values).to_bytes(), 5, 9)[1]
    assert read.tolist() == [2**23 - 1, -(2**23), 2**23 - 1, -(2**23), 0, 0, 0, 0, 1]


@pytest.mark.parametrize(
    ("reach", "word"),
    [(0, 1), (127, 1), (128, 2), (2**15 - 1, 2), (2**20, 3), (2**23, 4), (2**39, 6), (2**70, 8)],
)
def test_a_word_holds_its_reach(reach: int, word: int) -> None:
    assert word_for(reach) == word


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        pytest.param(b"", "no upload", id="nothing"),
        pytest.param(message().to_bytes()[:-1], "no upload", id="cut off"),
        pytest.param(message().to_bytes() + b"\0", "no upload", id="a byte more"),
        pytest.param(bytes(10_000), "no upload", id="too long"),
        pytest.param(message(client=4).to_bytes(), "another round", id="another client"),
        pytest.param(message(round_=8).to_bytes(), "another round", id="another round"),
        pytest.param(
            UploadFormat(bytes(16), FORMAT.layout, 3).message(5, 9, ITEMS, VALUES).to_bytes(),
            "another round",
            id="another session",
        ),
        pytest.param(message(values=VALUES[:-1]).to_bytes(), "24 bytes for 9 values", id="short"),
        pytest.param(message(items=ITEMS[:-1]).to_bytes(), "27 bytes for 7 values", id="item"),
        pytest.param(message(items=ITEMS + 1).to_bytes(), "below 7", id="no such item"),
        pytest.param(message(items=ITEMS[::-1]).to_bytes(), "rising", id="falling"),
        pytest.param(message(items=ITEMS * 0).to_bytes(), "distinct", id="repeated"),
        pytest.param(
            GradientUpload(SESSION, bytes(8), bytes(5), bytes(9)).to_bytes(),
            "no upload",
            id="half an item",
        ),
    ],
)
def test_anything_else_is_refused_and_names_the_client(data: bytes, problem: str) -> None:
    with pytest.raises(PeerError, match=problem) as caught:
        FORMAT.read(data, 5, 9)
    assert caught.value.party == 5


@given(st.binary(max_size=120))
def test_arbitrary_bytes_raise_only_a_wire_error(data: bytes) -> None:
    for candidate in (data, b"\x01" + data, message().to_bytes()[: len(data)] + data):
        try:
            again = GradientUpload.from_bytes(candidate).to_bytes()
        except WireError:
            continue
        assert again == candidate


@pytest.mark.parametrize(
    ("session", "route"), [(bytes(15), bytes(8)), (SESSION, bytes(7)), (SESSION, bytes(9))]
)
def test_fields_of_the_wrong_size_are_refused(session: bytes, route: bytes) -> None:
    with pytest.raises(ParameterError):
        GradientUpload(session, route, b"", b"")


def test_a_repr_shows_no_gradient() -> None:
    assert repr(message()) == (
        "GradientUpload(session=<16 bytes>, route=<8 bytes>, items=<12 bytes>, values=<27 bytes>)"
    )
