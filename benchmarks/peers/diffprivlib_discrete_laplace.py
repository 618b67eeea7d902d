"""Discrete Laplace noise by diffprivlib: one round.

``Geometric`` adds it to one integer a call; at sensitivity 1 its scale is 1 / epsilon. It takes the
logarithm of a double that the operating system's generator gives.

Arguments: number of samples, scale.
"""

import sys

from diffprivlib.mechanisms import Geometric  # type: ignore[import-not-found]
from noise import is_discrete_laplace  # type: ignore[import-not-found]
from one_round import one_round  # type: ignore[import-not-found]


def main(count: int, scale: int) -> None:
    mechanism = Geometric(epsilon=1 / scale, sensitivity=1)
    one_round(
        lambda: [mechanism.randomise(0) for _ in range(count)],
        operations=count,
        check=lambda samples: is_discrete_laplace(samples, scale),
        warm_up=lambda: mechanism.randomise(0),
    )


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
