"""What devices compute with and what leaves them: rows, dropout, and the upload's parts."""

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from recsys.data.ratings import Floats
from recsys.models.star_devices import Devices, Dropout, item_rows, ranges, unflat
from recsys.models.star_model import ClientGradients, StarModel, client_gradients
from recsys.simulation import SimulationRng
from recsys.training import Arrays
from tests.recsys.models.star_cases import DIM, model_of
from tests.recsys.rating_worlds import ratings_of
from tests.support.stats import fits_binomial

USERS, ITEMS, MOST = 5, 6, 4
RATINGS = ratings_of(
    [(0, 1, 3.0), (0, 4, 2.5), (2, 0, 1.0), (3, 1, 4.5), (3, 2, 5.0), (3, 5, 0.5), (4, 4, 2.0)]
)
"""User 1 rated nothing."""

COUNTS = (2, 0, 0, 4, 1)
"""Neighbours of each user."""


def members(*users: int) -> NDArray[np.int32]:
    return np.array(users, dtype=np.int32)


def devices_of(model: StarModel) -> Devices:
    return Devices(model, RATINGS, USERS)


def arrays_of(model: StarModel, seed: int = 0) -> Arrays:
    """A state of arbitrary numbers."""
    rng = np.random.default_rng(seed)
    size = sum(int(np.prod(shape)) for shape in model.shapes().values())
    arrays: dict[str, Floats] = {
        "mean": np.array([2.75]),
        "items": rng.standard_normal((ITEMS, model.dim + 1)),
        "weights": rng.standard_normal(size),
    }
    if not model.solve:
        arrays["users"] = rng.standard_normal((USERS, model.dim + 1))
    if model.met:
        arrays["neighbours"] = rng.standard_normal((USERS, MOST, model.dim))
        arrays["neighbour_counts"] = np.array(COUNTS, dtype=np.float64)
    return arrays


# Rows.


@given(parts=st.lists(st.tuples(st.integers(0, 20), st.integers(0, 5)), max_size=6))
def test_ranges_lie_one_behind_the_other(parts: list[tuple[int, int]]) -> None:
    first = np.array([start for start, _ in parts], dtype=np.int64)
    sizes = np.array([size for _, size in parts], dtype=np.int64)
    rows, starts = ranges(first, first + sizes)
    expected = [row for start, size in parts for row in range(start, start + size)]
    assert rows.tolist() == expected
    assert np.diff(starts).tolist() == sizes.tolist()
    assert starts[0] == 0


def test_who_rated_nothing_is_not_active() -> None:
    devices = devices_of(model_of("gcn"))
    assert devices.active.tolist() == [0, 2, 3, 4]
    assert devices.active.dtype == np.int32
    assert devices.sizes.tolist() == [2, 0, 1, 3, 1]


def test_rows_are_those_of_the_members() -> None:
    rows, starts = devices_of(model_of("gcn")).rows(members(0, 3))
    assert rows.tolist() == [0, 1, 3, 4, 5]
    assert starts.tolist() == [0, 2, 5]


def test_names_are_views_of_the_flat_vector() -> None:
    flat = np.arange(11.0)
    views = unflat(flat, {"a": (2, 3), "b": (1,), "c": (2, 2)})
    assert views["a"].tolist() == [[0, 1, 2], [3, 4, 5]]
    assert views["c"].tolist() == [[7, 8], [9, 10]]
    views["b"][:] = -1
    assert flat[6] == -1


def test_an_items_row_has_its_bias_last() -> None:
    embeddings, biases = item_rows({"items": np.array([[1.0, 2, 3], [4, 5, 6]])}, members(1, 0, 1))
    assert embeddings.tolist() == [[4, 5], [1, 2], [4, 5]]
    assert biases.tolist() == [6, 3, 6]


# Inputs.


@pytest.mark.parametrize(
    "settings", [{"user_fit": "solve"}, {"user_fit": "steps", "neighbours": "fixed"}]
)
def test_members_compute_with_what_is_theirs(settings: dict[str, Any]) -> None:
    model = model_of("gat", **settings)
    arrays, who = arrays_of(model), members(0, 3, 4)
    found = devices_of(model).inputs(who, arrays)
    items = [1, 4, 1, 2, 5, 4]
    assert found.rated.starts.tolist() == [0, 2, 5, 6]
    assert found.ratings.tolist() == [3 - 2.75, 2.5 - 2.75, 1.75, 2.25, -2.25, -0.75]
    assert np.array_equal(found.items.numpy(), arrays["items"][items, :-1])
    assert np.array_equal(found.item_biases.numpy(), arrays["items"][items, -1])
    assert found.item_masks is None
    assert found.user_masks is None
    for name, part in unflat(arrays["weights"], model.shapes()).items():
        weights = found.weights[name].numpy()
        assert weights.shape == (3, *part.shape)
        assert all(np.array_equal(mine, part) for mine in weights)
    if model.solve:
        assert not found.users.any()
        assert not found.user_biases.any()
        assert found.neighbours.shape == (0, DIM)
        assert found.met.starts.tolist() == [0, 0, 0, 0]
    else:
        assert np.array_equal(found.users.numpy(), arrays["users"][who, :-1])
        assert np.array_equal(found.user_biases.numpy(), arrays["users"][who, -1])
        near = arrays["neighbours"]
        assert found.met.starts.tolist() == [0, 2, 6, 7]
        expected = np.concatenate([near[0, :2], near[3], near[4, :1]])
        assert np.array_equal(found.neighbours.numpy(), expected)


