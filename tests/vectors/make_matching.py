"""Writes matching.json: one whole session of private matching by ``oprf``, byte for byte.

Run it as ``python -m tests.vectors.make_matching``; it takes a second. It imports none of our
packages but follows docs/protocols/matching.md, docs/wire-format.md and RFC 9497 (mode VOPRF) with
the helpers of make_transcripts.py and ristretto.py: a second reading of those pages. Every party
draws from a stream of her own. A change that breaks a test against the file has changed what the
parties of a session send each other.
"""

import hashlib
import json
import unicodedata
from pathlib import Path
from typing import Any

from tests.vectors import ristretto
from tests.vectors.make_transcripts import expand, keystream, label, pack
from tests.vectors.ristretto import GENERATOR, ORDER, Point

ITEMS, PAYLOAD_BYTES, MIN_GROUP, MIN_USERS, MAX_NEIGHBOURS = 3, 4, 2, 5, 2
# The last but one has more items than she may bring, the last has none.
HISTORIES: dict[str, list[int | str]] = {
    "alice": [5, 7],
    "bob": [5, -300],
    "carol": [5],
    "dave": [7, 5, "sale\u0301", 1000],
    "erin": [],
}
CONTEXT = b"OPRFV1-\x01-ristretto255-SHA512"


class Tape:
    """A party's randomness: the keystream of a seed, as ``mpc.core.prg.Prg`` gives it."""

    def __init__(self, name: str) -> None:
        self.seed = hashlib.sha256(f"matching {name}".encode()).digest()
        self._at = 0

    def bytes(self, n: int) -> bytes:
        start = self._at % 16
        data = keystream(self.seed, self._at - start, start + n)[start:] if n else b""
        self._at += n
        return data

    def uniform(self, bound: int, count: int = 1) -> list[int]:
        """Uniform integers below a small bound: the rule of ``Rng.uniform``."""
        if bound & (bound - 1) == 0:
            return [byte & (bound - 1) for byte in self.bytes(count)]
        share = 2**16 // bound
        found, missing = [0] * count, list(range(count))
        while missing:
            words = self.bytes(2 * len(missing))
            for place, index in enumerate(missing):
                found[index] = int.from_bytes(words[2 * place : 2 * place + 2], "little") // share
            missing = [index for index in missing if found[index] >= bound]
        return found

    def scalars(self, count: int) -> list[int]:
        """Uniform scalars but zero: 32 bytes each, the top three bits cleared, some redrawn."""
        found = [0] * count
        missing = list(range(count))
        while missing:
            data = self.bytes(32 * len(missing))
            for place, index in enumerate(missing):
                found[index] = int.from_bytes(data[32 * place : 32 * place + 32], "little")
                found[index] %= 2**253
            missing = [i for i in missing if not 0 < found[i] < ORDER]
        return found


def message(tag: str, *fields: bytes | int | str) -> bytes:
    return b"\x01" + pack([tag, *fields])


def prefixed(data: bytes) -> bytes:
    return len(data).to_bytes(2, "big") + data


