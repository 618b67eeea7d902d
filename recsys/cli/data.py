"""``privrec data``: which data sets there are, what one of them holds, and how to get one."""

import os
from pathlib import Path
from typing import Annotated, Any

import click
import typer

from mpc.core.durable import PRIVATE, write_durably
from recsys.cli.console import Console
from recsys.cli.folders import check_free
from recsys.cli.options import Json, PlainCommand, Quiet, Verbose
from recsys.cli.task_choice import FETCHED, task_of_data
from recsys.data.catalogue import ROOT_VARIABLE, DataSet, find, list_sets
from recsys.data.describe import Survey
from recsys.data.fetch import fetch_ml_100k
from recsys.data.rating_catalogue import RatingSet, find_ratings, list_rating_sets
from recsys.data.rating_facts import describe_ratings
from recsys.report.table import text_table
from recsys.tasks import RATING, TASKS, VISITS, find_task

EXAMPLES = """\b
Examples:
  privrec data list
  privrec data describe synthetic-city
  privrec data fetch ml-100k
"""

LIST_EXAMPLES = """\b
Examples:
  privrec data list
  PRIVREC_DATA=my-data-sets privrec data list --json
"""

DESCRIBE_EXAMPLES = """\b
Examples:
  privrec data describe synthetic-city
  privrec data describe synthetic-city:2000x1500,seed=1
  privrec data describe my-city/checkins.csv --json
  privrec data describe synthetic-city --out city
  privrec data describe ml-100k
  privrec data describe my-ratings.csv --task rating
"""

FETCH_EXAMPLES = """\b
Examples:
  privrec data fetch ml-100k
  PRIVREC_DATA=my-data-sets privrec data fetch ml-100k
"""

PAGE = "describe.html"

app = typer.Typer(rich_markup_mode=None, epilog=EXAMPLES)


@app.callback(invoke_without_command=True)
def data(ctx: typer.Context) -> None:
    """List, describe and fetch data sets. Two are built in; others lie below $PRIVREC_DATA."""
    if ctx.invoked_subcommand is None:
        print(ctx.get_help())


@app.command("list", cls=PlainCommand, epilog=LIST_EXAMPLES)
def list_(
    ctx: typer.Context, *, json: Json = False, quiet: Quiet = False, verbose: Verbose = False
) -> None:
    """List the data sets that --data knows by name: of visits to places, and of ratings."""
    found = [(known.name, VISITS.name, _source(known)) for known in list_sets()]
    found += [(known.name, RATING.name, _source(known)) for known in list_rating_sets()]
    lines = text_table(("name", "task", "source"), found)
    rows = [{"name": name, "task": task, "source": source} for name, task, source in found]
    ctx.ensure_object(Console).result(lines, {"rows": rows})


