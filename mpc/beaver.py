"""Products of shared numbers by Beaver triples: element by element, matrices, squares.

Source: Beaver, "Efficient multiparty protocols using circuit randomization" (CRYPTO 1991); matrix
    triples as in SecureML (Mohassel and Zhang, IEEE S&P 2017). Names: (a, b, c) is the triple,
    d = x - a and e = y - b are opened.
Model: semi-honest, n-1 parties collude, triples from a trusted dealer or another ``Supply``.
    Perfect, given uniform a and b that serve once.
Leaks: nothing: what is opened is masked in the whole ring. A triple that serves two products gives
    the difference of their factors away.
Error: none; the product is exact in the ring. Fixed-point factors have 2 f fractional bits in it,
    and ``mpc.truncation`` takes f of them off.
Rounds: one, in which everybody sends two elements for each product (one for a square) to everybody.
"""

from collections.abc import Sequence

import numpy as np

from mpc.core.errors import ParameterError
from mpc.core.ring import Ring, RingArray
from mpc.programs import Open, Program, Seats, pieces
from mpc.supply import MatrixProduct, Product, Square, Supply


def multiply(x: RingArray, y: RingArray, supply: Supply, ring: Ring) -> Program[RingArray]:
    """Shares (present, *s) of the products of two arrays of shares (present, *s)."""
    seats = supply.seats
    seats.check(x)
    if x.shape != y.shape:
        raise ParameterError(f"factors must have one shape, got {x.shape} and {y.shape}")
    shares = supply.take(Product(x.shape[1:]))
    (a, b), (c,) = shares.free, shares.bound
    d, e = yield Open(ring, (ring.sub(x, a, out=a), ring.sub(y, b, out=b)))
    return _finished(c, ((d, y), (e, x)), (d, e), seats, ring)


def square(x: RingArray, supply: Supply, ring: Ring) -> Program[RingArray]:
    """Shares (present, *s) of the squares of shared numbers (present, *s)."""
    seats = supply.seats
    seats.check(x)
    shares = supply.take(Square(x.shape[1:]))
    (a,), (c,) = shares.free, shares.bound
    (d,) = yield Open(ring, (ring.sub(x, a, out=a),))
    return _finished(c, ((ring.add(d, d), x),), (d, d), seats, ring)


def matmul(x: RingArray, y: RingArray, supply: Supply, ring: Ring) -> Program[RingArray]:
    """Shares (present, *s) of the matrix product of shares (present, *p) and (present, *q).

    p and q multiply as numpy's matmul has them, so that s = (p @ q).shape.
    """
    seats = supply.seats
    seats.check(x)
    seats.check(y)
    shares = supply.take(MatrixProduct(x.shape[1:], y.shape[1:]))
    (a, b), (c,) = shares.free, shares.bound
    d, e = yield Open(ring, (ring.sub(x, a, out=a), ring.sub(y, b, out=b)))
    for party, (left, right) in enumerate(zip(x, y, strict=True)):
        own = c[party, ...]
        ring.add(own, np.matmul(d, right), out=own)
        ring.add(own, np.matmul(left, e), out=own)
        if party == 0 and 0 in seats.present:
            ring.sub(own, np.matmul(d, e), out=own)
    return c


def _finished(
    c: RingArray,
    terms: Sequence[tuple[RingArray, RingArray]],
    opened: tuple[RingArray, RingArray],
    seats: Seats,
    ring: Ring,
) -> RingArray:
    """c, plus public times shared for each of ``terms``, less d e, in place."""
    rows = len(c)
    out = c.reshape(rows, -1)
    flat = [(public.reshape(-1), shared.reshape(rows, -1)) for public, shared in terms]
    d, e = (each.reshape(-1) for each in opened)
    for piece in pieces(out.shape[1], ring):
        part = out[:, piece]
        work = np.empty_like(part)
        for public, shared in flat:
            ring.mul(public[piece], shared[:, piece], out=work)
            ring.add(part, work, out=part)
        if 0 in seats.present:
            ring.mul(d[piece], e[piece], out=work[0])
            ring.sub(part[0], work[0], out=part[0])
    return out.reshape(c.shape)
