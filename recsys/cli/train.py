"""``privrec train``: options and the choice between a new run and a resumed one."""

from pathlib import Path
from typing import Annotated, get_args, get_type_hints

import click
import typer

from recsys.cli.console import Console
from recsys.cli.options import Json, Quiet, Verbose, setting
from recsys.cli.settings import NAMES, PREFIX, gather, given_options, variable
from recsys.config import DYNAMIC, FEATURES, MIXES, MODES, NETWORKS, SECURITY
from recsys.data.prepare import PrepareConfig
from recsys.network import WEIGHTS
from recsys.variants import VARIANTS

EXAMPLES = """\b
Examples:
  privrec train prirec
  privrec train prirec --data foursquare-tokyo --max-positives 5 --out tokyo
  privrec train fm --data my-city/checkins.csv --seed 0 --json
  privrec train prirec --config tokyo/public/config.toml --neighbours 30
  privrec train --resume tokyo
"""

_NEGATIVES = get_args(get_type_hints(PrepareConfig)["negatives"])
_ORDERS = get_args(get_type_hints(PrepareConfig)["order"])

Text = str | None
Whole = int | None
Number = float | None


def train(
    ctx: typer.Context,
    *,
    model: Annotated[
        Text,
        typer.Argument(
            metavar="MODEL",
            envvar=variable("model"),
            show_envvar=False,
            show_default=False,
        ),
    ] = None,
    data: Annotated[Text, setting("data", "Name of a data set, or path to check-ins.")] = None,
    features: Annotated[
        Text,
        setting(
            "features",
            "Those of users; also static ones of POIs; also dynamic ones.",
            choices=FEATURES,
            absent="all; static for prirec-",
        ),
    ] = None,
    seed: Annotated[
        Whole,
        setting(
            "seed",
            "Repeatable run: the seed tells every coin, so it gives no privacy.",
            absent="none: coins of the system",
        ),
    ] = None,
    epochs: Annotated[Whole, setting("epochs", "Epochs, at most.")] = None,
    patience: Annotated[
        Whole, setting("patience", "Epochs without a better validation AUC before it stops.")
    ] = None,
    mode: Annotated[
        Text,
        setting(
            "mode",
            "Shares and pads for real; the same sums in the clear; or no encoding.",
            choices=MODES,
        ),
    ] = None,
    neighbours: Annotated[
        Whole, setting("neighbours", "N, users that each mixes with; 0 for none.")
    ] = None,
    network: Annotated[
        Text,
        setting(
            "network",
            "Nearest users, whose homes somebody must then know; or random ones.",
            choices=NETWORKS,
        ),
    ] = None,
    weights: Annotated[
        Text, setting("weights", "Weights of the user network.", choices=WEIGHTS)
    ] = None,
    mix: Annotated[
        Text, setting("mix", "One secure sum of each user per epoch, or per update.", choices=MIXES)
    ] = None,
    security: Annotated[
        Text,
        setting(
            "security",
            "Against parties of secure sums who look; or also who alter messages.",
            choices=SECURITY,
        ),
    ] = None,
    relay: Annotated[
        bool | None, setting("relay", "Shares travel through the recommender, sealed.")
    ] = None,
    cohort: Annotated[Whole, setting("cohort", "Members of an aggregation cohort.")] = None,
    min_cohort: Annotated[Whole, setting("min_cohort", "Fewest members accepted.")] = None,
    epsilon: Annotated[
        Number, setting("epsilon", "Privacy loss of one user-POI pair by all dynamic features.")
    ] = None,
    dynamic: Annotated[
        Text,
        setting(
            "dynamic",
            "One visitor count, the average visits, or the paper's three counts.",
            choices=DYNAMIC,
        ),
    ] = None,
    visit_cap: Annotated[
        Whole,
        setting("visit_cap", "Visits of a user to one POI that the average counts, at most."),
    ] = None,
    factors: Annotated[Whole, setting("factors", "K, length of a factor vector.")] = None,
    learning_rate: Annotated[
        Number,
        setting("learning_rate", "Step of the linear models.", absent="the model's own"),
    ] = None,
    local_batch: Annotated[
        Whole, setting("local_batch", "Samples of a user in one update.")
    ] = None,
    min_visitors: Annotated[
        Whole, setting("min_visitors", "POIs with fewer visitors are left out.")
    ] = None,
    rounds: Annotated[
        Whole,
        setting(
            "rounds",
            "Rounds of an epoch; 0 takes what the busiest user needs.",
            absent="users' mean number of batches",
        ),
    ] = None,
    max_positives: Annotated[
        Whole,
        setting(
            "max_positives", "Random visits of each user to learn from and test on.", absent="all"
        ),
    ] = None,
    negatives: Annotated[
        Text, setting("negatives", "From all POIs, or from those nearby.", choices=_NEGATIVES)
    ] = None,
    order: Annotated[
        Text, setting("order", "Split first, or the paper's literal order.", choices=_ORDERS)
    ] = None,
    config: Annotated[
        Path | None,
        typer.Option(
            envvar=f"{PREFIX}CONFIG",
            show_envvar=False,
            help="TOML file with settings.",
            metavar="FILE",
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            envvar=f"{PREFIX}OUT",
            show_envvar=False,
            help="Folder of the run. [runs/MODEL-DATA-TIME]",
            metavar="DIR",
        ),
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Replace the run that --out holds.")
    ] = False,
    resume: Annotated[
        Path | None,
        typer.Option(help="Go on with the run in DIR, under its settings.", metavar="DIR"),
    ] = None,
    json: Json = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Train a model, measure it and write a run folder.

    MODEL is prirec, prirec- (without dynamic features), prirec-random (random neighbours),
    prirec-n0 (no neighbours), fm or mf (all data in one place), or dmf (gradients in plaintext).

    Settings, the options with a [default], can also come from the environment (PRIVREC_EPOCHS
    for --epochs) or from --config FILE, which takes those without an option too, such as
    min-visitors. An option wins over the environment, and that over the file.
    """
    # The values are read from ctx, which also knows where each one came from.
    from recsys.cli.training import continue_run, start_run  # noqa: PLC0415 - loads scikit-learn

    console = ctx.ensure_object(Console)
    if resume is not None:
        forbidden = given_options(ctx, ("config", "out", "force"))
        if forbidden:
            raise click.UsageError(f"--{next(iter(forbidden))} has no meaning with --resume", ctx)
        continue_run(resume, given_options(ctx, NAMES), console)
        return
    settings, named = gather(ctx, config)
    if "model" not in named:
        raise click.UsageError(f"Missing argument MODEL, one of {', '.join(VARIANTS)}", ctx)
    start_run(settings, out, console, force=force)
