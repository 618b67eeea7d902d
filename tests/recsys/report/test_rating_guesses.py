"""What item sets give away, measured on a training's own sets, and that ledger and page say it."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from recsys.baselines.biases import Biases
from recsys.data.ratings import Ratings
from recsys.data.synthetic_ratings import SyntheticRatingsConfig, synthetic_ratings
from recsys.ratings.intersection import intersection_table, popularity_precision
from recsys.ratings.model import RatingModel
from recsys.report.costs import Costs
from recsys.report.rating_guesses import MOST, Guesses, guesses
from recsys.report.rating_ledger import build_rating_ledger
from recsys.report.rating_page import rating_page
from recsys.report.rating_summary import summarise_ratings
from tests.recsys.rating_worlds import Federated, fitted, small, world
from tests.support.pages import Source

CLEAR: dict[str, Any] = {"aggregate": "clear", "clip": 0.1, "laplace": 0.2}
PSEUDO = 40


def library() -> Ratings:
    """Few ratings of many items, so that sets hide something."""
    return synthetic_ratings(SyntheticRatingsConfig(users=80, items=300, per_user=20))


def read(model: RatingModel) -> Guesses:
    found = guesses(model)
    assert found is not None
    return found


def page_of(model: RatingModel) -> str:
    return Source(rating_page(model, summarise_ratings(model, Costs(1.0), Path("run")), "")).text


def test_guesses_are_those_of_the_attacks_on_this_trainings_sets() -> None:
    model = fitted(data=library(), **CLEAR, pseudo=PSEUDO)
    learner: Any = model.learner_
    users = np.flatnonzero(np.bincount(model.parts_.train.users, minlength=80))
    expected = popularity_precision(learner.pseudo, users)
    found = read(model)
    assert (found.popular, found.at_random) == (expected.precision, expected.at_random)
    assert found.users == users.size
    assert found.popular > 1.3 * found.at_random  # popular items are likelier to be hers


@pytest.mark.parametrize(("how", "epochs"), [("sticky", 3), ("resampled", 1), ("resampled", 3)])
def test_what_is_left_is_what_intersecting_all_rounds_leaves(how: str, epochs: int) -> None:
    """The expected share beside that of the sets themselves: 80 users, some 1,600 items hers."""
    model = fitted(data=library(), **CLEAR, pseudo=PSEUDO, pseudo_items=how, epochs=epochs)
    learner: Any = model.learner_
    users = np.unique(model.parts_.train.users)
    *_, last = intersection_table(learner.pseudo, users, list(range(1, epochs + 1)))
    assert read(model).left == pytest.approx(last.precision, abs=0.03)


def test_many_users_are_sampled_evenly(monkeypatch: pytest.MonkeyPatch) -> None:
    model = fitted(data=library(), **CLEAR, pseudo=PSEUDO)
    monkeypatch.setattr("recsys.report.rating_guesses.MOST", 30)
    assert read(model).users == 27  # every third of 80
    assert MOST >= 1000


def test_without_sets_there_is_nothing_to_guess() -> None:
    whole = fitted(**CLEAR, pseudo=1000)  # the whole catalogue from everybody
    for model in (fitted(), fitted(**CLEAR), fitted(Biases), whole):
        assert guesses(model) is None
        assert build_rating_ledger(model).guesses is None


def test_of_few_users_there_is_no_share_but_the_warning_stays() -> None:
    rows = [(user, item, 3.0) for user in range(19) for item in range(2)]
    config = small(**CLEAR, pseudo=3)
    few = Federated(config).fit(world(rows, test=[], users=19, items=9))
    assert guesses(few) is None
    (items,) = [r for r in build_rating_ledger(few).releases if r.what.startswith("items that")]
    assert "Popularity tells: popular items" in items.note
    rows += [(19, item, 3.0) for item in range(2)]
    assert guesses(Federated(config).fit(world(rows, test=[], users=20, items=9))) is not None
    whole = fitted(**CLEAR, pseudo=1000)
    (items,) = [r for r in build_rating_ledger(whole).releases if r.what.startswith("items that")]
    assert "Popularity tells" not in items.note


def test_a_user_who_rated_everything_has_no_place_to_hide(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("recsys.report.rating_guesses.LEAST", 4)
    rows = [(user, item, 3.0) for user in range(4) for item in range(6) if user == 0 or item < 2]
    config = small(min_cohort=3, cohort=4, **CLEAR, pseudo=1)
    found = read(Federated(config).fit(world(rows, test=[], users=4, items=6)))
    assert found.left == pytest.approx((6 + 3 * 2) / (6 + 3 * 3))


@pytest.mark.parametrize("how", ["sticky", "resampled"])
def test_ledger_and_page_say_that_popularity_tells(how: str) -> None:
    model = fitted(data=library(), **CLEAR, pseudo=PSEUDO, pseudo_items=how)
    found = read(model)
    sentence = (
        "Popularity tells: whoever names, of each user's upload, the items that most users upload, "
        f"as many as she rated, is right for {100 * found.popular:.0f} %, and at random for "
        f"{100 * found.at_random:.0f} %"
    )
    (items,) = [r for r in build_rating_ledger(model).releases if r.what.startswith("items that")]
    assert sentence in items.note
    assert items.to_dict()["epsilon_user"] == "infinity"
    assert f"No epsilon covers which items a user uploads. {sentence}" in page_of(model)
    left = f"Of what is in all 3 sets of a user, {100 * found.left:.0f} % is hers."
    assert (left in items.note) is (how == "resampled")


def test_nothing_is_said_of_popularity_where_no_set_is_uploaded() -> None:
    for model in (fitted(), fitted(Biases)):
        assert "Popularity tells" not in page_of(model)


def test_the_row_has_the_shares() -> None:
    model = fitted(data=library(), **CLEAR, pseudo=PSEUDO)
    row = summarise_ratings(model, Costs(1.0), Path("run")).row
    assert json.loads(json.dumps(row["guesses"])) == read(model).to_dict()
    assert summarise_ratings(fitted(), Costs(1.0), Path("run")).row["guesses"] is None


def test_a_set_that_the_catalogue_cuts_short_is_not_called_whole() -> None:
    notes = {}
    for pseudo in (PSEUDO, 295):
        model = fitted(data=library(), **CLEAR, pseudo=pseudo)
        (items,) = [
            r for r in build_rating_ledger(model).releases if r.what.startswith("items that")
        ]
        notes[pseudo] = items.what
    assert "and 40 others" in notes[PSEUDO]
    assert "and up to 295 others" in notes[295]
