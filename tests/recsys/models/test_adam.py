"""Adam against its algorithm box, entry by entry."""

import numpy as np
import pytest
import torch

from recsys.models.adam import adam_step


def test_steps_are_those_of_algorithm_1() -> None:
    rng = np.random.default_rng(0)
    values, gradients = rng.standard_normal((2, 3)), rng.standard_normal((5, 2, 3))
    expected = values.copy()
    first, second = np.zeros((2, 3)), np.zeros((2, 3))
    for at in np.ndindex(2, 3):
        m = v = 0.0
        for step, gradient in enumerate(gradients, start=1):
            m = 0.9 * m + 0.1 * gradient[at]
            v = 0.999 * v + 0.001 * gradient[at] ** 2
            unbiased = m / (1 - 0.9**step), v / (1 - 0.999**step)
            expected[at] -= 0.01 * unbiased[0] / (unbiased[1] ** 0.5 + 1e-8)
    for step, gradient in enumerate(gradients, start=1):
        adam_step(values, gradient, first, second, rate=0.01, step=step)
    assert values == pytest.approx(expected, rel=1e-12)


def test_steps_are_those_of_pytorch() -> None:
    """Fifty steps of gradients of any size, a rate that changes, zeros among them."""
    rng = np.random.default_rng(1)
    values, first, second = rng.standard_normal((4, 5)), np.zeros((4, 5)), np.zeros((4, 5))
    theirs = torch.from_numpy(values.copy()).requires_grad_()
    optimizer = torch.optim.Adam([theirs], lr=1.0)
    for step in range(1, 51):
        gradient = (
            rng.standard_normal((4, 5)) * 10.0 ** rng.integers(-6, 6) * (rng.random((4, 5)) < 0.8)
        )
        theirs.grad = torch.from_numpy(gradient.copy())
        optimizer.param_groups[0]["lr"] = 0.9**step
        optimizer.step()
        adam_step(values, gradient, first, second, rate=0.9**step, step=step)
    assert values == pytest.approx(theirs.detach().numpy(), rel=1e-12, abs=1e-14)


def test_a_first_step_has_the_length_of_the_rate_whatever_the_gradient() -> None:
    values, first, second = np.zeros((3, 3))
    adam_step(values, np.array([1e-3, -5.0, 0.0]), first, second, rate=0.1, step=1)
    assert values == pytest.approx([-0.1, 0.1, 0.0], rel=1e-4)
