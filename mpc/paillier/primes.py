"""Large random integers and primes: exact uniform draws below any bound, units, primes 3 mod 4.

Source: rejection sampling (Devroye, "Non-Uniform Random Variate Generation", 1986, II.3); range of
    the primes: NIST FIPS 186-5, A.1.3; the test: Baillie and Wagstaff (Math. Comp. 35, 1980) and
    Miller-Rabin, as GMP runs them.
Model: given uniform bytes, draws are exactly uniform. How many draws were thrown away, and the
    time of GMP's arithmetic, depend on secrets; neither GMP nor Python is constant time.
Error: a composite passes GMP's 40 rounds of Miller-Rabin with probability at most 4^-40 over their
    bases, whatever the number; and a random number of 1024 bits or more that has passed is
    composite with less than 2^-300 (Damgard, Landrock and Pomerance, "Average case error estimates
    for the strong probable prime test", Math. Comp. 61, 1993, for k = 1024 and t = 40). GMP takes
    the bases from a fixed sequence, so both hold for numbers chosen without regard to it. No
    composite is known that passes the Baillie-PSW test, which comes first.
"""

from collections.abc import Callable

import gmpy2
from gmpy2 import mpz

from mpc.core.errors import ParameterError
from mpc.core.rng import Rng

# GMP counts the Baillie-PSW test as 24 rounds; the other 40 are Miller-Rabin.
_ROUNDS = 64


def below(bound: mpz, rng: Rng) -> mpz:
    """An integer uniform in [0, bound), exactly; ParameterError unless bound >= 1."""
    if bound < 1:
        raise ParameterError("bound must be at least 1")
    bits = (bound - 1).bit_length()
    size = (bits + 7) // 8
    while True:
        drawn = mpz.from_bytes(rng.bytes(size), "big") >> (8 * size - bits)
        if drawn < bound:
            return drawn


def unit(n: mpz, rng: Rng) -> mpz:
    """An element uniform in Z_n^*, the integers of [1, n) without a common factor with n >= 2."""
    while True:
        drawn = below(n, rng)
        if gmpy2.gcd(drawn, n) == 1:
            return drawn


def is_prime(number: mpz) -> bool:
    """Whether ``number`` passes Baillie-PSW and 40 rounds of Miller-Rabin; see Error above."""
    return bool(number > 1 and gmpy2.is_prime(number, _ROUNDS))


def draw_prime(bits: int, rng: Rng, accept: Callable[[mpz], bool] = lambda _: True) -> mpz:
    """A prime of ``bits`` bits, 3 modulo 4, uniform among those that ``accept`` takes.

    It is larger than 2^(bits - 1/2), so that the product of two has exactly 2 * bits bits. Runs
    for ever if there is none: from 5 bits on there are at least two.
    """
    lowest = gmpy2.isqrt(mpz(1) << (2 * bits - 1)) + 1
    first = lowest + (3 - lowest) % 4
    count = ((mpz(1) << bits) - first + 3) // 4
    while True:
        candidate = first + 4 * below(count, rng)
        if accept(candidate) and is_prime(candidate):
            return candidate
