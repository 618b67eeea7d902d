"""What a server cannot get out of clients on Flower, and twins without the rule, which it opens."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flwr.app import Message, RecordDict
from flwr.clientapp import ClientApp
from numpy.typing import NDArray

from secagg.flower.mod import SecAggMod
from secagg.flower.policy import Policy
from secagg.flower.records import Code, Request
from secagg.flower.store import STATE_PATH
from secagg.flower.terms import Terms
from secagg.flower.training import model_of
from secagg.flower.turn import Turn
from secagg.full.announcement import Announcement
from secagg.full.messages import Step
from secagg.full.params import RoundParams
from secagg.vectors import VectorCodec
from tests.secagg.flower.by_hand import (
    CLIP,
    MODEL,
    DeclinedError,
    Keys,
    Round,
    app,
    code_of,
    grid_of,
    train,
    trained,
)
from tests.secagg.full.hostile import ClosedError, Hostile
from tests.support.flower_grid import LocalGrid

N, VICTIM = 5, 2
CLIENTS = tuple(range(1, N + 1))
OTHERS = tuple(u for u in CLIENTS if u != VICTIM)
VARIANTS = ("semi-honest", "malicious")


def nodes(folder: Path, variant: Any, *, on_disk: bool) -> tuple[LocalGrid, Keys | None]:
    keys = Keys(folder, CLIENTS, on_disk) if variant == "malicious" else None
    marks: dict[int, Any] = {
        u: {STATE_PATH: str(folder / f"{u}.marks")} if on_disk else {} for u in CLIENTS
    }
    policy = Policy(variant=variant, durable=on_disk)
    return grid_of(N, lambda: app(train, SecAggMod(policy)), keys=keys, more=marks), keys


def round_of(folder: Path, variant: Any, *, on_disk: bool = True, **more: Any) -> Round:
    grid, keys = nodes(folder, variant, on_disk=on_disk)
    return Round(grid, variant=variant, keys=keys, threshold=N // 2 + 1, **more)


class OverFlower(Hostile):
    """The hostile server of ``tests.secagg.full``, with clients that are nodes of Flower's."""

    def __init__(self, round: Round) -> None:
        super().__init__(round.params)
        self.round = round
        self.clients = dict(round.clients)  # type: ignore[arg-type]

    def masked_by_all(self) -> "OverFlower":
        """An honest round up to the masked inputs."""
        self.advertise()
        self.share(self.everybody)
        self.mask(self.everybody)
        assert not self.refusals
        return self

    def crashed(self, answers: Callable[[], None]) -> None:
        """``answers``, after which all nodes crash: replies have left, their state is as before."""
        before = dict(self.round.grid.states)
        answers()
        self.round.grid.states.update(before)

    def opened(self) -> dict[str, NDArray[Any]]:
        """What the victim put into the sum; ClosedError if its masks hold."""
        return self.round.codec.means(self.peel(VICTIM))


def is_victim_s(found: dict[str, NDArray[Any]]) -> bool:
    right = trained(VICTIM - 1)
    return all(np.abs(found[name] - right[name]).max() <= 2.0**-15 for name in MODEL)


# Asked twice, about two sets of survivors.


def ask_about_two_sets(server: OverFlower) -> None:
    """All have survived, the nodes crash, and then the victim has not."""

    def about(members: tuple[int, ...]) -> Callable[[], None]:
        told = dict.fromkeys(members, members)

        def asked() -> None:
            server.sign(told)
            server.unmask(told)

        return asked

    server.crashed(about(CLIENTS))
    about(OTHERS)()


@pytest.mark.parametrize("variant", VARIANTS)
def test_marks_on_disk_let_nobody_answer_twice_after_a_crash(variant: str, tmp_path: Path) -> None:
    server = OverFlower(round_of(tmp_path, variant)).masked_by_all()
    ask_about_two_sets(server)
    assert {client for client, _ in server.refusals} == set(OTHERS)
    assert all(code_of(error) is Code.STALE for _, error in server.refusals)
    with pytest.raises(ClosedError):
        server.opened()


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_twin_with_its_marks_in_the_state_alone_is_opened(variant: str, tmp_path: Path) -> None:
    server = OverFlower(round_of(tmp_path, variant, on_disk=False)).masked_by_all()
    ask_about_two_sets(server)
    assert not server.refusals
    assert is_victim_s(server.opened())


