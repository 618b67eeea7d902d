"""Runs of ``learning_app`` by real processes: how they are set up, and what they leave."""

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from secagg.flower.addresses import node_fingerprint
from secagg.flower.keyring import write_identity
from secagg.full.identity import Identity
from secagg.signed_roster import Entry, SignedRoster
from tests.secagg.flower import learning_app
from tests.support.flower_deployment import Deployment, Started, write_app
from tests.support.flower_keys import NodeKey, node_key

Config = dict[str, str | float | bool]

RESTART_SECONDS = 180.0
CONNECTED = "SuperNode ID:"
"""What a SuperNode says once the SuperLink has taken it."""


def run_config(folder: Path, **changes: str | float | bool) -> Config:
    """The run config of a test that has ``folder`` to itself."""
    config: Config = {
        "nodes": 3,
        "rounds": 2,
        "told": str(folder / "told.json"),
        "marks": "",
        "doubled": False,
        "variant": "semi-honest",
        "dropout": 0.3,
        "corrupt": 0.1,
        "deadline": 60.0,
        "roster": "",
        "operator": "",
    }
    return config | changes


def write(folder: Path, config: Mapping[str, str | float | bool], client: str = "client") -> Path:
    """The app for ``flwr run``; client: which of the module's, as in ``malicious_client``."""
    module = learning_app.__name__
    return write_app(folder / "app", f"{module}:server_app", f"{module}:{client}_app", config)


def told(folder: Path) -> dict[str, Any]:
    """What the server wrote down."""
    found: dict[str, Any] = json.loads((folder / "told.json").read_text())
    return found


def marks(folder: Path) -> learning_app.Marks:
    """The folder of marks of a test; its path goes into the run config."""
    (folder / "marks").mkdir()
    return learning_app.Marks(folder / "marks")


@dataclass
class Registered:
    """SuperNodes with keys: those that the SuperLink knows them by, and those of our own.

    bound: how many of them the roster lists with the key that the SuperLink knows; the others have
    to greet.
    """

    flower: Deployment
    nodes: int
    bound: int
    operator: Identity = field(default_factory=Identity.generate)
    keys: list[NodeKey] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Write all files, and register."""
        entries = []
        for node in range(self.nodes):
            key, identity = node_key(self.path("node", node)), Identity.generate()
            self.keys.append(key)
            write_identity(self.path("identity", node), identity)
            fingerprint = node_fingerprint(key.pem) if node < self.bound else b""
            entries.append(Entry(node, f"client {node}", identity.public, fingerprint))
        SignedRoster.sign(entries, self.operator).write(self.roster)
        registered = [self.flower.register(key, f"node-{n}") for n, key in enumerate(self.keys)]
        for command in registered:
            command.wait()

    @property
    def roster(self) -> Path:
        return self.flower.folder / "roster"

    def path(self, what: str, node: int) -> Path:
        """A file of a node: "node" (its key), "identity", "state" (its marks on disk)."""
        return self.flower.folder / f"{what}-{node}"

    def config(self) -> Config:
        """Of the run config, what is about keys."""
        return {
            "variant": "malicious",
            "roster": str(self.roster),
            "operator": self.operator.public.hex(),
        }

    def start(self, node: int) -> Started:
        """A node, for the first time or again."""
        return self.flower.start_node(
            self.keys[node],
            partition_id=node,
            num_partitions=self.nodes,
            secagg_state=str(self.path("state", node)),
            secagg_identity=str(self.path("identity", node)),
            secagg_roster=str(self.roster),
            secagg_operator=self.operator.public.hex(),
        )

    def restart(self, node: int) -> Started:
        """A node again, after its death: the SuperLink takes it once it has missed its heartbeats.

        Raises ProcessError if it does not in time.
        """
        deadline = time.monotonic() + RESTART_SECONDS
        while True:
            started = self.start(node)
            while CONNECTED not in started.text() and started.living:
                time.sleep(0.1)
            if started.living or time.monotonic() > deadline:
                started.check()
                return started
            time.sleep(2)
