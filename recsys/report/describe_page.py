"""The page on a set of check-ins: how far people go, what is popular, who visits how much."""

import textwrap
from collections.abc import Mapping
from typing import Any

import numpy as np

from recsys.data.describe import ENOUGH_VISITORS, WITHIN_KM, Survey
from recsys.report.charts import Series, bar_chart, line_chart
from recsys.report.html import Page, bullets, details, facts, figure, gallery, paragraph, table

TOP_CATEGORIES = 15

UNPROTECTED = (
    "Everything here is computed from the raw check-ins without any protection: exact figures, no "
    "noise, no least number of people behind one. It is for whoever holds the data, and only the "
    "owner of the file may read it. Do not publish it."
)

_HALF_ROUND_KM = 20_000
"""Where the band without an end is drawn: no two places are much farther apart."""

_SHORTEST_KM = 0.01
_LOG_FROM = 5  # a narrower logarithmic axis may have no round number to label
_LABEL = 24  # letters in a line of a bar's label, which has room for two
_CURVE = np.linspace(0.005, 0.995, 199)
_POINTS = 150


def describe_page(survey: Survey) -> bytes:
    """``describe.html``: figures over all users and POIs; ids do not appear, categories do."""
    told = survey.facts()
    page = Page(f"Check-ins: {told['name']}", "For whoever holds the data; not for publication.")
    page.section("The set", UNPROTECTED, facts(_tiles(told)), details("More", _more(told)))
    page.section("Distance and visits", *_distances(survey, told["distances"]))
    page.section("Popularity and activity", *_popularity(survey, told))
    if told["categories"]:
        page.section("Categories", *_categories(survey))
    page.section("How it was measured", bullets(_method(told["distances"])))
    return page.render()


def _tiles(told: Mapping[str, Any]) -> list[tuple[str, str]]:
    far = told["distances"]
    return [
        ("users", f"{told['users']:,}"),
        ("POIs", f"{told['pois']:,}"),
        ("check-ins", f"{told['check_ins']:,}"),
        ("visits: pairs of user and POI", f"{told['distinct_pairs']:,}"),
        ("home to a visited POI, median", _km(far["visited_km"]["median"])),
        ("home to a random POI, median", _km(far["random_km"]["median"])),
    ]


def _more(told: Mapping[str, Any]) -> str:
    visitors = told["visitors_per_poi"]
    rows = [
        ("POIs of a user: mean", _plain(told["pois_per_user"])),
        ("visitors of a POI: mean", _plain(told["mean_visitors_per_poi"])),
        ("visitors of a POI: median", _plain(visitors["median"])),
        ("visitors of a POI: most", _plain(visitors["max"])),
        ("categories", f"{told['categories']:,}"),
        ("POIs with a category", _part(told["pois_with_category"], told["pois"])),
        ("check-ins at POIs with a category", _percent(told["check_ins_with_category"])),
        ("order of a user's check-ins known", "yes" if told["ordered"] else "no"),
        ("latitude", f"{_degrees(told['south'])} to {_degrees(told['north'])}"),
        ("longitude", f"{_degrees(told['west'])} to {_degrees(told['east'])}"),
    ]
    return table(("what", "value"), rows)


def _distances(survey: Survey, far: Mapping[str, Any]) -> list[str]:
    if not survey.poi.size:
        return ["There are no visits."]
    if not far["visits"]:
        return ["No user has two POIs, so no home can be told without the visit that it is for."]
    return [
        paragraph(_sentence(far)),
        gallery(_probability(far), _laws(survey)),
        _quantile_table(far),
        paragraph("Visits and random POIs by distance from home:"),
        _band_table(far),
    ]


def _sentence(far: Mapping[str, Any]) -> str:
    text = (
        f"Half of all visits are within {_km(far['visited_km']['median'])} of home; half of the "
        f"POIs that chance would pick are within {_km(far['random_km']['median'])}."
    )
    known = [band for band in far["bands"] if band["probability"] is not None]
    if known:
        near = known[0]
        factor = near["probability"] / far["probability"]
        text += (
            f" A POI at {_span(near)} from home is visited {factor:.1f} times as often as a POI at "
            "any distance."
        )
    return text


