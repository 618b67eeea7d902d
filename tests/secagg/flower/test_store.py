"""What a client keeps between messages, and that marks on disk outlive a state that went back."""

from collections.abc import Callable
from pathlib import Path

import pytest
from flwr.app import ArrayRecord, ConfigRecord, Context, RecordDict, UserConfig

from mpc.core.errors import ParameterError, StateError, WireError
from secagg.flower.records import RECORD
from secagg.flower.store import (
    STATE_PATH,
    DiskStore,
    Held,
    StateStore,
    StateWatermark,
    opened,
    taken_out,
)
from secagg.watermark import FileWatermark, MemoryWatermark, Watermark

SESSION = bytes(range(16))
HELD = Held(SESSION, 3, 7, b"announcement", b"terms", b"client")


def context(config: UserConfig | None = None) -> Context:
    return Context(1, 2, dict(config or {}), RecordDict(), {})


def used() -> StateStore:
    store = StateStore()
    store.sessions = {SESSION: 7, bytes(16): 8}
    store.left = {bytes(16)}
    store.held = HELD
    store.history.enter(SESSION, 7, 3)
    return store


def test_everything_comes_back_from_the_record() -> None:
    again = StateStore(used().record())
    assert again.sessions == {SESSION: 7, bytes(16): 8}
    assert again.left == {bytes(16)}
    assert again.held == HELD
    with pytest.raises(StateError):
        again.history.enter(SESSION, 7, 3)
    again.history.enter(SESSION, 7, 4)
    assert again.record()["data"] == StateStore(again.record()).record()["data"]


def test_an_empty_store_has_nothing() -> None:
    for store in (StateStore(), StateStore(StateStore().record())):
        assert (store.sessions, store.left, store.held) == ({}, set(), None)


def test_a_step_that_was_taken_is_known_to_the_stored_history() -> None:
    store = used()
    store.history.step(SESSION, 7, 3, 2)
    again = StateStore(store.record())
    for step in (1, 2):
        with pytest.raises(StateError):
            again.history.step(SESSION, 7, 3, step)
    again.history.step(SESSION, 7, 3, 3)


@pytest.mark.parametrize("at", [0, 1, 40, -1])
def test_a_damaged_record_is_refused(at: int) -> None:
    data = bytearray(used().record()["data"])  # type: ignore[arg-type]
    data[at] ^= 1
    with pytest.raises(WireError):
        StateStore(ConfigRecord({"data": bytes(data)}))


@pytest.mark.parametrize("record", [ConfigRecord(), ConfigRecord({"data": 1})])
def test_a_record_of_something_else_is_refused(record: ConfigRecord) -> None:
    with pytest.raises(WireError):
        StateStore(record)


def test_stored_bytes_do_not_show_in_a_repr() -> None:
    assert "announcement" not in repr(HELD).replace("announcement=", "")
    assert "client'" not in repr(HELD)


@pytest.mark.parametrize("make", [MemoryWatermark, lambda: StateWatermark({})])
def test_marks_in_the_state_are_kept_by_the_rules_of_every_watermark(
    make: Callable[[], Watermark],
) -> None:
    marks, key = make(), bytes(32)
    marks.claim(key, 1, 16, 32)
    for epoch, start, stop in ((1, 16, 32), (1, 0, 48), (0, 64, 80)):
        with pytest.raises(StateError):
            marks.claim(key, epoch, start, stop)
    marks.claim(bytes(31) + b"\1", 0, 0, 16)
    marks.claim(key, 1, 32, 48)
    marks.claim(key, 2, 0, 16)
    with pytest.raises(ParameterError):
        marks.claim(key, 2, 32, 32 - 16)


def test_marks_on_disk_outlive_a_state_that_went_back(tmp_path: Path) -> None:
    path = tmp_path / "marks"
    store = DiskStore(path)
    before = store.record()
    store.history.enter(SESSION, 7, 3)
    store.history.step(SESSION, 7, 3, 1)
    again = DiskStore(path, before)
    with pytest.raises(StateError):
        again.history.step(SESSION, 7, 3, 1)
    with pytest.raises(StateError):
        again.history.enter(SESSION, 7, 3)


