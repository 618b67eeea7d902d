"""PMF: its step is the gradient of the posterior, and factors alone can stand for biases."""

import numpy as np
import pytest

from recsys.baselines.pmf import PMF, PMFLearner
from recsys.data.ratings import Floats
from recsys.errors import DivergenceError
from recsys.simulation import SimulationRng
from tests.recsys.baselines.cases import config, low_rank, model
from tests.recsys.rating_worlds import world
from tests.support.differences import central_differences

# User 0 and item 0 occur more than once in the batch; user 5 and item 3 not at all.
ROWS = [(0, 0, 5.0), (0, 1, 3.0), (1, 0, 4.0), (2, 2, 1.0), (3, 1, 2.0)]
MEAN = 3.0


def learner(rate: float = 0.05) -> PMFLearner:
    """All ratings fit into one batch of six, and the factors are far from zero."""
    parts = world(ROWS, test=[], users=6, items=4)
    settings = config("pmf", dim=3, learning_rate=rate, penalty=0.3, decay=0.5)
    made = PMFLearner(parts, settings, SimulationRng(0))
    rng = np.random.default_rng(1)
    for name in ("users", "items"):
        made.state[name][:, :-1] = rng.standard_normal(made.state[name][:, :-1].shape)
    return made


def loss(users: Floats, items: Floats) -> float:
    """Half the negative logarithm of the posterior, but for a constant, sample by sample."""
    total = 0.0
    for user, item, value in ROWS:
        p, q = users[user, :-1], items[item, :-1]
        total += (value - MEAN - sum(p * q)) ** 2 + 0.3 * (sum(p * p) + sum(q * q))
    return total / 2


@pytest.mark.parametrize("name", ["users", "items"])
def test_a_step_is_the_finite_difference_of_the_loss(name: str) -> None:
    made = learner()
    before = {key: made.state[key].copy() for key in ("users", "items")}
    expected = central_differences(lambda: loss(**before), before[name])
    made.epoch(0)
    assert before[name] - made.state[name] == pytest.approx(0.05 * expected, abs=1e-8)
    assert expected.any()


def test_the_step_decays_from_epoch_to_epoch() -> None:
    first, third = learner(), learner()
    start = first.state["users"].copy()
    first.epoch(0)
    third.epoch(2)
    assert third.state["users"] - start == pytest.approx(0.25 * (first.state["users"] - start))


def test_the_loss_is_the_mean_squared_error_before_the_steps() -> None:
    made = learner()
    p, q = made.state["users"], made.state["items"]
    errors = [value - MEAN - p[user] @ q[item] for user, item, value in ROWS]
    assert made.epoch(0) == pytest.approx(np.mean(np.square(errors)))


def test_there_are_no_biases() -> None:
    arrays = model("pmf").fit(low_rank()).files.arrays
    assert not arrays["users"][:, -1].any()
    assert not arrays["items"][:, -1].any()


def test_a_learning_rate_far_too_large_is_divergence() -> None:
    with pytest.raises(DivergenceError, match="training diverged in epoch"):
        PMF(config("pmf", learning_rate=50.0, init_scale=1.0)).fit(low_rank())