def _probability(far: Mapping[str, Any]) -> str:
    bands = [band for band in far["bands"] if band["probability"]]
    if not bands:
        return paragraph("Too few random POIs for the probability of a visit by distance.")
    ends = [band["to_km"] or _HALF_ROUND_KM for band in bands]
    overall = far["probability"]
    values = [band["probability"] for band in bands]
    svg = line_chart(
        [
            Series("by distance", ends, values),
            Series("any distance", ends, [overall] * len(ends), dashed=True, marker=None),
        ],
        x_label="km from home, up to",
        y_label="probability of a visit",
        log_x=True,
        log_y=max(*values, overall) >= _LOG_FROM * min(*values, overall),
    )
    caption = (
        "How probable it is that a user has visited a POI at that distance: Figure 4 of the "
        "PriRec paper for this set. A point is drawn at the far end of its band; the table below "
        "has the bands."
    )
    if len(bands) < len(far["bands"]):
        caption += " Bands without a visit, or with too few random POIs, have no point."
    alt = ", ".join(f"{_span(band)}: {_percent(band['probability'])}" for band in bands)
    return figure(svg, caption, f"Probability of a visit by distance. {alt}")


def _laws(survey: Survey) -> str:
    far = survey.distances
    laws = (
        ("visited", far.visited, False),
        ("random", far.random, True),
        ("popular", far.popular, True),
    )
    series = []
    for label, km, dashed in laws:
        # Distances that occur, so that few of them give steps and not a line through the gaps.
        places = np.maximum(np.quantile(km, _CURVE, method="inverted_cdf"), _SHORTEST_KM)
        series.append(Series(label, places.tolist(), _CURVE.tolist(), dashed=dashed, marker=None))
    svg = line_chart(
        series, x_label="km from home", y_label="share of POIs that are nearer", log_x=True
    )
    caption = (
        "How far from home visited POIs lie, and POIs drawn by chance from the same homes: evenly "
        "from the catalogue (random), or in proportion to their visitors (popular). "
        "Where the line of the visits is the higher one, users stayed nearer than chance would "
        "have sent them. Less than 10 m is drawn as 10 m."
    )
    return figure(svg, caption, "Cumulative shares of distances from home")


def _quantile_table(far: Mapping[str, Any]) -> str:
    header = (
        *("POIs", "10 %", "25 %", "median", "75 %", "90 %"),
        *(f"within {limit} km" for limit in WITHIN_KM),
    )
    rows = [
        (
            name,
            *(_km(value) for value in far[f"{name}_km"].values()),
            *(_percent(far[f"{name}_within_km"][str(limit)]) for limit in WITHIN_KM),
        )
        for name in ("visited", "random", "popular")
    ]
    return table(header, rows, right=tuple(range(1, len(header))))


def _band_table(far: Mapping[str, Any]) -> str:
    header = ("distance", "visits", "random POIs", "visits per random POI", "probability")
    rows = [
        (
            _span(band),
            _percent(band["visited"]),
            _percent(band["random"]),
            "-" if band["probability"] is None else f"{band['visited'] / band['random']:.2f}",
            _percent(band["probability"]),
        )
        for band in far["bands"]
    ]
    return table(header, rows, right=(1, 2, 3, 4))


def _popularity(survey: Survey, told: Mapping[str, Any]) -> list[str]:
    if not survey.poi.size:
        return ["There are no visits."]
    return [gallery(_by_rank(survey, told), _by_activity(survey))]


def _by_rank(survey: Survey, told: Mapping[str, Any]) -> str:
    ranked = np.sort(survey.visitors[survey.visitors > 0])[::-1]
    ranks = np.unique(np.rint(np.geomspace(1, ranked.size, _POINTS)).astype(np.int64))
    threshold = [float(ENOUGH_VISITORS)] * ranks.size
    svg = line_chart(
        [
            Series("visitors", ranks.tolist(), ranked[ranks - 1].tolist(), marker=None),
            Series(
                f"{ENOUGH_VISITORS} visitors",
                ranks.tolist(),
                threshold,
                dashed=True,
                marker=None,
            ),
        ],
        x_label="rank of the POI",
        y_label="visitors",
        log_x=True,
        log_y=True,
    )
    kept = _part(told["pois_with_10_visitors"], told["pois"])
    caption = (
        f"Visitors of each POI, the most popular first. {kept} POIs have {ENOUGH_VISITORS} "
        f"visitors or more, which is the default filter (min_visitors), and "
        f"{_part(told['pairs_at_those_pois'], told['distinct_pairs'])} visits are theirs. The most "
        f"popular 1 % of the POIs have {_percent(told['share_of_top_1_percent_pois'])} of the "
        "visits."
    )
    return figure(svg, caption, "Visitors by rank of the POI")


def _by_activity(survey: Survey) -> str:
    users = survey.data.n_users
    pois, count = np.unique(survey.activity[survey.activity > 0], return_counts=True)
    share = np.cumsum(count[::-1])[::-1] / users
    svg = line_chart(
        [Series("users", pois.tolist(), share.tolist(), marker=None)],
        x_label="POIs visited, at least",
        y_label="share of users",
        log_x=True,
    )
    quarter, median, upper = np.quantile(survey.activity, (0.25, 0.5, 0.75))
    caption = (
        f"Users by the number of POIs that they visited. Half of them have {_plain(quarter)} to "
        f"{_plain(upper)}; the median is {_plain(median)}, the most {survey.activity.max():,}."
    )
    return figure(svg, caption, "Share of users by least number of POIs")


