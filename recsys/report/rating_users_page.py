"""The private page of a rating model: what one user rated, and what it recommends to her.

Leaks: a user's ratings. It belongs into users/, never into public/.
"""

import numpy as np

from recsys.data.ratings import RatingParts
from recsys.ratings.model import RatingModel
from recsys.report.html import Page, facts, table

LISTED = 10


def rating_users_page(model: RatingModel) -> bytes:
    """The page, of a model that ``fit`` has just trained."""
    page = Page(
        f"Private: users of {model.parts_.name}",
        "This page shows what a user rated. It is for whoever owns the machine, since in a real "
        "deployment each user would see no more than her own part.",
    )
    page.section("One user's recommendations", *_recommended(model))
    page.section("Her held-out ratings", *_held_out(model))
    return page.render()


def median_rater(parts: RatingParts) -> int:
    """The user with the median number of training ratings, of those who have any.

    The lower median of an even number; of users with as many ratings the first by index.
    """
    counts = np.bincount(parts.train.users, minlength=parts.n_users)
    active = np.sort(counts[counts > 0])
    return int(np.argmax(counts == active[(active.size - 1) // 2]))


def _recommended(model: RatingModel) -> list[str]:
    parts = model.parts_
    user = median_rater(parts)
    name = parts.user_ids[user]
    own = parts.train.part(parts.train.users == user)
    best = model.recommend(name, LISTED)
    figures = [
        ("user", name),
        ("ratings in training", f"{len(own):,}"),
        ("mean of them", f"{own.values.mean():.2f}"),
    ]
    who = (
        "The user with the median number of training ratings, the first of them where several "
        "have as many."
    )
    if not best:
        return [who, facts(figures), "She has rated every item, so none is left to recommend."]
    tested = _test_ratings(parts, user)
    rows = [
        (str(rank), one.item, f"{one.value:.2f}", tested.get(one.item, "-"))
        for rank, one in enumerate(best, start=1)
    ]
    header = ("rank", "item", "predicted rating", "held-out rating")
    return [who, facts(figures), table(header, rows, right=(0, 2, 3))]


def _held_out(model: RatingModel) -> list[str]:
    parts = model.parts_
    user = median_rater(parts)
    test = parts.test.part(parts.test.users == user)
    if not len(test):
        return ["None of her ratings is in the test part."]
    predicted = model.score(test.users, test.items)
    order = np.argsort(-predicted, kind="stable")
    rows = [
        (parts.item_ids[test.items[at]], f"{test.values[at]:g}", f"{predicted[at]:.2f}")
        for at in order
    ]
    return [table(("item", "rating", "predicted"), rows, right=(1, 2))]


def _test_ratings(parts: RatingParts, user: int) -> dict[str, str]:
    test = parts.test.part(parts.test.users == user)
    return {
        parts.item_ids[item]: f"{value:g}"
        for item, value in zip(test.items, test.values, strict=True)
    }
