"""Every method bounds the exact composition from above, and the tight ones are tight."""

import math
import subprocess
import sys
from collections.abc import Sequence
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ldp.accounting import compose
from ldp.composition import (
    METHODS,
    Bound,
    Composition,
    Release,
    best_bound,
    compose_releases,
    shown_bound,
)
from ldp.discrete_gaussian import DiscreteGaussian
from ldp.losses import (
    GaussianLoss,
    LaplaceLoss,
    Loss,
    PureLoss,
    ResponseLoss,
    SkellamLoss,
    ZcdpLoss,
)
from ldp.randomized_response import RandomizedResponse
from mpc.core.errors import MissingLibraryError, ParameterError, ToolkitError
from mpc.core.rng import ONE
from tests.support.composed import Law, epsilon_of, gaussian, laplace, response, skellam, together

DELTA = 1e-6


def cost(losses: Sequence[tuple[Loss, int]], delta: float = DELTA) -> Composition:
    return compose_releases([Release(loss, count) for loss, count in losses], delta)


def kary(k: int, odds: int) -> tuple[ResponseLoss, Law]:
    """The k-ary response whose truth is exactly ``odds`` times as likely as each other value."""
    keep = round(Fraction(ONE * odds, odds + k - 1))
    loss = ResponseLoss(k, keep)
    return loss, response(loss.epsilon, k)


QUARTER, QUARTER_LAW = kary(5, 4)
NOISE, NOISE_LAW = LaplaceLoss(2.0, 3), laplace(2.0, 3)
SHARED, SHARED_LAW = SkellamLoss(6.0), skellam(6.0, 1, 60)
NORMAL, NORMAL_LAW = GaussianLoss(2.0), gaussian(2.0, 1, 45)
PURE = {epsilon: (PureLoss(epsilon), response(epsilon)) for epsilon in (0.01, 0.1, 0.5, 1.0, 3.0)}

Case = list[tuple[tuple[Loss, Law], int]]
CASES: dict[str, Case] = {
    "one report": [(PURE[1.0], 1)],
    "equal": [(PURE[0.5], 12)],
    "small": [(PURE[0.01], 10)],
    "large": [(PURE[3.0], 5)],
    "different": [(PURE[0.1], 3), (PURE[1.0], 2), (PURE[3.0], 1)],
    "k-ary": [((QUARTER, QUARTER_LAW), 6)],
    "discrete Laplace": [((NOISE, NOISE_LAW), 4)],
    "discrete Gaussian": [((NORMAL, NORMAL_LAW), 2)],
    "Skellam": [((SHARED, SHARED_LAW), 2)],
    "mixed": [((QUARTER, QUARTER_LAW), 2), ((NOISE, NOISE_LAW), 2), (PURE[0.5], 2)],
}


def truth(case: Case, delta: float) -> float:
    laws = [law for (_, law), count in case for _ in range(count)]
    return float(epsilon_of(together(laws), delta))


@pytest.mark.parametrize("delta", [1e-7, 1e-3, 0.2])
@pytest.mark.parametrize("name", CASES)
def test_every_method_bounds_the_exact_composition_and_pld_is_within_a_thousandth(
    name: str, delta: float
) -> None:
    """Against all combinations of outcomes, with 80 digits."""
    case = CASES[name]
    exact = truth(case, delta)
    found = cost([(loss, count) for (loss, _), count in case], delta)
    for bound in found.bounds:
        assert bound.epsilon >= exact, bound.method
    assert found["pld"].epsilon <= exact + 1e-3
    assert found.best.epsilon <= exact + 1e-3


@given(
    st.floats(1e-3, 8),
    st.integers(1, 7),
    st.floats(1e-9, 0.5),
)
@settings(deadline=None)
def test_advanced_composition_of_equal_losses_is_exact(
    epsilon: float, k: int, delta: float
) -> None:
    exact = epsilon_of(together([response(epsilon)] * k), delta)
    found = compose_releases([Release(PureLoss(epsilon), k)], delta, methods=["advanced"])
    assert Fraction(exact) <= Fraction(found.best.epsilon)
    assert found.best.epsilon <= float(exact) * (1 + 1e-15)


