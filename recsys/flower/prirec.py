"""PriRec as a Flower app: nodes hold users, visits and linear models, the recommender holds V.

    app = client_app(mods=[SecAggMod()])          client_app.py, which ``privrec flower new`` writes
    app = server_app()                            server_app.py

An epoch takes one trip for the linear models (two, where it has several rounds) and one secure sum
for each round: in the trip a node gets V and the letters of other nodes, mixes, takes its gradient
steps, and writes letters for the next epoch; what it found for V goes into the secure sum.

Source: PriRec (Chen et al., 2020), Algorithms 1 and 2, by the functions of ``recsys.prirec``;
    ``mpc.relay`` and ``mpc.secure_sum_agreed`` for sums between nodes, ``secagg.flower`` for sums
    at the recommender.
Model: the SuperLink and the recommender relay letters and may do with them as they like, if nodes
    have identities that reach them out of band (``secagg-identity``, ``secagg-roster``,
    ``secagg-operator``); without, they hand on public keys as they are. The user network is drawn
    by the recommender, which is semi-honest there. The users of one node trust it. In a simulation
    one process is everybody, and nobody is protected from whoever runs it.
Leaks: docs/guide-flower-prirec.md lists it. To the recommender: how many users each node has; from
    each node the number of randomized bits that are one, for each POI, once; users' homes where the
    network is geographic; the user network, and who writes to whom; in each round the sum of the
    gradients of all users, of their losses and AUCs; which nodes answered. To a node the rows of
    the network that name one of its users, V, POI features, and for each of its users and epochs
    one sum of the models of users on at least three other nodes.
Error: sums are those of ``recsys.prirec`` to the last bit. A node's batches have other shapes than
    everybody's together, so floating point may differ in the last bits of a gradient.
Differs: one cohort of all nodes; no early stopping; no user features. Users without three nodes to
    mix with are refused, or keep their own models. A node that misses an exchange takes its steps
    all the same, and neither it nor the receivers of its letters mix in that epoch.
"""

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path

from flwr.app import Context, Error, Message
from flwr.clientapp import ClientApp
from flwr.clientapp.typing import Mod
from flwr.serverapp import Grid, ServerApp

from mpc.core.durable import PUBLIC, write_durably
from mpc.core.errors import ParameterError, StateError, ToolkitError, WireError
from mpc.relay import Marks, Verify
from recsys.array_files import pack_arrays
from recsys.errors import PrivacyRefusal
from recsys.flower.federation import secagg_config
from recsys.flower.log import complain, say
from recsys.flower.node_memory import FOLDER, NodeMemory
from recsys.flower.node_ratings import OWN_DATA, partition_of
from recsys.flower.prirec_messages import Exchange, Finish, Joining, Setup, Table
from recsys.flower.prirec_node import PriRecNode, places_of
from recsys.flower.prirec_records import content_of, read_content
from recsys.flower.prirec_scores import bounds
from recsys.flower.prirec_server import Asked, PriRecEpoch, PriRecServer, Trained
from recsys.flower.prirec_settings import PriRecSettings
from recsys.flower.prirec_visits import NodeVisits, Places, own_visits, partition, public_places
from recsys.flower.rounds import Figures, Plain, SecureSums, Total, read, wait_for_nodes
from recsys.metrics import model_digest
from recsys.models.fm import Floats
from secagg.flower.exchange import exchange
from secagg.flower.keyring import IDENTITY_PATH, Keyring
from secagg.full.identity import is_valid
from secagg.watermark import FileWatermark

APP = "prirec"

TELL_HOMES = "privrec-tell-homes"
"""The key of ``node_config`` by which a node with visits of its own allows a geographic network."""

EPSILON = "privrec-epsilon"
"""The key for the largest epsilon that a node consents to; with visits of its own it is 1 unless
told."""

STATE, OUR_ARRAYS = "privrec.prirec-node", "privrec.prirec-arrays"
_MARKS = "relay-marks"
_REFUSED = 1101


# A node.


def client_app(mods: Sequence[Mod] = ()) -> ClientApp:
    """What a node runs. mods: ``SecAggMod`` first."""
    app = ClientApp(mods=list(mods))
    for action, handle in (("join", _join), ("exchange", _exchange), ("finish", _finish)):
        app.query(action)(partial(_answered, handle))
    app.train()(_gradients)
    return app


def _answered(
    handle: Callable[[Message, Context], Message], message: Message, context: Context
) -> Message:
    """What ``handle`` answers; why it does not, is for this node's log alone."""
    try:
        return handle(message, context)
    except ToolkitError as error:
        complain(APP, error)
    except Exception as error:
        say(APP, type(error).__qualname__)  # what an exception says may quote data
    return Message(Error(_REFUSED, "prirec: this node's own log says why"), reply_to=message)


