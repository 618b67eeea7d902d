"""Pairwise pads as pure functions on arrays: the kernels that run everywhere.

Source: Bonawitz et al., CCS 2017, section 4.0.1:
    y_u = x_u + sum_{v > u} PRG(s_uv) - sum_{v < u} PRG(s_uv) in Z_{2^l}; sum_u y_u = sum_u x_u.
Model: semi-honest server and up to n - 2 clients; each pad serves once (PadSupply sees to it).
Error: none, arithmetic is exact in the ring.
"""

from collections.abc import Sequence

import numpy as np

from mpc.core.errors import ParameterError
from mpc.core.ring import Ring, RingArray
from mpc.core.rng import Rng

# One piece of the sum and one of a stream together fill a second-level cache of 1 MiB; smaller
# pieces cost more in calls than they save in traffic.
_PIECE_BYTES = 1 << 19

_COMBINE = {1: np.add, -1: np.subtract}

SignedStreams = Sequence[tuple[int, Rng]]
"""The streams that a client shares with its peers, each with the sign it adds it by."""


def sign(client: int, peer: int) -> int:
    """+1 where ``client`` adds the pad shared with ``peer``, -1 where it subtracts it."""
    if client == peer:
        raise ParameterError(f"client {client} shares no pad with itself")
    return 1 if client < peer else -1


def add_pads(out: RingArray, streams: SignedStreams, ring: Ring) -> None:
    """Add the next m elements of every stream to ``out``, or subtract them, by the sign.

    out: ring dtype, shape (*batch, m), changed in place.  A stream is read in order along the
    last axis; leading axes are a batch that the stream itself fills (a ``Prg`` has none).
    Raises ParameterError for a sign other than 1 and -1.
    """
    ring.check(out)
    try:
        steps = [(_COMBINE[factor], stream.fill) for factor, stream in streams]
    except KeyError as error:
        raise ParameterError(f"a stream's sign must be 1 or -1, got {error.args[0]}") from None
    size = ring.element_bytes()
    step = _PIECE_BYTES // size
    # One piece of the sum stays in cache while every stream passes over it.
    pieces = [out] if out.shape[-1] <= step else _pieces(out, step)
    words = np.empty(pieces[0].shape, dtype=ring.dtype)
    for piece in pieces:
        if words.shape != piece.shape:  # at a shorter last one
            words = np.empty(piece.shape, dtype=ring.dtype)
        for combine, fill in steps:
            fill(words)
            combine(piece, words, out=piece)
        if ring.bits < 8 * size:
            # Words wrapped modulo 2^(their bits), which 2^l divides; the surplus bits go here.
            np.bitwise_and(piece, ring.mask, out=piece)


def _pieces(x: RingArray, step: int) -> list[RingArray]:
    return [x[..., start : start + step] for start in range(0, x.shape[-1], step)]


def net_pad(streams: SignedStreams, shape: tuple[int, ...], ring: Ring) -> RingArray:
    """The signed sum of the streams' next elements: an array of ``shape`` and the ring's dtype."""
    out: RingArray = np.zeros(shape, dtype=ring.dtype)
    add_pads(out, streams, ring)
    return out


def mask(x: RingArray, pad: RingArray, ring: Ring) -> RingArray:
    """x + pad: what the server may see of ``x``. Same shape, ring dtype."""
    return ring.add(ring.check(x), pad)


def accumulate(total: RingArray, masked: RingArray, ring: Ring) -> None:
    """Add all parts of ``masked`` (parts, *s) to ``total`` (*s) in place.

    Once every member's vector is in, the pads have cancelled and ``total`` is the sum of inputs.
    """
    ring.add(total, ring.sum(ring.check(masked), axis=0), out=total)