def test_a_twin_that_charges_a_repeated_release_once_is_caught() -> None:
    """dp-accounting's own accountant of privacy loss distributions does, which is why we don't use
    it: in version 0.6.0 ten randomized responses cost as much as one."""
    from dp_accounting import (  # noqa: PLC0415
        NeighboringRelation,
        RandomizedResponseDpEvent,
        SelfComposedDpEvent,
    )
    from dp_accounting.pld import PLDAccountant  # noqa: PLC0415

    exact = truth([(PURE[1.0], 10)], DELTA)
    twin = PLDAccountant(NeighboringRelation.REPLACE_ONE)
    event = RandomizedResponseDpEvent(2 / (1 + math.e), 2)
    twin.compose(SelfComposedDpEvent(event, 10))
    assert twin.get_epsilon(DELTA) < 1.1
    assert exact > 9.9
    assert all(bound.epsilon >= exact for bound in cost([(PureLoss(1.0), 10)]).bounds)


@pytest.mark.parametrize("sigma", [0.5, 2.0, 30.0])
def test_one_discrete_gaussian_report_costs_what_its_exact_law_says(sigma: float) -> None:
    exact = DiscreteGaussian(sigma).epsilon_at(DELTA)
    found = cost([(GaussianLoss(sigma), 1)])
    assert exact <= found["pld"].epsilon <= exact + 1e-3
    assert exact <= found["rdp"].epsilon
    assert exact <= found["zcdp"].epsilon


def test_o11a_three_bits_at_epsilon_1_cost_their_user_3() -> None:
    found = compose_releases([Release.of(RandomizedResponse.from_epsilon(1.0), 3)], DELTA)
    assert found["basic"] == Bound("basic", 3.0, 0.0)
    assert found["basic"].epsilon == compose([1.0] * 3)
    for method in ("advanced", "rdp", "pld"):
        assert 2.99 < found[method].epsilon < 3.0


@pytest.mark.parametrize("losses", [[(PureLoss(0.1), 500)], [(NOISE, 50), (QUARTER, 30)]])
def test_methods_that_know_more_give_less(losses: list[tuple[Loss, int]]) -> None:
    found = cost(losses)
    assert found["advanced"].epsilon < found["basic"].epsilon
    assert found["rdp"].epsilon < found["zcdp"].epsilon
    assert found["pld"].epsilon < found["rdp"].epsilon
    assert found["pld"].epsilon < found["advanced"].epsilon * (1 + 1e-3)


def test_many_releases_cost_about_their_root_times_more() -> None:
    """The optimum, a closed form that holds for any list, and the others between the two."""
    found = cost([(PureLoss(0.01), 10_000)])
    assert found["basic"].epsilon == pytest.approx(100)
    assert found["advanced"].epsilon == pytest.approx(4.9, rel=0.03)
    for method in ("zcdp", "rdp", "pld"):
        assert found["advanced"].epsilon <= found[method].epsilon < 5.3


def test_equal_losses_may_be_counted_or_listed() -> None:
    listed = compose_releases([Release(QUARTER)] * 5 + [Release(NORMAL)] * 2, DELTA)
    counted = compose_releases([Release(NORMAL, 2), Release(QUARTER, 5)], DELTA)
    assert [bound.method for bound in counted.bounds] == list(METHODS)
    for bound in counted.bounds:
        assert listed[bound.method].epsilon == pytest.approx(bound.epsilon, rel=1e-9)


@pytest.mark.parametrize("losses", [[], [(PureLoss(1.0), 0)], [(PureLoss(0.0), 7), (NORMAL, 0)]])
def test_nothing_released_costs_nothing(losses: list[tuple[Loss, int]]) -> None:
    assert {bound.epsilon for bound in cost(losses).bounds} == {0.0}
    assert cost(losses).best == Bound("basic", 0.0, 0.0)