def _categories(survey: Survey) -> list[str]:
    data = survey.data
    places = data.n_pois
    names = len(data.category_names)
    # Unknown is -1, so the first bin is that of POIs without a category.
    pois, visits, check_ins = (
        np.bincount(data.category[at] + 1, weights=weights, minlength=names + 1).astype(np.int64)
        for at, weights in (
            (np.arange(places), None),
            (survey.poi, None),
            (data.pois, data.counts),
        )
    )
    order = 1 + np.argsort(-visits[1:], kind="stable")
    top, rest = order[:TOP_CATEGORIES], order[TOP_CATEGORIES:]
    total = int(visits.sum())
    labels = [data.category_names[index - 1] for index in top]
    svg = bar_chart(
        [_short(label) for label in labels],
        visits[top].tolist(),
        x_label="visits",
        shown=lambda value: f"{value:,.0f}",
    )
    caption = (
        f"Visits by category: {_count(top.size, names)} of {names:,}. Visits to POIs without a "
        f"category: {_part(int(visits[0]), total)}."
    )
    groups = [
        *((label, np.array([index])) for label, index in zip(labels, top, strict=True)),
        *([(f"{rest.size:,} others", rest)] if rest.size else []),
        *([("without a category", np.array([0]))] if pois[0] else []),
    ]
    rows = [
        (
            label,
            f"{pois[group].sum():,}",
            f"{visits[group].sum():,}",
            _percent(visits[group].sum() / total if total else None),
            f"{check_ins[group].sum():,}",
        )
        for label, group in groups
    ]
    header = ("category", "POIs", "visits", "share of visits", "check-ins")
    return [
        gallery(figure(svg, caption, "Visits by category"), table(header, rows, right=(1, 2, 3, 4)))
    ]


def _method(far: Mapping[str, Any]) -> list[str]:
    counted = f"{far['visits']:,} visits of {far['users']:,} users are measured."
    if far["homes"] == "given":
        homes = f"Homes are those that come with the set. {counted}"
    else:
        one = far["users_left_out"]
        homes = (
            "A home is the mean place of the user's POIs without the one that is measured: a mean "
            "that holds the visit lies nearer to it than the user lives, and the nearness would "
            f"be made by the measure. {counted} Users with a single POI are left out: {one:,}."
        )
    lines = [
        "A visit is a pair of a user and a POI, however often she was there: what a recommender "
        "learns.",
        homes,
        "Random POIs are drawn from the same homes, one for each visit, with coins of seed 0: "
        "evenly from the catalogue, and once more in proportion to visitors, because popular "
        "places lie in the middle of a city and homes do too.",
        "Probability: the visits at a distance by the pairs of user and POI at that distance. "
        "The pairs are estimated from the even draws; where fewer than 30 fell, no value is given.",
    ]
    if far["homes"] != "given":
        lines.append(
            "Who travels has a mean place between her places, where she may never have been. In a "
            "set that spans countries, distances are long for that reason too."
        )
    return lines


def _short(label: str) -> str:
    """At most two lines of a chart; the table beside it has the whole name."""
    lines = textwrap.wrap(label, _LABEL)
    if len(lines) <= 2:
        return label
    return f"{lines[0]} {lines[1][: _LABEL - 1]}\N{HORIZONTAL ELLIPSIS}"


def _count(shown: int, names: int) -> str:
    return "all" if shown == names else f"the {shown} most visited"


def _span(band: Mapping[str, Any]) -> str:
    if band["to_km"] is None:
        return f"more than {band['from_km']:,g}\N{NO-BREAK SPACE}km"
    if not band["from_km"]:
        return f"up to {band['to_km']:g}\N{NO-BREAK SPACE}km"
    return f"{band['from_km']:,g} to {band['to_km']:,g}\N{NO-BREAK SPACE}km"


def _km(value: float | None) -> str:
    if value is None:
        return "-"
    number = f"{value:,.0f}" if value >= 100 else f"{value:.{1 if value >= 10 else 2}f}"
    return f"{number}\N{NO-BREAK SPACE}km"


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{100 * share:.3g}\N{NO-BREAK SPACE}%"


def _part(part: int, whole: int) -> str:
    return f"{part:,} ({_percent(part / whole)})" if whole else f"{part:,}"


def _plain(value: float | None) -> str:
    return "-" if value is None else f"{value:,.4g}"


def _degrees(value: float | None) -> str:
    return "-" if value is None else f"{value:.4f}"
