"""``privrec recommend``: what a trained model proposes to one user."""

import shlex
from pathlib import Path
from typing import Annotated, Any

import typer

from recsys.cli.console import Console
from recsys.cli.options import Json, Quiet, Verbose
from recsys.errors import DataError
from recsys.report.table import text_table

EXAMPLES = """\b
Examples:
  privrec recommend --model tokyo --user 17
  privrec recommend --model tokyo --user 17 -k 3 --json
"""


def recommend(
    ctx: typer.Context,
    *,
    model: Annotated[
        Path, typer.Option(help="Folder of a finished run.", metavar="DIR", show_default=False)
    ],
    user: Annotated[str, typer.Option(help="Id as in the data.", metavar="ID", show_default=False)],
    k: Annotated[int, typer.Option("-k", help="How many POIs or items, at most.")] = 10,
    json: Json = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """List what is new to a user and suits her best: POIs by probability, items by rating.

    The model says which. home_km is the distance from the mean place of the user's visits in
    training; rating is the predicted one, in the units of the data.
    """
    from recsys.ratings.files import holds_rating_model  # noqa: PLC0415 - loads scikit-learn
    from recsys.report.run_folder import holds_run  # noqa: PLC0415 - loads secagg

    if holds_run(model) and not (model / "public" / "model.json").exists():
        raise DataError(
            "this run is not finished",
            file=str(model),
            remedy=f"finish it with: privrec train --resume {shlex.quote(str(model))}",
        )
    told = _items(model, user, k) if holds_rating_model(model) else _pois(model, user, k)
    ctx.ensure_object(Console).result(*told)


Told = tuple[list[str], dict[str, Any]]
"""Lines and JSON."""


def _items(model: Path, user: str, k: int) -> Told:
    from recsys.ratings.registry import load_rating_model  # noqa: PLC0415 - loads scikit-learn

    found = load_rating_model(model).recommend(user, k)
    rows = [
        {"rank": rank, "item": one.item, "rating": one.value}
        for rank, one in enumerate(found, start=1)
    ]
    cells = [(str(rank), one.item, f"{one.value:.2f}") for rank, one in enumerate(found, start=1)]
    return text_table(("rank", "item", "rating"), cells, right=(0, 2)), {"rows": rows}


def _pois(model: Path, user: str, k: int) -> Told:
    from recsys.cli.models import distances_from_home  # noqa: PLC0415 - slow
    from recsys.registry import load_recommender  # noqa: PLC0415 - loads scikit-learn

    trained = load_recommender(model)
    found = trained.recommend(user, k)
    away = distances_from_home(trained, user, found)
    rows = [
        {
            "rank": rank,
            "poi": poi.poi,
            "category": poi.category or None,
            "probability": poi.probability,
            "lat": poi.lat,
            "lon": poi.lon,
            "home_km": km,
        }
        for rank, (poi, km) in enumerate(zip(found, away, strict=True), start=1)
    ]
    table = text_table(
        ("rank", "poi", "category", "probability", "lat", "lon", "home_km"),
        [
            (
                str(rank),
                poi.poi,
                poi.category or "-",
                f"{poi.probability:.4f}",
                f"{poi.lat:.6f}",
                f"{poi.lon:.6f}",
                "-" if km is None else f"{km:.2f}",
            )
            for rank, (poi, km) in enumerate(zip(found, away, strict=True), start=1)
        ],
        right=(0, 3, 4, 5, 6),
    )
    return table, {"rows": rows}
