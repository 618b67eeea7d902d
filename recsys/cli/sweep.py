"""``privrec sweep``: one setting varied, and the figure that shows what it does."""

from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import click
import typer

from recsys.cli.console import Console
from recsys.cli.experiment_options import (
    Config,
    Force,
    Resume,
    TaskName,
    refuse_with_resume,
)
from recsys.cli.options import Json, Quiet, Verbose, out_option, with_settings
from recsys.cli.settings import collect
from recsys.cli.task_choice import task_of_kind
from recsys.tasks import DATA, RATING, TASKS, VISITS, Task

KINDS = {
    VISITS.name: ("iterations", "neighbours", "size", "epsilon"),
    RATING.name: ("neighbours", "noise", "pseudo", "size"),
}

EXAMPLES = """\b
Examples:
  privrec sweep neighbours
  privrec sweep epsilon --data foursquare-tokyo --max-positives 5 --seeds 3
  privrec sweep iterations --epochs 60 --out loss
  privrec sweep size --users 16000 --pois 10000 --epochs 3
  privrec sweep noise --data ml-100k
  privrec sweep pseudo
  privrec sweep --resume loss
"""


@with_settings(
    (
        *("data", "mode", "epsilon", "neighbours", "factors", "epochs", "min_cohort", "cohort"),
        *("min_visitors", "max_positives", "negatives", "preset", "gnn", "dim", "aggregate"),
        *("pseudo", "pseudo_items", "clip", "laplace", "learning_rate", "expand_after"),
    ),
    mode="simulate; size: protocol",
    epochs="100; size: 3] [rating: 48; size: 2",
    min_visitors="10; size: 0",
    preset="noise and pseudo: default-ldp",
    aggregate="secure; pseudo: clear",
)
def sweep(
    ctx: typer.Context,
    *,
    kind: Annotated[
        str | None,
        typer.Argument(
            metavar="|".join(dict.fromkeys(kind for kinds in KINDS.values() for kind in kinds)),
            show_default=False,
        ),
    ] = None,
    task: TaskName = None,
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
    items: Annotated[
        int | None,
        typer.Option(
            help="Items of the rating sets of a sweep over size. [500]",
            metavar="N",
        ),
    ] = None,
    users: Annotated[
        int | None,
        typer.Option(
            help="Users of the largest set of a sweep over size; the others have 1/16, 1/8, 1/4 "
            "and 1/2 of them. [8000] [rating: 4000]",
            metavar="N",
        ),
    ] = None,
    workers: Annotated[
        int | None,
        typer.Option(help="Trainings at a time. [the machine's cores; size: 1]", metavar="N"),
    ] = None,
    config: Config = None,
    out: Annotated[Path | None, out_option("sweep", "runs/sweep-KIND-TIME")] = None,
    force: Force = False,
    resume: Resume = None,
    json: Json = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
    **settings: object,
) -> None:
    """Vary one setting and draw what it does.

    Of visits. iterations: training and test loss by epoch. neighbours: test AUC by N; N = 1 and 2
    protect nobody, are simulated only and marked. epsilon: test AUC by epsilon, the price of
    privacy. size: time of training by number of samples, on synthetic cities of up to --users users
    (or of --values) and --pois POIs, each in a process of its own, one after the other. The
    paper's largest has 85,466 users and 118,598 POIs.

    Of ratings, with fedgnn. neighbours: test RMSE by network and neighbours' embeddings. noise: by
    clip and scale of the noise, with epsilon on a second axis. pseudo: by M, with bytes of an
    upload on a second axis. size: time of training by number of clients.

    Other settings are the models' own. All coins come from seeds, so the trainings have no privacy;
    epsilon is nominal. Ctrl-C keeps the trainings that are done; --resume goes on.
    """
    from recsys.cli.sweeping import Wish, continue_sweep, start_sweep  # noqa: PLC0415 - slow

    console = ctx.ensure_object(Console)
    if resume is not None:
        refuse_with_resume(ctx)
        continue_sweep(resume, workers, console)
        return
    given = collect(ctx, config)
    chosen = task_of_kind(task, kind, KINDS, given.values.get(DATA))
    if kind not in KINDS[chosen.name]:
        got = "" if kind is None else f", got {kind!r}"
        raise click.UsageError(f"name what to vary, {_choices(task)}{got}", ctx)
    for name in ("model", "seed"):
        if name in given.values:
            raise click.UsageError(f"{name} has no meaning in a sweep", ctx)
    foreign = "items" if chosen is VISITS else "pois"
    for option, value in (("pois", pois), ("items", items), ("users", users)):
        if kind != "size" and value is not None:
            raise click.UsageError(f"--{option} has a meaning in a sweep over size alone", ctx)
        if option == foreign and value is not None:
            raise click.UsageError(
                f"--{option} has no meaning in a sweep of models that learn from "
                f"{chosen.learns_from}",
                ctx,
            )
    if users is not None and values is not None:
        raise click.UsageError("--users has no meaning beside --values, which names them all", ctx)
    if kind == "size" and "data" in given.values:
        made = "cities" if chosen is VISITS else "rating sets"
        raise click.UsageError(
            f"--data has no meaning in a sweep over size, which makes {made} of its own", ctx
        )
    wish = Wish(
        kind=kind,
        values=_points(ctx, values, chosen, kind),
        users=users,
        seeds=1 if seeds is None else seeds,
        places=pois if chosen is VISITS else items,
    )
    start_sweep(
        given,
        chosen,
        wish,
        workers=workers,
        out=out,
        console=console,
        force=force,
    )


def _choices(task: str | None) -> str:
    """The kinds of a task, or of both where none is named."""
    names = KINDS if task is None else (task,)
    told = [f"one of {', '.join(KINDS[name])}" for name in names]
    return (
        told[0]
        if len(told) == 1
        else " or ".join(
            f"{words} ({TASKS[name].learns_from})" for name, words in zip(names, told, strict=True)
        )
    )


def _points(
    ctx: typer.Context, text: str | None, task: Task, kind: str
) -> tuple[int | float | str, ...]:
    parts = [] if text is None else text.split(",")
    if task is RATING and kind == "neighbours":
        return tuple(parts)
    return tuple(_number(ctx, part) for part in parts)


def _number(ctx: typer.Context, part: str) -> int | float:
    kinds: tuple[Callable[[str], int | float], ...] = (int, float)
    for read in kinds:
        try:
            return read(part)
        except ValueError:
            continue
    raise click.UsageError(f"--values must be numbers with commas, got {part!r}", ctx)
