"""Additive sharing over Z_2^64 by SPU: one round.

``Io.make_shares`` with the protocol SEMI2K and the field FM64 splits an array into n summands, and
writes each as the message that a party would receive.

Arguments: number of elements, number of parties.
"""

import sys
from collections.abc import Sequence
from typing import Any

import numpy as np
import spu  # type: ignore[import-not-found]
from integers import integers  # type: ignore[import-not-found]
from one_round import one_round  # type: ignore[import-not-found]


def main(count: int, parties: int) -> None:
    config = spu.RuntimeConfig(protocol=spu.ProtocolKind.SEMI2K, field=spu.FieldType.FM64)
    io = spu.Io(parties, config)
    x = np.array(integers(count), dtype=np.int64)

    def share() -> Sequence[Any]:
        shares: Sequence[Any] = io.make_shares(x, spu.Visibility.VIS_SECRET)
        return shares

    def check(shares: Sequence[Any]) -> bool:
        again = zip(shares, share(), strict=True)
        fresh = all(one.share_chunks != other.share_chunks for one, other in again)
        return len(shares) == parties and fresh and np.array_equal(io.reconstruct(shares), x)

    one_round(share, operations=count, check=check)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
