"""``privrec audit``: a mechanism's claim put to the test."""

from pathlib import Path
from textwrap import fill
from typing import Annotated

import click
import typer

from ldp.audit import DEFAULT_ALPHA, DEFAULT_SAMPLES
from ldp.audit_cases import NAMES, Request
from recsys.cli.console import Console
from recsys.cli.options import Json, Quiet, Verbose

_EXAMPLES = """\b
Examples:
  privrec audit randomized-response
  privrec audit k-ary --epsilon 2 --values 20 --samples 1000000
  privrec audit discrete-gaussian --epsilon 1 --delta 1e-6
  privrec audit all --out audit
"""

ALL = "all"

_LIST = fill(
    f"{', '.join(NAMES)}; or {ALL} of them.",
    width=78,
    initial_indent="  ",
    subsequent_indent="  ",
    break_on_hyphens=False,
)

EPILOG = f"\b\nMechanisms:\n{_LIST}\n\n{_EXAMPLES}"

_DEFAULT = Request()


def audit(
    ctx: typer.Context,
    *,
    mechanism: Annotated[
        str | None,
        typer.Argument(metavar="MECHANISM", show_default=False),
    ] = None,
    epsilon: Annotated[
        float, typer.Option(help="Privacy loss that the mechanism is made for, in nats.")
    ] = _DEFAULT.epsilon,
    delta: Annotated[
        float | None,
        typer.Option(
            help=f"For noise that has no pure epsilon: Gaussian and Skellam. [{_DEFAULT.delta:g}]"
        ),
    ] = None,
    values: Annotated[
        int | None,
        typer.Option(help=f"K, values of a frequency oracle. [{_DEFAULT.values}]", metavar="K"),
    ] = None,
    samples: Annotated[
        int,
        typer.Option(help="Reports of each input; half of them choose the events.", metavar="N"),
    ] = DEFAULT_SAMPLES,
    confidence: Annotated[float, typer.Option(help="Probability that no bound is too high.")] = 1
    - DEFAULT_ALPHA,
    seed: Annotated[
        int | None,
        typer.Option(help="Repeatable audit. [none: coins of the system]", metavar="N"),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(help="Folder for audit.html, with charts, and audit.json.", metavar="DIR"),
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Write into --out even if it holds files.")
    ] = False,
    json: Json = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Test the claim of a mechanism of ldp on samples of its reports.

    Prints a lower bound on the privacy loss of the running code. A bound above the claim refutes
    it, and the exit code is 3. A bound below it proves nothing: it is a test that failed to refute.
    """
    # Loaded here, since the other commands need none of it.
    from recsys.cli.auditing import Asked, run_audit  # noqa: PLC0415

    if mechanism is None:
        raise click.UsageError(
            f"Missing argument MECHANISM, one of {', '.join((ALL, *NAMES))}", ctx
        )
    if force and out is None:
        raise click.UsageError("--force has no meaning without --out", ctx)
    names = NAMES if mechanism == ALL else (mechanism,)
    asked = Asked(names, epsilon, delta, values, samples, confidence, seed)
    run_audit(asked, out, ctx.ensure_object(Console), force=force)
