"""What a client refuses before a secret leaves, each with a twin that lacks the check.

The server here is the adversary. Each twin leaves out one check of ``ClientChecks``, or one habit
of ``Client``, and then does what the honest client refuses.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import numpy as np
import pytest

from mpc.core.errors import AbortError, ParameterError, PeerError, StateError
from mpc.core.keys import KeyPair, SealingKey
from secagg.full.client import Client, Phase
from secagg.full.history import History
from secagg.full.masking import client_streams, mask, pair_key
from secagg.full.messages import (
    SEALED_BYTES,
    SHARE_BYTES,
    Delivered,
    MaskedInput,
    Roster,
    RoundMessage,
    SharedKeys,
    Step,
    UnmaskRequest,
    UnmaskShares,
)
from secagg.full.params import Variant
from secagg.full.sharing import recover, self_mask_key, unpack_rows
from tests.secagg.full.forgeries import (
    ATTACKS,
    HONEST,
    MALICIOUS,
    ME,
    PEER,
    Attack,
    ignore,
    of_another_recipient,
    reflected_shares,
    request,
    roster,
    swapped_shares,
)
from tests.secagg.full.world import (
    CLIENTS,
    OTHER_SESSION,
    SESSION,
    VARIANTS,
    Driven,
    bits,
    changed,
    params,
    phase,
    signing,
)


@pytest.mark.parametrize("attack", ATTACKS.values(), ids=ATTACKS)
def test_an_attack_is_refused_for_good(attack: Attack) -> None:
    history = History()
    world = attack.start(history=history)
    with pytest.raises(attack.error):
        attack.deliver(world)
    assert phase(world.client) is Phase.ABORTED
    assert world.client._secrets is None
    # Not even the honest message is answered now, nor a later round of this session.
    with pytest.raises(StateError, match="phase ABORTED"):
        attack.deliver(world)
    later = params(variant=attack.variant, round=world.params.round + 1)
    with pytest.raises(StateError, match="has refused to go on"):
        Client(later, ME, **signing(later, ME), history=history)
    other = params(variant=attack.variant, session=OTHER_SESSION)
    Client(other, ME, **signing(other, ME), history=history)


@pytest.mark.parametrize("attack", ATTACKS.values(), ids=ATTACKS)
def test_a_twin_without_the_check_answers(attack: Attack) -> None:
    world = attack.start(ignore(*attack.rule))
    assert isinstance(attack.deliver(world), RoundMessage)


# U_3 beyond U_2, with somebody who left before sharing.


@pytest.mark.parametrize("kind", [Client, ignore("check_subset")], ids=["honest", "twin"])
def test_survivors_who_shared_nothing_are_refused(kind: type[Client]) -> None:
    world = Driven(HONEST, kind=kind)
    world.keys().shares(without=[40]).masked()
    forged = request(world, *CLIENTS)
    if kind is Client:
        with pytest.raises(PeerError, match=r"clients \[40\] that took no part"):
            world.client.unmask(forged)
        assert phase(world.client) is Phase.ABORTED
    else:
        assert world.client.unmask(forged)


def test_a_delivery_from_strangers_is_refused() -> None:
    world = Driven(HONEST).keys(without=[40]).shares()
    honest = world.server.delivery(ME)
    forged = changed(
        honest, members=bits(HONEST, *CLIENTS), sealed=honest.sealed + bytes(SEALED_BYTES)
    )
    with pytest.raises(PeerError, match=r"clients \[40\] that took no part"):
        world.client.mask(forged, world.x[ME])
    assert phase(world.client) is Phase.ABORTED


# Keys that are no good.

SPELT_TWICE = (2**255 - 19 + 9).to_bytes(32, "little")


@pytest.mark.parametrize("purpose", ["channel", "mask"])
@pytest.mark.parametrize(
    "public", [bytes(32), (1).to_bytes(32, "little"), SPELT_TWICE], ids=["zero", "one", "unreduced"]
)
def test_a_key_of_low_order_is_refused_before_a_share_leaves(purpose: str, public: bytes) -> None:
    world = Driven(HONEST).keys()
    with pytest.raises(PeerError, match="public key") as caught:
        world.client.share_keys(roster(world, **{purpose: public}))
    assert caught.value.party == PEER
    assert phase(world.client) is Phase.ABORTED


@pytest.mark.parametrize(
    "forge", [swapped_shares, reflected_shares, of_another_recipient], ids=lambda f: f.__name__
)
def test_shares_that_were_not_sealed_for_us_by_this_peer(
    forge: Callable[[Driven], Delivered],
) -> None:
    world = Driven(HONEST).keys().shares()
    with pytest.raises(PeerError, match="do not open") as caught:
        world.client.mask(forge(world), world.x[ME])
    assert caught.value.party == PEER
    assert phase(world.client) is Phase.ABORTED


def test_shares_of_another_round_do_not_open() -> None:
    old = Driven(params(round=6)).keys().shares().server.delivery(ME)
    world = Driven(HONEST).keys().shares()
    forged = changed(world.server.delivery(ME), sealed=old.sealed)
    with pytest.raises(PeerError, match="do not open"):
        world.client.mask(forged, world.x[ME])


class Nonsense(Client):
    """Seals 68 bytes that are no pair of shares, for everybody."""

    def share_keys(self, roster: Roster, *, context: bytes | None = None) -> Any:
        secrets = self._secrets
        assert secrets is not None
        peers = np.array([at for at in range(5) if at != self.at])
        beside = self.params.within(self.at, np.ones(5, np.bool_))
        sealing = secrets.agree(
            peers, self._judge_roster(roster, beside >= 0, beside, secrets.keys)
        )
        sealed = [SealingKey(key).seal(b"\xff" * (2 * SHARE_BYTES)) for key in sealing]
        self._turn = [Phase.SHARED]
        return SharedKeys.make(
            SESSION, self.params.round, self.client, check=secrets.check, sealed=b"".join(sealed)
        )


def test_a_peer_that_seals_nonsense_is_named() -> None:
    world = Driven(HONEST, victim=9, kind=Nonsense).keys().shares()
    with pytest.raises(PeerError, match="client 9 sealed what is no share") as caught:
        world.clients[ME].mask(world.server.delivery(ME), world.x[ME])
    assert caught.value.party == 9


# One answer.


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_second_request_is_refused(variant: Variant) -> None:
    world = Driven(params(variant=variant)).before(Step.UNMASKING)
    world.client.unmask(world.question())
    assert phase(world.client) is Phase.DONE
    assert world.client._secrets is None
    for question in (world.question(), request(world, *CLIENTS[:4])):
        with pytest.raises(StateError, match="phase DONE"):
            world.client.unmask(question)


def two_answers(kind: type[Client]) -> list[UnmaskShares]:
    """What leaves if two threads ask a client for different survivors at the same moment."""
    both = threading.Barrier(2, timeout=60)

    class Waiting(kind):  # type: ignore[misc, valid-type]
        def _set(self, data: bytes) -> Any:
            if self.phase is Phase.MASKED:
                both.wait()
            return super()._set(data)

    world = Driven(HONEST, kind=Waiting).before(Step.UNMASKING)
    answers: list[UnmaskShares] = []

    def ask(question: UnmaskRequest) -> None:
        with suppress(StateError):
            answers.append(world.client.unmask(question))

    questions = request(world, *CLIENTS), request(world, *CLIENTS[:4])
    threads = [threading.Thread(target=ask, args=(question,)) for question in questions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return answers


def test_two_threads_get_one_answer() -> None:
    assert len(two_answers(Client)) == 1


class Unhurried(Client):
    """Broken twin: looks at its phase and moves on later, as if it were alone."""

    @contextmanager
    def _judged(self, before: Phase, after: Phase) -> Iterator[None]:
        yield
        self._turn = [after]

    def answer(self, secrets: Any, survivors: Any) -> bytes:
        given = super().answer(secrets, survivors)
        self.given.wait()
        return given

    given = threading.Barrier(2, timeout=60)


def test_a_twin_that_moves_on_later_gives_two_threads_an_answer_each() -> None:
    assert len(two_answers(Unhurried)) == 2


class Ready(Client):
    """Broken twin: ready for another request, with the secrets of the first time."""

    def unmask(self, request: UnmaskRequest) -> Any:
        secrets = self._secrets
        answer = super().unmask(request)
        self._secrets, self._turn = secrets, [Phase.MASKED]
        return answer


class Answering(Ready):
    """As above, and does not claim its steps: either rule alone would stop it."""

    def _claim(self, step: Step) -> None:
        return


def test_a_twin_that_is_ready_again_is_stopped_by_its_history() -> None:
    world = Driven(HONEST, kind=Ready).before(Step.UNMASKING)
    world.client.unmask(request(world, *CLIENTS))
    with pytest.raises(StateError, match="has answered in step 5"):
        world.client.unmask(request(world, *CLIENTS[:4]))
    assert world.client._secrets is None


def test_a_twin_that_answers_twice_gives_both_shares_of_a_peer() -> None:
    world = Driven(HONEST, kind=Answering).before(Step.UNMASKING)
    first = world.client.unmask(request(world, *CLIENTS)).shares
    second = world.client.unmask(request(world, *CLIENTS[:4])).shares
    last = slice(4 * SHARE_BYTES, 5 * SHARE_BYTES)
    assert first[: last.start] == second[: last.start]
    assert first[last] != second[last]  # the seed's share, then the key's


def test_an_answer_holds_one_share_for_each_peer() -> None:
    world = Driven(HONEST).keys().shares().masked(without=[40])
    secrets = world.client._secrets
    assert secrets is not None
    held = secrets._held
    answer = world.client.unmask(world.question())
    assert len(answer.shares) == 5 * SHARE_BYTES
    seeds = secrets.answer(np.ones(5, np.bool_), np.arange(5))
    keys = secrets.answer(np.zeros(5, np.bool_), np.arange(5))
    assert answer.shares == seeds[: 4 * SHARE_BYTES] + keys[4 * SHARE_BYTES :]
    assert held.shape == (5, 2, 16)


# A split view: half of the clients are told that 40 survived, half that it did not.

VICTIM = CLIENTS[-1]
TOLD = {2: CLIENTS, 5: CLIENTS, 9: CLIENTS[:-1], 11: CLIENTS[:-1]}


def test_a_split_view_opens_an_input_of_the_semi_honest_variant() -> None:
    """With t = 2 of 5 the server gets two shares of the victim's seed and two of its key."""
    agreed = params(threshold=2)
    world = Driven(agreed).keys().shares()
    caught: list[MaskedInput] = []
    for client in CLIENTS:
        caught.append(world.clients[client].mask(world.server.delivery(client), world.x[client]))
        world.server.receive_masked(caught[-1])
    world.server.close_masked()
    rows = []
    for client, told in TOLD.items():
        question = changed(world.server.unmask_request(client), members=bits(agreed, *told))
        rows.append(unpack_rows(world.clients[client].unmask(question).shares, 16)[-1])
    indices = np.array([[1, 2], [3, 4]], np.uint64)
    found = recover(indices, np.array(rows).reshape(2, 2, 16))
    seed, private = (row.astype("<u2").tobytes() for row in found)
    keys, digest = KeyPair(private), agreed.digest
    pairs = [
        (c, pair_key(keys, world.server._state.keys[at].mask, digest, VICTIM, c))
        for at, c in enumerate(CLIENTS[:-1])
    ]
    streams = client_streams(VICTIM, self_mask_key(seed, digest, VICTIM), pairs)
    ring = agreed.ring
    pad = mask(np.zeros(agreed.dim, ring.dtype), streams, ring)
    opened = ring.sub(ring.from_bytes(caught[-1].payload, (agreed.dim,)), pad)
    assert np.array_equal(opened, world.x[VICTIM])


