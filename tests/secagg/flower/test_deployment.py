"""A training run of a SuperLink and SuperNodes, each a process, on the loopback address."""

from pathlib import Path

import pytest

from tests.secagg.flower import learning_app as app
from tests.secagg.flower import runs
from tests.support.flower_deployment import Deployment

pytestmark = pytest.mark.first

NODES = 3
TRIPS = ["AdvertiseKeys", "ShareKeys", "MaskedInputCollection", "Unmasking"]


def test_three_supernodes_train_as_plain_fedavg_does(tmp_path: Path) -> None:
    written = runs.write(tmp_path, runs.run_config(tmp_path, nodes=NODES))
    with Deployment(tmp_path) as flower:
        for node in range(NODES):
            state = str(tmp_path / f"marks-{node}")
            flower.start_node(partition_id=node, num_partitions=NODES, secagg_state=state)
        flower.run(written).wait()
    told = runs.told(tmp_path)
    assert [one["aborted"] for one in told["outcomes"]] == [None, None]
    assert app.largest_gap(told["models"], [range(NODES)] * 2) < app.UNIT
    # Keys of the second round came with the last answers of the first.
    assert [list(one["seconds"]) for one in told["outcomes"]] == [TRIPS, TRIPS[1:]]
    assert all((tmp_path / f"marks-{node}").stat().st_size for node in range(NODES))
    assert flower.quiet.turned_to() == []
    assert flower.quiet.processes() == {}
