"""The exact law of what a server and a coalition of clients see in two rounds of three clients.

The key schedule, the masks, the sharing and the choice of shares are those that run. Ideal is the
keystream: a random function of the derived key, so that a mask which serves twice is one point.
Shares are dealt over GF(5) for a threshold of 2, and all coefficients are walked.

In each round one client may be late: the server has its vector, and asks as if it had left, so that
two survivors are left. That is fewer than a round admits, but the kernels know no such bound.
"""

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from mpc.core.keys import KeyPair
from mpc.core.prg import PrgFactory
from mpc.core.ring import RingArray
from mpc.core.rng import Rng, Shape
from mpc.shamir import Field, share
from secagg.full.masking import Dropped, UnmaskTask, client_streams, mask, pair_key, unmask
from secagg.full.round_secrets import RoundSecrets
from secagg.full.sharing import self_mask_key, unpack_rows
from secagg.masks import SignedStreams
from tests.secagg.full.replicas import coins
from tests.secagg.full.world import params
from tests.support.enumerate import tapes

CLIENTS = (2, 5, 9)
THRESHOLD = 2
FIELD = Field(5)
SEED, KEY = 0, 1
KINDS = (SEED, KEY)
_SHARES = 5**15  # all shares in a view make a number below this, and with the vectors' below 2^64


@dataclass(frozen=True)
class Scenario:
    """late: the late client of each round, or None.  corrupt: who is with the server, or None."""

    late: tuple[int | None, int | None]
    corrupt: int | None = None

    def survivors(self, number: int) -> list[int]:
        return [u for u in CLIENTS if u != self.late[number]]


