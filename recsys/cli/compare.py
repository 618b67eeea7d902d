"""``privrec compare``: models side by side, searched alike and tested over seeds."""

from pathlib import Path
from typing import Annotated, get_args, get_type_hints

import click
import typer

from recsys.cli.console import Console
from recsys.cli.experiments import Config, Force, Resume, Seeds, Workers, refuse_with_resume
from recsys.cli.options import Json, Quiet, Verbose, setting
from recsys.cli.settings import PREFIX, gather
from recsys.config import FEATURES, MODES
from recsys.data.prepare import PrepareConfig
from recsys.search import ENOUGH
from recsys.variants import VARIANTS

EXAMPLES = """\b
Examples:
  privrec compare
  privrec compare --data foursquare-tokyo --max-positives 5 --out tokyo
  privrec compare --models fm,prirec,prirec-random --trials 0 --seeds 5
  privrec compare --resume tokyo
"""

_NEGATIVES = get_args(get_type_hints(PrepareConfig)["negatives"])
_ORDERS = get_args(get_type_hints(PrepareConfig)["order"])


def compare(
    ctx: typer.Context,
    *,
    data: Annotated[
        str | None, setting("data", "Name of a data set, or path to check-ins.")
    ] = None,
    models: Annotated[
        str | None,
        typer.Option(help=f"Rows, with commas. [{','.join(VARIANTS)}]", metavar="NAME,NAME"),
    ] = None,
    seeds: Seeds = None,
    trials: Annotated[
        int | None,
        typer.Option(
            help="Trainings of each row's search on validation; 0 takes the models' own settings. "
            f"[{ENOUGH}, the whole grid]",
            metavar="N",
        ),
    ] = None,
    workers: Workers = None,
    mode: Annotated[
        str | None,
        setting(
            "mode",
            "How sums are formed in the tests; searches are simulated.",
            choices=MODES,
            absent="simulate",
        ),
    ] = None,
    features: Annotated[
        str | None,
        setting(
            "features",
            "Those of users; also static ones of POIs; also dynamic ones.",
            choices=FEATURES,
            absent="the models' own",
        ),
    ] = None,
    epsilon: Annotated[
        float | None,
        setting("epsilon", "Privacy loss of one user-POI pair by all dynamic features."),
    ] = None,
    neighbours: Annotated[
        int | None, setting("neighbours", "N, users that each mixes with.")
    ] = None,
    factors: Annotated[int | None, setting("factors", "K, length of a factor vector.")] = None,
    epochs: Annotated[int | None, setting("epochs", "Epochs, at most.")] = None,
    min_cohort: Annotated[int | None, setting("min_cohort", "Fewest members accepted.")] = None,
    min_visitors: Annotated[
        int | None, setting("min_visitors", "POIs with fewer visitors are left out.")
    ] = None,
    max_positives: Annotated[
        int | None,
        setting(
            "max_positives", "Random visits of each user to learn from and test on.", absent="all"
        ),
    ] = None,
    test_fraction: Annotated[
        float | None, setting("test_fraction", "Share of the visits that is tested on.")
    ] = None,
    negatives: Annotated[
        str | None, setting("negatives", "From all POIs, or from those nearby.", choices=_NEGATIVES)
    ] = None,
    order: Annotated[
        str | None, setting("order", "Split first, or the paper's literal order.", choices=_ORDERS)
    ] = None,
    config: Config = None,
    out: Annotated[
        Path | None,
        typer.Option(
            envvar=f"{PREFIX}OUT",
            show_envvar=False,
            help="Folder of the comparison. [runs/compare-DATA-TIME]",
            metavar="DIR",
        ),
    ] = None,
    force: Force = False,
    resume: Resume = None,
    json: Json = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Search, train and test several models alike, and write a report.

    Every row searches the same grid with the same number of trainings on the validation part of
    seed 0, then is trained and tested under each seed. All coins come from the seeds, so the
    figures are repeatable and the trainings have no privacy; epsilon is nominal.

    Ctrl-C keeps the trainings that are done; --resume goes on to the same result.
    """
    from recsys.cli.comparing import (  # noqa: PLC0415 - loads scikit-learn
        continue_comparison,
        start_comparison,
    )

    console = ctx.ensure_object(Console)
    if resume is not None:
        refuse_with_resume(ctx)
        continue_comparison(resume, workers, console)
        return
    settings, named = gather(ctx, config)
    for name in ("model", "seed"):
        if name in named:
            instead = "--models" if name == "model" else "--seeds"
            raise click.UsageError(f"{name} has no meaning in a comparison, use {instead}", ctx)
    start_comparison(
        settings,
        # The default of a comparison is to simulate, that of a training is not.
        mode=settings.train.mode if "mode" in named else "simulate",
        rows=tuple(VARIANTS) if models is None else tuple(models.split(",")),
        seeds=3 if seeds is None else seeds,
        trials=ENOUGH if trials is None else trials,
        workers=workers,
        out=out,
        console=console,
        force=force,
    )
