"""What a device remembers of a session: each round and step once, and nothing after a refusal."""

import os
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mpc.core.errors import ParameterError, StateError
from secagg.full.history import History
from secagg.watermark import FileWatermark, MemoryWatermark
from tests.secagg.full.world import OTHER_SESSION, SESSION

LAST = 2**32 - 1


def test_rounds_rise_within_a_session() -> None:
    history = History()
    history.enter(SESSION, 2, 5)
    for round in (5, 4, 0):
        with pytest.raises(StateError, match="has served round"):
            history.enter(SESSION, 2, round)
    history.enter(SESSION, 2, 6)
    history.enter(SESSION, 3, 5)
    history.enter(OTHER_SESSION, 2, 0)
    with pytest.raises(ParameterError):
        history.enter(SESSION, 2, LAST + 1)


def test_a_refusal_is_final_for_the_session() -> None:
    history = History()
    history.check(SESSION, 2)
    history.refuse(SESSION, 2)
    history.refuse(SESSION, 2)
    with pytest.raises(StateError, match="has refused to go on"):
        history.check(SESSION, 2)
    for round in (0, LAST):
        with pytest.raises(StateError, match="has refused to go on"):
            history.enter(SESSION, 2, round)
    history.check(SESSION, 3)
    history.enter(SESSION, 3, LAST)
    history.enter(OTHER_SESSION, 2, LAST)


def test_a_history_on_disk_outlives_the_process(tmp_path: Path) -> None:
    path = tmp_path / "marks"
    History(FileWatermark.create(path)).enter(SESSION, 2, 5)
    again = History(FileWatermark(path))
    for round in (5, 0):
        with pytest.raises(StateError, match="has served round"):
            again.enter(SESSION, 2, round)
    again.enter(SESSION, 2, 6)
    again.refuse(SESSION, 2)
    last = History(FileWatermark(path))
    with pytest.raises(StateError, match="has refused to go on"):
        last.enter(SESSION, 2, LAST)
    last.enter(SESSION, 3, LAST)


def test_steps_rise_within_a_round() -> None:
    history = History()
    history.step(SESSION, 2, 7, 1)
    history.step(SESSION, 2, 7, 3)
    for step in (3, 2, 1):
        with pytest.raises(StateError, match=f"has answered in step {step} of round 7 or later"):
            history.step(SESSION, 2, 7, step)
    history.step(SESSION, 2, 7, 5)
    history.step(SESSION, 3, 7, 1)
    history.step(OTHER_SESSION, 2, 7, 1)
    for wrong in (0, 6, -1, True, 1.0):
        with pytest.raises(ParameterError):
            history.step(SESSION, 2, 8, wrong)  # type: ignore[arg-type]
    history.step(SESSION, 2, 8, 1)


def test_rounds_that_are_under_way_at_once_do_not_spend_each_other_s_steps() -> None:
    history = History()
    for step in range(1, 6):
        for round in range(8):
            history.step(SESSION, 2, round, step)
    history.step(SESSION, 2, 8, 1)
    with pytest.raises(StateError):
        history.step(SESSION, 2, 0, 5)


asked = st.lists(st.tuples(st.integers(0, 20), st.integers(1, 5)), max_size=40)


@given(asked)
def test_no_step_is_granted_twice_whatever_is_asked(wanted: list[tuple[int, int]]) -> None:
    history, granted = History(), list[tuple[int, int]]()
    for round, step in wanted:
        lane = [(r, s) for r, s in granted if r % 8 == round % 8]
        if not lane or (round, step) > max(lane):
            history.step(SESSION, 2, round, step)
            granted.append((round, step))
        else:
            with pytest.raises(StateError):
                history.step(SESSION, 2, round, step)
    assert max(Counter(granted).values(), default=0) <= 1


def test_marks_do_not_grow_with_the_rounds() -> None:
    marks = MemoryWatermark()
    history = History(marks)
    for round in range(200):
        history.enter(SESSION, 2, round)
        for step in range(1, 6):
            history.step(SESSION, 2, round, step)
    assert len(marks._marks) == 9


def test_a_refusal_ends_all_rounds_under_way_also_after_a_restart(tmp_path: Path) -> None:
    path = tmp_path / "marks"
    history = History(FileWatermark.create(path))
    for round in range(10):
        history.enter(SESSION, 2, round)
        history.step(SESSION, 2, round, 1)
    history.refuse(SESSION, 2)
    for each in (history, History(FileWatermark(path))):
        for round in (*range(10), LAST):
            with pytest.raises(StateError, match="refused to go on"):
                each.step(SESSION, 2, round, 5)
        each.step(SESSION, 3 if each is history else 4, 0, 1)


def test_steps_on_disk_outlive_the_process(tmp_path: Path) -> None:
    path = tmp_path / "marks"
    History(FileWatermark.create(path)).step(SESSION, 2, 7, 3)
    again = History(FileWatermark(path))
    for step in (1, 2, 3):
        with pytest.raises(StateError, match="has answered"):
            again.step(SESSION, 2, 7, step)
    again.step(SESSION, 2, 7, 4)


def test_a_round_is_resumed_where_it_was_entered(tmp_path: Path) -> None:
    path = tmp_path / "marks"
    History(FileWatermark.create(path)).enter(SESSION, 2, 7)
    again = History(FileWatermark(path))
    for _ in range(2):
        again.resume(SESSION, 2, 7)
    again.resume(SESSION, 2, 6)  # passed over: no client was made for it, and none can be now
    again.enter(SESSION, 2, 8)
    again.resume(SESSION, 2, 7)
    with pytest.raises(StateError, match="does not know of round 7"):
        again.resume(SESSION, 3, 7)
    for history in (again, History(FileWatermark(path))):
        with pytest.raises(StateError, match="refused to go on"):
            history.enter(SESSION, 3, 8)
        with pytest.raises(StateError, match="refused to go on"):
            history.step(SESSION, 3, 7, 1)
    again.step(SESSION, 2, 7, 1)


def test_a_history_in_memory_stays_in_its_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """A fork would copy the marks: both processes would grant a step."""
    history = History()
    history.enter(SESSION, 2, 7)
    monkeypatch.setattr(os, "getpid", lambda: -1)
    with pytest.raises(StateError):
        history.step(SESSION, 2, 7, 1)
    monkeypatch.undo()
    history.step(SESSION, 2, 7, 1)
