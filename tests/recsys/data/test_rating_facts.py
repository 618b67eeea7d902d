"""What is said about a rating set, against figures counted by hand."""

import json
from pathlib import Path

import numpy as np
import pytest

from recsys.data.rating_facts import describe_ratings
from recsys.data.rating_files import load_ratings
from recsys.data.synthetic_ratings import SyntheticRatingsConfig, synthetic_ratings
from tests.recsys.data.rating_worlds import put


def test_a_description(tmp_path: Path) -> None:
    put(tmp_path / "train.csv", "user,item,rating\na,x,1\na,y,2\nb,x,3\n")
    put(tmp_path / "test.csv", "user,item,rating\nb,z,4.5\nc,x,2\nc,z,2\n")
    put(tmp_path / "user_graph.csv", "source,target\na,b\nd,d\n")
    told = describe_ratings(load_ratings(tmp_path, "set"))
    assert json.loads(json.dumps(told, allow_nan=False)) == told
    constant = np.sqrt(((4.5 - 2) ** 2 + 0 + 0) / 3)
    assert told.pop("rmse_of_constant") == pytest.approx(constant)
    assert told.pop("mean") == pytest.approx(14.5 / 6)
    assert told.pop("standard_deviation") == pytest.approx(np.std([1, 2, 3, 4.5, 2, 2]))
    per_user, per_item = told.pop("ratings_per_user"), told.pop("ratings_per_item")
    assert (per_user["min"], per_user["median"], per_user["max"]) == (0, 2, 2)
    assert (per_item["min"], per_item["median"], per_item["max"]) == (1, 2, 3)
    assert told == {
        "name": "set",
        "users": 4,
        "items": 3,
        "ratings": 6,
        "density": 0.5,
        "low": 1.0,
        "high": 4.5,
        "levels": {"1": 1, "2": 3, "3": 1, "4.5": 1},
        "users_without_rating": 1,
        "items_without_rating": 0,
        "split": {"train": 3, "test": 3, "cold_users": 1, "cold_items": 1, "cold_ratings": 3},
        "user_graph_edges": 2,
        "item_graph_edges": None,
        "notes": [],
    }


def test_without_a_test_part_the_constant_is_tried_on_what_it_is_from(tmp_path: Path) -> None:
    path = put(tmp_path / "r.csv", "user,item,rating\na,x,1\na,y,2\nb,x,3\n")
    told = describe_ratings(load_ratings(path))
    assert told["split"] is None
    assert told["rmse_of_constant"] == pytest.approx(np.sqrt(2 / 3))


def test_o21_a_constant_50_on_a_scale_of_100(tmp_path: Path) -> None:
    put(tmp_path / "train.csv", "user,item,rating\na,x,50\n")
    put(tmp_path / "test.csv", "user,item,rating\na,y,1\na,z,99\nb,x,100\n")
    told = describe_ratings(load_ratings(tmp_path))
    assert told["rmse_of_constant"] == pytest.approx(49.34, abs=0.005)


def test_many_levels_are_not_listed(tmp_path: Path) -> None:
    text = "".join(f"a,{n},{n}\n" for n in range(1, 101))
    told = describe_ratings(load_ratings(put(tmp_path / "r.csv", f"user,item,rating\n{text}")))
    assert (told["levels"], told["low"], told["high"]) == (None, 1, 100)


def test_a_description_of_the_built_in_set() -> None:
    told = describe_ratings(synthetic_ratings(SyntheticRatingsConfig(users=50, items=40)))
    assert (told["users"], told["items"]) == (50, 40)
    assert sum(told["levels"].values()) == told["ratings"]
