"""Coins that belong to a user and a question: a pseudo-random function of her memo key.

Source: memoization in RAPPOR (Erlingsson, Pihur and Korolova, CCS 2014) and in Ding, Kulkarni and
    Yekhanin (NIPS 2017); a PRF instead of stored coins, so that 32 bytes say it all.
Model: coins look uniform and independent to whoever does not know the key, even if she chooses the
    questions: distinct indices give distinct blocks, and two names with one block take 2^64 work.
Leaks: nothing without the key; whoever holds it knows every coin and reads the true bits.
Error: AES-256 is a permutation, so two blocks under one key never give the same value; among q
    questions that tells the coins from ideal ones with probability below q^2 / 2^129.
"""

import hashlib
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mpc.core.errors import ParameterError
from mpc.core.keys import derive
from mpc.core.keystream import BLOCK_BYTES, KEY_BYTES, BlockPrf

Questions = NDArray[np.integer[Any]] | Sequence[bytes]
"""Indices below 2^32 that never change their meaning, or names as bytes."""

# A block of coins of this size and the bits made from it fit the outer cache.
_COIN_BLOCK_BYTES = 1 << 23


def question_blocks(questions: Questions) -> NDArray[np.uint32]:
    """One 16-byte block for each question, as uint32 of shape (m, 4).

    An index is its own little-endian block; a name is the head of its SHA-256 digest.
    Raises ParameterError for an index outside [0, 2^32) and for names that are not bytes.
    """
    if isinstance(questions, np.ndarray):
        if questions.ndim != 1 or questions.dtype.kind not in "iu":
            raise ParameterError(
                f"questions must be integers of shape (m,), got {questions.dtype} {questions.shape}"
            )
        if questions.size and not (questions.min() >= 0 and questions.max() < 2**32):
            raise ParameterError("a question index lies outside [0, 2^32)")
        blocks = np.zeros((questions.size, 4), dtype=np.uint32)
        blocks[:, 0] = questions
        return blocks
    given: object = questions  # a single name is a sequence too, of integers or of letters
    if isinstance(given, bytes | str) or not all(isinstance(q, bytes) for q in questions):
        raise ParameterError(
            "questions must be an integer array or a sequence of bytes",
            remedy="encode text ids, for example with poi.encode()",
        )
    heads = b"".join(hashlib.sha256(question).digest()[:BLOCK_BYTES] for question in questions)
    return np.frombuffer(heads, dtype="<u4").astype(np.uint32).reshape(-1, 4)


def memo_coins(keys: NDArray[np.uint8], family: str, questions: Questions) -> NDArray[np.uint64]:
    """The coin of every user for every question: uint64 of shape (n_users, m).

    keys: uint8 (n_users, 32), the users' memo keys, uniform and secret, one row each.
    family: a name for the set of questions, not empty; families have independent coins.
    """
    return _user_words(keys, "memo coins", family, questions)


def memo_words(keys: NDArray[np.uint8], family: str, questions: Questions) -> NDArray[np.uint64]:
    """Words like ``memo_coins`` and independent of them, for what is drawn before an answer."""
    return _user_words(keys, "memo words", family, questions)


def _user_words(
    keys: NDArray[np.uint8], purpose: str, family: str, questions: Questions
) -> NDArray[np.uint64]:
    _check(keys, family)
    blocks = question_blocks(questions)
    out = np.empty((keys.shape[0], blocks.shape[0]), dtype=np.uint64)
    for user, key in enumerate(keys):
        # One context for each user; half of each value is enough for a coin.
        prf = BlockPrf(derive(key.tobytes(), purpose, family.encode()))
        out[user] = prf.blocks(blocks)[:, 0]
    return out


def coin_blocks(
    keys: NDArray[np.uint8], family: str, questions: Questions
) -> Iterator[tuple[slice, NDArray[np.uint64]]]:
    """``memo_coins`` a few users at a time, about 8 MiB each: (rows of ``keys``, their coins).

    For populations whose coins would not fit into memory together.
    """
    _check(keys, family)
    rows = max(1, _COIN_BLOCK_BYTES // (8 * max(1, len(questions))))
    for start in range(0, keys.shape[0], rows):
        users = slice(start, min(start + rows, keys.shape[0]))
        yield users, memo_coins(keys[users], family, questions)


def _check(keys: NDArray[np.uint8], family: str) -> None:
    if keys.dtype != np.uint8 or keys.ndim != 2 or keys.shape[1] != KEY_BYTES:
        raise ParameterError(
            f"keys must be uint8 of shape (n_users, {KEY_BYTES}), got {keys.dtype} {keys.shape}"
        )
    if not isinstance(family, str) or not family or not family.isprintable():
        raise ParameterError(f"family must be a printable, non-empty string, got {family!r}")
