"""What Flower's TLS and node authentication need: an authority, a certificate, SuperNodes' keys."""

import ipaddress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

LIFE = timedelta(days=1)


@dataclass(frozen=True)
class ServerFiles:
    """PEM files of a server on the loopback address, and of the authority that vouches for it."""

    authority: Path
    certificate: Path
    key: Path


def server_files(folder: Path) -> ServerFiles:
    """A fresh authority, whose key is kept nowhere, and a certificate by it for 127.0.0.1."""
    root, server = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    issuer = _name("authority of a test")
    authority = (
        _certificate(issuer, issuer, root.public_key())
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(root, hashes.SHA256())
    )
    address = x509.IPAddress(ipaddress.ip_address("127.0.0.1"))
    certificate = (
        _certificate(_name("127.0.0.1"), issuer, server.public_key())
        .add_extension(x509.SubjectAlternativeName([address]), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .sign(root, hashes.SHA256())
    )
    files = ServerFiles(folder / "authority.pem", folder / "server.pem", folder / "server.key")
    files.authority.write_bytes(authority.public_bytes(serialization.Encoding.PEM))
    files.certificate.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    files.key.write_bytes(_private(server, serialization.PrivateFormat.PKCS8))
    return files


@dataclass(frozen=True)
class NodeKey:
    """A SuperNode's key, in the form that ssh-keygen writes."""

    private: Path
    public: Path

    @property
    def pem(self) -> bytes:
        """The public key as the SuperLink tells it to apps."""
        key = serialization.load_ssh_public_key(self.public.read_bytes())
        return key.public_bytes(
            serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
        )


def node_key(path: Path) -> NodeKey:
    """A fresh P-384 key at ``path``, its public half beside it as ``.pub``."""
    key = ec.generate_private_key(ec.SECP384R1())
    made = NodeKey(path, path.with_name(f"{path.name}.pub"))
    made.private.write_bytes(_private(key, serialization.PrivateFormat.OpenSSH))
    made.private.chmod(0o600)
    public = key.public_key().public_bytes(
        serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH
    )
    made.public.write_bytes(public + b"\n")
    return made


def _private(key: ec.EllipticCurvePrivateKey, form: serialization.PrivateFormat) -> bytes:
    return key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption())


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _certificate(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey
) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - LIFE)
        .not_valid_after(now + LIFE)
    )
