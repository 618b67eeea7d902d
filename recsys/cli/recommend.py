"""``privrec recommend``: the POIs that a trained model proposes to one user."""

from pathlib import Path
from typing import Annotated

import typer

from recsys.cli.console import Console
from recsys.cli.options import Json, Quiet, Verbose
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
    user: Annotated[
        str, typer.Option(help="Id as in the check-ins.", metavar="ID", show_default=False)
    ],
    k: Annotated[int, typer.Option("-k", help="How many POIs, at most.")] = 10,
    json: Json = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """List the most probable POIs that are new to a user.

    home_km is the distance from the mean place of the user's visits in training.
    """
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
    ctx.ensure_object(Console).result(table, {"rows": rows})
