"""Writes secagg-full.json: whole rounds of the full protocol with drop-outs, byte for byte.

Run it as ``python -m tests.vectors.make_secagg_full``. It imports none of our packages but follows
docs/protocols/secagg.md with the helpers of make_transcripts.py: a second reading of that page.
Every client draws from a stream of its own. A change that breaks a test against the file has
changed what the parties of a round send each other.
"""

import hashlib
import hmac
import json
import struct
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from tests.vectors.make_transcripts import expand, keystream, label, pack

SESSION = bytes(range(16))
ROUND = 7
PRIME = 65_537
MIN_SURVIVORS = 3
SEED, KEY = 0, 1  # which of a holder's two shares


class Tape:
    """A client's randomness: the keystream of a seed."""

    def __init__(self, client: int) -> None:
        self._seed = hashlib.sha256(b"full client %d" % client).digest()
        self._at = 0

    def bytes(self, n: int) -> bytes:
        start = self._at % 16
        data = keystream(self._seed, self._at - start, start + n)[start:]
        self._at += n
        return data

    def elements(self, count: int) -> list[int]:
        """Uniform integers below 65,537: 32-bit words in equal shares, the rest drawn again."""
        share = 2**32 // PRIME
        found, missing = [PRIME] * count, list(range(count))
        while missing:
            words = struct.unpack(f"<{len(missing)}I", self.bytes(4 * len(missing)))
            for place, word in zip(missing, words, strict=True):
                found[place] = word // share
            missing = [place for place in missing if found[place] >= PRIME]
        return found


def public(private: bytes) -> bytes:
    return X25519PrivateKey.from_private_bytes(private).public_key().public_bytes_raw()


def agree(private: bytes, peer: bytes, length: int, purpose: str, *context: bytes | int) -> bytes:
    ours = X25519PrivateKey.from_private_bytes(private)
    shared = ours.exchange(X25519PublicKey.from_public_bytes(peer))
    both = sorted((public(private), peer))
    return expand(hmac.digest(bytes(32), shared, "sha256"), label(purpose, *both, *context), length)


def identity(client: int) -> Ed25519PrivateKey:
    return Ed25519PrivateKey.from_private_bytes(
        hashlib.sha256(b"full identity %d" % client).digest()
    )


