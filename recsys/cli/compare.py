"""``privrec compare``: models side by side, searched alike and tested over seeds."""

from pathlib import Path
from typing import Annotated

import click
import typer

from recsys.cli.console import Console
from recsys.cli.experiment_options import (
    Config,
    Force,
    Resume,
    Seeds,
    TaskName,
    Workers,
    refuse_with_resume,
)
from recsys.cli.options import Json, Quiet, Verbose, out_option, with_settings
from recsys.cli.settings import collect
from recsys.cli.task_choice import task_of_rows
from recsys.tasks import DATA, TASKS

EXAMPLES = """\b
Examples:
  privrec compare
  privrec compare --data foursquare-tokyo --max-positives 5 --out tokyo
  privrec compare --models fm,prirec,prirec-random --trials 0 --seeds 5
  privrec compare --data ml-100k
  privrec compare --models bias,svdpp,fedgnn
  privrec compare --resume tokyo
"""

_ROWS = "; ".join(f"{task.name}: {', '.join(task.rows)}" for task in TASKS.values())
_ENOUGH = "; ".join(f"{task.name}: {task.enough}" for task in TASKS.values())


@with_settings(
    (
        *("data", "mode", "features", "epsilon", "neighbours", "factors", "epochs", "patience"),
        *("cohort", "min_cohort", "min_visitors", "max_positives", "test_fraction"),
        *("negatives", "order", "dim", "aggregate", "published"),
    ),
    mode="simulate",
    features="the models' own",
    dim="searched",
)
def compare(
    ctx: typer.Context,
    *,
    task: TaskName = None,
    models: Annotated[
        str | None,
        typer.Option(help=f"Rows, with commas. [{_ROWS}]", metavar="NAME,NAME"),
    ] = None,
    seeds: Seeds = None,
    trials: Annotated[
        int | None,
        typer.Option(
            help="Trainings of each row's search on validation; 0 takes the models' own settings. "
            f"[the whole grid; {_ENOUGH}]",
            metavar="N",
        ),
    ] = None,
    workers: Workers = None,
    config: Config = None,
    out: Annotated[Path | None, out_option("comparison", "runs/compare-DATA-TIME")] = None,
    force: Force = False,
    resume: Resume = None,
    json: Json = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
    **settings: object,
) -> None:
    """Search, train and test several models alike, and write a report.

    Every row is searched on the validation part of seed 0, with as many trainings as any other:
    of visits on the same grid, of ratings on one of its own. Then it is trained and tested under
    each seed. All coins come from the seeds, so the figures are repeatable and the trainings have
    no privacy; epsilon is nominal. Settings that are given hold for all rows; of ratings, those of
    the grid are then not searched. Rows that are made by their settings (means, fedgnn-ldp,
    fedgnn-paper) are not searched.

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
    given = collect(ctx, config)
    for name in ("model", "seed"):
        if name in given.values:
            instead = "--models" if name == "model" else "--seeds"
            raise click.UsageError(f"{name} has no meaning in a comparison, use {instead}", ctx)
    rows = () if models is None else tuple(name.strip() for name in models.split(","))
    chosen = task_of_rows(task, rows, given.values.get(DATA))
    start_comparison(
        given.settings(chosen),
        given.values,
        rows=rows or chosen.rows,
        seeds=3 if seeds is None else seeds,
        trials=chosen.enough if trials is None else trials,
        workers=workers,
        out=out,
        console=console,
        force=force,
    )
