"""The items whose tokens the rows of the oblivious function compute, and its known answers."""

from collections.abc import Sequence

SEED = bytes.fromhex("a3" * 32)
INFO = b"test key"
"""The server's key is derived from these, as in the test vectors of RFC 9497, appendix A.1.2."""

# Inputs and outputs of that appendix, ristretto255-SHA512 in the mode VOPRF.
KNOWN = {
    bytes(1): bytes.fromhex(
        "b58cfbe118e0cb94d79b5fd6a6dafb98764dff49c14e1770b566e42402da1a7d"
        "a4d8527693914139caee5bd03903af43a491351d23b430948dd50cde10d32b3c"
    ),
    b"\x5a" * 17: bytes.fromhex(
        "8a9a2f3c7f085b65933594309041fc1898d42d0858e59f90814ae90571a6df60"
        "356f4610bf816f27afdd84f47719e480906d27ecd994985890e5f539e7ea74b6"
    ),
}


def items(count: int) -> list[bytes]:
    """Different items, those of the known answers among them, the same ones at every call."""
    rest = (b"item-%d" % i for i in range(count - len(KNOWN)))
    return [*KNOWN, *rest]


def tokens_are_right(
    inputs: Sequence[bytes], outputs: Sequence[bytes], evaluated: Sequence[bytes]
) -> bool:
    """Whether ``outputs`` are the tokens of ``inputs`` under the key of the known answers.

    evaluated: the same tokens as the holder of the key computes them without the protocol.
    """
    if len(outputs) != len(inputs):
        return False
    found = dict(zip(inputs, outputs, strict=True))
    return (
        list(outputs) == list(evaluated)
        and len(set(outputs)) == len(found) == len(inputs)
        and all(found.get(item) == answer for item, answer in KNOWN.items())
    )