def _join(message: Message, context: Context) -> Message:
    data, told = read_content(message.content)
    joining = Joining.from_bytes(data)
    memory = NodeMemory.open(context.state, context.node_config)
    memory.keep(context.state)  # a key is kept before anything is answered with it
    seed = memory.run.experiment_seed()
    places = places_of(joining, told)
    visits = _visits(joining, places, context, seed)
    keyring = _keyring(context)
    if keyring is not None and memory.folder is None:
        raise PrivacyRefusal(
            "this node has an identity, against a server that may lie, and no folder: after a "
            "crash such a server could have it write an epoch's letters twice",
            remedy=f"--node-config '{FOLDER}=\"/path/of/its/own\"'",
        )
    node, joined, arrays = PriRecNode.join(
        joining,
        places,
        visits,
        key=memory.key,
        seed=seed,
        folder=memory.folder,
        party=None if keyring is None else keyring.client,
        signer=None if keyring is None else keyring.identity,
        marks=_marks(memory, new=True),
        tells_homes=not visits.own or context.node_config.get(TELL_HOMES) is True,
        most_epsilon=_most_epsilon(context, own=visits.own),
    )
    _keep(context, node)
    return Message(content_of(joined, arrays), reply_to=message)


def _exchange(message: Message, context: Context) -> Message:
    data, told = read_content(message.content)
    asked, node = Exchange.from_bytes(data), _kept(context)
    _check_session(node, asked.session)
    if asked.setup:
        node.set_up(Setup.from_bytes(asked.setup), told, verify=_verify(context))
    answered, arrays, without, refused = node.exchange(asked, told)
    _keep(context, node)
    if without or refused:
        mixing = f"{without} users could not mix, {refused} letters were refused"
        say(APP, f"epoch {asked.epoch + 1}: {mixing}")
    return Message(content_of(answered, arrays), reply_to=message)


def _finish(message: Message, context: Context) -> Message:
    data, told = read_content(message.content)
    asked, node = Finish.from_bytes(data), _kept(context)
    _check_session(node, asked.session)
    memory = NodeMemory.open(context.state, context.node_config)
    node.finish(asked, told, memory.folder)
    for name in (STATE, OUR_ARRAYS):
        del context.state[name]
    return Message(content_of(asked, {}), reply_to=message)


def _gradients(message: Message, context: Context) -> Message:
    """What goes into the secure sum; ``SecAggMod`` masks it."""
    arrays, asked = read(message)
    node, users = _kept(context), asked["users"]
    found = node.gradients(asked["epoch"], asked["round"], arrays["v"], asked["held-out"])
    _keep(context, node)
    figures = figures_of(node.config.clip, node.config.frac_bits, users)
    return figures.reply(message, {"v": found.gradients}, found.figures)


def _visits(joining: Joining, places: Places, context: Context, seed: int) -> NodeVisits:
    config, own = joining.config, context.node_config.get(OWN_DATA)
    if own is None:
        part = partition_of(context.node_config)
        return partition(joining.data, part, places, config, _seed(config.seed, seed))
    if not isinstance(own, str) or not own:
        raise ParameterError(f"{OWN_DATA} must be a path, got {type(own).__name__}")
    return own_visits(own, places, config, _seed(config.seed, seed))


def _most_epsilon(context: Context, *, own: bool) -> float:
    most = context.node_config.get(EPSILON, 1.0 if own else math.inf)
    if isinstance(most, bool) or not isinstance(most, int | float) or not most > 0:
        raise ParameterError(f"{EPSILON} must be a positive number, got {most!r}")
    return float(most)


def _seed(given: int | None, own: int) -> int:
    return own if given is None else given


def _keyring(context: Context) -> Keyring | None:
    """This node's identity; None for a node that has none."""
    return Keyring(context.node_config) if IDENTITY_PATH in context.node_config else None


def _verify(context: Context) -> Verify | None:
    """A node with an identity takes no other without one."""
    keyring = _keyring(context)
    return None if keyring is None else partial(is_valid, keyring.roster)


def _marks(memory: NodeMemory, *, new: bool = False) -> Marks | None:
    """Where epochs are marked as spent, on the disk of a node that has a folder."""
    if memory.folder is None:
        return None
    path = memory.folder / _MARKS
    return FileWatermark.create(path) if new and not path.exists() else FileWatermark(path)


def _keep(context: Context, node: PriRecNode) -> None:
    content = content_of(node.suspend(), node.arrays)
    context.state[STATE], context.state[OUR_ARRAYS] = content.values()


def _kept(context: Context) -> PriRecNode:
    if STATE not in context.state:
        raise StateError("this node has not joined, or was started anew since")
    records = content_of(b"", {})
    for name, kept in zip(list(records), (STATE, OUR_ARRAYS), strict=True):
        records[name] = context.state[kept]
    data, arrays = read_content(records)
    memory = NodeMemory.open(context.state, context.node_config)
    return PriRecNode.resume(data, arrays, marks=_marks(memory))


def _check_session(node: PriRecNode, session: bytes) -> None:
    if node.joining.session != session:
        raise WireError("the message belongs to another session")


# The recommender.


def server_app() -> ServerApp:
    """What the recommender runs: one training."""
    app = ServerApp()

    @app.main()
    def main(grid: Grid, context: Context) -> None:
        try:
            run_training(grid, PriRecSettings.read(context.run_config))
        except ToolkitError as error:
            complain(APP, error)
            raise

    return app


