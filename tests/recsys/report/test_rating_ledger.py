"""The ledger of rating models: every release, its unit and its adversary, and the worst of them."""

import json
import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from recsys.baselines.biases import Biases
from recsys.ratings.expansion_payloads import EMBEDDING_CLIP
from recsys.report.ledger import INFINITY, Release, shown
from recsys.report.rating_ledger import NO_EPSILON, NO_PRIVACY, RatingLedger, build_rating_ledger
from tests.recsys.rating_worlds import ITEMS, USERS, fitted

NOISE: dict[str, Any] = {"clip": 0.1, "laplace": 0.2}
CLEAR: dict[str, Any] = {"aggregate": "clear"}

TOTALS = "sum and number of the ratings of a cohort"
SUM = "sum of a cohort's gradients over the whole catalogue"
ITEMS_SEEN = "items that a user uploads"
VALUES = "gradients of a user's items and of the network"
CURVE = "mean training loss and validation RMSE, over all users"


def ledger_of(**changes: Any) -> RatingLedger:
    return build_rating_ledger(fitted(**changes))


def kinds(ledger: RatingLedger) -> list[str]:
    """What is released, without its figures."""
    names = (TOTALS, SUM, ITEMS_SEEN, VALUES, CURVE)
    return [
        next((name for name in names if release.what.startswith(name)), release.what)
        for release in ledger.releases
    ]


def release_of(ledger: RatingLedger, what: str) -> Release:
    (found,) = [release for release in ledger.releases if release.what.startswith(what)]
    return found


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, [SUM, TOTALS, CURVE]),
        ({"center": False}, [SUM, CURVE]),
        (NOISE, [SUM, TOTALS, CURVE]),
        (CLEAR, [ITEMS_SEEN, VALUES, TOTALS, CURVE]),
        ({**CLEAR, **NOISE, "pseudo": 5}, [ITEMS_SEEN, VALUES, TOTALS, CURVE]),
    ],
)
def test_every_release_is_listed(changes: dict[str, Any], expected: list[str]) -> None:
    ledger = ledger_of(**changes)
    assert kinds(ledger) == expected
    for release in ledger.releases:
        assert release.sees
        assert release.unit
        assert release.adversary
        assert release.rounds >= 1


def test_a_run_without_noise_says_first_that_there_is_no_differential_privacy() -> None:
    for changes in ({}, CLEAR, {"clip": 0.5}):
        ledger = ledger_of(**changes)
        assert ledger.headline == "no differential privacy: epsilon = infinity"
        assert ledger.epsilon()["headline"] == INFINITY
        assert ledger.epsilon()["coordinate"] is None
        assert {release.epsilon_user for release in ledger.releases} == {math.inf}


def test_a_central_model_hands_over_all_ratings() -> None:
    ledger = build_rating_ledger(fitted(Biases))
    assert kinds(ledger) == ["all ratings"]
    assert ledger.headline == NO_PRIVACY


def test_a_seeded_run_has_no_privacy_whatever_its_noise() -> None:
    plain = ledger_of(seed=1).headline
    assert plain.startswith(NO_PRIVACY)
    assert "privacy: none (reproducible simulation), nominal epsilon = infinity" in plain
    noisy = ledger_of(seed=1, **NOISE)
    expected = "privacy: none (reproducible simulation), nominal epsilon = 1 per coordinate"
    assert noisy.headline == expected
    assert noisy.epsilon()["headline"] == INFINITY


def test_the_noise_has_three_losses_about_a_coordinate_an_upload_and_a_training() -> None:
    """Clip .1 and Laplace .2 give 1 per coordinate; 30 coordinates, 3 rounds."""
    ledger = ledger_of(**NOISE)
    cost = ledger.cost
    assert cost is not None
    assert (cost.coordinate, cost.coordinates, cost.rounds) == (1.0, ITEMS, 3)
    assert (cost.vector, cost.user) == (30.0, 90.0)
    epsilon = ledger.epsilon()
    assert (epsilon["coordinate"], epsilon["vector"], epsilon["user"]) == (1.0, 30.0, 90.0)
    release = release_of(ledger, SUM)
    assert (release.unit, release.epsilon_unit, release.epsilon_user) == ("coordinate", 1.0, 90.0)
    told = (
        "Epsilon 1 for each coordinate, 30 for each vector of 30, 90 for each user after 3 rounds"
    )
    assert told in release.note


@pytest.mark.parametrize(("clip", "laplace"), [(0.1, 0.3), (0.1, 0.7), (0.3, 0.9), (1e-3, 3.0)])
def test_no_loss_is_rounded_down(clip: float, laplace: float) -> None:
    """Beside exact fractions: as a number, and as a reader sees it."""
    ledger = ledger_of(clip=clip, laplace=laplace)
    cost = ledger.cost
    assert cost is not None
    exact = 2 * Fraction(clip) / Fraction(laplace)
    losses = ((cost.coordinate, 1), (cost.vector, ITEMS), (cost.user, 3 * ITEMS))
    for told, times in losses:
        assert Fraction(told) >= times * exact
        assert told == pytest.approx(float(times * exact), rel=1e-12)
        assert Fraction(float(shown(told).replace(",", ""))) >= times * exact
    epsilon = ledger.epsilon()
    assert [epsilon[n] for n in ("coordinate", "vector", "user")] == [told for told, _ in losses]


