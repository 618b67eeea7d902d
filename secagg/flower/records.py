"""What one message of the protocol carries, and how it lies in a message of Flower.

    content = add_request(train_content, Request(step, session, round, client, data))   # server
    request = read_request(content)                                                     # client
    content = answer_content(Answer(step, session, round, client, data))                # client
    answer = read_answer(content)                                                       # server

A ConfigRecord named ``privrec.secagg`` holds the step, its numbers and the bytes of our messages. A
masked vector lies in an ArrayRecord named ``privrec.vector`` instead, which Flower cuts into pieces
and sends faster. The original train message's records travel in the input step alone.

    step            the request's data         with it          the answer's data
    HELLO           none                                        Hello
    ADVERTISE_KEYS  Announcement               terms            AdvertiseKeys
    SHARE_KEYS      Roster                     context          SharedKeys
    MASKED_INPUT    Delivered                  user's records   privrec.vector: the payload
    CONSISTENCY_... SurvivorsRequest                            ConsistencySignature
    UNMASKING       UnmaskRequest              offer, terms     UnmaskShares; offer: AdvertiseKeys

``offer`` is the Announcement of the next round, and in the answer the keys for it. The payload is
that of a MaskedInput, as it is.

Source: ours, for Flower 1.42.
Model: records come from anyone. What is no such record raises WireError; who sent it, and whether
    it belongs here, is for the reader's caller to judge.
Leaks: what the messages show, and the step.
"""

from dataclasses import dataclass, field
from enum import IntEnum

from flwr.app import Array, ArrayRecord, ConfigRecord, Error, RecordDict

from mpc.core.checks import integer
from mpc.core.errors import ParameterError, WireError
from mpc.core.keys import label
from mpc.core.wire import Message
from secagg.full.identity import Identities, Identity, is_valid
from secagg.full.messages import SIGNATURE_BYTES, Step
from secagg.messages import MAX_ID, check_session

RECORD = "privrec.secagg"
VECTOR = "privrec.vector"

VERSION = 1
"""Of this layout. Both ends must have the same."""

HELLO = 0
"""Before step 1, once a session, in the malicious variant: who are you?"""

STEPS = (HELLO, *(step for step in Step if step <= Step.UNMASKING))
CONTEXT_BYTES = 32

_PAYLOAD = "masked"
_KIND = "privrec.masked"
_NUMBERS = ("version", "step", "round", "client")
_PARTS = ("session", "data", "terms", "context", "offer")


class Code(IntEnum):
    """Why a client sends an error instead of an answer: codes of Flower's ``Error``."""

    FAILED = 1001
    REFUSED = 1002
    UNWILLING = 1003
    STALE = 1004
    MISPLACED = 1005

    def error(self) -> Error:
        """The error to reply with. Its text is one of five, so it can tell nothing about data."""
        return Error(int(self), _TEXTS[self])


_TEXTS = {
    Code.FAILED: "secagg: this client leaves the round; its own log says why",
    Code.REFUSED: "secagg: the round breaks a rule, so this client has left the session",
    Code.UNWILLING: "secagg: this client's policy does not allow such a round",
    Code.STALE: "secagg: out of order, repeated, or of another round or session",
    Code.MISPLACED: "secagg: SecAggMod must be the first in ClientApp(mods=[...])",
}


_FIRST = "SecAggMod must be the first in ClientApp(mods=[...])"

_FLOWER = {
    1: "the app cannot be loaded",
    2: f"the app raised an exception; {_FIRST}",
    3: "the message is not there any more",
    4: "the reply is not there any more",
    5: "the node is not there",
    6: f"a mod refused the message; {_FIRST}",
    7: "the app's bundle is invalid",
    8: "the app crashed",
}
"""What the codes of Flower's own errors mean here."""


def reason(error: Error) -> str:
    """What the server says about an error of a client's: our own text for our own codes.

    Otherwise Flower's code alone: its reason may quote an exception, and so a client's data.
    """
    try:
        return _TEXTS[Code(error.code)]
    except ValueError:
        meaning = _FLOWER.get(error.code, "unknown")
        return f"Flower reports error {error.code}: {meaning}"


@dataclass(frozen=True)
class Request:
    """From the server. See the table above; what a step has no use for is empty.

    client: the receiver's id in this session.  terms: bytes of ``Terms``.  context: 32 bytes.
    offer: the next round's ``Announcement``.
    """

    step: int
    session: bytes
    round: int
    client: int
    data: bytes = field(default=b"", repr=False)
    terms: bytes = field(default=b"", repr=False)
    context: bytes = b""
    offer: bytes = field(default=b"", repr=False)


@dataclass(frozen=True)
class Answer:
    """From a client. offer: its keys for the next round, with the last step's answer."""

    step: int
    session: bytes
    round: int
    client: int
    data: bytes = field(default=b"", repr=False)
    offer: bytes = field(default=b"", repr=False)


def is_ours(name: str) -> bool:
    """Whether a record of this name belongs to the protocol and not to the user."""
    return name in (RECORD, VECTOR)


def without_ours(content: RecordDict) -> RecordDict:
    """The user's records, in their order; ``content`` stays as it is."""
    return RecordDict({name: record for name, record in content.items() if not is_ours(name)})


