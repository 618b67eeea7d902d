"""What a ciphertext's randomness hides: exact laws over toy keys, and twins that break them.

Everything is listed for n = 23 * 31 = 713, whose Z_n^* has 660 elements and as many n-th residues.
"""

import inspect
from collections import Counter
from collections.abc import Callable
from fractions import Fraction
from itertools import product
from math import gcd

import gmpy2
import pytest
from gmpy2 import mpz

from mpc.core.prg import Prg
from mpc.core.rng import SYSTEM_RNG, Rng
from mpc.paillier.ciphertext import Ciphertext
from mpc.paillier.encrypt import Djn, Encryptor, Owner, Textbook
from mpc.paillier.keys import PrivateKey
from tests.mpc.paillier.stored_keys import TOY, BytesRng, encryptor, private_key, toy_key
from tests.support.script import ScriptEndError, ScriptRng

N = TOY[0] * TOY[1]
UNITS = [r for r in range(N) if gcd(r, N) == 1]
RESIDUES = {pow(r, N, N * N) for r in UNITS}
PLAIN = range(-356, 357)


def law(kernel: Callable[[Rng], mpz]) -> tuple[Counter[int], int]:
    """Outcomes of ``kernel`` over all scripts of two bytes, and scripts on which it asks for more.

    Those are draws that were refused: what follows is a new draw from new bytes.
    """
    outcomes: Counter[int] = Counter()
    refused = 0
    for script in product(range(256), repeat=2):
        try:
            outcomes[int(kernel(ScriptRng(script)))] += 1
        except ScriptEndError:
            refused += 1
    return outcomes, refused


def is_uniform(outcomes: Counter[int], support: set[int]) -> bool:
    return set(outcomes) == support and len(set(outcomes.values())) == 1


def residue(encryptor: Encryptor) -> Callable[[Rng], mpz]:
    return lambda rng: encryptor.residues(1, rng=rng)[0]


class Reduced(Textbook):
    """Broken twin: reduces modulo n what a draw should refuse."""

    def residues(self, count: int, *, rng: Rng = SYSTEM_RNG) -> list[mpz]:
        drawn = [mpz.from_bytes(rng.bytes(2), "big") % self.public.n for _ in range(count)]
        return [gmpy2.powmod(r, self.public.n, self.public.n_squared) for r in drawn]


class Narrow(Textbook):
    """Broken twin: draws r from one byte, of which two are read."""

    def residues(self, count: int, *, rng: Rng = SYSTEM_RNG) -> list[mpz]:
        drawn = [mpz(rng.bytes(2)[0] | 1) for _ in range(count)]
        return [gmpy2.powmod(r, self.public.n, self.public.n_squared) for r in drawn]


def test_the_residues_of_a_toy_key_are_as_many_as_its_units() -> None:
    assert len(RESIDUES) == len(UNITS) == 660


