"""Which node is which client: Flower's node ids are addresses, ours are members of a session.

    addresses = Addresses(roster)                   # or None, in the semi-honest variant
    addresses.learn(grid.get_nodes())
    clients, unknown = addresses.clients(nodes)

Source: ours.
Model: in the semi-honest variant the server may say who is who. In the malicious one clients
    believe the operator's roster alone; what this table says only decides whom the server asks. A
    node is known by the key with which it is registered at the SuperLink, or else greets: it signs
    the session's name. A node that claims to be somebody else gets no further than that, since its
    keys need that client's signature.
Leaks: nothing.
"""

import base64
import binascii
import hashlib
from collections.abc import Iterable, Sequence
from typing import Any

from mpc.core.errors import ParameterError, PeerError
from secagg.flower.records import Hello
from secagg.signed_roster import SignedRoster

FIRST = 1
"""The id of the first node of a semi-honest session."""

_BEGIN, _END = b"-----BEGIN PUBLIC KEY-----", b"-----END PUBLIC KEY-----"


def node_fingerprint(public_key: bytes) -> bytes:
    """SHA-256 of a SuperNode's public key, for ``Entry.node`` of a roster.

    public_key: in PEM, as Flower's ``NodeInfo`` has it; ``ssh-keygen -e -m PKCS8 -f key.pub`` makes
    that of OpenSSH's form. Hashed is its DER form, so that spaces do not count.
    Raises ParameterError for anything else.
    """
    text = bytes(public_key).strip()
    if text.startswith(_BEGIN) and text.endswith(_END):
        body = b"".join(text[len(_BEGIN) : -len(_END)].split())
        try:
            return hashlib.sha256(base64.b64decode(body, validate=True)).digest()
        except binascii.Error:
            pass
    raise ParameterError(
        "public_key is no public key in PEM", remedy="ssh-keygen -e -m PKCS8 -f key.pub"
    )


class Addresses:
    """Clients by node, for one session; what is known stays.

    roster: in the malicious variant; None lets the server number the nodes as they come.
    """

    def __init__(self, roster: SignedRoster | None) -> None:
        self._roster = roster
        self._clients: dict[int, int] = {}

    def unknown(self, nodes: Sequence[int]) -> list[int]:
        """Those of ``nodes`` that have no client yet."""
        return [node for node in nodes if node not in self._clients]

    def number(self, nodes: Sequence[int]) -> None:
        """Give each new node the next id; for the semi-honest variant."""
        for node in self.unknown(nodes):
            self._clients[node] = FIRST + len(self._clients)

    def learn(self, infos: Iterable[Any]) -> None:
        """Know nodes by the keys with which they are registered: ``Grid.get_nodes()``."""
        for info in infos:
            client = self._of_key(info.public_key)
            if client is not None:
                self._clients.setdefault(info.node_id, client)

    def greet(self, node: int, hello: Hello, session: bytes) -> None:
        """Know a node by its greeting. PeerError unless it is by a client of the roster."""
        client = None if self._roster is None else self._roster.client_of(hello.public)
        if self._roster is None or client is None:
            raise PeerError("the node's identity is not in the roster", party=node)
        if not hello.is_from(self._roster, client, session):
            raise PeerError(f"the node did not show that it is client {client}", party=node)
        self._clients[node] = client

    def clients(self, nodes: Sequence[int]) -> tuple[dict[int, int], dict[int, str]]:
        """The nodes by client, in rising order of clients; and why the others have none.

        Of two nodes that are the same client the first one counts.
        """
        found: dict[int, int] = {}
        without: dict[int, str] = {}
        for node in nodes:
            client = self._clients.get(node)
            if client is None:
                without[node] = "the node did not say which client of the roster it is"
            elif client in found:
                without[node] = f"another node is client {client} already"
            else:
                found[client] = node
        return dict(sorted(found.items())), without

    def _of_key(self, public_key: bytes) -> int | None:
        if self._roster is None or not public_key:
            return None
        try:
            return self._roster.client_of_node(node_fingerprint(public_key))
        except ParameterError:
            return None
