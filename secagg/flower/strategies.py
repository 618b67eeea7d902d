"""Which strategies a hidden mean can serve, and why the others cannot be.

    check_strategy(calling_strategy(), config)

A strategy gets one reply for each survivor, all with the same mean arrays and weight 1. So those
that average first and compute with the mean alone do as they always do. One that looks at single
updates would find n equal ones, and be wrong without a word: it is refused.

Source: Flower 1.42, ``flwr.serverapp.strategy``, read class by class.
Model: of the server alone: a check against mistakes.
Leaks: nothing.
"""

import inspect
from collections.abc import Iterator, Mapping

from flwr.serverapp import strategy as flower
from flwr.serverapp.strategy import Strategy

from secagg.flower.config import SecAggConfig
from secagg.flower.refusal import SecAggRefused

# Why a strategy needs single updates, where several do for one reason.
DISTANCES = "it compares the clients' updates with each other"
ORDER = "it sorts the clients' updates entry by entry"
TREES = "it joins the clients' trees, which have no mean"
CLIPS = "it clips each client's update at the server"
BITS = "it counts the bits of single clients"

SINGLE: Mapping[type, str] = {
    flower.Krum: DISTANCES,
    flower.MultiKrum: DISTANCES,
    flower.Bulyan: DISTANCES,
    flower.FedMedian: ORDER,
    flower.FedTrimmedAvg: ORDER,
    flower.QFedAvg: "it weights each update by that client's loss",
    flower.FedXgbBagging: TREES,
    flower.FedXgbCyclic: "it passes one client's trees on to the next",
    flower.DifferentialPrivacyServerSideFixedClipping: CLIPS,
    flower.DifferentialPrivacyServerSideAdaptiveClipping: CLIPS,
    flower.DifferentialPrivacyClientSideAdaptiveClipping: BITS,
}
"""Strategies that need single updates, and what for."""

MEAN: tuple[type, ...] = (
    flower.FedAvg,
    flower.FedAvgM,
    flower.FedAdagrad,
    flower.FedAdam,
    flower.FedProx,
    flower.FedYogi,
    flower.DifferentialPrivacyClientSideFixedClipping,
)
"""Strategies whose ``aggregate_train`` needs the mean alone."""


def calling_strategy() -> Strategy | None:
    """The strategy that is the nearest caller's ``self``; None where none is among them."""
    frame = inspect.currentframe()
    while frame is not None:
        found = frame.f_locals.get("self")
        if isinstance(found, Strategy):
            return found
        frame = frame.f_back
    return None


def check_strategy(strategy: Strategy, config: SecAggConfig) -> None:
    """SecAggRefused, with the reason, unless the hidden mean is all that ``strategy`` needs."""
    for one in wrapped(strategy):
        judge(one, "aggregate_train", SINGLE, MEAN, checked=config.strategy_checked)
        if getattr(one, "accountant", None) is not None:
            raise SecAggRefused(
                f"{type(one).__name__} accounts for equal weights, which it cannot see in a "
                "secure round: its weights are hidden",
                remedy="leave accountant out, and account for the largest weight yourself",
            )
        key = getattr(one, "weighted_by_key", config.weight_key)
        if key != config.weight_key:
            raise SecAggRefused(
                f"the strategy weights by {key!r}, the config by {config.weight_key!r}",
                remedy=f"SecAggConfig(weight_key={key!r})",
            )


def wrapped(strategy: object) -> Iterator[object]:
    """The strategy, and those within it."""
    seen: set[int] = set()
    inner: object | None = strategy
    while inner is not None and id(inner) not in seen:
        seen.add(id(inner))
        yield inner
        inner = getattr(inner, "strategy", None)


def judge(
    strategy: object,
    method: str,
    single: Mapping[type, str],
    mean: tuple[type, ...],
    *,
    checked: bool,
) -> None:
    """SecAggRefused unless ``strategy`` takes ``method`` from a class in ``mean``, or is checked.

    A subclass of one in ``single`` counts as that one, unless it has a ``method`` of its own.
    """
    kind = type(strategy)
    owner = next((base for base in kind.__mro__ if method in vars(base)), kind)
    for base in kind.__mro__[: kind.__mro__.index(owner) + 1]:
        if base in single:
            raise SecAggRefused(
                f"{base.__name__} needs single updates, which secure aggregation hides: "
                f"{single[base]}",
                remedy="take a strategy that needs their mean alone, such as FedAvg",
            )
    known = owner in mean and method not in vars(strategy)
    if not known and not checked:
        raise SecAggRefused(
            f"{owner.__name__}.{method} is not known to need the mean of the updates alone",
            remedy="if it does, say so: SecAggConfig(strategy_checked=True)",
        )
