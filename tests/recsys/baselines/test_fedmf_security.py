"""What FedMF's server sees: messages of one form for everybody, that no key of its own opens.

That a ciphertext hides its plaintext is Paillier's assumption. What is ours to get wrong is here:
who holds the key, what is sent for whom, and coins that are missing, repeated or seeded. Each check
has a twin that it must catch.
"""

from collections.abc import Iterator
from itertools import pairwise
from math import prod

import numpy as np
from gmpy2 import mpz

from mpc.core.rng import SYSTEM_RNG, Rng
from mpc.paillier.ciphertext import vector_from_bytes, vector_to_bytes
from mpc.paillier.encrypt import Encryptor, Textbook
from mpc.paillier.keys import PrivateKey, PublicKey
from recsys.baselines.fedmf import FedMFLearner
from tests.mpc.paillier.stored_keys import private_key
from tests.recsys.baselines.encrypted import BITS, encrypted_sum, learner, opened, uploads


def ciphertexts(made: FedMFLearner, data: bytes) -> list[int]:
    """The elements of Z_(n^2) in a message, which anybody may read."""
    public = private_key(BITS).public
    of = encrypted_sum(made)
    count = of._packing.plaintexts(public, of._plan.layout.size)
    return [int(each.value) for each in vector_from_bytes(data, public, count)]


def one_form(sent: list[bytes]) -> bool:
    """Whether all messages have one length."""
    return len({len(data) for data in sent}) == 1


def test_views_have_one_form_whatever_a_user_rated() -> None:
    """One message of one size from each member, whether she rated ten items or twenty."""
    made = learner()
    members = made._cohorts[0]
    rated = np.bincount(made._train.users, minlength=80)[members]
    assert rated.min() < 13
    assert rated.max() > 20
    sent = uploads(made, members)
    assert len(sent) == members.size
    assert one_form(sent)


def test_a_twin_that_sends_rated_items_alone_shows_how_many() -> None:
    made = learner()
    of = encrypted_sum(made)
    gradients, _ = made.devices.gradients(made._cohorts[0])
    grid, _ = of._encode(gradients, 0)
    sent = []
    for start, end in pairwise(grid.starts):
        rated = of._packing.encrypt(grid.rows[start:end].reshape(-1), of._encryptor)
        sent.append(vector_to_bytes(rated.ciphertexts))
    assert not one_form(sent)


def everything_in(holder: object) -> Iterator[object]:
    """All objects of ours that can be reached from ``holder``."""
    waiting, seen = [holder], set()
    while waiting:
        one = waiting.pop()
        if id(one) in seen:
            continue
        seen.add(id(one))
        yield one
        slots = (slot for cls in type(one).__mro__ for slot in getattr(cls, "__slots__", ()))
        names = [*getattr(one, "__dict__", {}), *slots]
        waiting += [getattr(one, name) for name in names if hasattr(one, name)]
        if isinstance(one, tuple | list):
            waiting += one


def test_the_server_holds_no_private_key() -> None:
    made = learner()
    uploads(made, made._cohorts[0][:2])
    server = encrypted_sum(made)._server
    held = list(everything_in(server))
    assert any(isinstance(one, PublicKey) for one in held)
    assert not any(isinstance(one, PrivateKey) for one in held)


def test_a_server_with_the_private_key_is_caught() -> None:
    server = encrypted_sum(learner())._server
    server._encryptor = _Holding(private_key(BITS))
    assert any(isinstance(one, PrivateKey) for one in everything_in(server))


class _Holding(Textbook):
    __slots__ = ("_private",)

    def __init__(self, private: PrivateKey) -> None:
        super().__init__(private.public)
        self._private = private


# Coins: who knows n reads m off (1 + m n) r^n where r^n is 1, and m - m' where it is repeated.


def bare(values: list[int], n: int) -> list[int]:
    """Plaintexts of those ciphertexts that have no random factor."""
    return [(value - 1) // n for value in values if value % n == 1]


def repeated(values: list[int], n: int) -> list[int]:
    """Differences of plaintexts of those pairs that share their random factor."""
    found = []
    for at, one in enumerate(values):
        for other in values[:at]:
            quotient = one * pow(other, -1, n * n) % (n * n)
            if quotient % n == 1:
                found.append((quotient - 1) // n)
    return found


def view(made: FedMFLearner, members: int = 4) -> list[int]:
    """All ciphertexts that the server receives in two rounds with the same gradients."""
    chosen = made._cohorts[0][:members]
    return [
        value
        for round_ in (0, 1)
        for data in uploads(made, chosen, round_)
        for value in ciphertexts(made, data)
    ]


def test_nothing_is_read_off_the_view_by_missing_or_repeated_coins() -> None:
    made, n = learner(), int(private_key(BITS).public.n)
    values = view(made)
    assert len(values) > 8
    assert bare(values, n) == []
    assert repeated(values, n) == []


class _Fixed(Encryptor):
    """Draws its residue once, or takes 1 for it."""

    __slots__ = ("_residue",)

    def __init__(self, public: PublicKey, residue: mpz) -> None:
        super().__init__(public)
        self._residue = residue

    def residues(self, count: int, *, rng: Rng = SYSTEM_RNG) -> list[mpz]:
        return [self._residue] * count


def test_a_twin_without_coins_is_read_in_full() -> None:
    made, public = learner(), private_key(BITS).public
    encrypted_sum(made)._encryptor = _Fixed(public, mpz(1))
    (data,) = uploads(made, made._cohorts[0][:1])
    values = ciphertexts(made, data)
    plaintexts = [public.signed(mpz(m)) for m in bare(values, int(public.n))]
    of = encrypted_sum(made)
    read = of._packing.unpack(public, plaintexts, of._plan.layout.size, of._packing.max_value)
    assert np.array_equal(read, opened(made, data))
    assert read.any()


def test_a_twin_that_repeats_its_coins_is_read_by_differences() -> None:
    made, public = learner(), private_key(BITS).public
    (residue,) = Textbook(public).residues(1)
    encrypted_sum(made)._encryptor = _Fixed(public, residue)
    values = view(made)
    assert bare(values, int(public.n)) == []
    assert len(repeated(values, int(public.n))) == len(values) * (len(values) - 1) // 2


def test_a_seed_decides_none_of_the_coins() -> None:
    """Two runs of one seed have the same gradients, and share not a single ciphertext."""
    first, second = (view(learner(seed=5), 2) for _ in range(2))
    n = int(private_key(BITS).public.n)
    assert len(first) == len(second)
    assert not set(first) & set(second)
    assert repeated(first + second, n) == []


def test_the_sum_that_users_receive_is_fresh() -> None:
    """It is not the product of the uploads, which who saw them would recognise."""
    made = learner()
    sent = uploads(made, made._cohorts[0][:3])
    server = encrypted_sum(made)._server
    for data in sent:
        server.add(data)
    total = ciphertexts(made, server.total())
    n_squared = int(private_key(BITS).public.n) ** 2
    columns = zip(*(ciphertexts(made, data) for data in sent), strict=True)
    products = [prod(column) % n_squared for column in columns]
    assert len(products) == len(total)
    assert not set(total) & set(products)
