"""The server's half over a grid of real nodes: means, trips, losses."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from flwr.app import ArrayRecord, ConfigRecord, Context, Message, MetricRecord, RecordDict
from flwr.serverapp.strategy import FedAdam, FedAvg, FedAvgM

from mpc.core.errors import ParameterError
from secagg.flower import SecAggConfig, SecAggRefused, SecureGrid
from secagg.flower.addresses import node_fingerprint
from secagg.flower.keyring import IDENTITY_PATH, write_identity
from secagg.flower.records import HELLO, RECORD, Code, read_request
from secagg.full.announcement import Announcement
from secagg.full.messages import Step
from secagg.full.params import RoundParams
from secagg.signed_roster import Entry, SignedRoster
from tests.secagg.flower.by_hand import (
    MODEL,
    OPERATOR_KEY,
    app,
    arrays,
    grid_of,
    mean,
    train,
    train_content,
)
from tests.secagg.flower.secure_rounds import (
    TRIPS,
    UNIT,
    VARIANTS,
    Session,
    arrays_in,
    assert_mean,
    only_ours,
    shown,
)
from tests.secagg.full.world import identity
from tests.support.flower_grid import Fault

N = 6
EVERYBODY = range(N)
PROTOCOL = [step for step in Step if step <= Step.UNMASKING]


@pytest.fixture(params=VARIANTS)
def variant(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def session(variant: str, tmp_path: Path) -> Session:
    return Session(N, variant, tmp_path, dropout=0.34)  # two of six may leave


def steps_of(session: Session, round: int) -> list[int | None]:
    """The steps that nodes were asked for in a round, in order."""
    found: list[int | None] = []
    for one in session.grid.passed:
        if one.round == round and one.step not in found:
            found.append(one.step)
    return found


# What comes back.


def test_every_survivor_s_reply_is_the_mean_with_weight_one(session: Session) -> None:
    replies = session.train()
    assert_mean(replies, EVERYBODY)
    who = [reply.metadata.src_node_id for reply in replies]
    assert who == session.nodes
    weights = np.arange(1, N + 1)
    loss = (weights * 0.5 * np.arange(N)).sum() / weights.sum()
    for reply in replies:
        metrics = reply.content["metrics"]
        assert isinstance(metrics, MetricRecord)
        assert metrics["num-examples"] == 1
        assert metrics["loss"] == pytest.approx(loss, abs=UNIT)
        assert set(metrics) == {"num-examples", "loss"}  # the others stay with their clients


def test_arrays_come_back_in_the_order_shapes_and_dtypes_of_the_model(session: Session) -> None:
    got = arrays_in(session.train()[0])
    assert list(got) == list(MODEL)
    for name, array in MODEL.items():
        assert (got[name].shape, got[name].dtype) == (array.shape, array.dtype)


def test_nothing_but_records_of_the_protocol_reaches_the_server(session: Session) -> None:
    session.train()
    session.train()
    assert all(map(only_ours, shown(session.grid)))


@pytest.mark.parametrize("strategy", [FedAvg, FedAvgM, FedAdam], ids=lambda kind: kind.__name__)
def test_a_strategy_ends_with_the_model_that_it_has_in_the_clear(strategy: Any) -> None:
    def start(secure: bool) -> dict[str, Any]:
        plain = {name: array for name, array in MODEL.items() if array.shape}

        def learn(message: Message, ctx: Context) -> Message:
            k = int(ctx.node_config["partition-id"])
            old = {n: a.numpy() for n, a in message.content.array_records["arrays"].items()}
            new = {n: (0.5 * a + 0.125 * k).astype(a.dtype) for n, a in old.items()}
            metrics = MetricRecord({"num-examples": k + 1})
            return Message(
                RecordDict({"arrays": arrays(new), "metrics": metrics}), reply_to=message
            )

        grid = grid_of(N, lambda: app(learn, *([] if secure else [lambda m, c, call: call(m, c)])))
        over = SecureGrid(grid, SecAggConfig()) if secure else grid
        fed = strategy(fraction_evaluate=0.0, min_train_nodes=N, min_available_nodes=N)
        result = fed.start(grid=over, initial_arrays=arrays(plain), num_rounds=3)
        return {name: array.numpy() for name, array in result.arrays.items()}

    secure, clear = start(True), start(False)
    for name, array in clear.items():
        # FedAdam's last step is as large as its learning rate whatever the gradient is.
        slack = 0.01 if strategy is FedAdam else 4 * UNIT
        np.testing.assert_allclose(secure[name], array, atol=slack)


def test_integers_come_back_as_their_mean_which_is_no_integer(tmp_path: Path) -> None:
    def count(message: Message, ctx: Context) -> Message:
        k = int(ctx.node_config["partition-id"])
        seen, metrics = np.full(2, 10 * k, np.int64), MetricRecord({"num-examples": 1})
        content = RecordDict({"arrays": arrays({"seen": seen}), "metrics": metrics})
        return Message(content, reply_to=message)

    session = Session(3, make_app=lambda: app(count), clip={"seen": 1000}, metrics={})
    content = RecordDict({"arrays": arrays({"seen": np.zeros(2, np.int64)})})
    got = arrays_in(session.train(content)[0])
    assert got["seen"].dtype == np.float64
    assert got["seen"].tolist() == [10.0, 10.0]


# Trips.


def test_later_rounds_save_a_trip_and_no_step_is_merged(session: Session, variant: str) -> None:
    steps: list[int] = [step for step in PROTOCOL if step != 4 or variant == "malicious"]
    for _ in range(3):
        session.train()
    first, second, third = session.secure.outcomes
    greeting = int(variant == "malicious")
    assert first.trips == TRIPS[variant] + greeting
    assert second.trips == third.trips == TRIPS[variant] - 1
    assert steps_of(session, 0) == [HELLO] * greeting + steps
    # Keys for the next round come with the last answer of the one before.
    assert steps_of(session, 1) == steps_of(session, 2) == steps[1:]
    assert [one.round for one in session.secure.outcomes] == [0, 1, 2]


def test_a_node_greets_once_a_session(tmp_path: Path) -> None:
    session = Session(N, "malicious", tmp_path)
    session.train(nodes=session.nodes[:4])
    session.train()
    greeted = [one.node for one in session.grid.passed if one.step == HELLO]
    assert sorted(greeted) == sorted(session.nodes)


@pytest.mark.parametrize("stranger", ["without keys", "not in the roster"])
def test_a_stranger_is_asked_once_and_costs_no_trip_later(stranger: str, tmp_path: Path) -> None:
    session = Session(N, "malicious", tmp_path)
    config = session.grid.configs[session.nodes[5]]
    if stranger == "without keys":
        del config[IDENTITY_PATH]
    else:
        write_identity(tmp_path / "other.key", identity(77))
        config[IDENTITY_PATH] = str(tmp_path / "other.key")
    assert_mean(session.train(), range(5))
    assert_mean(session.train(), range(5))
    assert "Hello" not in session.outcome.seconds
    assert session.missing()[5][1] == "the node did not say which client of the roster it is"
    # One that has only been away is asked again.
    session = Session(N, "malicious", tmp_path, dropout=0.34)
    session.grid.on(session.nodes[5], HELLO, Fault.UNAVAILABLE, round=0)
    assert_mean(session.train(), range(5))
    assert_mean(session.train(), EVERYBODY)


def test_registered_nodes_need_no_greeting(tmp_path: Path) -> None:
    session = Session(N, "malicious", tmp_path)
    registered = {node: pem(at) for at, node in enumerate(session.nodes)}
    entries = [
        Entry(at + 1, f"client {at + 1}", identity(at + 1).public, node_fingerprint(key))
        for at, key in enumerate(registered.values())
    ]
    SignedRoster.sign(entries, OPERATOR_KEY).write(tmp_path / "roster.bin")
    session.grid.public_keys = registered
    secure = SecureGrid(session.grid, session.secure.config)
    assert_mean(list(secure.send_and_receive(session.messages())), EVERYBODY)
    assert secure.outcomes[0].trips == 5


def pem(number: int) -> bytes:
    """The public key of a SuperNode as Flower shows it."""
    private = ec.derive_private_key(number + 1, ec.SECP384R1())
    form = serialization.PublicFormat.SubjectPublicKeyInfo
    return private.public_key().public_bytes(serialization.Encoding.PEM, form)


def test_another_cohort_begins_anew_under_a_later_number(session: Session) -> None:
    session.train()
    replies = session.train(nodes=session.nodes[:4])
    assert_mean(replies, range(4))
    assert session.outcome.round == 2  # round 1 was announced, and is dropped
    assert Step.ADVERTISE_KEYS.title in session.outcome.seconds
    assert_mean(session.train(nodes=session.nodes[:4]), range(4))
    assert Step.ADVERTISE_KEYS.title not in session.outcome.seconds


def test_who_is_left_goes_on_without_the_first_step(session: Session) -> None:
    session.grid.on(session.nodes[2], Step.MASKED_INPUT, Fault.KILLED)
    session.train()
    left = [node for node in session.nodes if node != session.nodes[2]]
    assert_mean(session.train(nodes=left), [0, 1, 3, 4, 5])
    assert Step.ADVERTISE_KEYS.title not in session.outcome.seconds


def test_who_did_not_send_its_next_keys_makes_everybody_advertise(session: Session) -> None:
    session.grid.on(session.nodes[0], Step.UNMASKING, Fault.LOST)
    session.train()
    assert_mean(session.train(), EVERYBODY)
    assert Step.ADVERTISE_KEYS.title in session.outcome.seconds


@pytest.mark.parametrize("offered", ["junk", "another client's"])
def test_next_keys_that_are_none_make_everybody_advertise(session: Session, offered: str) -> None:
    offers: list[bytes] = []

    def between(message: Message, deliver: Any) -> Message:
        reply: Message = deliver(message)
        record = reply.content.config_records[RECORD]
        offers.append(bytes(record["offer"]))  # type: ignore[arg-type]
        record["offer"] = b"junk" if offered == "junk" else offers[0]
        return reply

    for node in session.nodes[:2]:
        session.grid.on(node, Step.UNMASKING, between, round=0)
    assert_mean(session.train(), EVERYBODY)
    assert_mean(session.train(), EVERYBODY)
    assert Step.ADVERTISE_KEYS.title in session.outcome.seconds


def test_another_model_of_the_same_size_needs_no_new_keys() -> None:
    def reshaped(message: Message, ctx: Context) -> Message:
        model = {n: a.numpy() for n, a in message.content.array_records["arrays"].items()}
        metrics = MetricRecord({"num-examples": 1})
        return Message(RecordDict({"arrays": arrays(model), "metrics": metrics}), reply_to=message)

    session = Session(3, make_app=lambda: app(reshaped), metrics={})
    session.train(RecordDict({"arrays": arrays({"w": np.ones((2, 3))})}))
    replies = session.train(RecordDict({"arrays": arrays({"v": np.ones((3, 2), np.float32)})}))
    assert arrays_in(replies[0])["v"].tolist() == np.ones((3, 2)).tolist()
    assert Step.ADVERTISE_KEYS.title not in session.outcome.seconds


# Losses.


@pytest.mark.parametrize("step", PROTOCOL)
@pytest.mark.parametrize(
    ("fault", "lost"), [(Fault.MUTE, 0), (Fault.KILLED, N - 1), (Fault.UNAVAILABLE, 2)]
)
def test_whoever_leaves_in_whichever_step_the_others_have_their_mean(
    session: Session, variant: str, step: Step, fault: Fault, lost: int
) -> None:
    if step == Step.CONSISTENCY_CHECK and variant != "malicious":
        step = Step.UNMASKING
    session.grid.on(session.nodes[lost], step, fault, round=0)
    replies = session.train()
    # From MaskedInputCollection on, it has given its input.
    within = set(EVERYBODY) - ({lost} if step <= Step.MASKED_INPUT else set())
    assert_mean(replies, within)
    assert session.numbers(session.outcome.survivors) == sorted(within)
    where, _ = session.missing()[lost]
    assert where == step.title
    assert len(session.missing()) == 1


@pytest.mark.parametrize("step", PROTOCOL)
def test_with_too_few_left_nothing_comes_back(session: Session, variant: str, step: Step) -> None:
    if step == Step.CONSISTENCY_CHECK and variant != "malicious":
        step = Step.UNMASKING
    for node in session.nodes[1:]:
        session.grid.on(node, step, Fault.UNAVAILABLE, round=0)
    assert session.train() == []
    assert session.outcome.survivors == ()
    assert step.title in str(session.outcome.aborted)
    assert sorted(session.missing()) == [1, 2, 3, 4, 5]
    # The session goes on.
    assert_mean(session.train(), EVERYBODY)


def test_a_strategy_keeps_its_model_where_nothing_comes_back() -> None:
    session = Session(N)
    for node in session.nodes[1:]:
        session.grid.on(node, Step.MASKED_INPUT, Fault.UNAVAILABLE, round=0)
    fed = FedAvg(fraction_evaluate=0.0, min_train_nodes=N, min_available_nodes=N)
    seen: list[float] = []

    def look(round: int, model: ArrayRecord) -> None:
        seen.append(float(model["bias"].numpy()[0]))

    fed.start(grid=session.secure, initial_arrays=arrays(MODEL), num_rounds=2, evaluate_fn=look)
    expected = mean(EVERYBODY)["bias"][0]
    assert seen[:2] == [0.0, 0.0]
    assert seen[2] == pytest.approx(expected, abs=2 * UNIT)


def test_errors_belong_to_the_node_that_was_asked() -> None:
    session = Session(N, dropout=0.34)
    # What the SuperLink says itself carries its own node id.
    session.grid.on(session.nodes[3], Step.SHARE_KEYS, Fault.UNAVAILABLE)
    session.grid.on(session.nodes[5], Step.SHARE_KEYS, Fault.EXPIRED)
    assert_mean(session.train(), [0, 1, 2, 4])
    assert session.missing()[3] == ("ShareKeys", "Flower reports error 5: the node is not there")
    assert session.missing()[5] == (
        "ShareKeys",
        "Flower reports error 3: the message is not there any more",
    )


def test_a_node_that_flower_does_not_know_is_missing() -> None:
    session = Session(N, dropout=0.34)
    replies = session.train(nodes=[*session.nodes, 77])
    assert_mean(replies, EVERYBODY)
    assert [gone.node for gone in session.outcome.missing] == [77] * len(session.outcome.missing)


def test_a_client_whose_training_fails_is_left_out(variant: str, tmp_path: Path) -> None:
    def sometimes(message: Message, ctx: Context) -> Message:
        if ctx.node_config["partition-id"] == 4:
            raise ValueError("private 0.5")
        return train(message, ctx)

    session = Session(N, variant, tmp_path, make_app=lambda: app(sometimes))
    assert_mean(session.train(), [0, 1, 2, 3, 5])
    step, reason = session.missing()[4]
    assert step == "MaskedInputCollection"
    assert reason == Code.FAILED.error().reason
    assert "private" not in repr(session.outcome)


def test_what_a_foreign_exception_says_is_not_passed_on(tmp_path: Path) -> None:
    def raises(message: Message, ctx: Context, call: Any) -> Message:
        raise ValueError("private 0.5")

    session = Session(3, make_app=lambda: app(train, raises))
    assert session.train() == []
    assert "private" not in repr(session.secure.outcomes)
    (reason,) = {reason for _, reason in session.missing().values()}
    assert reason.startswith("Flower reports error 2: the app raised an exception")


def test_a_client_without_the_mod_gives_nothing_and_is_named() -> None:
    seen: list[Message] = []

    def plain(message: Message, ctx: Context) -> Message:
        seen.append(message)
        return Message(RecordDict({"metrics": MetricRecord({"x": 1.0})}), reply_to=message)

    session = Session(3, make_app=lambda: app(plain, lambda m, c, call: call(m, c)))
    assert session.train() == []
    assert not any(message.content.array_records for message in seen)  # no model left for it
    assert "SecAggMod and SecureGrid need each other" in session.missing()[0][1]


def test_a_total_weight_of_zero_gives_no_mean() -> None:
    def idle(message: Message, ctx: Context) -> Message:
        reply = train(message, ctx)
        reply.content.metric_records["metrics"]["num-examples"] = 0
        return reply

    session = Session(3, make_app=lambda: app(idle))
    assert session.train() == []
    assert "total weight is 0" in str(session.outcome.aborted)


def test_fewer_nodes_than_a_sum_must_have_are_not_even_asked() -> None:
    session = Session(N, min_clients=5)
    assert session.train(nodes=session.nodes[:4]) == []
    assert session.outcome.aborted == "4 clients of 5 needed"
    assert session.grid.passed == []


def test_a_cohort_that_cannot_bear_the_planned_losses_has_no_round() -> None:
    session = Session(3, dropout=0.4)  # one of three, and a sum has three summands
    assert session.train() == []
    assert "no round of 3 clients" in str(session.outcome.aborted)
    assert session.grid.passed == []


# What is not sent on.


def test_other_messages_go_to_flower_s_grid() -> None:
    session = Session(N, dropout=0.34)
    content = RecordDict({"config": ConfigRecord({"a": 1})})
    messages = [Message(content, node, "evaluate") for node in session.nodes]
    replies = list(session.secure.send_and_receive(messages, timeout=3.0))
    assert [reply.content.metric_records["metrics"]["seen"] for reply in replies] == [1] * N
    ids = list(session.secure.push_messages([Message(content, session.nodes[0], "query")]))
    assert len(list(session.secure.pull_messages(ids))) == 1
    assert session.secure.outcomes == []
    assert list(session.secure.get_node_ids()) == session.nodes
    assert [info.node_id for info in session.secure.get_nodes()] == session.nodes
    assert session.secure.run == session.grid.run
    session.secure.set_run(session.grid.run)
    made = session.secure.create_message(content, "query", session.nodes[0], "1", ttl=5.0)
    assert (made.metadata.message_type, made.metadata.ttl) == ("query", 5.0)


def test_train_messages_do_not_get_past_the_protocol() -> None:
    session = Session(N, dropout=0.34)
    with pytest.raises(SecAggRefused, match="would bypass"):
        session.secure.push_messages(session.messages())
    mixed = [*session.messages()[:3], Message(train_content(), session.nodes[3], "evaluate")]
    with pytest.raises(SecAggRefused, match="train messages and others"):
        session.secure.send_and_receive(mixed)
    assert session.grid.passed == []


def test_nothing_to_send_is_nothing_to_do() -> None:
    session = Session(N, dropout=0.34)
    assert list(session.secure.send_and_receive([])) == []
    assert session.secure.outcomes == []


def test_a_model_without_a_clip_is_refused_before_anything_leaves() -> None:
    session = Session(N, dropout=0.34)
    model = {"steps": np.zeros(2, np.int64)}
    with pytest.raises(ParameterError, match="'steps' of int64 has no clip of its own"):
        session.train(RecordDict({"arrays": arrays(model)}))
    with pytest.raises(ParameterError, match="one ArrayRecord"):
        session.train(RecordDict({"config": ConfigRecord({"a": 1})}))
    wide = Session(N, frac_bits=50, max_weight=10**6)
    with pytest.raises(ParameterError, match="bits"):
        wide.train()
    assert wide.grid.passed == []


def test_a_grid_is_wrapped_once() -> None:
    session = Session(N, dropout=0.34)
    with pytest.raises(SecAggRefused, match="secure already"):
        SecureGrid(session.secure)


def test_an_aborted_round_is_told_in_flower_s_log(told: pytest.LogCaptureFixture) -> None:
    session = Session(N)
    session.train()
    assert "secagg" not in told.text
    for node in session.nodes[1:]:
        session.grid.on(node, Step.SHARE_KEYS, Fault.UNAVAILABLE)
    told.clear()
    session.train()
    lines = [one for one in told.records if "secagg" in one.getMessage()]
    assert {(one.name, one.levelname) for one in lines} == {("flwr", "WARNING")}
    assert "gives no mean: step 2, ShareKeys" in lines[0].getMessage()
    assert len(lines) == N


def test_each_outcome_is_told_to_whom_it_may_concern() -> None:
    heard: list[Any] = []
    session = Session(3)
    secure = SecureGrid(session.grid, SecAggConfig(), on_outcome=heard.append)
    list(secure.send_and_receive(session.messages()))
    assert heard == secure.outcomes
    assert session.numbers(heard[0].survivors) == [0, 1, 2]


def test_a_large_cohort_has_few_neighbours_each_and_the_same_mean() -> None:
    session = Session(12, sparse_above=8, dropout=0.1, corrupt=0.0, security_bits=8, failure=0.01)
    session.grid.on(session.nodes[3], Step.MASKED_INPUT, Fault.KILLED)
    assert_mean(session.train(), set(range(12)) - {3})
    left = [node for node in session.nodes if node != session.nodes[3]]
    assert_mean(session.train(nodes=left), set(range(12)) - {3})
    rosters = [one.request for one in session.grid.passed if one.step == Step.SHARE_KEYS]
    sizes = {len(request.content[RECORD]["data"]) for request in rosters}  # type: ignore[arg-type]
    assert max(sizes) < 48 + 2 + 64 * 12


def test_a_threshold_of_one_s_own_is_that_of_the_round() -> None:
    session = Session(N, threshold=5)
    for node in session.nodes[:2]:
        session.grid.on(node, Step.UNMASKING, Fault.LOST)
    assert session.train() == []
    assert "5 needed" in str(session.outcome.aborted)


def test_a_client_that_is_left_without_neighbours_leaves_before_it_trains() -> None:
    session = Session(12, sparse_above=0, dropout=0.1, corrupt=0.0, security_bits=4, failure=0.3)
    rounds: dict[int, RoundParams] = {}

    def between(message: Message, deliver: Any) -> Message | None:
        request = read_request(message.content)
        if request.step == Step.ADVERTISE_KEYS:
            rounds[request.round] = Announcement.read(request.data)
            return deliver(message)  # type: ignore[no-any-return]
        assert rounds[0].graph is not None
        lonely = set(map(int, rounds[0].graph.neighbours(1)))
        return None if request.client in lonely else deliver(message)

    for node in session.nodes:
        for step in (Step.ADVERTISE_KEYS, Step.SHARE_KEYS):
            session.grid.on(node, step, between, round=0)
    replies = session.train()
    assert session.missing()[0] == (
        "ShareKeys",
        "too few of those that it shares secrets with are left",
    )
    assert_mean(replies, session.numbers(session.outcome.survivors))
    assert 0 not in session.numbers(session.outcome.survivors)
    trained = [one.node for one in session.grid.passed if one.step == Step.MASKED_INPUT]
    assert session.nodes[0] not in trained
