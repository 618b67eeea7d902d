"""Optimized unary encoding by multi-freq-ldpy: one round.

Its compiled client takes one value a call and gives a vector of k doubles; its manual maps it over
the users' data in a list comprehension.

Arguments: number of reports, k, epsilon.
"""

import math
import sys

import numpy as np
from multi_freq_ldpy.pure_frequency_oracles.UE import (  # type: ignore[import-not-found]
    UE_Client,
)
from one_round import one_round  # type: ignore[import-not-found]
from values import sets_bits_rightly, values  # type: ignore[import-not-found]


def main(count: int, k: int, epsilon: float) -> None:
    data = values(count, k)
    q = 1 / (math.exp(epsilon) + 1)
    one_round(
        lambda: [UE_Client(value, k, epsilon) for value in data],  # optimized by default
        operations=count,
        check=lambda reports: sets_bits_rightly(data, np.array(reports), k, 0.5, q),
        warm_up=lambda: UE_Client(data[0], k, epsilon),  # compiles
    )


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3]))
