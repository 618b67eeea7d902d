"""What a blinded difference shows: exact laws under n = 143, and broken twins."""

from collections import Counter
from collections.abc import Callable
from fractions import Fraction
from itertools import permutations, product
from math import gcd
from typing import Any

import numpy as np
import pytest
from numpy.typing import DTypeLike, NDArray

from mpc.core.errors import BudgetError
from mpc.core.rng import Rng, Shape
from mpc.matching import paillier as module
from mpc.matching.items import encode_id, item_input
from mpc.matching.messages import BlindedPairs
from mpc.matching.paillier import PaillierMatcher, blinded_differences, numbers
from mpc.paillier.batch import BatchEncryptor
from mpc.paillier.ciphertext import Ciphertext, vector_from_bytes, vector_to_bytes
from mpc.paillier.encrypt import Textbook
from mpc.paillier.keys import PrivateKey
from tests.mpc.matching.paillier_session import PaillierSession, small_key
from tests.support.walk import walk

P, Q = 11, 13
N = P * Q
KEY = PrivateKey(P, Q, blum=False, small_for_tests=True)
PUBLIC = KEY.public
UNITS = [x for x in range(1, N) if gcd(x, N) == 1]


class Tape(Rng):
    """Gives the listed numbers, one byte each: what ``unit`` draws for n = 143."""

    def __init__(self, *numbers: int) -> None:
        self._left = iter(numbers)

    def fill(self, out: NDArray[Any]) -> None:
        raise AssertionError("only single bytes are drawn")

    def bytes(self, n: int) -> bytes:
        assert n == 1
        return bytes([next(self._left)])


class TapeEncryptor(BatchEncryptor):
    """Re-randomises by ``Textbook`` in this process, from the tape itself."""

    def rerandomise_many(self, ciphertexts: Any, *, rng: Rng, **_: Any) -> list[Ciphertext]:  # type: ignore[override]
        return Textbook(self.public).rerandomise_many(ciphertexts, rng=rng)


Kernel = Callable[[Ciphertext, Ciphertext, int, int], Ciphertext]


def as_it_runs(a: Ciphertext, b: Ciphertext, rho: int, r: int) -> Ciphertext:
    encryptor = TapeEncryptor.textbook(PUBLIC)
    (made,) = blinded_differences([a], [-b], encryptor, rng=Tape(rho, r))
    return made


def encryption(a: int, r: int) -> Ciphertext:
    """The ciphertext of ``a`` with the residue r^n."""
    return Ciphertext((1 + a * N) * pow(r, N, N * N) % (N * N), PUBLIC)


def view_law(kernel: Kernel, a: int, b: int, coins: tuple[int, int]) -> Counter[int]:
    """How often each ciphertext reaches the key holder, over all rho and r."""
    first, second = encryption(a, coins[0]), encryption(b, coins[1])
    return Counter(int(kernel(first, second, *tape).value) for tape in product(UNITS, repeat=2))


ALL = [int(encryption(plain, r).value) for plain in UNITS for r in UNITS]
ZEROS = [int(encryption(0, r).value) for r in UNITS]


def test_a_blinded_difference_shows_whether_it_is_zero_and_nothing_else() -> None:
    """Unequal: every encryption of every unit, equally often; equal: every encryption of zero."""
    for a, b, coins in ((1, 0, (1, 1)), (0, 7, (2, 5)), (5, 3, (100, 7))):
        assert view_law(as_it_runs, a, b, coins) == Counter(ALL)
    for a, coins in ((0, (1, 1)), (6, (2, 5))):
        assert view_law(as_it_runs, a, a, coins) == Counter(ZEROS * len(UNITS))


def short_rho(a: Ciphertext, b: Ciphertext, rho: int, r: int) -> Ciphertext:
    return as_it_runs(a, b, 1 + rho % 3, r)


def not_rerandomised(a: Ciphertext, b: Ciphertext, rho: int, r: int) -> Ciphertext:
    return (a + -b) * PUBLIC.signed(rho % N)


def no_rho(a: Ciphertext, b: Ciphertext, rho: int, r: int) -> Ciphertext:
    return as_it_runs(a, b, 1, r)


@pytest.mark.parametrize("twin", [short_rho, not_rerandomised, no_rho])
def test_a_broken_blinding_is_caught(twin: Kernel) -> None:
    laws = [view_law(twin, *case) for case in ((1, 0, (1, 1)), (0, 7, (2, 5)), (5, 3, (100, 7)))]
    assert any(law != laws[0] for law in laws)


def test_a_difference_that_shares_a_factor_with_n_would_be_neither() -> None:
    """Why ids are below both primes: 11 - 0 is a multiple of p and shows itself."""
    law = view_law(as_it_runs, P, 0, (1, 1))
    assert law not in (Counter(ALL), Counter(ZEROS * len(UNITS)))


