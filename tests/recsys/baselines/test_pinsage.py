"""PinSage against its algorithm, item by item."""

import numpy as np
import pytest
from numpy.typing import NDArray

from recsys.baselines import pinsage
from recsys.baselines._network_learner import parameters
from recsys.baselines._product_head import ProductLearner
from recsys.baselines._torch import NO_DROPOUT, tensors
from recsys.baselines.pinsage import HOPS, Convolution, PinSage, neighbour_tables
from recsys.run import MemoryRun
from recsys.simulation import SimulationRng
from tests.recsys.baselines.networks import SIZES, check_gradients, config, everyone, few, wide

Floats = NDArray[np.float64]


def learner(*, residual: bool = True) -> ProductLearner:
    made = PinSage(config("pinsage", dim=3, penalty=0.3, residual=residual))
    return made._learner(few(), SimulationRng(0), MemoryRun())


def unit(x: Floats) -> Floats:
    length = float(np.sqrt((x * x).sum()))
    return x / length if length else x


def convolved(arrays: dict[str, Floats], tables: dict[str, NDArray[np.float64]]) -> Floats:
    """Algorithm 1 for all items, hop by hop, then the dense layers of algorithm 2."""
    x = arrays["items"]
    for hop in range(HOPS):
        found = []
        for item, own in enumerate(x):
            pooled = np.zeros(3)
            for source, target, weight in zip(
                tables["source"], tables["target"], tables["weight"], strict=True
            ):
                if source == item:
                    message = x[target] @ arrays["near"][hop] + arrays["near_bias"][hop]
                    pooled += weight * np.maximum(message, 0.0)
            both = np.concatenate([own, pooled])
            merged = np.maximum(both @ arrays["merge"][hop] + arrays["merge_bias"][hop], 0.0)
            found.append(unit(merged))
        x = np.array(found)
    x = np.maximum(x @ arrays["dense"] + arrays["dense_bias"], 0.0) @ arrays["last"]
    if tables["residual"][0]:
        x = x + arrays["items"]
    return np.array(
        [unit(row) if rated else 0 * row for row, rated in zip(x, tables["rated"], strict=True)]
    )


@pytest.mark.parametrize("residual", [True, False])
def test_two_convolutions_are_those_of_the_paper(residual: bool) -> None:
    made = learner(residual=residual)
    values = wide(parameters(made.state.arrays))
    arrays = {name: value.detach().numpy() for name, value in values.items()}
    users, items = Convolution(made.scorer.tables).represent(values, NO_DROPOUT)
    assert items.detach().numpy() == pytest.approx(convolved(arrays, made.scorer.tables), rel=1e-5)
    assert np.array_equal(users.detach().numpy(), arrays["users"])


def test_a_rating_is_mean_biases_and_the_product_of_rows() -> None:
    made = learner()
    arrays = made.state.arrays
    v = convolved(arrays, made.scorer.tables)
    biases = arrays["mean"] + arrays["user_bias"][:, np.newaxis] + arrays["item_bias"]
    found = made.scorer.score(arrays, *everyone()).reshape(SIZES)
    assert found == pytest.approx(biases + arrays["users"] @ v.T, rel=1e-5)


def test_rated_items_have_norm_one_and_others_none() -> None:
    made = learner()
    values = tensors(parameters(made.state.arrays))
    items = Convolution(made.scorer.tables).represent(values, NO_DROPOUT)[1]
    assert items.norm(dim=1).numpy() == pytest.approx([1, 1, 1, 1, 0, 0], rel=1e-5)


def test_neighbours_are_the_most_visited(monkeypatch: pytest.MonkeyPatch) -> None:
    """Item 3 shares no user with others; items 0, 1 and 2 share one each."""
    sim = SimulationRng(0)
    tables = neighbour_tables(few(), config("pinsage"), sim)
    pairs = set(zip(tables["source"].tolist(), tables["target"].tolist(), strict=True))
    assert pairs == {(a, b) for a in range(3) for b in range(3) if a != b}
    monkeypatch.setattr(pinsage, "NEIGHBOURS", 1)
    only = neighbour_tables(few(), config("pinsage"), sim)
    assert np.array_equal(only["source"], [0, 1, 2])
    assert np.array_equal(only["weight"], [1.0, 1.0, 1.0])
    assert np.array_equal(tables["rated"], [True] * 4 + [False] * 2)


def test_the_penalty_is_of_users_as_often_as_they_rate() -> None:
    made = learner()
    arrays = made.state.arrays
    values = tensors(parameters(arrays))
    rows = np.array([0, 1, 4])  # users 0, 0 and 2
    found = [
        float(of.objective(values, rows, NO_DROPOUT)[0])
        for of in (
            made,
            PinSage(config("pinsage", dim=3, penalty=0.0))._learner(
                few(), SimulationRng(0), MemoryRun()
            ),
        )
    ]
    norms = (arrays["users"] ** 2).sum(axis=1)
    assert found[0] - found[1] == pytest.approx(0.3 * (2 * norms[0] + norms[2]) / 3, rel=1e-3)


def test_gradients_are_those_of_the_objective() -> None:
    check_gradients(learner())
