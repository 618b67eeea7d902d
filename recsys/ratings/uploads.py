"""What a client sends where gradients are summed in the clear: her items and their grid values.

Source: FedGNN (Wu et al., arXiv:2102.04925), Algorithm 1: the upload of (g_m, g_e, g_p).
Model: the message protects nothing by itself. What it shows is what noise and pseudo-interacted
    items leave to see, and its length tells the number of items.
Error: a value beyond its word is the nearest that fits: without noise there is none, with noise one
    has a probability of at most 2^-60.
"""

import struct
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mpc.core.checks import integer
from mpc.core.errors import ParameterError, PeerError, WireError
from mpc.core.wire import Message
from recsys.ratings.aggregate_vector import Layout
from secagg.messages import MAX_ID, check_session

_ROUTE = struct.Struct("<2I")
_ITEM_BYTES = 4
_STEP = 1 << 15  # values of a piece that stays in the second cache level


class GradientUpload(Message, frozen=True, tag="ratings.gradients"):
    """Client to recommender: one client's gradients of one round.

    route: client and round, four bytes each.  items: their indices, rising, as little-endian words
    of four bytes.  values: the rows of these items, then the weights, as signed little-endian
    integers of ``UploadFormat.word`` bytes.
    """

    session: bytes
    route: bytes
    items: bytes
    values: bytes

    def __post_init__(self) -> None:
        """Refuse a session or a route of the wrong size."""
        check_session(self.session)
        if len(self.route) != _ROUTE.size:
            raise ParameterError(f"route must be {_ROUTE.size} bytes, got {len(self.route)}")


@dataclass(frozen=True)
class UploadFormat:
    """What the recommender and its clients agree on.

    session: 16 bytes, fresh for each run.  word: bytes of a value, 1 to 8.
    """

    session: bytes
    layout: Layout
    word: int

    @cached_property
    def limit(self) -> int:
        """Bytes of the largest message, that of a client who uploads every item."""
        return self.size(self.layout.n_items)

    def message(
        self, client: int, round_: int, items: NDArray[np.int32], values: NDArray[np.int64]
    ) -> GradientUpload:
        """The upload of a client. values: the rows, then the weights, flat."""
        route = _ROUTE.pack(
            integer("client", client, 0, MAX_ID), integer("round", round_, 0, MAX_ID)
        )
        data = _pack(values, self.word)
        return GradientUpload(self.session, route, items.astype("<u4").tobytes(), data)

    def size(self, items: int) -> int:
        """Bytes of the message of a client with so many items, exactly."""
        entries = items * self.layout.width + self.layout.n_weights
        empty = GradientUpload(
            self.session, bytes(_ROUTE.size), bytes(items * _ITEM_BYTES), bytes(entries * self.word)
        )
        return len(empty.to_bytes())

    def read(
        self, data: bytes, client: int, round_: int
    ) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
        """Items (k,) and values (k * width + n_weights,) of the message that ``client`` sent.

        Raises PeerError for anything else than an upload of that client in that round.
        """
        layout = self.layout
        try:
            upload = GradientUpload.from_bytes(data, limit=self.limit)
            items = np.frombuffer(upload.items, dtype="<u4").astype(np.int64)
        except (WireError, ValueError) as error:
            raise PeerError(f"client {client} sent no upload", party=client) from error
        entries = items.size * layout.width + layout.n_weights
        if upload.session != self.session or upload.route != _ROUTE.pack(client, round_):
            raise PeerError(f"client {client} sent an upload of another round", party=client)
        if len(upload.values) != entries * self.word:
            raise PeerError(
                f"client {client} sent {len(upload.values)} bytes for {entries} values of "
                f"{self.word} bytes",
                party=client,
            )
        if (np.diff(items, prepend=-1, append=layout.n_items) <= 0).any():
            raise PeerError(
                f"the items of client {client} are not distinct, rising and below {layout.n_items}",
                party=client,
            )
        return items.astype(np.int32), _unpack(upload.values, self.word)


def word_for(reach: int) -> int:
    """Bytes of a signed word for values within ``reach`` of 0, at most 8."""
    return min(-(-(reach.bit_length() + 1) // 8), 8)


def _pack(values: NDArray[np.int64], word: int) -> bytes:
    largest = (1 << 8 * word - 1) - 1
    out = np.empty(values.size, dtype=_pieces(word))
    for start in range(0, values.size, _STEP):
        kept = np.clip(values[start : start + _STEP], -largest - 1, largest)
        part = out[start : start + _STEP]
        for name, (_, offset) in _places(word).items():
            # The cast keeps the low bytes of what is left.
            part[name] = (kept >> 8 * offset).astype(part[name].dtype)
    return out.tobytes()


def _unpack(data: bytes, word: int) -> NDArray[np.int64]:
    pieces = np.frombuffer(data, dtype=_pieces(word))
    out = np.zeros(pieces.size, dtype=np.int64)
    for start in range(0, out.size, _STEP):
        part = pieces[start : start + _STEP]
        for name, (_, offset) in _places(word).items():
            out[start : start + _STEP] |= part[name].astype(np.int64) << 8 * offset
    return out


def _pieces(word: int) -> np.dtype[Any]:
    """A little-endian integer of ``word`` bytes as machine words, of which the last has the sign.

    Whole columns of such pieces are read and written without a loop over the integers.
    """
    return np.dtype([(name, kind) for name, (kind, _) in _places(word).items()])


def _places(word: int) -> dict[str, tuple[str, int]]:
    """Name of each piece: its dtype, and the byte where it begins."""
    places: dict[str, tuple[str, int]] = {}
    offset = 0
    for size in (8, 4, 2, 1):
        if word - offset >= size:
            offset += size
            sign = "i" if offset == word else "u"
            places[f"byte{offset - size}"] = (f"<{sign}{size}", offset - size)
    return places
