"""Item ids as bytes: no collisions between types, exactly m after padding, fair samples."""

import unicodedata
from fractions import Fraction
from math import comb

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mpc.core.errors import ParameterError
from mpc.core.rng import SYSTEM_RNG
from mpc.matching.items import ItemSet, choose, encode_id, padded_inputs
from tests.support.walk import walk

SESSION = bytes(range(32))
IDS = (
    st.integers(-(2**70), 2**70)
    | st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
    | st.binary(max_size=20)
)


def form(item: int | str | bytes) -> tuple[str, object]:
    """What two equal items have in common: type, and value up to the form of the text."""
    return (type(item).__name__, _composed(item) if isinstance(item, str) else item)


def _composed(text: str) -> str:
    return unicodedata.normalize("NFC", text)


@given(IDS, IDS)
def test_encodings_are_equal_exactly_for_equal_items_of_one_type(
    first: int | str | bytes, second: int | str | bytes
) -> None:
    assert (encode_id(first) == encode_id(second)) == (form(first) == form(second))


def test_the_number_five_its_text_and_its_byte_are_three_items() -> None:
    assert len({encode_id(5), encode_id("5"), encode_id(b"5"), encode_id(b"\x05")}) == 4


@pytest.mark.parametrize("kind", [np.int64, np.uint8, np.int16])
def test_integers_of_numpy_are_integers(kind: type[np.integer]) -> None:
    assert encode_id(kind(5)) == encode_id(5)


def test_texts_are_compared_after_composition() -> None:
    assert encode_id("caf\u00e9") == encode_id("cafe\u0301")
    assert encode_id("caf\u00e9") != encode_id("cafe")


@pytest.mark.parametrize("item", [True, np.True_, 5.0, None, (5,), np.array([5])])
def test_what_is_no_id_is_refused(item: object) -> None:
    with pytest.raises(ParameterError, match="item id must be an integer, str or bytes"):
        encode_id(item)  # type: ignore[arg-type]


@pytest.mark.parametrize("item", ["x" * 1025, b"x" * 1025, 1 << 8200, "\u00e9" * 513])
def test_a_long_id_is_refused(item: int | str | bytes) -> None:
    with pytest.raises(ParameterError, match="at most 1024 bytes"):
        encode_id(item)


def test_the_longest_ids_are_taken() -> None:
    assert len(encode_id("x" * 1024)) == len(encode_id(b"x" * 1024)) == 1025


def test_no_refusal_quotes_the_id() -> None:
    for item in ("secret\ud800", "secret" * 500):
        with pytest.raises(ParameterError) as refusal:
            encode_id(item)
        assert "secret" not in str(refusal.value)
        assert refusal.value.__cause__ is None
        assert refusal.value.__context__ is None


def test_repeats_are_counted_and_removed() -> None:
    chosen = choose([5, 7, 5, "5", np.int32(7)], 4)
    assert set(chosen.encoded) == {encode_id(5), encode_id(7), encode_id("5")}
    assert (chosen.duplicates, chosen.left_out) == (2, 0)


def test_more_than_m_items_are_refused_or_sampled() -> None:
    with pytest.raises(ParameterError, match="at most 3 items, got 4"):
        choose([1, 2, 3, 4, 4], 3)
    chosen = choose([1, 2, 3, 4, 4], 3, excess="sample")
    assert (len(chosen.encoded), chosen.duplicates, chosen.left_out) == (3, 1, 1)
    assert set(chosen.encoded) <= {encode_id(i) for i in range(1, 5)}


def test_every_subset_is_equally_likely_in_a_sample() -> None:
    law, left = walk(lambda rng: choose(range(5), 2, excess="sample", rng=rng).encoded)
    assert left == 0
    assert len(law) == comb(5, 2)
    assert set(law.values()) == {Fraction(1, comb(5, 2))}


def test_the_order_of_the_ids_leaves_no_trace() -> None:
    assert choose([3, "a", 1, b"z"], 4) == choose([b"z", 1, "a", 3], 4)


@pytest.mark.parametrize("items", ["ab", b"ab"])
def test_a_single_id_is_no_collection(items: str | bytes) -> None:
    with pytest.raises(ParameterError, match="collection of ids"):
        choose(items, 3)


@pytest.mark.parametrize("m", [0, -1, 1 << 17, True, 2.0])
def test_m_is_checked(m: int) -> None:
    with pytest.raises(ParameterError, match="m must"):
        choose([1], m)


def test_an_unknown_way_with_excess_is_refused() -> None:
    with pytest.raises(ParameterError, match="excess must be"):
        choose([1], 3, excess="drop")  # type: ignore[arg-type]


@given(st.sets(IDS, max_size=6), st.integers(6, 9))
def test_padding_gives_exactly_m_distinct_inputs(items: set[int | str | bytes], m: int) -> None:
    inputs = padded_inputs(choose(items, m), m, SESSION)
    assert len(inputs) == len(set(inputs)) == m


def test_dummies_are_fresh_and_no_items_input() -> None:
    nothing = choose([], 50)
    first, second = (padded_inputs(nothing, 50, SESSION) for _ in range(2))
    assert not set(first) & set(second)
    fresh = bytes(32)
    disguised = ItemSet((fresh,), 0, 0)
    assert padded_inputs(disguised, 1, SESSION) != padded_inputs(nothing, 1, SESSION, rng=Zeros())


class Zeros(type(SYSTEM_RNG)):  # type: ignore[misc]
    """All dummies of the same bytes."""

    def bytes(self, n: int) -> bytes:
        return bytes(n)


def test_inputs_of_two_sessions_differ() -> None:
    chosen = choose([5, 7], 2)
    here, there = (set(padded_inputs(chosen, 2, session)) for session in (SESSION, bytes(32)))
    assert not here & there


def test_too_many_items_for_the_padding_are_refused() -> None:
    with pytest.raises(ParameterError, match="do not fit"):
        padded_inputs(choose([1, 2, 3], 3), 2, SESSION)


def test_no_item_and_no_count_appears_in_a_repr() -> None:
    assert repr(choose(["secret", "secret"], 3)) == "ItemSet()"
