"""``privrec data``: which data sets there are, and what one of them holds."""

from pathlib import Path
from typing import Annotated, Any

import click
import typer

from mpc.core.durable import PRIVATE, write_durably
from recsys.cli.console import Console
from recsys.cli.folders import check_free
from recsys.cli.options import Json, PlainCommand, Quiet, Verbose
from recsys.data.catalogue import DataSet, find, list_sets
from recsys.data.describe import Survey
from recsys.report.table import text_table

EXAMPLES = """\b
Examples:
  privrec data list
  privrec data describe synthetic-city
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
"""

PAGE = "describe.html"

app = typer.Typer(rich_markup_mode=None, epilog=EXAMPLES)


@app.callback(invoke_without_command=True)
def data(ctx: typer.Context) -> None:
    """List and describe data sets. One is built in; others lie below $PRIVREC_DATA."""
    if ctx.invoked_subcommand is None:
        print(ctx.get_help())


@app.command("list", cls=PlainCommand, epilog=LIST_EXAMPLES)
def list_(
    ctx: typer.Context, *, json: Json = False, quiet: Quiet = False, verbose: Verbose = False
) -> None:
    """List the data sets that --data knows by name."""
    found = [(known.name, _source(known)) for known in list_sets()]
    lines = text_table(("name", "source"), found)
    rows = [{"name": name, "source": source} for name, source in found]
    ctx.ensure_object(Console).result(lines, {"rows": rows})


@app.command("describe", cls=PlainCommand, epilog=DESCRIBE_EXAMPLES)
def describe_(
    ctx: typer.Context,
    *,
    name: Annotated[str, typer.Argument(metavar="NAME|PATH", show_default=False)],
    out: Annotated[
        Path | None,
        typer.Option(
            help=f"Folder for {PAGE}: distances, popularity, activity as charts.", metavar="DIR"
        ),
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Write into --out even if it holds files.")
    ] = False,
    json: Json = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Count users, POIs and check-ins, before any preparation.

    Takes a name of 'privrec data list', a folder with checkins.csv[.gz], or a file. Nothing is
    protected: figures and page are exact, for whoever holds the data.
    """
    if force and out is None:
        raise click.UsageError("--force has no meaning without --out", ctx)
    if out is not None:
        check_free(out, force=force)
    survey = Survey.of(find(name).load())
    told = survey.facts()
    console = ctx.ensure_object(Console)
    lines = text_table(("what", "value"), list(_words(_brief(told))))
    if out is None:
        console.result(lines, {"rows": [told]})
        console.note("--out DIR draws distances from home, popularity and activity")
        return
    path = _write_page(survey, out)
    console.result([*lines, f"report  {path}"], {"rows": [{**told, "out": str(out)}]})


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


def _source(known: DataSet) -> str:
    if known.city is not None:
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
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:,.4g}"
    return f"{value:,}" if isinstance(value, int) else str(value)
