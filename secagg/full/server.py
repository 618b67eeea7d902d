"""The server of the full protocol: takes messages as they come, closes steps when it is told.

    receive_keys,      close_keys        then ``roster`` for each client of U_1
    receive_shares,    close_shares      then ``delivery`` for each client of U_2
    receive_masked,    close_masked      then ``survivors_request`` or ``unmask_request`` (U_3)
    receive_signature, close_signatures  malicious variant; then ``unmask_request`` (U_4)
    receive_unmask,    close_unmask      the sum over U_3

When to close is the caller's decision, by its own clock: ``missing`` says whom it would leave out.

Source: Bonawitz et al., CCS 2017, Figure 4; Bell et al., CCS 2020, Algorithm 2.
Model: this code is an honest server. ``client`` in a message is a claim; the transport
    authenticates senders. A refused message leaves the state as it was.
Leaks: the server learns the sum over U_3 and who took part in which step; nothing from a round
    that ends before step 5 is complete.
Error: none.
Differs: masked inputs are added as they arrive, so vectors take O(d) memory. Clients with fewer
    than t clients beside them are left out before they would have to abort themselves. Secrets are
    checked when they are put together (``secagg.full.recovery``).
"""

from collections.abc import Iterator

import numpy as np

from mpc.core.checks import integer
from mpc.core.errors import AbortError, ParameterError, PeerError, StateError, WireError
from mpc.core.keys import KeyPair
from mpc.core.prg import Prg, PrgFactory
from mpc.core.ring import RingArray
from secagg.full.bookkeeping import Bookkeeping
from secagg.full.identity import Identities, is_valid, keys_text, roster_hash, survivors_text
from secagg.full.masking import Dropped, Map, UnmaskTask, run_task, split
from secagg.full.messages import (
    SEALED_BYTES,
    SHARE_BYTES,
    AdvertiseKeys,
    ConsistencySignature,
    Delivered,
    MaskedInput,
    Roster,
    SharedKeys,
    Step,
    SurvivorsRequest,
    UnmaskRequest,
    UnmaskShares,
)
from secagg.full.neighbourhoods import Members, Positions
from secagg.full.params import RoundParams
from secagg.full.recovery import Recovered, recover_secrets
from secagg.full.sharing import WORDS, is_seed, unpack_rows
from secagg.full.state import load

MAX_PARTS = 2**16