def add_request(content: RecordDict, request: Request) -> RecordDict:
    """The user's records, if the step sends them, and the request; ``content`` stays as it is."""
    users = without_ours(content) if request.step == Step.MASKED_INPUT else RecordDict()
    users[RECORD] = _config(request, {"terms": request.terms, "context": request.context})
    return users


def read_request(content: RecordDict) -> Request:
    """The request in a message that came to a client. WireError if there is no proper one."""
    numbers, parts = _read(content)
    step, round, client = (numbers[name] for name in _NUMBERS[1:])
    more = (parts[name] for name in ("data", "terms", "context", "offer"))
    return Request(step, parts["session"], round, client, *more)


def answer_content(answer: Answer) -> RecordDict:
    """The content of a client's reply: the answer, and nothing else."""
    if answer.step != Step.MASKED_INPUT:
        return RecordDict({RECORD: _config(answer, {})})
    # The bytes as they are: numpy's own format would copy them once more at either end.
    array = Array(dtype="uint8", shape=(len(answer.data),), stype=_KIND, data=answer.data)
    head = Answer(answer.step, answer.session, answer.round, answer.client)
    return RecordDict({RECORD: _config(head, {}), VECTOR: ArrayRecord({_PAYLOAD: array})})


def read_answer(content: RecordDict) -> Answer:
    """The answer in a reply that came to the server. WireError if there is no proper one."""
    numbers, parts = _read(content)
    if parts["terms"] or parts["context"]:
        raise WireError("an answer has terms or a context")
    step, round, client = (numbers[name] for name in _NUMBERS[1:])
    data = _vector(content) if step == Step.MASKED_INPUT else parts["data"]
    return Answer(step, parts["session"], round, client, data, parts["offer"])


def _config(message: Request | Answer, more: dict[str, bytes]) -> ConfigRecord:
    if message.step not in STEPS:
        raise ParameterError(f"there is no step {message.step}")
    parts = {"session": message.session, "data": message.data, "offer": message.offer, **more}
    numbers = {"version": VERSION, "step": int(message.step)}
    numbers |= {
        "round": integer("round", message.round, 0, MAX_ID),
        "client": integer("client", message.client, 0, MAX_ID),
    }
    # Flower cannot count the bytes of an empty value: what is empty is left out.
    return ConfigRecord({**numbers, **{name: part for name, part in parts.items() if part}})


def _read(content: RecordDict) -> tuple[dict[str, int], dict[str, bytes]]:
    record = content.get(RECORD)
    if not isinstance(record, ConfigRecord):
        raise WireError(
            f"the message has no record {RECORD!r}",
            remedy="SecAggMod and SecureGrid need each other",
        )
    version = record.get("version")
    if version != VERSION:
        raise WireError("the other side speaks another version of these records")
    numbers: dict[str, int] = {}
    for name in _NUMBERS[1:]:
        number = record.get(name)
        if not isinstance(number, int) or isinstance(number, bool) or not 0 <= number <= MAX_ID:
            raise WireError(f"{name!r} is not a number of four bytes")
        numbers[name] = number
    parts: dict[str, bytes] = {}
    for name in _PARTS:
        part = record.get(name, b"")
        if not isinstance(part, bytes):
            raise WireError(f"{name!r} is not bytes")
        parts[name] = part
    if not set(record) <= {*_NUMBERS, *_PARTS}:
        raise WireError(f"the record {RECORD!r} has values that have no meaning")
    if numbers["step"] not in STEPS:
        raise WireError("there is no such step")
    if len(parts["context"]) not in (0, CONTEXT_BYTES):
        raise WireError(f"a context takes {CONTEXT_BYTES} bytes")
    try:
        check_session(parts["session"])
    except ParameterError as error:
        raise WireError(error.message) from error
    return numbers, parts


def _vector(content: RecordDict) -> bytes:
    record = content.get(VECTOR)
    array = record.get(_PAYLOAD) if isinstance(record, ArrayRecord) and len(record) == 1 else None
    if array is None or array.stype != _KIND:
        raise WireError(f"the answer has no masked vector in {VECTOR!r}")
    return array.data


class Hello(Message, frozen=True, tag="flower.hello"):
    """A client's answer to HELLO: its public key, and a signature that it holds the private one."""

    public: bytes
    signature: bytes

    def __post_init__(self) -> None:
        """Refuse other sizes."""
        for name, size in (("public", 32), ("signature", SIGNATURE_BYTES)):
            if len(getattr(self, name)) != size:
                raise ParameterError(f"{name} takes {size} bytes")

    @classmethod
    def make(cls, identity: Identity, session: bytes) -> "Hello":
        """The greeting of ``identity`` in a session."""
        return cls(identity.public, identity.sign(_hello_text(session)))

    def is_from(self, identities: Identities, client: int, session: bytes) -> bool:
        """Whether ``client`` made it for this very session."""
        known = identities.public(client) == self.public
        return known and is_valid(identities, client, _hello_text(session), self.signature)


def _hello_text(session: bytes) -> bytes:
    return label("secagg.flower.hello", session)