@pytest.mark.parametrize("on_disk", [True, False])
def test_without_a_crash_either_store_answers_once(on_disk: bool, tmp_path: Path) -> None:
    server = OverFlower(round_of(tmp_path, "semi-honest", on_disk=on_disk)).masked_by_all()
    server.unmask(server.everybody)
    server.unmask(dict.fromkeys(OTHERS, OTHERS))
    assert {client for client, _ in server.refusals} == set(OTHERS)
    with pytest.raises(ClosedError):
        server.opened()


def test_a_split_view_opens_the_semi_honest_variant_over_flower_too(tmp_path: Path) -> None:
    """So the attack above fails for the rule it is about, and not for one of the transport."""
    server = OverFlower(round_of(tmp_path, "semi-honest", on_disk=False))
    server.params = server.round.params = lowered(server.round)
    server = OverFlower(server.round).masked_by_all()
    server.unmask(dict.fromkeys(CLIENTS[:2], CLIENTS))
    server.unmask(dict.fromkeys(CLIENTS[2:], OTHERS))
    assert is_victim_s(server.opened())


def lowered(round: Round) -> RoundParams:
    """The round with a threshold of 2, where two halves of the clients can answer differently."""
    round.unbound = replace(round.unbound, threshold=2)
    round.announcement = Announcement.of(round.unbound).to_bytes()
    return round.unbound.with_context(round.params.context)


def test_a_split_view_gets_nothing_from_the_malicious_variant(tmp_path: Path) -> None:
    server = OverFlower(round_of(tmp_path, "malicious")).masked_by_all()
    told = {u: CLIENTS if u <= 2 else OTHERS for u in OTHERS} | {VICTIM: CLIENTS}
    server.sign(told)
    server.unmask(told)
    with pytest.raises(ClosedError):
        server.opened()


# Every step, with the node's state put back after its reply has left.


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("step", [step for step in Step if step <= Step.UNMASKING])
def test_a_node_whose_state_went_back_answers_no_step_again(
    variant: str, step: Step, tmp_path: Path
) -> None:
    if step is Step.CONSISTENCY_CHECK and variant == "semi-honest":
        step = Step.UNMASKING
    grid, keys = nodes(tmp_path, variant, on_disk=True)
    round = Round(grid, variant=variant, keys=keys).upto(step)  # type: ignore[arg-type]
    seen: list[Request] = []
    ask = round.ask

    def noted(client: int, request: Request) -> Any:
        seen.append(request)
        return ask(client, request)

    round.ask = noted  # type: ignore[method-assign]
    before = dict(round.grid.states)
    getattr(round, {1: "advertise", 2: "share", 3: "mask", 4: "sign", 5: "unmask"}[step])()
    for client, request in zip(CLIENTS, seen, strict=True):
        node = round.node(client)
        round.grid.states[node] = before[node]
        for _ in range(2):
            with pytest.raises(DeclinedError) as declined:
                ask(client, request)
            assert code_of(declined.value) is Code.STALE
    # They have left the round, and not the session.
    later = Round(round.grid, round=1, variant=variant, keys=keys)  # type: ignore[arg-type]
    later.upto(Step.UNMASKING).unmask()


def test_of_two_processes_with_one_state_one_answers(tmp_path: Path) -> None:
    """A node that runs two messages at once gives both of them the same state."""
    round = round_of(tmp_path, "semi-honest").upto(Step.UNMASKING)
    node, before = round.node(1), dict(round.grid.states)
    request = round.server.unmask_request(1)
    round.clients[1].unmask(request)
    round.grid.states[node] = before[node]
    with pytest.raises(DeclinedError):
        round.clients[1].unmask(request)


