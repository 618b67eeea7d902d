"""Files of identities, and of SuperNodes' public keys as ``ssh-keygen`` writes them.

Source: RFC 5656, section 3.1, for what a line of OpenSSH holds; RFC 5480, section 2, for curves and
    the SubjectPublicKeyInfo that a PEM file holds, which is the form that Flower passes on.
Differs: for the three NIST curves, which are those that Flower takes.
"""

import base64
import binascii
from pathlib import Path

from recsys.errors import DataError
from secagg.flower.addresses import node_fingerprint
from secagg.flower.keyring import read_identity, write_identity

__all__ = ["fingerprint_of", "read_identity", "read_node_key", "write_identity"]

_CURVES = {
    b"nistp256": (bytes.fromhex("06082a8648ce3d030107"), 32),
    b"nistp384": (bytes.fromhex("06052b81040022"), 48),
    b"nistp521": (bytes.fromhex("06052b81040023"), 66),
}
"""The object identifier of each, and the bytes of a coordinate."""

_EC_PUBLIC_KEY = bytes.fromhex("06072a8648ce3d0201")
_SEQUENCE, _BIT_STRING = 0x30, 0x03
_LINE = 64


def fingerprint_of(path: Path) -> bytes:
    """What a roster says of the SuperNode whose public key is in a file. Raises as the next."""
    return node_fingerprint(read_node_key(path))


def read_node_key(path: Path) -> bytes:
    """The public key in a file, as PEM. DataError for anything else, and for a private key."""
    try:
        text = path.read_bytes()
    except FileNotFoundError:
        raise _no_key(path, "no such file") from None
    except OSError as error:
        raise _no_key(path, f"cannot be read ({error.strerror})") from None
    if b"PRIVATE KEY" in text:
        raise _no_key(path, "this is a private key")
    if text.lstrip().startswith(b"-----BEGIN PUBLIC KEY-----"):
        return text
    parts = text.split()
    if len(parts) < 2 or not parts[0].startswith(b"ecdsa-sha2-"):
        raise _no_key(path, "no public key of a SuperNode")
    try:
        kind, curve, point = _strings(base64.b64decode(parts[1], validate=True))
    except (binascii.Error, ValueError):
        raise _no_key(path, "damaged public key") from None
    identifier, size = _CURVES.get(curve, (b"", 0))
    named = kind == parts[0] == b"ecdsa-sha2-" + curve
    if not named or len(point) != 1 + 2 * size or point[0] != 4:
        raise _no_key(path, "no public key on a NIST curve")
    algorithm = _element(_SEQUENCE, _EC_PUBLIC_KEY + identifier)
    return _pem(_element(_SEQUENCE, algorithm + _element(_BIT_STRING, b"\0" + point)))


def _strings(blob: bytes) -> list[bytes]:
    """The strings of an SSH blob. ValueError unless there are three, and nothing else."""
    found, at = [], 0
    while at < len(blob):
        end = at + 4 + int.from_bytes(blob[at : at + 4], "big")
        if end > len(blob):
            raise ValueError
        found.append(blob[at + 4 : end])
        at = end
    if len(found) != 3:
        raise ValueError
    return found


def _element(tag: int, content: bytes) -> bytes:
    size = len(content)
    length = bytes([size]) if size < 0x80 else bytes([0x81, size])  # no key here is longer
    return bytes([tag]) + length + content


def _pem(der: bytes) -> bytes:
    text = base64.b64encode(der)
    lines = [text[at : at + _LINE] for at in range(0, len(text), _LINE)]
    return b"\n".join([b"-----BEGIN PUBLIC KEY-----", *lines, b"-----END PUBLIC KEY-----", b""])


def _no_key(path: Path, problem: str) -> DataError:
    return DataError(
        problem,
        file=str(path),
        expected="a public key of ssh-keygen -t ecdsa -b 384",
        remedy="name the file that ends in .pub",
    )
