"""A node's own identity and the operator's roster, from files that its configuration names.

    flower-supernode --node-config 'secagg-identity="/etc/node/identity.key"
        secagg-roster="/etc/node/roster.bin" secagg-operator="5f0c..."' ...

Source: ours; for the malicious variant alone.
Model: the three come to the node by a way that the server cannot alter, and the operator's public
    key is what everything else rests on. That the server ships the app which reads them is said in
    the threat model.
Leaks: nothing; no message quotes a key.
"""

import os
import re
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path

from mpc.core.durable import PRIVATE, write_durably
from mpc.core.errors import ParameterError, WireError
from secagg.full.identity import PRIVATE_BYTES, PUBLIC_BYTES, Identity
from secagg.signed_roster import SignedRoster

IDENTITY_PATH = "secagg-identity"
"""The key of ``node_config`` for the file that ``write_identity`` made."""

ROSTER_PATH = "secagg-roster"
"""The key for the file of the ``SignedRoster``."""

OPERATOR = "secagg-operator"
"""The key for the operator's public key, as 64 hexadecimal digits."""

_HEX = re.compile(rf"[0-9a-fA-F]{{{2 * PUBLIC_BYTES}}}")


class Keyring:
    """What a node's configuration says about keys; files are read when they are asked for.

    Properties raise ParameterError for what is not configured or is no such thing, WireError for a
    roster that the operator did not sign, OSError for files that cannot be read.
    """

    def __init__(self, node_config: Mapping[str, object]) -> None:
        self._config = dict(node_config)

    @cached_property
    def identity(self) -> Identity:
        """This node's signing key."""
        return read_identity(self._text(IDENTITY_PATH))

    @cached_property
    def roster(self) -> SignedRoster:
        """Everybody's public keys, as the operator signed them."""
        operator = self._text(OPERATOR)
        if not _HEX.fullmatch(operator):
            raise ParameterError(
                f"{OPERATOR} must be a public key of {2 * PUBLIC_BYTES} hexadecimal digits",
                remedy="print it: operator.public.hex()",
            )
        return SignedRoster.from_file(self._text(ROSTER_PATH), bytes.fromhex(operator))

    @cached_property
    def client(self) -> int:
        """This node's id in the roster."""
        client = self.roster.client_of(self.identity.public)
        if client is None:
            raise ParameterError(
                "the operator's roster does not list this node's identity",
                remedy=f"have it listed, or check {IDENTITY_PATH} and {ROSTER_PATH}",
            )
        return client

    def _text(self, name: str) -> str:
        value = self._config.get(name)
        if not isinstance(value, str) or not value:
            raise ParameterError(
                f"this node has no {name}", remedy=f"--node-config '{name}=\"...\"'"
            )
        return value


def write_identity(path: str | os.PathLike[str], identity: Identity) -> None:
    """The private key's 32 bytes as a file that its owner alone may read."""
    write_durably(Path(path), identity.private_bytes(), mode=PRIVATE)


def read_identity(path: str | os.PathLike[str]) -> Identity:
    """The identity in a file. WireError for another length, OSError if it cannot be read."""
    data = Path(path).read_bytes()
    if len(data) != PRIVATE_BYTES:
        raise WireError(f"a file of an identity has {PRIVATE_BYTES} bytes, got {len(data)}")
    return Identity(data)
