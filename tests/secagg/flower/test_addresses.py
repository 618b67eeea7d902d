"""Which node is which client."""

import hashlib
from types import SimpleNamespace

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from mpc.core.errors import ParameterError, PeerError
from secagg.flower.addresses import Addresses, node_fingerprint
from secagg.flower.records import Hello
from secagg.signed_roster import Entry, SignedRoster
from tests.secagg.full.world import SESSION, identity

NODES = [900, 17, 4]


def key(number: int) -> bytes:
    private = ec.derive_private_key(number + 1, ec.SECP384R1())
    form = serialization.PublicFormat.SubjectPublicKeyInfo
    return private.public_key().public_bytes(serialization.Encoding.PEM, form)


def roster(*, bound: bool = True) -> SignedRoster:
    entries = [
        Entry(u, f"client {u}", identity(u).public, node_fingerprint(key(u)) if bound else b"")
        for u in (1, 2, 3)
    ]
    return SignedRoster.sign(entries, identity(99))


def info(node: int, public_key: bytes) -> SimpleNamespace:
    return SimpleNamespace(node_id=node, public_key=public_key)


def test_a_semi_honest_session_numbers_nodes_as_they_come_and_keeps_the_numbers() -> None:
    addresses = Addresses(None)
    addresses.number(NODES)
    assert addresses.clients(NODES) == ({1: 900, 2: 17, 3: 4}, {})
    addresses.number([5, 4])
    assert addresses.clients([4, 5, 900])[0] == {1: 900, 3: 4, 4: 5}


def test_a_registered_node_is_known_by_its_key() -> None:
    addresses = Addresses(roster())
    infos = [info(900, key(3)), info(17, key(1)), info(4, key(7)), info(5, b""), info(6, b"junk")]
    addresses.learn(infos)
    assert addresses.unknown([900, 17, 4, 5, 6]) == [4, 5, 6]
    found, without = addresses.clients([900, 17, 4])
    assert found == {1: 17, 3: 900}
    assert list(without) == [4]


def test_a_node_that_is_not_bound_greets() -> None:
    addresses = Addresses(roster(bound=False))
    addresses.learn([info(900, key(1))])
    assert addresses.unknown([900]) == [900]
    addresses.greet(900, Hello.make(identity(2), SESSION), SESSION)
    assert addresses.clients([900]) == ({2: 900}, {})


def test_a_greeting_by_a_stranger_or_of_another_session_is_refused() -> None:
    addresses = Addresses(roster(bound=False))
    with pytest.raises(PeerError, match="not in the roster"):
        addresses.greet(900, Hello.make(identity(50), SESSION), SESSION)
    with pytest.raises(PeerError, match="did not show that it is client 2"):
        addresses.greet(900, Hello.make(identity(2), bytes(16)), SESSION)
    stolen = Hello(identity(1).public, Hello.make(identity(2), SESSION).signature)
    with pytest.raises(PeerError, match="did not show that it is client 1"):
        addresses.greet(900, stolen, SESSION)
    assert addresses.unknown([900]) == [900]
    with pytest.raises(PeerError):
        Addresses(None).greet(900, Hello.make(identity(2), SESSION), SESSION)


def test_of_two_nodes_that_are_one_client_the_first_counts() -> None:
    addresses = Addresses(roster(bound=False))
    for node in (17, 900):
        addresses.greet(node, Hello.make(identity(2), SESSION), SESSION)
    found, without = addresses.clients([900, 17])
    assert found == {2: 900}
    assert without == {17: "another node is client 2 already"}


def test_the_fingerprint_is_that_of_the_key_in_whatever_lines() -> None:
    lines = key(1).splitlines()
    wide = lines[0] + b"\r\n" + b"".join(lines[1:-1]) + b"\r\n" + lines[-1] + b"\n\n"
    assert node_fingerprint(wide) == node_fingerprint(key(1))
    assert node_fingerprint(key(1)) != node_fingerprint(key(2))
    der = serialization.load_pem_public_key(key(1)).public_bytes(
        serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    assert node_fingerprint(key(1)) == hashlib.sha256(der).digest()


@pytest.mark.parametrize(
    "wrong", [b"", b"ecdsa-sha2-nistp384 AAAA", key(1)[:-30], key(1).replace(b"M", b"!", 1)]
)
def test_what_is_no_public_key_in_pem_has_no_fingerprint(wrong: bytes) -> None:
    with pytest.raises(ParameterError, match="ssh-keygen"):
        node_fingerprint(wrong)
