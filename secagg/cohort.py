"""A whole cohort in one process: every member's and the server's work, as one batch.

Source: Bonawitz et al., CCS 2017, section 4.0.1.
Model: as ``secagg.client``. All members' secrets lie in this process, so it protects nobody from
    its owner: it is for experiments and for measuring what the protocol costs. Each end of a
    pair is computed by itself, as the devices would do it.
Differs: vectors move as arrays. A network that records views gets every message; any other is
    told how many messages of which exact size the round stands for.
"""

from collections.abc import Sequence

import numpy as np

from mpc.core.errors import ParameterError, StateError
from mpc.core.keys import KeyPair
from mpc.core.local import LocalNetwork
from mpc.core.prg import Prg, PrgFactory
from mpc.core.ring import RingArray
from mpc.core.rng import SYSTEM_RNG, Rng
from mpc.core.wire import Message
from secagg.client import masked_messages
from secagg.masks import accumulate
from secagg.messages import SERVER, AdvertiseKey, MaskedVector, RoundConfirmed
from secagg.pads import PadSupply
from secagg.params import PadParams
from secagg.roster import check_roster, key_id
from secagg.schedule import PairChains
from secagg.server import PadServer
from secagg.watermark import MemoryWatermark, Watermark

KEY = "pads.key"
ROSTER = "pads.roster"
MASKED = "pads.masked"
CONFIRMED = "pads.confirmed"


class PadCohort:
    """All clients of one session and their server.

    keys: one pair for each client, kept by the caller, which then needs a ``watermark``; by
    default fresh pairs that are dropped after the agreement.  Never pickled or checkpointed: a
    run that resumes makes a new cohort under a new session.
    network: counts messages and bytes by kind; the caller closes its rounds, since cohorts run
    side by side. The server's id in it is SERVER.
    """

    def __init__(
        self,
        params: PadParams,
        *,
        keys: Sequence[KeyPair] | None = None,
        rng: Rng = SYSTEM_RNG,
        watermark: Watermark | None = None,
        network: LocalNetwork | None = None,
        prg: PrgFactory = Prg,
    ) -> None:
        if keys is not None and watermark is None:
            raise ParameterError(
                "key pairs that outlive this object need a watermark that does too",
                remedy="pass a watermark, or leave keys out",
            )
        if keys is not None and len(keys) != len(params.clients):
            raise ParameterError(f"{len(keys)} key pairs for {len(params.clients)} clients")
        self._params = params
        pairs = [KeyPair.generate(rng) for _ in params.clients] if keys is None else keys
        self._keys: tuple[KeyPair, ...] = tuple(pairs)
        self._watermark: Watermark = MemoryWatermark() if watermark is None else watermark
        self._network = LocalNetwork() if network is None else network
        self._prg = prg
        self._supply: PadSupply | None = None

    def agree(self) -> None:
        """Rounds 0 and 1: all n(n-1) key exchanges, both ends of each pair.

        Raises StateError the second time; PeerError as ``PadClient.receive_roster`` does.
        """
        if not self._keys:
            raise StateError("the cohort has agreed on its keys already")
        params, keys, self._keys = self._params, self._keys, ()
        server = PadServer(params)
        for client, pair in zip(params.clients, keys, strict=True):
            message = AdvertiseKey(params.session, client, pair.public)
            self._send(client, SERVER, KEY, message)
            server.collect_key(message)
        roster = server.roster()
        ends = []
        for client, pair in zip(params.clients, keys, strict=True):
            self._send(SERVER, client, ROSTER, roster)
            check_roster(roster, params, client, pair.public)
            ends.append(PairChains(params, client, pair, roster, prg=self._prg))
        name = key_id("secagg.pad.cohort", params.session, *roster.publics)
        self._supply = PadSupply(params, ends, self._watermark, name)

    def expand(self, first_round: int, rounds: int) -> None:
        """Make every client's net pads of coming rounds in bulk, after claiming them.

        Holds clients * rounds * sums_per_round * dim elements until they are used. Rounds passed
        over are lost. Raises StateError for spent rounds, ParameterError beyond MAX_PAD_BYTES.
        """
        self._pads().expand(first_round, rounds)

    def run_round(self, round: int, x: RingArray) -> RingArray:
        """One complete round: mask, send, sum, confirm. Returns the sums (sums_per_round, dim).

        x: (clients, sums_per_round, dim), ring elements, clients in the order of the params.
        Raises ParameterError for another shape or dtype, StateError for a spent round.
        """
        params = self._params
        masked = self._pads().mask(round, x)
        if self._network.records:
            for client, vectors in zip(params.clients, masked, strict=True):
                for message in masked_messages(params, client, round, vectors):
                    self._send(client, SERVER, MASKED, message)
        else:
            parts = len(params.clients) * params.sums_per_round
            self._network.count(MASKED, parts, parts * params.message_bytes[MaskedVector])
        total: RingArray = np.zeros(params.shape, dtype=params.ring.dtype)
        accumulate(total, masked, params.ring)
        self._confirm(RoundConfirmed(params.session, round))
        return total

    def _confirm(self, notice: RoundConfirmed) -> None:
        if self._network.records:
            for client in self._params.clients:
                self._send(SERVER, client, CONFIRMED, notice)
        else:
            parts = len(self._params.clients)
            self._network.count(CONFIRMED, parts, parts * len(notice.to_bytes()))

    def _send(self, sender: int, receiver: int, kind: str, message: Message) -> None:
        data = message.to_bytes()
        if self._network.records:
            self._network.send(sender, receiver, kind, data)
            self._network.receive(receiver)  # this object acts for the receiver, too
        else:
            self._network.count(kind, 1, len(data))

    def _pads(self) -> PadSupply:
        if self._supply is None:
            raise StateError("the cohort has no keys yet", remedy="call agree first")
        return self._supply

    def __reduce__(self) -> tuple[object, ...]:
        raise TypeError("a PadCohort holds secrets and is not picklable: a resumed run agrees anew")

    def __repr__(self) -> str:
        return f"PadCohort(clients={len(self._params.clients)}, agreed={self._supply is not None})"
