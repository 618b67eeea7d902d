"""Clipped Laplace noise protects every coordinate: the sensitivity, the grid, broken twins.

The law of the noise itself is walked in ``test_discrete_laplace_security``. Statistical tests use
fixed seeds and hold with probability above 1 - 1e-9 for a fresh one.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from ldp.clipped_laplace import ClippedLaplace
from mpc.core.prg import Prg
from mpc.core.rng import Rng
from tests.support.stats import fits_binomial, normal_half_width

FEDGNN = ClippedLaplace(0.1, 0.2)
Floats = NDArray[np.float64]
Steps = NDArray[np.int64]
Perturb = Callable[[Floats, Rng], Steps]


class Coins(Rng):
    """Gives one word to every draw of coins for rounding."""

    def __init__(self, word: int) -> None:
        self._word = np.uint64(word)

    def fill(self, out: NDArray[Any]) -> None:
        out[...] = self._word


@given(
    st.lists(st.floats(allow_nan=False), min_size=1, max_size=50),
    st.sampled_from([FEDGNN, ClippedLaplace(3, 1, 0), ClippedLaplace(2**-20, 2**-20, 62)]),
    st.integers(0, 2**64 - 1),
)  # fmt: skip
def test_whatever_the_input_it_is_within_the_bound_before_noise(
    x: list[float], mechanism: ClippedLaplace, coin: int
) -> None:
    """So two inputs are at most 2 bound apart, which is what the noise is made for."""
    steps = mechanism._clipped(np.array(x), Coins(coin))
    assert np.all(np.abs(steps) <= mechanism.bound)
    assert mechanism.noise.sensitivity == 2 * mechanism.bound


def test_the_sensitivity_is_reached() -> None:
    ends = FEDGNN._clipped(np.array([np.inf, -np.inf]), Coins(0))
    assert ends.tolist() == [FEDGNN.bound, -FEDGNN.bound]


@given(st.floats(-0.2, 0.2), st.integers(0, 2**64 - 1))
def test_rounding_comes_before_clipping(x: float, coin: int) -> None:
    """What is clipped is the rounded value, so that no rounding carries it past the bound."""
    below = math.floor(x * 2**16)
    for step in FEDGNN._clipped(np.array([x]), Coins(coin)):
        allowed = {max(-FEDGNN.bound, min(FEDGNN.bound, s)) for s in (below, below + 1)}
        assert int(step) in allowed


def honest(mechanism: ClippedLaplace) -> Perturb:
    return lambda x, rng: mechanism.perturb(x, rng=rng)


def last_in_clear(mechanism: ClippedLaplace) -> Perturb:
    """O06's twin: noise for n - 1 of n coordinates."""

    def perturb(x: Floats, rng: Rng) -> Steps:
        told = mechanism._clipped(x, rng)
        told[..., :-1] = mechanism.perturb(x[..., :-1], rng=rng)
        return told

    return perturb


def shared_noise(mechanism: ClippedLaplace) -> Perturb:
    """The twin that draws one noise for each vector: differences are told in clear."""

    def perturb(x: Floats, rng: Rng) -> Steps:
        noise = mechanism.noise.sample(x.shape[:-1], rng=rng)
        return mechanism._clipped(x, rng) + noise[..., np.newaxis]

    return perturb


def too_small(mechanism: ClippedLaplace) -> Perturb:
    """The broken twin of all noise: a tenth too small."""
    return honest(ClippedLaplace(mechanism.clip, mechanism.scale * 9 / 10, mechanism.frac_bits))


def meets_o06(perturb: Perturb, length: int) -> bool:
    """Every position of 100,000 vectors has noise of the law's variance and rarely none.

    A report equals its input with the probability of noise 0, about 1 / (2 scale) = 4e-5: exact
    binomial bounds. The variance is held to 6.1 standard errors, which are sqrt(5 / n) of it.
    """
    n = 100_000
    x = np.full((n, length), 0.0625)  # on the grid, so that rounding changes nothing
    noise = perturb(x, Prg(length.to_bytes(32, "big"))) - 4096
    rho = math.exp(-1 / float(FEDGNN.noise.scale))
    share = 1e-9 / length
    clear = all(
        fits_binomial(int(c), n, (1 - rho) / (1 + rho), share) for c in (noise == 0).sum(axis=0)
    )
    ratio = np.mean(noise.astype(np.float64) ** 2, axis=0) / FEDGNN.noise.variance
    return clear and bool(np.all(np.abs(ratio - 1) <= normal_half_width(math.sqrt(5 / n), share)))


