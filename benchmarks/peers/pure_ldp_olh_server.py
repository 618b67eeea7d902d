"""The server of optimized local hashing by pure-ldp: one round.

``aggregate_all`` hashes every value of the domain for each report; ``estimate_all`` gives the
estimates. Its domain is 1..k. Its warnings about small numbers of reports are off.

Arguments: number of reports, k, epsilon.
"""

import sys
from typing import Any

from hashed import estimates_rightly  # type: ignore[import-not-found]
from one_round import one_round  # type: ignore[import-not-found]
from pure_ldp.frequency_oracles.local_hashing import (  # type: ignore[import-not-found]
    LHClient,
    LHServer,
)
from values import values  # type: ignore[import-not-found]


def main(count: int, k: int, epsilon: float) -> None:
    client = LHClient(epsilon, k, use_olh=True)
    reports = [client.privatise(1 + value) for value in values(count, k)]
    server = LHServer(epsilon, k, use_olh=True)
    domain = range(1, k + 1)

    def estimates(some: list[Any]) -> Any:
        server.reset()
        server.aggregate_all(some)
        return server.estimate_all(domain, suppress_warnings=True)

    one_round(
        lambda: estimates(reports),
        operations=count,
        check=lambda found: estimates_rightly(reports, found, k, epsilon, normalized=False),
        warm_up=lambda: estimates(reports[:1]),
    )


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3]))
