"""All that a client keeps to itself during one round, and what it does with it.

Source: Bonawitz et al., CCS 2017, Figure 4: c^SK, s^SK, b_u, and the shares e_{v,u} received.
Model: made afresh for each (session, round), gone with it; written down only by ``kept``, for a
    client that goes on in another process.
Differs: both private keys are forgotten as soon as they have served, pair keys and the seed once
    the input is masked. What is left then are shares.
"""

from contextlib import suppress

import numpy as np

from mpc.core.errors import PeerError, StateError, WireError
from mpc.core.keys import KEY_BYTES, PUBLIC_BYTES, KeyPair, SealingKey, open_sealed
from mpc.core.rng import Rng
from mpc.shamir import Elements
from secagg.full.masking import pair_key
from secagg.full.messages import SEALED_BYTES
from secagg.full.neighbourhoods import Members, Positions
from secagg.full.params import RoundParams
from secagg.full.sharing import (
    SECRETS,
    WORDS,
    channel_keys,
    deal,
    pack_rows,
    self_mask_check,
    self_mask_key,
    unpack_rows,
)
from secagg.full.suspended import SEED_BYTES, Suspended

_NOBODY: Positions = np.empty(0, np.intp)
_NO_SHARES: Elements = np.empty((0, SECRETS, WORDS), np.uint32)


