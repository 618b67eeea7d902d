"""NGCF against its equations, node by node."""

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from recsys.baselines._network_learner import parameters
from recsys.baselines._product_head import ProductLearner, rating_tables
from recsys.baselines._torch import NO_DROPOUT, tensors
from recsys.baselines.ngcf import HOPS, NGCF, SLOPE, Propagation
from recsys.run import MemoryRun
from recsys.simulation import SimulationRng
from tests.recsys.baselines.networks import (
    ROWS,
    SIZES,
    check_gradients,
    config,
    everyone,
    few,
    wide,
)

Floats = NDArray[np.float64]


def learner(penalty: float = 0.3) -> ProductLearner:
    made = NGCF(config("ngcf", dim=3, penalty=penalty))
    return made._learner(few(), SimulationRng(0), MemoryRun())


def messages(arrays: dict[str, Floats]) -> tuple[Floats, Floats]:
    """Equations 3 to 6 and 9, one node after the other."""
    users, items = SIZES
    near: list[list[int]] = [[] for _ in range(users + items)]
    for user, item, _ in ROWS:
        near[user].append(users + item)
        near[users + item].append(user)
    layers = [np.vstack([arrays["users"], arrays["items"]])]
    for hop in range(HOPS):
        own, first, second = layers[-1], arrays["sums"][hop], arrays["products"][hop]
        found = []
        for node in range(users + items):
            total = own[node] @ first
            for other in near[node]:
                message = own[other] @ first + (own[other] * own[node]) @ second
                total = total + message / np.sqrt(len(near[node]) * len(near[other]))
            found.append(np.where(total > 0, total, SLOPE * total))
        layers.append(np.array(found))
    rows = np.hstack(layers)
    return rows[:users], rows[users:]


def test_three_hops_are_those_of_the_paper() -> None:
    values = wide(parameters(learner().state.arrays))
    arrays = {name: value.detach().numpy() for name, value in values.items()}
    found = Propagation(rating_tables(few())).represent(values, NO_DROPOUT)
    for ours, theirs in zip(found, messages(arrays), strict=True):
        assert ours.detach().numpy() == pytest.approx(theirs, rel=1e-5)
        assert ours.shape[1] == 3 * (HOPS + 1)


def test_the_graph_does_not_know_ratings() -> None:
    tables = rating_tables(few())
    values = tensors(parameters(learner().state.arrays))
    other = {**tables, "values": tables["values"][::-1].copy()}
    first, second = (Propagation(of).represent(values, NO_DROPOUT) for of in (tables, other))
    assert all(torch.equal(one, two) for one, two in zip(first, second, strict=True))


def test_who_has_no_rating_has_zeros() -> None:
    values = tensors(parameters(learner().state.arrays))
    users, items = Propagation(rating_tables(few())).represent(values, NO_DROPOUT)
    assert not users[4].any()
    assert not items[4:].any()
    assert users[:4].any(dim=1).all()


def test_a_rating_is_mean_biases_and_the_product_of_rows() -> None:
    made = learner()
    arrays = made.state.arrays
    u, v = messages({name: arrays[name] for name in ("users", "items", "sums", "products")})
    table = arrays["mean"] + arrays["user_bias"][:, np.newaxis] + arrays["item_bias"] + u @ v.T
    found = made.scorer.score(arrays, *everyone()).reshape(SIZES)
    assert found == pytest.approx(table, rel=1e-5)


def test_the_objective_has_all_three_parts() -> None:
    """Squared error, embeddings as often as they are rated, and 5 / n times the biases."""
    made = learner(penalty=0.3)
    arrays = made.state.arrays
    rows = np.array([0, 2, 3])
    errors, norms = [], []
    u, v = messages({name: arrays[name] for name in ("users", "items", "sums", "products")})
    for user, item, value in (ROWS[row] for row in rows):
        biases = arrays["mean"][0] + arrays["user_bias"][user] + arrays["item_bias"][item]
        errors.append(value - biases - u[user] @ v[item])
        norms.append((arrays["users"][user] ** 2).sum() + (arrays["items"][item] ** 2).sum())
    biases = (arrays["user_bias"] ** 2).sum() + (arrays["item_bias"] ** 2).sum()
    expected = np.mean(np.square(errors)) + 0.3 * np.mean(norms) + 5 * biases / len(ROWS)
    found, squared = made.objective(tensors(parameters(arrays)), rows, NO_DROPOUT)
    assert float(found) == pytest.approx(expected, rel=1e-5)
    assert squared == pytest.approx(np.sum(np.square(errors)), rel=1e-5)


def test_gradients_are_those_of_the_objective() -> None:
    check_gradients(learner())
