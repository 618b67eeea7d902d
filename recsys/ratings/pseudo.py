"""Pseudo-interacted items: what a user uploads besides what she rated, so that neither stands out.

Source: FedGNN (Wu et al., arXiv:2102.04925), section 3.3, "pseudo interacted item sampling": M
    items without interaction get gradients "using a Gaussian distribution with the same mean and
    co-variance values with the real item embedding gradients".
Model: the recommender sees which items a user uploads in each round, and follows the protocol.
Leaks: no epsilon is claimed, and none is finite: what a user uploads always holds all that she
    rated, and an item that she never uploads is not hers. ``recsys.ratings.intersection`` measures
    what remains of the rest. A user who rated all items has nothing to hide among.
Error: sets are uniform among all of their size, but for a tie of two 64-bit numbers, which a set
    meets with a probability below 2^-37 for ten thousand items. Gaussian rows have the mean and the
    covariance of the real ones, which are those of a sample of K, in single precision
    (``recsys.ratings.gaussian``); the rows of one real item are that item's, as K = 1 has no
    covariance.
Differs: the paper does not say whether a user draws her items once or in every round. They are
    sticky by default, since whoever intersects rounds is soon left with the real ones. No d x d
    covariance is formed where K is at most d.
"""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mpc.core.checks import integer
from mpc.core.errors import ParameterError
from mpc.core.keys import KEY_BYTES, derive
from mpc.core.keystream import Keystream
from mpc.core.prg import Prg
from mpc.core.rng import Rng
from recsys.data.ratings import Indices, Triples
from recsys.errors import DivergenceError
from recsys.ratings.config import PSEUDO
from recsys.ratings.gaussian import similar_rows
from recsys.ratings.gradients import Gradients
from recsys.run import Run
from recsys.simulation import SimulationRng

_ITEMS = "pseudo-interacted items"
_ROWS = "gradients of pseudo-interacted items"


@dataclass(frozen=True, eq=False)
class PseudoSets:
    """The pseudo-interacted items of c clients in one round, side by side as in ``Gradients``.

    members: int32 (c,).  starts: int64 (c + 1,).  items: int32, rising within a client.
    seeds: uint8 (c, 32), of the Gaussian rows of each client in this round.
    """

    members: NDArray[np.int32]
    starts: NDArray[np.int64]
    items: NDArray[np.int32] = field(repr=False)
    seeds: NDArray[np.uint8] = field(repr=False)


@dataclass(frozen=True)
class Coverage:
    """How many pseudo items the users really have, of whom only those with ratings count.

    asked: M.  users: with training ratings.  least, mean: of the effective M, which is what M and
    the catalogue leave.  short: users with fewer than M.  outnumbered: users whose M is at most
    their K, where the paper wants M > K.  bare: users without any, who rated every item.
    """

    asked: int
    users: int
    least: int
    mean: float
    short: int
    outnumbered: int
    bare: int

    def notes(self) -> tuple[str, ...]:
        """A sentence for each thing that a reader of the run should know."""
        notes = []
        if self.short:
            notes.append(
                f"{_users(self.short)} fewer than {self.asked:,} pseudo-interacted items, as the "
                f"catalogue has no more: {self.mean:,.1f} on average, {self.least:,} at least"
            )
        if self.outnumbered:
            notes.append(
                f"{_users(self.outnumbered)} at most as many pseudo-interacted items as rated ones;"
                " the paper asks for more"
            )
        if self.bare:
            notes.append(
                f"{_users(self.bare)} no pseudo-interacted item, having rated the whole catalogue: "
                "what they rated is what they upload, so the hiding of interactions is off for them"
            )
        return tuple(notes)


def _users(count: int) -> str:
    return "1 user has" if count == 1 else f"{count:,} users have"


def pseudo_keys(users: int, sim: SimulationRng, run: Run, *, seeded: bool) -> NDArray[np.uint8]:
    """The 32-byte key of each user, uint8 (users, 32): her own, or in a seeded run from the seed.

    Her own key is durable before it is used, so that a resumed run uploads the same items.
    """
    if not seeded:
        return run.memo_keys(users)
    everyone = np.arange(users, dtype=np.uint32)
    keys: NDArray[np.uint8] = sim.rows(_ITEMS, everyone).words((users, KEY_BYTES), np.uint8)
    return keys


