"""Writes paillier.json: keys from stated primes, ciphertexts and wire bytes, by plain integers.

Run it as ``python -m tests.vectors.make_paillier``; it takes about a minute, for the primes are
searched. It imports none of our packages and no library for large integers, and computes each
ciphertext by the defining formula modulo n^2. Its primes are nobody's secret: the first ones that
qualify from a hash of the names, so they serve as the stored candidates of the tests too.
"""

import hashlib
import json
from math import gcd
from pathlib import Path
from typing import Any

from tests.vectors.make_transcripts import label, pack

SIZES = (1024, 2048, 3072, 4096)
EXPONENT_BITS = {1024: 448, 2048: 448, 3072: 512, 4096: 608}
SIEVE = [p for p in range(3, 4000) if all(p % d for d in range(2, int(p**0.5) + 1))]


def stream(name: str, bits: int) -> int:
    """``bits`` bits, a multiple of 8, that follow from the name."""
    return int.from_bytes(hashlib.shake_256(name.encode()).digest(bits // 8), "big")


def is_prime(number: int) -> bool:
    if any(number % p == 0 for p in SIEVE):
        return False
    odd, twos = number - 1, 0
    while odd % 2 == 0:
        odd, twos = odd // 2, twos + 1
    for witness in SIEVE[:40]:
        power = pow(witness, odd, number)
        if power in (1, number - 1):
            continue
        for _ in range(twos - 1):
            power = power * power % number
            if power == number - 1:
                break
        else:
            return False
    return True


def prime(name: str, bits: int, other: int | None = None) -> int:
    """The first prime 3 mod 4 from the stream's start on, its top two bits set."""
    number = stream(name, bits) | 3 << (bits - 2) | 3
    while not (is_prime(number) and (other is None or gcd(number - 1, other - 1) == 2)):
        number += 4
    return number


def wide(number: int, bits: int) -> bytes:
    return number.to_bytes((bits + 7) // 8, "big")


def jacobi(a: int, n: int) -> int:
    """The Jacobi symbol (a/n) for odd n > 0, by reciprocity."""
    a, sign = a % n, 1
    while a:
        while a % 2 == 0:
            a //= 2
            sign = -sign if n % 8 in (3, 5) else sign
        a, n = n, a
        sign = -sign if a % 4 == n % 4 == 3 else sign
        a %= n
    return sign if n == 1 else 0


def unit(name: str, n: int, symbol: int | None = None) -> int:
    """An integer below n, prime to it, with the symbol asked for."""
    number = stream(name, n.bit_length()) % n
    while gcd(number, n) != 1 or (symbol is not None and jacobi(number, n) != symbol):
        number += 1
    return number


def key(bits: int) -> dict[str, Any]:
    p = prime(f"p {bits}", bits // 2)
    q = prime(f"q {bits}", bits // 2, p)
    p, q = sorted((p, q))
    n = p * q
    square = n * n
    fingerprint = hashlib.sha256(label("paillier.key", wide(n, bits))).digest()

    def wire(*ciphertexts: int) -> str:
        values = b"".join(wide(c, 2 * bits) for c in ciphertexts)
        fields = ["paillier.ciphertexts", fingerprint, len(ciphertexts), values]
        return (b"\x01" + pack(fields)).hex()

    textbook = []
    for index, m in enumerate((0, 1, -1, 123456789, -(n // 2), n // 2)):
        r = unit(f"r {bits} {index}", n)
        c = (1 + m * n) * pow(r, n, square) % square
        textbook.append({"m": hex(m), "r": hex(r), "c": hex(c), "wire": wire(c)})
    first, second = (int(case["c"], 16) for case in textbook[1:4:2])

    x, u = unit(f"x {bits}", n), unit(f"u {bits}", n, -1)
    h_s, u_s = pow(-x * x, n, square), pow(u, n, square)
    short = []
    for index, m in enumerate((0, -42, 10**9)):
        e = stream(f"e {bits} {index}", EXPONENT_BITS[bits])
        b = index % 2
        c = (1 + m * n) * pow(h_s, e, square) * u_s**b % square
        short.append({"m": hex(m), "e": hex(e), "b": b, "c": hex(c)})

    public = b"\x01" + pack(["paillier.public", bits, wide(n, bits), 1])
    private = pack(["paillier.private", bits, wide(p, bits // 2), wide(q, bits // 2), 1])
    return {
        "bits": bits,
        "p": hex(p),
        "q": hex(q),
        "fingerprint": fingerprint.hex(),
        "public": public.hex(),
        "private": (b"\x01" + private).hex(),
        "textbook": textbook,
        "sum": hex(first * second % square),  # 1 + 123456789
        "times_minus_5": hex(pow(second, -5, square)),
        "plus_minus_7": hex(second * (1 - 7 * n) % square),
        "vector": wire(first, second),
        "djn": {"x": hex(x), "u": hex(u), "cases": short},
    }


def build() -> dict[str, Any]:
    return {
        "source": "our own answers, written by tests/vectors/make_paillier.py",
        "keys": [key(bits) for bits in SIZES],
    }


if __name__ == "__main__":
    target = Path(__file__).with_name("paillier.json")
    target.write_text(json.dumps(build(), indent=2) + "\n", encoding="utf-8")
