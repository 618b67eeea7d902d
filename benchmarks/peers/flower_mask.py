"""Pairwise masks of Flower's SecAgg+: one round.

The lines of its client that add the mask shared with each neighbour, and the one reduction at the
end: numpy's Mersenne Twister, seeded with 32 bits folded from the key.

Arguments: dimension, number of neighbours.
"""

import base64
import os
import sys
from typing import Any

import numpy as np
from flwr.common.secure_aggregation.ndarrays_arithmetic import (
    parameters_addition,
    parameters_mod,
    parameters_subtraction,
)
from flwr.common.secure_aggregation.secaggplus_utils import (
    pseudo_rand_gen,
)
from one_round import one_round  # type: ignore[import-not-found]

MODULUS = 2**32


def main(dim: int, neighbours: int) -> None:
    # Its keys are the text that its key agreement returns.
    keys = [base64.urlsafe_b64encode(os.urandom(32)) for _ in range(neighbours)]
    plain = [np.arange(dim, dtype=np.int64)]

    def masked() -> list[Any]:
        vector = plain
        for key in keys:
            vector = parameters_addition(vector, pseudo_rand_gen(key, MODULUS, [(dim,)]))
        result: list[Any] = parameters_mod(vector, MODULUS)
        return result

    def check(vector: list[Any]) -> bool:
        hidden = np.mean(vector[0] == plain[0]) < 0.01
        for key in keys:  # what the other ends subtract
            vector = parameters_subtraction(vector, pseudo_rand_gen(key, MODULUS, [(dim,)]))
        return bool(hidden) and np.array_equal(parameters_mod(vector, MODULUS)[0], plain[0])

    one_round(masked, operations=neighbours, check=check)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
