"""What a client refuses whatever the server announces."""

import pickle
from typing import Any

import pytest

from mpc.core.errors import ParameterError, PeerError
from mpc.core.ring import Ring
from secagg.flower.config import SecAggConfig
from secagg.flower.policy import Policy
from secagg.flower.terms import Terms
from secagg.full.params import RoundParams
from secagg.graph import Graph, sparse
from secagg.messages import SERVER

BITS = 32


def round_of(n: int, threshold: int, *, graph: Graph | None = None, **more: Any) -> RoundParams:
    return RoundParams(bytes(16), 0, tuple(range(n)), threshold, Ring(BITS), 4, graph=graph, **more)


def terms(*metrics: str) -> Terms:
    return Terms.make(
        clip=1.0,
        frac_bits=8,
        ring_bits=BITS,
        parties=10,
        max_weight=10,
        weight_key="num-examples",
        metrics=dict.fromkeys(metrics, 1.0),
    )


def refuses(policy: Policy, params: RoundParams, told: Terms | None = None) -> str:
    with pytest.raises(PeerError) as refused:
        policy.check(params, terms() if told is None else told)
    assert refused.value.party == SERVER
    return str(refused.value)


@pytest.mark.parametrize("n", [3, 4, 10, 50])
@pytest.mark.parametrize("variant", ["semi-honest", "malicious"])
def test_the_default_takes_what_the_default_config_plans(n: int, variant: Any) -> None:
    keys = {"roster": "roster.bin", "operator": bytes(32)} if variant == "malicious" else {}
    dropout, corrupt = (0.0, 0.0) if n < 10 else (0.2, 0.1)
    config = SecAggConfig(variant=variant, dropout=dropout, corrupt=corrupt, **keys)  # type: ignore[arg-type]
    planned = config.plan(n, 100)
    params = round_of(n, planned.threshold, variant=variant, colluding=planned.corrupt_clients)
    Policy().check(params, terms())


def test_a_client_that_insists_on_the_malicious_variant_takes_no_other() -> None:
    policy = Policy(variant="malicious")
    assert "semi-honest" in refuses(policy, round_of(10, 6))
    policy.check(round_of(10, 6, variant="malicious"), terms())


def test_the_semi_honest_policy_takes_the_stronger_variant_too() -> None:
    Policy().check(round_of(10, 6, variant="malicious"), terms())


@pytest.mark.parametrize(
    ("params", "taken"),
    [
        (round_of(9, 4, min_survivors=7), False),
        (round_of(9, 4, min_survivors=8), True),
        (round_of(9, 8), True),  # no sum has fewer summands than the threshold
        (round_of(9, 7), False),
        (round_of(10, 6, graph=sparse(range(10), 6), min_survivors=7), False),
        (round_of(10, 6, graph=sparse(range(10), 6), min_survivors=8), True),
    ],
)
def test_no_sum_may_have_fewer_summands_than_the_policy_says(
    params: RoundParams, taken: bool
) -> None:
    policy = Policy(min_clients=8)
    if taken:
        policy.check(params, terms())
    else:
        assert "8" in refuses(policy, params)


@pytest.mark.parametrize(
    ("share", "threshold", "taken"),
    [(0.3, 3, True), (0.3, 2, False), (0.31, 3, False), (0.31, 4, True), (1.0, 10, True)],
)
def test_the_threshold_is_a_share_of_all_clients(share: float, threshold: int, taken: bool) -> None:
    policy, params = Policy(threshold=share), round_of(10, threshold)
    if taken:
        policy.check(params, terms())
    else:
        refuses(policy, params)


def test_in_a_sparse_graph_the_threshold_is_a_share_of_a_neighbourhood() -> None:
    graph = sparse(range(20), 9)
    largest = graph.degree + 1
    Policy(threshold=0.5).check(round_of(20, largest // 2, graph=graph), terms())
    refuses(Policy(threshold=0.5), round_of(20, largest // 2 - 1, graph=graph))


def test_the_round_must_withstand_as_many_colluding_clients() -> None:
    policy = Policy(colluding=0.3)
    policy.check(round_of(10, 5, colluding=3), terms())
    assert "colluding" in refuses(policy, round_of(10, 5, colluding=2))


def test_a_client_that_wants_the_complete_graph_takes_no_sparse_one() -> None:
    params = round_of(10, 4, graph=sparse(range(10), 6))
    Policy().check(params, terms())
    assert "neighbours" in refuses(Policy(sparse=False), params)
    Policy(sparse=False).check(round_of(10, 4), terms())


def test_only_metrics_that_the_policy_names_are_averaged() -> None:
    policy, params = Policy(metrics=("loss",)), round_of(10, 4)
    policy.check(params, terms("loss"))
    policy.check(params, terms())
    assert "accuracy" in refuses(policy, params, terms("accuracy", "loss"))
    Policy().check(params, terms("accuracy", "loss"))
    refuses(Policy(metrics=()), params, terms("loss"))


@pytest.mark.parametrize(
    ("durable", "variant", "needed"),
    [
        (None, "semi-honest", False),
        (None, "malicious", True),
        (False, "malicious", False),
        (True, "semi-honest", True),
    ],
)
def test_marks_must_be_on_disk_in_the_malicious_variant_or_if_the_policy_says_so(
    durable: bool | None, variant: Any, needed: bool
) -> None:
    policy, params = Policy(durable=durable), round_of(10, 6, variant=variant)
    policy.check_marks(params, durable=True)
    if needed:
        with pytest.raises(PeerError, match="secagg-state"):
            policy.check_marks(params, durable=False)
    else:
        policy.check_marks(params, durable=False)


def test_a_policy_goes_to_worker_processes() -> None:
    policy = Policy(variant="malicious", threshold=0.6, metrics=("loss",))
    assert pickle.loads(pickle.dumps(policy)) == policy


@pytest.mark.parametrize(
    "wrong",
    [
        {"variant": "covert"},
        {"min_clients": 2},
        {"min_clients": 3.0},
        {"threshold": 1.01},
        {"threshold": -0.1},
        {"threshold": float("nan")},
        {"threshold": True},
        {"threshold": "0.5"},
        {"colluding": 1.0},
        {"colluding": float("inf")},
        {"sparse": 1},
        {"durable": 1},
        {"metrics": "loss"},
    ],
)
def test_a_policy_that_makes_no_sense_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ParameterError):
        Policy(**wrong)
