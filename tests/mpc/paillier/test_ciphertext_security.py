"""What leaves: only fresh ciphertexts have a wire form, and no message shows a secret."""

from collections.abc import Callable

import pytest
from gmpy2 import mpz

from mpc.core.errors import ParameterError, StateError
from mpc.paillier.ciphertext import Ciphertext, total, vector_to_bytes
from mpc.paillier.encrypt import Djn, Encryptor, Owner, Textbook
from tests.mpc.paillier.stored_keys import encryptor, private_key

PUBLIC = private_key(1024).public

ARITHMETIC: dict[str, Callable[[Ciphertext], Ciphertext]] = {
    "sum": lambda c: c + c,
    "sum with a fresh one": lambda c: encryptor(1024).encrypt(1) + c,
    "plain sum": lambda c: c + 1,
    "sum with 0": lambda c: c + 0,
    "sum of 0": lambda c: 0 + c,
    "difference": lambda c: c - encryptor(1024).encrypt(1),
    "plain difference": lambda c: c - 1,
    "difference from a plain number": lambda c: 1 - c,
    "negation": lambda c: -c,
    "product": lambda c: c * 3,
    "product with 1": lambda c: c * 1,
    "product with 0": lambda c: c * 0,
    "total": lambda c: total([c, c]),
    "total of one": lambda c: total([c]),
    "built-in sum": lambda c: sum([c, c], start=c),
    "constructor": lambda c: Ciphertext(c.value, c.public),
    "wire": lambda c: Ciphertext.from_bytes(c.to_bytes(), c.public),
    "chain": lambda c: (c.rerandomised(encryptor(1024)) * 2).rerandomised(encryptor(1024)) + 1,
}


@pytest.mark.parametrize("name", ARITHMETIC)
def test_what_was_computed_or_received_is_not_fresh_and_has_no_wire_form(name: str) -> None:
    result = ARITHMETIC[name](encryptor(1024).encrypt(5))
    assert not result.is_fresh
    with pytest.raises(StateError, match="operands") as refused:
        result.to_bytes()
    assert "rerandomised" in refused.value.remedy
    again = result.rerandomised(encryptor(1024))
    assert again.is_fresh
    assert again.value != result.value
    decoded = Ciphertext.from_bytes(again.to_bytes(), PUBLIC)
    assert private_key(1024).decrypt(decoded) == private_key(1024).decrypt(result)


@pytest.mark.parametrize(
    "maker", [Textbook(PUBLIC), Owner(private_key(1024)), encryptor(1024)], ids=repr
)
def test_every_encryptor_gives_fresh_ciphertexts(maker: Encryptor) -> None:
    assert maker.encrypt(1).is_fresh
    assert all(c.is_fresh for c in maker.encrypt_many([1, 2]))
    assert all(c.is_fresh for c in maker.rerandomise_many([maker.encrypt(1) * 2]))
    assert all(c.is_fresh for c in maker.encrypt_array([[1, 2]]).ravel().tolist())


@pytest.mark.parametrize("place", [0, 1, 2])
def test_one_entry_that_is_not_fresh_keeps_the_whole_vector_back(place: int) -> None:
    entries = encryptor(1024).encrypt_many([1, 2, 3])
    entries[place] = entries[place] + 0
    with pytest.raises(StateError, match=f"ciphertext {place}"):
        vector_to_bytes(entries)


def test_rerandomising_multiplies_by_exactly_one_new_residue() -> None:
    djn = Djn(PUBLIC, exponent_bits=56)
    taken: list[mpz] = []

    class Spy:
        public = PUBLIC

        def residues(self, count: int, **coins: object) -> list[mpz]:
            taken.extend(djn.residues(count))
            return taken[-count:]

    computed = encryptor(1024).encrypt(5) * 2
    again = computed.rerandomised(Spy())
    assert len(taken) == 1
    assert again.value == computed.value * taken[0] % PUBLIC.n_squared


def test_refusals_never_quote_a_plaintext() -> None:
    secret = PUBLIC.max_plaintext + 123456789
    ciphertext = encryptor(1024).encrypt(1)
    for call in (
        lambda: encryptor(1024).encrypt(secret),
        lambda: ciphertext + secret,
        lambda: ciphertext - secret,
        lambda: ciphertext * secret,
        lambda: encryptor(1024).encrypt(0.123456789),  # type: ignore[arg-type]
        lambda: ciphertext * 0.123456789,  # type: ignore[operator]
    ):
        with pytest.raises(ParameterError) as refused:
            call()
        text = f"{refused.value!s} {refused.value!r}"
        assert "23456789" not in text
        assert str(secret)[:9] not in text


def test_a_repr_shows_key_and_freshness_only() -> None:
    ciphertext = encryptor(1024).encrypt(7)
    assert repr(ciphertext) == f"Ciphertext({PUBLIC!r}, is_fresh=True)"
    assert str(ciphertext.value)[:9] not in repr(ciphertext)
