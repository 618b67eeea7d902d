"""One request to a client and what it answers: the client's half of the protocol, a step at a time.

Source: the steps are those of ``secagg.full.client``; each is run by a process of its own, which
    takes the client up where the last one left it.
Model: requests come from a server that may do as it likes, in the variant against such servers. A
    request that does not parse, is out of order or repeats one, or belongs to another session,
    round or client, changes nothing. A round that this client's policy does not allow is not
    entered. One that breaks a rule, or whose terms, model or config are not those that the keys
    were bound to, ends the session for this client. If its training fails, it leaves the round, as
    if it had died.
Leaks: what the answers show. Why a request was declined is said to this client's own log; the
    server gets a code.
"""

from collections.abc import Callable, Mapping
from typing import Any, NoReturn

import numpy as np
from flwr.app import RecordDict
from numpy.typing import NDArray

from mpc.core.errors import (
    AbortError,
    ParameterError,
    PeerError,
    ProtocolError,
    StateError,
    ToolkitError,
    WireError,
)
from secagg.flower.keyring import Keyring
from secagg.flower.policy import Policy
from secagg.flower.records import CONTEXT_BYTES, HELLO, Answer, Code, Hello, Request
from secagg.flower.store import Held, StateStore
from secagg.flower.terms import Terms, content_digest, context
from secagg.flower.training import model_of, read_trained
from secagg.full.announcement import Announcement
from secagg.full.client import Client, Phase
from secagg.full.identity import Identity
from secagg.full.messages import (
    Delivered,
    Roster,
    Step,
    SurvivorsRequest,
    UnmaskRequest,
)
from secagg.full.params import RoundParams
from secagg.messages import SERVER
from secagg.vectors import VectorCodec

Train = Callable[[], RecordDict]
"""Runs the training function on the request's message; the records of its reply."""

OnClipped = Callable[[dict[str, int]], None]
"""Told, on this node alone, how many entries of each array lay outside the clip."""


class Declined(ProtocolError):
    """A request that gets no answer. ``code`` is all that the server is told."""

    def __init__(self, message: str, code: Code, *, remedy: str = "") -> None:
        super().__init__(message, remedy=remedy)
        self.code = code


