"""Shamir sharing of a seed by Flower's SecAgg+: one round.

``create_shares``, as its client calls it for a seed of 32 bytes: over GF(2^128), two blocks and one
of padding, in threads.

Arguments: number of shares n, threshold t.
"""

import os
import sys

from flwr.common.secure_aggregation.crypto.shamir import (
    combine_shares,
    create_shares,
)
from one_round import one_round  # type: ignore[import-not-found]


def main(n: int, t: int) -> None:
    seed = os.urandom(32)

    def check(shares: list[bytes]) -> bool:
        distinct = len({share[4:] for share in shares}) == len(shares) == n
        return distinct and combine_shares(shares[-t:]) == seed

    one_round(
        lambda: create_shares(seed, t, n),
        operations=1,
        check=check,
        warm_up=lambda: create_shares(seed, 2, 3),
    )


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
