"""Powers of one base modulo n^2: a table, and one product for each window of w exponent bits.

Source: the window method for a fixed base (Menezes, van Oorschot and Vanstone, "Handbook of
    Applied Cryptography", 1996, section 14.6.3), with all multiples stored: row i holds
    base^(d 2^(w i)) for every digit d. An element a + b n is kept as the pair (a, b): a product
    then takes three products and two divisions of half the size, a fifth less than one product
    and one division of full size.
Model: table entries are picked by the digits of the exponent, which caches betray to whoever
    shares them. Not constant time.
Error: none.
"""

from collections.abc import Sequence

from gmpy2 import mpz

from mpc.core.checks import integer
from mpc.core.errors import ParameterError


class FixedBase:
    """``base`` to exponents of [0, 2^bits) modulo n^2, by bits / window products.

    The table has 2^window entries for each window, as large as n^2, and takes one product for
    each. At window 8 these are, numbers alone: 14,336 entries, 7.3 MB, built in 0.1 s (448 bits,
    n of 2048 bits); 16,384, 12.6 MB, 0.2 s (512, 3072); 19,456, 19.9 MB, 0.4 s (608, 4096).
    window: in [1, 16], a divisor of ``bits``.  Raises ParameterError otherwise.
    """

    __slots__ = ("_n", "_rows", "bits", "window")

    def __init__(self, base: mpz, n: mpz, bits: int, window: int = 8) -> None:
        self.window = integer("window", window, 1, 16)
        self.bits = integer("bits", bits, 1, 1 << 20)
        if self.bits % self.window:
            raise ParameterError(f"window must divide bits = {self.bits}, got {self.window}")
        self._n = n
        modulus = n * n
        self._rows: list[list[tuple[mpz, mpz]]] = []
        step = base % modulus
        for _ in range(self.bits // self.window):
            row = []
            value = mpz(1)
            for _ in range(1 << self.window):
                high, low = divmod(value, n)
                row.append((low, high))
                value = value * step % modulus
            self._rows.append(row)
            step = value

    @property
    def digits(self) -> int:
        """Digits of an exponent, each of ``window`` bits."""
        return len(self._rows)

    def power(self, exponent: int) -> mpz:
        """base^exponent; ParameterError, which does not quote it, outside [0, 2^bits)."""
        if not 0 <= exponent < 1 << self.bits:
            raise ParameterError(f"the exponent must lie in [0, 2^{self.bits})")
        mask = (1 << self.window) - 1
        return self.power_of_digits(
            [exponent >> i & mask for i in range(0, self.bits, self.window)]
        )

    def power_of_digits(self, digits: Sequence[int]) -> mpz:
        """base to the exponent with these digits, the lowest first, each in [0, 2^window).

        Uniform digits make a uniform exponent. They are not checked, only counted.
        """
        n = self._n
        low, high = mpz(1), mpz(0)
        for row, digit in zip(self._rows, digits, strict=True):
            # (low + high n) (a + b n) = low a + (low b + high a) n modulo n^2.
            a, b = row[digit]
            carry, next_low = divmod(low * a, n)
            high = (carry + low * b + high * a) % n
            low = next_low
        return low + high * n
