"""A seed combined from its Shamir shares by Flower's SecAgg+: one round.

``combine_shares``, as its server calls it with what the clients sent, on the shares of t of them.

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
    shares = create_shares(seed, t, n)[-t:]
    one_round(
        lambda: combine_shares(shares),
        operations=1,
        check=lambda combined: combined == seed,
        warm_up=lambda: combine_shares(create_shares(seed, 2, 3)[:2]),
    )


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