def test_noise_on_uploads_in_the_clear_leaves_item_sets_at_infinity() -> None:
    ledger = ledger_of(**CLEAR, **NOISE, pseudo=5)
    values, items = release_of(ledger, VALUES), release_of(ledger, ITEMS_SEEN)
    assert values.epsilon_unit == 1.0
    assert items.epsilon_user == math.inf
    assert "infinity" in ledger.headline
    assert ledger.headline.startswith("worst release: items that a user uploads")


def test_the_largest_upload_counts_in_the_clear() -> None:
    model = fitted(**CLEAR, **NOISE, pseudo=2)
    rated = max(
        int((model.parts_.train.users == user).sum()) for user in range(model.parts_.n_users)
    )
    cost = build_rating_ledger(model).cost
    assert cost is not None
    assert cost.coordinates == rated + 2
    wide = fitted(**CLEAR, **NOISE, pseudo=2, dim=3)
    found = build_rating_ledger(wide).cost
    assert found is not None
    assert found.coordinates == 4 * cost.coordinates


def test_sticky_and_resampled_items_are_told_apart_and_the_attack_has_its_name() -> None:
    sticky = release_of(ledger_of(**CLEAR, pseudo=5), ITEMS_SEEN)
    fresh = release_of(ledger_of(**CLEAR, pseudo=5, pseudo_items="resampled"), ITEMS_SEEN)
    bare = release_of(ledger_of(**CLEAR), ITEMS_SEEN)
    assert "the same in every round" in sticky.note
    assert "Intersection attack" not in sticky.note
    assert "Intersection attack" in fresh.note
    assert "exactly those that she rated" in bare.what
    assert {each.epsilon_user for each in (sticky, fresh, bare)} == {math.inf}


def test_users_who_fill_the_catalogue_are_counted() -> None:
    rated = np.bincount(fitted().parts_.train.users, minlength=USERS)
    for pseudo in (ITEMS - rated.max() - 1, ITEMS - rated.max(), ITEMS):
        full = int((rated + pseudo >= ITEMS).sum())
        note = release_of(ledger_of(**CLEAR, pseudo=int(pseudo)), ITEMS_SEEN).note
        told = f"Of {full} user{'s' if full > 1 else ''} that is the whole catalogue"
        assert (told in note) is (full > 0), pseudo
        assert ("the whole catalogue" in note) is (full > 0), pseudo
    assert full == USERS


def test_a_secure_sum_names_its_adversary_and_its_smallest_cohort() -> None:
    ledger = ledger_of(cohort=20)
    for what in (SUM, TOTALS):
        release = release_of(ledger, what)
        assert release.adversary.startswith("semi-honest, at most 18 of 20 members collude")
    assert "cohorts of at least 20" in release_of(ledger, SUM).what


def test_rounds_are_those_that_were_run() -> None:
    model = fitted(epochs=5, patience=1)
    ledger = build_rating_ledger(model)
    ran = len(model.history_)
    assert release_of(ledger, SUM).rounds == ran
    assert release_of(ledger, CURVE).rounds == ran
    assert release_of(ledger, TOTALS).rounds == 1


def test_expansion_is_listed_once_it_has_happened() -> None:
    before = ledger_of(dim=2, neighbours="fixed", expand_after=3)
    after = ledger_of(dim=2, neighbours="fixed", expand_after=2)
    more = set(kinds(after)) - set(kinds(before))
    assert any("user-token graph" in what for what in more)
    assert any(what.startswith("user embeddings") for what in more)
    assert len(more) == 4
    noisy = ledger_of(dim=2, neighbours="fixed", embedding_epsilon=2.0)
    embeddings = release_of(noisy, "user embeddings")
    assert embeddings.epsilon_unit == pytest.approx(2.0)
    assert embeddings.epsilon_user == pytest.approx(4.0)
    assert noisy.headline == NO_PRIVACY  # the uploads, every round, have no noise


def test_the_noise_on_embeddings_says_its_bound_and_what_it_covers() -> None:
    ledger = ledger_of(dim=2, neighbours="fixed", embedding_epsilon=2.0)
    note = release_of(ledger, "user embeddings").note
    low, high = -EMBEDDING_CLIP, EMBEDDING_CLIP
    assert f"Each coordinate is cut at {low} and {high} (EMBEDDING_CLIP)" in note
    assert f"noise of scale {2 * high / 2.0:g}: epsilon 2 for each coordinate, 4 for each" in note
    assert "not the gradients that she uploads, not with whom she shares items" in note
    (told,) = ledger.costs
    assert told[0] == "embedding handed on"
    assert (told[1].coordinate, told[1].vector, told[1].user) == (2.0, 4.0, 4.0)
    both = ledger_of(dim=2, neighbours="fixed", embedding_epsilon=2.0, **NOISE)
    assert [what for what, _ in both.costs] == ["upload", "embedding handed on"]
    for changes in ({}, {"expand_after": 3}, {"neighbours": "none"}):
        settings: dict[str, Any] = {"dim": 2, "neighbours": "fixed", **changes}
        if changes:
            settings["embedding_epsilon"] = 2.0
        assert ledger_of(**settings).embedding is None  # no noise, or nothing handed on


def test_the_ledger_is_plain_json() -> None:
    for ledger in (ledger_of(**NOISE), ledger_of(seed=1), build_rating_ledger(fitted(Biases))):
        values = json.loads(json.dumps(ledger.to_dict(), allow_nan=False))
        assert set(values) == {"headline", "seeded", "epsilon", "engines", "releases"}
        assert set(values["epsilon"]) == set(NO_EPSILON)
