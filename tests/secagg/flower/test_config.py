"""The server's config: what it takes, and what it refuses with which remedy."""

from fractions import Fraction
from typing import Any

import pytest

from mpc.core.errors import ParameterError
from secagg.flower.config import SecAggConfig
from secagg.flower.policy import Policy
from secagg.flower.terms import Terms
from secagg.full.params import RoundParams


def test_a_config_has_copies_of_its_mappings_that_nobody_changes() -> None:
    clips, metrics = {"*": 8.0, "steps": 1000.0}, {"loss": 10.0}
    config = SecAggConfig(clip=clips, metrics=metrics)
    before = config.terms(3, 60)
    clips["*"] = metrics["loss"] = 1.0
    assert config.terms(3, 60) == before
    with pytest.raises(TypeError):
        config.metrics["loss"] = 2.0  # type: ignore[index]
    assert SecAggConfig() == SecAggConfig()


@pytest.mark.parametrize("n", [3, 4, 5, 10, 64])
def test_the_default_shares_do_for_every_small_cohort_in_the_complete_graph(n: int) -> None:
    for variant in ("semi-honest", "malicious"):
        extra = {"roster": "roster.bin", "operator": bytes(32)} if variant == "malicious" else {}
        config = SecAggConfig(variant=variant, **extra)  # type: ignore[arg-type]
        assert config.plan(n, 2**20).is_complete


def test_larger_cohorts_have_few_neighbours() -> None:
    config = SecAggConfig(sparse_above=64)
    assert not config.plan(65, 2**20).is_complete
    assert SecAggConfig(threshold=40).plan(65, 2**20).is_complete


def test_a_plan_for_too_few_clients_says_what_would_do() -> None:
    with pytest.raises(ParameterError, match=r"of 3 clients .* may drop out"):
        SecAggConfig(dropout=0.4).plan(3, 1)


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"variant": "honest"}, "variant must be"),
        ({"dropout": 1.0}, r"dropout must lie in \[0, 1\)"),
        ({"dropout": float("nan")}, "dropout"),
        ({"corrupt": -0.1}, "corrupt"),
        ({"corrupt": True}, "corrupt must be a real number"),
        ({"dropout": 0.5, "corrupt": 0.5}, r"dropout \+ corrupt must be less than 1"),
        ({"security_bits": 0}, "security_bits"),
        ({"failure": 0.0}, "failure"),
        ({"sparse_above": -1}, "sparse_above"),
        ({"threshold": 1}, "threshold"),
        ({"min_clients": 2}, r"min_clients must lie in \[3"),
        ({"clip": 0.0}, "clip must lie"),
        ({"clip": {}}, "need a clip"),
        ({"clip": {"*": float("inf")}}, r"'\*': clip"),
        ({"clip": {3: 1.0}}, "names must be strings"),
        ({"frac_bits": 63}, "frac_bits"),
        ({"max_weight": 0}, "max_weight"),
        ({"weight_key": ""}, "weight key"),
        ({"metrics": {"loss": -1.0}}, "'loss': clip"),
        ({"metrics": {"num-examples": 1.0}}, "is the weight, and no metric"),
        ({"metrics": ["loss"]}, "metrics must map"),
        ({"deadline": 0}, "deadline must lie"),
        ({"deadline": float("inf")}, "deadline"),
        ({"train_deadline": "60"}, "train_deadline must be seconds"),
        ({"grace": -1.0}, "grace must lie"),
        ({"strategy_checked": 1}, "strategy_checked must be a bool"),
        ({"roster": "roster.bin"}, "belong to the malicious variant"),
        ({"operator": bytes(32)}, "belong to the malicious variant"),
        ({"variant": "malicious"}, "belong to the malicious variant"),
        (
            {"variant": "malicious", "roster": "r", "operator": bytes(31)},
            "operator must be the 32 bytes",
        ),
        (
            {"variant": "malicious", "roster": "r", "operator": bytes(32), "dropout": 0.45},
            r"2 dropout \+ corrupt must be less than 1",
        ),
    ],
)
def test_what_is_out_of_range_is_refused_by_name(wrong: dict[str, Any], told: str) -> None:
    with pytest.raises(ParameterError, match=told):
        SecAggConfig(**wrong)


def test_decimals_count_as_they_are_written() -> None:
    dropout, corrupt = 0.41, 0.18
    assert 2 * Fraction(dropout) + Fraction(corrupt) < 1  # as the floats that they are
    with pytest.raises(ParameterError, match="less than 1"):
        SecAggConfig(
            variant="malicious",
            roster="roster.bin",
            operator=bytes(32),
            dropout=dropout,
            corrupt=corrupt,
        )


def test_terms_say_what_the_config_does() -> None:
    config = SecAggConfig(clip={"*": 2.0}, metrics={"loss": 3.0}, max_weight=7, weight_key="w")
    terms = config.terms(5, 30)
    assert terms == Terms.make(
        clip={"*": 2.0},
        metrics={"loss": 3.0},
        frac_bits=16,
        ring_bits=30,
        parties=5,
        max_weight=7,
        weight_key="w",
    )


def test_the_default_policy_takes_a_round_of_the_default_config() -> None:
    config, n = SecAggConfig(), 10
    chosen = config.plan(n, 2**20)
    params = RoundParams(bytes(16), 0, tuple(range(n)), chosen.threshold, chosen.ring, 4)
    Policy().check(params, config.terms(n, chosen.ring.bits))
