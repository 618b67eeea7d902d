"""The hashes of the ciphersuite: known answers, separation of uses, keys from seeds, refusals."""

import dataclasses
import hashlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mpc.core.errors import ParameterError
from mpc.oprf_suite import (
    MAX_INPUT_BYTES,
    OPRF,
    VOPRF,
    Suite,
    expand_message_xmd,
    prefixed,
)
from tests.mpc.oprf_groups import ToyGroup
from tests.support.vectors import cases, load

TAG = load("rfc9380")["dst"].encode()
SEED = bytes(range(32))
TOY = Suite(1, ToyGroup())


@pytest.mark.parametrize(
    "case", cases("rfc9380"), ids=lambda c: f"{len(c['message'])}-{c['length']}"
)
def test_expansion_is_that_of_rfc_9380(case: dict[str, Any]) -> None:
    expanded = expand_message_xmd(case["message"].encode(), TAG, case["length"])
    assert expanded.hex() == case["uniform_bytes"]


@given(st.binary(max_size=300), st.binary(min_size=1, max_size=255), st.integers(1, 300))
def test_expansion_gives_the_length_that_was_asked(message: bytes, tag: bytes, length: int) -> None:
    assert len(expand_message_xmd(message, tag, length)) == length


@pytest.mark.parametrize("length", [0, -1, 255 * 64 + 1, True, 1.5])
def test_a_length_that_expansion_cannot_give_is_refused(length: Any) -> None:
    with pytest.raises(ParameterError, match="length must"):
        expand_message_xmd(b"", TAG, length)


@pytest.mark.parametrize("tag", [b"", bytes(256)], ids=len)
def test_a_tag_of_a_wrong_size_is_refused(tag: bytes) -> None:
    with pytest.raises(ParameterError, match="length of a tag must"):
        expand_message_xmd(b"", tag, 64)


def test_context_strings_are_those_of_rfc_9497() -> None:
    assert OPRF.context == b"OPRFV1-\x00-ristretto255-SHA512"
    assert VOPRF.context == b"OPRFV1-\x01-ristretto255-SHA512"


@pytest.mark.parametrize("case", cases("rfc9497"), ids=lambda c: c["identifier"])
def test_the_suites_are_those_of_the_vectors(case: dict[str, Any]) -> None:
    identifier = case["identifier"].encode()
    assert Suite(case["mode"]).context.endswith(bytes([case["mode"]]) + b"-" + identifier)


@pytest.mark.parametrize("mode", [-1, 2, 256, True, None, "1"])
def test_another_mode_is_refused(mode: Any) -> None:
    with pytest.raises(ParameterError, match="mode must"):
        Suite(mode)


def test_no_two_uses_and_no_two_modes_share_a_hash() -> None:
    data = b"the same data"
    to_scalar = [suite.hash_to_scalar(data) for suite in (OPRF, VOPRF)]
    keys = [suite.derive_scalar(SEED, b"") for suite in (OPRF, VOPRF)]
    as_key = [suite.hash_to_scalar(SEED + prefixed(b"") + b"\x00") for suite in (OPRF, VOPRF)]
    assert len({*to_scalar, *keys, *as_key}) == 6
    assert OPRF.hash_to_group(data) != VOPRF.hash_to_group(data)


def test_outputs_hash_input_and_element_with_their_lengths() -> None:
    element = bytes(range(32))
    transcript = b"\x00\x03abc" + b"\x00\x20" + element + b"Finalize"
    assert VOPRF.output(b"abc", element) == hashlib.sha512(transcript).digest()


@given(st.lists(st.binary(max_size=5), max_size=3), st.lists(st.binary(max_size=5), max_size=3))
def test_prefixes_keep_lists_apart(one: list[bytes], other: list[bytes]) -> None:
    same = b"".join(map(prefixed, one)) == b"".join(map(prefixed, other))
    assert same == (one == other)


@pytest.mark.parametrize("data", [b"", bytes(MAX_INPUT_BYTES)], ids=len)
def test_inputs_of_all_lengths_that_fit_have_an_element(data: bytes) -> None:
    assert VOPRF.input_element(data) == VOPRF.hash_to_group(data)


@pytest.mark.parametrize("data", ["text", bytearray(3), None, 7])
def test_an_input_that_is_no_bytes_is_refused(data: Any) -> None:
    with pytest.raises(ParameterError, match="must be bytes"):
        VOPRF.input_element(data)


def test_an_input_that_does_not_fit_its_length_field_is_refused_without_being_shown() -> None:
    with pytest.raises(ParameterError, match=r"65536 bytes.*hash it first") as refusal:
        VOPRF.input_element(b"secret" + bytes(MAX_INPUT_BYTES - 5))
    assert "secret" not in str(refusal.value)


def test_an_input_whose_element_is_the_identity_is_refused_without_being_shown() -> None:
    # In a group of 31 elements such inputs are easy to find.
    data = next(
        bytes([n]) for n in range(256) if TOY.hash_to_group(bytes([n])) == TOY.group.identity
    )
    with pytest.raises(ParameterError, match="identity") as refusal:
        TOY.input_element(data)
    assert data.hex() not in str(refusal.value)


def test_a_derived_key_is_never_zero() -> None:
    # A key that the first try makes zero, one time in 31, comes from the second.
    tag = b"DeriveKeyPair" + TOY.context
    tries = []
    for n in range(256):
        data = SEED + prefixed(bytes([n]))
        counted = (
            TOY.group.reduce(expand_message_xmd(data + bytes([counter]), tag, 64))
            for counter in range(256)
        )
        tries.append(next((i, key) for i, key in enumerate(counted) if any(key)))
        assert TOY.derive_scalar(SEED, bytes([n])) == tries[-1][1]
    assert {count for count, _ in tries} >= {0, 1}


def test_a_seed_that_gives_no_key_is_refused() -> None:
    class NothingButZero(ToyGroup):
        def reduce(self, data: bytes) -> bytes:
            return b"\x00"

    with pytest.raises(ParameterError, match="gives no key"):
        Suite(1, NothingButZero()).derive_scalar(SEED, b"")


@pytest.mark.parametrize("seed", [b"", bytes(31), bytes(33), bytearray(32), "s" * 32, None])
def test_a_seed_of_another_size_or_kind_is_refused(seed: Any) -> None:
    with pytest.raises(ParameterError, match="seed must be 32 bytes"):
        VOPRF.derive_scalar(seed, b"")


@pytest.mark.parametrize("info", [bytes(65536), "text", None], ids=["65536", "text", "None"])
def test_an_info_that_does_not_fit_is_refused(info: Any) -> None:
    with pytest.raises(ParameterError, match="info must be at most 65535 bytes"):
        VOPRF.derive_scalar(SEED, info)


def test_a_suite_cannot_be_changed() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        VOPRF.mode = 0  # type: ignore[misc]
