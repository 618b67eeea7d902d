"""Identities: signatures, and where public keys are found."""

import pickle
from pathlib import Path
from typing import Any

import pytest

from mpc.core.errors import ParameterError, WireError
from secagg.full.identity import (
    FileIdentities,
    Identity,
    MemoryIdentities,
    is_valid,
    keys_text,
    roster_hash,
    survivors_text,
)
from tests.secagg.full.world import CLIENTS, OTHER_SESSION, identities, identity, params
from tests.support.faults import flip_bit, truncate

# RFC 8032, section 7.1: secret key, public key, message, signature.
RFC_8032 = [
    (
        "9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60",
        "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a",
        "",
        "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e06522490155"
        "5fb8821590a33bacc61e39701cf9b46bd25bf5f0595bbe24655141438e7a100b",
    ),
    (
        "4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb",
        "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c",
        "72",
        "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da"
        "085ac1e43e15996e458f3613d0f11d8c387b2eaeb4302aeeb00d291612bb0c00",
    ),
]


@pytest.mark.parametrize(("secret", "public", "text", "signature"), RFC_8032)
def test_the_vectors_of_rfc_8032(secret: str, public: str, text: str, signature: str) -> None:
    key = Identity(bytes.fromhex(secret))
    assert key.public.hex() == public
    assert key.sign(bytes.fromhex(text)).hex() == signature
    known = MemoryIdentities({7: key.public})
    assert is_valid(known, 7, bytes.fromhex(text), bytes.fromhex(signature))
    assert key.private_bytes().hex() == secret


def test_signatures_of_others_on_others_or_damaged_are_not_valid() -> None:
    known, text = identities(), b"text"
    signature = identity(2).sign(text)
    assert is_valid(known, 2, text, signature)
    assert not is_valid(known, 5, text, signature)
    assert not is_valid(known, 3, text, signature)
    assert not is_valid(known, 2, b"other", signature)
    for bit in range(0, 512, 7):
        assert not is_valid(known, 2, text, flip_bit(signature, bit))
    for size in (0, 63):
        assert not is_valid(known, 2, text, truncate(signature, size))


def test_what_is_signed_belongs_to_one_round_and_purpose() -> None:
    one, keys = params(variant="malicious"), bytes(64)
    others = [
        params(),
        params(variant="malicious", round=8),
        params(variant="malicious", session=OTHER_SESSION),
        params(variant="malicious", threshold=4),
        params((1, *CLIENTS[1:]), variant="malicious"),
    ]
    texts = [keys_text(p, 2, keys) for p in (one, *others)]
    texts += [survivors_text(p, bytes(32), b"\x1f") for p in (one, *others)]
    texts += [keys_text(one, 5, keys), keys_text(one, 2, b"\1" * 64)]
    texts += [survivors_text(one, b"\1" * 32, b"\x1f"), survivors_text(one, bytes(32), b"\x0f")]
    texts += [roster_hash(one, b"\x1f", keys), roster_hash(one, b"\x0f", keys)]
    assert len(set(texts)) == len(texts)


def test_a_file_of_identities(tmp_path: Path) -> None:
    path = tmp_path / "identities"
    publics = {client: identity(client).public for client in CLIENTS}
    for known in (FileIdentities.write(path, publics), FileIdentities(path)):
        assert [known.public(client) for client in CLIENTS] == list(publics.values())
        assert known.public(3) is None
    data = path.read_bytes()
    for bit in range(0, 8 * len(data), 29):
        path.write_bytes(flip_bit(data, bit))
        with pytest.raises(WireError):
            FileIdentities(path)
    path.write_bytes(data[:-1])
    with pytest.raises(WireError):
        FileIdentities(path)


ONE = identity(1).public


@pytest.mark.parametrize(
    "publics",
    [{1: ONE, 2: ONE}, {1: ONE[:-1]}, {1: ONE.hex()}, {-1: ONE}, {2**32: ONE}, {True: ONE}],
    ids=["one key twice", "short", "text", "negative", "large", "bool"],
)
def test_bad_lists_are_refused(publics: Any, tmp_path: Path) -> None:
    with pytest.raises(ParameterError):
        MemoryIdentities(publics)
    with pytest.raises(ParameterError):
        FileIdentities.write(tmp_path / "identities", publics)
    assert not list(tmp_path.iterdir())


def test_an_identity_hides_its_secret() -> None:
    with pytest.raises(TypeError, match="not picklable"):
        pickle.dumps(identity(1))
    assert repr(identity(1)) == f"Identity(public={ONE.hex()})"
    for private in (b"", bytes(31), "a" * 32):
        with pytest.raises(ParameterError):
            Identity(private)  # type: ignore[arg-type]
    assert Identity.generate().public != Identity.generate().public
