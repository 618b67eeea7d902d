"""Item ids as bytes, chosen and padded to exactly m for each client.

Source: FedGNN (Wu et al., arXiv:2102.04925), Fig. 3 and Algorithm 2, "item IDs" of user i; the
    dummies and the fixed number m are ours.
Leaks: nothing leaves the client here. With ``excess="sample"`` a client who joins many sessions
    shows another part of her history in each.
Error: ids of different types never coincide: the integer 5, the text "5" and the byte 0x35 are
    three items, so that an application has to agree on one form. Texts are compared after
    normalisation to NFC: a letter with a separate accent and the composed letter are one item.
"""

import operator
import unicodedata
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Literal, SupportsIndex

from mpc.core.checks import integer
from mpc.core.errors import ParameterError
from mpc.core.keys import label
from mpc.core.rng import SYSTEM_RNG, Rng

ItemId = SupportsIndex | str | bytes
"""An item: an integer of any sign (numpy's too), a text, or bytes."""

Excess = Literal["refuse", "sample"]
"""What happens to a client with more than m items."""

MAX_ID_BYTES = 1024
MAX_ITEMS = (1 << 16) - 1  # as many evaluations share one proof (``mpc.oprf.MAX_BATCH``)
DUMMY_BYTES = 32


def encode_id(item: ItemId) -> bytes:
    """An injective encoding of one id: its kind, then its bytes.

    Raises ParameterError for a bool, a float, another type, a text with a lone surrogate, or an
    id of more than 1024 bytes; the error names the type, never the id.
    """
    if isinstance(item, bytes):
        encoded = b"b" + item
    elif isinstance(item, str):
        encoded = b"s" + _text(item)
    else:
        encoded = b"i" + _number(item)
    if len(encoded) > MAX_ID_BYTES + 1:
        raise ParameterError(
            f"an item id has at most {MAX_ID_BYTES} bytes, got {len(encoded) - 1}",
            remedy="use a digest of the long id",
        )
    return encoded


def _text(item: str) -> bytes:
    encoded = None
    # Our error is raised outside: Python's quotes the text and must not hang on it.
    with suppress(UnicodeEncodeError):
        encoded = unicodedata.normalize("NFC", item).encode()
    if encoded is None:
        raise ParameterError("a text id holds a lone surrogate, which has no encoding")
    return encoded


def _number(item: SupportsIndex) -> bytes:
    number = None
    if not isinstance(item, bool):
        with suppress(TypeError):
            number = operator.index(item)
    if number is None:
        raise ParameterError(
            f"an item id must be an integer, str or bytes, got {type(item).__name__}",
            remedy="say what a float or bool stands for, as an integer or a text",
        )
    # One byte more than the magnitude needs leaves room for the sign, and 0 has a byte too.
    return number.to_bytes(number.bit_length() // 8 + 1, "big", signed=True)


@dataclass(frozen=True)
class ItemSet:
    """Distinct encoded ids of one client, in an order that tells nothing of how they were given.

    duplicates: ids given a second time, which count once.  left_out: ids beyond m that were not
    sampled. Both are for the client alone.
    """

    encoded: tuple[bytes, ...] = field(repr=False)
    duplicates: int = field(repr=False)
    left_out: int = field(repr=False)


def choose(
    items: Iterable[ItemId], m: int, *, excess: Excess = "refuse", rng: Rng = SYSTEM_RNG
) -> ItemSet:
    """At most ``m`` distinct items of ``items``.

    excess: with more than m distinct ids, "refuse" raises ParameterError, "sample" keeps m of
    them, every subset equally likely.  m lies in [1, 65535].
    """
    m = integer("m", m, 1, MAX_ITEMS)
    if excess not in ("refuse", "sample"):
        raise ParameterError(f"excess must be 'refuse' or 'sample', got {excess!r}")
    if isinstance(items, str | bytes):
        raise ParameterError("items must be a collection of ids, got a single one")
    given = [encode_id(item) for item in items]
    distinct = sorted(set(given))
    duplicates, left_out = len(given) - len(distinct), max(0, len(distinct) - m)
    if left_out and excess == "refuse":
        raise ParameterError(
            f"a client brings at most {m} items, got {len(distinct)}",
            remedy="pass excess='sample', or agree on a larger number of items for all",
        )
    if left_out:
        # The first m steps of a Fisher-Yates shuffle.
        for i in range(m):
            j = i + int(rng.uniform(len(distinct) - i))
            distinct[i], distinct[j] = distinct[j], distinct[i]
    return ItemSet(tuple(sorted(distinct[:m])), duplicates, left_out)


def item_input(encoded: bytes, session: bytes) -> bytes:
    """The input of the keyed function for one encoded id in one session."""
    return label("matching.item", session, encoded)


def padded_inputs(
    chosen: ItemSet, m: int, session: bytes, *, rng: Rng = SYSTEM_RNG
) -> tuple[bytes, ...]:
    """Exactly ``m`` inputs of the keyed function: the items, then dummies.

    session: what all parties of a session have in common, and no other session has.  A dummy is
    the label of 32 fresh bytes under a purpose of its own, so that it is no item's input and,
    but for a probability of 2^-256 for each pair, nobody else's dummy.
    """
    missing = m - len(chosen.encoded)
    if missing < 0:
        raise ParameterError(f"{len(chosen.encoded)} items do not fit into {m}")
    fresh = rng.bytes(DUMMY_BYTES * missing)
    items = [item_input(encoded, session) for encoded in chosen.encoded]
    dummies = [
        label("matching.dummy", session, fresh[start : start + DUMMY_BYTES])
        for start in range(0, len(fresh), DUMMY_BYTES)
    ]
    return (*items, *dummies)
