"""Additive sharing over Z_2^64 by CrypTen, three parties in three processes: one round.

``cryptensor`` adds the secret to a sharing of zero that the parties expand from seeds they have in
pairs, with torch's Mersenne Twister; nothing is sent.

Argument: number of elements.
"""

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from crypten_parties import crypten, one_round  # type: ignore[import-not-found]
from integers import integers  # type: ignore[import-not-found]


def main(count: int) -> None:
    secret = np.array(integers(count), dtype=np.int64)

    def prepare() -> tuple[Callable[[], Any], Callable[[Any, Any], bool]]:
        x = torch.from_numpy(secret)

        def check(before: Any, after: Any) -> bool:
            hidden = all(np.mean(np.asarray(s.share) == secret) < 0.01 for s in (before, after))
            fresh = np.mean(np.asarray(before.share) == np.asarray(after.share)) < 0.01
            opened = np.asarray(after.reveal())
            return bool(hidden and fresh) and np.array_equal(opened, secret)

        return lambda: crypten.cryptensor(x, src=0, precision=0), check

    one_round(prepare, operations=count)


if __name__ == "__main__":
    main(int(sys.argv[1]))
