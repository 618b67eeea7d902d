"""The private page of a training run: one user's recommendations, and the network of all users.

Leaks: homes, visits and who is near whom. It belongs into users/, never into public/.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from recsys.data.geo import haversine
from recsys.data.prepare import Prepared
from recsys.network import UserNetwork
from recsys.prirec import homes
from recsys.recommender import Recommendation, Recommender
from recsys.report.html import Html, Page, facts, figure, gallery, table
from recsys.report.maps import Places, View, point_map

Floats = NDArray[np.float64]

LISTED = 10
_QUANTILES = {"least": 0.0, "1st quartile": 0.25, "median": 0.5, "3rd quartile": 0.75, "most": 1.0}
MOST_EDGES = 40_000
"""Edges that a map shows at most; more would hide each other and take minutes to draw."""


def users_page(model: Recommender) -> bytes:
    """The page, of a model that ``fit`` has just trained."""
    prepared = model.prepared_
    lat, lon = homes(prepared)
    page = Page(
        f"Private: users of {prepared.name}",
        "This page shows where users live and what they visited. It is for whoever owns the "
        "machine, since in a real deployment each user would see no more than her own part.",
    )
    page.section("One user's recommendations", *_one_user(model, lat, lon))
    page.section("The user network", *_network(model, lat, lon))
    return page.render()


def median_user(prepared: Prepared) -> int:
    """The user with the median number of training visits, the lower median of an even number.

    Of users with as many visits the first by index.
    """
    users, _ = prepared.train.positives()
    visits = np.bincount(users, minlength=prepared.n_users)
    median = np.sort(visits)[(prepared.n_users - 1) // 2]
    return int(np.argmax(visits == median))


@dataclass(frozen=True)
class NetworkFigures:
    """km: float64 (users, N), home to home.  named: int64 (users,), how many name each user.

    mutual: share of the edges whose other end has an edge back.
    """

    km: Floats
    named: NDArray[np.int64]
    mutual: float


def network_figures(network: UserNetwork, lat: Floats, lon: Floats) -> NetworkFigures:
    """Distances and degrees of a network that has edges. lat, lon: (users,), homes."""
    neighbours = network.neighbours.astype(np.int64)
    users = neighbours.shape[0]
    own = np.arange(users)[:, np.newaxis]
    km = haversine(lat[:, np.newaxis], lon[:, np.newaxis], lat[neighbours], lon[neighbours])
    back = np.isin(neighbours * users + own, own * users + neighbours)
    return NetworkFigures(km, np.bincount(neighbours.reshape(-1), minlength=users), back.mean())


def _one_user(model: Recommender, lat: Floats, lon: Floats) -> list[str]:
    prepared, files = model.prepared_, model.files
    user = median_user(prepared)
    name = prepared.user_ids[user]
    visited = files.visited(user)
    best = model.recommend(name, LISTED)
    trained = prepared.train.positives()[0]
    home = lat[[user]], lon[[user]]
    figures = [
        ("user", name),
        ("visits in training", f"{int((trained == user).sum())}"),
        ("known visits", f"{visited.size}"),
        ("home", f"{home[0][0]:.4f}, {home[1][0]:.4f}"),
    ]
    who = (
        "The user with the median number of training visits, the first of them where several "
        "have as many."
    )
    if not best:
        return [who, facts(figures), "She has visited every POI, so none is left to recommend."]
    advice = np.array([[one.lat, one.lon] for one in best]).T
    marks = [
        Places("known visits", prepared.lat[visited], prepared.lon[visited], "s"),
        Places("home", home[0], home[1], "*"),
        Places("recommended, by rank", advice[0], advice[1], numbered=True),
    ]
    view = View.of(
        np.concatenate([mark.lat for mark in marks]),
        np.concatenate([mark.lon for mark in marks]),
        share=1,
    )
    drawing = point_map(
        *(prepared.lat, prepared.lon), label="other POIs", highlights=marks, view=view
    )
    caption = (
        "Known visits are all that are not held out. The home is the mean place of the training "
        "visits. Numbers are ranks, as in the table."
    )
    ranks = table(
        ("rank", "POI", "category", "probability", "km from home", "held-out visit"),
        _listed(best, home, _held_out(prepared, user)),
        right=(0, 3, 4),
    )
    around = figure(drawing, caption, f"Map of the POIs around user {name}")
    return [who, facts(figures), gallery(around, ranks)]


def _listed(
    best: list[Recommendation], home: tuple[Floats, Floats], held_out: set[str]
) -> list[tuple[str, ...]]:
    return [
        (
            str(rank),
            one.poi,
            one.category or "unknown",
            f"{one.probability:.4f}",
            f"{float(haversine(home[0], home[1], one.lat, one.lon)[0]):,.1f}",
            "yes" if one.poi in held_out else "no",
        )
        for rank, one in enumerate(best, start=1)
    ]


def _held_out(prepared: Prepared, user: int) -> set[str]:
    found = set()
    for part in (prepared.validation, prepared.test):
        users, pois = part.positives()
        found |= {prepared.poi_ids[poi] for poi in pois[users == user]}
    return found


def _network(model: Recommender, lat: Floats, lon: Floats) -> list[str]:
    network: UserNetwork | None = getattr(model.learner_, "network", None)
    if network is None:
        return ["The recommender trains this model alone: there is no network between users."]
    if not network.size:
        return ["No neighbours were asked for: every user keeps her own model."]
    found = network_figures(network, lat, lon)
    columns = [("users who name her", _quantiles(found.named, "{:,.0f}"))]
    geographic = model.config.network == "geographic"
    if geographic:
        columns.append(("km to a neighbour's home", _quantiles(found.km, "{:,.2f}")))
    numbers = table(
        ("quantile", *(name for name, _ in columns)),
        list(zip(_QUANTILES, *(values for _, values in columns), strict=True)),
        right=(1, 2),
    )
    size = facts(
        [
            ("users", f"{network.neighbours.shape[0]:,}"),
            ("neighbours of each", f"{network.size}"),
            ("edges with one back", f"{100 * found.mutual:.0f} %"),
        ]
    )
    if not geographic:
        return ["Neighbours were drawn at random, so no home was used.", size, numbers]
    return [size, gallery(_network_map(network, lat, lon), numbers)]


def _network_map(network: UserNetwork, lat: Floats, lon: Floats) -> Html:
    users = network.neighbours.shape[0]
    step = -(-network.neighbours.size // MOST_EDGES)  # the edges of every step-th user
    start = np.repeat(np.arange(0, users, step, dtype=np.int32), network.size)
    edges = np.column_stack([start, network.neighbours[::step].reshape(-1)])
    view = View.of(lat, lon)
    hidden = view.outside(lat, lon)
    caption = "Homes, and a line from each user to each of her neighbours."
    if step > 1:
        caption = f"Homes, and lines to the neighbours of one user in {step}."
    if hidden:
        caption += f" {hidden:,} homes lie beyond the edges of the map."
    drawing = point_map(lat, lon, edges=edges, label="homes", view=view)
    return figure(drawing, caption, f"Map of {users} homes and the network between them")


def _quantiles(values: NDArray[np.float64] | NDArray[np.int64], form: str) -> list[str]:
    return [form.format(value) for value in np.quantile(values, list(_QUANTILES.values()))]