def run_training(grid: Grid, settings: PriRecSettings) -> Trained:
    """Train over the nodes of ``grid``, and write V and figures to ``settings.out``.

    Raises PrivacyRefusal, AbortError, DivergenceError, DataError and ParameterError.
    """
    places = public_places(settings.data, settings.catalogue, settings.train.prepare)
    trained = PriRecServer(settings, places, FlowerNodes(grid, settings)).train(_progress(settings))
    told = f"{trained.users} users on {trained.nodes} nodes, {trained.failed} rounds without a sum"
    say(APP, told)
    if trained.unmixed:
        say(APP, f"{trained.unmixed} users kept their own models throughout")
    if settings.out:
        _save(Path(settings.out), trained, places, settings)
        say(APP, f"V and the POIs' features are in {settings.out}")
    return trained


class FlowerNodes:
    """Implements ``recsys.flower.prirec_server.Nodes`` over a grid."""

    def __init__(self, grid: Grid, settings: PriRecSettings) -> None:
        self._grid, self._settings = grid, settings
        self._sums: SecureSums | None = None
        self._joined: frozenset[int] | None = None
        self._trips = 0

    def present(self) -> list[int]:
        """See ``Nodes.present``."""
        return wait_for_nodes(self._grid, self._settings.nodes, self._settings.wait)

    def ask(self, step: str, asked: Asked) -> dict[int, tuple[bytes, Table]]:
        """See ``Nodes.ask``: a trip of its own, with the deadline of a step that trains."""
        answers: dict[int, tuple[bytes, Table]] = {}
        self._trips += 1
        deadline = self._settings.train_deadline
        here = set(self._grid.get_node_ids())  # for an answer of the others there is no use to wait
        messages = [
            Message(
                content_of(message, arrays),
                node,
                f"query.{step}",
                group_id=str(self._trips),
                ttl=deadline,
            )
            for node, (message, arrays) in asked.items()
            if node in here
        ]

        def take(node: int, reply: Message) -> None:
            answers[node] = read_content(reply.content)

        done = exchange(
            self._grid,
            messages,
            take,
            deadline=deadline,
            quorum=len(messages) - math.floor(self._settings.dropout * len(messages)),
            grace=self._settings.grace or None,
        )
        gone = dict.fromkeys(set(asked) - here, "it is not connected")
        for node, why in sorted({**done.missing, **gone}.items()):
            say(APP, f"node {node} did not {step}: {why}")
        if self._joined is None:  # who comes later has not joined
            self._joined = frozenset(answers)
        return {node: answers[node] for node in asked if node in answers}

    def sum(self, v: Floats, epoch: int, round_: int, held_out: str, users: int) -> Total | None:
        """See ``Nodes.sum``."""
        if self._sums is None:
            config = self._settings.train
            self._sums = SecureSums(
                self._grid,
                secagg_config(self._settings),
                figures_of(config.clip, config.frac_bits, users),
                least=self._settings.nodes,
                wait=self._settings.wait,
            )
        asked: dict[str, Plain] = {
            "epoch": epoch,
            "round": round_,
            "held-out": held_out or "none",
            "users": users,
        }
        return self._sums.over_nodes({"v": v}, asked, self._joined)


def figures_of(clip: float, frac_bits: int, users: int) -> Figures:
    """How gradients and figures travel, where no node has more than so many users."""
    return Figures(clip=clip * users, frac_bits=frac_bits, most=bounds(users))


def _save(folder: Path, trained: Trained, places: Places, settings: PriRecSettings) -> None:
    """recommender/model.npz and public/metrics.json; users' models are on their nodes."""
    for part in ("recommender", "public"):
        (folder / part).mkdir(parents=True, exist_ok=True)
    held: Table = {
        "v": trained.v,
        "poi_features": trained.features.poi,
        "lat": places.lat,
        "lon": places.lon,
        "category": places.category,
    }
    write_durably(folder / "recommender" / "model.npz", pack_arrays(held))
    values = {
        "settings": settings.train.to_dict(),
        "features": list(trained.features.names),
        "nodes": trained.nodes,
        "users": trained.users,
        "unmixed_users": trained.unmixed,
        "failed_rounds": trained.failed,
        "missing_answers": trained.silent,
        "letter_bytes": trained.letter,
        "history": [asdict(epoch) for epoch in trained.history],
        "digest_of_v": model_digest({"v": trained.v}),
    }
    text = json.dumps(values, indent=2, allow_nan=False) + "\n"
    write_durably(folder / "public" / "metrics.json", text.encode(), mode=PUBLIC)


def _progress(settings: PriRecSettings) -> Callable[[PriRecEpoch], None]:
    def progress(record: PriRecEpoch) -> None:
        figures = (record.loss, record.held_out, record.auc)
        shown = ["-" if figure is None else f"{figure:.4f}" for figure in figures]
        at = f"epoch {record.epoch:3d}/{settings.train.epochs}"
        say(APP, "{}  loss {}  held-out loss {}  AUC {}".format(at, *shown))

    return progress
