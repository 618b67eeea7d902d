"""Which task a command is about: what its options say, and what they contradict."""

from pathlib import Path

import pytest

from mpc.core.errors import ParameterError
from recsys.cli.sweep import KINDS
from recsys.cli.task_choice import (
    check_task,
    task_of_data,
    task_of_kind,
    task_of_rows,
    unknown_model,
)
from recsys.errors import DataError
from recsys.tasks import RATING, VISITS, Task
from tests.recsys.rating_worlds import SET

CITY = "synthetic-city:40x30"


@pytest.fixture(autouse=True)
def sets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder of each kind, of both and of none, and files, below $PRIVREC_DATA."""
    for folder, name in (
        ("films", "ratings.csv"),
        ("town", "checkins.csv"),
        ("both", "ratings.csv"),
        ("both", "checkins.csv"),
        ("neither", "notes.txt"),
    ):
        (tmp_path / folder).mkdir(exist_ok=True)
        (tmp_path / folder / name).write_text("")
    for name in ("any.csv", "any.csv.gz", "some.inter"):
        (tmp_path / name).write_text("")
    monkeypatch.setenv("PRIVREC_DATA", str(tmp_path))


@pytest.mark.parametrize(
    ("data", "task"),
    [
        (SET, RATING),
        (CITY, VISITS),
        ("synthetic-city:nonsense", None),
        ("films", RATING),
        ("town", VISITS),
        ("both", None),
        ("neither", None),
        ("any.csv", None),
        ("any.csv.gz", None),
        ("some.inter", RATING),
        ("nowhere", None),
    ],
)
def test_what_a_set_tells_of_its_task(data: str, task: Task | None) -> None:
    assert task_of_data(data) is task


@pytest.mark.parametrize(
    ("named", "rows", "data", "task"),
    [
        (None, (), None, VISITS),
        (None, (), SET, RATING),
        (None, (), "any.csv", VISITS),
        (None, ("fm", "prirec"), None, VISITS),
        (None, ("bias", "fedgnn-gat"), None, RATING),
        (None, ("fm",), SET, VISITS),  # whose data are then refused
        ("rating", ("fm",), None, RATING),  # whose row is then refused
        ("visits", (), SET, VISITS),
    ],
)
def test_rows_come_before_data_and_the_option_before_both(
    named: str | None, rows: tuple[str, ...], data: str | None, task: Task
) -> None:
    assert task_of_rows(named, rows, data) is task


def test_rows_of_two_tasks_and_unknown_ones_are_refused() -> None:
    with pytest.raises(ParameterError, match="fm learns from visits to places, bias from ratings"):
        task_of_rows(None, ("bias", "fm"), None)
    with pytest.raises(ParameterError, match="got 'biass'") as caught:
        task_of_rows(None, ("fm", "biass"), None)
    assert caught.value.remedy.startswith("did you mean bias?")
    with pytest.raises(ParameterError, match="task must be one of visits, rating"):
        task_of_rows("books", ("bias",), None)


@pytest.mark.parametrize(
    ("kind", "data", "task"),
    [
        ("noise", None, RATING),
        ("pseudo", CITY, RATING),  # whose data are then refused
        ("epsilon", None, VISITS),
        ("neighbours", None, VISITS),
        ("neighbours", SET, RATING),
        ("size", None, VISITS),
        (None, None, VISITS),
        ("nonsense", "films", RATING),
    ],
)
def test_a_kind_of_one_task_tells_it(kind: str | None, data: str | None, task: Task) -> None:
    assert task_of_kind(None, kind, KINDS, data) is task
    assert task_of_kind("visits", kind, KINDS, data) is VISITS


def test_data_of_another_task_are_refused_before_they_are_read() -> None:
    for task, data in ((RATING, "town"), (VISITS, "films"), (VISITS, SET), (RATING, CITY)):
        with pytest.raises(ParameterError, match=f"^{data} holds .* and it learns from"):
            check_task(task, data, "it learns")
    for data in ("any.csv", "both", "neither", "nowhere"):
        for task in (VISITS, RATING):
            check_task(task, data, "it learns")  # left to whoever reads it
    check_task(RATING, "films", "it learns")
    check_task(VISITS, "town", "it learns")


def test_a_set_that_can_be_fetched_is_offered_where_it_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="there is no rating set 'ml-100k'") as caught:
        check_task(RATING, "ml-100k", "it learns")
    assert caught.value.remedy.startswith("get it with: privrec data fetch ml-100k; or give")
    (tmp_path / "ml-100k").mkdir()
    check_task(RATING, "ml-100k", "it learns")


def test_a_model_that_is_nearly_right_is_named() -> None:
    assert unknown_model("fedgn").remedy.startswith("did you mean fedgnn?")
    assert unknown_model("prirek").remedy.startswith("did you mean prirec")
    for far in ("xyz", 3, None):
        assert unknown_model(far).remedy == "see privrec train --help"
