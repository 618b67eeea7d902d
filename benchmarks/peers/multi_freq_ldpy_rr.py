"""Randomized response by multi-freq-ldpy: one round.

Its client randomizes one value a call, and its manual maps it over the users' data in a list
comprehension. Generalized randomized response with k = 2 is Warner's. Python integers are the
input that its compiled client takes fastest; bools and numpy scalars cost it a sixth more.

Arguments: number of reports, epsilon.
"""

import sys

from bits import bits, told_truthfully  # type: ignore[import-not-found]
from multi_freq_ldpy.pure_frequency_oracles.GRR import (  # type: ignore[import-not-found]
    GRR_Client,
)
from one_round import one_round  # type: ignore[import-not-found]


def main(count: int, epsilon: float) -> None:
    data = bits(count)
    one_round(
        lambda: [GRR_Client(value, 2, epsilon) for value in data],
        operations=count,
        check=lambda reports: told_truthfully(data, reports, epsilon),
        warm_up=lambda: GRR_Client(data[0], 2, epsilon),  # compiles
    )


if __name__ == "__main__":
    main(int(sys.argv[1]), float(sys.argv[2]))
