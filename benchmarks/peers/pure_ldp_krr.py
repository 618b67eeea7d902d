"""k-ary randomized response by pure-ldp: one round.

Its client for direct encoding takes one value a call; its manual loops over the users' data.

Arguments: number of reports, k, epsilon.
"""

import math
import sys

from one_round import one_round  # type: ignore[import-not-found]
from pure_ldp.frequency_oracles.direct_encoding import (  # type: ignore[import-not-found]
    DEClient,
)
from values import tells_rightly, values  # type: ignore[import-not-found]


def main(count: int, k: int, epsilon: float) -> None:
    truth = values(count, k)
    data = [1 + value for value in truth]  # its domain is 1..k, and its reports are 0..k-1
    client = DEClient(epsilon, k)
    p = math.exp(epsilon) / (math.exp(epsilon) + k - 1)
    one_round(
        lambda: [client.privatise(value) for value in data],
        operations=count,
        check=lambda reports: tells_rightly(truth, reports, k, p),
        warm_up=lambda: client.privatise(data[0]),
    )


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3]))
