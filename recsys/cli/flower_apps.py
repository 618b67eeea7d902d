"""What ``privrec flower new`` does: check the data, fill in the templates, write them."""

import json
import re
import shlex
from importlib import metadata, resources
from pathlib import Path
from string import Template

from mpc.core.durable import PUBLIC, write_durably
from recsys.cli.console import Console
from recsys.cli.folders import check_free
from recsys.cli.task_choice import check_task
from recsys.data.catalogue import find
from recsys.data.rating_catalogue import find_ratings
from recsys.tasks import RATING, VISITS, Task

_ENDING = ".template"
_TASKS = {"prirec": VISITS, "fedgnn": RATING}
MODEL = "model"
"""The folder of an app that its model goes into."""


def write_app(app: str, folder: Path, data: str | None, console: Console, *, force: bool) -> None:
    """Write the app into ``folder``, and say how to run it.

    Raises ParameterError for a folder that is not free and data of another kind, DataError for a
    set that is not there.
    """
    check_free(folder, force=force)
    task = _TASKS[app]
    source = task.default_data if data is None else data
    check_task(task, source, f"{app} learns")
    source = _from_anywhere(source, task)
    texts = filled(app, folder.resolve(), source)
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in texts.items():
        write_durably(folder / name, text.encode(), mode=PUBLIC)
    shown = shlex.quote(str(folder))
    following = f"flwr run {shown} sim --stream"
    lines = [
        *(f"{folder / name}" for name in texts),
        "",
        f"next     {following}",
        f"         {folder / 'README.md'} says how the connection sim is made, and how to deploy",
    ]
    row = {"app": app, "path": str(folder), "files": list(texts), "data": source, "run": following}
    console.result(lines, {"rows": [row]})
    if not _has_flower():
        console.note("note: Flower is not installed here: pip install 'privrec[recsys,gnn,flower]'")


def _from_anywhere(source: str, task: Task) -> str:
    """``source`` as processes of Flower's find it, which run in other folders."""
    if task is VISITS:
        path, split = find(source).path, None
    else:
        found = find_ratings(source)
        path, split = found.path, found.split
    if path is None:
        return source
    return str(path.resolve()) if split is None else f"{path.resolve()}:{split}"


def filled(app: str, folder: Path, data: str) -> dict[str, str]:
    """The files of an app by name. folder: where it will be, absolute."""
    name = re.sub(r"[^a-z0-9]+", "-", folder.name.lower()).strip("-") or app
    values = {
        "app": app,
        "name": name,
        "data": json.dumps(data),  # TOML's strings are JSON's
        "out": json.dumps(str(folder / MODEL)),
        "folder": shlex.quote(str(folder)),
    }
    place = resources.files("recsys.flower") / "templates" / app
    found = sorted(
        (entry for entry in place.iterdir() if entry.name.endswith(_ENDING)),
        key=lambda entry: entry.name,
    )
    return {
        entry.name.removesuffix(_ENDING): Template(entry.read_text("utf-8")).substitute(values)
        for entry in found
    }


def _has_flower() -> bool:
    try:
        metadata.version("flwr")
    except metadata.PackageNotFoundError:
        return False
    return True
