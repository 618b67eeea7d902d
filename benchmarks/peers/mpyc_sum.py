"""A secure sum by MPyC, everybody's work in one process and no messages: one round.

Each of m parties deals its vector by Shamir's scheme, each adds the m shares it holds, and the
receiver recombines the sum from t + 1 of them. These are the functions that MPyC's ``input``, ``+``
and ``output`` run on arrays; sending, which they do between them, is left out.

Arguments: number of elements of one vector, number of parties m; t = (m - 1) // 2, its default.
"""

import operator
import sys
from functools import reduce
from typing import Any

import numpy as np
from integers import integers  # type: ignore[import-not-found]
from mpyc.finfields import GF  # type: ignore[import-not-found]
from mpyc.thresha import np_random_split, np_recombine  # type: ignore[import-not-found]
from one_round import one_round  # type: ignore[import-not-found]


def main(count: int, parties: int) -> None:
    field = GF(2**61 - 1)
    degree = (parties - 1) // 2
    inputs = np.array(integers(parties * count), dtype=object).reshape(parties, count)

    def secure_sum(x: Any) -> Any:
        dealt = [np_random_split(field, vector, degree, parties) for vector in x]
        partials = [
            reduce(operator.add, (field.array(shares[j], check=False) for shares in dealt))
            for j in range(parties)
        ]
        return np_recombine(field, [(1 + j, partials[j].value) for j in range(degree + 1)])

    one_round(
        lambda: secure_sum(inputs),
        operations=count,
        check=lambda total: np.array_equal(total.value, sum(inputs) % field.modulus),
        warm_up=lambda: secure_sum(inputs[:, :1000]),
    )


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
