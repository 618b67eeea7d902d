"""Discrete Gaussian noise by OpenDP: one round.

``make_gaussian`` over vectors of 64-bit integers adds it; one long vector is its fastest form.

Arguments: number of samples, sigma.
"""

import sys

import numpy as np
import opendp.prelude as dp  # type: ignore[import-not-found]
from noise import is_discrete_gaussian  # type: ignore[import-not-found]
from one_round import one_round  # type: ignore[import-not-found]


def main(count: int, sigma: float) -> None:
    dp.enable_features("contrib")
    measurement = dp.m.make_gaussian(
        dp.vector_domain(dp.atom_domain(T="i64")), dp.l2_distance(T="i64"), scale=sigma
    )
    x = np.zeros(count, dtype=np.int64)
    one_round(
        lambda: measurement(x),
        operations=count,
        check=lambda samples: is_discrete_gaussian(samples, sigma),
        warm_up=lambda: measurement(x[:1]),
    )


if __name__ == "__main__":
    main(int(sys.argv[1]), float(sys.argv[2]))
