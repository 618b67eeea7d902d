"""The primes appear in no repr, no error and no traceback's text; only named methods give them."""

import traceback
from collections.abc import Callable

import pytest

from mpc.core.errors import ToolkitError
from mpc.paillier.encrypt import Djn, Owner
from mpc.paillier.keys import PrivateKey
from tests.mpc.paillier.stored_keys import encryptor, private_key

KEY = private_key(2048)
P, Q = KEY.primes()


def shown(text: str) -> bool:
    """Whether ``text`` holds the start of a prime in any base that Python code prints."""
    return any(
        part in text
        for prime in (P, Q, P - 1, Q - 1)
        for part in (str(prime)[:12], f"{prime:x}"[:12], f"{prime:X}"[:12])
    )


def test_the_search_finds_a_prime_that_is_shown() -> None:
    assert shown(f"PrivateKey(p={P})")
    assert shown(hex(Q))


@pytest.mark.parametrize(
    "holder",
    [KEY, KEY._half_p, KEY._half_q, Owner(KEY), [KEY], {"key": KEY}],
    ids=lambda holder: type(holder).__name__,
)
def test_no_repr_shows_a_prime(holder: object) -> None:
    assert not shown(repr(holder))
    assert not shown(str(holder))
    assert not shown(f"{holder}")


REFUSALS: list[Callable[[], object]] = [
    lambda: PrivateKey(P, P),
    lambda: PrivateKey(P, Q + 4),
    lambda: PrivateKey(P, 3),
    lambda: PrivateKey(P, Q, small_for_tests=True),
    lambda: PrivateKey(P, float(2)),  # type: ignore[arg-type]
    lambda: PrivateKey.from_bytes(KEY.to_bytes()[:-1]),
    lambda: PrivateKey.from_bytes(KEY.to_bytes() + b"\0"),
    lambda: PrivateKey.from_bytes(KEY.to_bytes()[:-2] + b"\3\1"),
    lambda: PrivateKey.from_bytes(KEY.to_bytes(), small_for_tests=True),
    lambda: KEY.decrypt(encryptor(1024).encrypt(5)),
]


@pytest.mark.parametrize("refusal", REFUSALS)
def test_no_refusal_shows_a_prime(refusal: Callable[[], object]) -> None:
    with pytest.raises(ToolkitError) as refused:
        refusal()
    error: BaseException | None = refused.value
    while error is not None:
        assert not shown(str(error) + repr(error))
        error = error.__cause__ or error.__context__
    assert not shown("".join(traceback.format_exception(refused.value)))


def test_only_the_owner_s_form_holds_the_primes() -> None:
    p = P.to_bytes(128, "big")
    assert p in KEY.to_bytes()
    assert p not in KEY.public.to_bytes()
    assert p not in Owner(KEY).public.to_bytes()


def test_private_keys_are_compared_by_identity_alone() -> None:
    # Whether two are the same is public: their moduli tell. No comparison looks at the primes.
    twin = PrivateKey(P, Q)
    assert twin != KEY
    assert twin.public == KEY.public


def test_an_encryptor_for_others_knows_nothing_of_the_primes() -> None:
    djn = Djn(KEY.public)
    held = [
        djn._table._n,
        *(entry for row in djn._table._rows[:2] for pair in row for entry in pair),
    ]
    assert not {P, Q} & set(held)
