"""What a client remembers of a session: rounds, the steps it took in them, whether it refused.

Source: ours, from three rules: a (session, round) is entered at most once, each of its steps is
    answered at most once, and a refusal is final. Each is written down before anything leaves.
Model: as ``secagg.watermark``, on which it is kept: with a ``FileWatermark`` it outlives a crash.
"""

import hashlib
from contextlib import suppress

from mpc.core.checks import integer
from mpc.core.errors import StateError
from mpc.core.keys import label
from secagg.full.messages import Step
from secagg.messages import MAX_ID
from secagg.params import MAX_EPOCH_BYTES
from secagg.watermark import MemoryWatermark, Watermark

# Rounds and steps are blocks of streams that are never made: a round is the first block of its
# epoch, and step s the block s. The last block of all closes a stream.
_BLOCK = 16

_LANES = 8
"""Rounds of a session that can be under way at once, if their ids follow each other.

Steps of round r are marked in stream r mod 8, so that marks do not grow with the rounds.
"""


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

    def step(self, session: bytes, client: int, round: int, step: int) -> None:
        """Take ``step`` of a round, in [1, 5]: StateError if it or a later one was taken before.

        Also after a refusal in any round of the session, and once the round with the id
        ``round + 8`` or a greater multiple has begun to answer.
        """
        self.check(session, client)
        start = _BLOCK * integer("step", step, Step.ADVERTISE_KEYS, Step.UNMASKING)
        try:
            self._watermark.claim(_lane(session, client, round), round, start, start + _BLOCK)
        except StateError as error:
            raise StateError(
                f"client {client} has answered in step {step} of round {round} or later, or has "
                "refused to go on with the session",
                remedy="what an older copy of a client was asked stays unanswered",
            ) from error

    def resume(self, session: bytes, client: int, round: int) -> None:
        """Go on with a round that was entered here. StateError if it was not.

        Marks that are lost must not look like marks that never were, so a history that does not
        know the round closes the session.
        """
        self.check(session, client)
        try:
            self._watermark.claim(_name(session, client), round, 0, _BLOCK)
        except StateError:
            return  # this round or a later one was entered
        self.refuse(session, client)
        raise StateError(
            f"this history does not know of round {round} of client {client}",
            remedy="give the history that the client was made with",
        )

    def refuse(self, session: bytes, client: int) -> None:
        """No round of ``session`` and no step from now on, also of rounds under way."""
        self._refused.add(_name(session, client))
        end = MAX_EPOCH_BYTES
        for stream in (
            _name(session, client),
            *(_lane(session, client, lane) for lane in range(_LANES)),
        ):
            with suppress(StateError):  # it is closed already
                self._watermark.claim(stream, MAX_ID, end - _BLOCK, end)


def _name(session: bytes, client: int) -> bytes:
    return hashlib.sha256(label("secagg.full.session", session, client)).digest()


def _lane(session: bytes, client: int, round: int) -> bytes:
    return hashlib.sha256(label("secagg.full.steps", session, client, round % _LANES)).digest()
