"""Randomized response by pure-ldp: one round.

Its client for direct encoding is generalized randomized response, and with d = 2 Warner's. It
randomizes one value a call; its manual loops over the users' data. By default its domain is 1..d.

Arguments: number of reports, epsilon.
"""

import sys

from bits import bits, told_truthfully  # type: ignore[import-not-found]
from one_round import one_round  # type: ignore[import-not-found]
from pure_ldp.frequency_oracles.direct_encoding import (  # type: ignore[import-not-found]
    DEClient,
)


def main(count: int, epsilon: float) -> None:
    truth = bits(count)
    data = [1 + bit for bit in truth]
    client = DEClient(epsilon, 2)
    one_round(
        lambda: [client.privatise(value) for value in data],
        operations=count,
        check=lambda reports: told_truthfully(truth, reports, epsilon),
        warm_up=lambda: client.privatise(data[0]),
    )


if __name__ == "__main__":
    main(int(sys.argv[1]), float(sys.argv[2]))
