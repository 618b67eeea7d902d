"""``privrec train``: options and the choice between a new run and a resumed one."""

from pathlib import Path
from typing import Annotated

import click
import typer

from recsys.cli.console import Console
from recsys.cli.engines import EngineChoice, EngineName, RayAddress, Workers
from recsys.cli.options import SETTINGS, Json, Quiet, Verbose, out_option, with_settings
from recsys.cli.settings import MODELS, PREFIX, collect, given_options, variable
from recsys.engine import LOCAL
from recsys.tasks import NAMES, PRESET

EXAMPLES = """\b
Examples:
  privrec train prirec
  privrec train prirec --data foursquare-tokyo --max-positives 5 --out tokyo
  privrec train fm --data my-city/checkins.csv --seed 0 --json
  privrec train prirec --config tokyo/public/config.toml --neighbours 30
  privrec train fedgnn --data ml-100k --preset default --gnn gat
  privrec train fedgnn --data ml-1m --engine ray
  privrec train --resume tokyo
"""


@with_settings(SETTINGS)
def train(
    ctx: typer.Context,
    *,
    model: Annotated[
        str | None,
        typer.Argument(
            metavar="MODEL",
            envvar=variable("model"),
            show_envvar=False,
            show_default=False,
        ),
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
    out: Annotated[Path | None, out_option("run", "runs/MODEL-DATA-TIME")] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Replace the run that --out holds.")
    ] = False,
    resume: Annotated[
        Path | None,
        typer.Option(help="Go on with the run in DIR, under its settings.", metavar="DIR"),
    ] = None,
    engine: EngineName = LOCAL,
    workers: Workers = None,
    ray_address: RayAddress = None,
    json: Json = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
    **settings: object,
) -> None:
    """Train a model, measure it and write a run folder.

    From visits to places: prirec, prirec- (without dynamic features), prirec-random (random
    neighbours), prirec-n0 (no neighbours), fm or mf (all data in one place), or dmf (gradients in
    plaintext). From ratings of items: fedgnn, fedgnn-gat, fedgnn-ggnn, fedgnn-ldp, fedgnn-paper;
    fcf and fedmf (federated); pmf, svdpp, grals, srgcnn, gcmc, pinsage, ngcf (all data in one
    place); global-mean, user-mean, bias.

    Settings, the options with a [default], can also come from the environment (PRIVREC_EPOCHS
    for --epochs) or from --config FILE, which takes those without an option too, such as
    validation_fraction. An option wins over the environment, that over the file, and that over a
    preset. Rating models but fedgnn have settings of their own in the place of the defaults below;
    config.toml in the run folder says what was used. The engine is no setting: a run may go on
    under another one, to the same result. PriRec and FedGNN alone have work for --engine ray.
    """
    # The values are read from ctx, which also knows where each one came from.
    from recsys.cli.training import continue_run, start_run  # noqa: PLC0415 - loads scikit-learn

    console = ctx.ensure_object(Console)
    choice = EngineChoice(engine, workers, ray_address)
    choice.check()
    if resume is not None:
        forbidden = given_options(ctx, ("config", "out", "force", PRESET))
        if forbidden:
            raise click.UsageError(f"--{next(iter(forbidden))} has no meaning with --resume", ctx)
        continue_run(resume, given_options(ctx, NAMES), console, choice)
        return
    given = collect(ctx, config)
    if "model" not in given.values:
        raise click.UsageError(f"Missing argument MODEL, one of {MODELS}", ctx)
    start_run(given.settings(), out, console, choice, force=force)
