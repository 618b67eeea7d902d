"""The server puts the secrets of a round together, knows whether they are right, and who altered.

Source: Bonawitz et al., CCS 2017, Figure 4, round 4; Tompa and Woll, "How to share a secret with
    cheaters" (Journal of Cryptology 1, 1988), for altered shares as a problem.
Model: seeds are compared with their check values and mask keys with their public keys, so no wrong
    secret is used, whoever altered what. Clients whose shares differ from the polynomial that gives
    the right secret are named and their answers left out, as long as t neighbouring holders in a
    row (cyclically, by index) gave right ones; otherwise the round ends without a sum. A dealer who
    shared no polynomial makes its holders look like liars, or its own secret unrecoverable.
Error: none.
Differs: the paper recognises no altered share.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from mpc.core.errors import AbortError
from mpc.shamir import FIELD, Elements
from secagg.full.neighbourhoods import Members, Positions
from secagg.full.params import RoundParams
from secagg.full.sharing import WORDS, recover, unpack_rows, weights

IsRight = Callable[[int, bool, bytes], bool]
"""(position, survived, secret): whether the secret is this client's seed, or else its mask key."""


@dataclass(frozen=True)
class Recovered:
    """Secrets by the owner's position: seeds of survivors, mask keys of the dropped.

    altered: positions of clients whose shares were altered and left out.
    """

    seeds: dict[int, bytes] = field(repr=False)
    keys: dict[int, bytes] = field(repr=False)
    altered: tuple[int, ...] = ()


def owners(params: RoundParams, shared: Members, survivors: Members) -> Members:
    """Whose secret the server needs: all survivors', and of the dropped those beside a survivor."""
    return survivors | (shared & (params.neighbourhoods.counts(survivors) > 0))


def short(params: RoundParams, needed: Members, holders: Members) -> Members:
    """Whose secret ``holders`` are too few for."""
    return needed & (params.neighbourhoods.counts(holders) < params.threshold)


class _Shares:
    """All shares the server got, sorted by owner, then by index."""

    def __init__(
        self, params: RoundParams, shared: Members, needed: Members, answers: Mapping[int, bytes]
    ) -> None:
        given, kept = sorted(answers), []
        owned = [params.within(at, shared) for at in given]
        for at, row in zip(given, owned, strict=True):
            kept.append(unpack_rows(answers[at], WORDS)[needed[row]])
        whose = np.concatenate([row[needed[row]] for row in owned])
        held = np.repeat(given, [len(rows) for rows in kept])
        # Holders come in rising order, and a stable sort keeps it within each owner.
        order = np.argsort(whose, kind="stable")
        self.owner, self.holder = whose[order], held[order]
        self.index = params.neighbourhoods.share_indices(self.owner, self.holder).astype(np.uint64)
        self.rows: Elements = np.concatenate(kept)[order]
        self.owners: Positions = np.flatnonzero(needed)
        self.first = np.searchsorted(self.owner, self.owners)
        self.stop = np.searchsorted(self.owner, self.owners, side="right")

    def of(self, i: int) -> tuple[Positions, NDArray[np.uint64], Elements]:
        """Holders, indices and shares of the secret of owner number ``i``."""
        part = slice(self.first[i], self.stop[i])
        return self.holder[part], self.index[part], self.rows[part]


def recover_secrets(
    params: RoundParams,
    shared: Members,
    survivors: Members,
    answers: Mapping[int, bytes],
    is_right: IsRight,
) -> Recovered:
    """Every secret that takes masks off, each of them checked.

    shared, survivors: U_2 and U_3.  answers: by position, what each client of U_5 sent.
    Raises AbortError if too few shares, or too few right ones, are there for some secret.
    """
    needed, left, altered = owners(params, shared, survivors), dict(answers), set[int]()
    while True:
        holders = np.zeros(len(params.clients), np.bool_)
        holders[list(left)] = True
        lacking = params.ids(short(params, needed, holders))
        if lacking:
            raise AbortError(
                f"too few shares of the secrets of clients {list(lacking[:8])}, "
                f"{params.threshold} of each needed; altered ones came from "
                f"{list(params.ids(np.array(sorted(altered), np.intp)))}"
            )
        shares = _Shares(params, shared, needed, left)
        first = shares.first[:, None] + np.arange(params.threshold)
        secrets = _as_bytes(recover(shares.index[first], shares.rows[first]))
        wrong = [
            i
            for i, at in enumerate(shares.owners.tolist())
            if (secret := secrets[i]) is None or not is_right(at, bool(survivors[at]), secret)
        ]
        if not wrong:
            break
        liars = _altered(params, shares, wrong[0], survivors, is_right)
        altered |= liars
        left = {at: answer for at, answer in left.items() if at not in liars}
    found = {at: s for at, s in zip(shares.owners.tolist(), secrets, strict=True) if s is not None}
    return Recovered(
        {at: secret for at, secret in found.items() if survivors[at]},
        {at: secret for at, secret in found.items() if not survivors[at]},
        tuple(sorted(altered)),
    )


def _as_bytes(elements: Elements) -> list[bytes | None]:
    """Rows of 16 elements as 32 bytes each; None for a row that encodes none."""
    encodes: list[bool] = [bool(row.max() <= 0xFFFF) for row in elements]
    rows = elements.astype("<u2")
    return [row.tobytes() if good else None for row, good in zip(rows, encodes, strict=True)]


def _altered(
    params: RoundParams, shares: _Shares, i: int, survivors: Members, is_right: IsRight
) -> set[int]:
    """Positions of those whose shares of owner number ``i``'s secret are not the dealer's.

    Raises AbortError if no t neighbouring holders give the right secret.
    """
    at, t = int(shares.owners[i]), params.threshold
    holders, indices, rows = shares.of(i)
    for start in range(len(holders)):
        some = (start + np.arange(t)) % len(holders)
        secret = _as_bytes(recover(indices[None, some], rows[None, some]))[0]
        if secret is None or not is_right(at, bool(survivors[at]), secret):
            continue
        # t right shares determine all others: compare what each holder sent.
        table = weights(np.tile(indices[some], (len(holders), 1)), indices[:, None])
        expected = (table[:, :, None] * rows[None, some] % np.uint64(FIELD.prime)).sum(axis=1)
        differs = (expected % np.uint64(FIELD.prime) != rows).any(axis=1)
        return {int(holder) for holder in holders[differs]}
    raise AbortError(
        f"the shares of client {params.clients[at]}'s secret do not give it: some were altered, or "
        "it shared another secret",
        remedy="retry in a new round; with more holders than the threshold, altered ones are named",
    )
