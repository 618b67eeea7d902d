"""Real rating sets, where PRIVREC_DATA names a folder that holds them.

Their numbers are the publishers', and those of an independent count of the files. Those of the
synthetic set are its own: they change only if it does.
"""

import numpy as np
import pytest

from recsys.data.rating_catalogue import list_rating_sets, resolve
from recsys.data.rating_facts import describe_ratings

# users, items, ratings, train, test, lowest, highest, edges between users and between items
RAW = {
    "synthetic-ratings": (600, 400, 24_011, None, None, 1, 5, None, None),
    "ml-100k": (943, 1_682, 100_000, 80_000, 20_000, 1, 5, 6_297, 14_464),
    # One of its 3,000 users has neither a rating nor a friend, and is in no file.
    "douban": (2_999, 3_000, 136_891, 123_202, 13_689, 1, 5, 1_346, None),
    "flixster": (3_000, 3_000, 26_173, 23_556, 2_617, 0.5, 5, 29_677, 25_459),
    "ml-1m": (6_040, 3_706, 1_000_209, 900_000, 100_209, 1, 5, None, None),
}
CONSTANT = {
    "synthetic-ratings": 0.9529,
    "ml-100k": 1.1537,
    "douban": 0.9113,
    "flixster": 1.0731,
    "ml-1m": 1.1191,
}
PRESENT = {known.name: known for known in list_rating_sets()}
FETCHED = [
    name
    for name, known in PRESENT.items()
    if known.path is not None and (known.path / "ml-100k.inter").is_file()
]


@pytest.mark.parametrize("name", [name for name in RAW if name in PRESENT])
def test_published_statistics(name: str) -> None:
    told = describe_ratings(resolve(name))
    split = told["split"] or {"train": None, "test": None}
    found = (told["users"], told["items"], told["ratings"], split["train"], split["test"])
    edges = (told["user_graph_edges"], told["item_graph_edges"])
    assert (*found, told["low"], told["high"], *edges) == RAW[name]
    assert told["rmse_of_constant"] == pytest.approx(CONSTANT[name], abs=5e-5)


if "ml-100k" in PRESENT and FETCHED:  # what is not here cannot be compared

    @pytest.mark.parametrize("name", FETCHED)
    def test_the_fetched_movielens_has_exactly_the_split_u1(name: str) -> None:
        """The other set numbers users and items from 0, MovieLens from 1."""
        fetched, other = resolve(name), resolve("ml-100k")
        for ids in ("user_ids", "item_ids"):
            from_1 = [int(text) - 1 for text in getattr(fetched, ids)]
            assert from_1 == [int(text) for text in getattr(other, ids)]
        for column in ("users", "items", "values"):
            assert np.array_equal(getattr(fetched.triples, column), getattr(other.triples, column))
        assert fetched.test is not None
        assert other.test is not None
        assert np.array_equal(fetched.test, other.test)
