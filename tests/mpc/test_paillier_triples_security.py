"""What the owner of a key can tell from an answer to her: exact laws over small keys, and twins.

The owner knows everything about her request. An answer shows her a plaintext, a b plus a mask, and
a ciphertext of it.
"""

from collections import Counter
from collections.abc import Sequence
from fractions import Fraction
from itertools import combinations
from math import gcd

import numpy as np
import pytest
from numpy.typing import NDArray

from mpc.core.prg import Prg
from mpc.core.ring import Ring
from mpc.core.rng import SYSTEM_RNG
from mpc.paillier.ciphertext import Ciphertext
from mpc.paillier.encrypt import Textbook
from mpc.paillier.keys import PrivateKey, PublicKey, generate_small_for_tests
from mpc.paillier_triples import Plan
from mpc.supply import Item, MatrixProduct, Product
from tests.mpc.paillier.stored_keys import BytesRng, toy_key

KEY = generate_small_for_tests(64, rng=Prg(bytes(32)))
Law = dict[int, Fraction]


class Masked(Prg):
    """The first draw is the given mask, the others are random."""

    def __init__(self, mask: int) -> None:
        super().__init__(SYSTEM_RNG.bytes(32))
        self._mask: int | None = mask

    def fill(self, out: NDArray[np.uint8]) -> None:
        if self._mask is None:
            super().fill(out)
            return
        out[...] = np.frombuffer(self._mask.to_bytes(out.size, "little"), np.uint8)
        self._mask = None


class Short(Plan):
    """Broken twin: the mask is as long as the product, and no longer."""

    def __init__(
        self, items: Sequence[Item], n: int, ring: Ring, sigma: int, publics: Sequence[PublicKey]
    ) -> None:
        super().__init__(items, n, ring, sigma, publics)
        self.mask_bits -= sigma


def made(kind: type[Plan], item: Item, bits: int, sigma: int, key: PrivateKey) -> Plan:
    return kind([item], 2, Ring(bits), sigma, [key.public] * 2)


def read_by_owner(plan: Plan, item: Item, a: list[int], b: list[int]) -> Law:
    """The law, over all masks, of what the owner decrypts."""
    dtype = np.uint8
    left, right = np.array(a, dtype), np.array(b, dtype)
    free = [(left.reshape(item.free[0]), right.reshape(item.free[1]))]
    asked = plan.read(plan.ask(0, free, rng=SYSTEM_RNG), 0, len(a), 0)
    counts: Counter[int] = Counter()
    for mask in range(1 << plan.mask_bits):
        answer, masks = plan.answer(asked, 0, 1, free, rng=Masked(mask))
        assert masks == [mask]
        counts[plan.open(answer, 0, 1, KEY)[0]] += 1
    return {value: Fraction(count, counts.total()) for value, count in counts.items()}


def distance(one: Law, other: Law) -> Fraction:
    """The statistical distance of two laws."""
    values = {*one, *other}
    gaps = (abs(one.get(v, Fraction(0)) - other.get(v, Fraction(0))) for v in values)
    return sum(gaps, Fraction(0)) / 2


CASES: list[tuple[Item, list[int], list[list[int]]]] = [
    (Product((1,)), [3], [[0], [1], [2], [3]]),
    (MatrixProduct((1, 2), (2, 1)), [3, 3], [[0, 0], [1, 3], [3, 3]]),
]


def worst(kind: type[Plan], item: Item, a: list[int], all_b: list[list[int]]) -> Fraction:
    plan = made(kind, item, 2, 3, KEY)
    laws = [read_by_owner(plan, item, a, b) for b in all_b]
    return max(distance(one, other) for one, other in combinations(laws, 2))


@pytest.mark.parametrize(("item", "a", "all_b"), CASES)
def test_the_owner_reads_nearly_the_same_whatever_the_other_factor(
    item: Item, a: list[int], all_b: list[list[int]]
) -> None:
    """Within a statistical distance of 2^-sigma, at sigma = 3: all masks, the largest factors."""
    assert 0 < worst(Plan, item, a, all_b) < Fraction(1, 8)


@pytest.mark.parametrize(("item", "a", "all_b"), CASES)
def test_a_short_mask_is_caught(item: Item, a: list[int], all_b: list[list[int]]) -> None:
    assert worst(Short, item, a, all_b) > Fraction(1, 8)


# The ciphertext itself, under a key of which all residues can be listed.
TOY = toy_key()
N = int(TOY.public.n)
UNITS = [r for r in range(N) if gcd(r, N) == 1]


def answers(b: int, mask: int) -> Counter[bytes]:
    """All answers to one request of a = 1, over everything that re-randomises them."""
    plan = made(Plan, Product((1,)), 1, 1, TOY)
    request = Ciphertext(pow(2, N, N * N) * (1 + N) % (N * N), TOY.public)
    factors = [(np.array([1], np.uint8), np.array([b], np.uint8))]
    found: Counter[bytes] = Counter()
    for r in UNITS:
        script = bytes([mask]) + (r << 6).to_bytes(2, "big")
        answer, _ = plan.answer([request], 0, 1, factors, rng=BytesRng(script))
        assert plan.open(answer, 0, 1, TOY) == [b + mask]
        found[answer] += 1
    return found


def test_the_ciphertext_tells_nothing_but_its_plaintext() -> None:
    """0 a + 1 and 1 a + 0 have answers of one law, each of them as likely as any other."""
    assert TOY.public.blum  # and yet no short exponent, which would leave traces of a and b
    assert answers(0, 1) == answers(1, 0)
    assert set(answers(1, 0).values()) == {1}
    assert len(answers(1, 0)) == len(UNITS)


def test_an_answer_that_is_not_made_anew_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    def kept(self: Textbook, ciphertexts: list[Ciphertext], *, rng: object) -> list[Ciphertext]:
        return [Ciphertext.unchecked(c.value, c.public, True) for c in ciphertexts]

    monkeypatch.setattr(Textbook, "rerandomise_many", kept)
    assert answers(0, 1) != answers(1, 0)
