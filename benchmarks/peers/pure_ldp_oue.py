"""Optimized unary encoding by pure-ldp: one round.

Its client takes one value a call and gives a vector of k integers; its manual loops over the users'
data. Its domain is 1..k.

Arguments: number of reports, k, epsilon.
"""

import math
import sys

import numpy as np
from one_round import one_round  # type: ignore[import-not-found]
from pure_ldp.frequency_oracles.unary_encoding import (  # type: ignore[import-not-found]
    UEClient,
)
from values import sets_bits_rightly, values  # type: ignore[import-not-found]


def main(count: int, k: int, epsilon: float) -> None:
    truth = values(count, k)
    data = [1 + value for value in truth]
    client = UEClient(epsilon, k, use_oue=True)
    q = 1 / (math.exp(epsilon) + 1)
    one_round(
        lambda: [client.privatise(value) for value in data],
        operations=count,
        check=lambda reports: sets_bits_rightly(truth, np.array(reports), k, 0.5, q),
        warm_up=lambda: client.privatise(data[0]),
    )


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3]))