class Turn:
    """The client's work on one request.

    content: the user's records that came with it.  message_type: of the message that brought it.
    store: what this client keeps; changed in place, and to be stored whatever ``answer`` raises.
    keyring: this node's identity and the operator's roster, read when they are needed.
    no_offer: why there are no keys for the next round beside an answer, where the server asked.
    """

    def __init__(
        self,
        request: Request,
        content: RecordDict,
        message_type: str,
        store: StateStore,
        *,
        policy: Policy,
        keyring: Keyring,
        train: Train,
        on_clipped: OnClipped | None = None,
    ) -> None:
        self._request, self._content, self._type = request, content, message_type
        self._store, self._policy, self._keyring = store, policy, keyring
        self._train, self._on_clipped = train, on_clipped
        self._client: Client | None = None
        self.no_offer: ToolkitError | None = None

    def answer(self) -> Answer:
        """The answer. Raises Declined, and nothing else, where there is none."""
        request = self._request
        if request.session in self._store.left:
            raise Declined("this client has left the session", Code.REFUSED)
        try:
            return self._answered()
        except Declined:
            raise
        except StateError as error:
            self._forget_if_over()
            raise Declined(str(error), Code.STALE) from error
        except (PeerError, AbortError, WireError, ParameterError) as error:
            if self._forget_if_over():
                self._leave(error)
            raise Declined(str(error), Code.STALE) from error
        except Exception as error:
            # Nothing of the kind was to be expected, so nothing of the round is to be trusted.
            self._leave(error)

    def _answered(self) -> Answer:
        request = self._request
        if request.step == HELLO:
            identity, client = self._own_keys()
            return self._answer(Hello.make(identity, request.session).to_bytes(), client=client)
        known = self._store.sessions.get(request.session, request.client)
        if known != request.client:
            raise StateError(f"client {known} of the session is called {request.client}")
        if request.step == Step.ADVERTISE_KEYS:
            return self._answer(self._advertise(request.data, request.terms))
        steps = {
            Step.SHARE_KEYS: self._share,
            Step.MASKED_INPUT: self._mask,
            Step.CONSISTENCY_CHECK: self._sign,
            Step.UNMASKING: self._unmask,
        }
        held = self._held_round()
        params = Announcement.read(held.announcement)
        self._client = Client.resume(
            params, held.state, history=self._store.history, **self._signing(params)
        )
        return steps[Step(request.step)](self._client, held)

    def _held_round(self) -> Held:
        request, held = self._request, self._store.held
        if held is None or (held.session, held.round) != (request.session, request.round):
            raise StateError(f"round {request.round} of this session is not under way")
        return held

    # The steps.

    def _advertise(self, announcement: bytes, terms: bytes) -> bytes:
        """Enter a round; the keys for it. Whatever round was under way is over."""
        params = self._judged_round(announcement, terms)
        own, store = self._request.client, self._store
        client = Client(params, own, history=store.history, **self._signing(params))
        keys = client.advertise().to_bytes()
        store.sessions[params.session] = own
        state = client.suspend()
        store.held = Held(params.session, params.round, own, announcement, terms, state)
        return keys

    def _judged_round(self, announcement: bytes, terms: bytes) -> RoundParams:
        """The round that was announced, if this client takes part in such a one."""
        request = self._request
        params, told = Announcement.read(announcement), Terms.from_bytes(terms)
        if params.session != request.session:
            raise PeerError("a round of another session was announced", party=SERVER)
        params.position(request.client)
        try:
            self._policy.check(params, told)
            self._policy.check_marks(params, durable=self._store.durable)
        except PeerError as error:
            raise Declined(str(error), Code.UNWILLING) from error
        try:
            told.check_round(params)
            self._check_roster(params)
        except PeerError as error:
            self._leave(error)
        return params

    def _check_roster(self, params: RoundParams) -> None:
        """PeerError unless the operator lists all clients, and this one under this very id."""
        if not params.malicious:
            return
        _, client = self._own_keys()
        if client != self._request.client:
            raise PeerError(
                f"client {client} of the roster is called {self._request.client}", party=SERVER
            )
        roster = self._keyring.roster
        strangers = [other for other in params.clients if roster.public(other) is None]
        if strangers:
            raise PeerError(f"clients {strangers[:8]} are not in the roster", party=SERVER)

    def _share(self, client: Client, held: Held) -> Answer:
        roster = client.params.decode(Roster, self._request.data)
        if len(self._request.context) != CONTEXT_BYTES:
            raise PeerError("keys must be bound to the round's terms and model", party=SERVER)
        shared = client.share_keys(roster, context=self._request.context)
        return self._kept(client, held, shared.to_bytes())

    def _mask(self, client: Client, held: Held) -> Answer:
        if client.phase is not Phase.SHARED:  # before anything is trained
            raise StateError(f"client {client.client} is in phase {client.phase.name}")
        delivered = client.params.decode(Delivered, self._request.data)
        terms = Terms.from_bytes(held.terms)
        codec = self._judged_content(client.params, terms)
        try:
            trained = read_trained(self._train(), terms)
            encoded = codec.encode(_as_declared(trained.fields(), codec), weight=trained.weight)
            if self._on_clipped is not None:
                self._on_clipped(dict(encoded.clipped))
        except (Exception, SystemExit) as error:
            self._store.held = None
            raise Declined("training failed, or its result does not fit", Code.FAILED) from error
        masked = client.mask(delivered, encoded.vector)
        return self._kept(client, held, masked.payload)

    def _judged_content(self, params: RoundParams, terms: Terms) -> VectorCodec:
        """What encodes arrays like those that came, if they and the terms are those agreed on."""
        try:
            digest = content_digest(self._content)
            roster = self._keyring.roster.digest if params.malicious else b""
            if context(terms, digest, self._type, roster) != params.context:
                raise PeerError(
                    "model, config, terms or roster are not those agreed on", party=SERVER
                )
            codec = terms.codec(model_of(self._content)[1])
            if codec.size != params.dim:
                raise PeerError(
                    f"the model takes {codec.size} entries, the round has {params.dim}",
                    party=SERVER,
                )
        except (ParameterError, PeerError) as error:
            self._leave(error)
        return codec

    def _sign(self, client: Client, held: Held) -> Answer:
        request = client.params.decode(SurvivorsRequest, self._request.data)
        return self._kept(client, held, client.sign_survivors(request).to_bytes())

    def _unmask(self, client: Client, held: Held) -> Answer:
        request = client.params.decode(UnmaskRequest, self._request.data)
        opened = client.unmask(request).to_bytes()
        self._store.held = None
        return self._answer(opened, offer=self._offer())

    def _offer(self) -> bytes:
        """Keys for the next round, if the server announced one that this client takes part in.

        What is wrong with it does not keep the answer back that this round is due.
        """
        if not self._request.offer:
            return b""
        try:
            return self._advertise(self._request.offer, self._request.terms)
        except ToolkitError as error:
            self.no_offer = error
            return b""

    # This client.

    def _own_keys(self) -> tuple[Identity, int]:
        """This node's identity, and its id in the operator's roster."""
        try:
            return self._keyring.identity, self._keyring.client
        except (ToolkitError, OSError) as error:
            raise Declined(f"no keys on this node: {error}", Code.FAILED) from error

    def _signing(self, params: RoundParams) -> dict[str, Any]:
        if not params.malicious:
            return {}
        identity, _ = self._own_keys()
        return {"identity": identity, "identities": self._keyring.roster}

    def _kept(self, client: Client, held: Held, data: bytes) -> Answer:
        """The answer, once the client is in the store as it is after it."""
        held_ids = (held.session, held.round, held.client, held.announcement, held.terms)
        self._store.held = Held(*held_ids, client.suspend())
        return self._answer(data)

    def _answer(self, data: bytes, *, client: int | None = None, offer: bytes = b"") -> Answer:
        request = self._request
        own = request.client if client is None else client
        return Answer(request.step, request.session, request.round, own, data, offer)

    def _forget_if_over(self) -> bool:
        """Whether the client has aborted; then nothing of it is kept."""
        over = self._client is not None and self._client.phase is Phase.ABORTED
        if over:
            self._store.held = None
        return over

    def _leave(self, error: Exception) -> NoReturn:
        """No more answers in this session."""
        store, session = self._store, self._request.session
        own = store.sessions.setdefault(session, self._request.client)
        store.left.add(session)
        store.held = None
        try:
            store.history.refuse(session, own)
        finally:
            text = str(error) if isinstance(error, ToolkitError) else "something went wrong here"
            raise Declined(text, Code.REFUSED) from error


def _as_declared(arrays: Mapping[str, NDArray[Any]], codec: VectorCodec) -> dict[str, NDArray[Any]]:
    """``arrays`` in the dtypes that the codec expects, where no kind of number is lost.

    A strategy that averages makes floats of integers, so a model comes back in other dtypes than
    those in which it is trained. Raises ParameterError, naming the array, where integers would have
    to stand for floats, or do not fit.
    """
    declared = {field.name: field.dtype for field in codec.fields}
    fitting = {}
    for name, array in arrays.items():
        dtype = declared.get(name, array.dtype)
        if not np.can_cast(array.dtype, dtype, casting="same_kind"):
            raise ParameterError(f"array {name!r} has dtype {array.dtype}, the model has {dtype}")
        with np.errstate(over="ignore"):  # infinities are refused when they are encoded
            fitting[name] = array.astype(dtype)
        if dtype.kind != "f" and not np.array_equal(fitting[name], array):
            raise ParameterError(f"array {name!r} does not fit into {dtype}")
    return fitting