@app.command("describe", cls=PlainCommand, epilog=DESCRIBE_EXAMPLES)
def describe_(
    ctx: typer.Context,
    *,
    name: Annotated[str, typer.Argument(metavar="NAME|PATH", show_default=False)],
    task: Annotated[
        str | None,
        typer.Option(
            help="What it is about. [by name and files]",
            metavar="|".join(TASKS),
            show_default=False,
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            help=f"Folder for {PAGE}: distances, popularity, activity as charts. Visits alone.",
            metavar="DIR",
        ),
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Write into --out even if it holds files.")
    ] = False,
    json: Json = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Count users, POIs and check-ins, or users, items and ratings, before any preparation.

    Takes a name of 'privrec data list', a folder, or a file. A .csv file is taken for check-ins
    unless --task says otherwise. Nothing is protected: figures and page are exact, for whoever
    holds the data.
    """
    if force and out is None:
        raise click.UsageError("--force has no meaning without --out", ctx)
    console = ctx.ensure_object(Console)
    if (task_of_data(name) if task is None else find_task(task)) is RATING:
        if out is not None:
            raise click.UsageError("--out has no meaning with ratings, which have no page", ctx)
        told = describe_ratings(find_ratings(name).load())
        console.result(text_table(("what", "value"), list(_words(told))), {"rows": [told]})
        return
    if out is not None:
        check_free(out, force=force)
    survey = Survey.of(find(name).load())
    told = survey.facts()
    lines = text_table(("what", "value"), list(_words(_brief(told))))
    if out is None:
        console.result(lines, {"rows": [told]})
        console.note("--out DIR draws distances from home, popularity and activity")
        return
    path = _write_page(survey, out)
    console.result([*lines, f"report  {path}"], {"rows": [{**told, "out": str(out)}]})


@app.command("fetch", cls=PlainCommand, epilog=FETCH_EXAMPLES)
def fetch_(
    ctx: typer.Context,
    *,
    name: Annotated[str, typer.Argument(metavar="|".join(FETCHED), show_default=False)],
    out: Annotated[
        Path | None,
        typer.Option(help="Folder to put it into. [$PRIVREC_DATA/NAME, or NAME]", metavar="DIR"),
    ] = None,
    json: Json = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Bring a public data set onto this machine, with pip, and show its terms.

    ml-100k is the file that RecBole 1.2.1 carries as an example; its SHA-256 is checked. The file
    is not part of this project, and its own terms hold for it.
    """
    if name not in FETCHED:
        raise click.UsageError(f"name one of {', '.join(FETCHED)}, got {name!r}", ctx)
    root = os.environ.get(ROOT_VARIABLE)
    folder = out or (Path(root).expanduser() if root else Path()) / name
    console = ctx.ensure_object(Console)
    console.progress(f"fetching {name}")
    fetched = fetch_ml_100k(folder)
    where = "is in" if fetched.fresh else "was there already, in"
    lines = [
        f"{name} {where} {fetched.path}",
        "",
        *fetched.terms.rstrip().splitlines(),
        "",
        f"next     privrec train fedgnn --data {name if root and out is None else folder}",
    ]
    row = {
        "name": name,
        "path": str(fetched.path),
        "fresh": fetched.fresh,
        "terms": fetched.terms,
    }
    console.result(lines, {"rows": [row]})


def _write_page(survey: Survey, folder: Path) -> Path:
    from recsys.report.describe_page import describe_page  # noqa: PLC0415 - loads matplotlib

    page = describe_page(survey)
    folder.mkdir(parents=True, exist_ok=True)
    write_durably(folder / PAGE, page, mode=PRIVATE)
    return folder / PAGE


def _brief(told: dict[str, Any]) -> dict[str, Any]:
    """The facts without the nested distances, of which the telling ones take their place."""
    far = told["distances"]
    return {name: value for name, value in told.items() if name != "distances"} | {
        "median_km_to_random_pois": far["random_km"]["median"],
        "visits_within_10_km": far["visited_within_km"]["10"],
        "random_pois_within_10_km": far["random_within_km"]["10"],
    }


def _source(known: DataSet | RatingSet) -> str:
    if isinstance(known, RatingSet) and known.synthetic is not None:
        made = known.synthetic
        return f"made on the spot, {made.users} users and {made.items} items"
    if isinstance(known, DataSet) and known.city is not None:
        return f"made on the spot, {known.city.users} users and {known.city.pois} POIs"
    return str(known.path)


def _words(facts: dict[str, Any]) -> list[tuple[str, str]]:
    rows = []
    for name, value in facts.items():
        parts = {"": value} if not isinstance(value, dict) else value
        for part, number in parts.items():
            label = f"{name} {part}".replace("_", " ").rstrip()
            rows.append((label, _word(number)))
    return rows


def _word(value: object) -> str:
    if value is None or value == []:
        return "-"
    if isinstance(value, list):
        return "; ".join(str(each) for each in value)
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:,.4g}"
    return f"{value:,}" if isinstance(value, int) else str(value)
