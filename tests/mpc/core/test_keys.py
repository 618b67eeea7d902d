"""Agreement, derivation and sealing: known answers, labels that never collide, what is refused."""

import copy
import hmac
import pickle
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mpc.core.errors import ParameterError, StateError, WireError
from mpc.core.keys import (
    KEY_BYTES,
    PUBLIC_BYTES,
    TAG_BYTES,
    KeyPair,
    SealingKey,
    derive,
    hkdf,
    label,
    open_sealed,
)
from mpc.core.prg import Prg
from tests.support.faults import append, flips, truncations
from tests.support.vectors import cases

KEY = bytes(range(32))
PRIME = 2**255 - 19

parts = st.lists(st.binary(max_size=12) | st.integers(0, 2**64 - 1), max_size=4)


def unhex(part: str | int) -> bytes | int:
    return part if isinstance(part, int) else bytes.fromhex(part)


# --- labels and derivation


@pytest.mark.parametrize(
    "case", cases("transcripts", "labels"), ids=lambda case: case["label"][:60]
)
def test_labels_and_derived_keys_equal_the_independent_transcript(case: dict[str, Any]) -> None:
    context = [unhex(part) for part in case["context"]]
    assert label(case["purpose"], *context).hex() == case["label"]
    assert derive(KEY, case["purpose"], *context, length=40).hex() == case["derived"]


@given(st.text(max_size=8), parts, st.text(max_size=8), parts)
def test_two_labels_are_equal_only_if_all_their_parts_are(
    one: str, first: list[bytes | int], other: str, second: list[bytes | int]
) -> None:
    same = (one, first) == (other, second)
    assert (label(one, *first) == label(other, *second)) == same


def unlabel(encoded: bytes) -> tuple[str, list[bytes | int]]:
    """Reads a label back: an encoding that can be read back has no two sources."""
    found = []
    while encoded:
        size = int.from_bytes(encoded[:4], "big")
        found.append(encoded[4 : 4 + size])
        encoded = encoded[4 + size :]
    scheme, purpose, *context = found
    assert scheme == b"privrec/1"
    return purpose.decode(), [
        int.from_bytes(part[1:], "big") if part[:1] == b"i" else part[1:] for part in context
    ]


@given(st.text(max_size=8), parts)
def test_a_label_can_be_read_back(purpose: str, context: list[bytes | int]) -> None:
    assert unlabel(label(purpose, *context)) == (purpose, context)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (("ab", b"c"), ("a", b"bc")),
        (("a", b"b", b"c"), ("a", b"bc")),
        (("a", b""), ("a",)),
        (("a", 7), ("a", (7).to_bytes(8, "big"))),
        (("a", 0), ("a", b"")),
        (("a", 1, 2), ("a", 2, 1)),
        (("a", 258), ("a", 1, 2)),
    ],
    ids=str,
)
def test_borders_and_kinds_of_parts_count(one: Any, other: Any) -> None:
    assert label(*one) != label(*other)
    assert derive(KEY, *one) != derive(KEY, *other)


@pytest.mark.parametrize("part", [-1, 2**64, 1.0, True, None, "text", bytearray(2)])
def test_a_part_that_has_no_encoding_is_refused(part: Any) -> None:
    with pytest.raises(ParameterError, match="an integer in a label must"):
        label("purpose", part)


def test_numpy_integers_count_as_integers() -> None:
    assert label("a", np.uint32(7)) == label("a", 7)  # type: ignore[arg-type]


@pytest.mark.parametrize("case", cases("rfc5869"), ids=lambda case: case["case"])
def test_hkdf_is_that_of_rfc_5869(case: dict[str, Any]) -> None:
    ikm, salt, info = (bytes.fromhex(case[name]) for name in ("ikm", "salt", "info"))
    assert hkdf(ikm, info=info, salt=salt, length=case["length"]).hex() == case["okm"]
    if not salt:
        assert hkdf(ikm, info=info, length=case["length"]).hex() == case["okm"]


@given(st.binary(min_size=32, max_size=32), parts, st.integers(1, 100))
def test_derive_is_the_expand_step_of_hkdf(
    key: bytes, context: list[bytes | int], length: int
) -> None:
    info, blocks, block = label("purpose", *context), b"", b""
    for number in range(1, 5):
        block = hmac.digest(key, block + info + bytes([number]), "sha256")
        blocks += block
    assert derive(key, "purpose", *context, length=length) == blocks[:length]


