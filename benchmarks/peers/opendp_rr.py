"""Randomized response by OpenDP: one round.

Its measurement over a vector of bits takes and gives packed bytes; one long vector is its fastest
form. With probability f it replaces a bit by a fair coin, so f = 2 / (1 + e^epsilon) tells the
truth as often as Warner's does.

Arguments: number of reports, epsilon.
"""

import math
import sys

import numpy as np
import opendp.prelude as dp  # type: ignore[import-not-found]
from bits import bits, told_truthfully  # type: ignore[import-not-found]
from one_round import one_round  # type: ignore[import-not-found]


def main(count: int, epsilon: float) -> None:
    dp.enable_features("contrib")
    truth = bits(count)
    packed = np.packbits(truth).tobytes()
    measurement = dp.m.make_randomized_response_bitvec(
        dp.bitvector_domain(max_weight=count),
        dp.discrete_distance(),
        f=2 / (1 + math.exp(epsilon)),
    )

    def check(release: bytes) -> bool:
        reports = np.unpackbits(np.frombuffer(release, dtype=np.uint8), count=count)
        return bool(told_truthfully(truth, reports.tolist(), epsilon))

    one_round(
        lambda: measurement(packed),
        operations=count,
        check=check,
        warm_up=lambda: measurement(packed[:1]),
    )


if __name__ == "__main__":
    main(int(sys.argv[1]), float(sys.argv[2]))
