"""Randomized response by multi-freq-ldpy: one round, run inside the peer's own environment.

Its client randomizes one value a call, and its manual maps it over the users' data in a list
comprehension. Generalized randomized response with k = 2 is Warner's. Python integers are the
input that its compiled client takes fastest; bools and numpy scalars cost it a sixth more.

Arguments: number of reports, epsilon. Prints {"seconds": per report, "ok": estimate is right}.
"""

import json
import math
import sys
import time

from multi_freq_ldpy.pure_frequency_oracles.GRR import (  # type: ignore[import-not-found]
    GRR_Client,
)


def main(count: int, epsilon: float) -> None:
    data = [int(i % 10 < 3) for i in range(count)]
    GRR_Client(data[0], 2, epsilon)  # compiles, once and untimed
    start = time.perf_counter()
    reports = [GRR_Client(value, 2, epsilon) for value in data]
    seconds = (time.perf_counter() - start) / count
    # Its own estimator clips and rescales, so the check uses the unbiased one.
    keep = math.exp(epsilon) / (math.exp(epsilon) + 1)
    estimate = (sum(reports) - count * (1 - keep)) / (2 * keep - 1)
    deviation = math.sqrt(count * keep * (1 - keep)) / (2 * keep - 1)
    ok = abs(estimate - sum(data)) < 7 * deviation
    print(json.dumps({"seconds": seconds, "ok": ok}))


if __name__ == "__main__":
    main(int(sys.argv[1]), float(sys.argv[2]))