@pytest.mark.parametrize(
    ("encryptor", "scripts"),
    [
        (Textbook(toy_key().public), 2**16 * 660 // 1024),  # 10 bits: 660 of 1024 are units
        (Owner(toy_key()), 2**16 * 22 * 30 // 32**2),  # 5 bits each: 22 and 30 of 32 are taken
        (Owner(toy_key(), constant_time_powmod=True), 2**16 * 22 * 30 // 32**2),
    ],
    ids=["textbook", "owner", "owner constant time"],
)
def test_residues_are_exactly_uniform(encryptor: Encryptor, scripts: int) -> None:
    outcomes, refused = law(residue(encryptor))
    assert is_uniform(outcomes, RESIDUES)
    assert outcomes.total() == scripts
    assert refused == 2**16 - scripts


@pytest.mark.parametrize("twin", [Reduced, Narrow])
def test_a_biased_draw_is_caught(twin: type[Textbook]) -> None:
    outcomes, _ = law(residue(twin(toy_key().public)))
    assert not is_uniform(outcomes, RESIDUES)


def test_each_plaintext_s_ciphertexts_are_its_whole_coset_equally_likely() -> None:
    # One script for each r: that all r are equally likely is shown above.
    textbook = Textbook(toy_key().public)
    seen: set[int] = set()
    for m in PLAIN:
        outcomes = Counter(
            int(textbook.encrypt(m, rng=BytesRng((r << 6).to_bytes(2, "big"))).value)
            for r in UNITS[:: 1 if m in (-356, 0, 1, 356) else 20]
        )
        coset = {(1 + m * N) * y % (N * N) for y in RESIDUES}
        if m in (-356, 0, 1, 356):
            assert is_uniform(outcomes, coset)
        assert set(outcomes) <= coset
        assert not seen & coset
        seen |= coset
    assert len(seen) == N * len(UNITS)  # the cosets are all of Z_(n^2)^*


def test_rerandomising_gives_the_law_of_a_new_encryption() -> None:
    textbook = Textbook(toy_key().public)
    old = Ciphertext(pow(2, N, N * N) * (1 + 5 * N) % (N * N), textbook.public)
    new, _ = law(lambda rng: old.rerandomised(textbook, rng=rng).value)
    encrypted, _ = law(lambda rng: textbook.encrypt(5, rng=rng).value)
    assert new == encrypted


# --- short exponents


def djn(x: int, u: int, exponent_bits: int, window: int = 8) -> Djn:
    """A ``Djn`` under the toy key with the x and u asked for."""
    coins = b"".join((value << 6).to_bytes(2, "big") for value in (x, u))
    public = toy_key().public
    return Djn(public, exponent_bits=exponent_bits, window=window, rng=BytesRng(coins))


def symbol(value: int) -> int:
    return int(gmpy2.jacobi(value, N))


def order(value: int) -> int:
    return next(k for k in range(1, 661) if pow(value, k, N) == 1)


GENERATOR = next(x for x in UNITS if order(-x * x % N) == 330)
MINUS = next(u for u in UNITS if symbol(u) == -1)


def test_djn_s_residues_are_powers_of_its_base_with_and_without_the_twist() -> None:
    h_s, u_s = pow(-(GENERATOR**2), N, N * N), pow(MINUS, N, N * N)
    outcomes, refused = law(residue(djn(GENERATOR, MINUS, 8)))
    expected = [pow(h_s, e, N * N) * u_s**b % (N * N) for e in range(256) for b in range(2)]
    assert outcomes == Counter(dict.fromkeys(expected, 128))
    assert refused == 0


def test_with_a_long_exponent_djn_has_the_textbook_law() -> None:
    # 16 bits for a group of 330: no residue is off by more than one exponent of 65,536.
    encryptor = djn(GENERATOR, MINUS, 16, window=16)
    counts = Counter(
        int(encryptor.residues(1, rng=ScriptRng([e, b]))[0]) for e in range(2**16) for b in range(2)
    )
    assert set(counts) == RESIDUES
    assert max(counts.values()) - min(counts.values()) <= 1
    distance = sum(abs(Fraction(c, 2**17) - Fraction(1, 660)) for c in counts.values()) / 2
    assert distance < Fraction(330, 2**16)
    # Twin: an h of somebody else's choice, here of order 15, reaches 30 residues.
    low = next(x for x in UNITS if order(-x * x % N) == 30)
    weak = djn(low, MINUS, 16, window=16)
    reached = {
        int(weak.residues(1, rng=ScriptRng([e, b]))[0]) for e in range(2**10) for b in range(2)
    }
    assert len(reached) == 60


def test_the_jacobi_symbol_of_a_rerandomised_product_does_not_tell_its_factor() -> None:
    textbook, encryptor = Textbook(toy_key().public), djn(GENERATOR, MINUS, 8)
    old = textbook.encrypt(1, rng=BytesRng((MINUS << 6).to_bytes(2, "big")))
    assert symbol(int(old.value)) == -1

    def symbols(encryptor: Djn, k: int) -> Counter[int]:
        outcomes, _ = law(lambda rng: (old * k).rerandomised(encryptor, rng=rng).value)
        seen: Counter[int] = Counter()
        for value, count in outcomes.items():
            seen[symbol(value)] += count
        return seen

    assert symbols(encryptor, 3) == symbols(encryptor, 4) == {1: 2**15, -1: 2**15}
    # Twin: without u the symbol is that of the product, and tells whether k is odd.
    encryptor._signs = (mpz(1), mpz(1))
    assert symbols(encryptor, 3) == {-1: 2**16}
    assert symbols(encryptor, 4) == {1: 2**16}


def test_every_djn_draws_bases_of_its_own() -> None:
    public = private_key(1024).public
    first, second = (Djn(public, exponent_bits=8) for _ in range(2))
    for coins in ([1, 0], [0, 1]):  # h_s itself, then u_s itself
        ours, theirs = (d.residues(1, rng=ScriptRng(coins))[0] for d in (first, second))
        assert ours != theirs
        assert 1 not in (ours, theirs)
        n_squared = public.n_squared
        assert gmpy2.jacobi(ours, public.n) == (1 if coins[0] else -1)
        assert ours not in (1, n_squared - 1)
    assert set(inspect.signature(Djn).parameters) == {"public", "exponent_bits", "window", "rng"}


def test_a_twist_of_the_wrong_symbol_is_drawn_again() -> None:
    plus = next(u for u in UNITS if symbol(u) == 1)
    coins = b"".join((value << 6).to_bytes(2, "big") for value in (GENERATOR, plus, MINUS))
    rng = BytesRng(coins)
    twisted = Djn(toy_key().public, exponent_bits=8, rng=rng)
    assert rng.used == 6
    assert twisted.residues(1, rng=ScriptRng([0, 1])) == [pow(MINUS, N, N * N)]


def test_h_is_minus_a_square() -> None:
    # Under both primes 3 mod 4, -x^2 is no square modulo either: its symbols are -1 and -1.
    key = private_key(1024)
    h_s = Djn(key.public, exponent_bits=8).residues(1, rng=ScriptRng([1, 0]))[0]
    assert [gmpy2.jacobi(h_s, prime) for prime in key.primes()] == [-1, -1]


def test_a_result_that_was_not_rerandomised_shows_its_operands() -> None:
    # Why freshness is kept track of: a product is a function of what its sender knows.
    sent = encryptor(1024).encrypt(12)
    secret = 77
    product_ = sent * secret + 5
    guesses = {k: (sent * k + 5).value for k in range(100)}
    assert [k for k, value in guesses.items() if value == product_.value] == [secret]
    hidden = product_.rerandomised(encryptor(1024))
    assert hidden.value not in guesses.values()


def test_a_cubic_character_that_djn_leaves_is_gone_after_textbook() -> None:
    """Why results for the key's owner are re-randomised by ``Textbook``.

    3 divides p - 1. Where h is a cube modulo p, and u too, every residue of ``Djn`` is one, and a
    product E(a)^k keeps the cubic character of E(a)^k: its owner reads k modulo 3. ``Textbook``
    gives each of the three characters.
    """
    private = PrivateKey(1759, 1979, small_for_tests=True)  # 1758 = 2 * 3 * 293
    p, public = 1759, private.public

    def character(value: mpz) -> int:
        return int(gmpy2.powmod(value, (p - 1) // 3, p))

    def characters(encryptor: Encryptor) -> set[int]:
        return {character(residue) for residue in encryptor.residues(200, rng=rng)}

    rng = Prg(b"characters of residues, 32 bytes")
    assert len(characters(Textbook(public))) == 3
    leaky = [djn for _ in range(60) if len(characters(djn := Djn(public, rng=rng))) == 1]
    assert leaky
    encrypted = Textbook(public).encrypt(5, rng=rng)
    while character(encrypted.value) == 1:
        encrypted = Textbook(public).encrypt(5, rng=rng)
    seen = [character((encrypted * k).rerandomised(leaky[0], rng=rng).value) for k in range(1, 7)]
    assert seen[:3] == seen[3:]
    assert len(set(seen[:3])) == 3