@pytest.mark.parametrize("length", [0, -1, 255 * 32 + 1, 1.5, True])
@pytest.mark.parametrize(
    "call",
    [lambda n: derive(KEY, "a", length=n), lambda n: hkdf(KEY, info=b"", length=n)],
    ids=["derive", "hkdf"],
)
def test_a_length_that_hkdf_cannot_give_is_refused(
    call: Callable[[Any], bytes], length: Any
) -> None:
    with pytest.raises(ParameterError, match="length must"):
        call(length)


@pytest.mark.parametrize("key", [b"", bytes(31), bytes(33), "k" * 32, bytearray(32), None])
def test_a_key_of_another_size_or_kind_is_refused_everywhere(key: Any) -> None:
    for call in (
        lambda k: derive(k, "a"),
        KeyPair,
        SealingKey,
        lambda k: open_sealed(k, bytes(16)),
    ):
        with pytest.raises(ParameterError, match="must be 32 bytes"):
            call(key)


# --- agreement


@pytest.mark.parametrize("case", cases("rfc7748", "exchange"), ids=lambda case: case["scalar"][:8])
def test_exchange_is_x25519_of_rfc_7748(case: dict[str, str]) -> None:
    pair = KeyPair(bytes.fromhex(case["scalar"]))
    assert pair.exchange(bytes.fromhex(case["point"])).hex() == case["result"]


def test_exchange_iterated_as_in_rfc_7748() -> None:
    want = {case["count"]: case["result"] for case in cases("rfc7748", "iterated")}
    scalar = point = (9).to_bytes(32, "little")
    for count in range(1, max(want) + 1):
        scalar, point = KeyPair(scalar).exchange(point), scalar
        if count in want:
            assert scalar.hex() == want.pop(count)
    assert not want


@pytest.mark.parametrize("case", cases("rfc7748", "agreement"))
def test_key_pairs_are_those_of_rfc_7748(case: dict[str, str]) -> None:
    a, b = (KeyPair(bytes.fromhex(case[f"private_{name}"])) for name in "ab")
    assert (a.public.hex(), b.public.hex()) == (case["public_a"], case["public_b"])
    assert a.exchange(b.public).hex() == b.exchange(a.public).hex() == case["shared"]
    assert a.private_bytes().hex() == case["private_a"]


@pytest.mark.parametrize("case", cases("transcripts", "agreements"), ids=lambda c: c["public"][:8])
def test_agreed_keys_equal_the_independent_transcript(case: dict[str, Any]) -> None:
    pair, peer = (KeyPair(bytes.fromhex(case[name])) for name in ("private", "peer_private"))
    assert (pair.public.hex(), peer.public.hex()) == (case["public"], case["peer_public"])
    context = [unhex(part) for part in case["context"]]
    for one, other in ((pair, peer), (peer, pair)):
        assert one.agree(other.public, case["purpose"], *context).hex() == case["key"]


@pytest.mark.parametrize("case", cases("rfc7748", "low_order"), ids=lambda case: case["what"])
@pytest.mark.parametrize("top", [0, 0x80], ids=["", "top bit set"])
def test_points_of_low_order_are_refused(case: dict[str, str], top: int) -> None:
    point = bytearray.fromhex(case["point"])
    point[-1] |= top  # X25519 ignores this bit, so each point has twice as many spellings
    pair = KeyPair(KEY)
    with pytest.raises(WireError, match="low order"):
        pair.exchange(bytes(point))
    with pytest.raises(WireError, match="low order"):
        pair.agree(bytes(point), "mask")


def test_our_own_key_is_refused_in_every_spelling() -> None:
    pair = KeyPair(KEY)
    with pytest.raises(WireError, match="our own"):
        pair.agree(pair.public, "mask")
    number = int.from_bytes(pair.public, "little")
    assert number < PRIME
    with pytest.raises(WireError, match="not reduced"):
        pair.agree((number | 1 << 255).to_bytes(32, "little"), "mask")


def test_a_second_spelling_of_a_point_is_refused() -> None:
    """Of the numbers in [p, 2^255), 2 + p and more are points of no low order."""
    pair = KeyPair(KEY)
    for second in range(2, 19):
        once, again = (n.to_bytes(32, "little") for n in (second, PRIME + second))
        assert pair.exchange(once) == pair.exchange(again)
        assert pair.agree(once, "mask")
        with pytest.raises(WireError, match="not reduced modulo"):
            pair.agree(again, "mask")


