"""The client of Hadamard response by pure-ldp: one round.

At epsilon <= 1 it runs the scheme for high privacy: a report is a column of the Hadamard matrix,
one whose entry in the value's row is 1 with probability e^epsilon / (1 + e^epsilon). It takes one
value a call; its manual loops over the users' data. Its domain is 1..k.

Arguments: number of reports, k, epsilon (at most 1: above, it needs the server's permutation).
"""

import math
import sys

from one_round import one_round  # type: ignore[import-not-found]
from pure_ldp.frequency_oracles.hadamard_response import (  # type: ignore[import-not-found]
    HadamardResponseClient,
)
from values import picks_columns_rightly, values  # type: ignore[import-not-found]


def main(count: int, k: int, epsilon: float) -> None:
    truth = values(count, k)
    data = [1 + value for value in truth]
    client = HadamardResponseClient(epsilon, k, None)
    p = math.exp(epsilon) / (1 + math.exp(epsilon))
    one_round(
        lambda: [client.privatise(value) for value in data],
        operations=count,
        check=lambda columns: picks_columns_rightly(truth, columns, k, p),
        warm_up=lambda: client.privatise(data[0]),
    )


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3]))