def test_inputs_are_those_of_each_member_by_herself() -> None:
    """With dropout too, whose coins belong to user, item and epoch."""
    model = model_of("gcn", user_fit="steps", neighbours="fixed", dim=11)
    arrays, devices = arrays_of(model), devices_of(model)
    dropout = Dropout(0.3, ITEMS, SimulationRng(2))
    together = devices.inputs(members(0, 2, 3), arrays, dropout, 4)
    rows = together.rated.cuts
    for k, user in enumerate((0, 2, 3)):
        single = devices.inputs(members(user), arrays, dropout, 4)
        mine = slice(*rows[k])
        assert torch.equal(single.items, together.items[mine])
        assert torch.equal(single.users, together.users[k : k + 1])
        for of_all, of_one, part in (
            (together.item_masks, single.item_masks, mine),
            (together.user_masks, single.user_masks, slice(k, k + 1)),
        ):
            assert of_all is not None
            assert of_one is not None
            assert torch.equal(of_one, of_all[part])
    assert together.item_masks is not None
    assert together.user_masks is not None
    # User 2 rated item 0 alone: her own embedding has coins of its own.
    assert not torch.equal(together.item_masks[2], together.user_masks[1])


def test_the_state_does_not_change_as_inputs_are_made() -> None:
    model = model_of("ggnn", user_fit="steps", neighbours="trainable")
    arrays, devices = arrays_of(model), devices_of(model)
    before = {name: array.copy() for name, array in arrays.items()}
    client_gradients(model, devices.inputs(members(0, 3), arrays), absolute=False, mean=False)
    assert all(np.array_equal(arrays[name], before[name]) for name in before)


# Dropout.


def masks_of(
    share: float, users: int = 400, dim: int = 50, epoch: int = 0, seed: int = 1
) -> Floats:
    who = np.arange(users, dtype=np.int32)
    found: Floats = Dropout(share, 7, SimulationRng(seed)).masks(who, who % 7, dim, epoch).numpy()
    return found


@pytest.mark.parametrize(("share", "of_256"), [(0.2, 51), (0.3, 77), (0.99, 253)])
def test_dropout_leaves_out_its_share_and_keeps_the_mean(share: float, of_256: int) -> None:
    """20,000 entries; false alarms 1e-9, and 15 % less is rejected. The factor is exact."""
    found = masks_of(share)
    assert set(np.unique(found)) == {0.0, 256 / (256 - of_256)}
    assert fits_binomial(int((found == 0).sum()), found.size, of_256 / 256)
    assert not fits_binomial(int((masks_of(0.85 * share) == 0).sum()), found.size, of_256 / 256)


def test_a_share_next_to_one_never_drops_all() -> None:
    assert masks_of(0.9999).any()


def test_coins_belong_to_user_item_and_epoch() -> None:
    dropout = Dropout(0.5, ITEMS, SimulationRng(3))
    base = dropout.masks(members(1, 2), members(0, 3), 20, 5)
    assert torch.equal(dropout.masks(members(2, 1), members(3, 0), 20, 5), base[[1, 0]])
    for users, items, epoch in (((1, 3), (0, 3), 5), ((1, 2), (0, 4), 5), ((1, 2), (0, 3), 6)):
        other = dropout.masks(members(*users), members(*items), 20, epoch)
        assert not torch.equal(other[1], base[1])
    assert not np.array_equal(masks_of(0.5, seed=1), masks_of(0.5, seed=2))
    assert torch.equal(dropout.masks(members(1, 2), members(0, 3), 13, 5), base[:, :13])


def test_no_two_entries_of_a_row_share_a_coin() -> None:
    """8 entries come of one word: columns 8 apart, and neighbours, agree half of the time."""
    found = masks_of(0.5, users=2000, dim=24)
    for one in range(24):
        for other in range(one):
            assert fits_binomial(int((found[:, one] == found[:, other]).sum()), 2000, 0.5)


# What leaves.


def found_of(model: StarModel, who: NDArray[np.int32]) -> ClientGradients:
    inputs = devices_of(model).inputs(who, arrays_of(model))
    return client_gradients(model, inputs, absolute=False, mean=False)


@pytest.mark.parametrize("bias", [True, False])
def test_an_upload_has_gradients_of_items_and_weights_and_nothing_else(bias: bool) -> None:
    model = model_of("ggnn", user_fit="steps", neighbours="trainable", bias=bias)
    who = members(0, 3, 4)
    found = found_of(model, who)
    sent = devices_of(model).upload(who, found)
    assert sent.members.tolist() == [0, 3, 4]
    assert sent.starts.tolist() == [0, 2, 5, 6]
    assert sent.items.tolist() == [1, 4, 1, 2, 5, 4]
    assert np.array_equal(sent.rows[:, :-1], found.items.numpy())
    assert np.array_equal(sent.rows[:, -1], bias * found.item_biases.numpy())
    for name, part in unflat(np.arange(float(sent.weights.shape[1])), model.shapes()).items():
        columns = part.reshape(-1).astype(int)
        assert np.array_equal(sent.weights[:, columns], found.weights[name].flatten(1).numpy())
    everything = sum(int(np.prod(shape)) for shape in model.shapes().values())
    assert sent.rows.shape == (6, DIM + 1)
    assert sent.weights.shape == (3, everything)


def test_biases_alone_are_a_column() -> None:
    model = model_of("gcn", dim=0)
    who = members(2, 3)
    found = found_of(model, who)
    sent = devices_of(model).upload(who, found)
    assert sent.rows.shape == (4, 1)
    assert sent.weights.shape == (2, 0)
    assert np.array_equal(sent.rows[:, 0], found.item_biases.numpy())
