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

from mpc.core.ring import Ring, RingArray
from mpc.programs import Open, Program
from mpc.supply import MatrixProduct, Product, Square, Supply


def multiply(x: RingArray, y: RingArray, supply: Supply, ring: Ring) -> Program[RingArray]:
    """Shares (present, *s) of the products of two arrays of shares (present, *s)."""
    shares = supply.take(Product(x.shape[1:]))
    (a, b), (c,) = shares.free, shares.bound
    d, e = yield Open(ring, (ring.sub(x, a), ring.sub(y, b)))
    # x y = (a + d)(b + e) = c + d b + e a + d e.
    out = ring.add(c, ring.mul(b, d))
    ring.add(out, ring.mul(a, e), out=out)
    return supply.seats.add_public(out, ring.mul(d, e), ring)


def square(x: RingArray, supply: Supply, ring: Ring) -> Program[RingArray]:
    """Shares (present, *s) of the squares of shared numbers."""
    shares = supply.take(Square(x.shape[1:]))
    (a,), (c,) = shares.free, shares.bound
    (d,) = yield Open(ring, (ring.sub(x, a),))
    # x^2 = (a + d)^2 = c + 2 a d + d^2.
    out = ring.add(c, ring.mul(a, ring.add(d, d)))
    return supply.seats.add_public(out, ring.mul(d, d), ring)


def matmul(x: RingArray, y: RingArray, supply: Supply, ring: Ring) -> Program[RingArray]:
    """Shares (present, *s) of the matrix product of shares (present, *p) and (present, *q).

    p and q multiply as numpy's matmul has them, so that s = (p @ q).shape.
    """
    shares = supply.take(MatrixProduct(x.shape[1:], y.shape[1:]))
    (a, b), (c,) = shares.free, shares.bound
    d, e = yield Open(ring, (ring.sub(x, a), ring.sub(y, b)))
    rows = [part + d @ own_b + own_a @ e for part, own_a, own_b in zip(c, a, b, strict=True)]
    return supply.seats.add_public(ring.reduce(rows), d @ e, ring)
