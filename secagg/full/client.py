"""The client of the full protocol: five steps, one method each, for one (session, round).

    advertise       fresh keys                                    (c_u, s_u), signed if malicious
    share_keys      roster checked, both secrets shared           e_{u,v} for each neighbour
    mask            shares opened, input masked                   y_u
    sign_survivors  malicious only: U_3 signed                    sigma'_u
    unmask          U_3 checked, one share for each peer          b_{v,u} or s_{v,u}

Source: Bonawitz et al., CCS 2017, Figure 4; Bell et al., CCS 2020, Algorithm 2 for sparse graphs.
Model: semi-honest: the server follows the protocol and pools what it sees with fewer than t
    clients; it may learn who is who, so keys need no signature. Malicious: the server and up to
    n_C clients do as they like; 2 t > n + n_C, and identities come from elsewhere. The transport
    authenticates the server and, for it, the clients.
Leaks: to the server the sum over U_3 and who took part in which step; to other clients the sets.
    Inputs of two rounds are not protected from the difference of their two sums: a server that
    leaves out a client in one of them learns what that client put in, if all others repeat
    themselves.
Differs: a message for another session, round or client, out of order or with lists of the wrong
    length changes nothing. Everything else is judged once: a refusal is final for the session.
    So a client that advertises or seals nonsense makes its neighbours refuse: availability is not
    protected. Pairwise keys are agreed before the first share leaves, so that a bad key is refused
    in time, and private keys are forgotten as soon as they have served. Shares are opened on
    delivery, not in the last step. Between two steps a client may live in bytes (``suspend``), and
    each step is written down as taken before it is judged, so that no copy takes it again.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from enum import Enum
from typing import Self, TypeVar

import numpy as np

from mpc.core.errors import ParameterError, PeerError, StateError, WireError
from mpc.core.prg import Prg, PrgFactory
from mpc.core.ring import RingArray
from mpc.core.rng import SYSTEM_RNG, Rng
from secagg.full.checks import ClientChecks
from secagg.full.history import History
from secagg.full.identity import Identities, Identity, keys_text, roster_hash, survivors_text
from secagg.full.masking import client_streams, mask
from secagg.full.messages import (
    KEYS_BYTES,
    SEALED_BYTES,
    AdvertiseKeys,
    ConsistencySignature,
    Delivered,
    MaskedInput,
    Roster,
    RoundAborted,
    RoundDone,
    RoundMessage,
    SharedKeys,
    Step,
    SurvivorsRequest,
    UnmaskRequest,
    UnmaskShares,
)
from secagg.full.neighbourhoods import Members, Positions
from secagg.full.params import RoundParams
from secagg.full.round_secrets import RoundSecrets
from secagg.full.suspended import Suspended, read, write
from secagg.messages import SERVER

_M = TypeVar("_M", bound=RoundMessage)


class Phase(Enum):
    """How far a client has come in its round."""

    NEW = "new"
    ADVERTISED = "advertised"
    SHARED = "shared"
    MASKED = "masked"
    SIGNED = "signed"
    DONE = "done"
    ABORTED = "aborted"
    SUSPENDED = "suspended"


_STEPS = {
    Phase.ADVERTISED: Step.ADVERTISE_KEYS,
    Phase.SHARED: Step.SHARE_KEYS,
    Phase.MASKED: Step.MASKED_INPUT,
    Phase.SIGNED: Step.CONSISTENCY_CHECK,
    Phase.DONE: Step.UNMASKING,
}
"""The step that leads to a phase."""


class Client(ClientChecks):
    """One client in one round. Without I/O: messages in, messages out.

    identity, identities: in the malicious variant this client's signing key and where to find
    everybody's; refused in the other one, which has no use for them.
    history: which rounds and steps the device has served; one object for all rounds of a session.
    By default one for this round alone, which does not know of the others and cannot be had again:
    give one to a client that will be suspended.
    prg: what expands masks.
    Raises StateError for a round that the history refuses; ParameterError for a stranger.
    """

    def __init__(
        self,
        params: RoundParams,
        client: int,
        *,
        identity: Identity | None = None,
        identities: Identities | None = None,
        history: History | None = None,
        rng: Rng = SYSTEM_RNG,
        prg: PrgFactory = Prg,
    ) -> None:
        self._history = History() if history is None else history
        self._set_up(params, client, identity, identities, prg)
        self._history.enter(params.session, client, params.round)
        self._secrets: RoundSecrets | None = RoundSecrets(params, client, rng)
        self._roster_hash = b""
        self._u1: Members = np.zeros(len(params.clients), np.bool_)
        self._u2 = self._u1
        self._signed = b""
        # Taken in one step and put back as the next phase: of two threads only one finds it.
        self._turn = [Phase.NEW]

    def _set_up(
        self,
        params: RoundParams,
        client: int,
        identity: Identity | None,
        identities: Identities | None,
        prg: PrgFactory,
    ) -> None:
        """What a client is told, as against what it does."""
        self.params = params
        self.client = client
        self.at = params.position(client)
        self._identity, self._identities = identity, identities
        self._prg, self._process = prg, os.getpid()
        if params.malicious != (identity is not None) or params.malicious != (
            identities is not None
        ):
            raise ParameterError(
                "identity and identities belong to the malicious variant, both of them",
                remedy=f"this round is {params.variant}",
            )
        self._check_identity()

    def _check_identity(self) -> None:
        if self._identity is None or self._identities is None:
            return
        if self._identities.public(self.client) != self._identity.public:
            raise ParameterError(f"identities list another key for client {self.client}")

    @property
    def phase(self) -> Phase:
        """How far this client has come; DONE, ABORTED and SUSPENDED are final."""
        return (*self._turn, Phase.ABORTED)[0]

    def advertise(self) -> AdvertiseKeys:
        """Step 1: fresh public keys for this very round."""
        keys = self._expect(Phase.NEW).keys
        signature = b""
        with self._judged(Phase.NEW, Phase.ADVERTISED):
            if self._identity is not None:
                signature = self._identity.sign(keys_text(self.params, self.client, keys))
        return self._message(AdvertiseKeys, keys=keys, signature=signature)

    def share_keys(self, roster: Roster, *, context: bytes | None = None) -> SharedKeys:
        """Step 2: judge the roster, agree with every neighbour, share both secrets.

        context: the round's, see ``RoundParams``, where it was not known before. Clients that are
        told different ones share no mask.
        Raises PeerError or AbortError, final for the session, for a roster that breaks a rule;
        ParameterError, and changes nothing, for a context where there is another one.
        """
        secrets = self._expect(Phase.ADVERTISED, roster)
        bound = self.params if context is None else self.params.with_context(context)
        members = self._set(roster.members)
        beside = self.params.within(self.at, members)
        self._check_length("keys", roster.keys, len(beside) * KEYS_BYTES)
        if not self.params.malicious:
            self._check_length("signatures", roster.signatures, 0)
        with self._judged(Phase.ADVERTISED, Phase.SHARED):
            self.params = bound
            secrets.bind(bound)
            keys = self._judge_roster(roster, members, beside, secrets.keys)
            self._u1 = members
            self._roster_hash = roster_hash(self.params, roster.members, roster.keys)
            peers = self.params.peers(self.at, members)
            sealed = secrets.share(peers, secrets.agree(peers, keys))
        return self._message(SharedKeys, check=secrets.check, sealed=sealed)

    def mask(self, delivered: Delivered, x: RingArray) -> MaskedInput:
        """Step 3: open the shares of all neighbours, and mask the input.

        x: ring elements of shape (dim,); several vectors travel as one, side by side.
        Raises ParameterError for other inputs, which changes nothing; PeerError or AbortError,
        final for the session, for a delivery that breaks a rule or does not open.
        """
        secrets = self._expect(Phase.SHARED, delivered)
        ring = self.params.ring
        vector = ring.check(x)
        if vector.shape != (self.params.dim,):
            raise ParameterError(f"x must have shape ({self.params.dim},), got {vector.shape}")
        members = self._set(delivered.members)
        peers = self.params.peers(self.at, members)
        self._check_length("sealed", delivered.sealed, len(peers) * SEALED_BYTES)
        with self._judged(Phase.SHARED, Phase.MASKED):
            self.check_own_membership(members, "those who shared keys")
            self.check_subset(members, self._u1, "those who shared keys")
            self.check_count(members, "those who shared keys")
            self.check_threshold(members, "those who shared keys")
            self._u1 = self._u2 = members  # U_1 has served
            secrets.open(peers, delivered.sealed)
            streams = client_streams(self.client, *secrets.mask_keys(peers), self._prg)
            masked = mask(vector, streams, ring)
        return self._message(MaskedInput, bits=ring.bits, payload=ring.to_bytes(masked))

    def sign_survivors(self, request: SurvivorsRequest) -> ConsistencySignature:
        """Step 4, malicious variant: judge the set of survivors, and sign it.

        Raises StateError in the semi-honest variant; PeerError or AbortError, final for the
        session, for a set that breaks a rule.
        """
        if self._identity is None:
            raise StateError("the semi-honest variant has no consistency check")
        self._expect(Phase.MASKED, request)
        survivors = self._set(request.members)
        with self._judged(Phase.MASKED, Phase.SIGNED):
            self._judge_survivors(survivors)
            self._signed = request.members
            text = survivors_text(self.params, self._roster_hash, request.members)
            signature = self._identity.sign(text)
        return self._message(ConsistencySignature, signature=signature)

    def unmask(self, request: UnmaskRequest) -> UnmaskShares:
        """Step 5: for each peer a share of its self-mask seed *or* of its mask key, never both.

        This is the only answer that this client ever gives in the round; its secrets are gone
        afterwards. Raises PeerError or AbortError, final for the session, for a request that
        breaks a rule.
        """
        malicious = self.params.malicious
        before = Phase.SIGNED if malicious else Phase.MASKED
        secrets = self._expect(before, request)
        survivors = self._set(request.members)
        signers = self._set(request.signers) if malicious else survivors
        if not malicious:
            self._check_length("signers and signatures", request.signers + request.signatures, 0)
        with self._judged(before, Phase.DONE):
            self._judge_survivors(survivors)
            if self._identities is not None:
                self.check_signed_set(request.members, self._signed)
                self.check_subset(signers, survivors, "signers")
                self.check_signer_count(signers)
                self.check_survivor_signatures(
                    *(self._identities, self._roster_hash, request.members),
                    *(signers, request.signatures),
                )
            answer = self.answer(secrets, survivors)
            self._secrets = None
        return self._message(UnmaskShares, shares=answer)

    def close(self, notice: RoundDone | RoundAborted) -> None:
        """The server's last word on the round: secrets are dropped, whatever it says.

        Raises PeerError, and changes nothing, for a notice of another round.
        """
        self._check_address(notice)
        self._secrets = None
        if self.phase is not Phase.DONE:
            self._turn.clear()

    # From one process to the next.

    def suspend(self) -> bytes:
        """All that this client knows, secrets included, between two steps; the object is over.

        Raises StateError, and changes nothing, during a step and where nothing is left to keep.
        """
        phase = self.phase
        secrets = self._expect(phase)
        self._take(phase)
        self._secrets = None
        early = phase in (Phase.NEW, Phase.ADVERTISED)
        state = Suspended(
            self.params.digest,
            self.params.context,
            self.client,
            phase.value,
            self._roster_hash,
            b"" if early else self.params.pack_set(self._u1),
            self._signed,
            **secrets.kept(),
        )
        self._turn.append(Phase.SUSPENDED)
        return write(state)

    @classmethod
    def resume(
        cls,
        params: RoundParams,
        data: bytes,
        *,
        history: History,
        identity: Identity | None = None,
        identities: Identities | None = None,
        rng: Rng = SYSTEM_RNG,
        prg: PrgFactory = Prg,
    ) -> Self:
        """The client that ``suspend`` was called on, also in another process.

        params: with the context that it was bound to, or without any.  history: the one that the
        client was made with, or one on the same ``FileWatermark``; to a step that was taken under
        it, no copy of the client answers again.
        Raises WireError for bytes that are damaged or of another round; StateError after a refusal
        in the session, and for a history that does not know the round.
        """
        state, bound = read(data, params)
        client = cls.__new__(cls)
        client._history = history
        client._set_up(bound, state.client, identity, identities, prg)
        history.resume(bound.session, state.client, bound.round)
        nobody = np.zeros(len(bound.clients), np.bool_)
        members = bound.unpack_set(state.members) if state.members else nobody
        masked = state.phase in (Phase.MASKED.value, Phase.SIGNED.value)
        client._secrets = RoundSecrets.restored(bound, rng, state, members)
        client._roster_hash, client._signed = state.roster, state.signed
        client._u1, client._u2 = members, members if masked else nobody
        client._turn = [Phase(state.phase)]
        return client

    # What is judged, and what is released.

    def _judge_roster(
        self, roster: Roster, members: Members, beside: Positions, own: bytes
    ) -> dict[int, bytes]:
        """Every rule for a roster; both public keys of each client beside us, by position."""
        step = "those who advertised keys"
        self.check_own_membership(members, step)
        self.check_count(members, step)
        self.check_threshold(members, step)
        rows = range(0, len(roster.keys), KEYS_BYTES)
        keys = {
            at: roster.keys[row : row + KEYS_BYTES]
            for at, row in zip(beside.tolist(), rows, strict=True)
        }
        self.check_own_keys(keys.get(self.at, b""), own)
        self.check_distinct_keys(roster.keys)
        if self._identities is not None:
            self.check_key_signatures(self._identities, beside, roster.keys, roster.signatures)
        return keys

    def _judge_survivors(self, survivors: Members) -> None:
        step = "survivors"
        self.check_own_membership(survivors, step)
        self.check_subset(survivors, self._u2, step)
        self.check_count(survivors, step)
        self.check_threshold(survivors, step)

    def answer(self, secrets: RoundSecrets, survivors: Members) -> bytes:
        """What leaves in the last step: one share for each member of U_2 beside this client."""
        return secrets.answer(survivors, self.params.within(self.at, self._u2))

    # Order, address, finality.

    def _expect(self, phase: Phase, message: RoundMessage | None = None) -> RoundSecrets:
        if self.phase is not phase or self._secrets is None:
            raise StateError(
                f"client {self.client} is in phase {self.phase.name}, not {phase.name}"
            )
        self._history.check(self.params.session, self.client)
        if os.getpid() != self._process:
            # A fork copies the secrets: both processes would answer.
            raise StateError(f"client {self.client} belongs to another process")
        if message is not None:
            self._check_address(message)
        return self._secrets

    def _check_address(self, message: RoundMessage) -> None:
        expected = (self.params.session, self.params.round, self.client)
        if (message.session, message.round, message.client) != expected:
            raise PeerError(
                f"a message for client {message.client} in round {message.round} came to client "
                f"{self.client} in round {self.params.round}, or from another session",
                party=SERVER,
            )

    def _set(self, data: bytes) -> Members:
        try:
            return self.params.unpack_set(data)
        except WireError as error:
            raise PeerError(error.message, party=SERVER) from error

    def _check_length(self, name: str, data: bytes, size: int) -> None:
        if len(data) != size:
            raise PeerError(f"{name} must take {size} bytes, got {len(data)}", party=SERVER)

    def _take(self, phase: Phase) -> None:
        """Take the turn. StateError, and no change, if another thread has it or has had it."""
        try:
            found = self._turn.pop()
        except IndexError:
            raise StateError(f"client {self.client} is busy in another thread, or over") from None
        if found is not phase:
            self._turn.append(found)
            raise StateError(f"client {self.client} is in phase {found.name}, not {phase.name}")

    @contextmanager
    def _judged(self, before: Phase, after: Phase) -> Iterator[None]:
        """Whatever goes wrong inside is final; otherwise the client has come to ``after``.

        Raises StateError, and changes nothing, where another thread is inside or has been. Where
        another copy of this client has taken the step, this one is over, but not the session.
        """
        self._take(before)
        # From here on a refusal burns this round's secrets: the turn does not come back.
        try:
            self._claim(_STEPS[after])
        except BaseException:
            self._secrets = None
            raise
        try:
            yield
        except BaseException:
            self._secrets = None
            self._history.refuse(self.params.session, self.client)
            raise
        self._turn.append(after)

    def _claim(self, step: Step) -> None:
        """Have the step written down as taken, before anything of it leaves."""
        self._history.step(self.params.session, self.client, self.params.round, step)

    def _message(self, kind: type[_M], **fields: bytes | int) -> _M:
        return kind.make(self.params.session, self.params.round, self.client, **fields)

    def __reduce__(self) -> tuple[object, ...]:
        raise TypeError("a Client holds secrets and is not picklable: see suspend and resume")

    def __repr__(self) -> str:
        return f"Client({self.client}, round={self.params.round}, phase={self.phase.name})"