def packed(elements: list[int]) -> bytes:
    """Low halves as little-endian words, then the seventeenth bits, lowest first."""
    tops = sum((element >> 16) << at for at, element in enumerate(elements))
    low = struct.pack(f"<{len(elements)}H", *(element & 0xFFFF for element in elements))
    return low + tops.to_bytes(len(elements) // 8, "little")


class Round:
    """All parties of one round; ``messages`` are by kind and by the client at the other end.

    reach: neighbours on either side of a ring; 0 for the complete graph.  gone: who leaves before
    answering in a step.  context: what else they agree on, in hexadecimal.
    """

    def __init__(
        self,
        clients: list[int],
        threshold: int,
        bits: int,
        dim: int,
        malicious: bool,
        reach: int,
        gone: dict[str, list[int]],
        context: str,
    ) -> None:
        self.clients, self.t, self.bits, self.dim = clients, threshold, bits, dim
        self.malicious, self.gone = malicious, gone
        n = len(clients)
        self.closed = {
            client: sorted({clients[(at + step) % n] for step in range(-reach, reach + 1)})
            if reach
            else clients
            for at, client in enumerate(clients)
        }
        self.reach, self.context = reach, bytes.fromhex(context)
        self.offer = self._offer_digest(reach)
        agreed = label("secagg.full.context", self.offer, self.context)
        self.digest = hashlib.sha256(agreed).digest()
        self.early = hashlib.sha256(label("secagg.full.context", self.offer, b"")).digest()
        self.size = 1 << max(0, (bits - 1).bit_length() - 3)
        self.letter = {1: "B", 2: "H", 4: "I", 8: "Q"}[self.size]
        self.messages: dict[str, dict[str, str]] = {}
        self.sealed: dict[int, tuple[list[int], bytes]] = {}
        self.states: dict[str, str] = {}
        self._secrets()

    def _offer_digest(self, reach: int) -> bytes:
        n = len(self.clients)
        if reach:
            rows = [[self.clients.index(c) for c in self.closed[client]] for client in self.clients]
            ends = [sum(map(len, rows[:at])) for at in range(n + 1)]
            flat = [place for row in rows for place in row]
            tables = (struct.pack(f"<{len(part)}I", *part) for part in (ends, flat))
            beside = label("secagg.full.graph", *tables)
        else:
            beside = label("secagg.full.complete", n)
        sizes = (ROUND, self.t, self.bits, self.dim, int(self.malicious), 0, MIN_SURVIVORS, n)
        ids = struct.pack(f"<{n}I", *self.clients)
        text = label("secagg.full.params", SESSION, *sizes, ids, hashlib.sha256(beside).digest())
        return hashlib.sha256(text).digest()

    def _secrets(self) -> None:
        self.tapes = {client: Tape(client) for client in self.clients}
        self.channel, self.mask_key, self.seed = {}, {}, {}
        for client, tape in self.tapes.items():
            self.channel[client] = tape.bytes(32)
            self.mask_key[client] = tape.bytes(32)
            self.seed[client] = tape.bytes(32)
        self.keys = {
            client: public(self.channel[client]) + public(self.mask_key[client])
            for client in self.clients
        }

    def send(self, kind: str, tag: str, client: int, *fields: bytes | int) -> None:
        route = struct.pack("<2I", ROUND, client)
        data = b"\x01" + pack([tag, SESSION, route, *fields])
        self.messages.setdefault(kind, {})[str(client)] = data.hex()

    def announcement(self) -> bytes:
        """The round as a message; each client's neighbours are places in the list of ids."""
        n, at = len(self.clients), self.clients.index
        degree = 2 * self.reach or n - 1
        words = [n, degree, *self.clients]
        if self.reach:
            words += [at(c) for own in self.clients for c in self.peers(own, self.clients)]
        graph = struct.pack(f"<{len(words)}I", *words)
        sizes = [ROUND, self.t, self.bits, self.dim, int(self.malicious), 0, MIN_SURVIVORS]
        return b"\x01" + pack(["full.announcement", SESSION, *sizes, graph, self.context])

    def keep(self, phase: str, **known: bytes) -> None:
        """The first client, suspended in this phase."""
        names = ("roster", "members", "signed", "privates", "seed", "keys", "shares")
        fields = [known.get(name, b"") for name in names]
        # Before its keys are shared a client does not know the context yet.
        digest, context = (self.digest, self.context) if "roster" in known else (self.early, b"")
        state = ["full.suspended", digest, context, self.clients[0], phase, *fields]
        check = hashlib.sha256(b"\x01" + pack([*state, b""])).digest()
        self.states[phase] = (b"\x01" + pack([*state, check])).hex()

    def without(self, step: str, clients: list[int]) -> list[int]:
        return [client for client in clients if client not in self.gone.get(step, [])]

    def set_of(self, clients: list[int]) -> bytes:
        value = sum(1 << self.clients.index(client) for client in clients)
        return value.to_bytes((len(self.clients) + 7) // 8, "little")

    def beside(self, client: int, members: list[int]) -> list[int]:
        return [other for other in members if other in self.closed[client]]

    def peers(self, client: int, members: list[int]) -> list[int]:
        return [other for other in self.beside(client, members) if other != client]

    def run(self) -> None:
        own = self.clients[0]
        early = {"privates": self.channel[own] + self.mask_key[own], "seed": self.seed[own]}
        self.keep("new", **early)
        u1 = self.advertise()
        self.keep("advertised", **early)
        u2, shares = self.share(u1)
        known = {"roster": self.roster_hash(own, u1), "members": self.set_of(u1)}
        peers = self.peers(own, u1)
        keys = [self.channel_key(peer, own) for peer in peers]
        keys += [self.pair_key(own, peer) for peer in peers]
        own_share = self.both(shares[own][own])
        self.keep("shared", **known, seed=self.seed[own], keys=b"".join(keys), shares=own_share)
        u3 = self.mask(u2, shares)
        held = b"".join(self.both(shares[peer][own]) for peer in self.beside(own, u2))
        known |= {"members": self.set_of(u2), "shares": held}
        self.keep("masked", **known)
        u4 = self.sign(u1, u3) if self.malicious else u3
        if self.malicious:
            self.keep("signed", **known, signed=self.set_of(u3))
        self.unmask(u2, u3, u4, shares)
        for client in self.without("unmasking", u4):
            self.send("RoundDone", "full.done", client, self.set_of(u3))

    def advertise(self) -> list[int]:
        present = self.without("advertise", self.clients)
        self.key_signatures = {
            client: identity(client).sign(
                label("secagg.full.keys", self.offer, client, self.keys[client])
            )
            if self.malicious
            else b""
            for client in present
        }
        for client in present:
            signature = self.key_signatures[client]
            self.send("AdvertiseKeys", "full.keys", client, self.keys[client], signature)
        return present

    def share(self, u1: list[int]) -> tuple[list[int], dict[int, dict[int, list[list[int]]]]]:
        present, shares = self.without("share", u1), {}
        for client in present:
            near = self.beside(client, u1)
            keys = b"".join(self.keys[c] for c in near)
            signatures = b"".join(self.key_signatures[c] for c in near)
            self.send("Roster", "full.roster", client, self.set_of(u1), keys, signatures)
            shares[client] = self.deal(client)
            sealed = b""
            for peer in self.peers(client, u1):
                plain = self.both(shares[client][peer])
                sealed += AESGCM(self.channel_key(client, peer)).encrypt(bytes(12), plain, b"")
            self.sealed[client] = (u1, sealed)
            self.send("SharedKeys", "full.shares", client, self.derived("check", client), sealed)
        return present, shares

    def both(self, of_one_holder: list[list[int]]) -> bytes:
        return packed(of_one_holder[SEED] + of_one_holder[KEY])

    def deal(self, client: int) -> dict[int, list[list[int]]]:
        """Both secrets' shares by holder."""
        secrets = struct.unpack("<32H", self.seed[client] + self.mask_key[client])
        drawn = self.tapes[client].elements((self.t - 1) * 32)
        rows = [list(secrets), *(drawn[32 * i : 32 * i + 32] for i in range(self.t - 1))]
        dealt = {}
        for index, holder in enumerate(self.closed[client], start=1):
            values = [
                sum(row[at] * pow(index, power, PRIME) for power, row in enumerate(rows)) % PRIME
                for at in range(32)
            ]
            dealt[holder] = [values[:16], values[16:]]
        return dealt

    def channel_key(self, sender: int, receiver: int) -> bytes:
        low, high = sorted((sender, receiver))
        peer = self.keys[receiver][:32]
        both = agree(self.channel[sender], peer, 64, "secagg.full.shares", self.digest, low, high)
        return both[:32] if sender < receiver else both[32:]

    def pair_key(self, client: int, peer: int) -> bytes:
        low, high = sorted((client, peer))
        purpose, theirs = "secagg.full.pair-mask", self.keys[peer][32:]
        return agree(self.mask_key[client], theirs, 32, purpose, self.digest, low, high)

    def roster_hash(self, client: int, u1: list[int]) -> bytes:
        keys = b"".join(self.keys[c] for c in self.beside(client, u1))
        text = label("secagg.full.roster", self.digest, self.set_of(u1), keys)
        return hashlib.sha256(text).digest()

    def derived(self, which: str, client: int) -> bytes:
        name = {"mask": "secagg.full.self-mask", "check": "secagg.full.self-mask-check"}[which]
        return expand(self.seed[client], label(name, self.digest, client), 32)

    def stream(self, key: bytes) -> list[int]:
        data = keystream(key, 0, self.dim * self.size)
        return list(struct.unpack(f"<{self.dim}{self.letter}", data))

    def mask(self, u2: list[int], shares: Any) -> list[int]:
        present = self.without("mask", u2)
        for client in present:
            sealed = b""
            for peer in self.peers(client, u2):
                u1, whole = self.sealed[peer]
                place = self.peers(peer, u1).index(client)
                sealed += whole[84 * place : 84 * place + 84]
            self.send("Delivered", "full.delivered", client, self.set_of(u2), sealed)
            total = [1000 * client + at for at in range(self.dim)]
            masks = [(1, self.derived("mask", client))]
            for peer in self.peers(client, u2):
                masks.append((1 if client < peer else -1, self.pair_key(client, peer)))
            for sign, key in masks:
                total = [x + sign * word for x, word in zip(total, self.stream(key), strict=True)]
            payload = struct.pack(
                f"<{self.dim}{self.letter}", *(value % 2**self.bits for value in total)
            )
            self.send("MaskedInput", "full.masked", client, self.bits, payload)
        return present

    def sign(self, u1: list[int], u3: list[int]) -> list[int]:
        present, members = self.without("sign", u3), self.set_of(u3)
        self.signatures = {}
        for client in present:
            self.send("SurvivorsRequest", "full.survivors", client, members)
            roster = self.roster_hash(client, u1)
            text = label("secagg.full.survivors", self.digest, roster, members)
            self.signatures[client] = identity(client).sign(text)
            self.send("ConsistencySignature", "full.signature", client, self.signatures[client])
        return present

    def unmask(self, u2: list[int], u3: list[int], u4: list[int], shares: Any) -> None:
        signers, signatures = b"", b""
        if self.malicious:
            some = u4[: self.t]
            signers = self.set_of(some)
            signatures = b"".join(self.signatures[client] for client in some)
        for client in self.without("unmasking", u4):
            self.send(
                *("UnmaskRequest", "full.unmask", client),
                *(self.set_of(u3), signers, signatures),
            )
            answer = b"".join(
                packed(shares[owner][client][SEED if owner in u3 else KEY])
                for owner in self.beside(client, u2)
            )
            self.send("UnmaskShares", "full.opened", client, answer)


def case(name: str, *, clients: list[int], reach: int = 0, **more: Any) -> dict[str, Any]:
    made = Round(clients, reach=reach, **more)
    made.run()
    gone = made.gone
    early = {client for step in ("advertise", "share", "mask") for client in gone.get(step, [])}
    survivors = [client for client in clients if client not in early]
    return {
        "name": name,
        "clients": clients,
        "reach": reach,
        **more,
        "digest": made.digest.hex(),
        "announcement": made.announcement().hex(),
        "suspended": made.states,  # the first client, between its steps
        "identities": {
            str(c): identity(c).public_key().public_bytes_raw().hex()
            for c in clients
            if made.malicious
        },
        "messages": made.messages,
        "survivors": survivors,
        "total": [
            sum(1000 * client + at for client in survivors) % 2**made.bits for at in range(made.dim)
        ],
    }


def build() -> dict[str, Any]:
    return {
        "source": "our own transcripts, written by tests/vectors/make_secagg_full.py",
        "session": SESSION.hex(),
        "round": ROUND,
        # 1000 c + position, modulo 2^bits; a client's coins are the keystream of the seed
        # SHA-256("full client c"), its identity has the private key SHA-256("full identity c")
        "inputs": "1000 c + i",
        "cases": [
            case(
                "semi-honest, a client lost in every step",
                clients=[2, 5, 9, 11, 40, 70_000, 70_001],
                threshold=3,
                bits=32,
                dim=5,
                malicious=False,
                gone={"advertise": [5], "share": [40], "mask": [9], "unmasking": [2]},
                context="",
            ),
            case(
                "malicious, a client lost after sharing keys and one before signing",
                clients=[1, 3, 4, 7, 300],
                threshold=3,
                bits=12,
                dim=3,
                malicious=True,
                gone={"mask": [3], "sign": [300]},
                context=hashlib.sha256(b"what else they agree on").hexdigest(),
            ),
            case(
                "semi-honest, each beside the two on either side in a ring",
                clients=[0, 1, 2, 10, 20, 21, 30, 31],
                reach=2,
                threshold=3,
                bits=64,
                dim=2,
                malicious=False,
                gone={"mask": [20], "unmasking": [1]},
                context=b"codec".hex(),
            ),
        ],
    }


if __name__ == "__main__":
    target = Path(__file__).with_name("secagg-full.json")
    target.write_text(json.dumps(build(), indent=1) + "\n", encoding="utf-8")