def test_a_split_view_gets_nobody_to_answer_in_the_malicious_variant() -> None:
    """Such a threshold is refused; with t = 3 neither half can show three signatures."""
    with pytest.raises(ParameterError, match="at least 3"):
        params(threshold=2, variant="malicious")
    world = Driven(MALICIOUS).before(Step.CONSISTENCY_CHECK)
    signed = {}
    for client, told in TOLD.items():
        asked = changed(world.server.survivors_request(client), members=bits(MALICIOUS, *told))
        signed[client] = world.clients[client].sign_survivors(asked).signature
    for client, told in TOLD.items():
        half = [c for c in TOLD if TOLD[c] == told]
        question = UnmaskRequest.make(
            *(SESSION, MALICIOUS.round, client),
            members=bits(MALICIOUS, *told),
            signers=bits(MALICIOUS, *half),
            signatures=b"".join(signed[c] for c in half),
        )
        with pytest.raises(AbortError, match="2 clients signed the survivors, 3 needed"):
            world.clients[client].unmask(question)
        assert phase(world.clients[client]) is Phase.ABORTED


def test_private_keys_are_gone_once_shared_and_pair_keys_and_seed_once_used() -> None:
    world = Driven(HONEST).keys().shares()
    secrets = world.client._secrets
    assert secrets is not None
    assert secrets._mask is None
    assert secrets._channel is None
    assert len(secrets._pairs) == 4
    world.masked()
    assert not secrets._pairs
    assert not secrets._opening
    assert not secrets._seed


def test_a_client_alive_in_one_round_and_dropped_in_the_next_shares_fresh_secrets() -> None:
    """Nothing that can be put together in one round serves in the other."""
    first, second = (
        Driven(params(round=round)).before(Step.MASKED_INPUT).client._secrets for round in (1, 2)
    )
    assert first is not None
    assert second is not None
    assert first._seed != second._seed
    assert first.keys[:32] != second.keys[:32]
    assert first.keys[32:] != second.keys[32:]
