"""The commands of ``privrec`` put together: a thin skin over ``recsys``, one file for each."""

import traceback
from collections.abc import Sequence
from importlib import metadata
from typing import Annotated

import click
import typer

from recsys.cli import audit, compare, data, flower, recommend, sweep, train
from recsys.cli.codes import DONE, INTERNAL, INTERRUPTED
from recsys.cli.console import Console
from recsys.cli.failures import explain, interrupted
from recsys.cli.options import PlainCommand

EXAMPLES = """\b
Examples:
  privrec data list
  privrec train prirec
  privrec train prirec --data my-city --out city
  privrec recommend --model city --user 17
  privrec train fedgnn
  privrec compare --models fm,prirec
  privrec compare --models bias,fedgnn
  privrec sweep neighbours
  privrec audit randomized-response
  privrec flower new fedgnn films
"""


_COMMANDS = ("train", "compare", "sweep", "recommend", "audit", "data", "flower")


def execute(arguments: Sequence[str]) -> int:
    """Run one command and return its exit code; see ``main`` of recsys.cli.main."""
    console = Console.from_arguments(arguments)
    try:
        code = _command().main(
            args=list(arguments), prog_name="privrec", standalone_mode=False, obj=console
        )
    except Exception as error:
        called = next((word for word in arguments if word in _COMMANDS), "")
        failure = explain(error, f"privrec {called}".rstrip())
        console.end_progress()
        if console.verbose and failure.code == INTERNAL:
            traceback.print_exception(error)
    else:
        if code != INTERRUPTED:
            return int(code or DONE)
        failure = interrupted()  # outside of a training
    console.error(failure.kind, failure.message, failure.remedy)
    return failure.code


def _command() -> click.Command:
    app = typer.Typer(add_completion=False, rich_markup_mode=None, epilog=EXAMPLES)
    app.callback(invoke_without_command=True)(_root)
    app.command("train", cls=PlainCommand, epilog=train.EXAMPLES)(train.train)
    app.command("compare", cls=PlainCommand, epilog=compare.EXAMPLES)(compare.compare)
    app.command("sweep", cls=PlainCommand, epilog=sweep.EXAMPLES)(sweep.sweep)
    app.command("recommend", cls=PlainCommand, epilog=recommend.EXAMPLES)(recommend.recommend)
    app.command("audit", cls=PlainCommand, epilog=audit.EPILOG)(audit.audit)
    app.add_typer(data.app, name="data")
    app.add_typer(flower.app, name="flower")
    return typer.main.get_command(app)


def _version(wanted: bool) -> None:
    if wanted:
        print(f"privrec {metadata.version('privrec')}")
        raise typer.Exit


def _root(
    ctx: typer.Context,
    version: Annotated[
        bool,
        typer.Option("--version", help="Show the version.", callback=_version, is_eager=True),
    ] = False,
) -> None:
    """Recommend places and items without collecting histories: PriRec, FedGNN, baselines."""
    if ctx.invoked_subcommand is None:
        print(ctx.get_help())
