"""AUC against scikit-learn and by hand; the digest of a model."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import roc_auc_score

from recsys.metrics import model_digest, pooled_auc, user_auc

scored = st.lists(
    st.tuples(st.integers(0, 4), st.sampled_from([1, -1]), st.sampled_from([-1.5, 0.0, 0.25, 9.0])),
    min_size=1,
    max_size=40,
)


@given(scored)
def test_the_users_mean_is_scikit_learn_s_user_by_user(rows: list[tuple[int, int, float]]) -> None:
    users = np.array([row[0] for row in rows], dtype=np.int32)
    labels = np.array([row[1] for row in rows], dtype=np.int8)
    scores = np.array([row[2] for row in rows])
    own = [
        roc_auc_score(labels[users == user], scores[users == user])
        for user in np.unique(users)
        if np.unique(labels[users == user]).size == 2
    ]
    found = user_auc(users, labels, scores)
    if own:
        assert found == pytest.approx(np.mean(own))
    else:
        assert found is None


def test_auc_by_hand() -> None:
    users = np.array([7, 7, 7, 2, 2], dtype=np.int32)
    labels = np.array([1, -1, -1, 1, -1], dtype=np.int8)
    scores = np.array([2.0, 2.0, 1.0, 0.0, 5.0])
    # User 7: one tie and one win of two; user 2: a loss.
    assert user_auc(users, labels, scores) == (0.75 + 0.0) / 2
    # All together: positives 2, 0 against negatives 2, 1, 5: a tie and a win of six.
    assert pooled_auc(labels, scores) == pytest.approx(1.5 / 6)


def test_infinite_scores_are_ranked_and_tie_with_each_other() -> None:
    users, labels = np.zeros(4, dtype=np.int32), np.array([1, -1, 1, -1], dtype=np.int8)
    scores = np.array([np.inf, np.inf, 0.0, -np.inf])
    assert user_auc(users, labels, scores) == 0.625


def test_the_order_of_the_pairs_does_not_matter() -> None:
    rng = np.random.default_rng(0)
    users = rng.integers(0, 9, 100).astype(np.int32)
    labels = rng.choice(np.array([1, -1], dtype=np.int8), 100)
    scores = rng.integers(0, 20, 100).astype(np.float64)
    mixed = rng.permutation(100)
    assert user_auc(users, labels, scores) == pytest.approx(
        user_auc(users[mixed], labels[mixed], scores[mixed])
    )


@pytest.mark.parametrize("labels", [[], [1, 1], [-1, -1]])
def test_o15_without_both_labels_there_is_no_auc(labels: list[int]) -> None:
    """None, never NaN."""
    of = np.array(labels, dtype=np.int8)
    assert pooled_auc(of, np.zeros(of.size)) is None
    assert user_auc(np.zeros(of.size, dtype=np.int32), of, np.zeros(of.size)) is None


def test_users_with_one_label_alone_are_left_out_of_the_mean() -> None:
    users = np.array([0, 0, 1, 1, 2], dtype=np.int32)
    labels = np.array([1, -1, 1, 1, -1], dtype=np.int8)
    assert user_auc(users, labels, np.array([3.0, 1.0, 0.0, 0.0, 9.0])) == 1.0


def test_the_digest_names_values_shapes_and_names() -> None:
    w, v = np.arange(6.0), np.ones((2, 3))
    seen = {
        model_digest({"w": w, "v": v}),
        model_digest({"w": w.reshape(2, 3), "v": v}),
        model_digest({"v": w, "w": v}),
        model_digest({"w": np.nextafter(w, 9), "v": v}),
        model_digest({"w": w}),
    }
    assert len(seen) == 5


def test_the_digest_does_not_depend_on_how_arrays_lie_in_memory() -> None:
    w, v = np.arange(6.0).reshape(2, 3), np.ones(2)
    expected = model_digest({"w": w, "v": v})
    assert model_digest({"v": v, "w": w}) == expected
    assert model_digest({"w": np.asfortranarray(w), "v": v}) == expected
    assert model_digest({"w": w.astype(">f8"), "v": np.ones(4)[::2]}) == expected


def test_the_digest_is_the_stated_one() -> None:
    """An independent computation: sha256 over name, shape and little-endian doubles."""
    assert (
        model_digest({"w": np.array([1.0, -2.0]), "v": np.zeros((0, 5))})
        == "efb10d51fc93c0c82b157567315d0b9e17e5e38eae4a0c0b9a8e4f0aaf502afa"
    )