class Round:
    """The keys of one round, and what its clients do with them. Twins replace a method."""

    def __init__(self, number: int, bits: int) -> None:
        agreed = params(CLIENTS, threshold=THRESHOLD, bits=bits, dim=1, round=number)
        self.params, self.ring = agreed, agreed.ring
        rng = coins(f"keys of round {number}")
        self.keys = {u: KeyPair.generate(rng) for u in CLIENTS}
        self.seeds = {u: rng.bytes(32) for u in CLIENTS}

    def self_key(self, u: int) -> bytes:
        return self_mask_key(self.seeds[u], self.params.digest, u)

    def pair(self, u: int, v: int) -> bytes:
        return pair_key(self.keys[u], self.keys[v].public, self.params.digest, u, v)

    def streams(self, u: int, prg: PrgFactory) -> SignedStreams:
        pairs = [(v, self.pair(u, v)) for v in CLIENTS if v != u]
        return client_streams(u, self.self_key(u), pairs, prg)

    def deal(self, secrets: NDArray[np.uint32], rng: Rng) -> NDArray[np.uint32]:
        return share(secrets, len(CLIENTS), THRESHOLD, field=FIELD, rng=rng)

    def answer(self, held: NDArray[np.uint32], survivors: NDArray[np.bool_]) -> Iterator[Any]:
        """What one client sends. held: (owners, kinds, B); yields (B,) of one kind, by owner."""
        secrets = object.__new__(RoundSecrets)
        secrets._held = held
        yield from self._rows(secrets, survivors, held.shape[-1])

    @staticmethod
    def _rows(secrets: RoundSecrets, survivors: NDArray[np.bool_], width: int) -> NDArray[Any]:
        return unpack_rows(secrets.answer(survivors, np.arange(len(CLIENTS))), width)

    def view(
        self, held: NDArray[np.uint32], late: int | None, corrupt: int | None
    ) -> Iterator[tuple[int, NDArray[Any]]]:
        """All shares that the coalition gets: (holder, (B,)).

        held: (holders, owners, kinds, B), B a multiple of 8, as rows travel in whole bytes.
        """
        survivors = np.array([u != late for u in CLIENTS])
        for u, own in zip(CLIENTS, held, strict=True):
            if u == corrupt:
                yield from ((u, row) for row in own.reshape(-1, own.shape[-1]))
            elif u != late:
                yield from ((u, row) for row in self.answer(own, survivors))

    def opened(self, late: int | None, corrupt: int | None) -> set[tuple[int, int]]:
        """(owner, kind) of each secret that the coalition has, or has t shares of."""
        names = np.arange(len(CLIENTS) * len(KINDS), dtype=np.uint32)
        held = np.tile(names.reshape(len(CLIENTS), len(KINDS), 1), (len(CLIENTS), 1, 1, 8))
        seen = {(int(row[0]), holder) for holder, row in self.view(held, late, corrupt)}
        enough = {n for n, _ in seen if sum(n == other for other, _ in seen) >= THRESHOLD}
        by_name = {(CLIENTS[name // 2], name % 2) for name in enough}
        return by_name | {(u, kind) for u in CLIENTS for kind in KINDS if u == corrupt}

    def known(self, late: int | None, corrupt: int | None) -> Iterator[bytes]:
        """The keys of all masks that the coalition can make."""
        for u, kind in sorted(self.opened(late, corrupt)):
            if kind == SEED:
                yield self.self_key(u)
            else:
                yield from (self.pair(u, v) for v in CLIENTS if v != u)


class _Stream(Rng):
    def __init__(self, values: NDArray[Any]) -> None:
        self._values = values

    def fill(self, out: NDArray[Any]) -> None:
        out[...] = self._values[:, np.newaxis]


class Coefficients(Rng):
    """Coefficients of degree 1 for all tapes: first those of the seeds, then of the mask keys."""

    def __init__(self, values: NDArray[np.uint64]) -> None:
        self._values = values

    def uniform(self, bound: int, shape: Shape = (), dtype: DTypeLike = np.uint64) -> NDArray[Any]:
        flat = self._values.T.reshape(1, -1)
        assert (bound, shape) == (FIELD.prime, flat.shape)
        return flat.astype(dtype)

    def fill(self, out: NDArray[Any]) -> None:
        raise AssertionError("coefficients are drawn below p")


class World:
    """Both rounds under all outcomes of what the coalition does not know.

    walk_known: walk the masks that it knows, too, instead of taking arbitrary ones.
    focus: (round, owner), whose two sharings are walked together with the masks. What the view
    hides of the owner's secrets is then an input, as vectors are, and no outcome.
    biased: the keystream never gives the top residue.
    """

    def __init__(
        self,
        bits: int,
        scenario: Scenario,
        kinds: Sequence[type[Round]] = (Round, Round),
        *,
        walk_known: bool = False,
        focus: tuple[int, int] | None = None,
        biased: bool = False,
    ) -> None:
        self.scenario, self.focus = scenario, focus
        self.rounds = [kind(number, bits) for number, kind in enumerate(kinds)]
        self.ring = self.rounds[0].ring
        made = {
            key
            for one, late in zip(self.rounds, scenario.late, strict=True)
            for key in one.known(late, scenario.corrupt)
        }
        asked = self._keys_asked()
        walked = [key for key in asked if walk_known or key not in made]
        self.shown = [key for key in walked if key in made]
        self.hidden, self.open = self._secrets_in_focus()
        drawn = len(KINDS) + len(self.open) if focus is not None else 0
        values = tapes([2**bits] * len(walked) + [FIELD.prime] * drawn)
        if len(values) % 8:
            values = np.tile(values, (8, 1))
        self.batch = len(values)
        self.sharing = values[:, len(walked) :]
        words = values[:, : len(walked)].astype(self.ring.dtype)
        if biased:
            words[words == 2**bits - 1] = 0
        self.pads = dict(zip(walked, words.T, strict=True))
        for key in asked:
            if key not in self.pads:
                fixed = coins(key.hex()).uniform(2**bits, 1, self.ring.dtype)
                self.pads[key] = np.repeat(fixed, self.batch)

    def _keys_asked(self) -> dict[bytes, None]:
        asked: dict[bytes, None] = {}

        def spy(key: bytes, offset: int) -> Rng:
            assert offset == 0
            asked[key] = None
            return _Stream(np.zeros(1, self.ring.dtype))

        for one in self.rounds:
            for u in CLIENTS:
                one.streams(u, spy)
        return asked

    def _secrets_in_focus(self) -> tuple[list[int], list[int]]:
        """Kinds of the focussed owner's secrets that the view hides, and that it opens."""
        if self.focus is None:
            return [], []
        number, owner = self.focus
        late = self.scenario.late[number]
        opened = self.rounds[number].opened(late, self.scenario.corrupt)
        hidden = [kind for kind in KINDS if (owner, kind) not in opened]
        return hidden, [kind for kind in KINDS if kind not in hidden]

    def prg(self, key: bytes, offset: int) -> Rng:
        return _Stream(self.pads[key])

    def masked(self, number: int, u: int, x: RingArray) -> RingArray:
        """What ``u`` sends of inputs x (N,): (N, B)."""
        one = self.rounds[number]
        batch = np.broadcast_to(x[:, np.newaxis, np.newaxis], (len(x), self.batch, 1))
        return mask(np.ascontiguousarray(batch), one.streams(u, self.prg), self.ring)[..., 0]

    def vectors(self, x: NDArray[Any]) -> NDArray[np.uint64]:
        """All masked vectors, and the masks that the coalition knows, as one number each: (N, B).

        x: inputs (N, rounds, clients).  Late vectors are there, too.
        """
        code = np.zeros((len(x), self.batch), np.uint64)
        parts = [
            self.masked(number, u, x[:, number, at])
            for number in range(len(self.rounds))
            for at, u in enumerate(CLIENTS)
        ]
        parts += [np.broadcast_to(self.pads[key], code.shape) for key in self.shown]
        assert len(parts) * self.ring.bits <= 28
        for part in parts:
            code = code * np.uint64(2**self.ring.bits) + part
        return code

    def shares(self, hidden: Sequence[int]) -> NDArray[np.uint64]:
        """All shares of the focussed owner's secrets that the coalition gets: a number each, (B,).

        hidden: the values of those secrets that the view hides.
        """
        code = np.zeros(self.batch, np.uint64)
        if self.focus is None:
            return code
        number, owner = self.focus
        secrets = np.empty((len(KINDS), self.batch), np.uint32)
        for kind, value in zip(self.hidden, hidden, strict=True):
            secrets[kind] = value
        for at, kind in enumerate(self.open):
            secrets[kind] = self.sharing[:, len(KINDS) + at]
        coefficients = Coefficients(self.sharing[:, : len(KINDS)])
        dealt = self.rounds[number].deal(secrets, coefficients)
        held = np.zeros((len(CLIENTS), len(CLIENTS), len(KINDS), self.batch), np.uint32)
        held[:, CLIENTS.index(owner)] = dealt
        late, corrupt = self.scenario.late[number], self.scenario.corrupt
        for _, row in self.rounds[number].view(held, late, corrupt):
            code = code * np.uint64(FIELD.prime) + row
        assert int(code.max()) < _SHARES
        return code

    def hides(self, x: NDArray[Any]) -> bool:
        """Whether the law of the view is the same for all inputs x and all hidden secrets."""
        vectors, first = self.vectors(x), None
        for hidden in itertools.product(range(FIELD.prime), repeat=len(self.hidden)):
            view = vectors * np.uint64(_SHARES) + self.shares(hidden)
            view.sort(axis=1)
            first = view[0] if first is None else first
            if (view != first).any():
                return False
        return True

    def with_these_sums(self, sums: Sequence[int], fixed: int = 1) -> NDArray[Any]:
        """Every input that has these sums over the survivors: (N, rounds, clients).

        A late client's input is free; a corrupt client's is ``fixed``.
        """
        rounds = [list(self._of_one_round(n, total, fixed)) for n, total in enumerate(sums)]
        return np.array(list(itertools.product(*rounds)), self.ring.dtype)

    def _of_one_round(self, number: int, total: int, fixed: int) -> Iterable[tuple[int, ...]]:
        size, corrupt = 2**self.ring.bits, self.scenario.corrupt
        survivors = self.scenario.survivors(number)
        for x in itertools.product(range(size), repeat=len(CLIENTS)):
            own = dict(zip(CLIENTS, x, strict=True))
            if corrupt is not None and own[corrupt] != fixed % size:
                continue
            if sum(own[u] for u in survivors) % size == total % size:
                yield x

    def sums(self, number: int, x: NDArray[Any]) -> RingArray:
        """What the server works out: (N, B), by the kernels that take masks off."""
        one, late = self.rounds[number], self.scenario.late[number]
        survivors = self.scenario.survivors(number)
        parts = [self.masked(number, u, x[:, number, CLIENTS.index(u)]) for u in survivors]
        total = self.ring.sum(np.stack(parts), axis=0)[..., np.newaxis]
        peers = tuple((u, one.keys[u].public) for u in survivors)
        gone = () if late is None else (Dropped(late, one.keys[late].private_bytes(), peers),)
        seeds = tuple((u, one.seeds[u]) for u in survivors)
        task = UnmaskTask(one.params.digest, self.ring, 1, seeds, gone, self.prg)
        unmask(total, task.streams(), self.ring)
        return total[..., 0]
