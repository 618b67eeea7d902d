"""Checks on a roster of public keys, the same ones for every member.

Source: Bonawitz et al., CCS 2017, section 4.0.2: the server relays the public keys.
Model: semi-honest server. Against a server that replaces keys, public keys need signatures of
    identities that members know; that belongs to the protocol with drop-out recovery.
"""

import hashlib

from mpc.core.errors import PeerError
from mpc.core.keys import label
from secagg.messages import SERVER, Roster
from secagg.params import PadParams


def check_roster(roster: Roster, params: PadParams, client: int, public: bytes) -> None:
    """PeerError unless ``roster`` lists exactly the cohort, with ``client``'s own key unchanged."""
    if roster.clients != params.clients:
        raise PeerError(
            f"the roster lists {len(roster.clients)} clients that are not this session's "
            f"{len(params.clients)} in rising order",
            party=SERVER,
        )
    if len(set(roster.publics)) != len(roster.publics):
        # Two members with one key would share pads with everybody else.
        raise PeerError("two members of the roster have the same public key", party=SERVER)
    own = roster.publics[roster.clients.index(client)]
    if own != public:
        raise PeerError(f"the roster holds another key for client {client}", party=SERVER)


def key_id(purpose: str, session: bytes, *publics: bytes) -> bytes:
    """The public name, 32 bytes, under which a watermark keeps the marks of these keys."""
    return hashlib.sha256(label(purpose, session, *publics)).digest()
