"""Messages and bytes are exact inverses, and any other bytes raise WireError and nothing else."""

import importlib
import pkgutil
from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mpc.core.errors import ParameterError
from mpc.core.wire import VERSION, Message
from tests.mpc.core.messages import GOOD, Even, Outer, Sample, assert_bare, decode, encoded, refuse
from tests.support.faults import append, flip_bit, flips, truncations
from tests.support.vectors import cases

uint64 = st.integers(0, 2**64 - 1)
samples = st.builds(
    Sample,
    uint64,
    st.binary(max_size=300),
    st.lists(st.tuples(uint64, st.binary(max_size=8)), max_size=20).map(tuple),
    st.text(max_size=40),
)
outers = st.builds(Outer, samples, st.tuples(uint64, uint64))


# --- inverses


@given(samples | outers)
def test_bytes_give_the_message_back(message: Message) -> None:
    data = message.to_bytes()
    assert type(data) is bytes
    assert data[0] == VERSION
    back = type(message).from_bytes(data)
    assert back == message
    assert type(back) is type(message)
    assert back.to_bytes() == data
    assert type(message).from_bytes(bytearray(data)) == message  # type: ignore[arg-type]
    assert type(message).from_bytes(memoryview(data)) == message  # type: ignore[arg-type]


@pytest.mark.parametrize("case", cases("transcripts", "messages"), ids=lambda case: case["name"])
def test_bytes_equal_the_independent_transcript(case: dict[str, Any]) -> None:
    entries = tuple((number, bytes.fromhex(value)) for number, value in case["entries"])
    message = Sample(case["number"], bytes.fromhex(case["payload"]), entries, case["name"])
    assert message.to_bytes().hex() == case["bytes"]
    assert Sample.from_bytes(bytes.fromhex(case["bytes"])) == message


@pytest.mark.parametrize(
    "number", [0, 127, 128, 255, 256, 2**16, 2**32, 2**63 - 1, 2**63, 2**64 - 1]
)
def test_integers_up_to_64_bits_pass_whole(number: int) -> None:
    back = Sample.from_bytes(Sample(number, b"").to_bytes())
    assert type(back.number) is int
    assert back.number == number


@pytest.mark.parametrize(
    "message",
    [
        Sample(2**64, b""),
        Sample(-1, b""),
        Sample(-(2**63), b""),
        Sample(-(2**63) - 1, b""),
        Sample(10**5000, b""),
        Sample(0, b"", ((1, b""), (-1, b""))),
        Outer(Sample(0, b""), (0, -1)),
        Outer(Sample(-1, b""), (0, 0)),
        Sample(0, b"", (), "\ud800"),
        Sample(0, b"", ((object(), b""),)),  # type: ignore[arg-type]
    ],
    ids=lambda _: "",
)
def test_a_field_without_a_form_on_the_wire_is_refused_by_its_owner(message: Message) -> None:
    with pytest.raises(
        ParameterError, match=r"cannot be encoded .*integers in \[0, 2\^64\)"
    ) as caught:
        message.to_bytes()
    assert_bare(caught.value)


# --- fuzz


@given(st.binary(max_size=200))
def test_arbitrary_bytes_raise_wire_error_or_are_canonical(data: bytes) -> None:
    for candidate in (data, bytes([VERSION]) + data):
        for kind in (Sample, Outer, Even):
            decode(kind, candidate)


values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats()
    | st.text(max_size=5)
    | st.binary(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner, max_size=3)
    ),
    max_leaves=8,
)


@given(st.lists(values, max_size=6), st.sampled_from(["Sample", "Other", "Outer", "Even", ""]))
def test_well_formed_msgpack_of_other_types_raises_wire_error(fields: list[Any], tag: str) -> None:
    data = encoded(*fields, tag=tag)
    for kind in (Sample, Outer, Even):
        message = decode(kind, data)
        assert message is None or tag == kind.__name__


@given(samples | outers, st.data())
def test_mutated_messages_raise_wire_error_or_are_another_message(
    message: Message, data: st.DataObject
) -> None:
    valid = message.to_bytes()
    at = data.draw(st.integers(0, len(valid) - 1))
    changes = [
        flip_bit(valid, data.draw(st.integers(0, 8 * len(valid) - 1))),
        valid[:at] + data.draw(st.binary(min_size=1, max_size=4)) + valid[at:],
        valid[:at] + valid[at + 1 :],
    ]
    for changed in changes:
        other = decode(type(message), changed)
        assert (other == message) == (changed == valid)


def test_every_flipped_bit_gives_an_error_or_another_message() -> None:
    message = Sample.from_bytes(GOOD)
    others = [decode(Sample, changed) for changed in flips(GOOD)]
    assert message not in others
    assert 0 < others.count(None) < len(others)


def test_every_truncation_and_every_tail_is_refused() -> None:
    for short in truncations(GOOD):
        refuse(short)
    for tail in (b"\x00", b"\xc0", GOOD, GOOD[1:]):
        refuse(append(GOOD, tail))


# --- messages as objects


def test_messages_are_frozen_and_hashable() -> None:
    message = Sample(1, b"")
    with pytest.raises(AttributeError):
        message.number = 2  # type: ignore[misc]
    assert len({message, Sample(1, b""), Sample(2, b"")}) == 2


def test_no_two_messages_of_the_packages_share_a_tag() -> None:
    """The tag is the class's name, and a tag of two meanings would be no tag."""
    for package in ("mpc", "ldp", "secagg"):
        path = importlib.import_module(package).__path__
        for module in pkgutil.walk_packages(path, f"{package}."):
            importlib.import_module(module.name)

    def below(kind: type[Message]) -> list[type[Message]]:
        return [kind, *(deeper for child in kind.__subclasses__() for deeper in below(child))]

    ours = {k for k in below(Message) if k.__module__.split(".")[0] in {"mpc", "ldp", "secagg"}}
    tags = Counter(kind.__struct_config__.tag for kind in ours)
    assert max(tags.values()) == 1
