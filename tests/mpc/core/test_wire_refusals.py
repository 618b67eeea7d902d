"""Each way in which bytes can fail to be a message, and how little the refusal says."""

import tracemalloc
from typing import Any

import msgspec
import pytest

from mpc.core.errors import ParameterError, WireError
from mpc.core.wire import MAX_BYTES, VERSION
from tests.mpc.core.messages import GOOD, SECRET, Even, Sample, encoded, refuse


@pytest.mark.parametrize(
    "data",
    [
        b"",
        bytes([VERSION]),
        encoded(7, b"", [], "", version=0),
        encoded(7, b"", [], "", version=2),
        encoded(7, b"", [], "", version=255),
        GOOD[1:],
        encoded(7, b"", [], "", tag="Other"),
        encoded(7, b"", [], "", tag=""),
        encoded(7, b"", [], "", tag="sample"),
        bytes([VERSION]) + msgspec.msgpack.encode([7, b"", [], ""]),
        bytes([VERSION]) + msgspec.msgpack.encode([0, 7, b"", [], ""]),
        bytes([VERSION]) + msgspec.msgpack.encode({"type": "Sample", "number": 7, "payload": b""}),
        bytes([VERSION]) + msgspec.msgpack.encode(None),
        encoded(7, b"", [], "", 1),
        encoded(7, b"", [], "", None),
        encoded(7),
        encoded(7, b""),
        encoded(7, b"", []),
    ],
    ids=lambda data: data.hex(" "),
)
def test_another_version_tag_or_number_of_fields_is_refused(data: bytes) -> None:
    refuse(data)


@pytest.mark.parametrize(
    "number",
    [7.0, 7.5, float("nan"), float("inf"), "7", b"7", True, None, [7], -1, -(2**63), {}],
    ids=repr,
)
def test_what_stands_in_place_of_an_integer_is_refused(number: Any) -> None:
    refuse(encoded(number, b"", [], ""))
    refuse(encoded(7, b"", [[number, b""]], ""))


@pytest.mark.parametrize("payload", ["text", None, 5, 1.0, [1, 2], [], {}], ids=repr)
def test_what_stands_in_place_of_bytes_is_refused(payload: Any) -> None:
    refuse(encoded(7, payload, [], ""))


@pytest.mark.parametrize(
    "entries",
    [None, 5, b"", "", {}, [1], [[1]], [[1, b"", 2]], [[b"", 1]], [{}], [[]]],
    ids=repr,
)
def test_what_stands_in_place_of_a_tuple_is_refused(entries: Any) -> None:
    refuse(encoded(7, b"", entries, ""))


HEAD = bytes([VERSION]) + b"\x95\xa6Sample"
TAIL = b"\xc4\x00\x90\xa0"  # an empty payload, no entries, an empty name


@pytest.mark.parametrize(
    "seven",
    ["cc07", "cd0007", "ce00000007", "cf0000000000000007", "d007", "d10007", "d200000007",
     "d30000000000000007"],
)  # fmt: skip
def test_integers_that_are_not_minimal_are_refused(seven: str) -> None:
    assert Sample.from_bytes(HEAD + b"\x07" + TAIL) == Sample(7, b"")
    error = refuse(HEAD + bytes.fromhex(seven) + TAIL)
    assert str(error) == "Sample is not in canonical form"


@pytest.mark.parametrize(
    "data",
    [
        HEAD + b"\x07\xc5\x00\x00\x90\xa0",  # bytes with a longer header than they need
        HEAD + b"\x07\xc6\x00\x00\x00\x00\x90\xa0",
        HEAD + b"\x07\xc4\x00\xdc\x00\x00\xa0",  # an array
        HEAD + b"\x07\xc4\x00\x90\xd9\x00",  # a string
        bytes([VERSION]) + b"\xdc\x00\x05\xa6Sample\x07" + TAIL,  # the message itself
        bytes([VERSION]) + b"\x95\xd9\x06Sample\x07" + TAIL,  # its tag
    ],
    ids=["bin16", "bin32", "array16", "str8", "message", "tag"],
)
def test_longer_headers_than_needed_are_refused(data: bytes) -> None:
    refuse(data)


