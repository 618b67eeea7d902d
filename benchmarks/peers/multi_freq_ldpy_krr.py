"""k-ary randomized response by multi-freq-ldpy: one round.

Its compiled client randomizes one value a call, and its manual maps it over the users' data in a
list comprehension; Python integers are the input that it takes fastest.

Arguments: number of reports, k, epsilon.
"""

import math
import sys

from multi_freq_ldpy.pure_frequency_oracles.GRR import (  # type: ignore[import-not-found]
    GRR_Client,
)
from one_round import one_round  # type: ignore[import-not-found]
from values import tells_rightly, values  # type: ignore[import-not-found]


def main(count: int, k: int, epsilon: float) -> None:
    data = values(count, k)
    p = math.exp(epsilon) / (math.exp(epsilon) + k - 1)
    one_round(
        lambda: [GRR_Client(value, k, epsilon) for value in data],
        operations=count,
        check=lambda reports: tells_rightly(data, reports, k, p),
        warm_up=lambda: GRR_Client(data[0], k, epsilon),  # compiles
    )


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3]))
