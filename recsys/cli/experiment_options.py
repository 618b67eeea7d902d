"""Options that ``privrec compare`` and ``privrec sweep`` share."""

from pathlib import Path
from typing import Annotated

import click
import typer

from recsys.cli.settings import PREFIX, given_options
from recsys.tasks import TASKS

Seeds = Annotated[
    int | None, typer.Option(help="Seeds 0 to N-1, each a split of its own. [3]", metavar="N")
]
Workers = Annotated[
    int | None, typer.Option(help="Trainings at a time. [the machine's cores]", metavar="N")
]
Config = Annotated[
    Path | None,
    typer.Option(
        envvar=f"{PREFIX}CONFIG",
        show_envvar=False,
        help="TOML file with settings of the trainings.",
        metavar="FILE",
    ),
]
Force = Annotated[bool, typer.Option("--force", help="Replace the experiment that --out holds.")]
Resume = Annotated[
    Path | None, typer.Option(help="Go on with the experiment in DIR.", metavar="DIR")
]

TaskName = Annotated[
    str | None,
    typer.Option(
        "--task",
        envvar=f"{PREFIX}TASK",
        show_envvar=False,
        help="What the models learn from. [told by the other options, else visits]",
        metavar="|".join(TASKS),
        show_default=False,
    ),
]

ALLOWED_WITH_RESUME = ("resume", "workers", "json", "quiet", "verbose")


def refuse_with_resume(ctx: typer.Context) -> None:
    """A resumed experiment keeps its plan: other options are an error, not ignored."""
    names = [name for name in ctx.params if name not in ALLOWED_WITH_RESUME]
    given = given_options(ctx, names)
    if given:
        name = next(iter(given)).replace("_", "-")
        raise click.UsageError(f"--{name} has no meaning with --resume", ctx)
