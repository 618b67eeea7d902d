"""What a client makes of requests: each is answered once; a broken rule ends the session."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flwr.app import Array, ArrayRecord, ConfigRecord, RecordDict
from flwr.clientapp import ClientApp

from secagg.flower.mod import SecAggMod
from secagg.flower.policy import Policy
from secagg.flower.records import Code, Request
from secagg.flower.terms import Terms, content_digest, context
from secagg.full.announcement import Announcement
from secagg.full.messages import AdvertiseKeys, Roster, SharedKeys, Step
from tests.secagg.flower.by_hand import (
    MODEL,
    DeclinedError,
    Keys,
    Round,
    answer_in,
    app,
    arrays,
    code_of,
    grid_of,
    mean,
    stored,
    train,
    train_content,
)
from tests.support.flower_grid import LocalGrid

N = 4
OTHER = bytes(range(16, 32))
STEPS = [step for step in Step if step <= Step.UNMASKING]


def round_of(variant: Any, folder: Path, grid: LocalGrid | None = None, **more: Any) -> Round:
    keys = Keys(folder, tuple(range(1, N + 1))) if variant == "malicious" else None
    grid = grid_of(N, keys=keys) if grid is None else grid
    return Round(grid, variant=variant, keys=keys, **more)


def request_for(round: Round, step: Step, client: int = 1) -> Request:
    """What an honest server asks in ``step``."""
    server, params = round.server, round.params
    data, more = b"", {}
    if step is Step.ADVERTISE_KEYS:
        data, more = round.announcement, {"terms": round.terms.to_bytes()}
    elif step is Step.SHARE_KEYS:
        data, more = server.roster(client).to_bytes(), {"context": params.context}
    elif step is Step.MASKED_INPUT:
        data = server.delivery(client).to_bytes()
    elif step is Step.CONSISTENCY_CHECK:
        data = server.survivors_request(client).to_bytes()
    else:
        data = server.unmask_request(client).to_bytes()
    return Request(step, params.session, params.round, client, data, **more)


def declined(round: Round, request: Request, client: int = 1) -> Code:
    """The code with which the node declines."""
    before = len(round.grid.passed)
    with pytest.raises(DeclinedError) as caught:
        round.ask(client, request)
    assert len(round.grid.passed) == before + 1
    return code_of(caught.value)


@pytest.mark.parametrize("variant", ["semi-honest", "malicious"])
@pytest.mark.parametrize("step", STEPS)
def test_a_repeated_request_changes_nothing(variant: str, step: Step, tmp_path: Path) -> None:
    if step is Step.CONSISTENCY_CHECK and variant == "semi-honest":
        step = Step.UNMASKING
    round = round_of(variant, tmp_path).upto(step)
    request = request_for(round, step)
    first = round.ask(1, request)
    before = stored(round.grid, 1)
    assert declined(round, request) is Code.STALE
    assert stored(round.grid, 1) == before
    assert first.data


def folder(path: Path, name: str) -> Path:
    (path / name).mkdir()
    return path / name


@pytest.mark.parametrize("step", STEPS[1:])
def test_a_request_before_its_time_changes_nothing(step: Step, tmp_path: Path) -> None:
    ahead = round_of("malicious", folder(tmp_path, "ahead")).upto(step)
    request = request_for(ahead, step)
    for due in STEPS[: step - 1]:
        behind = round_of("malicious", folder(tmp_path, due.name)).upto(due)
        before = stored(behind.grid, 1)
        assert declined(behind, request) is Code.STALE
        assert stored(behind.grid, 1) == before


@pytest.mark.parametrize("step", STEPS)
def test_damaged_bytes_change_nothing(step: Step, tmp_path: Path) -> None:
    round = round_of("malicious", tmp_path).upto(step)
    request, before = request_for(round, step), stored(round.grid, 1)
    for data in (request.data[:-1], request.data + b"\0", b"\1", b""):
        assert declined(round, replace(request, data=data)) is Code.STALE
    assert stored(round.grid, 1) == before
    round.ask(1, request)


@pytest.mark.parametrize("step", STEPS[1:])
@pytest.mark.parametrize(
    "other", [{"session": OTHER}, {"round": 1}, {"client": 2}, {"client": 2**32 - 1}]
)
def test_a_request_of_another_session_round_or_client_changes_nothing(
    step: Step, other: dict[str, Any], tmp_path: Path
) -> None:
    round = round_of("malicious", tmp_path).upto(step)
    request, before = request_for(round, step), stored(round.grid, 1)
    assert declined(round, replace(request, **other)) is Code.STALE
    assert stored(round.grid, 1) == before
    round.ask(1, request)


@pytest.mark.parametrize("step", STEPS[1:])
def test_another_client_s_message_in_ours_changes_nothing(step: Step, tmp_path: Path) -> None:
    round = round_of("malicious", tmp_path).upto(step)
    request, before = request_for(round, step), stored(round.grid, 1)
    others = replace(request, data=request_for(round, step, 2).data)
    assert declined(round, others) is Code.STALE
    assert stored(round.grid, 1) == before
    round.ask(1, request)


def test_nothing_is_trained_for_a_request_that_is_not_due() -> None:
    def never(*_: object) -> Any:
        raise AssertionError

    round = Round(grid_of(N, lambda: app(never))).upto(Step.MASKED_INPUT)
    request = request_for(round, Step.MASKED_INPUT)
    for wrong in (
        replace(request, round=1),
        replace(request, client=2),
        replace(request, data=request.data[:-1]),
    ):
        assert declined(round, wrong) is Code.STALE


def test_a_client_keeps_its_id_in_a_session() -> None:
    first = Round(grid_of(N))
    first.clients[1].advertise()
    second = Round(first.grid, round=1)
    as_another = replace(request_for(second, Step.ADVERTISE_KEYS, 2), client=2)
    assert declined(second, as_another) is Code.STALE
    elsewhere = Round(first.grid, round=1, session=OTHER)
    as_another = replace(request_for(elsewhere, Step.ADVERTISE_KEYS, 2), client=2)
    assert elsewhere.ask(1, as_another).client == 2


# Rules.


def altered_model(value: float) -> RecordDict:
    content = train_content()
    changed = {**MODEL, "bias": MODEL["bias"] + value}
    content["arrays"] = arrays(changed)
    return content


def reordered() -> RecordDict:
    content = train_content()
    content["arrays"] = arrays(dict(reversed(MODEL.items())))
    return content


@pytest.mark.parametrize(
    "content",
    [
        altered_model(2.0**-40),
        train_content(lr=0.25),
        train_content(more=1),
        reordered(),
        RecordDict({**train_content(), "more": ConfigRecord({"a": 1})}),
        RecordDict({"arrays": arrays(MODEL)}),
    ],
    ids=["model", "config", "key", "order", "more", "less"],
)
def test_a_model_or_config_that_the_keys_are_not_bound_to_ends_the_session(
    content: RecordDict,
) -> None:
    def never(*_: object) -> Any:
        raise AssertionError

    round = Round(grid_of(N, lambda: app(never))).upto(Step.MASKED_INPUT)
    request = request_for(round, Step.MASKED_INPUT)
    round.content = content
    assert declined(round, request) is Code.REFUSED
    round.content = train_content()
    assert declined(round, request) is Code.REFUSED
    assert declined(round, request_for(Round(round.grid, round=1), STEPS[0])) is Code.REFUSED


def test_a_client_that_left_a_session_takes_part_in_another_one() -> None:
    round = Round(grid_of(N)).upto(Step.MASKED_INPUT)
    request = request_for(round, Step.MASKED_INPUT)
    round.content = altered_model(1.0)
    assert declined(round, request) is Code.REFUSED
    again = Round(round.grid, session=OTHER).upto(Step.UNMASKING)
    assert np.abs(again.unmask()["bias"] - mean(range(N))["bias"]).max() <= 2.0**-16


def test_a_round_of_another_session_ends_the_one_under_way() -> None:
    """One round at a time: what an older one would still ask for is gone."""
    round = Round(grid_of(N)).upto(Step.UNMASKING)
    request = request_for(round, Step.UNMASKING)
    Round(round.grid, session=OTHER).clients[1].advertise()
    assert declined(round, request) is Code.STALE
    round.unmask(2, 3, 4)


def test_another_type_of_message_ends_the_session() -> None:
    def make() -> ClientApp:
        made = app()
        made.train("other")(train)
        return made

    round = Round(grid_of(N, make)).upto(Step.MASKED_INPUT)
    request = request_for(round, Step.MASKED_INPUT)
    message = round.message(1, request)
    message.metadata.message_type = "train.other"
    with pytest.raises(DeclinedError) as caught:
        answer_in(round.grid.deliver(message))
    assert code_of(caught.value) is Code.REFUSED


@pytest.mark.parametrize(
    "more", [{"clip": 9.0}, {"frac_bits": 15}, {"max_weight": 99}, {"metrics": {"loss": 11.0}}]
)
def test_a_client_with_other_terms_than_the_others_ends_the_session(more: dict[str, Any]) -> None:
    round = Round(grid_of(N))
    shared = {
        "clip": 8.0,
        "frac_bits": 16,
        "ring_bits": round.terms.ring_bits,
        "parties": N,
        "max_weight": 100,
        "weight_key": "num-examples",
        "metrics": {"loss": 10.0},
    }
    assert Terms.make(**shared) == round.terms  # type: ignore[arg-type]
    right, told = round.terms, Terms.make(**{**shared, **more})
    for u in round.params.clients:
        round.terms = told if u == 1 else right
        round.server.receive_keys(round.clients[u].advertise())
    round.server.close_keys()
    round.share()
    assert declined(round, request_for(round, Step.MASKED_INPUT)) is Code.REFUSED
    round.ask(2, request_for(round, Step.MASKED_INPUT, 2))


def test_a_client_bound_to_another_context_shares_no_mask_with_the_others() -> None:
    """Where the server tells one client another context, what it masks stays masked."""
    round = Round(grid_of(N), metrics={}).upto(Step.SHARE_KEYS)
    victim = altered_model(1.0)
    other = context(round.terms, content_digest(victim), "train")
    for u in round.params.clients:
        request = request_for(round, Step.SHARE_KEYS, u)
        told = replace(request, context=other) if u == 1 else request
        round.server.receive_shares(SharedKeys.from_bytes(round.ask(u, told).data))
    round.server.close_shares()
    request, round.content = request_for(round, Step.MASKED_INPUT), victim
    # What the others sealed does not open for it, so it leaves before it masks anything.
    assert declined(round, request) is Code.REFUSED


@pytest.mark.parametrize("bound", [b"", bytes(32)])
def test_keys_are_shared_only_where_they_are_bound(bound: bytes) -> None:
    round = Round(grid_of(N)).upto(Step.SHARE_KEYS)
    request, before = request_for(round, Step.SHARE_KEYS), stored(round.grid, 1)
    if not bound:
        assert declined(round, replace(request, context=b"")) is Code.STALE
        assert stored(round.grid, 1) == before
    else:
        round.ask(1, replace(request, context=bound))
        for u in (2, 3, 4):
            round.server.receive_shares(round.clients[u].share_keys(round.server.roster(u)))
        round.server.close_shares()


@pytest.mark.parametrize("change", ["parties", "ring", "dim"])
def test_terms_that_do_not_fit_the_round_end_the_session(change: str) -> None:
    round = Round(grid_of(N), parties=N + 1 if change == "parties" else N)
    announced = round.unbound
    if change == "ring":
        announced = replace(announced, ring=type(announced.ring)(announced.ring.bits + 1))
    if change == "dim":
        announced = replace(announced, dim=announced.dim + 1)
    round.announcement = Announcement.of(announced).to_bytes()
    if change != "dim":
        assert declined(round, request_for(round, Step.ADVERTISE_KEYS)) is Code.REFUSED
        return
    round.params = announced.with_context(round.params.context)
    round.server = type(round.server)(round.params)
    round.upto(Step.MASKED_INPUT)
    assert declined(round, request_for(round, Step.MASKED_INPUT)) is Code.REFUSED


@pytest.mark.parametrize(
    "model",
    [
        {"bias": np.zeros(2, np.int64)},
        {"bias": np.zeros(2, np.complex64)},
    ],
)
def test_a_model_that_the_terms_do_not_cover_ends_the_session(model: dict[str, Any]) -> None:
    round = Round(grid_of(N))
    content = RecordDict({"arrays": arrays(model), "config": ConfigRecord({"lr": 0.5})})
    bound = context(round.terms, content_digest(content), "train")
    round.params = round.unbound.with_context(bound)
    round.server = type(round.server)(round.params)
    round.upto(Step.MASKED_INPUT)
    round.content = content
    assert declined(round, request_for(round, Step.MASKED_INPUT)) is Code.REFUSED


def test_bytes_that_are_no_array_end_the_session() -> None:
    round = Round(grid_of(N))
    broken = ArrayRecord({"bias": Array("float32", (2,), "numpy.ndarray", b"no array")})
    content = RecordDict({"arrays": broken, "config": ConfigRecord({"lr": 0.5})})
    bound = context(round.terms, content_digest(content), "train")
    round.params = round.unbound.with_context(bound)
    round.server = type(round.server)(round.params)
    round.upto(Step.MASKED_INPUT)
    round.content = content
    assert declined(round, request_for(round, Step.MASKED_INPUT)) is Code.REFUSED


def test_a_rule_of_the_protocol_ends_the_session() -> None:
    round = Round(grid_of(N)).upto(Step.SHARE_KEYS)
    request = request_for(round, Step.SHARE_KEYS)
    roster = Roster.from_bytes(request.data)
    swapped = roster.keys[64:128] + roster.keys[:64] + roster.keys[128:]
    forged = Roster.make(
        roster.session, roster.round, roster.client, members=roster.members, keys=swapped
    )
    assert declined(round, replace(request, data=forged.to_bytes())) is Code.REFUSED
    assert declined(round, request) is Code.REFUSED
    assert declined(round, request_for(Round(round.grid, round=1), STEPS[0])) is Code.REFUSED


# Policies.


def test_a_round_below_the_policy_is_not_entered_and_a_later_one_is() -> None:
    grid = grid_of(N, lambda: app(train, SecAggMod(Policy(threshold=0.75))))
    below = Round(grid, threshold=2)
    assert declined(below, request_for(below, STEPS[0])) is Code.UNWILLING
    assert not stored(grid, 1) or b"full.announcement" not in stored(grid, 1)
    Round(grid, round=1, threshold=3).upto(Step.UNMASKING).unmask()


def test_a_policy_that_needs_marks_on_disk_takes_no_round_without() -> None:
    round = Round(grid_of(N, lambda: app(train, SecAggMod(Policy(durable=True)))))
    assert declined(round, request_for(round, STEPS[0])) is Code.UNWILLING


# Offers.


def offered(round: Round, announced: Round | None = None, **more: Any) -> bytes:
    """What client 1 answers beside its shares, where the next round is offered."""
    announced = Round(round.grid, round=round.params.round + 1) if announced is None else announced
    told = {"offer": announced.announcement, "terms": announced.terms.to_bytes(), **more}
    answer = round.ask(1, replace(request_for(round, Step.UNMASKING), **told))
    assert answer.data
    return answer.offer


def test_keys_for_the_next_round_save_its_first_step() -> None:
    first = Round(grid_of(N)).upto(Step.UNMASKING)
    second = Round(first.grid, round=1)
    told = {"offer": second.announcement, "terms": second.terms.to_bytes()}
    first.unmask(**told)
    for u, client in first.clients.items():
        second.server.receive_keys(AdvertiseKeys.from_bytes(client.offered))
        assert u in second.params.clients
    second.server.close_keys()
    second.share()
    second.mask()
    means = second.unmask()
    assert np.abs(means["bias"] - mean(range(N))["bias"]).max() <= 2.0**-16


def test_an_offer_may_be_dropped_for_a_full_round() -> None:
    first = Round(grid_of(N)).upto(Step.UNMASKING)
    assert offered(first)
    Round(first.grid, round=2).upto(Step.UNMASKING).unmask()
    late = Round(first.grid, round=1)
    assert declined(late, request_for(late, STEPS[0])) is Code.STALE


def _of_the_same_round(round: Round) -> Round:
    return Round(round.grid, round=round.params.round)


def _of_another_session(round: Round) -> Round:
    return Round(round.grid, round=1, session=OTHER)


@pytest.mark.parametrize("make", [_of_the_same_round, _of_another_session])
def test_an_offer_that_is_none_keeps_no_answer_back(make: Callable[[Round], Round]) -> None:
    round = Round(grid_of(N)).upto(Step.UNMASKING)
    assert offered(round, make(round)) == b""


@pytest.mark.parametrize("more", [{"offer": b"\1"}, {"terms": b"\1"}, {"terms": b""}])
def test_an_offer_that_does_not_parse_keeps_no_answer_back(more: dict[str, Any]) -> None:
    round = Round(grid_of(N)).upto(Step.UNMASKING)
    assert offered(round, **more) == b""


def test_an_offer_below_the_policy_is_declined_and_the_answer_given() -> None:
    grid = grid_of(N, lambda: app(train, SecAggMod(Policy(threshold=0.75))))
    round = Round(grid, threshold=3).upto(Step.UNMASKING)
    assert offered(round, Round(grid, round=1, threshold=2)) == b""
    Round(grid, round=2, threshold=3).upto(Step.UNMASKING).unmask()


def test_two_rounds_of_a_session_have_keys_of_their_own() -> None:
    first = Round(grid_of(N)).upto(Step.UNMASKING)
    keys = AdvertiseKeys.from_bytes(offered(first))
    assert keys.keys not in {m.keys for m in first.server._state.keys.values()}
    assert keys.round == 1