def test_marks_in_the_state_go_back_with_it() -> None:
    store = StateStore()
    before = store.record()
    store.history.enter(SESSION, 7, 3)
    StateStore(before).history.enter(SESSION, 7, 3)


def test_the_file_is_made_where_it_is_missing_and_opened_where_it_is_not(tmp_path: Path) -> None:
    path = tmp_path / "marks"
    DiskStore(path).history.enter(SESSION, 7, 3)
    data = path.read_bytes()
    DiskStore(path)
    assert path.read_bytes() == data


def test_another_process_may_make_the_file_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, create = tmp_path / "marks", FileWatermark.create

    def late(path: Path) -> FileWatermark:
        create(path)
        return create(path)

    monkeypatch.setattr(FileWatermark, "create", late)
    DiskStore(path).history.enter(SESSION, 7, 3)


def test_a_round_that_a_new_file_does_not_know_is_not_gone_on_with(tmp_path: Path) -> None:
    store = DiskStore(tmp_path / "marks")
    store.history.enter(SESSION, 7, 3)
    (tmp_path / "marks").unlink()
    again = DiskStore(tmp_path / "marks", store.record())
    with pytest.raises(StateError):
        again.history.resume(SESSION, 7, 3)
    with pytest.raises(StateError):
        again.history.enter(SESSION, 7, 4)


def test_a_damaged_file_is_refused_and_kept(tmp_path: Path) -> None:
    path = tmp_path / "marks"
    path.write_bytes(b"damaged")
    with pytest.raises(StateError):
        DiskStore(path)
    assert path.read_bytes() == b"damaged"


def test_a_missing_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ParameterError, match="folder"):
        DiskStore(tmp_path / "nowhere" / "marks")


def test_the_record_is_out_of_the_state_while_the_store_is_open() -> None:
    ctx = context()
    ctx.state["own"] = ConfigRecord({"a": 1})
    with opened(ctx, ctx.node_config) as store:
        assert list(ctx.state) == ["own"]
        store.held = HELD
    assert set(ctx.state) == {"own", RECORD}
    with opened(ctx, ctx.node_config) as store:
        assert store.held == HELD
        assert list(ctx.state) == ["own"]


def test_the_store_is_put_back_whatever_happens_meanwhile() -> None:
    ctx = context()

    def interrupted() -> None:
        with opened(ctx, {}) as store:
            store.held = HELD
            ctx.state = RecordDict()
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    with opened(ctx, {}) as store:
        assert store.held == HELD


def test_the_node_s_configuration_names_the_file(tmp_path: Path) -> None:
    config: UserConfig = {STATE_PATH: str(tmp_path / "marks")}
    ctx = context(config)
    with opened(ctx, ctx.node_config) as store:
        assert store.durable
        store.history.enter(SESSION, 7, 3)
    assert (tmp_path / "marks").exists()
    with opened(context(), {}) as store:
        assert not store.durable


@pytest.mark.parametrize("wrong", [1, "", True])
def test_a_path_that_is_none_is_refused(wrong: object) -> None:
    ctx = context()
    with pytest.raises(ParameterError), opened(ctx, {STATE_PATH: wrong}):
        pass
    assert not ctx.state


@pytest.mark.parametrize("record", [ConfigRecord({"data": b"?"}), ArrayRecord()])
def test_a_state_that_is_not_ours_stays_as_it_is(record: ConfigRecord | ArrayRecord) -> None:
    ctx = context()
    ctx.state[RECORD] = record
    with pytest.raises(WireError), opened(ctx, {}):
        pass
    assert ctx.state[RECORD] is record


def test_what_is_taken_out_comes_back() -> None:
    ctx = context()
    ctx.state[RECORD] = ConfigRecord({"data": b"x"})

    def failing() -> None:
        with taken_out(ctx):
            assert not ctx.state
            raise KeyError

    with pytest.raises(KeyError):
        failing()
    assert ctx.state[RECORD]["data"] == b"x"
    empty = context()
    with taken_out(empty):
        pass
    assert not empty.state