def test_a_node_that_lost_its_marks_goes_on_with_no_round(tmp_path: Path) -> None:
    round = round_of(tmp_path, "semi-honest").upto(Step.UNMASKING)
    (tmp_path / "1.marks").unlink()
    for _ in range(2):
        with pytest.raises(DeclinedError) as declined:
            round.clients[1].unmask(round.server.unmask_request(1))
        assert code_of(declined.value) in (Code.STALE, Code.REFUSED)


def test_a_node_whose_marks_are_damaged_answers_nothing(tmp_path: Path) -> None:
    round = round_of(tmp_path, "semi-honest").upto(Step.UNMASKING)
    (tmp_path / "1.marks").write_bytes(b"damaged")
    with pytest.raises(DeclinedError) as declined:
        round.clients[1].unmask(round.server.unmask_request(1))
    assert code_of(declined.value) is Code.FAILED


# One client told other terms than the rest.


class BlindTurn(Turn):
    """A twin that does not compare what it got with what its keys are bound to."""

    def _judged_content(self, params: RoundParams, terms: Terms) -> VectorCodec:
        return terms.codec(model_of(self._content)[1])


COARSE, FINE = 4, 34


def told_another_scale(round: Round) -> dict[str, NDArray[Any]]:
    """The victim's vector is scaled out of reach of the others', so the sum shows it."""

    def terms(frac_bits: int) -> Terms:
        bits, parties = round.params.ring.bits, round.terms.parties
        more = {"ring_bits": bits, "parties": parties, "max_weight": 100}
        key = "num-examples"
        return Terms.make(clip=CLIP, frac_bits=frac_bits, weight_key=key, metrics={}, **more)

    for u in CLIENTS:
        round.terms = terms(FINE if u == VICTIM else COARSE)
        round.server.receive_keys(round.clients[u].advertise())
    round.server.close_keys()
    round.share()
    round.mask()
    for u in CLIENTS:
        request = round.server.unmask_request(u)
        round.server.receive_unmask(round.clients[u].unmask(request))
    total = round.params.ring.signed(round.server.close_unmask())
    weight = VICTIM  # the victim's number of examples, for the server to guess
    found, at = {}, 0
    for name, array in MODEL.items():
        part = total[at : at + array.size].reshape(array.shape)
        found[name] = part / (weight * 2.0**FINE)
        at += array.size
    return found


def wide_round(monkeypatch: pytest.MonkeyPatch, folder: Path) -> Round:
    monkeypatch.setattr("tests.secagg.flower.by_hand.RING_BITS", 56)
    return Round(nodes(folder, "semi-honest", on_disk=False)[0], metrics={})


def test_a_twin_that_trains_on_whatever_terms_it_is_told_is_opened(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("secagg.flower.mod.Turn", BlindTurn)
    assert is_victim_s(told_another_scale(wide_round(monkeypatch, tmp_path)))


def test_a_client_told_another_scale_masks_nothing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with pytest.raises(DeclinedError) as declined:
        told_another_scale(wide_round(monkeypatch, tmp_path))
    assert code_of(declined.value) is Code.REFUSED


# No secure aggregation at all.


def test_an_update_is_not_to_be_had_by_leaving_our_records_out(tmp_path: Path) -> None:
    grid, _ = nodes(tmp_path, "semi-honest", on_disk=False)
    round = Round(grid).upto(Step.MASKED_INPUT)
    for kind in ("train", "train.default"):
        for content in (round.content, RecordDict()):
            reply = grid.deliver(grid.forged(content, round.node(1), kind=kind))
            assert reply is not None
            assert reply.error.code == Code.UNWILLING


def test_a_twin_without_the_mod_gives_its_update_away(tmp_path: Path) -> None:
    def make() -> ClientApp:
        made = ClientApp()
        made.train()(train)
        return made

    grid = LocalGrid(make, N)
    reply: Message | None = grid.deliver(
        grid.forged(Round(grid_of(N)).content, list(grid.configs)[VICTIM - 1])
    )
    assert reply is not None
    found = reply.content.array_records["arrays"]
    assert is_victim_s({name: array.numpy() for name, array in found.items()})
