"""Exact laws over small fields: t - 1 shares are uniform whatever the secret; biased twins."""

from collections import Counter
from collections.abc import Callable
from fractions import Fraction
from itertools import combinations
from typing import Any

import numpy as np
import pytest
from numpy.typing import DTypeLike, NDArray

from mpc.core.rng import Shape
from mpc.shamir import Field, lagrange, share
from tests.support.enumerate import TapeRng, law, tapes


class FieldTapes(TapeRng):
    """Every outcome of uniform draws below p, as they are: their own law is shown in core."""

    def uniform(self, bound: int, shape: Shape = (), dtype: DTypeLike = np.uint64) -> NDArray[Any]:
        out = np.empty(shape, dtype)
        self.fill(out)
        assert int(out.max()) < bound
        return out


class Topless(FieldTapes):
    """Broken twin: the largest residue is never drawn, and zero twice as often."""

    def uniform(self, bound: int, shape: Shape = (), dtype: DTypeLike = np.uint64) -> NDArray[Any]:
        out = super().uniform(bound, shape, dtype)
        out[out == bound - 1] = 0
        return out


class Monic(FieldTapes):
    """Broken twin: the leading coefficient is never zero, so that the degree is exactly t - 1."""

    def uniform(self, bound: int, shape: Shape = (), dtype: DTypeLike = np.uint64) -> NDArray[Any]:
        out = super().uniform(bound, shape, dtype)
        out[-1, out[-1] == 0] = 1
        return out


class Reused(FieldTapes):
    """Broken twin: all coefficients of a polynomial are the same."""

    def uniform(self, bound: int, shape: Shape = (), dtype: DTypeLike = np.uint64) -> NDArray[Any]:
        out = super().uniform(bound, shape, dtype)
        out[:] = out[:1]
        return out


Kind = Callable[..., FieldTapes]


def laws(kind: Kind, prime: int, n: int, t: int) -> dict[tuple[int, ...], list[dict[bytes, Any]]]:
    """For every t - 1 holders, the laws of what they hold for each secret."""
    field, values = Field(prime), tapes([prime] * (t - 1))
    found: dict[tuple[int, ...], list[dict[bytes, Any]]] = {}
    for secret in range(prime):
        secrets = np.full(len(values), secret, np.uint32)
        shares = share(secrets, n, t, field=field, rng=kind(values, axis=1))
        for held in combinations(range(n), t - 1):
            found.setdefault(held, []).append(law(shares[list(held)].T))
    return found


@pytest.mark.parametrize(("prime", "n"), [(3, 2), (5, 4), (7, 4)])
def test_any_t_minus_1_shares_are_uniform_whatever_the_secret(prime: int, n: int) -> None:
    for t in range(2, n + 1):
        for of_secrets in laws(FieldTapes, prime, n, t).values():
            for one in of_secrets:
                assert len(one) == prime ** (t - 1)
                assert set(one.values()) == {Fraction(1, prime ** (t - 1))}


@pytest.mark.parametrize("t", [2, 3, 4])
def test_t_shares_determine_the_secret(t: int) -> None:
    """The other side: with t shares no two secrets are possible."""
    field, values = Field(5), tapes([5] * (t - 1))
    for held in combinations(range(4), t):
        seen: Counter[bytes] = Counter()
        for secret in range(5):
            secrets = np.full(len(values), secret, np.uint32)
            shares = share(secrets, 4, t, field=field, rng=FieldTapes(values, axis=1))
            seen.update(set(law(shares[list(held)].T)))
        assert set(seen.values()) == {1}
        assert len(lagrange(tuple(i + 1 for i in held), field)) == t


@pytest.mark.parametrize("twin", [Topless, Monic])
@pytest.mark.parametrize("t", [2, 3])
def test_biased_coefficients_are_caught(twin: Kind, t: int) -> None:
    for of_secrets in laws(twin, 5, 4, t).values():
        assert any(one != of_secrets[0] for one in of_secrets)


def test_one_coefficient_for_all_powers_is_caught() -> None:
    caught = [
        held
        for held, of_secrets in laws(Reused, 5, 4, 3).items()
        if any(one != of_secrets[0] for one in of_secrets)
    ]
    # Holders 1 and 3, 1 + 1^2 = 3 + 3^2 modulo 5, see one value twice; every other pair sees more.
    assert caught == [held for held in combinations(range(4), 2) if held != (0, 2)]


def test_two_secrets_have_polynomials_of_their_own() -> None:
    """Shares of two secrets, held by one party, are jointly uniform."""
    values = tapes([5] * 2)
    for pair in ((0, 0), (1, 3), (4, 4)):
        secrets = np.tile(np.array(pair, np.uint32), (len(values), 1))

        class Rows(TapeRng):
            def uniform(
                self, bound: int, shape: Shape = (), dtype: DTypeLike = np.uint64
            ) -> NDArray[Any]:
                assert shape == (1, 2 * len(values))
                return values.reshape(1, -1).astype(dtype)

        shares = share(secrets, 4, 2, field=Field(5), rng=Rows(values))
        for row in shares:
            one = law(row)
            assert len(one) == 25
            assert len(set(one.values())) == 1
