"""The server of optimized local hashing by multi-freq-ldpy: one round.

``LH_Aggregator_MI`` hashes every value of the domain for each report. Its estimates are clipped at
0 and scaled to the sum 1, which it does without being asked.

Arguments: number of reports, k, epsilon.
"""

import sys

from hashed import estimates_rightly  # type: ignore[import-not-found]
from multi_freq_ldpy.pure_frequency_oracles.LH import (  # type: ignore[import-not-found]
    LH_Aggregator_MI,
    LH_Client,
)
from one_round import one_round  # type: ignore[import-not-found]
from values import values  # type: ignore[import-not-found]


def main(count: int, k: int, epsilon: float) -> None:
    reports = [LH_Client(value, k, epsilon) for value in values(count, k)]
    one_round(
        lambda: LH_Aggregator_MI(reports, k, epsilon),
        operations=count,
        check=lambda found: estimates_rightly(reports, found, k, epsilon, normalized=True),
        warm_up=lambda: LH_Aggregator_MI(reports[:1], k, epsilon),
    )


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3]))
