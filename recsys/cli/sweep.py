"""``privrec sweep``: one setting varied, and the figure that shows what it does."""

from pathlib import Path
from typing import Annotated, get_args, get_type_hints

import click
import typer

from recsys.cli.console import Console
from recsys.cli.experiments import Config, Force, Resume, refuse_with_resume
from recsys.cli.options import Json, Quiet, Verbose, setting
from recsys.cli.settings import PREFIX, gather
from recsys.config import MODES
from recsys.data.prepare import PrepareConfig

KINDS = ("iterations", "neighbours", "size", "epsilon")

EXAMPLES = """\b
Examples:
  privrec sweep neighbours
  privrec sweep epsilon --data foursquare-tokyo --max-positives 5 --seeds 3
  privrec sweep iterations --epochs 60 --out loss
  privrec sweep size --users 16000 --pois 10000 --epochs 3
  privrec sweep --resume loss
"""

_NEGATIVES = get_args(get_type_hints(PrepareConfig)["negatives"])


def sweep(
    ctx: typer.Context,
    *,
    kind: Annotated[str | None, typer.Argument(metavar="|".join(KINDS), show_default=False)] = None,
    data: Annotated[
        str | None, setting("data", "Name of a data set, or path to check-ins.")
    ] = None,
    values: Annotated[
        str | None,
        typer.Option(help="Points, with commas. [the kind's own]", metavar="X,X"),
    ] = None,
    seeds: Annotated[
        int | None,
        typer.Option(help="Seeds 0 to N-1, each a split of its own. [1]", metavar="N"),
    ] = None,
    pois: Annotated[
        int | None,
        typer.Option(help="POIs of the cities of a sweep over size. [4000]", metavar="N"),
    ] = None,
    users: Annotated[
        int | None,
        typer.Option(
            help="Users of the largest city of a sweep over size; the others have 1/16, 1/8, 1/4 "
            "and 1/2 of them. [8000]",
            metavar="N",
        ),
    ] = None,
    workers: Annotated[
        int | None,
        typer.Option(help="Trainings at a time. [the machine's cores; size: 1]", metavar="N"),
    ] = None,
    mode: Annotated[
        str | None,
        setting("mode", "How sums are formed.", choices=MODES, absent="simulate; size: protocol"),
    ] = None,
    epsilon: Annotated[
        float | None,
        setting("epsilon", "Privacy loss of one user-POI pair by all dynamic features."),
    ] = None,
    neighbours: Annotated[
        int | None, setting("neighbours", "N, users that each mixes with.")
    ] = None,
    factors: Annotated[int | None, setting("factors", "K, length of a factor vector.")] = None,
    epochs: Annotated[
        int | None, setting("epochs", "Epochs, at most.", absent="100; size: 3")
    ] = None,
    min_cohort: Annotated[int | None, setting("min_cohort", "Fewest members accepted.")] = None,
    min_visitors: Annotated[
        int | None,
        setting("min_visitors", "POIs with fewer visitors are left out.", absent="10; size: 0"),
    ] = None,
    max_positives: Annotated[
        int | None,
        setting(
            "max_positives", "Random visits of each user to learn from and test on.", absent="all"
        ),
    ] = None,
    negatives: Annotated[
        str | None, setting("negatives", "From all POIs, or from those nearby.", choices=_NEGATIVES)
    ] = None,
    config: Config = None,
    out: Annotated[
        Path | None,
        typer.Option(
            envvar=f"{PREFIX}OUT",
            show_envvar=False,
            help="Folder of the sweep. [runs/sweep-KIND-TIME]",
            metavar="DIR",
        ),
    ] = None,
    force: Force = False,
    resume: Resume = None,
    json: Json = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Vary one setting and draw what it does.

    iterations: training and test loss by epoch. neighbours: test AUC by N; N = 1 and 2 protect
    nobody, are simulated only and marked. epsilon: test AUC by epsilon, the price of privacy.
    size: time of training by number of samples, on synthetic cities of up to --users users (or of
    --values) and --pois POIs, each in a process of its own, one after the other. The paper's
    largest has 85,466 users and 118,598 POIs.

    Other settings are the models' own. All coins come from seeds, so the trainings have no privacy;
    epsilon is nominal. Ctrl-C keeps the trainings that are done; --resume goes on.
    """
    from recsys.cli.sweeping import continue_sweep, start_sweep  # noqa: PLC0415 - slow

    console = ctx.ensure_object(Console)
    if resume is not None:
        refuse_with_resume(ctx)
        continue_sweep(resume, workers, console)
        return
    if kind not in KINDS:
        got = "" if kind is None else f", got {kind!r}"
        raise click.UsageError(f"name what to vary, one of {', '.join(KINDS)}{got}", ctx)
    settings, named = gather(ctx, config)
    for name in ("model", "seed"):
        if name in named:
            raise click.UsageError(f"{name} has no meaning in a sweep", ctx)
    for option, given in (("pois", pois), ("users", users)):
        if kind != "size" and given is not None:
            raise click.UsageError(f"--{option} has a meaning in a sweep over size alone", ctx)
    if users is not None and values is not None:
        raise click.UsageError("--users has no meaning beside --values, which names them all", ctx)
    if kind == "size" and "data" in named:
        raise click.UsageError(
            "--data has no meaning in a sweep over size, which makes cities of its own", ctx
        )
    start_sweep(
        settings,
        named,
        kind=kind,
        values=_numbers(ctx, values),
        users=users,
        seeds=1 if seeds is None else seeds,
        pois=pois,
        workers=workers,
        out=out,
        console=console,
        force=force,
    )


def _numbers(ctx: typer.Context, text: str | None) -> tuple[int | float, ...]:
    found: list[int | float] = []
    for part in [] if text is None else text.split(","):
        try:
            found.append(int(part))
        except ValueError:
            try:
                found.append(float(part))
            except ValueError:
                message = f"--values must be numbers with commas, got {part!r}"
                raise click.UsageError(message, ctx) from None
    return tuple(found)