class PseudoItems:
    """Which items each user uploads besides her own: M of those that she did not rate, or all.

    train: the ratings that clients train on.  count: M.  keys: ``pseudo_keys``.
    how: ``sticky``, one set for each user, or ``resampled``, one for each user and round.

    A set is a pseudo-random function of the user's key, and of the round where it is resampled: the
    key expands to a 64-bit number for every item, and the M smallest are in. So the same round has
    the same set whenever it is repeated, a smaller M has a part of it, and an item that joins the
    catalogue or leaves the unrated ones moves at most one other.
    """

    def __init__(
        self,
        train: Triples,
        n_users: int,
        n_items: int,
        count: int,
        keys: NDArray[np.uint8],
        how: str = "sticky",
    ) -> None:
        self._count = integer("count", count, 0, 2**31 - 1)
        if how not in PSEUDO:
            raise ParameterError(f"how must be one of {', '.join(PSEUDO)}, got {how!r}")
        if keys.dtype != np.uint8 or keys.shape != (n_users, KEY_BYTES):
            raise ParameterError(
                f"keys must be uint8 of shape ({n_users}, {KEY_BYTES}), got {keys.dtype} "
                f"{keys.shape}"
            )
        self._sticky = how == "sticky"
        self._items = train.items
        self._starts = train.starts(n_users)
        self._n_items = n_items
        self._keys = keys
        self._kind = np.min_scalar_type(max(n_items - 1, 0))  # 2 bytes for most catalogues
        self._sets: dict[int, NDArray[Any]] = {}

    def rated(self, user: int) -> Indices:
        """What ``user`` rated: int32, rising."""
        return self._items[self._starts[user] : self._starts[user + 1]]

    def of(self, user: int, round_: int) -> Indices:
        """Pseudo items of ``user`` in ``round_``: int32, rising, none that she rated."""
        if not self._sticky:
            return self._drawn(user, integer("round", round_, 0, 2**32 - 1))
        if user not in self._sets:
            self._sets[user] = self._drawn(user).astype(self._kind)
        return self._sets[user].astype(np.int32)

    def draw(self, members: NDArray[np.int32], round_: int) -> PseudoSets:
        """Those of all ``members`` of a round, int32 (c,).

        The coins of their rows are functions of key and round too: were a round repeated with new
        ones, as after a kill, the rows that stay the same would be the real ones.
        """
        sets = [self.of(int(user), round_) for user in members]
        starts = np.zeros(members.size + 1, dtype=np.int64)
        np.cumsum([one.size for one in sets], out=starts[1:])
        items = np.concatenate([*sets, np.zeros(0, dtype=np.int32)])
        seeds = np.empty((members.size, KEY_BYTES), dtype=np.uint8)
        for k, user in enumerate(members):
            seeds[k] = np.frombuffer(self._derived(int(user), _ROWS, round_), dtype=np.uint8)
        return PseudoSets(members, starts, items, seeds)

    def coverage(self) -> Coverage:
        """How far the catalogue goes for M."""
        rated = np.diff(self._starts)
        rated = rated[rated > 0]  # the others never take part
        effective = np.minimum(self._count, self._n_items - rated)
        return Coverage(
            asked=self._count,
            users=rated.size,
            least=int(effective.min(initial=self._count)),
            mean=float(effective.mean()) if rated.size else float(self._count),
            short=int((effective < self._count).sum()),
            outnumbered=int((effective <= rated).sum()),
            bare=int((effective == 0).sum()),
        )

    def _drawn(self, user: int, *context: int) -> Indices:
        is_unrated = np.ones(self._n_items, dtype=np.bool_)
        is_unrated[self.rated(user)] = False
        unrated = np.flatnonzero(is_unrated).astype(np.int32)
        if unrated.size <= self._count or not self._count:
            return unrated[: self._count]
        numbers = np.empty(self._n_items, dtype=np.uint64)
        Keystream(self._derived(user, _ITEMS, *context)).fill(numbers)
        return smallest(unrated, numbers[is_unrated], self._count)

    def _derived(self, user: int, purpose: str, *context: int) -> bytes:
        return derive(self._keys[user].tobytes(), purpose, *context)


def smallest(items: Indices, numbers: NDArray[np.uint64], count: int) -> Indices:
    """The ``count`` items with the smallest numbers, in the order of ``items``; fewer than all.

    Of independent uniform numbers every set of places is as likely to hold the smallest.
    """
    last = np.partition(numbers, count - 1)[count - 1]
    chosen: Indices = items[numbers <= last]
    return chosen[:count]  # more only where two numbers are the same


def with_pseudo(
    gradients: Gradients, chosen: PseudoSets, rng: Rng | None = None, *, frac_bits: int
) -> Gradients:
    """The gradients of a round with Gaussian rows for pseudo items; items stay rising.

    chosen: the sets of the same members, of items that they did not rate.
    rng: None takes each client's own coins, from ``chosen.seeds``; an ``Rng`` serves all clients,
    one after the other.
    frac_bits: of the grid that the rows will be put on. Single precision is coarser than that for
    large rows or fine grids, and its zeros would tell pseudo items by their low bits: then the rows
    are made in double precision.
    Raises ParameterError for sets of other members or with an item that has a row, and for pseudo
    items of a client without rows; DivergenceError for a gradient that is not finite.
    """
    step = 2.0 ** -integer("frac_bits", frac_bits, 0, 62)
    if not np.array_equal(gradients.members, chosen.members):
        raise ParameterError("the pseudo items are not those of the clients of the gradients")
    if not np.isfinite(gradients.rows).all():
        raise DivergenceError("a gradient is not finite")
    starts = gradients.starts + chosen.starts
    items = np.empty(starts[-1], dtype=np.int32)
    rows = np.empty((starts[-1], gradients.rows.shape[1]))
    for k, user in enumerate(gradients.members):
        real = slice(gradients.starts[k], gradients.starts[k + 1])
        extra = chosen.items[chosen.starts[k] : chosen.starts[k + 1]]
        places = _places(gradients.items[real], extra, int(user))
        own, all_of_it = gradients.rows[real], slice(starts[k], starts[k + 1])
        is_real = np.ones(places.size + own.shape[0], dtype=np.bool_)
        is_real[places] = False
        items[all_of_it][is_real] = gradients.items[real]
        items[all_of_it][places] = extra
        rows[all_of_it][is_real] = own
        coins = Prg(chosen.seeds[k].tobytes()) if rng is None else rng
        rows[all_of_it][places] = similar_rows(own, extra.size, step, rng=coins)
    return Gradients(gradients.members, starts, items, rows, gradients.weights)


def _places(real: Indices, extra: Indices, user: int) -> NDArray[np.intp]:
    """Where ``extra`` items come in the rising union with the ``real`` ones."""
    before = np.searchsorted(real, extra)
    if real.size and (real[np.minimum(before, real.size - 1)] == extra).any():
        raise ParameterError(
            f"a pseudo item of user {user} is one that she uploads a gradient of already"
        )
    return before + np.arange(extra.size)
