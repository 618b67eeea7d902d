"""What a device remembers of a session: each round once, and nothing after a refusal."""

from pathlib import Path

import pytest

from mpc.core.errors import ParameterError, StateError
from secagg.full.history import History
from secagg.watermark import FileWatermark
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
