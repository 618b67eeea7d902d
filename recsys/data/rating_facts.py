"""Statistics of a rating set, before any preparation.

Leaks: exact figures of raw data, without noise or threshold; for whoever holds the data.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from recsys.data.ratings import Graph, Ratings

MOST_LEVELS = 20
"""Levels are counted one by one if there are at most so many."""

_QUANTILES = {
    "min": 0.0,
    "tenth": 0.1,
    "quarter": 0.25,
    "median": 0.5,
    "three_quarters": 0.75,
    "nine_tenths": 0.9,
    "max": 1.0,
}


def describe_ratings(data: Ratings) -> dict[str, Any]:
    """Sizes, levels, skew and the published split, as plain numbers that JSON takes.

    density: ratings per pair.  levels: how often each rating was given, None for more than
        ``MOST_LEVELS`` of them.  ratings_per_user, ratings_per_item: quantiles over all users and
        items, those without a rating included.
    split: None without a published test part; else sizes, who is cold, which is to be tested but
        has no training rating, and how many test ratings that concerns.
    rmse_of_constant: of the mean of all ratings that are for training, on those that are for test;
        on themselves where there is no published test part.
    """
    triples = data.triples
    per_user = np.bincount(triples.users, minlength=data.n_users)
    per_item = np.bincount(triples.items, minlength=data.n_items)
    pairs = data.n_users * data.n_items
    test = np.zeros(len(triples), dtype=np.bool_) if data.test is None else data.test
    learned, tested = triples.values[~test], triples.values[test if test.any() else ~test]
    mean = learned.mean() if learned.size else None
    return {
        "name": data.name,
        "users": data.n_users,
        "items": data.n_items,
        "ratings": len(triples),
        "density": len(triples) / pairs if pairs else None,
        "low": data.low,
        "high": data.high,
        "mean": float(triples.values.mean()) if len(triples) else None,
        "standard_deviation": float(triples.values.std()) if len(triples) else None,
        "levels": _levels(triples.values),
        "ratings_per_user": _quantiles(per_user),
        "ratings_per_item": _quantiles(per_item),
        "users_without_rating": int((per_user == 0).sum()),
        "items_without_rating": int((per_item == 0).sum()),
        "split": None if data.test is None else _split(data, data.test),
        "rmse_of_constant": _rmse(tested, mean),
        "user_graph_edges": _edges(data.user_graph),
        "item_graph_edges": _edges(data.item_graph),
        "notes": list(data.notes),
    }


def _split(data: Ratings, test: NDArray[np.bool_]) -> dict[str, int]:
    train, tested = data.triples.part(~test), data.triples.part(test)
    new_user = ~np.isin(tested.users, train.users)
    new_item = ~np.isin(tested.items, train.items)
    return {
        "train": len(train),
        "test": len(tested),
        "cold_users": int(np.unique(tested.users[new_user]).size),
        "cold_items": int(np.unique(tested.items[new_item]).size),
        "cold_ratings": int((new_user | new_item).sum()),
    }


def _levels(values: NDArray[np.float64]) -> dict[str, int] | None:
    levels, counts = np.unique(values, return_counts=True)
    if levels.size > MOST_LEVELS:
        return None
    return {f"{level:g}": int(count) for level, count in zip(levels, counts, strict=True)}


def _quantiles(counts: NDArray[np.int64]) -> dict[str, float | None]:
    return {
        name: float(np.quantile(counts, share)) if counts.size else None
        for name, share in _QUANTILES.items()
    }


def _rmse(values: NDArray[np.float64], mean: float | None) -> float | None:
    if mean is None or not values.size:
        return None
    return float(np.sqrt(np.mean((values - mean) ** 2)))


def _edges(graph: Graph | None) -> int | None:
    return None if graph is None else int(graph.source.size)
