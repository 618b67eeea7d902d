"""Writes pads.json: whole sessions of one-time-pad aggregation, byte for byte.

Run it as ``python -m tests.vectors.make_pads``. It imports none of our packages but follows
docs/protocols/one-time-pads.md with the helpers of make_transcripts.py: a second reading of that
page. A change that breaks a test against the file has changed what members must agree on.
"""

import hashlib
import hmac
import json
import struct
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey

from tests.vectors.make_transcripts import expand, keystream, label, pack

SESSION = bytes(range(16))
CLIENTS = [2, 5, 9]


def private(client: int) -> bytes:
    return hashlib.sha256(b"test key %d" % client).digest()


def public(client: int) -> bytes:
    return X25519PrivateKey.from_private_bytes(private(client)).public_key().public_bytes_raw()


def pair_key(first: int, second: int, digest: bytes) -> bytes:
    ours = X25519PrivateKey.from_private_bytes(private(first))
    shared = ours.exchange(X25519PublicKey.from_public_bytes(public(second)))
    info = label("secagg.pad", *sorted((public(first), public(second))), digest, first, second)
    return expand(hmac.digest(bytes(32), shared, "sha256"), info, 32)


def stream_key(key: bytes, epoch: int) -> bytes:
    both = b""
    for step in range(epoch + 1):
        both = expand(key, label("secagg.pad.epoch", step), 64)
        key = both[:32]
    return both[32:]


def session(bits: int, dim: int, sums: int, epoch_rounds: int, rounds: list[int]) -> dict[str, Any]:
    size = 1 << max(0, (bits - 1).bit_length() - 3)
    letter = {1: "B", 2: "H", 4: "I", 8: "Q"}[size]
    slot = -(-dim * size // 16) * 16
    sizes = (bits, dim, sums, epoch_rounds, len(CLIENTS))
    text = label("secagg.pad.params", SESSION, *sizes, *CLIENTS)
    digest = hashlib.sha256(text).digest()
    keys = {(u, v): pair_key(u, v, digest) for u in CLIENTS for v in CLIENTS if u < v}
    messages = []
    for number in rounds:
        epoch, index = divmod(number, epoch_rounds)
        for client in CLIENTS:
            for sum_id in range(sums):
                total = [client * 1000 + sum_id * 100 + at for at in range(dim)]
                for (u, v), key in keys.items():
                    if client not in (u, v):
                        continue
                    start = (index * sums + sum_id) * slot
                    data = keystream(stream_key(key, epoch), start, dim * size)
                    for at, word in enumerate(struct.unpack(f"<{dim}{letter}", data)):
                        total[at] += word if client == u else -word
                payload = struct.pack(f"<{dim}{letter}", *(value % 2**bits for value in total))
                route = struct.pack("<3I", client, number, sum_id)
                fields = pack(["pads.masked", SESSION, route, bits, payload])
                messages.append((b"\x01" + fields).hex())
    advertised = [(b"\x01" + pack(["pads.key", SESSION, c, public(c)])).hex() for c in CLIENTS]
    listed = [SESSION, CLIENTS, [public(c) for c in CLIENTS]]
    return {
        "bits": bits,
        "dim": dim,
        "sums_per_round": sums,
        "rounds_per_epoch": epoch_rounds,
        "rounds": rounds,
        "digest": digest.hex(),
        "advertised": advertised,
        "roster": (b"\x01" + pack(["pads.roster", *listed])).hex(),
        "masked": messages,
    }


def build() -> dict[str, Any]:
    return {
        "source": "our own transcripts, written by tests/vectors/make_pads.py",
        "session": SESSION.hex(),
        "clients": CLIENTS,
        "private": [private(client).hex() for client in CLIENTS],
        # client * 1000 + sum_id * 100 + position, modulo 2^bits
        "inputs": "1000 c + 100 s + i",
        "cases": [
            session(32, 5, 2, 3, [0, 2, 3, 10]),
            session(64, 3, 1, 2, [1, 2]),
            session(12, 9, 1, 4, [0, 5]),
        ],
    }


if __name__ == "__main__":
    target = Path(__file__).with_name("pads.json")
    target.write_text(json.dumps(build(), indent=2) + "\n", encoding="utf-8")
