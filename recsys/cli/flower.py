"""``privrec flower``: an app that trains over Flower, and the identities of those who take part."""

from pathlib import Path
from typing import Annotated

import click
import typer

from recsys.cli.console import Console
from recsys.cli.options import Json, PlainCommand, Quiet, Verbose

EXAMPLES = """\b
Examples:
  privrec flower new fedgnn films
  privrec flower identity node0.key
  privrec flower roster roster.bin --operator operator.key --client 1,ann,5f0c...
"""

NEW_EXAMPLES = """\b
Examples:
  privrec flower new fedgnn films
  privrec flower new fedgnn films --data ml-100k
  privrec flower new prirec city --data my-city/checkins.csv
"""

IDENTITY_EXAMPLES = """\b
Examples:
  privrec flower identity node0.key
  privrec flower identity operator.key --json
  privrec flower identity node0.key --show
"""

ROSTER_EXAMPLES = """\b
Examples:
  privrec flower roster roster.bin --operator operator.key
      --client 1,ann,PUBLIC,node0.pub --client 2,bob,PUBLIC,node1.pub --client 3,eve,PUBLIC
"""

APPS = ("prirec", "fedgnn")

app = typer.Typer(rich_markup_mode=None, epilog=EXAMPLES)


@app.callback(invoke_without_command=True)
def flower(ctx: typer.Context) -> None:
    """Train over Flower: write an app, make identities, sign a roster. Needs the extra flower."""
    if ctx.invoked_subcommand is None:
        print(ctx.get_help())


@app.command("new", cls=PlainCommand, epilog=NEW_EXAMPLES)
def new_(
    ctx: typer.Context,
    *,
    name: Annotated[str, typer.Argument(metavar="|".join(APPS), show_default=False)],
    folder: Annotated[Path, typer.Argument(metavar="DIR", show_default=False)],
    data: Annotated[
        str | None,
        typer.Option(
            help="Name of a data set, or path to its file or folder. [the built-in one]",
            metavar="NAME|PATH",
        ),
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Write into DIR even if it holds files.")
    ] = False,
    json: Json = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Write a Flower app that trains PriRec or FedGNN under secure aggregation.

    DIR/README.md has the commands for a simulation and for a deployment. Every node takes its
    partition of the data set; in a deployment a node's configuration can name a file of its own.
    """
    from recsys.cli.flower_apps import write_app  # noqa: PLC0415 - loads scipy

    if name not in APPS:
        raise click.UsageError(f"name one of {', '.join(APPS)}, got {name!r}", ctx)
    write_app(name, folder, data, ctx.ensure_object(Console), force=force)


@app.command("identity", cls=PlainCommand, epilog=IDENTITY_EXAMPLES)
def identity_(
    ctx: typer.Context,
    *,
    file: Annotated[Path, typer.Argument(metavar="FILE", show_default=False)],
    show: Annotated[
        bool, typer.Option("--show", help="Show the public half of the identity in FILE.")
    ] = False,
    json: Json = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Make an Ed25519 identity for a node, or for the operator who signs the roster.

    FILE gets the private half, readable by its owner alone; the public half is printed. A file that
    is there already is never replaced.
    """
    from recsys.cli.flower_roster import make_identity, show_identity  # noqa: PLC0415 - may lack

    console = ctx.ensure_object(Console)
    (show_identity if show else make_identity)(file, console)


@app.command("roster", cls=PlainCommand, epilog=ROSTER_EXAMPLES)
def roster_(
    ctx: typer.Context,
    *,
    file: Annotated[Path, typer.Argument(metavar="FILE", show_default=False)],
    operator: Annotated[
        Path,
        typer.Option(
            help="The operator's identity, which signs.", metavar="KEY", show_default=False
        ),
    ],
    client: Annotated[
        list[str],
        typer.Option(
            help="A client: its number, its name, the public half of its identity and, if its "
            "SuperNode is registered by a key, the file of that. Once for each.",
            metavar="ID,NAME,PUBLIC[,SUPERNODE.pub]",
            show_default=False,
        ),
    ],
    json: Json = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Sign a list of all clients, for sums that a malicious server cannot open.

    Every node needs FILE and the operator's public half by a way that the server cannot alter.
    """
    from recsys.cli.flower_roster import sign_roster  # noqa: PLC0415 - may lack

    sign_roster(file, operator, client, ctx.ensure_object(Console))
