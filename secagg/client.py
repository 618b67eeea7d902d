"""The client of one-time-pad aggregation: agree once, then mask round after round.

Source: Bonawitz et al., CCS 2017, section 4.0.1; x_u is ``vectors``, s_uv a pair's stream.
Model: semi-honest server and up to n - 2 clients, all of which may pool what they see. The
    transport authenticates the server and, for it, the clients.
Leaks: to the server the sum of all inputs of a round, and who takes part; to other clients
    nothing.
Differs: no recovery from drop-outs: a round without one member's vectors yields no sum.
"""

from enum import Enum

from mpc.core.errors import ParameterError, PeerError, StateError
from mpc.core.keys import KeyPair
from mpc.core.prg import Prg, PrgFactory
from mpc.core.ring import RingArray
from mpc.core.rng import SYSTEM_RNG, Rng
from secagg.inputs import InputMemory
from secagg.messages import (
    SERVER,
    AdvertiseKey,
    MaskedVector,
    Roster,
    RoundBurnt,
    RoundConfirmed,
)
from secagg.pads import PadSupply
from secagg.params import PadParams
from secagg.roster import check_roster, key_id
from secagg.schedule import PairChains
from secagg.watermark import MemoryWatermark, Watermark


def masked_messages(
    params: PadParams, client: int, round: int, masked: RingArray
) -> tuple[MaskedVector, ...]:
    """What ``client`` sends in ``round``: one message for each row of ``masked``."""
    return tuple(
        MaskedVector.make(
            session=params.session,
            client=client,
            round=round,
            sum_id=sum_id,
            bits=params.ring.bits,
            payload=params.ring.to_bytes(row),
        )
        for sum_id, row in enumerate(masked)
    )


class Phase(Enum):
    """How far a client has come in its session."""

    NEW = "new"
    ADVERTISED = "advertised"
    READY = "ready"
    ABORTED = "aborted"


class PadClient:
    """One client of one session. Without I/O: messages in, messages out.

    keys: a pair kept by the caller, which then needs a durable ``watermark``; by default a fresh
    pair that this object alone holds and drops after the agreement.
    inputs: the device's memory of unconfirmed inputs; by default one for this session alone.
    """

    def __init__(
        self,
        params: PadParams,
        client: int,
        *,
        keys: KeyPair | None = None,
        rng: Rng = SYSTEM_RNG,
        watermark: Watermark | None = None,
        inputs: InputMemory | None = None,
        prg: PrgFactory = Prg,
    ) -> None:
        if client not in params.clients:
            raise ParameterError(f"client {client} is not one of the session's clients")
        if keys is not None and watermark is None:
            raise ParameterError(
                "a key pair that outlives this object needs a watermark that does too",
                remedy="pass watermark=FileWatermark(path), or leave keys out",
            )
        self._params = params
        self.client = client
        self._keys: KeyPair | None = KeyPair.generate(rng) if keys is None else keys
        self._watermark: Watermark = MemoryWatermark() if watermark is None else watermark
        self._inputs = InputMemory(rng=rng) if inputs is None else inputs
        self._prg = prg
        self._supply: PadSupply | None = None
        self._unsettled: set[int] = set()  # rounds sent, neither confirmed nor burnt
        self._phase = Phase.NEW

    @property
    def phase(self) -> Phase:
        """How far this client has come; ABORTED is final."""
        return self._phase

    def advertise(self) -> AdvertiseKey:
        """Round 0: this client's public key, for the server to relay."""
        keys = self._key_pair(Phase.NEW)
        self._phase = Phase.ADVERTISED
        return AdvertiseKey(self._params.session, self.client, keys.public)

    def receive_roster(self, roster: Roster) -> None:
        """Round 1: agree on a key with every member.

        A roster of another session is refused and changes nothing. One that breaks the rules
        (another cohort, our key altered, a key twice, a key of low order) aborts the session.
        Raises PeerError.
        """
        keys = self._key_pair(Phase.ADVERTISED)
        if roster.session != self._params.session:
            raise PeerError("the roster belongs to another session", party=SERVER)
        self._phase = Phase.ABORTED  # stays so unless the roster is sound
        self._keys = None
        check_roster(roster, self._params, self.client, keys.public)
        pairs = PairChains(self._params, self.client, keys, roster, prg=self._prg)
        name = key_id("secagg.pad.client", self._params.session, keys.public)
        self._supply = PadSupply(self._params, [pairs], self._watermark, name)
        self._phase = Phase.READY

    def prefetch(self, first_round: int, rounds: int) -> None:
        """Make the pads of coming rounds in bulk, which is cheaper than one round at a time.

        Rounds passed over are lost. Raises StateError for rounds whose pads are spent.
        """
        self._ready().expand(first_round, rounds)

    def mask(self, round: int, vectors: RingArray) -> tuple[MaskedVector, ...]:
        """The messages of one round: every vector plus its pad, which is gone afterwards.

        vectors: ring elements of shape (sums_per_round, dim).
        Raises ParameterError for another shape or dtype; StateError if the round, or a later one,
        was served, or if a vector other than zero went out in a round that was not confirmed.
        On an error nothing is sent and the inputs are not remembered.
        """
        supply = self._ready()
        ring = self._params.ring
        if ring.check(vectors).shape != self._params.shape:
            raise ParameterError(
                f"vectors must have shape {self._params.shape}, got {vectors.shape}"
            )
        supply.check_round(round)
        digests = self._inputs.digests(vectors, ring)
        self._inputs.check(digests)
        masked = supply.mask(round, vectors[None])[0]
        self._inputs.remember(self._params.session, round, digests)
        self._unsettled.add(round)
        return masked_messages(self._params, self.client, round, masked)

    def confirm(self, notice: RoundConfirmed) -> None:
        """The round's sums were formed: its inputs may be sent again.

        Raises PeerError for another session, StateError for a round that awaits no result.
        """
        self._ready()
        self._check_notice(notice)
        if notice.round not in self._unsettled:
            raise StateError(f"round {notice.round} awaits no result")
        self._unsettled.discard(notice.round)
        self._inputs.forget(self._params.session, notice.round)

    def burn(self, notice: RoundBurnt) -> None:
        """The round failed, or never takes place: its id is spent, and its inputs stay refused.

        Raises PeerError for another session, StateError for a round settled or passed over.
        """
        supply = self._ready()
        self._check_notice(notice)
        if notice.round in self._unsettled:
            self._unsettled.discard(notice.round)
        else:
            supply.check_round(notice.round)
            supply.skip_to(notice.round + 1)

    def _check_notice(self, notice: RoundConfirmed | RoundBurnt) -> None:
        if notice.session != self._params.session:
            raise PeerError("the notice belongs to another session", party=SERVER)

    def _ready(self) -> PadSupply:
        if self._supply is None:
            raise StateError(f"client {self.client} has no pads in phase {self._phase.name}")
        return self._supply

    def _key_pair(self, expected: Phase) -> KeyPair:
        if self._phase is not expected or self._keys is None:
            raise StateError(
                f"client {self.client} is in phase {self._phase.name}, not {expected.name}"
            )
        return self._keys

    def __reduce__(self) -> tuple[object, ...]:
        raise TypeError("a PadClient holds secrets and is not picklable: a resumed run agrees anew")

    def __repr__(self) -> str:
        return f"PadClient(client={self.client}, phase={self._phase.name})"
