"""The join: who holds a token in common with whom, for any number of users at once.

Source: FedGNN (Wu et al., arXiv:2102.04925), Fig. 3: "item matcher" and "neighbor distributor".
Model: run by the matcher alone, on tokens that carry nothing but equality.
Leaks: nothing by itself; what tokens tell the matcher is on the protocol's page.
Error: none beyond equal tokens of unequal items (``messages.TOKEN_BYTES``).
Differs: tokens of too few or too many users are dropped; every neighbour counts once, whatever
    the number of common items.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mpc.core.checks import integer
from mpc.core.errors import ParameterError
from mpc.core.rng import SYSTEM_RNG, Rng

# A block of users is as large as its table of (user, neighbour) flags may be.
_BLOCK_FLAGS = 1 << 24
_BLOCK_PAIRS = 1 << 22
_MAX_USERS = 2**31 - 1

Tokens = NDArray[np.uint8]
"""Shape (users, m, bytes of a token)."""


@dataclass(frozen=True)
class Adjacency:
    """The neighbours of n users: those of user i are members[offsets[i] : offsets[i + 1]].

    offsets: int64, (n + 1,), from 0, not falling.  members: int32, indices of users.
    """

    offsets: NDArray[np.int64]
    members: NDArray[np.int32]

    def of(self, user: int) -> NDArray[np.int32]:
        """The neighbours of ``user``."""
        return self.members[self.offsets[user] : self.offsets[user + 1]]

    @property
    def degrees(self) -> NDArray[np.int64]:
        """The number of neighbours of every user, (n,)."""
        return np.diff(self.offsets)


def join(tokens: Tokens, min_group: int, max_group: int | None = None) -> Adjacency:
    """Everybody's neighbours, each list rising: users with a token in common that counts.

    tokens: uint8, (users, m, w); a token that occurs twice with one user counts once.  A token
    counts if at least ``min_group`` (2 or more) and at most ``max_group`` users hold it; None
    sets no upper bound.
    Raises ParameterError for another dtype or shape, and bounds out of order.
    """
    is_table = isinstance(tokens, np.ndarray) and tokens.dtype == np.uint8 and tokens.ndim == 3
    if not is_table or not tokens.shape[2]:
        raise ParameterError("tokens must be a uint8 array of shape (users, m, bytes)")
    n = integer("the number of users", len(tokens), 0, _MAX_USERS)
    min_group = integer("min_group", min_group, 2, _MAX_USERS)
    if max_group is not None:
        max_group = integer("max_group", max_group, min_group, 2**63 - 1)
    offsets, holders = _groups(tokens, min_group, max_group)
    return _adjacency(n, offsets, holders)


def _groups(
    tokens: Tokens, low: int, high: int | None
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The users who hold each token that counts: offsets (groups + 1,) and users, rising."""
    n, m, width = tokens.shape
    padded = np.zeros((n * m, -(-width // 8) * 8), dtype=np.uint8)
    padded[:, :width] = tokens.reshape(n * m, width)
    words = padded.view(np.uint64)
    order = np.lexsort(words.T)  # stable: equal tokens stay in the order of their users
    words, users = words[order], order // m
    new_token = np.ones(n * m, dtype=np.bool_)
    new_token[1:] = (words[1:] != words[:-1]).any(axis=1)
    new_pair = new_token.copy()
    new_pair[1:] |= users[1:] != users[:-1]
    group = (np.cumsum(new_token) - 1)[new_pair]
    users = users[new_pair]
    sizes = np.bincount(group)
    counts = sizes >= low
    if high is not None:
        counts &= sizes <= high
    users = users[counts[group]] if group.size else users
    return _ends(sizes[counts]), users


def _ends(sizes: NDArray[np.int64]) -> NDArray[np.int64]:
    offsets = np.zeros(sizes.size + 1, dtype=np.int64)
    np.cumsum(sizes, out=offsets[1:])
    return offsets


def _adjacency(n: int, offsets: NDArray[np.int64], holders: NDArray[np.int64]) -> Adjacency:
    sizes = np.diff(offsets)
    groups = np.repeat(np.arange(sizes.size), sizes)
    order = np.argsort(holders, kind="stable")
    users, groups = holders[order], groups[order]  # one entry for each (user, token), by user
    first_entry = np.searchsorted(users, np.arange(n + 1))
    # Entries before a user, and the pairs that they expand to.
    pairs = _ends(sizes[groups])
    degrees = np.zeros(n, dtype=np.int64)
    members: list[NDArray[Any]] = []
    start = 0
    while start < n:
        stop = min(n, start + max(1, _BLOCK_FLAGS // n))
        limit = pairs[first_entry[start]] + _BLOCK_PAIRS
        fitting = int(np.searchsorted(pairs[first_entry[start : stop + 1]], limit, side="right"))
        stop = min(stop, start + max(1, fitting - 1))
        entries = slice(first_entry[start], first_entry[stop])
        flags = np.zeros((stop - start, n), dtype=np.bool_)
        expanded, row = _expand(offsets, sizes, groups[entries])
        flags[(users[entries] - start)[row], holders[expanded]] = True
        flags[np.arange(stop - start), np.arange(start, stop)] = False  # nobody is her own
        rows, columns = np.nonzero(flags)
        degrees[start:stop] = np.bincount(rows, minlength=stop - start)
        members.append(columns.astype(np.int32))
        start = stop
    joined = np.concatenate(members) if members else np.empty(0, dtype=np.int32)
    return Adjacency(_ends(degrees), joined)


def _expand(
    offsets: NDArray[np.int64], sizes: NDArray[np.int64], groups: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """All positions of the given groups' holders, and for each the index of its group here."""
    lengths = sizes[groups]
    row = np.repeat(np.arange(groups.size), lengths)
    within = np.arange(row.size) - np.repeat(_ends(lengths)[:-1], lengths)
    return offsets[groups][row] + within, row


def shuffle(adjacency: Adjacency, *, rng: Rng = SYSTEM_RNG) -> Adjacency:
    """Every user's list in uniformly random order, independently: Fisher and Yates, from the end.

    Step k draws one integer below k + 1 for each user with more than k neighbours, those with the
    most neighbours first.
    """
    members = adjacency.members.copy()
    degrees = adjacency.degrees
    order = np.argsort(-degrees, kind="stable")
    starts, falling = adjacency.offsets[:-1][order], -degrees[order]
    for k in range(int(degrees.max(initial=1)) - 1, 0, -1):
        longer = int(np.searchsorted(falling, -k))  # users with more than k neighbours
        here = starts[:longer] + k
        there = starts[:longer] + rng.uniform(k + 1, longer, np.uint32).astype(np.int64)
        members[here], members[there] = members[there], members[here]
    return Adjacency(adjacency.offsets, members)


def permutation(n: int, *, rng: Rng = SYSTEM_RNG) -> NDArray[np.int32]:
    """0, ..., n - 1 in uniformly random order."""
    members = np.arange(n, dtype=np.int32)
    return shuffle(Adjacency(np.array([0, n], dtype=np.int64), members), rng=rng).members


def limit(adjacency: Adjacency, most: int) -> Adjacency:
    """The first ``most`` neighbours of every user; of shuffled lists a uniformly random subset."""
    degrees = np.minimum(adjacency.degrees, most)
    offsets = _ends(degrees)
    within = np.arange(int(offsets[-1])) - np.repeat(offsets[:-1], degrees)
    return Adjacency(
        offsets, adjacency.members[np.repeat(adjacency.offsets[:-1], degrees) + within]
    )