def test_a_release_without_privacy_makes_the_whole_infinite() -> None:
    found = cost([(PureLoss(math.inf), 1), (PureLoss(0.1), 3), (NORMAL, 1)])
    assert {bound.epsilon for bound in found.bounds} == {math.inf}
    assert best_bound([Release(PureLoss(math.inf))], DELTA).epsilon == math.inf
    assert "infinity" in str(found)
    assert cost([(PureLoss(math.inf), 0)]).best.epsilon == 0.0


def test_what_a_method_cannot_say_is_infinite() -> None:
    found = cost([(NORMAL, 3)])
    assert found["basic"].epsilon == found["advanced"].epsilon == math.inf
    assert found.best.method == "pld"
    found = cost([(ZcdpLoss(0.1), 3), (PureLoss(0.5), 2)])
    assert [b.method for b in found.bounds if math.isinf(b.epsilon)] == ["basic", "advanced", "pld"]
    # A delta within reach of rounding: the law is not asked at all.
    assert compose_releases([Release(NOISE, 40)], 1e-18, methods=["pld"]).best.epsilon == math.inf


@pytest.mark.parametrize(
    "losses",
    [
        [(PureLoss(5e-324), 3)],
        [(PureLoss(1e-300), 2**63 - 1)],
        [(PureLoss(1e308), 5)],
        [(PureLoss(700.0), 4), (PureLoss(1e-12), 9)],
        [(PureLoss(1.0), 2**40)],
        [(GaussianLoss(1e-9), 2), (LaplaceLoss(1e-9, 2**40), 2)],
        [(GaussianLoss(2.0**40, 2**20), 2), (LaplaceLoss(2.0**40, 2**20), 2)],
        [(ZcdpLoss(2.0**64), 2**63 - 1), (ZcdpLoss(2.0**-64), 1)],
        [(ResponseLoss(2**40, ONE - 1), 3)],
    ],
)
def test_extreme_losses_give_numbers_without_a_warning(losses: list[tuple[Loss, int]]) -> None:
    found = cost(losses)
    for bound in found.bounds:
        assert bound.epsilon >= 0
    if not math.isinf(found["basic"].epsilon):
        assert found.best.epsilon <= found["basic"].epsilon
        assert found["advanced"].epsilon <= found["basic"].epsilon
        if found["basic"].epsilon > 1:  # 1e-6 does not take so much off a sure loss
            assert found.best.epsilon > 0


@pytest.mark.parametrize(
    "delta",
    [0, 0.0, 1, 1.0, -1e-6, 2.0, math.nan, math.inf, "1e-6", True, None, Fraction(1, 10**400)],
)
def test_a_delta_outside_of_its_domain_is_refused(delta: float) -> None:
    with pytest.raises(ParameterError, match="delta"):
        compose_releases([Release(PureLoss(1.0))], delta)


def test_any_delta_inside_is_taken() -> None:
    for delta in (5e-324, 1e-300, 1 - 2**-53, Fraction(1, 3)):
        found = compose_releases([Release(PureLoss(0.5), 4)], delta)  # type: ignore[arg-type]
        assert 0 <= found.best.epsilon <= 2.0
        assert Fraction(found["pld"].delta) <= Fraction(delta)  # never one that is larger


@pytest.mark.parametrize("count", [-1, 2**63, 1.0, True, "3"])
def test_a_count_is_a_whole_number(count: int) -> None:
    with pytest.raises(ParameterError, match="count"):
        Release(PureLoss(1.0), count)


def test_methods_are_chosen_by_name() -> None:
    release = [Release(PureLoss(1.0), 2)]
    two = compose_releases(release, DELTA, methods=["zcdp", "basic"])
    assert [bound.method for bound in two.bounds] == ["zcdp", "basic"]
    with pytest.raises(ParameterError, match="pld"):
        two["pld"]
    for methods in ([], ["best"], ["basic", "Pld"]):
        with pytest.raises(ParameterError, match="methods must be some of"):
            compose_releases(release, DELTA, methods=methods)


