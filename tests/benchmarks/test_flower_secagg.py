"""What ``benchmarks.flower_secagg`` makes of figures; the figures themselves take minutes."""

import time

import numpy as np
from flwr.app import ConfigRecord, RecordDict
from flwr.common.secure_aggregation.secaggplus_constants import RECORD_KEY_CONFIGS, Key, Stage

from benchmarks import flower_apps, flower_secagg
from secagg.flower.records import RECORD
from secagg.full.messages import Step


def test_steps_of_both_sides_have_one_name() -> None:
    pairs = [
        (Stage.SETUP, Step.ADVERTISE_KEYS),
        (Stage.SHARE_KEYS, Step.SHARE_KEYS),
        (Stage.COLLECT_MASKED_VECTORS, Step.MASKED_INPUT),
        (Stage.UNMASK, Step.UNMASKING),
    ]
    for stage, step in pairs:
        flower = RecordDict({RECORD_KEY_CONFIGS: ConfigRecord({Key.STAGE: stage})})
        ours = RecordDict({RECORD: ConfigRecord({"step": int(step)})})
        assert flower_apps.step_of(flower) == flower_apps.step_of(ours)
        assert flower_apps.step_of(ours) in flower_secagg.STEPS


def test_a_round_is_its_exchanges_and_the_servers_own_work() -> None:
    watched = flower_apps.Watched()
    watched.leave("share keys")
    with watched.in_grid():
        time.sleep(0.01)
    watched.come()
    watched.round_ends(np.zeros(1))
    (found,) = watched.rounds
    assert found["steps"]["share keys"] <= found["round"]
    assert found["server"] >= found["round"] - found["steps"]["share keys"]


def test_medians_are_taken_figure_by_figure() -> None:
    rounds = [
        {"steps": {"unmask": seconds}, "server": 3 - seconds, "round": 1.0, "error": 0.0}
        for seconds in (1.0, 3.0, 2.0)
    ]
    found = flower_secagg.median(rounds)
    assert found == {"steps": {"unmask": 2.0}, "server": 1.0, "round": 1.0, "error": 0.0}


def test_the_table_tells_ratios_and_leaves_out_a_step_that_was_saved() -> None:
    flower = {"steps": {"advertise keys": 1.0, "unmask": 6.0}, "server": 20.0}
    ours = {"steps": {"unmask": 2.0}, "server": 0.5}
    rest = {"round": 30.0, "error": 1e-6}
    told = flower_secagg.table(
        {"clients": 50, "dim": 10, "flower": flower | rest, "ours": ours | rest}
    )
    lines = told.splitlines()
    assert "| advertise keys | 1.00 | - | - |" in lines
    assert "| unmask | 6.00 | 2.00 | 3.0 |" in lines
    assert "| server's own work | 20.00 | 0.50 | 40.0 |" in lines