@pytest.mark.parametrize(("repeated", "caught"), [(False, False), (True, True)])
def test_a_rho_that_serves_twice_is_caught(repeated: bool, caught: bool) -> None:
    """The quotient of two plaintexts under one rho is that of the differences."""

    def law(differences: tuple[int, int]) -> Counter[tuple[int, int]]:
        ones = [encryption(0, 1)] * 2
        others = [encryption(d, 1) for d in differences]
        seen: Counter[tuple[int, int]] = Counter()
        for rho, other in product(UNITS[::7], UNITS):
            tape = Tape(rho, rho if repeated else other, 1, 1)
            made = blinded_differences(others, ones, TapeEncryptor.textbook(PUBLIC), rng=tape)
            first, second = (int(KEY.decrypt_unchecked(c.value)) for c in made)
            seen[second * pow(first, -1, N) % N, 0] += 1
        return seen

    assert (law((1, 2)) != law((1, 3))) is caught


class Coins(Rng):
    """Walks integers and bits; every unit drawn from bytes is 2."""

    def __init__(self, walked: Rng) -> None:
        self._walked = walked

    def fill(self, out: NDArray[Any]) -> None:
        raise AssertionError("nothing here draws words")

    def bytes(self, n: int) -> bytes:
        return b"\x02" * n

    def uniform(self, bound: int, shape: Shape = (), dtype: DTypeLike = np.uint64) -> NDArray[Any]:
        return self._walked.uniform(bound, shape, dtype)

    def bernoulli(self, threshold: int, shape: Shape = ()) -> NDArray[np.bool_]:
        return self._walked.bernoulli(threshold, shape)


def zero_law(sets: dict[str, list[int]], dummies: int) -> dict[tuple[bool, ...], Fraction]:
    """The law of which results are zero, in the order in which the key holder sees them."""
    session = PaillierSession(sets, items=1)
    taken = {name: session.upload(name) for name in sets}

    def view(walked: Rng) -> tuple[bool, ...]:
        matcher = PaillierMatcher(
            session.terms, dummies=dummies, small_for_tests=True, rng=Coins(walked)
        )
        for name, upload in taken.items():
            matcher.collect(name.encode(), upload)
        request = matcher.compare()
        found = vector_from_bytes(request.ciphertexts, small_key().public, request.count)
        return tuple(small_key().decrypt(ciphertext) == 0 for ciphertext in found)

    law, left = walk(view)
    assert left == 0
    return law


def expected_zero_law(equal: int, unequal: int, dummies: int) -> dict[tuple[bool, ...], Fraction]:
    """Number of zeros: the equal pairs and a binomial; every order equally likely."""
    size = equal + unequal + dummies
    law: Counter[tuple[bool, ...]] = Counter()
    orders = list(permutations(range(size)))
    for zeros in product((True, False), repeat=dummies):
        bits = (True,) * equal + (False,) * unequal + zeros
        for order in orders:
            law[tuple(bits[i] for i in order)] += 1
    total = sum(law.values())
    return {bits: Fraction(count, total) for bits, count in law.items()}


# Three users with one item each: three pairs, and a dummy or none.
CASES = [
    ({"A": [1], "B": [1], "C": [2]}, 1),
    ({"A": [1], "B": [2], "C": [2]}, 1),
    ({"A": [5], "B": [6], "C": [7]}, 0),
    ({"A": [5], "B": [5], "C": [5]}, 3),
]


@pytest.mark.parametrize(("sets", "equal"), CASES)
def test_the_key_holder_learns_the_number_of_equal_pairs_alone(
    sets: dict[str, list[int]], equal: int
) -> None:
    assert zero_law(sets, 1) == expected_zero_law(equal, 3 - equal, 1)


def unmixed(n: int, *, rng: Rng) -> NDArray[np.int64]:
    return np.arange(n)


def test_pairs_that_are_not_mixed_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "permutation", unmixed)
    first, second = (zero_law(sets, 1) for sets, equal in CASES if equal == 1)
    assert first != second


def test_the_matcher_cannot_recognise_ids_by_the_public_key() -> None:
    """A dictionary of the whole catalogue under the public key: no ciphertext meets another."""
    session = PaillierSession({"A": [5, 7], "B": [5, 9]})
    public = small_key().public
    inputs = [item_input(encode_id(item), session.terms.digest) for item in range(50)]
    dictionary = {c.value for c in Textbook(public).encrypt_many(numbers(inputs, public))}
    for name in "AB":
        uploaded = vector_from_bytes(session.upload(name).ciphertexts, public, 3)
        assert not dictionary & {ciphertext.value for ciphertext in uploaded}


def test_a_matcher_who_deviates_tests_as_many_guesses_as_the_quota_allows() -> None:
    """What the page says of a curious matcher, carried out: the key holder is an oracle."""
    quota = 10
    session = PaillierSession({"A": [7]}, items=1, quota=quota)
    public = small_key().public
    (victim,) = vector_from_bytes(session.upload("A").ciphertexts, public, 1)
    encryptor = Textbook(public)

    def tests(guesses: range) -> list[int]:
        opened = []
        for item in guesses:
            (guess,) = numbers([item_input(encode_id(item), session.terms.digest)], public)
            query = (victim - guess).rerandomised(encryptor)
            request = BlindedPairs(session.terms.digest, 1, vector_to_bytes([query]))
            try:
                if session.holder.decrypt(request).bits == b"\x80":
                    opened.append(item)
            except BudgetError:
                break
        return opened

    assert tests(range(10, 17)) == []
    assert tests(range(5, 50)) == [7]  # by the tenth and last query
    assert session.holder.decrypted == quota
