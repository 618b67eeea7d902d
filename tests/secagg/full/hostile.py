"""A server that tells each client what it likes and pools all that it got with corrupt clients.

It obtains what clients send and nothing else; what it makes of it, it makes with the kernels of the
protocol. Clients may refuse; it goes on with the others.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Any, TypeVar

import numpy as np

from mpc.core.errors import ToolkitError, WireError
from mpc.core.keys import KeyPair, SealingKey, open_sealed
from mpc.core.prg import Prg
from mpc.core.ring import RingArray
from mpc.shamir import Elements, secret_of
from secagg.full.client import Client
from secagg.full.history import History
from secagg.full.identity import roster_hash, survivors_text
from secagg.full.masking import client_streams, pair_key, unmask
from secagg.full.messages import (
    SEALED_BYTES,
    AdvertiseKeys,
    Delivered,
    Roster,
    RoundMessage,
    SharedKeys,
    SurvivorsRequest,
    UnmaskRequest,
)
from secagg.full.params import RoundParams
from secagg.full.sharing import (
    SECRETS,
    WORDS,
    channel_keys,
    is_seed,
    pack_rows,
    recover,
    self_mask_key,
    unpack_rows,
)
from tests.secagg.full.replicas import new_client
from tests.secagg.full.world import bits, identity, inputs

SEED, KEY = 0, 1
"""The two kinds of a secret, as rows of what a holder has."""

Ids = tuple[int, ...]
Told = Mapping[int, Ids]
"""What each client is told; who is not in it is not asked."""

_M = TypeVar("_M", bound=RoundMessage)


class ClosedError(Exception):
    """What the adversary has does not open this input."""


class Hostile:
    """One round with an adversary in the middle.

    kind: what the honest clients are made of.  corrupt: clients whose secrets the server has.
    refusals: (client, error) of every message that was refused.
    """

    def __init__(
        self,
        agreed: RoundParams,
        kind: type[Client] = Client,
        *,
        corrupt: Ids = (),
        history: Mapping[int, History] | None = None,
    ) -> None:
        self.params, self.corrupt, self.x = agreed, corrupt, inputs(agreed, seed=agreed.round)
        self.clients = {}
        for u in agreed.clients:
            more = {} if history is None else {"history": history[u]}
            own = Client if u in corrupt else kind
            self.clients[u] = new_client(agreed, u, own, **more)
        self.refusals: list[tuple[int, ToolkitError]] = []
        # What clients sent, and what they were told.
        self.advertised: dict[int, AdvertiseKeys] = {}
        self.rosters: dict[int, dict[int, AdvertiseKeys]] = {}
        self.shared: dict[int, SharedKeys] = {}
        self.mask_peers: dict[int, Ids] = {}
        self.masked: dict[int, RingArray] = {}
        self.signatures: dict[tuple[int, Ids], bytes] = {}
        # What the adversary knows: private keys by their public ones, shares by owner and kind.
        self.privates: dict[bytes, KeyPair] = {}
        self.shares: dict[tuple[int, int], dict[int, Elements]] = {}

    @property
    def everybody(self) -> Told:
        """The truth if all are present: every client is told of all."""
        return dict.fromkeys(self.params.clients, self.params.clients)

    # The five steps.

    def advertise(self) -> None:
        for u, client in self.clients.items():
            self.advertised[u] = client.advertise()
            if u in self.corrupt:
                assert client._secrets is not None
                assert client._secrets._mask is not None
                self.privates[self.advertised[u].mask] = client._secrets._mask

    def share(self, told: Told, forged: Mapping[int, AdvertiseKeys] | None = None) -> None:
        """Rosters of the ids told; ``forged`` keys stand in them for those of their clients."""
        for u, members in told.items():
            entries = {v: {**self.advertised, **(forged or {})}[v] for v in members}
            entries[u] = self.advertised[u]
            beside = [v for v in members if v in self._beside(u)]
            self.rosters[u] = entries
            roster = self._to(
                u,
                Roster,
                members=bits(self.params, *members),
                keys=b"".join(entries[v].keys for v in beside),
                signatures=b"".join(entries[v].signature for v in beside),
            )
            answer = self._ask(u, self.clients[u].share_keys, roster)
            if answer is not None:
                self.shared[u] = answer

    def mask(self, told: Told) -> None:
        """Deliveries from the ids told, who have all shared; who has not, has forged keys."""
        for u, members in told.items():
            peers = tuple(v for v in members if v in self._beside(u) and v != u)
            sealed = b"".join(self._sealed(v, u) for v in peers)
            packed = bits(self.params, *members)
            delivered = self._to(u, Delivered, members=packed, sealed=sealed)
            self.mask_peers[u] = peers
            answer = self._ask(u, partial(self.clients[u].mask, x=self.x[u]), delivered)
            if answer is None:
                continue
            self.masked[u] = self.params.ring.from_bytes(answer.payload, (self.params.dim,))
            if u in self.corrupt:
                self._pool(u, members)

    def sign(self, told: Told) -> None:
        """Requests to sign the ids told. The semi-honest variant has none."""
        if not self.params.malicious:
            return
        for u, members in told.items():
            request = self._to(u, SurvivorsRequest, members=bits(self.params, *members))
            answer = self._ask(u, self.clients[u].sign_survivors, request)
            if answer is not None:
                self.signatures[u, members] = answer.signature

    def unmask(
        self, told: Told, signers: Callable[[Ids], Mapping[int, bytes]] | None = None
    ) -> None:
        """Requests to unmask the ids told, with the signatures that ``signers`` finds for them."""
        for u, members in told.items():
            signed = (signers or self.signers)(members) if self.params.malicious else {}
            request = self._to(
                u,
                UnmaskRequest,
                members=bits(self.params, *members),
                signers=bits(self.params, *signed) if self.params.malicious else b"",
                signatures=b"".join(signed[v] for v in sorted(signed)),
            )
            owners = tuple(sorted({u, *self.mask_peers[u]}))
            answer = self._ask(u, self.clients[u].unmask, request)
            if answer is None:
                continue
            for owner, row in zip(owners, unpack_rows(answer.shares, WORDS), strict=True):
                self._keep(owner, SEED if owner in members else KEY, u, row)

    def signers(self, members: Ids) -> Mapping[int, bytes]:
        """All that have signed these very ids, and the corrupt ones, who sign whatever is asked."""
        signed = {v: text for (v, told), text in self.signatures.items() if told == members}
        for u in set(self.corrupt) & set(members):
            roster = b"".join(self.rosters[u][v].keys for v in self.params.clients)
            packed = bits(self.params, *self.params.clients), bits(self.params, *members)
            hashed = roster_hash(self.params, packed[0], roster)
            signed[u] = identity(u).sign(survivors_text(self.params, hashed, packed[1]))
        return signed

    # What the adversary makes of it.

    def secret(self, owner: int, kind: int) -> bytes | None:
        """A client's secret, if there are shares enough and they give the right one."""
        held, t = self.shares.get((owner, kind), {}), self.params.threshold
        if len(held) < t:
            return None
        some = sorted(held)[:t]
        indices = np.array([some], np.uint64)
        found = recover(indices, np.stack([held[index] for index in some])[np.newaxis])[0]
        try:
            secret = secret_of(found)
        except WireError:
            return None
        if kind == SEED:
            right = is_seed(secret, self.shared[owner].check, self.params.digest, owner)
        else:
            right = KeyPair(secret).public == self.advertised[owner].mask
        return secret if right else None

    def peel(self, *group: int) -> RingArray:
        """The sum of the inputs of ``group``: their masked vectors with every mask taken off.

        Raises ClosedError where a mask stays that the adversary cannot make.
        """
        parts = []
        for u in group:
            seed = self.secret(u, SEED)
            if seed is None and u in self.masked:
                raise ClosedError(f"the self mask of client {u}")
            parts.append(self._bare(u, seed, group))
        return self.params.ring.sum(np.stack(parts), axis=0)

    def peel_with(self, u: int, seed: bytes | None) -> RingArray:
        """What is left of a client's vector if this were its seed; if None, if it had none."""
        return self._bare(u, seed, (u,))

    def _bare(self, u: int, seed: bytes | None, group: Ids) -> RingArray:
        self._learn_keys()
        if u not in self.masked:
            raise ClosedError(f"client {u} sent no input")
        own = self_mask_key(bytes(32) if seed is None else seed, self.params.digest, u)
        streams = client_streams(u, own, list(self._pairs(u, group)), Prg)
        bare = self.masked[u].copy()
        off = [(-sign, stream) for sign, stream in streams[0 if seed is not None else 1 :]]
        unmask(bare, off, self.params.ring)
        return bare

    def pair(self, u: int, v: int) -> bytes:
        """The key of the mask of ``u`` for ``v``, made with either's private key."""
        publics = self.advertised[u].mask, self.rosters[u][v].mask
        for own, mine, other, peer in (
            (u, publics[0], v, publics[1]),
            (v, publics[1], u, publics[0]),
        ):
            if mine in self.privates:
                return pair_key(self.privates[mine], peer, self.params.digest, own, other)
        raise ClosedError(f"the common mask of clients {u} and {v}")

    def _pairs(self, u: int, group: Ids) -> Iterator[tuple[int, bytes]]:
        for v in self.mask_peers[u]:
            if v not in group or u not in self.mask_peers[v]:  # no vector cancels it
                yield v, self.pair(u, v)

    def _learn_keys(self) -> None:
        for u in self.params.clients:
            secret = self.secret(u, KEY)
            if secret is not None:
                self.privates[self.advertised[u].mask] = KeyPair(secret)

    def use_own_keys(self, victim: int, channels: Mapping[int, KeyPair]) -> None:
        """Open what ``victim`` sealed for clients in whose place the server's keys stand."""
        sealed, peers = self.shared[victim].sealed, self._peers(victim)
        for at, v in enumerate(peers):
            if v in channels:
                _, back = self._channel(channels[v], v, victim)
                piece = sealed[at * SEALED_BYTES : (at + 1) * SEALED_BYTES]
                rows = unpack_rows(open_sealed(back, piece), SECRETS * WORDS)
                for kind, row in enumerate(rows.reshape(SECRETS, WORDS)):
                    self._keep(victim, kind, v, row)
        self.own_channels = channels

    own_channels: Mapping[int, KeyPair] = {}

    def _channel(self, keys: KeyPair, v: int, u: int) -> list[bytes]:
        return channel_keys(keys, self.advertised[u].channel, self.params.digest, v, u)

    def _sealed(self, sender: int, receiver: int) -> bytes:
        if sender in self.own_channels:
            out, _ = self._channel(self.own_channels[sender], sender, receiver)
            return SealingKey(out).seal(
                pack_rows(np.zeros((1, SECRETS * WORDS), np.uint32)).tobytes()
            )
        return self.piece(sender, receiver)

    def piece(self, sender: int, receiver: int) -> bytes:
        """What ``sender`` sealed for ``receiver``."""
        at = self._peers(sender).index(receiver)
        return self.shared[sender].sealed[at * SEALED_BYTES : (at + 1) * SEALED_BYTES]

    def _peers(self, u: int) -> list[int]:
        return [v for v in sorted(self.rosters[u]) if v != u and v in self._beside(u)]

    def _beside(self, u: int) -> Ids:
        return self.params.ids(self.params.neighbourhoods.closed(self.params.position(u)))

    def _pool(self, u: int, members: Iterable[int]) -> None:
        """All shares that a corrupt client holds, of both kinds."""
        secrets = self.clients[u]._secrets
        assert secrets is not None
        owners = [v for v in sorted({u, *members}) if v in self._beside(u)]
        for owner, rows in zip(owners, secrets._held, strict=True):
            for kind in (SEED, KEY):
                self._keep(owner, kind, u, rows[kind])

    def _keep(self, owner: int, kind: int, holder: int, row: Elements) -> None:
        index = self._beside(owner).index(holder) + 1
        self.shares.setdefault((owner, kind), {})[index] = row

    def _ask(self, u: int, step: Callable[[Any], _M], message: RoundMessage) -> _M | None:
        try:
            answer = step(self.params.decode(type(message), message.to_bytes()))
        except ToolkitError as error:
            self.refusals.append((u, error))
            return None
        return self.params.decode(type(answer), answer.to_bytes())

    def _to(self, u: int, kind: type[_M], **fields: Any) -> _M:
        return kind.make(self.params.session, self.params.round, u, **fields)
