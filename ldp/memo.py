"""Answers that may be asked for again: the first one stays, and epsilon is spent once.

Source: permanent randomized response of RAPPOR (Erlingsson, Pihur and Korolova, CCS 2014);
    memoization in Ding, Kulkarni and Yekhanin (NIPS 2017).
Model: epsilon-LDP for each question against a collector who asks it any number of times, even if
    the true bit changes in between. The folder is trusted: who reads it reads the true bits.
Leaks: beyond the report, when a question was first answered, and that the user is the same one.
Differs: the sources memoize an answer for each value, so a report may change with the value, and
    tells that it did. Here the key is (user, question): a later true bit is never reported at all.

Coins are a PRF of a 32-byte secret (``ldp.coins``), which is on disk before the first answer can
exist, and each answer is on disk before it is returned. Kill the process at any point: what was
sent before is what is sent again.
"""

import contextlib
import hmac
import os
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Self

import numpy as np
from numpy.typing import NDArray

from ldp.accounting import compose
from ldp.coins import Questions, coin_blocks, memo_coins, memo_words, question_blocks
from ldp.randomized_response import RandomizedResponse
from mpc.core.durable import flush_folder, write_durably
from mpc.core.errors import ParameterError, StateError
from mpc.core.keys import derive
from mpc.core.keystream import KEY_BYTES
from mpc.core.rng import SYSTEM_RNG, Rng

_MAGIC = b"privrec memo key 1\n"
_KEY_FILE, _ANSWERS_FILE = "key", "answers.sqlite"

# One row for each answered question: the primary key is what makes the first answer the only one.
_SCHEMA = """CREATE TABLE IF NOT EXISTS answers (
    family TEXT NOT NULL, question BLOB NOT NULL, keep TEXT NOT NULL,
    report INTEGER NOT NULL CHECK (report IN (0, 1)),
    PRIMARY KEY (family, question)) WITHOUT ROWID"""


class MemoStore:
    """One user's memo in a private folder: her key, and the first answer to each question."""

    __slots__ = ("_folder", "_key")

    def __init__(self, folder: Path, key: bytes) -> None:
        self._folder = folder
        self._key = key

    @classmethod
    def create(cls, path: str | Path, *, rng: Rng = SYSTEM_RNG) -> Self:
        """A new memo in the folder ``path``, made if missing; its key is on disk on return.

        Raises ParameterError if the folder around it is missing, and StateError if ``path`` holds
        a memo, or answers whose key is lost: a second key would answer the same questions with
        fresh coins, and averaging would read the true bits.
        """
        folder = Path(path)
        if not folder.absolute().parent.is_dir():
            raise ParameterError(f"the folder that should hold {folder} does not exist")
        folder.mkdir(mode=0o700, exist_ok=True)
        flush_folder(folder.absolute().parent)  # a key is lost with the folder's name
        _make_answers(folder)
        # The transaction locks out a second process, so only one of them draws a key.
        with _transaction(folder) as answers:
            if (folder / _KEY_FILE).exists():
                raise StateError(
                    f"{folder} holds a memo already", remedy="open it with MemoStore.open"
                )
            if answers.execute("SELECT 1 FROM answers LIMIT 1").fetchone():
                raise _key_unusable(folder, "lost")
            key = rng.bytes(KEY_BYTES)
            write_durably(folder / _KEY_FILE, _MAGIC + key + _check_value(key))
        return cls(folder, key)

    @classmethod
    def open(cls, path: str | Path) -> Self:
        """The memo in the folder ``path``.

        Raises StateError if there is none, or if its key or its answers are lost or damaged.
        Nothing is ever redrawn.
        """
        folder = Path(path)
        key = _read_key(folder)
        if not (folder / _ANSWERS_FILE).exists():
            raise StateError(
                f"the answers of the memo in {folder} are lost",
                remedy="restore the file from a backup, or see MemoStore.restore",
            )
        with _transaction(folder) as answers:
            if answers.execute("PRAGMA quick_check(1)").fetchone() != ("ok",):
                raise StateError(f"the answers of the memo in {folder} are damaged")
            answers.execute("SELECT 1 FROM answers LIMIT 1")  # an error if the table is gone
        return cls(folder, key)

    @classmethod
    def restore(cls, path: str | Path) -> Self:
        """Open a memo of which only the key file is left, with no answers recorded.

        Coins come from the key, so every answer comes out as before where the true bit is as it
        was. Where the bit has changed since, the report flips, and the collector sees that it did.
        Raises StateError if answers are there, or if the key is lost or damaged.
        """
        folder = Path(path)
        if (folder / _ANSWERS_FILE).exists():
            raise StateError(
                f"{folder} holds answers",
                remedy="open it with MemoStore.open, or move a damaged answers file away first",
            )
        key = _read_key(folder)
        _make_answers(folder)
        return cls(folder, key)

    def answer(
        self,
        mechanism: RandomizedResponse,
        family: str,
        questions: Questions,
        x: NDArray[np.bool_],
    ) -> NDArray[np.bool_]:
        """The user's reports: bool, shape (m,); for a question answered before, that answer.

        family: a name for the set of questions.  questions: m distinct indices below 2^32 or names
        as bytes, whose meaning never changes.  x: her true bits, bool (m,).
        On return all answers are on disk.  Raises StateError, and answers nothing, if a question
        was answered by a mechanism with another ``keep``: that would be a second release.
        """
        coins = memo_coins(np.frombuffer(self._key, np.uint8)[np.newaxis], family, questions)[0]
        candidates = mechanism.perturb_with(x, coins).tolist()
        blocks = question_blocks(questions).astype("<u4")
        asked = [(family, block.tobytes()) for block in blocks]
        if len(set(asked)) != len(asked):
            raise ParameterError("a question occurs twice", remedy="ask each question once")
        keep = str(mechanism.keep)
        new = [(*row, keep, int(bit)) for row, bit in zip(asked, candidates, strict=True)]
        with _transaction(self._folder) as answers:
            answers.executemany("INSERT OR IGNORE INTO answers VALUES (?, ?, ?, ?)", new)
            select = "SELECT keep, report FROM answers WHERE family = ? AND question = ?"
            rows = [answers.execute(select, row).fetchone() for row in asked]
            if any(row[0] != keep for row in rows):
                raise StateError(
                    f"a question of {family!r} was answered under another epsilon before",
                    remedy="use the mechanism of the first answer, or ask under a new family",
                )
        return np.array([report for _, report in rows], dtype=np.bool_)

    def words(self, family: str, questions: Questions) -> NDArray[np.uint64]:
        """Uniform words of this user's for what comes before an answer, such as rounding: (m,).

        The same at every call, and independent of the coins of ``answer`` for any family.
        """
        key = np.frombuffer(self._key, np.uint8)
        return memo_words(key[np.newaxis], family, questions).reshape(-1)

    def spent(self) -> float:
        """The user's privacy loss over all recorded answers: basic composition, rounded up."""
        with _transaction(self._folder) as answers:
            rows = answers.execute("SELECT keep, COUNT(*) FROM answers GROUP BY keep").fetchall()
        losses = ([RandomizedResponse(int(keep)).epsilon] * count for keep, count in rows)
        return compose(epsilon for same in losses for epsilon in same)

    def __reduce__(self) -> tuple[object, ...]:
        raise TypeError("a MemoStore holds a key and is not picklable: open it again by its path")

    def __repr__(self) -> str:
        return f"MemoStore({str(self._folder)!r}, <key hidden>)"