@pytest.fixture
def without_dp_accounting(monkeypatch: pytest.MonkeyPatch) -> None:
    # None makes every import of it fail, as where it is not installed.
    for name in ("dp_accounting", "dp_accounting.rdp", "dp_accounting.pld"):
        monkeypatch.setitem(sys.modules, name, None)


@pytest.mark.usefixtures("without_dp_accounting")
def test_without_dp_accounting_its_methods_name_the_remedy() -> None:
    releases = [Release(PureLoss(1.0), 4), Release(QUARTER, 2)]
    for methods in (None, ["rdp"], ["pld"]):
        with pytest.raises(MissingLibraryError, match=r"pip install 'privrec\[recsys\]'") as caught:
            compose_releases(releases, DELTA, methods=methods)
        assert isinstance(caught.value, ToolkitError)
        assert isinstance(caught.value, ImportError)
    rest = compose_releases(releases, DELTA, methods=["basic", "advanced", "zcdp"])
    assert best_bound(releases, DELTA) == rest.best


def test_the_best_bound_asks_all_methods_where_that_can_help() -> None:
    releases = [Release(QUARTER, 60)]
    assert best_bound(releases, DELTA) == compose_releases(releases, DELTA).best
    assert best_bound(releases, DELTA).method == "pld"
    different = [Release(PureLoss(0.1), 40), Release(PureLoss(0.2), 40)]
    assert best_bound(different, DELTA) == compose_releases(different, DELTA).best
    many = [Release(PureLoss(1e-3), 2**21)]  # too many for the optimum
    assert best_bound(many, DELTA) == compose_releases(many, DELTA).best


def test_the_best_bound_of_equal_coins_loads_no_library() -> None:
    statements = (
        "from ldp.composition import Release, best_bound\n"
        "from ldp.randomized_response import RandomizedResponse\n"
        "coin = RandomizedResponse.from_epsilon(1.0)\n"
        "print(best_bound([Release.of(coin, 2184)], 1e-6).epsilon)\n"
        "import sys\nassert 'dp_accounting' not in sys.modules and 'scipy' not in sys.modules"
    )
    done = subprocess.run(
        [sys.executable, "-c", statements], capture_output=True, text=True, check=True
    )
    everything = cost([(PureLoss(1.0), 2184)])
    assert float(done.stdout) == everything.best.epsilon == everything["advanced"].epsilon


@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=4), st.floats(1e-12, 0.9))
def test_no_bound_is_shown_too_small(epsilons: list[float], delta: float) -> None:
    releases = [Release(PureLoss(epsilon)) for epsilon in epsilons]
    found = compose_releases(releases, delta, methods=["basic", "advanced", "zcdp"])
    rows = str(found).splitlines()
    assert rows[0].split() == ["method", "epsilon", "delta"]
    for row, bound in zip(rows[1:-1], found.bounds, strict=True):
        method, epsilon, at = row.split()
        assert method == bound.method
        assert float(epsilon.replace(",", "")) >= bound.epsilon
        assert float(at) == bound.delta
    assert rows[-1] == f"best: {found.best}"
    assert str(found.best).startswith(f"epsilon {shown_bound(found.best.epsilon)}")


def test_the_table_reads_as_one() -> None:
    assert str(cost([(PureLoss(1.0), 10)])).splitlines()[:3] == [
        "method    epsilon  delta",
        "basic     10       0.0",
        "advanced  10       1e-06",
    ]
    assert str(Bound("pld", 1.23456, 1e-6)) == "epsilon 1.2346 at delta = 1e-06, pld composition"
    assert str(Bound("basic", 3.0, 0.0)) == "epsilon 3, basic composition"
