"""Key agreement of Flower's SecAgg+: one round.

The lines of its client that agree a key with each neighbour: ECDH on P-384, then HKDF. Both keys
are parsed from PEM each time, the private one too, because the client keeps its state as bytes.

Argument: number of neighbours.
"""

import sys

from flwr.common.secure_aggregation.crypto.symmetric_encryption import (
    generate_shared_key,
)
from flwr.supercore.primitives.asymmetric import (
    bytes_to_private_key,
    bytes_to_public_key,
    generate_key_pairs,
    private_key_to_bytes,
    public_key_to_bytes,
)
from one_round import one_round  # type: ignore[import-not-found]


def main(neighbours: int) -> None:
    private, public = generate_key_pairs()
    own = private_key_to_bytes(private)
    others = [generate_key_pairs() for _ in range(neighbours)]
    publics = [public_key_to_bytes(pair[1]) for pair in others]

    def agree() -> list[bytes]:
        return [
            generate_shared_key(bytes_to_private_key(own), bytes_to_public_key(other))
            for other in publics
        ]

    def check(keys: list[bytes]) -> bool:
        other_ends = [generate_shared_key(pair[0], public) for pair in others]
        return keys == other_ends and len(set(keys)) == neighbours

    one_round(agree, operations=neighbours, check=check)


if __name__ == "__main__":
    main(int(sys.argv[1]))
