"""The client of optimized local hashing by multi-freq-ldpy: one round.

It takes one value a call; the manual maps it over the users' data in a list comprehension.

Arguments: number of reports, k, epsilon.
"""

import sys

from hashed import hashes_rightly  # type: ignore[import-not-found]
from multi_freq_ldpy.pure_frequency_oracles.LH import (  # type: ignore[import-not-found]
    LH_Client,
)
from one_round import one_round  # type: ignore[import-not-found]
from values import values  # type: ignore[import-not-found]


def main(count: int, k: int, epsilon: float) -> None:
    data = values(count, k)
    one_round(
        lambda: [LH_Client(value, k, epsilon) for value in data],  # optimized by default
        operations=count,
        check=lambda reports: hashes_rightly(data, reports, k, epsilon),
        warm_up=lambda: LH_Client(data[0], k, epsilon),  # compiles what it calls
    )


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3]))
