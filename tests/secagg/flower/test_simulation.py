"""A training run in Flower's simulation: Ray, its workers and a SuperLink, all of them real."""

from pathlib import Path

import pytest

from tests.secagg.flower import learning_app as app
from tests.secagg.flower import runs
from tests.support.flower_deployment import Deployment

pytestmark = pytest.mark.first

NODES = 10
SIMULATION = f"num-supernodes={NODES} client-resources-num-cpus=1 init-args-num-cpus=2"


def test_ten_simulated_clients_train_as_plain_fedavg_does(tmp_path: Path) -> None:
    config = runs.run_config(tmp_path, nodes=NODES)
    with Deployment(tmp_path, simulation=True) as flower:
        written = runs.write(tmp_path, config)
        flower.run(written, "--federation-config", SIMULATION).wait()
    told = runs.told(tmp_path)
    assert [one["aborted"] for one in told["outcomes"]] == [None, None]
    assert [one["survivors"] for one in told["outcomes"]] == [NODES, NODES]
    assert app.largest_gap(told["models"], [range(NODES)] * 2) < app.UNIT
    for metrics in told["metrics"]:  # the others have not left their clients
        assert metrics == {"loss": pytest.approx(app.averaged_loss(range(NODES)), abs=app.UNIT)}
    assert flower.quiet.turned_to() == []
    assert flower.quiet.processes() == {}