class RoundSecrets:
    """The secrets of ``client`` in the round of ``params``. No pickle, no copy, no repr."""

    def __init__(self, params: RoundParams, client: int, rng: Rng) -> None:
        self._params, self._client, self._rng = params, client, rng
        self._at = params.position(client)
        self._channel: KeyPair | None = KeyPair.generate(rng)
        self._mask: KeyPair | None = KeyPair.generate(rng)
        self._seed = rng.bytes(SEED_BYTES)
        self._peers: Positions = _NOBODY  # with whom we agreed, in order
        self._opening: list[bytes] = []  # what opens their shares
        self._pairs: list[bytes] = []  # the keys of our common masks
        self._own: Elements = _NO_SHARES  # our share of our secrets
        self._held: Elements = _NO_SHARES  # all that we answer with
        self.keys = self._channel.public + self._mask.public

    @classmethod
    def restored(
        cls, params: RoundParams, rng: Rng, saved: Suspended, members: Members
    ) -> "RoundSecrets":
        """What ``kept`` has given, in a client whose set is ``members``: U_1 until it masks."""
        own = cls.__new__(cls)
        own._params, own._client, own._rng = params, saved.client, rng
        own._at = params.position(saved.client)
        own._channel = own._mask = None
        own.keys = b""
        if saved.privates:
            own._channel = KeyPair(saved.privates[:KEY_BYTES])
            own._mask = KeyPair(saved.privates[KEY_BYTES:])
            own.keys = own._channel.public + own._mask.public
        own._seed = saved.seed
        keys = [saved.keys[at : at + KEY_BYTES] for at in range(0, len(saved.keys), KEY_BYTES)]
        own._opening, own._pairs = keys[: len(keys) // 2], keys[len(keys) // 2 :]
        shared = saved.phase == "shared"  # and the input not masked yet
        own._peers = params.peers(own._at, members) if shared else _NOBODY
        shares = unpack_rows(saved.shares, SECRETS * WORDS).reshape(-1, SECRETS, WORDS)
        own._own, own._held = (shares, _NO_SHARES) if shared else (_NO_SHARES, shares)
        return own

    def kept(self) -> dict[str, bytes]:
        """All that is secret here, as the fields of ``Suspended``."""
        privates = (keys.private_bytes() for keys in (self._channel, self._mask) if keys)
        shares = np.concatenate([self._own, self._held]).reshape(-1, SECRETS * WORDS)
        return {
            "privates": b"".join(privates),
            "seed": self._seed,
            "keys": b"".join(self._opening + self._pairs),
            "shares": pack_rows(shares).tobytes(),
        }

    def bind(self, params: RoundParams) -> None:
        """Go on under these params, which differ in the context alone."""
        self._params = params

    @property
    def check(self) -> bytes:
        """By what the server will know our seed."""
        return self_mask_check(self._seed, self._params.digest, self._client)

    def agree(self, peers: Positions, keys: dict[int, bytes]) -> list[bytes]:
        """Agree with every peer on a mask and on a channel; what seals our shares, in order.

        keys: by position, both public keys. Raises PeerError for a key that is no good.
        """
        if self._mask is None or self._channel is None:
            raise StateError(f"client {self._client} has shared its mask key already")
        params, own, sealing, self._peers = self._params, self._client, [], peers
        for at in peers.tolist():
            peer, both = params.clients[at], keys[at]
            channel, public = both[:PUBLIC_BYTES], both[PUBLIC_BYTES:]
            self._pairs.append(pair_key(self._mask, public, params.digest, own, peer))
            try:
                out, back = channel_keys(self._channel, channel, params.digest, own, peer)
            except WireError as error:
                raise PeerError(f"client {peer}: {error.message}", party=peer) from error
            sealing.append(out)
            self._opening.append(back)
        self._channel = None
        return sealing

    def share(self, peers: Positions, sealing: list[bytes]) -> bytes:
        """Both secrets, shared and sealed for ``peers``; the mask key is gone afterwards."""
        if self._mask is None:
            raise StateError(f"client {self._client} has shared its mask key already")
        holders, t = self._params.neighbourhoods.closed(self._at), self._params.threshold
        private, self._mask = self._mask.private_bytes(), None
        shares = deal(self._seed, private, len(holders), t, rng=self._rng)
        own = int(np.searchsorted(holders, self._at))
        self._own = shares[own : own + 1].copy()
        going = shares[np.searchsorted(holders, peers)]
        rows = pack_rows(going.reshape(len(peers), SECRETS * WORDS))
        sealed = [SealingKey(k).seal(row.tobytes()) for k, row in zip(sealing, rows, strict=True)]
        return b"".join(sealed)

    def open(self, peers: Positions, sealed: bytes) -> None:
        """Take the shares that ``peers`` sealed for us. PeerError for what does not open."""
        plain = []
        for i, known in enumerate(np.searchsorted(self._peers, peers).tolist()):
            piece = sealed[i * SEALED_BYTES : (i + 1) * SEALED_BYTES]
            try:
                plain.append(open_sealed(self._opening[known], piece))
            except WireError as error:
                peer = self._params.clients[peers[i]]
                raise PeerError(f"the shares of client {peer} do not open", party=peer) from error
        self._opening.clear()
        held = self._unpacked(peers, plain).reshape(-1, SECRETS, WORDS)
        own = int(np.searchsorted(peers, self._at))
        self._held = np.concatenate([held[:own], self._own, held[own:]])
        self._own = _NO_SHARES

    def _unpacked(self, peers: Positions, plain: list[bytes]) -> Elements:
        """All shares at once; one by one only to name whoever sealed what is no share."""
        with suppress(WireError):
            return unpack_rows(b"".join(plain), SECRETS * WORDS)
        for peer, row in zip(self._params.ids(peers), plain, strict=True):
            try:
                unpack_rows(row, SECRETS * WORDS)
            except WireError as error:
                raise PeerError(f"client {peer} sealed what is no share", party=peer) from error
        raise WireError("the shares do not parse")

    def mask_keys(self, peers: Positions) -> tuple[bytes, list[tuple[int, bytes]]]:
        """The key of the self mask, and (peer, key) of each pair's; seed and keys are gone then."""
        known = np.searchsorted(self._peers, peers).tolist()
        ids = self._params.ids(peers)
        pairs = [(peer, self._pairs[at]) for peer, at in zip(ids, known, strict=True)]
        self._pairs.clear()
        self._peers = _NOBODY
        seed, self._seed = self._seed, b""
        return self_mask_key(seed, self._params.digest, self._client), pairs

    def answer(self, survivors: Members, beside: Positions) -> bytes:
        """For each client ``beside`` us: our share of its seed if it survived, else of its key."""
        which = np.where(survivors[beside], 0, 1)
        return pack_rows(self._held[np.arange(len(beside)), which]).tobytes()

    def __reduce__(self) -> tuple[object, ...]:
        raise TypeError("RoundSecrets are secret and not picklable: see Client.suspend")

    def __repr__(self) -> str:
        return f"RoundSecrets(client={self._client})"
