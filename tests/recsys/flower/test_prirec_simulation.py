"""The PriRec app that ``privrec flower new`` writes, run by Flower itself."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from recsys.array_files import read_arrays
from recsys.cli.main import main
from recsys.prirec import PriRec
from tests.recsys.flower.prirec_runs import SET, SMALL, in_one_process
from tests.support.flower_deployment import Deployment


def written(folder: Path) -> Path:
    app = folder / "app"
    assert main(["flower", "new", "prirec", str(app), "--data", SET, "--quiet"]) == 0
    return app


def told(app: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((app / "model" / "public" / "metrics.json").read_text())
    return found


@pytest.mark.deep
def test_a_simulation_by_ray_gives_the_model_of_one_process(tmp_path: Path) -> None:
    nodes, app = 6, written(tmp_path)
    config = app / "pyproject.toml"
    config.write_text(config.read_text() + "seed = 0\n")
    with Deployment(tmp_path / "flower", simulation=True) as flower:
        size = ("--federation-config", f"num-supernodes={nodes}")
        options = ("--run-config", f"epochs=3 neighbours=8 nodes={nodes}")
        flower.run(app, *options, *size).wait(600)
        assert flower.quiet.turned_to() == []
    model = in_one_process({**SMALL, "data": SET, "epochs": 3, "neighbours": 8}, nodes=nodes)
    saved = read_arrays(app / "model" / "recommender" / "model.npz")
    assert np.array_equal(saved["poi_features"], model.features.poi)
    assert saved["v"] == pytest.approx(model.state["v"], abs=1e-12)
    losses = [epoch["loss"] for epoch in told(app)["history"]]
    assert losses == sorted(losses, reverse=True)


@pytest.mark.deployment
@pytest.mark.deep
def test_a_deployment_trains_and_every_node_has_its_users_model(tmp_path: Path) -> None:
    nodes, app = 4, written(tmp_path)
    with Deployment(tmp_path / "flower") as flower:
        for index in range(nodes):
            flower.start_node(
                partition_id=index,
                num_partitions=nodes,
                privrec_folder=str(tmp_path / f"node{index}"),
                secagg_state=str(tmp_path / f"marks{index}"),
            )
        options = f"epochs=2 neighbours=9 nodes={nodes}"
        flower.run(app, "--run-config", options).wait(900)
        assert flower.quiet.turned_to() == []
    figures = told(app)
    assert (figures["users"], figures["nodes"], figures["failed_rounds"]) == (64, nodes, 0)
    assert figures["missing_answers"] == 0
    v = read_arrays(app / "model" / "recommender" / "model.npz")["v"]
    for index in range(nodes):
        model = PriRec.load(tmp_path / f"node{index}")
        assert len(model.files.user_ids) == 64 / nodes
        assert np.array_equal(model.files.arrays["v"], v)
        assert model.files.arrays["w"].any()
        assert len(model.recommend(model.files.user_ids[0], 3)) == 3
