"""The client of optimized local hashing by pure-ldp: one round.

It takes one value a call; the manual loops over the users' data. Its domain is 1..k.

Arguments: number of reports, k, epsilon.
"""

import sys

from hashed import hashes_rightly  # type: ignore[import-not-found]
from one_round import one_round  # type: ignore[import-not-found]
from pure_ldp.frequency_oracles.local_hashing import LHClient  # type: ignore[import-not-found]
from values import values  # type: ignore[import-not-found]


def main(count: int, k: int, epsilon: float) -> None:
    truth = values(count, k)
    data = [1 + value for value in truth]
    client = LHClient(epsilon, k, use_olh=True)
    one_round(
        lambda: [client.privatise(value) for value in data],
        operations=count,
        check=lambda reports: hashes_rightly(truth, reports, k, epsilon),
        warm_up=lambda: client.privatise(data[0]),
    )


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3]))
