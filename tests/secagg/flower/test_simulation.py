"""A whole training run in Flower's simulation: Ray, its workers, Flower's SuperLink, all of them real."""

import json
from pathlib import Path

import numpy as np

from tests.secagg.flower import learning_app as app
from tests.support.flower_deployment import Deployment, write_app

NODES = 10
FRAC_BITS = 16
SIMULATION = f"num-supernodes={NODES} client-resources-num-cpus=1 init-args-num-cpus=2"


def test_ten_simulated_clients_train_as_plain_fedavg_does(tmp_path: Path) -> None:
    config = app.run_config(tmp_path, nodes=NODES)
    module = app.__name__
    with Deployment(tmp_path, simulation=True) as flower:
        written = write_app(
            tmp_path / "app", f"{module}:server_app", f"{module}:client_app", config
        )
        flower.run(written, "--federation-config", SIMULATION).wait()
    told = json.loads(Path(config["told"]).read_text())
    assert [one["aborted"] for one in told["outcomes"]] == [None, None]
    assert [len(one["survivors"]) for one in told["outcomes"]] == [NODES, NODES]
    app.check_models(told["models"], [list(range(NODES))] * 2)
    assert flower.quiet.turned_to() == []
    assert flower.quiet.processes() == {}
