"""FedGNN as a Flower app: nodes hold users, the recommender sees sums.

    app = client_app(mods=[SecAggMod()])          client_app.py, which ``privrec flower new`` writes
    app = server_app()                            server_app.py

Source: FedGNN (Wu et al., arXiv:2102.04925), Algorithm 1, by the functions of ``recsys.fedgnn``;
    secure aggregation by ``secagg.flower``.
Model: as ``secagg.flower``: semi-honest, or malicious with identities that reach the nodes out of
    band. The users of one node trust it; in a simulation one process is everybody, and nobody is
    protected from whoever runs it.
Leaks: ``recsys.flower.fedgnn_ledger`` lists it. To the recommender, of each round, the sum of the
    gradients of all users of a batch, over the nodes that answered; the numbers of users and
    ratings and squared errors, summed likewise; which nodes answered. To everybody items, weights
    and the training mean. To the SuperLink what the recommender sends and gets: masked vectors.
Error: none from the sums: they are those of ``recsys.fedgnn`` to the last bit.
Differs: no graph expansion. Gradients are summed in rings, so which items a user rated is hidden by
    the sum, with ``aggregate`` clear too: that decides where noise goes, and who has pseudo items.
"""

import json
import math
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
from flwr.app import Context, Message
from flwr.clientapp import ClientApp
from flwr.clientapp.typing import Mod
from flwr.serverapp import Grid, ServerApp

from mpc.core.durable import PUBLIC, write_durably
from mpc.core.errors import ParameterError, ToolkitError
from recsys.data.rating_catalogue import find_ratings
from recsys.data.ratings import Floats
from recsys.errors import DataError
from recsys.flower.federation import secagg_config
from recsys.flower.fedgnn_ledger import build_ledger
from recsys.flower.fedgnn_node import FedGNNNode, encoding_of, layout_of
from recsys.flower.fedgnn_server import FedGNNServer, Trained
from recsys.flower.fedgnn_settings import FedGNNSettings
from recsys.flower.fedgnn_task import Catalogue, Task
from recsys.flower.log import complain, note, say
from recsys.flower.node_memory import NodeMemory
from recsys.flower.rounds import Figures, SecureSums, Total, read
from recsys.metrics import model_digest
from recsys.ratings.config import RatingConfig
from recsys.ratings.files import holds_rating_model, write_rating_model
from recsys.training import EpochRecord

_NAME = "fedgnn"


def client_app(mods: Sequence[Mod] = ()) -> ClientApp:
    """What a node runs. mods: ``SecAggMod`` first."""
    app = ClientApp(mods=list(mods))
    app.train()(answer)
    return app


def server_app() -> ServerApp:
    """What the recommender runs: one training."""
    app = ServerApp()

    @app.main()
    def main(grid: Grid, context: Context) -> None:
        try:
            run_training(grid, FedGNNSettings.read(context.run_config))
        except ToolkitError as error:
            complain(_NAME, error)
            raise

    return app


def answer(message: Message, context: Context) -> Message:
    """A node's part in a round. ToolkitError where it takes none."""
    settings = FedGNNSettings.read(context.run_config)
    arrays, asked = read(message)
    task, catalogue = Task.from_dict(asked)
    memory = NodeMemory.open(context.state, context.node_config)
    node = FedGNNNode(settings, task, catalogue, context.node_config, memory)
    found = node.answer(arrays)
    memory.keep(context.state)
    if found.clipped or node.left_out:
        note(_NAME, f"{found.clipped} entries clipped, {node.left_out} ratings of unknown items")
    return figures_of(settings.train, task, catalogue).reply(message, found.arrays, found.figures)


