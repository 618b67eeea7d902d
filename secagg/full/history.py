"""What a client remembers of a session: the rounds it took part in, and whether it refused.

Source: ours, from two rules: a (session, round) is served at most once, and a refusal is final.
Model: as ``secagg.watermark``, on which it is kept: with a ``FileWatermark`` it outlives a crash.
"""

import hashlib
from contextlib import suppress

from mpc.core.errors import StateError
from mpc.core.keys import label
from secagg.messages import MAX_ID
from secagg.params import MAX_EPOCH_BYTES
from secagg.watermark import MemoryWatermark, Watermark

# A round is one block of a stream that is never made; the last block of all closes the session.
_BLOCK = 16


class History:
    """The rounds of one client. One object serves all its sessions.

    watermark: in memory by default; give a ``FileWatermark`` that survives the process where the
    client takes up its sessions again after a crash.
    """

    def __init__(self, watermark: Watermark | None = None) -> None:
        self._watermark: Watermark = MemoryWatermark() if watermark is None else watermark
        self._refused: set[bytes] = set()

    def enter(self, session: bytes, client: int, round: int) -> None:
        """Take part in ``round``: StateError unless it lies after all others of the session.

        Also after a refusal, which is final for the session.
        """
        self.check(session, client)
        try:
            self._watermark.claim(_name(session, client), round, 0, _BLOCK)
        except StateError as error:
            raise StateError(
                f"client {client} has served round {round} or a later one of this session, or has "
                "refused to go on with it",
                remedy="take a later round; after a refusal, a new session",
            ) from error

    def check(self, session: bytes, client: int) -> None:
        """StateError after a refusal in any round of ``session``."""
        if _name(session, client) in self._refused:
            raise StateError(
                f"client {client} has refused to go on with this session",
                remedy="start a new session",
            )

    def refuse(self, session: bytes, client: int) -> None:
        """No round of ``session`` from now on, also of those under way."""
        end = MAX_EPOCH_BYTES
        self._refused.add(_name(session, client))
        with suppress(StateError):  # it is closed already
            self._watermark.claim(_name(session, client), MAX_ID, end - _BLOCK, end)


def _name(session: bytes, client: int) -> bytes:
    return hashlib.sha256(label("secagg.full.session", session, client)).digest()
