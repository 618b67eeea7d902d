"""Against a SuperLink that alters what passes through it, and against a server that lies.

Honest clients run the real mod; what is altered is a message on its way, or what the server asks.
The claim is the same each time: there is the mean of the survivors that the server counts, or there
is none. No client answers what would open another sum.
"""

from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flwr.app import ConfigRecord, Message, RecordDict

from mpc.core.keys import KeyPair
from mpc.core.rng import SYSTEM_RNG
from secagg.flower import turn
from secagg.flower.records import HELLO, RECORD, Code, Request, add_request, read_request
from secagg.flower.terms import Terms, content_digest, context
from secagg.flower.training import model_of
from secagg.full.announcement import Announcement
from secagg.full.identity import keys_text
from secagg.full.messages import (
    KEYS_BYTES,
    SIGNATURE_BYTES,
    AdvertiseKeys,
    Roster,
    Step,
    SurvivorsRequest,
    UnmaskRequest,
)
from tests.secagg.flower.by_hand import Keys, Round, arrays, grid_of, train_content, trained, weight
from tests.secagg.flower.secure_rounds import Session, altering, assert_mean, shown
from tests.secagg.full.hostile import ClosedError, Hostile, Told
from tests.secagg.full.world import identity
from tests.support.flower_grid import altered

N = 5
VICTIM = 2  # its place; its client's id is one more
OTHERS = [0, 1, 3, 4]
PROTOCOL = [step for step in Step if step <= Step.UNMASKING]

Patch = Callable[[Request], Request]


@pytest.fixture
def session(tmp_path: Path) -> Session:
    """One of five may leave, so that the round goes on where one client refuses."""
    return Session(N, "malicious", tmp_path, dropout=0.2)


def answers(session: Session, step: int, place: int | None = None) -> list[Message]:
    """What nodes answered in a step, errors left out."""
    return [
        one.reply
        for one in session.grid.passed
        if one.step == step and one.reply is not None and not one.reply.has_error()
        if place is None or one.node == session.nodes[place]
    ]


def code(session: Session, place: int) -> Code:
    """The last error of a node."""
    errors = [
        one.reply.error.code
        for one in session.grid.passed
        if one.node == session.nodes[place] and one.reply is not None and one.reply.has_error()
    ]
    return Code(errors[-1])


def patch(session: Session, step: Step, change: Patch, *places: int) -> None:
    for place in places or (VICTIM,):
        session.grid.on(session.nodes[place], step, altering(change), round=0)


def message(kind: Any, change: Callable[[Any], Any]) -> Patch:
    """A change of the protocol's own message in a request."""
    return lambda request: replace(request, data=change(kind.from_bytes(request.data)).to_bytes())


def fields(made: Any, **changes: Any) -> Any:
    kept = {name: getattr(made, name) for name in made.__struct_fields__}
    return type(made)(**{**kept, **changes})


def assert_left_out(session: Session, replies: list[Message], step: Step) -> None:
    """The victim has refused for the session; the others have their own mean."""
    assert_mean(replies, OTHERS)
    assert code(session, VICTIM) is Code.REFUSED
    assert session.missing()[VICTIM][0] == step.title
    assert answers(session, Step.UNMASKING, VICTIM) == []
    # And it stays away, whatever it is asked.
    assert_mean(session.train(), OTHERS)
    assert code(session, VICTIM) is Code.REFUSED


# Rosters.


def own_keys() -> bytes:
    return b"".join(KeyPair.generate(SYSTEM_RNG).public for _ in range(2))


def put_keys(roster: Roster, place: int, keys: bytes, signature: bytes | None = None) -> Roster:
    """The roster with other keys for the client in this place."""
    all_keys, signed = bytearray(roster.keys), bytearray(roster.signatures)
    all_keys[place * KEYS_BYTES : (place + 1) * KEYS_BYTES] = keys
    if signature is not None:
        signed[place * SIGNATURE_BYTES : (place + 1) * SIGNATURE_BYTES] = signature
    return fields(roster, keys=bytes(all_keys), signatures=bytes(signed))  # type: ignore[no-any-return]


def swapped(roster: Roster) -> Roster:
    first, second = roster.keys[:KEYS_BYTES], roster.keys[KEYS_BYTES : 2 * KEYS_BYTES]
    signatures = roster.signatures
    one, two = signatures[:SIGNATURE_BYTES], signatures[SIGNATURE_BYTES : 2 * SIGNATURE_BYTES]
    return put_keys(put_keys(roster, 0, second, two), 1, first, one)


def own_signature(session: Session, keys: bytes) -> bytes:
    """By an identity that nobody listed, on just what the client should have signed."""
    announced = next(one for one in session.grid.passed if one.step == Step.ADVERTISE_KEYS)
    params = Announcement.read(read_request(announced.request.content).data)
    return identity(666).sign(keys_text(params, 1, keys))