@pytest.mark.parametrize(
    "name",
    ["a2ffff", "a2c328", "a3eda080", "a3edbfbf", "a4f0288cbc", "a2c080"],
    ids=["invalid", "cut", "surrogate", "surrogate", "overlong", "overlong zero"],
)
def test_text_that_is_not_utf_8_is_refused(name: str) -> None:
    refuse(HEAD + b"\x07\xc4\x00\x90" + bytes.fromhex(name))


@pytest.mark.parametrize(
    "data",
    [
        HEAD + b"\x07\xc6\xff\xff\xff\xff\x00",
        HEAD + b"\x07\xc4\x00\xdd\xff\xff\xff\xff\x90",
        HEAD + b"\x07\xc4\x00\x90\xdb\xff\xff\xff\xff",
        HEAD + b"\x07\xc4\x00" + b"\xdd\xff\xff\xff\xff" * 50,
        bytes([VERSION]) + b"\xdd\xff\xff\xff\xff\xa6Sample",
        bytes([VERSION]) + b"\x91" * 100_000,
        bytes([VERSION]) + b"\xdf\xff\xff\xff\xff",
        HEAD + b"\x07\xc4\x00" + b"\x91" * 100_000,
    ],
    ids=["bytes", "array", "string", "nested", "message", "deep", "map", "deep field"],
)
def test_huge_lengths_and_depths_cost_nothing(data: bytes) -> None:
    """A header that promises four thousand million entries makes nobody allocate them."""
    refuse(data)
    tracemalloc.start()
    try:
        for _ in range(2):  # the first call also pays for things kept for good
            tracemalloc.reset_peak()
            before, _peak = tracemalloc.get_traced_memory()
            refuse(data)
            _now, peak = tracemalloc.get_traced_memory()
        assert peak - before < 1_000_000
    finally:
        tracemalloc.stop()


def test_the_limit_is_checked_before_parsing(monkeypatch: pytest.MonkeyPatch) -> None:
    assert Sample.from_bytes(GOOD, limit=len(GOOD)) == Sample.from_bytes(GOOD)

    def parsed(*_: Any, **__: Any) -> None:
        raise AssertionError("parsed")

    monkeypatch.setattr(msgspec.msgpack, "decode", parsed)
    with pytest.raises(
        WireError, match=f"Sample of {len(GOOD)} bytes, at most {len(GOOD) - 1} exp"
    ):
        Sample.from_bytes(GOOD, limit=len(GOOD) - 1)
    assert MAX_BYTES == 2**30


@pytest.mark.parametrize("data", [None, 5, "text", [1, 2], 0.5])
def test_what_is_no_byte_string_is_the_callers_mistake(data: Any) -> None:
    with pytest.raises(ParameterError, match="data must be bytes"):
        Sample.from_bytes(data)


# --- what errors and reprs may say


def test_a_range_check_of_the_message_becomes_a_wire_error_without_its_text() -> None:
    with pytest.raises(ParameterError, match="number must be even"):
        Even(3)
    assert Even.from_bytes(Even(4).to_bytes()) == Even(4)
    error = refuse(encoded(3, SECRET, tag="Even"), Even)
    assert str(error) == "bytes do not decode to a Even"


@pytest.mark.parametrize(
    "data",
    [
        encoded("a secret share", b"", [], ""),
        encoded(7, "a secret share", [], ""),
        encoded(7, SECRET, [["a secret share", b""]], ""),
        encoded(7, SECRET, [], "", 0),
        encoded(7, SECRET, [], "", tag="a secret share"),
        encoded(7, SECRET),
        HEAD + b"\x07\xc4\x00\x90\xaf\xffa secret share",
        GOOD.replace(b"payload", b"a secret share"),
    ],
    ids=range(8),
)
def test_no_error_quotes_what_it_refused(data: bytes) -> None:
    error = refuse(data)
    shown = f"{error} {error!r} {error.args} {error.__dict__}"
    assert "secret" not in shown
    assert "secret" not in repr(error.__cause__) + repr(error.__context__)
