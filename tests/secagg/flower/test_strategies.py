"""Which strategies of Flower's a hidden mean serves: all of them are judged, by what they do."""

import inspect
from collections.abc import Iterable
from typing import Any

import pytest
from flwr.app import ArrayRecord, Message, MetricRecord
from flwr.serverapp import strategy as flower
from flwr.serverapp.strategy import FedAvg, Strategy

from secagg.flower import SecAggConfig, SecAggRefused
from secagg.flower.strategies import MEAN, SINGLE, calling_strategy, check_strategy, wrapped
from tests.secagg.flower.by_hand import MODEL, arrays
from tests.secagg.flower.secure_rounds import Session

CONFIG = SecAggConfig()
CHECKED = SecAggConfig(strategy_checked=True)

ALL = [
    kind
    for _, kind in inspect.getmembers(flower, inspect.isclass)
    if issubclass(kind, Strategy) and kind is not Strategy
]


def made(kind: type[Strategy]) -> Strategy:
    """A strategy with whatever it needs."""
    needed: dict[str, Any] = {
        "strategy": FedAvg(),
        "noise_multiplier": 0.1,
        "clipping_norm": 1.0,
        "num_sampled_clients": 3,
        "num_malicious_nodes": 0,
        "train_loss_key": "loss",
        "client_learning_rate": 0.1,
    }
    parameters = inspect.signature(kind.__init__).parameters
    return kind(**{name: value for name, value in needed.items() if name in parameters})


def test_every_strategy_of_flower_s_is_judged_one_way_or_the_other() -> None:
    assert set(ALL) == set(SINGLE) | set(MEAN)
    assert not set(SINGLE) & set(MEAN)


@pytest.mark.parametrize("kind", ALL, ids=lambda kind: kind.__name__)
def test_a_strategy_that_needs_single_updates_is_refused_with_the_reason(
    kind: type[Strategy],
) -> None:
    if kind in MEAN:
        check_strategy(made(kind), CONFIG)
        return
    for config in (CONFIG, CHECKED):  # no word for it makes Krum right
        with pytest.raises(SecAggRefused, match=SINGLE[kind]):
            check_strategy(made(kind), config)


@pytest.mark.parametrize("kind", ALL, ids=lambda kind: kind.__name__)
def test_a_subclass_that_averages_as_its_base_does_is_judged_as_its_base(
    kind: type[Strategy],
) -> None:
    class Own(kind):  # type: ignore[valid-type,misc]
        def summary(self) -> None:
            """Say nothing."""

    if kind in MEAN:
        check_strategy(made(Own), CONFIG)
    else:
        with pytest.raises(SecAggRefused):
            check_strategy(made(Own), CONFIG)


class Own(FedAvg):
    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        return super().aggregate_train(server_round, replies)


def test_a_strategy_with_an_average_of_its_own_needs_its_author_s_word() -> None:
    with pytest.raises(SecAggRefused, match=r"Own\.aggregate_train .*strategy_checked=True"):
        check_strategy(Own(), CONFIG)
    check_strategy(Own(), CHECKED)
    patched = FedAvg()
    patched.aggregate_train = lambda *_: (None, None)  # type: ignore[method-assign]
    with pytest.raises(SecAggRefused, match="strategy_checked"):
        check_strategy(patched, CONFIG)


def test_what_is_within_a_wrapper_is_judged_too() -> None:
    wrapper = flower.DifferentialPrivacyClientSideFixedClipping
    check_strategy(wrapper(FedAvg(), 0.1, 1.0, 3), CONFIG)
    with pytest.raises(SecAggRefused, match="FedMedian needs single updates"):
        check_strategy(wrapper(flower.FedMedian(), 0.1, 1.0, 3), CONFIG)
    circle = wrapper(FedAvg(), 0.1, 1.0, 3)
    circle.strategy = circle
    assert len(list(wrapped(circle))) == 1


def test_accounts_for_equal_weights_are_refused_where_weights_are_hidden() -> None:
    wrapper = flower.DifferentialPrivacyClientSideFixedClipping(FedAvg(), 1.0, 1.0, 3)
    wrapper.accountant = object()  # type: ignore[assignment]
    with pytest.raises(SecAggRefused, match="accounts for equal weights"):
        check_strategy(wrapper, CONFIG)


def test_strategy_and_config_weight_by_the_same_key() -> None:
    strategy = FedAvg(weighted_by_key="n")
    with pytest.raises(SecAggRefused, match="weights by 'n', the config by 'num-examples'"):
        check_strategy(strategy, CONFIG)
    check_strategy(strategy, SecAggConfig(weight_key="n"))


def test_the_strategy_is_found_above_whoever_asks() -> None:
    class Asking(FedAvg):
        def ask(self) -> Strategy | None:
            return next(calling_strategy() for _ in range(1))

    asking = Asking()
    assert asking.ask() is asking
    assert calling_strategy() is None


@pytest.mark.parametrize("kind", [flower.FedMedian, Own], ids=lambda kind: kind.__name__)
def test_the_grid_refuses_before_anything_leaves(kind: type[FedAvg]) -> None:
    session = Session(3)
    strategy = kind(fraction_evaluate=0.0, min_train_nodes=3, min_available_nodes=3)
    with pytest.raises(SecAggRefused):
        strategy.start(grid=session.secure, initial_arrays=arrays(MODEL), num_rounds=1)
    assert session.grid.passed == []


def test_a_wrapped_strategy_trains_through_the_grid() -> None:
    session = Session(3)
    inner = FedAvg(fraction_evaluate=0.0, min_train_nodes=3, min_available_nodes=3)
    wrapper = flower.DifferentialPrivacyClientSideFixedClipping(inner, 0.0, 1.0, 3)
    result = wrapper.start(grid=session.secure, initial_arrays=arrays(MODEL), num_rounds=1)
    assert list(result.arrays) == list(MODEL)
    with pytest.raises(SecAggRefused, match="FedTrimmedAvg"):
        flower.DifferentialPrivacyClientSideFixedClipping(
            flower.FedTrimmedAvg(min_train_nodes=3, min_available_nodes=3), 0.0, 1.0, 3
        ).start(grid=session.secure, initial_arrays=arrays(MODEL), num_rounds=1)