ROSTERS: dict[str, Callable[[Session, Roster], Roster]] = {
    "another's keys in a peer's place": lambda s, r: put_keys(r, 0, own_keys()),
    "signed by nobody in the roster": lambda s, r: put_keys(
        r, 0, keys := own_keys(), own_signature(s, keys)
    ),
    "two peers' keys changed places": lambda s, r: swapped(r),
    "other keys for the client itself": lambda s, r: put_keys(r, VICTIM, own_keys()),
    "without signatures": lambda s, r: fields(r, signatures=b""),
    "one key twice": lambda s, r: put_keys(r, 0, r.keys[KEYS_BYTES : 2 * KEYS_BYTES]),
}


@pytest.mark.parametrize("which", ROSTERS)
def test_a_client_that_gets_another_roster_refuses(session: Session, which: str) -> None:
    change = message(Roster, lambda roster: ROSTERS[which](session, roster))
    patch(session, Step.SHARE_KEYS, change)
    assert_left_out(session, session.train(), Step.SHARE_KEYS)


def test_a_roster_without_a_client_is_another_roster(session: Session) -> None:
    def without(roster: Roster) -> Roster:
        members = bytes([roster.members[0] & ~(1 << 4)])
        keys = roster.keys[: 4 * KEYS_BYTES]
        signatures = roster.signatures[: 4 * SIGNATURE_BYTES]
        return fields(roster, members=members, keys=keys, signatures=signatures)  # type: ignore[no-any-return]

    patch(session, Step.SHARE_KEYS, message(Roster, without))
    # It seals one share too few, so the honest server counts it as gone.
    assert_mean(session.train(), OTHERS)
    assert "bytes of sealed shares" in session.missing()[VICTIM][1]


# Survivors.


def but(place: int) -> Callable[[Any], Any]:
    """The same without one of the survivors."""
    return lambda request: fields(request, members=bytes([request.members[0] & ~(1 << place)]))


def test_clients_that_are_told_different_survivors_sign_nothing_in_common(
    session: Session,
) -> None:
    patch(session, Step.CONSISTENCY_CHECK, message(SurvivorsRequest, but(4)), 0, 1)
    assert session.train() == []
    assert "CONSISTENCY" not in str(session.outcome.aborted)
    assert "ConsistencyCheck: 3 of 4 needed" in str(session.outcome.aborted)
    assert answers(session, Step.UNMASKING) == []


def test_a_client_unmasks_no_other_survivors_than_it_signed(session: Session) -> None:
    patch(session, Step.UNMASKING, message(UnmaskRequest, but(4)))
    replies = session.train()
    assert_mean(replies, range(N))  # its input was in already, and four shares are enough
    assert code(session, VICTIM) is Code.REFUSED
    assert answers(session, Step.UNMASKING, VICTIM) == []


SIGNERS: dict[str, Callable[[UnmaskRequest], UnmaskRequest]] = {
    "one signer less": lambda r: fields(
        r,
        signers=bytes([r.signers[0] & (r.signers[0] - 1)]),
        signatures=r.signatures[SIGNATURE_BYTES:],
    ),
    "nobody": lambda r: fields(r, signers=bytes(1), signatures=b""),
    "a signature of another's": lambda r: fields(
        r, signatures=r.signatures[SIGNATURE_BYTES:] + r.signatures[:SIGNATURE_BYTES]
    ),
    "a signature altered": lambda r: fields(
        r, signatures=bytes([r.signatures[0] ^ 1]) + r.signatures[1:]
    ),
}


@pytest.mark.parametrize("which", SIGNERS)
def test_a_client_unmasks_nothing_without_the_others_signatures(
    session: Session, which: str
) -> None:
    patch(session, Step.UNMASKING, message(UnmaskRequest, SIGNERS[which]))
    assert_mean(session.train(), range(N))
    assert code(session, VICTIM) is Code.REFUSED
    assert answers(session, Step.UNMASKING, VICTIM) == []


def test_told_to_all_too_few_are_left_and_nothing_is_opened(session: Session) -> None:
    patch(session, Step.UNMASKING, message(UnmaskRequest, but(4)), *range(N))
    assert session.train() == []
    assert "Unmasking" in str(session.outcome.aborted)
    assert answers(session, Step.UNMASKING) == []


# The model, the config, the terms, the round.


def other_model() -> RecordDict:
    content = train_content()
    marked = {**trained(0), "bias": np.array([1e6, 0.0])}
    content["arrays"] = arrays(marked)
    return content


def other_content(content: RecordDict) -> Callable[..., Message | None]:
    def between(message: Message, deliver: Any) -> Message | None:
        message.content = add_request(content, read_request(message.content))
        return deliver(message)  # type: ignore[no-any-return]

    return between


