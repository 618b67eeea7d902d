"""Quantisation of Flower's SecAgg+: one round.

``quantize`` clips, scales and rounds at random, with the coins of numpy's global generator. It
shifts the vector so that all results are positive.

Argument: dimension.
"""

import sys
from typing import Any

import numpy as np
from flwr.common.secure_aggregation.quantization import quantize
from one_round import one_round  # type: ignore[import-not-found]
from reals import CLIP, FRAC_BITS, reals, rounds_without_bias  # type: ignore[import-not-found]


def main(dim: int) -> None:
    steps = int(2 * CLIP) << FRAC_BITS  # 2^22, its default
    x = [np.array(reals(dim))]  # float64 is the type it takes fastest

    def check(quantized: list[Any]) -> bool:
        return bool(rounds_without_bias((quantized[0] - steps // 2).tolist()))

    one_round(lambda: quantize(x, CLIP, steps), operations=1, check=check)


if __name__ == "__main__":
    main(int(sys.argv[1]))