@pytest.mark.parametrize("length", [1, 2, 8, 9, 64])
def test_o06_every_coordinate_gets_noise(length: int) -> None:
    assert meets_o06(honest(FEDGNN), length)
    assert not meets_o06(last_in_clear(FEDGNN), length)
    assert not meets_o06(too_small(FEDGNN), length)


def are_independent(perturb: Perturb) -> bool:
    """The products of two neighbours' noise average to 0; 10^6 products, 6.1 standard errors."""
    n = 1_000_000
    noise = perturb(np.zeros((n, 2)), Prg(b"i" * 32)).astype(np.float64)
    mean = float(np.mean(noise[:, 0] * noise[:, 1]))
    return abs(mean) <= normal_half_width(FEDGNN.noise.variance / math.sqrt(n))


def test_coordinates_are_independent() -> None:
    assert are_independent(honest(FEDGNN))
    assert not are_independent(shared_noise(FEDGNN))


def on_the_grid(values: Floats, step: float) -> bool:
    """O10: every output is a multiple of one power of two, none is -0.0, NaN or infinite."""
    whole = values / step  # exact, by a power of two
    return bool(
        np.isfinite(values).all()
        and np.array_equal(whole, np.rint(whole))
        and not np.any(np.signbit(values) & (values == 0))
    )


def float_laplace(x: Floats, rng: Rng) -> Floats:
    """O10's twin: inverse transform in doubles, as a textbook has it, scale 1."""
    uniform = (rng.words(x.shape, np.uint64) >> np.uint64(11)) * 2.0**-53 - 0.5
    return np.asarray(x - np.sign(uniform) * np.log1p(-2 * np.abs(uniform)))


ONE = ClippedLaplace(1, 1)


def reports(value: float) -> Floats:
    """100,000 outputs for one value at scale 1."""
    return ONE.values(ONE.perturb(np.full(100_000, value), rng=Prg(b"o10" + bytes(29))))


def test_o10_all_outputs_lie_on_one_grid() -> None:
    assert on_the_grid(reports(0.0), 2.0**-16)
    assert on_the_grid(reports(1.0), 2.0**-16)
    assert on_the_grid(reports(0.3), 2.0**-16)  # off the grid before, on it afterwards
    assert not on_the_grid(float_laplace(np.zeros(100_000), Prg(bytes(32))), 2.0**-16)


def test_o10_the_float_twin_tells_its_input() -> None:
    """Sums with 1 near 0 are multiples of 2^-53, and outputs for 0 there mostly are not."""
    near_zero = []
    for value in (0.0, 1.0):
        told = float_laplace(np.full(100_000, value), Prg(b"t" * 32))
        near_zero.append(told[np.abs(told) < 0.25] * 2.0**53)
    fits = [np.mean(v == np.rint(v)) for v in near_zero]
    assert fits[1] == 1.0
    assert fits[0] < 0.6
    for value in (0.0, 1.0):
        ours = reports(value)
        scaled = ours[np.abs(ours) < 0.25] * 2.0**53
        assert np.array_equal(scaled, np.rint(scaled))


def test_o10_each_output_can_come_from_the_other_input() -> None:
    """Reachable sets are equal: noise of every integer has positive probability.

    So the way from any output to any input is noise that the law can give, and the odds of the two
    inputs lie within e^epsilon. Outputs for both have every residue on the grid equally often.
    """
    steps = [np.rint(reports(value) * 2**16).astype(np.int64) for value in (0.0, 1.0)]
    log_ratio = (np.abs(steps[0] - 65536) - np.abs(steps[0])) / float(ONE.noise.scale)
    assert np.all(np.abs(log_ratio) <= 1.0 + 1e-12)  # of the 2 that the whole range may cost
    for remainder in range(4):
        shares = [np.mean(s % 4 == remainder) for s in steps]
        assert abs(shares[0] - shares[1]) < normal_half_width(math.sqrt(2 * 0.1875 / 100_000))


def test_outputs_are_not_cut_near_36_scales() -> None:
    """The noise's tail is walked elsewhere; here a scripted far draw comes through whole."""

    class Far(Rng):
        def fill(self, out: NDArray[Any]) -> None:
            out[...] = np.iinfo(out.dtype).max if self.left > 0 else 0
            self.left -= 1

        def __init__(self) -> None:
            self.left = 4

    told = ONE.noise.perturb(np.array([0]), rng=Far())
    assert abs(int(told[0])) > 100 * 65536
