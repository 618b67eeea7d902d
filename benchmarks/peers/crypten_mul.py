"""Fixed-point products by CrypTen, three parties in three processes: one round.

``*`` on two ``cryptensor`` of 16 fractional bits: a triple from its default provider (the first
party, who is trusted), one opening, and its truncation for more than two parties, with another.

Argument: number of elements.
"""

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from crypten_parties import PARTIES, crypten, one_round  # type: ignore[import-not-found]
from factors import FRAC_BITS, factors, multiplied_rightly  # type: ignore[import-not-found]


def main(count: int) -> None:
    plain = [np.array(units, dtype=np.float64) / 2**FRAC_BITS for units in factors(count)]

    def prepare() -> tuple[Callable[[], Any], Callable[[Any, Any], bool]]:
        x, y = (crypten.cryptensor(torch.from_numpy(part), precision=FRAC_BITS) for part in plain)

        def check(before: Any, after: Any) -> bool:
            fresh = np.mean(np.asarray(before.share) == np.asarray(after.share)) < 0.01
            # In units: its decoder is off by one for some negative numbers.
            units = np.asarray(after.reveal())
            return bool(fresh) and bool(multiplied_rightly(units.tolist(), PARTIES))

        return lambda: x * y, check

    one_round(prepare, operations=count)


if __name__ == "__main__":
    main(int(sys.argv[1]))
