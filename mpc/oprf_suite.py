"""The ciphersuite of the oblivious PRF: its hashes, and the strings that keep their uses apart.

Source: RFC 9497 sections 3.1 (context string), 3.2.1 (DeriveKeyPair) and 4.1 (ristretto255,
    SHA-512); RFC 9380 section 5.3.1 (expand_message_xmd).
Model: SHA-512 is a random oracle. Every use hashes under a tag of its own that names mode and
    group, so nothing computed in one mode means anything in the other.
"""

import hashlib
from dataclasses import dataclass, field

from mpc.core.checks import integer
from mpc.core.errors import ParameterError
from mpc.oprf_group import RISTRETTO255, UNIFORM_BYTES, Group

OPRF_MODE = 0x00
VOPRF_MODE = 0x01
MAX_INPUT_BYTES = 2**16 - 1
OUTPUT_BYTES = 64

_BLOCK_BYTES = 128  # of SHA-512, and 64 of a digest
_DIGEST_BYTES = 64
_MAX_TAG_BYTES = 255
_SEED_BYTES = 32
_TRIES = 256  # DeriveKeyPair counts them in one byte


def expand_message_xmd(message: bytes, tag: bytes, length: int) -> bytes:
    """``length`` bytes, uniform if SHA-512 is a random oracle (RFC 9380 section 5.3.1).

    tag: the domain separation tag, 1 to 255 bytes.  length: in [1, 16320].
    Raises ParameterError for another tag or length.
    """
    length = integer("length", length, 1, 255 * _DIGEST_BYTES)
    integer("the length of a tag", len(tag), 1, _MAX_TAG_BYTES)
    suffix = tag + bytes([len(tag)])
    first = hashlib.sha512(
        bytes(_BLOCK_BYTES) + message + length.to_bytes(2, "big") + b"\x00" + suffix
    ).digest()
    block = hashlib.sha512(first + b"\x01" + suffix).digest()
    blocks = [block]
    for number in range(2, -(-length // _DIGEST_BYTES) + 1):
        mixed = int.from_bytes(first, "big") ^ int.from_bytes(block, "big")
        block = hashlib.sha512(
            mixed.to_bytes(_DIGEST_BYTES, "big") + bytes([number]) + suffix
        ).digest()
        blocks.append(block)
    return b"".join(blocks)[:length]


def prefixed(data: bytes) -> bytes:
    """The data after its length in two bytes, big-endian."""
    return len(data).to_bytes(2, "big") + data


@dataclass(frozen=True)
class Suite:
    """One mode of RFC 9497 over one group, with SHA-512.

    mode: OPRF_MODE or VOPRF_MODE.  group: ristretto255, or a small one in tests.
    """

    mode: int
    group: Group = RISTRETTO255
    context: bytes = field(init=False, repr=False)

    def __post_init__(self) -> None:
        mode = integer("mode", self.mode, OPRF_MODE, VOPRF_MODE)
        context = b"OPRFV1-" + bytes([mode]) + f"-{self.group.name}-SHA512".encode()
        object.__setattr__(self, "mode", mode)
        object.__setattr__(self, "context", context)

    @property
    def verifiable(self) -> bool:
        """Whether evaluations come with a proof."""
        return self.mode == VOPRF_MODE

    def hash_to_group(self, data: bytes) -> bytes:
        """HashToGroup: an element that depends on the whole of ``data``."""
        tag = b"HashToGroup-" + self.context
        return self.group.from_uniform(expand_message_xmd(data, tag, UNIFORM_BYTES))

    def hash_to_scalar(self, data: bytes) -> bytes:
        """HashToScalar under the default tag."""
        return self._hash_to_scalar(data, b"HashToScalar-")

    def input_element(self, data: bytes) -> bytes:
        """The element of a client's input.

        Raises ParameterError for what is not 0 to 65535 bytes, and for an input whose element is
        the identity (InvalidInputError of the RFC; for ristretto255 nobody can find one).
        """
        check_input(data)
        element = self.hash_to_group(data)
        if element == self.group.identity:
            raise ParameterError("an input maps to the identity of the group and has no output")
        return element

    def output(self, data: bytes, element: bytes) -> bytes:
        """The 64 bytes that an input and its evaluated element give: the last lines of Finalize."""
        return hashlib.sha512(prefixed(data) + prefixed(element) + b"Finalize").digest()

    def derive_scalar(self, seed: bytes, info: bytes) -> bytes:
        """The secret of DeriveKeyPair: never zero.

        seed: 32 uniform bytes.  info: public, up to 65535 bytes.  Raises ParameterError for others.
        """
        if not isinstance(seed, bytes) or len(seed) != _SEED_BYTES:
            raise ParameterError(f"seed must be {_SEED_BYTES} bytes")
        if not isinstance(info, bytes) or len(info) > MAX_INPUT_BYTES:
            raise ParameterError(f"info must be at most {MAX_INPUT_BYTES} bytes")
        data = seed + prefixed(info)
        for counter in range(_TRIES):
            scalar = self._hash_to_scalar(data + bytes([counter]), b"DeriveKeyPair")
            if any(scalar):
                return scalar
        raise ParameterError("this seed gives no key", remedy="draw another")

    def _hash_to_scalar(self, data: bytes, purpose: bytes) -> bytes:
        return self.group.reduce(expand_message_xmd(data, purpose + self.context, UNIFORM_BYTES))


OPRF = Suite(OPRF_MODE)
VOPRF = Suite(VOPRF_MODE)


def check_input(data: bytes) -> None:
    """ParameterError unless ``data`` is a byte string of at most 65535 bytes."""
    if not isinstance(data, bytes):
        raise ParameterError(f"an input must be bytes, got {type(data).__name__}")
    if len(data) > MAX_INPUT_BYTES:
        raise ParameterError(
            f"an input of {len(data)} bytes, at most {MAX_INPUT_BYTES} are possible",
            remedy="hash it first",
        )
