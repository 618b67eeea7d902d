"""Shamir sharing by MPyC: one round.

``np_random_split`` is what its ``input`` runs on arrays before it sends: threshold sharing over a
prime field, here of 2^61 - 1 elements, its coefficients from the operating system's generator.

Arguments: number of elements, number of parties m; the degree is (m - 1) // 2, its default.
"""

import sys
from collections.abc import Sequence
from typing import Any

import numpy as np
from integers import integers  # type: ignore[import-not-found]
from mpyc.finfields import GF  # type: ignore[import-not-found]
from mpyc.thresha import np_random_split, np_recombine  # type: ignore[import-not-found]
from one_round import one_round  # type: ignore[import-not-found]


def main(count: int, parties: int) -> None:
    field = GF(2**61 - 1)
    degree = (parties - 1) // 2
    secrets = np.array(integers(count), dtype=object)

    def check(shares: Sequence[Any]) -> bool:
        if len(shares) != parties:
            return False
        hidden = all(np.mean(share == secrets) < 0.01 for share in shares)
        first, last = range(degree + 1), range(parties - degree - 1, parties)
        return hidden and all(
            np.array_equal(np_recombine(field, [(1 + j, shares[j]) for j in some]).value, secrets)
            for some in (first, last)
        )

    one_round(
        lambda: np_random_split(field, secrets, degree, parties),
        operations=count,
        check=check,
        warm_up=lambda: np_random_split(field, secrets[:1000], degree, parties),
    )


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
