"""The keys and certificates of Flower's tests are what Flower takes."""

import hashlib
import ssl
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from secagg.flower.addresses import node_fingerprint
from tests.support.flower_keys import node_key, server_files


def handshake(server: ssl.SSLContext, client: ssl.SSLContext, name: str) -> None:
    """A TLS handshake in memory; SSLCertVerificationError if the client refuses the server."""
    to_client, to_server = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = [
        client.wrap_bio(to_client, to_server, server_hostname=name),
        server.wrap_bio(to_server, to_client, server_side=True),
    ]
    while ends:
        for end in tuple(ends):
            try:
                end.do_handshake()
            except ssl.SSLWantReadError:
                continue
            ends.remove(end)


def test_the_certificate_is_good_for_the_loopback_address_alone(tmp_path: Path) -> None:
    files = server_files(tmp_path)
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(files.certificate, files.key)
    client = ssl.create_default_context(cafile=files.authority)
    handshake(server, client, "127.0.0.1")
    with pytest.raises(ssl.SSLCertVerificationError):
        handshake(server, client, "127.0.0.2")
    with pytest.raises(ssl.SSLCertVerificationError):
        handshake(server, ssl.create_default_context(), "127.0.0.1")


def test_a_node_key_is_p_384_in_opensshs_form(tmp_path: Path) -> None:
    key = node_key(tmp_path / "node")
    private = serialization.load_ssh_private_key(key.private.read_bytes(), None)
    assert isinstance(private, ec.EllipticCurvePrivateKey)
    assert private.curve.name == "secp384r1"
    der = private.public_key().public_bytes(
        serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    assert node_fingerprint(key.pem) == hashlib.sha256(der).digest()