def _make_answers(folder: Path) -> None:
    # Made by hand first, because SQLite would make it readable for others.
    os.close(os.open(folder / _ANSWERS_FILE, os.O_RDWR | os.O_CREAT, 0o600))
    with _transaction(folder) as answers:
        answers.execute(_SCHEMA)
    flush_folder(folder)


@contextlib.contextmanager
def _transaction(folder: Path) -> Iterator[sqlite3.Connection]:
    """A write transaction on the answers: durable on normal exit, undone on any other."""
    location = f"{(folder / _ANSWERS_FILE).absolute().as_uri()}?mode=rw"
    try:
        connection = sqlite3.connect(location, uri=True, isolation_level=None, timeout=60)
        with contextlib.closing(connection) as answers:
            answers.execute("PRAGMA synchronous = EXTRA")  # the folder's entry is synced as well
            answers.execute("BEGIN IMMEDIATE")
            yield answers
            answers.execute("COMMIT")
    except sqlite3.Error as error:
        raise StateError(
            f"the answers of the memo in {folder} cannot be used: {error}",
            remedy="nothing was answered; restore the file from a backup if it is damaged",
        ) from error


def _check_value(key: bytes) -> bytes:
    return derive(key, "memo key check")


def _read_key(folder: Path) -> bytes:
    try:
        data = (folder / _KEY_FILE).read_bytes()
    except FileNotFoundError:
        if (folder / _ANSWERS_FILE).exists():
            raise _key_unusable(folder, "lost") from None
        raise StateError(f"no memo in {folder}", remedy="make one with MemoStore.create") from None
    head, key, check = data[: len(_MAGIC)], data[len(_MAGIC) : -KEY_BYTES], data[-KEY_BYTES:]
    if head != _MAGIC or len(key) != KEY_BYTES or not hmac.compare_digest(check, _check_value(key)):
        raise _key_unusable(folder, "damaged")
    return key


def _key_unusable(folder: Path, how: str) -> StateError:
    return StateError(
        f"the key of the memo in {folder} is {how}, and answers may have been given with it",
        remedy="restore the key file from a backup; another key would spend epsilon again",
    )


__all__ = ["MemoStore", "coin_blocks", "memo_coins"]
