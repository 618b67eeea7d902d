"""Writes transcripts.json: what our own encodings and derivations give for fixed inputs.

Run it from anywhere: ``python tests/vectors/make_transcripts.py``. It imports none of our packages
but follows docs/wire-format.md and docs/protocols/core.md with the standard library and the bare
primitives of ``cryptography``. So the file is a second reading of those pages, and a change that
breaks a test against it has changed bytes that other parties depend on.
"""

import hashlib
import hmac
import json
import struct
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

SEED = bytes(range(32))


def secret(name: str) -> bytes:
    return hashlib.sha256(name.encode()).digest()


def label(purpose: str, *context: bytes | int) -> bytes:
    parts = [b"privrec/1", purpose.encode()]
    for part in context:
        parts.append(b"b" + part if isinstance(part, bytes) else b"i" + struct.pack(">Q", part))
    return b"".join(struct.pack(">I", len(part)) + part for part in parts)


def expand(key: bytes, info: bytes, length: int) -> bytes:
    out, block, number = b"", b"", 0
    while len(out) < length:
        number += 1
        block = hmac.digest(key, block + info + bytes([number]), "sha256")
        out += block
    return out[:length]


def keystream(key: bytes, offset: int, length: int) -> bytes:
    blocks = range(offset // 16, (offset + length + 15) // 16)
    encryptor = Cipher(algorithms.AES(key), modes.ECB()).encryptor()
    return encryptor.update(b"".join(n.to_bytes(16, "big") for n in blocks))[:length]


def pack_integer(number: int) -> bytes:
    if number < 1 << 7:
        return bytes([number])
    head, size = next(
        (head, size)
        for head, size in ((0xCC, 1), (0xCD, 2), (0xCE, 4), (0xCF, 8))
        if number < 256**size
    )
    return bytes([head]) + number.to_bytes(size, "big")


def pack(value: int | bytes | str | list[Any]) -> bytes:
    """The shortest msgpack form, for the sizes that occur here."""
    if isinstance(value, int):
        return pack_integer(value)
    if isinstance(value, bytes):
        short = len(value) < 1 << 8
        return struct.pack(">BB" if short else ">BH", 0xC4 if short else 0xC5, len(value)) + value
    if isinstance(value, str):
        text = value.encode()
        return struct.pack(">B", 0xA0 | len(text)) + text
    return struct.pack(">B", 0x90 | len(value)) + b"".join(map(pack, value))


def labels() -> list[dict[str, Any]]:
    contexts: list[tuple[str, list[bytes | int]]] = [
        ("pad", []),
        ("pad", [0]),
        ("pad", [b""]),
        ("pad", [7, b"\x00\x00\x00\x00\x00\x00\x00\x07", 2**64 - 1]),
        ("naïve", [b"abc"]),
    ]
    return [
        {
            "purpose": purpose,
            "context": [part.hex() if isinstance(part, bytes) else part for part in context],
            "label": label(purpose, *context).hex(),
            "derived": expand(SEED, label(purpose, *context), 40).hex(),
        }
        for purpose, context in contexts
    ]


def streams() -> list[dict[str, Any]]:
    found = []
    # The last two cross the borders where a counter of 32 or 64 bits would wrap.
    for offset in (0, 16, 65536, 16 * 2**32 - 16, 16 * 2**64 - 16):
        data = keystream(SEED, offset, 48)
        found.append(
            {
                "seed": SEED.hex(),
                "offset": offset,
                "bytes": data.hex(),
                "uint32": list(struct.unpack("<12I", data)),
                "uint64": list(struct.unpack("<6Q", data)),
                "ring20": [word % 2**20 for word in struct.unpack("<12I", data)],
            }
        )
    return found


def agreements() -> list[dict[str, Any]]:
    found = []
    for one, other, context in (("alice", "bob", [3]), ("carol", "alice", [2**40, b"session"])):
        private, peer = (X25519PrivateKey.from_private_bytes(secret(n)) for n in (one, other))
        public, theirs = (key.public_key().public_bytes_raw() for key in (private, peer))
        shared = private.exchange(peer.public_key())
        info = label("mask", *sorted((public, theirs)), *context)
        found.append(
            {
                "private": secret(one).hex(),
                "public": public.hex(),
                "peer_private": secret(other).hex(),
                "peer_public": theirs.hex(),
                "purpose": "mask",
                "context": [c.hex() if isinstance(c, bytes) else c for c in context],
                "key": expand(hmac.digest(bytes(32), shared, "sha256"), info, 32).hex(),
            }
        )
    return found


def seals() -> list[dict[str, Any]]:
    key, plaintext, associated = secret("seal"), b"thirty bytes of nothing secret", b"1->2"
    sealed = AESGCM(key).encrypt(bytes(12), plaintext, associated)
    return [
        {
            "key": key.hex(),
            "plaintext": plaintext.hex(),
            "associated": associated.hex(),
            "sealed": sealed.hex(),
        }
    ]


def messages() -> list[dict[str, Any]]:
    found = []
    for number, payload, entries, name in (
        (0, b"", [], ""),
        (127, b"\x01\x02", [(128, b"a"), (65536, b"")], "round"),
        (2**64 - 1, bytes(300), [(2**32, b"\xff")], "é"),
    ):
        fields = [number, payload, [list(entry) for entry in entries], name]
        found.append(
            {
                "number": number,
                "payload": payload.hex(),
                "entries": [[key, value.hex()] for key, value in entries],
                "name": name,
                "bytes": (b"\x01" + pack(["Sample", *fields])).hex(),
            }
        )
    return found


def coins() -> list[dict[str, Any]]:
    root = expand((42).to_bytes(32, "big"), label("simulation"), 32)
    found = []
    for index in ([5], [5, 6], [2**32 - 1, 0, 1, 2]):
        key = expand(root, label("split", len(index)), 32)
        block = struct.pack("<4I", *index, *[0] * (4 - len(index)))
        out = Cipher(algorithms.AES(key), modes.ECB()).encryptor().update(block)
        found.append(
            {
                "seed": 42,
                "purpose": "split",
                "index": index,
                "coin": struct.unpack("<2Q", out)[0],
            }
        )
    return found


def rows() -> list[dict[str, Any]]:
    root = expand((42).to_bytes(32, "big"), label("simulation"), 32)
    key = expand(root, label("rounding", b"rows", 1), 32)
    encryptor = Cipher(algorithms.AES(key), modes.ECB()).encryptor()
    found = []
    for row in (0, 9):
        blocks = [encryptor.update(struct.pack("<4I", row, 3, 0, number)) for number in range(4)]
        # A draw of 40 bytes takes three blocks and leaves the rest of the third unused.
        found.append(
            {
                "seed": 42,
                "purpose": "rounding",
                "row": row,
                "index": 3,
                "first": list(struct.unpack("<5Q", b"".join(blocks[:3])[:40])),
                "second": list(struct.unpack("<2I", blocks[3][:8])),
            }
        )
    return found


def build() -> dict[str, Any]:
    return {
        "source": "our own transcripts, written by tests/vectors/make_transcripts.py",
        "labels": labels(),
        "streams": streams(),
        "agreements": agreements(),
        "seals": seals(),
        "messages": messages(),
        "coins": coins(),
        "rows": rows(),
    }


if __name__ == "__main__":
    target = Path(__file__).with_name("transcripts.json")
    target.write_text(json.dumps(build(), indent=2) + "\n", encoding="utf-8")
