"""Accuracy on real check-ins, where PRIVREC_DATA names a folder that holds them.

At most five positives of each user. The claims about accuracy are those of ``privrec compare``:
each row searched alike, three seeds. The others compare trainings of seed 0 on one machine.
"""

from functools import cache
from tempfile import TemporaryDirectory
from typing import Any, Literal

import pytest

from recsys.baselines.fm import FM
from recsys.config import TrainConfig
from recsys.data.catalogue import list_sets, resolve
from recsys.data.prepare import PrepareConfig
from recsys.experiment.bench import Bench
from recsys.experiment.compare import Plan, compare
from recsys.experiment.folder import ExperimentFolder
from recsys.experiment.pool import open_pool
from recsys.prirec import PriRec
from recsys.recommender import Recommender
from recsys.search import ENOUGH

TOKYO, CALIFORNIA = "foursquare-tokyo", "foursquare-california"
PREPARE = {
    TOKYO: PrepareConfig(max_positives=5),
    # The state's own check-ins; some users travelled.
    CALIFORNIA: PrepareConfig(max_positives=5, bounds=(32.5, -124.5, 42.1, -114.1)),
}
HERE = {known.name for known in list_sets()}

pytestmark = pytest.mark.deep


def sets(*names: str) -> list[str]:
    return [name for name in names if name in HERE]


@cache
def trained(data: str, model: str, mode: str) -> Recommender:
    config = TrainConfig(model=model, mode=mode, seed=0, prepare=PREPARE[data])
    return (FM if model == "fm" else PriRec)(config).fit(resolve(data))


def auc(data: str, model: str, mode: str = "protocol") -> float:
    found = trained(data, model, mode)
    area = found.evaluate(found.prepared_.test)[0]
    assert area is not None
    return area


FLOORS = {TOKYO: 0.71, CALIFORNIA: 0.61}
"""What a central FM reaches; against a weaker one a gap would not count."""

ROWS = ("fm", "prirec", "prirec-random")


@cache
def compared(data: str, rows: tuple[str, ...] = ROWS, trials: int = ENOUGH, **changes: Any) -> Any:
    """What ``privrec compare --max-positives 5 --seeds 3`` finds, by row."""
    settings = {"prepare": PrepareConfig(max_positives=5), **changes}
    base = TrainConfig(mode="simulate", **settings).to_dict()
    plan = Plan(data, base, rows=rows, seeds=3, trials=trials)
    with (
        TemporaryDirectory() as folder,
        ExperimentFolder(folder, plan={"kind": "test"}) as experiment,
        open_pool(2) as pool,
    ):
        result = compare(plan, Bench(experiment, pool))
    areas = {row["model"]: row["auc"] for row in result["rows"]}
    return areas, {gap["other"]: gap for gap in result["gaps"]}


@pytest.mark.parametrize("data", sets(TOKYO, CALIFORNIA))
def test_the_central_machine_is_a_fair_opponent(data: str) -> None:
    areas, _ = compared(data)
    assert areas["fm"] >= FLOORS[data]


@pytest.mark.parametrize("data", sets(TOKYO, CALIFORNIA))
def test_prirec_is_above_fm_and_places_above_chance_by_more_than_the_sd(data: str) -> None:
    _, gaps = compared(data)
    assert gaps["fm"]["beyond_sd"]
    assert gaps["prirec-random"]["beyond_sd"]


@pytest.mark.parametrize("data", sets(CALIFORNIA))
def test_on_california_both_gaps_are_above_a_tenth(data: str) -> None:
    _, gaps = compared(data)
    assert gaps["fm"]["gap"] > 0.1
    assert gaps["prirec-random"]["gap"] > 0.1


@pytest.mark.parametrize("data", sets(TOKYO))
@pytest.mark.parametrize(("order", "low", "high"), [("sound", 0.49, 0.51), ("literal", 0.0, 0.49)])
def test_users_alone_are_chance_unless_negatives_come_before_the_split(
    data: str, order: Literal["sound", "literal"], low: float, high: float
) -> None:
    """PriRec has a model of each user, which learns her rate of positives; FM has none."""
    prepare = PrepareConfig(max_positives=5, order=order)
    rows = ("prirec-", "prirec", "prirec-n0")
    areas, _ = compared(data, rows, trials=0, features="user", epochs=5, prepare=prepare)
    assert all(low <= areas[row] <= high for row in rows)


@pytest.mark.parametrize("data", sets(TOKYO, CALIFORNIA))
def test_prirec_in_protocol_mode_is_above_fm(data: str) -> None:
    assert auc(data, "prirec") > auc(data, "fm") + 0.02


@pytest.mark.parametrize("data", sets(TOKYO, CALIFORNIA))
def test_both_modes_give_one_digest_on_real_data(data: str) -> None:
    real, simulated = (trained(data, "prirec", mode) for mode in ("protocol", "simulate"))
    assert real.model_digest == simulated.model_digest
    assert real.history_ == simulated.history_


@pytest.mark.parametrize("data", sets(TOKYO, CALIFORNIA))
def test_the_ring_costs_less_than_half_a_thousandth_of_auc(data: str) -> None:
    assert abs(auc(data, "prirec", "simulate") - auc(data, "prirec", "float")) <= 0.0005