def run_training(grid: Grid, settings: FedGNNSettings) -> Trained:
    """Train over the nodes of ``grid``, and write model, ledger and figures to ``settings.out``.

    Raises PrivacyRefusal, AbortError, DivergenceError, DataError and ParameterError.
    """
    config, start = settings.train, time.perf_counter()
    _check_free(settings.out)
    catalogue, users, ratings = catalogue_of(settings)
    task = Task(node_users=users, node_ratings=ratings)
    figures = figures_of(config, task, catalogue)
    sums = SecureSums(
        grid, secagg_config(settings), figures, least=settings.nodes, wait=settings.wait
    )

    def ask(arrays: Mapping[str, Floats], wanted: Task) -> Total | None:
        return sums.over_nodes(arrays, wanted.to_dict(catalogue))

    trained = FedGNNServer(config, catalogue, ask, task).train(_progress(config))
    ledger = build_ledger(
        trained,
        config,
        sums.secure.config,
        encoding_of(config, users).mechanism,
        layout_of(config, len(catalogue.items)).size,
    )
    for line in ledger.lines():
        say(_NAME, line)
    measured = measures(trained) | {
        "seconds": time.perf_counter() - start,
        "epsilon": ledger.epsilon(),
    }
    if trained.ended:
        say(_NAME, f"ended early, with the best model so far: {trained.ended}")
    say(_NAME, "validation RMSE {}, test RMSE {}".format(*_words(trained)))
    if settings.out:
        folder = Path(settings.out)
        write_rating_model(folder, trained.files(config), config)
        _write(folder / "public" / "ledger.json", ledger.to_dict())
        _write(folder / "public" / "metrics.json", measured)
        say(_NAME, f"the model is in {folder}")
    return trained


def measures(trained: Trained) -> dict[str, object]:
    """What a training gave, in plain values."""
    return {
        "validation_rmse": trained.validation,
        "test_rmse": trained.test,
        "epochs": trained.epochs,
        "best_epoch": trained.best_epoch,
        "users": trained.users,
        "ratings": trained.ratings,
        "batches": trained.batches,
        "rounds": trained.rounds,
        "failed_rounds": trained.failed,
        "fewest_nodes": trained.smallest,
        "ended": trained.ended or None,
        "training_loss": [record.loss for record in trained.state.history],
        "validation_curve": [record.rmse for record in trained.state.history],
        "model_digest": model_digest(trained.state.best_arrays),
    }


def catalogue_of(settings: FedGNNSettings) -> tuple[Catalogue, int, int]:
    """Items and range of ratings, and the most users and ratings of one node.

    Raises DataError for a file or set that is not there.
    """
    users, ratings = settings.node_users, settings.node_ratings
    if settings.catalogue:
        path = Path(settings.catalogue)
        try:
            lines = path.read_text(encoding="utf-8").splitlines()
        except (OSError, UnicodeDecodeError):
            raise DataError(
                "cannot be read", file=str(path), expected="an item id in each line"
            ) from None
        items = tuple(line.strip() for line in lines if line.strip())
        return Catalogue(items, settings.lowest, settings.highest), users, ratings
    found = find_ratings(settings.data).load()
    counts = np.sort(np.bincount(found.triples.users, minlength=found.n_users))[::-1]
    # There are at least so many partitions, and their users are as many as can be told apart.
    share = -(-found.n_users // settings.nodes)
    return (
        Catalogue(tuple(found.item_ids), found.low, found.high),
        users or share,
        ratings or max(int(counts[:share].sum()), 1),
    )


def figures_of(config: RatingConfig, task: Task, catalogue: Catalogue) -> Figures:
    """How arrays and figures of a node travel; the same on both ends."""
    quantizer = encoding_of(config, task.node_users).quantizer
    # What one user sends stays within the clip of the quantizer, noise included.
    return Figures(
        clip=quantizer.clip * max(task.node_users, 2),
        frac_bits=config.frac_bits,
        most=catalogue.most(task.node_users, task.node_ratings),
    )


def _check_free(out: str) -> None:
    if not out:
        return
    folder = Path(out)
    if folder.is_dir() and any(folder.iterdir()) and not holds_rating_model(folder):
        raise ParameterError(
            f"{folder} is not empty and holds no model of ratings",
            remedy="set out to a new folder",
        )


def _progress(config: RatingConfig) -> Callable[[EpochRecord], None]:
    def progress(record: EpochRecord) -> None:
        judged = "-" if record.rmse is None else f"{record.rmse:.4f}"
        say(
            _NAME,
            f"epoch {record.epoch:3d}/{config.epochs}  training RMSE {math.sqrt(record.loss):.4f}"
            f"  validation RMSE {judged}",
        )

    return progress


def _words(trained: Trained) -> list[str]:
    return ["-" if x is None else f"{x:.4f}" for x in (trained.validation, trained.test)]


def _write(path: Path, values: object) -> None:
    text = json.dumps(values, indent=2, allow_nan=False) + "\n"
    write_durably(path, text.encode(), mode=PUBLIC)
