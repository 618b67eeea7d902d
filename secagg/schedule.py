"""The key schedule of one client: a chain for each peer, one step of it for each epoch.

    pair key   k_0     = HKDF(X25519(own, peer)), both public keys and ids, params in the info
    epoch e    (k_{e+1}, stream key s_e) = HKDF-Expand(k_e, 64 bytes)
    pad        AES-256-CTR keystream of s_e from the region's start on

Source: X25519 (RFC 7748), HKDF (RFC 5869); the two-output step is a symmetric-key ratchet.
Model: whoever reads the state in epoch e learns s_e and all later keys, none of the earlier ones.
"""

from mpc.core.errors import PeerError, StateError, WireError
from mpc.core.keys import KEY_BYTES, KeyPair, expand_key, label
from mpc.core.prg import Prg, PrgFactory
from mpc.core.ring import RingArray
from mpc.core.rng import Rng
from secagg.masks import net_pad, sign
from secagg.messages import Roster
from secagg.params import PadParams, Region

MAX_SKIP = 1 << 16
"""Most epochs stepped over at once: a wrong round id must not cost hours of hashing."""


class PairChains:
    """One client's ends of its n - 1 pair keys. Holds secrets: no pickle, no copy, no repr."""

    __slots__ = ("_chains", "_params", "_prg", "_streams", "client", "epoch", "peers")

    def __init__(
        self,
        params: PadParams,
        client: int,
        keys: KeyPair,
        roster: Roster,
        *,
        prg: PrgFactory = Prg,
    ) -> None:
        """Agree with every peer of ``roster`` (checked by ``secagg.roster.check_roster``).

        Raises PeerError, naming the peer, for a public key of low order.
        """
        self.client = client
        self.peers = tuple(peer for peer in roster.clients if peer != client)
        self.epoch = -1  # of the stream keys held; the chains are one step ahead
        self._params = params
        self._prg = prg
        # Flat buffers, so that a step overwrites the keys it leaves behind.
        self._chains = bytearray()
        self._streams = bytearray(KEY_BYTES * len(self.peers))
        publics = dict(zip(roster.clients, roster.publics, strict=True))
        for peer in self.peers:
            first, second = sorted((client, peer))
            try:
                key = keys.agree(publics[peer], "secagg.pad", params.digest, first, second)
            except WireError as error:
                raise PeerError(f"client {peer}: {error.message}", party=peer) from error
            self._chains += key

    def check_epoch(self, epoch: int) -> None:
        """StateError for an epoch already left, or more than MAX_SKIP ahead."""
        if epoch < self.epoch:
            raise StateError(f"epoch {epoch} lies before the current one, {self.epoch}")
        if epoch - self.epoch > MAX_SKIP:
            raise StateError(
                f"epoch {epoch} lies more than {MAX_SKIP} epochs ahead of {self.epoch}",
                remedy="check the round id; a new session starts at round 0",
            )

    def enter(self, epoch: int) -> None:
        """Step every chain to ``epoch``; the keys of earlier epochs are gone afterwards.

        Raises StateError as ``check_epoch`` does.
        """
        self.check_epoch(epoch)
        for step in range(self.epoch + 1, epoch + 1):
            info = label("secagg.pad.epoch", step)
            for at in range(0, len(self._chains), KEY_BYTES):
                end = at + KEY_BYTES
                chain = bytes(self._chains[at:end])
                both = expand_key(chain, info, 2 * KEY_BYTES)
                self._chains[at:end] = both[:KEY_BYTES]
                self._streams[at:end] = both[KEY_BYTES:]
        self.epoch = epoch

    def streams(self, region: Region) -> list[tuple[int, Rng]]:
        """One signed stream for each peer, standing at the region's start."""
        self.enter(region.epoch)
        signed: list[tuple[int, Rng]] = []
        for at, peer in enumerate(self.peers):
            key = bytes(self._streams[at * KEY_BYTES : (at + 1) * KEY_BYTES])
            signed.append((sign(self.client, peer), self._prg(key, region.start)))
        return signed

    def net_pads(self, region: Region, batch: tuple[int, ...] = ()) -> RingArray:
        """The client's net pad over a region of whole rounds.

        Returns (*batch, rounds, sums_per_round, dim), a view that skips the unused end of each
        slot. batch: leading axes that the streams of ``prg`` fill themselves; none with ``Prg``.
        """
        ring, sums = self._params.ring, self._params.sums_per_round
        length = (region.stop - region.start) // ring.element_bytes()
        flat = net_pad(self.streams(region), (*batch, length), ring)
        slot = self._params.slot_bytes // ring.element_bytes()
        return flat.reshape(*batch, -1, sums, slot)[..., : self._params.dim]

    def __reduce__(self) -> tuple[object, ...]:
        raise TypeError("PairChains hold secrets and are not picklable: a resumed run agrees anew")

    def __repr__(self) -> str:
        return f"PairChains(client={self.client}, peers={len(self.peers)}, epoch={self.epoch})"
