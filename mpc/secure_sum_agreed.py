"""The secure sum of PriRec in one step: what a pair would send each other, both derive.

Neighbour f of a receiver masks its input with one stream for each other neighbour, added by the
one of the pair with the lower id and taken off by the other, and sends the receiver the result. The
streams cancel in the sum.

Source: PriRec (Chen et al., 2020), Algorithm 1; one-time pads of Bonawitz et al., "Practical Secure
    Aggregation" (CCS 2017), section 4.0.1, for shares that no message has to bring. Names: as in
    ``mpc.secure_sum``. In Algorithm 1 neighbours j and f exchange the shares <sw^j>_f and <sw^f>_j
    (lines 3 and 4), and only their difference enters the partial sums of line 7. That difference
    is the stream here; f keeps what is left of its input.
Model: as ``mpc.secure_sum``: the receiver and up to n-2 neighbours collude, or n-1 neighbours
    without her; semi-honest but for the parties' view of who takes part, which enters every stream.
    Computational, by the keys and AES-256-CTR, where shares that are sent are perfect.
Leaks: the sum to the receiver; who sums for whom to the network. What several sums tell is the same
    as with shares that are sent.
Error: none in the ring.
Differs: one step instead of two, n messages for a sum instead of n^2. If one of them does not come
    there is no sum, and those that came tell nothing.
"""

import hashlib
from collections.abc import Mapping

import numpy as np
from numpy.typing import ArrayLike

from mpc.core.errors import ParameterError
from mpc.core.keys import derive, label
from mpc.core.prg import Prg, PrgFactory
from mpc.core.ring import RingArray
from mpc.secure_sum_messages import PartialSum, SumTerms

PURPOSE = "secure_sum"
"""What the keys of ``partial_sum`` are for: see ``mpc.relay.Outbox.key``."""


def partial_sum(
    terms: SumTerms,
    party: int,
    x: ArrayLike,
    keys: Mapping[int, bytes],
    *,
    context: bytes = b"",
    prg: PrgFactory = Prg,
) -> PartialSum:
    """Lines 2 to 8 for one neighbour: her masked input, for the receiver alone.

    terms: who takes part in which sum; neighbours in rising order.  x: (dim,), ring dtype.
    keys: a secret of 32 bytes that each other neighbour holds too. For each (session, round,
    receiver) it may serve one ``x``: what a second one adds shows as a difference.
    context: up to 255 bytes that the neighbours must agree on, such as a hash of the weights.
    Raises ParameterError for a wrong ``x``, a missing key, and neighbours that do not rise.
    The receiver is ``mpc.secure_sum.Receiver``.
    """
    secret = terms.ring.check(x)
    if secret.shape != (terms.dim,):
        raise ParameterError(f"x must have shape ({terms.dim},), got {secret.shape}")
    return terms.partial_message(party, mask(terms, party, secret, keys, context, prg))


def mask(
    terms: SumTerms,
    party: int,
    x: RingArray,
    keys: Mapping[int, bytes],
    context: bytes = b"",
    prg: PrgFactory = Prg,
) -> RingArray:
    """The kernel: ``x`` of shape (*b, dim) under the streams of ``party``; a new array."""
    terms.seat(party)
    text = _streams(terms, context)
    masked, stream = x.copy(), np.empty_like(x)
    for other in sorted(terms.others(party)):
        if other not in keys:
            raise ParameterError(f"party {party} has no key with neighbour {other}")
        prg(derive(keys[other], "secure_sum.stream", text), 0).fill(stream)
        # Only the word wraps, which is right because 2^l divides its modulus.
        (np.add if party < other else np.subtract)(masked, stream, out=masked)
    return np.bitwise_and(masked, terms.ring.mask, out=masked)


def _streams(terms: SumTerms, context: bytes) -> bytes:
    """What a sum is, for the keys of its streams: parties that see it differently share none."""
    if list(terms.neighbours) != sorted(terms.neighbours):
        raise ParameterError("neighbours must be in rising order: it decides who adds a stream")
    if len(context) > 255:
        raise ParameterError(f"context takes up to 255 bytes, got {len(context)}")
    numbers = (terms.round, terms.receiver, terms.dim, terms.ring.bits, *terms.neighbours)
    return hashlib.sha256(label("secure_sum.agreed", terms.session, context, *numbers)).digest()