@pytest.mark.parametrize(
    "peer", [b"", bytes(31), bytes(33), "p" * 32, bytearray(b"9" * 32), None, 9]
)
def test_a_public_key_of_another_size_or_kind_is_refused(peer: Any) -> None:
    pair = KeyPair(KEY)
    calls: list[Callable[[], bytes]] = [
        lambda: pair.exchange(peer),
        lambda: pair.agree(peer, "mask"),
    ]
    for call in calls:
        with pytest.raises(WireError, match=f"a public key is {PUBLIC_BYTES} bytes"):
            call()


@given(st.binary(min_size=32, max_size=32), st.binary(min_size=32, max_size=32), parts)
def test_both_ends_agree_and_every_part_of_the_label_counts(
    one: bytes, other: bytes, context: list[bytes | int]
) -> None:
    a, b = KeyPair(one), KeyPair(other)
    if a.public == b.public:
        return
    key = a.agree(b.public, "mask", *context)
    assert key == b.agree(a.public, "mask", *context)
    assert len(key) == KEY_BYTES
    assert key not in {
        a.agree(b.public, "seal", *context),
        a.agree(b.public, "mask", *context, 0),
        a.exchange(b.public),
        hkdf(a.exchange(b.public), info=label("mask", *context)),  # without the public keys
    }


def test_generate_takes_its_private_half_from_the_rng() -> None:
    pair = KeyPair.generate(Prg(KEY))
    assert pair.private_bytes() == Prg(KEY).bytes(KEY_BYTES)
    assert KeyPair.generate().public != KeyPair.generate().public


def test_a_key_pair_is_neither_pickled_nor_copied() -> None:
    for escape in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(TypeError, match="not picklable"):
            escape(KeyPair(KEY))


# --- sealing


@pytest.mark.parametrize("case", cases("gcm_zero_nonce"), ids=lambda case: case["case"])
def test_sealing_is_aes_256_gcm(case: dict[str, str]) -> None:
    key, plaintext, associated = (
        bytes.fromhex(case[name]) for name in ("key", "plaintext", "associated")
    )
    assert SealingKey(key).seal(plaintext, associated).hex() == case["sealed"]
    assert open_sealed(key, bytes.fromhex(case["sealed"]), associated) == plaintext


@pytest.mark.parametrize("case", cases("transcripts", "seals"))
def test_a_sealed_message_equals_the_independent_transcript(case: dict[str, str]) -> None:
    key, plaintext, associated = (
        bytes.fromhex(case[name]) for name in ("key", "plaintext", "associated")
    )
    assert SealingKey(key).seal(plaintext, associated).hex() == case["sealed"]


@given(st.binary(min_size=32, max_size=32), st.binary(max_size=100), st.binary(max_size=20))
def test_what_is_sealed_opens_and_grows_by_the_tag(
    key: bytes, plaintext: bytes, associated: bytes
) -> None:
    sealed = SealingKey(key).seal(plaintext, associated)
    assert len(sealed) == len(plaintext) + TAG_BYTES
    assert open_sealed(key, sealed, associated) == plaintext


def test_every_change_of_a_sealed_message_is_refused() -> None:
    sealed = SealingKey(KEY).seal(b"share", b"1->2")
    longer = append(sealed)
    for changed in [*flips(sealed), *truncations(sealed), longer]:
        with pytest.raises(WireError, match="does not authenticate"):
            open_sealed(KEY, changed, b"1->2")
    for key in flips(KEY):
        with pytest.raises(WireError):
            open_sealed(key, sealed, b"1->2")
    for associated in [*flips(b"1->2"), *truncations(b"1->2"), b"1->2\x00"]:
        with pytest.raises(WireError):
            open_sealed(KEY, sealed, associated)


def test_a_sealing_key_serves_once() -> None:
    key = SealingKey(KEY)
    key.seal(b"first")
    for _ in range(2):
        with pytest.raises(StateError, match=r"served its one message.*derive a key"):
            key.seal(b"second")


def test_a_sealing_key_that_failed_has_served() -> None:
    key = SealingKey(KEY)
    with pytest.raises(TypeError):
        key.seal("no bytes")  # type: ignore[arg-type]
    with pytest.raises(StateError):
        key.seal(b"again")


def test_one_of_many_threads_seals() -> None:
    key, start = SealingKey(KEY), threading.Barrier(8)
    done: list[str] = []

    def work() -> None:
        start.wait()
        try:
            key.seal(b"mine")
            done.append("sealed")
        except StateError:
            done.append("refused")

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(done) == ["refused"] * 7 + ["sealed"]


def test_a_sealing_key_is_neither_pickled_nor_copied() -> None:
    """A copy would serve a second time under the one nonce."""
    for escape in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(TypeError, match="serves once"):
            escape(SealingKey(KEY))
