"""What a command is about, visits or ratings, where its options say so without ``--task``."""

import difflib
from collections.abc import Collection, Mapping, Sequence

from mpc.core.errors import ParameterError
from recsys.data.catalogue import find
from recsys.data.checkins import holds_checkins
from recsys.data.rating_catalogue import find_ratings
from recsys.data.rating_files import holds_ratings
from recsys.errors import DataError
from recsys.tasks import RATING, TASKS, VISITS, Task, find_task

FETCHED = ("ml-100k",)
"""Sets that ``privrec data fetch`` brings."""


def task_of_rows(named: str | None, rows: Sequence[str], data: str | None) -> Task:
    """The task that ``--task`` names; else that of the rows; else that of the data.

    Raises ParameterError for a task or a row that there is not, and for rows of several tasks.
    """
    if named is not None:
        return find_task(named)
    found = {task for row in rows for task in TASKS.values() if row in task.variants}
    unknown = [row for row in rows if not any(row in task.variants for task in TASKS.values())]
    if unknown:
        raise unknown_model(unknown[0])
    if len(found) > 1:
        one, other = (
            next(row for row in rows if row in task.variants) for task in (VISITS, RATING)
        )
        raise ParameterError(
            f"{one} learns from {VISITS.learns_from}, {other} from {RATING.learns_from}",
            remedy="compare models of one kind",
        )
    return found.pop() if found else _told_by_data(data)


def task_of_kind(
    named: str | None, kind: str | None, kinds: Mapping[str, Collection[str]], data: str | None
) -> Task:
    """The task that ``--task`` names; else the only one with that kind; else that of the data.

    kinds: by name of a task.
    """
    if named is not None:
        return find_task(named)
    having = [task for task in TASKS.values() if kind in kinds[task.name]]
    return having[0] if len(having) == 1 else _told_by_data(data)


def task_of_data(data: str) -> Task | None:
    """The task of the set called ``data``; None where it is not there, or could be of both.

    A .csv file could be.
    """
    try:
        path = find_ratings(data).path
    except DataError:
        return VISITS if _is_city(data) else None
    if path is None:
        return RATING
    if path.is_dir():
        ratings, checkins = holds_ratings(path), holds_checkins(path)
        return None if ratings is checkins else RATING if ratings else VISITS
    return None if path.name.removesuffix(".gz").endswith(".csv") else RATING


def check_task(task: Task, data: str, learner: str) -> None:
    """ParameterError where the set called ``data`` is of another task; DataError if it is nowhere.

    learner: who learns from it, for a sentence.
    """
    found = task_of_data(data)
    if found is not None and found is not task:
        raise ParameterError(
            f"{data} holds {found.learns_from}, and {learner} from {task.learns_from}",
            remedy="name another set; privrec data list says what each is about",
        )
    if data in FETCHED and found is None and task is RATING:
        try:
            find_ratings(data)
        except DataError as error:
            raise DataError(
                error.message, remedy=f"get it with: privrec data fetch {data}; or {error.remedy}"
            ) from None


def unknown_model(name: object, place: str = "") -> ParameterError:
    """What to say of a model that there is not. place: where the name stands, for a sentence."""
    models = [model for task in TASKS.values() for model in task.variants]
    close = difflib.get_close_matches(name, models, n=1) if isinstance(name, str) else []
    meant = f"did you mean {close[0]}? " if close else ""
    return ParameterError(
        f"model must be one of {', '.join(models)}, got {name!r}{place}",
        remedy=f"{meant}see privrec train --help",
    )


def _told_by_data(data: str | None) -> Task:
    return (None if data is None else task_of_data(data)) or VISITS


def _is_city(data: str) -> bool:
    try:
        return find(data).city is not None
    except DataError:
        return False
