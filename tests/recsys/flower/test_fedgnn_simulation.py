"""The FedGNN app that ``privrec flower new`` writes, run by Flower itself."""

import json
import tomllib
from dataclasses import replace
from pathlib import Path

import pytest

from recsys.cli.main import main
from recsys.data.rating_catalogue import find_ratings
from recsys.fedgnn import FedGNN
from recsys.flower.fedgnn_settings import FedGNNSettings
from recsys.metrics import model_digest
from recsys.ratings.registry import load_rating_model
from tests.recsys.flower.fedgnn_runs import SET, USERS
from tests.support.flower_deployment import Deployment

OPTIONS = "epochs=2 dim=4 nodes=5 grace=20.0"
NODES = 6


def written(folder: Path) -> Path:
    app = folder / "app"
    assert main(["flower", "new", "fedgnn", str(app), "--data", SET, "--quiet"]) == 0
    return app


def figures(app: Path) -> dict[str, float]:
    found: dict[str, float] = json.loads((app / "model" / "public" / "metrics.json").read_text())
    return found


@pytest.mark.deep
def test_a_simulation_by_ray_gives_the_model_of_one_process(tmp_path: Path) -> None:
    app = written(tmp_path)
    config = app / "pyproject.toml"
    config.write_text(config.read_text() + "seed = 0\n")
    with Deployment(tmp_path / "flower", simulation=True) as flower:
        size = ("--federation-config", f"num-supernodes={NODES}")
        text = flower.run(app, "--run-config", OPTIONS, *size).wait(600)
        assert flower.quiet.turned_to() == []
    assert "privacy: none (reproducible simulation)" in text
    settings = tomllib.loads(config.read_text())["tool"]["flwr"]["app"]["config"]
    train = FedGNNSettings.read({**settings, "epochs": 2, "dim": 4}).train
    model = FedGNN(replace(train, mode="simulate")).fit(find_ratings(SET).load())
    arrays = load_rating_model(app / "model").files.arrays
    assert model_digest(arrays) == model.model_digest
    assert figures(app)["fewest_nodes"] == NODES


@pytest.mark.deployment
@pytest.mark.deep
def test_a_deployment_trains_and_every_node_has_its_model(tmp_path: Path) -> None:
    app = written(tmp_path)
    nodes = 3
    with Deployment(tmp_path / "flower") as flower:
        for index in range(nodes):
            flower.start_node(
                partition_id=index,
                num_partitions=nodes,
                privrec_folder=str(tmp_path / f"node{index}"),
                secagg_state=str(tmp_path / f"marks{index}"),
            )
        text = flower.run(app, "--run-config", "epochs=1 dim=4 node-users=20").wait(900)
        assert flower.quiet.turned_to() == []
    assert "the model is in" in text
    assert figures(app)["users"] == USERS
    for index in range(nodes):
        model = load_rating_model(tmp_path / f"node{index}")
        assert len(model.files.user_ids) == USERS / nodes
        assert len(model.recommend(model.files.user_ids[0], 3)) == 3