@pytest.mark.parametrize("which", ["model", "config"])
def test_a_client_that_gets_another_model_or_config_trains_nothing_on_it(
    session: Session, which: str
) -> None:
    content = other_model() if which == "model" else train_content(own=1)
    session.grid.on(session.nodes[VICTIM], Step.MASKED_INPUT, other_content(content), round=0)
    assert_left_out(session, session.train(), Step.MASKED_INPUT)


def test_without_that_comparison_another_model_s_update_is_in_the_sum(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The twin: a client that does not look at what its keys were bound to.
    def unjudged(self: Any, params: Any, terms: Terms) -> Any:
        return terms.codec(model_of(self._content)[1])

    monkeypatch.setattr(turn.Turn, "_judged_content", unjudged)
    content = train_content(own=1)
    session.grid.on(session.nodes[VICTIM], Step.MASKED_INPUT, other_content(content), round=0)
    assert_mean(session.train(), range(N))


def test_a_context_to_go_with_another_model_makes_everybody_refuse(session: Session) -> None:
    content = other_model()

    def bound(request: Request) -> Request:
        terms = session.secure.config.terms(N, ring_bits(session))
        return replace(request, context=context(terms, content_digest(content), "train"))

    patch(session, Step.SHARE_KEYS, bound)
    session.grid.on(session.nodes[VICTIM], Step.MASKED_INPUT, other_content(content), round=0)
    assert session.train() == []
    # Neither can open what the other has sealed, so no input was masked at all.
    assert answers(session, Step.MASKED_INPUT) == []
    # All have left the session for good. The next round is one of a new session.
    for step in (Step.SHARE_KEYS, Step.MASKED_INPUT):
        session.grid.on(session.nodes[VICTIM], step, lambda m, deliver: deliver(m), round=0)
    assert_mean(session.train(), range(N))
    assert session.outcome.round == 0


def ring_bits(session: Session) -> int:
    announced = next(one for one in session.grid.passed if one.step == Step.ADVERTISE_KEYS)
    return Announcement.read(read_request(announced.request.content).data).ring.bits


def scaled(request: Request) -> Request:
    terms = Terms.from_bytes(request.terms)
    return replace(request, terms=fields(terms, frac_bits=terms.frac_bits - 4).to_bytes())


def test_a_client_that_gets_another_scale_masks_nothing(session: Session) -> None:
    patch(session, Step.ADVERTISE_KEYS, scaled)
    assert_left_out(session, session.train(), Step.MASKED_INPUT)


def test_a_client_that_gets_another_threshold_is_not_counted(session: Session) -> None:
    change = message(Announcement, lambda a: fields(a, threshold=3))
    patch(session, Step.ADVERTISE_KEYS, change)
    # It signs its keys for another round than the server's.
    assert_mean(session.train(), OTHERS)
    assert session.missing()[VICTIM] == ("AdvertiseKeys", "client 3 did not sign its keys")
    assert answers(session, Step.SHARE_KEYS, VICTIM) == []


def test_a_weaker_round_than_its_policy_s_is_not_entered(session: Session) -> None:
    change = message(Announcement, lambda a: fields(a, malicious=0, threshold=2))
    patch(session, Step.ADVERTISE_KEYS, change)
    assert_mean(session.train(), OTHERS)
    assert code(session, VICTIM) is Code.UNWILLING


# Bytes on their way.


def flipped(data: bytes, at: float) -> bytes:
    place = min(int(at * len(data)), len(data) - 1)
    return data[:place] + bytes([data[place] ^ 4]) + data[place + 1 :]


@pytest.mark.parametrize("at", [0.0, 0.3, 0.6, 1.0])
@pytest.mark.parametrize("step", PROTOCOL)
def test_a_flipped_bit_in_a_request_gives_the_right_mean_or_none(
    session: Session, step: Step, at: float
) -> None:
    patch(session, step, lambda request: replace(request, data=flipped(request.data, at)))
    replies = session.train()
    if replies:
        assert_mean(replies, session.numbers(session.outcome.survivors))
    else:
        assert session.outcome.aborted


@pytest.mark.parametrize("at", [0.3, 1.0])
@pytest.mark.parametrize("step", [step for step in PROTOCOL if step != Step.MASKED_INPUT])
def test_a_flipped_bit_in_an_answer_gives_the_right_mean_or_none(
    session: Session, step: Step, at: float
) -> None:
    def between(message: Message, deliver: Any) -> Message:
        reply: Message = deliver(message)
        record = dict(reply.content.config_records[RECORD])
        record["data"] = flipped(bytes(record["data"]), at)  # type: ignore[arg-type]
        return altered(deepcopy(reply), RecordDict({RECORD: ConfigRecord(record)}))

    session.grid.on(session.nodes[VICTIM], step, between, round=0)
    replies = session.train()
    if replies:
        assert_mean(replies, session.numbers(session.outcome.survivors))
    else:
        assert session.outcome.aborted


def test_an_input_that_is_altered_on_its_way_shifts_the_mean_and_opens_nothing(
    session: Session,
) -> None:
    # Nobody signs a masked vector: the SuperLink can shift the sum, as any client can.
    def between(message: Message, deliver: Any) -> Message:
        reply: Message = deliver(message)
        record = reply.content.array_records["privrec.vector"]
        array = record["masked"]
        array.data = flipped(array.data, 0.0)
        return reply

    session.grid.on(session.nodes[VICTIM], Step.MASKED_INPUT, between, round=0)
    assert len(session.train()) == N


def test_old_requests_again_get_no_answer(session: Session) -> None:
    session.train()
    old = [one.request for one in session.grid.passed]
    for request in old:
        reply = session.grid.deliver(request)
        if read_request(request.content).step == HELLO:
            continue  # a greeting says the same each time
        assert reply is not None
        assert reply.has_error()
        assert reply.error.code in (Code.STALE, Code.REFUSED)
    # What was under way meanwhile goes on: the next round's keys have been sent.
    assert_mean(session.train(), range(N))


def test_one_node_cannot_be_two_clients(session: Session) -> None:
    assert session.keys is not None
    thief = session.nodes[4]
    session.grid.configs[thief] = {**session.grid.configs[session.nodes[0]], "partition-id": 4}
    assert_mean(session.train(), range(4))
    assert session.missing()[4][1] == "another node is client 1 already"


def test_who_answers_in_another_s_name_is_not_counted(session: Session) -> None:
    def between(message: Message, deliver: Any) -> Message:
        reply: Message = deliver(message)
        record = dict(reply.content.config_records[RECORD])
        keys = AdvertiseKeys.from_bytes(bytes(record["data"]))  # type: ignore[arg-type]
        other = AdvertiseKeys.make(keys.session, keys.round, 1, keys=keys.keys, signature=bytes(64))
        record["data"] = other.to_bytes()
        return altered(reply, RecordDict({RECORD: ConfigRecord(record)}))

    session.grid.on(session.nodes[VICTIM], Step.ADVERTISE_KEYS, between, round=0)
    assert_mean(session.train(), OTHERS)
    assert session.missing()[VICTIM][1] == "client 3 answers for client 1"


# A server that lies, from the first message on.


class Lying(Hostile):
    """The adversary of the protocol's own tests, in front of nodes of Flower."""

    def __init__(self, round: Round) -> None:
        super().__init__(round.params)
        self.clients = dict(round.clients)  # type: ignore[arg-type]


def rounds(folder: Path, variant: Any, threshold: int) -> Iterator[Round]:
    keys = Keys(folder, tuple(range(1, N + 1))) if variant == "malicious" else None
    yield Round(grid_of(N, keys=keys), variant=variant, threshold=threshold, keys=keys)


def split_view(lying: Lying, victim: int) -> None:
    """One half is told that the victim is there, the other that it is not."""
    lying.advertise()
    lying.share(lying.everybody)
    lying.mask(lying.everybody)
    everybody = lying.params.clients
    without = tuple(u for u in everybody if u != victim)
    told: Told = {1: everybody, 2: everybody, 3: without, 4: without}
    lying.sign(told)
    lying.unmask(told)


def test_a_split_view_opens_an_input_of_the_semi_honest_variant(tmp_path: Path) -> None:
    (round,) = rounds(tmp_path, "semi-honest", 2)
    lying = Lying(round)
    split_view(lying, N)
    opened = round.codec.means(lying.peel(N))
    for name, array in trained(N - 1).items():
        np.testing.assert_allclose(opened[name], array, atol=2.0**-16)
    assert round.codec.total_weight(lying.peel(N)) == weight(N - 1)


def test_a_split_view_gets_nobody_to_answer_in_the_malicious_variant(tmp_path: Path) -> None:
    (round,) = rounds(tmp_path, "malicious", 3)
    lying = Lying(round)
    split_view(lying, N)
    assert sorted(u for u, _ in lying.refusals) == [1, 2, 3, 4]
    assert {error.code for _, error in lying.refusals} == {Code.REFUSED}  # type: ignore[attr-defined]
    with pytest.raises(ClosedError):
        lying.peel(N)


def test_what_leaves_the_nodes_under_attack_is_ours_alone(session: Session) -> None:
    patch(session, Step.UNMASKING, message(UnmaskRequest, but(4)))
    session.train()
    for reply in shown(session.grid):
        assert reply.has_error() or all(name.startswith("privrec.") for name in reply.content)