def encoded(item: int | str) -> bytes:
    if isinstance(item, str):
        return b"s" + unicodedata.normalize("NFC", item).encode()
    return b"i" + item.to_bytes(item.bit_length() // 8 + 1, "big", signed=True)


def chosen(items: list[int | str], tape: Tape) -> list[bytes]:
    """The ids that a client brings: the first steps of a Fisher-Yates shuffle if she has more."""
    ids = sorted({encoded(item) for item in items})
    if len(ids) > ITEMS:
        for i in range(ITEMS):
            j = i + tape.uniform(len(ids) - i)[0]
            ids[i], ids[j] = ids[j], ids[i]
    return sorted(ids[:ITEMS])


def input_element(data: bytes) -> Point:
    return ristretto.hash_to_group(data, b"HashToGroup-" + CONTEXT)


def to_scalar(data: bytes) -> int:
    return ristretto.hash_to_scalar(data, b"HashToScalar-" + CONTEXT)


def proof(key: int, public: bytes, blinded: list[bytes], after: list[bytes], r: int) -> bytes:
    """GenerateProof of RFC 9497 section 2.2.1 with the random scalar ``r``."""
    seed = hashlib.sha512(prefixed(public) + prefixed(b"Seed-" + CONTEXT)).digest()
    m = ristretto.IDENTITY
    for index, (c_i, d_i) in enumerate(zip(blinded, after, strict=True)):
        text = prefixed(seed) + index.to_bytes(2, "big") + prefixed(c_i) + prefixed(d_i)
        weight = to_scalar(text + b"Composite")
        m = ristretto.add(m, ristretto.multiply(weight, ristretto.decode(c_i)))
    z = ristretto.multiply(key, m)
    t2, t3 = ristretto.multiply(r, GENERATOR), ristretto.multiply(r, m)
    text = b"".join(map(prefixed, [public, *map(ristretto.encode, (m, z, t2, t3))]))
    c = to_scalar(text + b"Challenge")
    return c.to_bytes(32, "little") + ((r - c * key) % ORDER).to_bytes(32, "little")


class Client:
    def __init__(self, name: str, digest: bytes) -> None:
        self.tape = Tape(name)
        self.payload = name[:PAYLOAD_BYTES].encode().ljust(PAYLOAD_BYTES)
        ids = chosen(HISTORIES[name], self.tape)
        dummies = self.tape.bytes(32 * (ITEMS - len(ids)))
        self.inputs = [label("matching.item", digest, one) for one in ids]
        self.inputs += [
            label("matching.dummy", digest, dummies[start : start + 32])
            for start in range(0, len(dummies), 32)
        ]
        self.blinds = self.tape.scalars(ITEMS)
        self.blinded = [
            ristretto.encode(ristretto.multiply(blind, input_element(data)))
            for data, blind in zip(self.inputs, self.blinds, strict=True)
        ]

    def tokens(self, after: list[bytes]) -> list[bytes]:
        found = []
        for data, blind, element in zip(self.inputs, self.blinds, after, strict=True):
            point = ristretto.multiply(pow(blind, -1, ORDER), ristretto.decode(element))
            text = prefixed(data) + prefixed(ristretto.encode(point)) + b"Finalize"
            found.append(hashlib.sha512(text).digest()[:16])
        return sorted(found)


def neighbours(tokens: list[list[bytes]], tape: Tape) -> list[list[int]]:
    """Everybody's neighbours in the matcher's order, at most MAX_NEIGHBOURS of them."""
    users = range(len(tokens))
    found = [[v for v in users if v != u and set(tokens[u]) & set(tokens[v])] for u in users]
    longest = sorted(users, key=lambda user: -len(found[user]))
    for k in range(len(found[longest[0]]) - 1, 0, -1):
        longer = [user for user in longest if len(found[user]) > k]
        for user, there in zip(longer, tape.uniform(k + 1, len(longer)), strict=True):
            found[user][k], found[user][there] = found[user][there], found[user][k]
    return [mine[:MAX_NEIGHBOURS] for mine in found]


def build() -> dict[str, Any]:
    holder, issuer, matcher = Tape("key holder"), Tape("issuer"), Tape("matcher")
    [key] = holder.scalars(1)
    public = ristretto.encode(ristretto.multiply(key, GENERATOR))
    sizes = (ITEMS, PAYLOAD_BYTES, MIN_GROUP, 0, MIN_USERS, MAX_NEIGHBOURS)
    terms = message("matching.terms", holder.bytes(16), "oprf", public, *sizes)
    digest = hashlib.sha256(label("matching.terms", terms)).digest()
    ticket_key = issuer.bytes(32)

    sent: list[dict[str, str]] = []

    def send(sender: str, receiver: str, kind: str, *fields: bytes) -> None:
        data = message(kind, digest, *fields)
        sent.append({"from": sender, "to": receiver, "kind": kind, "bytes": data.hex()})

    clients = {name: Client(name, digest) for name in HISTORIES}
    uploads = []
    for name, client in clients.items():
        send(name, "key holder", "matching.blinded", b"".join(client.blinded))
        after = [
            ristretto.encode(ristretto.multiply(key, ristretto.decode(element)))
            for element in client.blinded
        ]
        [r] = holder.scalars(1)
        shown = proof(key, public, client.blinded, after, r)
        send("key holder", name, "matching.evaluated", b"".join(after), shown)
        pseudonym = issuer.bytes(16)
        tag = expand(ticket_key, label("matching.ticket", digest, pseudonym), 32)
        send(name, "matcher", "matching.ticket", pseudonym, tag)
        uploads.append(client.tokens(after))
        send(name, "matcher", "matching.upload", b"".join(uploads[-1]), client.payload)
    payloads = [client.payload for client in clients.values()]
    for name, mine in zip(clients, neighbours(uploads, matcher), strict=True):
        handed = b"".join(payloads[user] for user in mine)
        padded = handed.ljust(PAYLOAD_BYTES * MAX_NEIGHBOURS, b"\0")
        send("matcher", name, "matching.neighbours", len(mine).to_bytes(4, "little"), padded)
    return {
        "source": "our own transcript, written by tests/vectors/make_matching.py",
        "seeds": {
            "key holder": holder.seed.hex(),
            "issuer": issuer.seed.hex(),
            "matcher": matcher.seed.hex(),
            **{name: client.tape.seed.hex() for name, client in clients.items()},
        },
        "histories": HISTORIES,
        "payloads": {name: client.payload.hex() for name, client in clients.items()},
        "settings": {
            "items": ITEMS,
            "payload_bytes": PAYLOAD_BYTES,
            "min_group": MIN_GROUP,
            "min_users": MIN_USERS,
            "max_neighbours": MAX_NEIGHBOURS,
        },
        "secret_key": key.to_bytes(32, "little").hex(),
        "terms": terms.hex(),
        "digest": digest.hex(),
        "messages": sent,
    }


if __name__ == "__main__":
    target = Path(__file__).with_name("matching.json")
    target.write_text(json.dumps(build(), indent=2) + "\n", encoding="utf-8")
