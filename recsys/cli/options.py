"""Options that commands share, and how the option of a setting is declared."""

from typing import Annotated, Any

import click
import typer
from typer.core import TyperCommand

from recsys.cli.settings import build, variable

_DEFAULTS = build({}).flat()

Json = Annotated[bool, typer.Option("--json", help="Print JSON, alone on stdout.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress and no notes.")]
Verbose = Annotated[
    bool,
    typer.Option("--verbose", "-v", help="Keep a line of each epoch; show tracebacks of bugs."),
]


class PlainCommand(TyperCommand):
    """A command whose help is plain text: Typer escapes brackets for Rich even without Rich."""

    def get_help(self, ctx: click.Context) -> str:
        """The help as Click words it."""
        return super().get_help(ctx).replace("\\[", "[")


def setting(name: str, help: str, *, choices: tuple[str, ...] = (), absent: str = "") -> Any:
    """The option ``--name`` of a setting. Its default is None, so that one can tell it was given.

    choices: shown in place of the type.  absent: what no value means, for the help.
    """
    default = _DEFAULTS[name]
    option = f"--{name.replace('_', '-')}"
    shown = absent or str(default)
    if isinstance(default, bool):
        option, shown = f"{option}/--no{option[1:]}", "yes" if default else "no"
    return typer.Option(
        option,
        help=f"{help} [{shown}]",
        envvar=variable(name),
        show_envvar=False,
        metavar="|".join(choices) or None,
        show_default=False,
    )
