"""Memo coins: the documented function, one value for each user and question, in any order."""

import hashlib
import hmac
from itertools import pairwise

import numpy as np
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from ldp.coins import Questions, coin_blocks, memo_coins, question_blocks
from mpc.core.errors import ParameterError
from mpc.core.prg import Prg
from tests.support.stats import byte_counts, chi_square_p_value

FAMILY = "visited"


def some_keys(count: int) -> NDArray[np.uint8]:
    return Prg(b"memo keys of a simulated crowd..").words((count, 32), np.uint8)


def by_hand(key: bytes, family: str, block: bytes) -> int:
    """The coin from HMAC and one AES block, without our key derivation."""
    info = b"".join(
        len(part).to_bytes(4, "big") + part
        for part in (b"privrec/1", b"memo coins", b"b" + family.encode())
    )
    subkey = hmac.digest(key, info + b"\x01", "sha256")
    encryptor = Cipher(algorithms.AES(subkey), modes.ECB()).encryptor()
    return int.from_bytes(encryptor.update(block)[:8], "little")


def test_coins_are_the_documented_function() -> None:
    keys = some_keys(2)
    for row, key in enumerate(keys):
        for index in (0, 1, 118_597, 2**32 - 1):
            coin = memo_coins(keys, FAMILY, np.array([index]))[row, 0]
            assert coin == by_hand(key.tobytes(), FAMILY, index.to_bytes(16, "little"))
        head = hashlib.sha256(b"a cafe").digest()[:16]
        assert memo_coins(keys, FAMILY, [b"a cafe"])[row, 0] == by_hand(key.tobytes(), FAMILY, head)


@given(st.lists(st.integers(0, 2**32 - 1), max_size=20), st.integers(0, 4))
def test_a_coin_depends_on_its_user_and_question_alone(indices: list[int], users: int) -> None:
    keys, questions = some_keys(users), np.array(indices, dtype=np.int64)
    coins = memo_coins(keys, FAMILY, questions)
    assert coins.shape == (users, len(indices))
    assert coins.dtype == np.uint64
    assert np.array_equal(memo_coins(keys[::-1], FAMILY, questions[::-1]), coins[::-1, ::-1])
    for user in range(users):
        for place in range(len(indices)):
            single = memo_coins(keys[user : user + 1], FAMILY, questions[place : place + 1])
            assert single[0, 0] == coins[user, place]


@pytest.mark.parametrize("questions", [np.arange(70_000, dtype=np.uint32), [b"a", b"b"]])
def test_blocks_are_the_whole_in_pieces(questions: Questions) -> None:
    keys = some_keys(33)
    pieces = list(coin_blocks(keys, FAMILY, questions))
    slices = [users for users, _ in pieces]
    assert slices[0].start == 0
    assert slices[-1].stop == 33
    assert all(before.stop == after.start for before, after in pairwise(slices))
    assert all(coins.nbytes <= 1 << 23 for _, coins in pieces)
    whole = memo_coins(keys, FAMILY, questions)
    assert np.array_equal(np.concatenate([coins for _, coins in pieces]), whole)


def test_no_users_and_no_questions_give_no_coins() -> None:
    assert memo_coins(some_keys(0), FAMILY, np.arange(3)).shape == (0, 3)
    assert memo_coins(some_keys(3), FAMILY, []).shape == (3, 0)
    assert list(coin_blocks(some_keys(0), FAMILY, np.arange(3))) == []


def test_users_families_and_questions_have_coins_of_their_own() -> None:
    keys, questions = some_keys(50), np.arange(1000)
    first, second = (memo_coins(keys, family, questions) for family in (FAMILY, "liked"))
    everything = np.concatenate([first.reshape(-1), second.reshape(-1)])
    # 100,000 ideal 64-bit words have a pair in common with probability below 3e-10.
    assert np.unique(everything).size == everything.size
    assert chi_square_p_value(byte_counts(everything)) > 1e-9


def test_names_are_no_indices() -> None:
    names = question_blocks([bytes([i]) for i in range(4)])
    assert not np.array_equal(names, question_blocks(np.arange(4)))


@pytest.mark.parametrize(
    "questions",
    [
        np.array([-1]),
        np.array([2**32]),
        np.array([0.0]),
        np.array([True]),
        np.zeros((2, 2), np.uint32),
        np.array(3),
        b"one name",
        "one name",
        ["text"],
        [1, 2],
    ],
)
def test_other_questions_are_refused(questions: Questions) -> None:
    with pytest.raises(ParameterError, match="question"):
        memo_coins(some_keys(1), FAMILY, questions)


@pytest.mark.parametrize(
    "keys", [np.zeros(32, np.uint8), np.zeros((1, 31), np.uint8), np.zeros((1, 32), np.int64)]
)
def test_other_keys_are_refused(keys: NDArray[np.uint8]) -> None:
    with pytest.raises(ParameterError, match="keys must be uint8"):
        memo_coins(keys, FAMILY, np.arange(2))
    with pytest.raises(ParameterError, match="keys must be uint8"):
        next(coin_blocks(keys, FAMILY, np.arange(2)))


@pytest.mark.parametrize("family", ["", "two\nlines", "\ud800", b"bytes", None])
def test_a_family_has_a_printable_name(family: str) -> None:
    with pytest.raises(ParameterError, match="family"):
        memo_coins(some_keys(1), family, np.arange(2))
