"""ristretto255 and hashing to it by plain integers, for the scripts that write answers.

A second reading of RFC 9496, section 4, and RFC 9380, section 5.3.1, names as there. It imports
none of our packages and no library, and is slow and not constant-time.
"""

import hashlib

P = 2**255 - 19
ORDER = 2**252 + 27742317777372353535851937790883648493
D = -121665 * pow(121666, -1, P) % P
SQRT_M1 = pow(2, (P - 1) // 4, P)

# Of two square roots each, those that RFC 9496, section 4.1, prints.
SQRT_AD_MINUS_ONE = 25063068953384623474111414158702152701244531502492656460079210482610430750235
INVSQRT_A_MINUS_D = 54469307008909316920995813868745141605393597292927456921205312896311721017578

Point = tuple[int, int, int, int]
"""Extended coordinates (X, Y, Z, T) on the twisted Edwards curve with a = -1."""

IDENTITY: Point = (0, 1, 1, 0)


def absolute(x: int) -> int:
    """x or -x, whichever is even below P."""
    return P - x % P if x % P % 2 else x % P


def sqrt_ratio_m1(u: int, v: int) -> tuple[bool, int]:
    r = u * v**3 * pow(u * v**7, (P - 5) // 8, P) % P
    check = v * r * r % P
    if check in (-u % P, -u * SQRT_M1 % P):
        r = r * SQRT_M1 % P
    return check in (u % P, -u % P), absolute(r)


def add(one: Point, other: Point) -> Point:
    """The unified addition of Hisil, Wong, Carter and Dawson (2008) for a = -1."""
    x1, y1, z1, t1 = one
    x2, y2, z2, t2 = other
    a, b = (y1 - x1) * (y2 - x2), (y1 + x1) * (y2 + x2)
    c, d = 2 * D * t1 * t2, 2 * z1 * z2
    e, f, g, h = b - a, d - c, d + c, b + a
    return e * f % P, g * h % P, f * g % P, e * h % P


def multiply(scalar: int, point: Point) -> Point:
    total = IDENTITY
    for bit in bin(scalar % ORDER)[2:]:
        total = add(total, total)
        if bit == "1":
            total = add(total, point)
    return total


def decode(data: bytes) -> Point:
    s = int.from_bytes(data, "little")
    if s >= P or s % 2:
        raise ValueError("not canonical")
    u1, u2 = 1 - s * s, 1 + s * s
    v = (-D * u1 * u1 - u2 * u2) % P
    square, invsqrt = sqrt_ratio_m1(1, v * u2 * u2 % P)
    x = absolute(2 * s * invsqrt * u2)
    y = u1 * invsqrt * (invsqrt * u2) * v % P
    if not square or x * y % P % 2 or y == 0:
        raise ValueError("no element")
    return x, y, 1, x * y % P


def encode(point: Point) -> bytes:
    x0, y0, z0, t0 = point
    u1, u2 = (z0 + y0) * (z0 - y0) % P, x0 * y0 % P
    _, invsqrt = sqrt_ratio_m1(1, u1 * u2 * u2 % P)
    den1, den2 = invsqrt * u1 % P, invsqrt * u2 % P
    z_inv = den1 * den2 * t0 % P
    x, y, den_inv = x0, y0, den2
    if t0 * z_inv % P % 2:
        x, y, den_inv = y0 * SQRT_M1 % P, x0 * SQRT_M1 % P, den1 * INVSQRT_A_MINUS_D % P
    if x * z_inv % P % 2:
        y = -y
    return absolute(den_inv * (z0 - y)).to_bytes(32, "little")


def _map(data: bytes) -> Point:
    t = int.from_bytes(data, "little") % 2**255 % P
    r = SQRT_M1 * t * t % P
    u = (r + 1) * (1 - D * D) % P
    v = (-1 - r * D) * (r + D) % P
    square, s = sqrt_ratio_m1(u, v)
    c = -1
    if not square:
        s, c = -absolute(s * t), r
    n = (c * (r - 1) * (D - 1) ** 2 - v) % P
    w0, w1 = 2 * s * v, n * SQRT_AD_MINUS_ONE
    w2, w3 = 1 - s * s, 1 + s * s
    return w0 * w3 % P, w2 * w1 % P, w1 * w3 % P, w0 * w2 % P


def from_uniform(data: bytes) -> Point:
    return add(_map(data[:32]), _map(data[32:]))


GENERATOR = decode(
    bytes.fromhex("e2f2ae0a6abc4e71a884a961c500515f58e30b6aa582dd8db6a65945e08d2d76")
)


def expand_64(message: bytes, tag: bytes) -> bytes:
    """expand_message_xmd with SHA-512 for 64 bytes, one block of output."""
    suffix = tag + bytes([len(tag)])
    first = hashlib.sha512(bytes(128) + message + b"\x00\x40\x00" + suffix).digest()
    return hashlib.sha512(first + b"\x01" + suffix).digest()


def hash_to_group(message: bytes, tag: bytes) -> Point:
    return from_uniform(expand_64(message, tag))


def hash_to_scalar(message: bytes, tag: bytes) -> int:
    return int.from_bytes(expand_64(message, tag), "little") % ORDER
