"""Losses of single releases: pairs dominate the exact laws, and bad parameters are refused."""

import math
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ldp.discrete_gaussian import DiscreteGaussian
from ldp.discrete_laplace import DiscreteLaplace
from ldp.k_ary import KaryRandomizedResponse
from ldp.losses import (
    GaussianLoss,
    LaplaceLoss,
    Loss,
    Pair,
    PureLoss,
    ResponseLoss,
    SkellamLoss,
    ZcdpLoss,
    loss_of,
)
from ldp.mechanism import Mechanism
from ldp.randomized_response import RandomizedResponse
from ldp.renyi_curves import ORDERS, renyi_curve
from ldp.unary import UnaryEncoding
from mpc.core.errors import ParameterError
from mpc.core.rng import ONE
from tests.support.composed import CONTEXT, Law, delta_of, gaussian, laplace, response, skellam

EPSILONS = [0.0, 1e-9, 0.01, 0.3, 1.0, 2.5, 7.0, 30.0]

EXACT: list[tuple[Loss, Law]] = [
    *[(PureLoss(epsilon), response(epsilon)) for epsilon in (1e-9, 0.1, 1.0, 20.0)],
    *[(loss, response(loss.epsilon, loss.k)) for loss in (ResponseLoss(2, 3 * ONE // 4),)],
    *[(loss, response(loss.epsilon, loss.k)) for loss in (ResponseLoss(7, ONE // 2),)],
    *[(LaplaceLoss(scale, s), laplace(scale, s)) for scale, s in [(0.5, 1), (2.0, 5), (1e3, 3)]],
    *[(GaussianLoss(sigma, s), gaussian(sigma, s, 80)) for sigma, s in [(0.7, 1), (5.0, 4)]],
    *[(SkellamLoss(v, s), skellam(v, s, 90)) for v, s in [(0.5, 1), (25.0, 4), (4.0, 30)]],
]

NAMES = [repr(loss) for loss, _ in EXACT]


def hockey_stick(pair: Pair, epsilon: float) -> float:
    above = pair.losses > epsilon
    gained = -np.expm1(epsilon - pair.losses[above]) * pair.masses[above]
    return pair.infinite + float(np.sum(gained))


@pytest.mark.parametrize(("loss", "law"), EXACT, ids=NAMES)
def test_a_pair_dominates_the_exact_law_and_hardly_exceeds_it(loss: Loss, law: Law) -> None:
    """At every epsilon its delta is at least the exact one, up to the rounding of this sum."""
    pair = loss.pair()
    assert pair is not None
    assert float(np.sum(pair.masses)) + pair.infinite >= 1
    for epsilon in EPSILONS:
        exact = float(delta_of(law, epsilon))
        found = hockey_stick(pair, epsilon)
        assert found >= exact * (1 - 1e-14)
        assert found <= exact * (1 + 1e-11) + 1e-11


@pytest.mark.parametrize(("loss", "law"), EXACT, ids=NAMES)
def test_renyi_curves_are_above_the_exact_divergence_and_near_it(loss: Loss, law: Law) -> None:
    curve = renyi_curve(loss, loss.pair())
    for index in range(0, ORDERS.size, 45):
        order = float(ORDERS[index])
        exact = float(divergence(law, order))
        assert curve[index] >= exact
        if loss.epsilon < math.inf:  # the Gaussian's rho is no exact divergence
            assert curve[index] <= exact * (1 + 1e-9) + 1e-11 / (order - 1)


def divergence(law: Law, order: float) -> Decimal:
    """The Renyi divergence of the law's two sides."""
    with localcontext(CONTEXT):
        a = Decimal(order)
        return sum((p**a * q ** (1 - a) for p, q in law if p and q), Decimal(0)).ln() / (a - 1)


def test_renyi_curves_agree_with_dp_accounting() -> None:
    from dp_accounting import (  # noqa: PLC0415
        NeighboringRelation,
        RandomizedResponseDpEvent,
        ZCDpEvent,
    )
    from dp_accounting.rdp import RdpAccountant  # noqa: PLC0415

    orders = ORDERS[::9]
    theirs = RdpAccountant(orders, NeighboringRelation.REPLACE_ONE)
    theirs.compose(RandomizedResponseDpEvent(0.75, 4))
    loss = ResponseLoss(4, 7 * ONE // 16)  # the truth with 1/4 + 3/4 * 1/4
    assert renyi_curve(loss, loss.pair())[::9] == pytest.approx(theirs.rdp, rel=1e-9)
    theirs = RdpAccountant(orders, NeighboringRelation.REPLACE_ONE)
    theirs.compose(ZCDpEvent(0.3))
    assert renyi_curve(ZcdpLoss(0.3), None)[::9] == pytest.approx(theirs.rdp, rel=1e-9)


@given(st.floats(1e-6, 40), st.integers(2, 1000))
@settings(deadline=None)
def test_the_loss_of_a_response_is_that_of_the_mechanism(epsilon: float, k: int) -> None:
    mechanism = KaryRandomizedResponse.from_epsilon(k, epsilon)
    loss = loss_of(mechanism)
    assert loss == ResponseLoss(k, mechanism.keep)
    assert loss.epsilon == mechanism.epsilon
    pair = loss.pair()
    assert pair is not None
    assert pair.masses[2] >= mechanism.keep / ONE
    assert pair.losses[2] == loss.epsilon


def test_mechanisms_have_the_tightest_loss_that_is_known() -> None:
    coin = RandomizedResponse.from_epsilon(1.0)
    assert loss_of(coin) == ResponseLoss(2, coin.keep)
    assert loss_of(DiscreteLaplace(2.5, 3)) == LaplaceLoss(Fraction(5, 2), 3)
    noise: Mechanism = DiscreteGaussian(4, 2)
    assert loss_of(noise) == GaussianLoss(4.0, 2)
    assert loss_of(noise).rho == DiscreteGaussian(4, 2).rho
    unary = UnaryEncoding.optimized(5, 1.0)
    assert loss_of(unary) == PureLoss(unary.epsilon)


@given(st.floats(1e-3, 1e6), st.integers(1, 1000))
def test_losses_are_rounded_up(scale: float, sensitivity: int) -> None:
    noise, normal = LaplaceLoss(scale, sensitivity), GaussianLoss(scale, sensitivity)
    assert Fraction(noise.epsilon) * Fraction(scale) >= sensitivity
    assert Fraction(noise.rho) >= Fraction(noise.epsilon) ** 2 / 2
    assert Fraction(normal.rho) * 2 * Fraction(scale) ** 2 >= sensitivity**2
    assert normal.epsilon == math.inf
    third = Fraction(1, 3)
    assert Fraction(PureLoss(third).epsilon) > third  # type: ignore[arg-type]
    assert Fraction(ZcdpLoss(third).rho) > third  # type: ignore[arg-type]


def test_a_pair_with_too_many_atoms_is_replaced_or_left_out() -> None:
    wide = LaplaceLoss(1.0, 2**20)
    pair = wide.pair()
    assert pair.losses.tolist() == [-(2.0**20), 2.0**20]
    assert GaussianLoss(2.0**17).pair() is None
    assert PureLoss(math.inf).pair().infinite == 1.0
    assert ZcdpLoss(1.0).pair() is None


NO_NUMBER = [0, -1, math.nan, math.inf, "1", True, None, 1j]


@pytest.mark.parametrize("bad", NO_NUMBER)
def test_parameters_outside_of_their_domain_are_refused(bad: float) -> None:
    for make, name in ((ZcdpLoss, "rho"), (LaplaceLoss, "scale"), (GaussianLoss, "sigma")):
        with pytest.raises(ParameterError, match=name):
            make(bad)
    if bad not in (0, math.inf):
        with pytest.raises(ParameterError, match="epsilon"):
            PureLoss(bad)


@pytest.mark.parametrize("bad", [0, -1, 1.0, True, "2"])
def test_whole_numbers_are_whole_numbers(bad: int) -> None:
    for make in (LaplaceLoss, GaussianLoss):
        with pytest.raises(ParameterError, match="sensitivity"):
            make(1.0, bad)
    with pytest.raises(ParameterError, match="k"):
        ResponseLoss(bad, ONE - 1)
    with pytest.raises(ParameterError, match="keep"):
        ResponseLoss(2, bad)


def test_a_response_must_tell_the_truth_more_often_than_a_lie() -> None:
    for k, keep in ((2, ONE // 2), (4, ONE // 4), (2, ONE)):
        with pytest.raises(ParameterError, match="keep"):
            ResponseLoss(k, keep)
    assert ResponseLoss(4, ONE // 4 + 1).epsilon > 0