class Server(Bookkeeping):
    """The server of one round.

    identities: in the malicious variant, where to find everybody's keys; refused otherwise.
    prg: what expands masks, the same as the clients'.
    """

    def __init__(
        self,
        params: RoundParams,
        *,
        identities: Identities | None = None,
        prg: PrgFactory = Prg,
    ) -> None:
        if params.malicious != (identities is not None):
            raise ParameterError(
                "identities belong to the malicious variant", remedy=f"this is {params.variant}"
            )
        super().__init__(params)
        self._identities, self._prg = identities, prg
        self._altered: tuple[int, ...] = ()
        self._publics: set[bytes] = set()
        # Made once for all clients.
        self._all_keys: tuple[bytes, bytes] | None = None
        self._before: Positions | None = None
        self._signed_text = b""

    @classmethod
    def restore(
        cls,
        params: RoundParams,
        data: bytes,
        *,
        identities: Identities | None = None,
        prg: PrgFactory = Prg,
    ) -> "Server":
        """The server that ``save`` was called on, in a round that is not over.

        params: with the context that it was bound to, or without any.
        Raises WireError for bytes that are damaged or belong to another round.
        """
        server = cls(params, identities=identities, prg=prg)
        server._state, server.params = load(data, params)
        for message in server._state.keys.values():
            server._publics |= {message.channel, message.mask}
        return server

    def bind(self, context: bytes) -> None:
        """Agree on ``RoundParams.context``, where it was not known when keys were advertised.

        Raises ParameterError as ``with_context``, StateError once keys were shared under another.
        """
        bound = self.params.with_context(context)
        late = self.step > Step.SHARE_KEYS or bool(self._state.shares)
        if late and bound is not self.params:
            raise StateError(
                "clients have shared their keys without this context",
                remedy="bind it before rosters leave",
            )
        self.params = bound

    @property
    def altered(self) -> tuple[int, ...]:
        """Clients whose shares were not the ones dealt to them; their answers were left out."""
        return self._altered

    # Step 1, AdvertiseKeys.

    def receive_keys(self, message: AdvertiseKeys) -> None:
        """Take a client's public keys.

        Raises PeerError for another round, a stranger, a repeat, keys of another client and, in the
        malicious variant, a signature that is not the client's.
        """
        at = self._sender(Step.ADVERTISE_KEYS, message)
        client, publics = message.client, {message.channel, message.mask}
        if len(publics) < 2 or publics & self._publics:
            raise PeerError(f"client {client} advertises a key a second time", party=client)
        if self._identities is not None:
            text = keys_text(self.params, client, message.keys)
            if not is_valid(self._identities, client, text, message.signature):
                raise PeerError(f"client {client} did not sign its keys", party=client)
        else:
            self._check_length(message, "signature", message.signature, 0)
        self._publics |= publics
        self._state.keys[at] = message
        self._state.arrived[at] = True

    def close_keys(self) -> tuple[int, ...]:
        """No more keys: U_1 gets rosters. Raises AbortError for too few."""
        self._open(Step.ADVERTISE_KEYS)
        return self._close_core(Step.SHARE_KEYS)

    def roster(self, client: int) -> Roster:
        """What a client of U_1 receives in step 2."""
        members = self._set(Step.ADVERTISE_KEYS)
        beside = self.params.within(self._member(client, members), members)
        keys, signatures = self._joined(beside)
        packed = self.params.pack_set(members)
        return self._to(client, Roster, members=packed, keys=keys, signatures=signatures)

    def _joined(self, beside: Positions) -> tuple[bytes, bytes]:
        """Keys and signatures in order; in the complete graph they are the same for everybody."""
        if self._all_keys is not None:
            return self._all_keys
        messages = [self._state.keys[at] for at in beside.tolist()]
        signed = b"".join(m.signature for m in messages) if self.params.malicious else b""
        joined = b"".join(m.keys for m in messages), signed
        if self.params.neighbourhoods.complete:
            self._all_keys = joined
        return joined

    # Step 2, ShareKeys.

    def receive_shares(self, message: SharedKeys) -> None:
        """Take a client's sealed shares. PeerError as above, and for another number of shares."""
        at = self._sender(Step.SHARE_KEYS, message)
        peers = self.params.peers(at, self._set(Step.ADVERTISE_KEYS))
        self._check_length(message, "sealed shares", message.sealed, len(peers) * SEALED_BYTES)
        self._state.shares[at] = message
        self._state.arrived[at] = True

    def close_shares(self) -> tuple[int, ...]:
        """No more shares: U_2 gets deliveries. Raises AbortError for too few."""
        self._open(Step.SHARE_KEYS)
        return self._close_core(Step.MASKED_INPUT)

    def delivery(self, client: int) -> Delivered:
        """What a client of U_2 receives in step 3."""
        members = self._set(Step.SHARE_KEYS)
        at = self._member(client, members)
        senders, beside = self.params.peers(at, members), self.params.neighbourhoods
        if self._before is None:
            self._before = beside.before(self._set(Step.ADVERTISE_KEYS))
        # A sender is in its own neighbourhood, but has sealed nothing for itself.
        places = self._before[beside.entries(senders, at)] - (senders < at)
        sealed = b"".join(
            self._state.shares[sender].sealed[place * SEALED_BYTES : (place + 1) * SEALED_BYTES]
            for sender, place in zip(senders.tolist(), places.tolist(), strict=True)
        )
        return self._to(client, Delivered, members=self.params.pack_set(members), sealed=sealed)

    # Step 3, MaskedInputCollection.

    def receive_masked(self, message: MaskedInput) -> None:
        """Add a client's masked input. PeerError as above, and for another ring or size."""
        at = self._sender(Step.MASKED_INPUT, message)
        ring, client = self.params.ring, message.client
        if message.bits != ring.bits:
            raise PeerError(
                f"client {client} sent {message.bits}-bit elements, agreed are {ring.bits}",
                party=client,
            )
        try:
            masked = ring.from_bytes(message.payload, (self.params.dim,))
        except WireError as error:
            raise PeerError(f"client {client}: {error.message}", party=client) from error
        ring.add(self._state.total, masked, out=self._state.total)
        self._state.arrived[at] = True

    def close_masked(self) -> tuple[int, ...]:
        """No more inputs: U_3 gets requests. Raises AbortError for too few."""
        self._open(Step.MASKED_INPUT)
        survivors = self._state.arrived
        after = Step.CONSISTENCY_CHECK if self.params.malicious else Step.UNMASKING
        self._check_count(survivors)
        self._check_holders(survivors, survivors)
        return self._next(survivors, after)

    # Step 4, ConsistencyCheck.

    def survivors_request(self, client: int) -> SurvivorsRequest:
        """What a client of U_3 receives in step 4."""
        survivors = self._set(Step.MASKED_INPUT)
        self._member(client, survivors)
        return self._to(client, SurvivorsRequest, members=self.params.pack_set(survivors))

    def receive_signature(self, message: ConsistencySignature) -> None:
        """Take a client's signature on U_3. PeerError as above, and if it is not the client's."""
        at = self._sender(Step.CONSISTENCY_CHECK, message)
        client, known = message.client, self._identities
        if known is None or not is_valid(known, client, self._signing(), message.signature):
            raise PeerError(f"client {client} did not sign the survivors", party=client)
        self._state.signatures[at] = message.signature
        self._state.arrived[at] = True

    def _signing(self) -> bytes:
        """What every client of U_3 signs in step 4."""
        if not self._signed_text:
            members = self._set(Step.ADVERTISE_KEYS)
            keys, _ = self._joined(np.flatnonzero(members))
            roster = roster_hash(self.params, self.params.pack_set(members), keys)
            survivors = self.params.pack_set(self._set(Step.MASKED_INPUT))
            self._signed_text = survivors_text(self.params, roster, survivors)
        return self._signed_text

    def close_signatures(self) -> tuple[int, ...]:
        """No more signatures: U_4 gets requests. Raises AbortError for fewer than t."""
        self._open(Step.CONSISTENCY_CHECK)
        count, t = len(self._state.signatures), self.params.threshold
        if count < t:
            raise self._abort(f"{count} of {t} needed")
        return self._next(self._state.arrived, Step.UNMASKING)

    # Step 5, Unmasking.

    def unmask_request(self, client: int) -> UnmaskRequest:
        """What a client receives in step 5: U_3, and t signatures on it if malicious.

        Goes to U_3, or in the malicious variant to those who signed, U_4.
        """
        self._open(Step.UNMASKING)
        self._member(client, self._expected())
        survivors = self._set(Step.MASKED_INPUT)
        signers, signatures = b"", b""
        if self.params.malicious:
            some = np.flatnonzero(self._set(Step.CONSISTENCY_CHECK))[: self.params.threshold]
            chosen = np.zeros(survivors.size, np.bool_)
            chosen[some] = True
            signers = self.params.pack_set(chosen)
            signatures = b"".join(self._state.signatures[at] for at in some.tolist())
        members = self.params.pack_set(survivors)
        own = {"members": members, "signers": signers, "signatures": signatures}
        return self._to(client, UnmaskRequest, **own)

    def receive_unmask(self, message: UnmaskShares) -> None:
        """Take a client's shares of secrets. PeerError as above, and for what is no share."""
        at, client = self._sender(Step.UNMASKING, message), message.client
        beside = self.params.within(at, self._set(Step.SHARE_KEYS))
        self._check_length(message, "shares", message.shares, len(beside) * SHARE_BYTES)
        try:
            unpack_rows(message.shares, WORDS)
        except WireError as error:
            raise PeerError(f"client {client}: {error.message}", party=client) from error
        self._state.opened[at] = message.shares
        self._state.arrived[at] = True

    def close_unmask(self, *, map: Map = map, parts: int = 1) -> RingArray:
        """The sum of the inputs of U_3, (dim,); the server's memory of the round is gone.

        map: the builtin, or that of an executor, which then gets ``parts`` tasks of about equal
        size; they hold secrets of this round.
        Raises AbortError, without any sum, if some secret cannot be put together.
        """
        self._open(Step.UNMASKING)
        parts = integer("parts", parts, 1, MAX_PARTS)
        survivors = self._set(Step.MASKED_INPUT)
        self._check_holders(survivors, self._state.arrived)
        shared, total = self._set(Step.SHARE_KEYS), self._state.total.copy()
        try:
            found = recover_secrets(
                self.params, shared, survivors, self._state.opened, self._is_right
            )
            for part in map(run_task, self._tasks(found, survivors, parts)):
                self.params.ring.add(total, part, out=total)
        except (AbortError, PeerError) as error:
            raise self._abort(error.message) from error
        self._altered = self.params.ids(np.array(found.altered, np.intp))
        self._left = survivors
        self._state.end(Step.DONE, self.params)
        return total

    def _is_right(self, at: int, survived: bool, secret: bytes) -> bool:
        """Whether a secret put together is the one that the client at ``at`` committed to."""
        if survived:
            check = self._state.shares[at].check
            return is_seed(secret, check, self.params.digest, self.params.clients[at])
        return KeyPair(secret).public == self._state.keys[at].mask

    def _tasks(self, found: Recovered, survivors: Members, parts: int) -> Iterator[UnmaskTask]:
        """The masks to take off, in ``parts``."""
        params, ids = self.params, self.params.clients
        publics = {at: self._state.keys[at].mask for at in np.flatnonzero(survivors).tolist()}
        seeds = [(ids[at], seed) for at, seed in found.seeds.items()]
        dropped = [
            Dropped(
                ids[at],
                private,
                tuple((ids[peer], publics[peer]) for peer in params.peers(at, survivors).tolist()),
            )
            for at, private in found.keys.items()
        ]
        for some, gone in split(seeds, dropped, parts):
            yield UnmaskTask(params.digest, params.ring, params.dim, some, gone, self._prg)

    def __reduce__(self) -> tuple[object, ...]:
        raise TypeError("a Server is kept with save and restore, not pickled")

    def __repr__(self) -> str:
        return f"Server(round={self.params.round}, step={self.step.name})"
