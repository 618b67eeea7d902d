"""A user's memo on disk: what it answers, and what it refuses when files are lost or damaged."""

import copy
import pickle
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from ldp.memo import MemoStore, memo_coins
from ldp.randomized_response import RandomizedResponse
from mpc.core.errors import ParameterError, StateError
from mpc.core.prg import Prg
from mpc.core.rng import Rng
from tests.support.faults import append, flip_bit, truncations

MECHANISM = RandomizedResponse.from_epsilon(1.0)
QUESTIONS = np.arange(64, dtype=np.uint32)
TRUTH = np.arange(64) % 3 == 0


class Keys(Rng):
    """Gives one stated memo key."""

    def __init__(self, key: bytes) -> None:
        self._key = key

    def fill(self, out: NDArray[Any]) -> None:
        out[...] = np.frombuffer(self._key, dtype=np.uint8)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "memo"


def test_answers_stay_whatever_the_true_bits_become(folder: Path) -> None:
    store = MemoStore.create(folder)
    first = store.answer(MECHANISM, "visited", QUESTIONS, TRUTH)
    assert first.shape == TRUTH.shape
    assert first.dtype == np.bool_
    for x in (TRUTH, ~TRUTH, np.zeros(64, np.bool_)):
        assert np.array_equal(store.answer(MECHANISM, "visited", QUESTIONS, x), first)
        assert np.array_equal(
            MemoStore.open(folder).answer(MECHANISM, "visited", QUESTIONS, x), first
        )
    order = np.array([5, 63, 0])
    some = store.answer(MECHANISM, "visited", QUESTIONS[order], ~TRUTH[order])
    assert np.array_equal(some, first[order])


def test_the_store_is_the_kernel_at_batch_1(tmp_path: Path) -> None:
    keys = Prg(b"k" * 32).words((5, 32), np.uint8)
    x = Prg(b"x" * 32).words((5, 64), np.uint8) < 40
    batch = MECHANISM.perturb_with(x, memo_coins(keys, "visited", QUESTIONS))
    for user in range(5):
        store = MemoStore.create(tmp_path / f"{user}", rng=Keys(keys[user].tobytes()))
        assert np.array_equal(store.answer(MECHANISM, "visited", QUESTIONS, x[user]), batch[user])
    names = [b"cafe", "caf\u00e9".encode(), b""]
    by_name = memo_coins(keys[:1], "visited", names)
    store = MemoStore.open(tmp_path / "0")
    told = store.answer(MECHANISM, "visited", names, x[0, :3])
    assert np.array_equal(told, MECHANISM.perturb_with(x[:1, :3], by_name)[0])


def test_families_and_questions_are_answered_apart(folder: Path) -> None:
    store = MemoStore.create(folder)
    visited = store.answer(MECHANISM, "visited", QUESTIONS, TRUTH)
    liked = store.answer(MECHANISM, "liked", QUESTIONS, TRUTH)
    later = store.answer(MECHANISM, "visited", QUESTIONS + 64, TRUTH)
    # Equal answers to 64 questions with coins of their own: below (.73^2 + .27^2)^64 = 1e-14.
    assert not np.array_equal(visited, liked)
    assert not np.array_equal(visited, later)
    both = store.answer(MECHANISM, "visited", np.arange(128), np.zeros(128, np.bool_))
    assert np.array_equal(both, np.concatenate([visited, later]))


def test_epsilon_is_spent_once_for_each_question(folder: Path) -> None:
    store = MemoStore.create(folder)
    assert store.spent() == 0
    for _ in range(3):
        store.answer(MECHANISM, "visited", QUESTIONS[:3], TRUTH[:3])
    assert store.spent() == 3.0
    store.answer(RandomizedResponse.from_epsilon(0.5), "liked", QUESTIONS[:2], TRUTH[:2])
    assert store.spent() == 4.0


def test_another_epsilon_for_the_same_question_is_a_second_release(folder: Path) -> None:
    store = MemoStore.create(folder)
    first = store.answer(MECHANISM, "visited", QUESTIONS[:2], TRUTH[:2])
    other = RandomizedResponse.from_epsilon(2.0)
    with pytest.raises(StateError, match="another epsilon"):
        store.answer(other, "visited", QUESTIONS[1:4], TRUTH[1:4])
    assert store.spent() == 2.0  # the two new questions were not answered either
    assert np.array_equal(store.answer(MECHANISM, "visited", QUESTIONS[:2], ~TRUTH[:2]), first)


def test_no_questions_have_no_answers(folder: Path) -> None:
    store = MemoStore.create(folder)
    assert store.answer(MECHANISM, "visited", [], np.zeros(0, np.bool_)).shape == (0,)
    assert store.spent() == 0


def test_bad_questions_and_bits_record_nothing(folder: Path) -> None:
    store = MemoStore.create(folder)
    with pytest.raises(ParameterError, match="twice"):
        store.answer(MECHANISM, "visited", np.array([1, 2, 1]), TRUTH[:3])
    with pytest.raises(ParameterError, match="coins must be"):
        store.answer(MECHANISM, "visited", QUESTIONS, TRUTH[:3])
    with pytest.raises(ParameterError, match="bool"):
        store.answer(MECHANISM, "visited", QUESTIONS, TRUTH.astype(np.int64))
    with pytest.raises(ParameterError, match="family"):
        store.answer(MECHANISM, "", QUESTIONS, TRUTH)
    assert store.spent() == 0


def answered(folder: Path) -> NDArray[np.bool_]:
    return MemoStore.create(folder).answer(MECHANISM, "visited", QUESTIONS, TRUTH)


def test_a_lost_key_is_refused_and_never_redrawn(folder: Path) -> None:
    answered(folder)
    (folder / "key").unlink()
    for attempt in (MemoStore.open, MemoStore.create):
        with pytest.raises(StateError, match=r"key of the memo .* is lost"):
            attempt(folder)
    assert not (folder / "key").exists()


def test_a_key_that_is_lost_before_any_answer_may_be_drawn_anew(folder: Path) -> None:
    MemoStore.create(folder)
    (folder / "key").unlink()
    store = MemoStore.create(folder)
    store.answer(MECHANISM, "visited", QUESTIONS, TRUTH)
    assert store.spent() == 64.0


def test_a_damaged_key_is_refused(folder: Path) -> None:
    """A bit of every byte flipped in turn, every truncation, and a byte behind the end."""
    first = answered(folder)
    key = folder / "key"
    good = key.read_bytes()
    flipped = (flip_bit(good, 8 * place + place % 8) for place in range(len(good)))
    for bad in (*flipped, *truncations(good), append(good)):
        key.write_bytes(bad)
        with pytest.raises(StateError, match=r"key of the memo .* is damaged"):
            MemoStore.open(folder)
    with pytest.raises(StateError, match="holds a memo already"):
        MemoStore.create(folder)
    key.write_bytes(good)
    again = MemoStore.open(folder).answer(MECHANISM, "visited", QUESTIONS, ~TRUTH)
    assert np.array_equal(again, first)


def test_lost_answers_are_refused_unless_they_are_given_up_on_purpose(folder: Path) -> None:
    first = answered(folder)
    with pytest.raises(StateError, match="holds answers"):
        MemoStore.restore(folder)
    (folder / "answers.sqlite").unlink()
    with pytest.raises(StateError, match=r"answers of the memo .* are lost"):
        MemoStore.open(folder)
    with pytest.raises(StateError, match="holds a memo already"):
        MemoStore.create(folder)
    (folder / "answers.sqlite").unlink()
    store = MemoStore.restore(folder)
    # The key alone gives the same answers while the true bits are the same.
    assert np.array_equal(store.answer(MECHANISM, "visited", QUESTIONS, TRUTH), first)
    assert np.array_equal(store.answer(MECHANISM, "visited", QUESTIONS, ~TRUTH), first)


@pytest.mark.parametrize("damage", [b"", b"not a database" * 100, None])
def test_damaged_answers_are_refused(folder: Path, damage: bytes | None) -> None:
    answered(folder)
    store = MemoStore.open(folder)
    file = folder / "answers.sqlite"
    data = file.read_bytes()
    file.write_bytes(data[: len(data) // 2] if damage is None else damage)
    with pytest.raises(StateError, match=r"answers of the memo"):
        MemoStore.open(folder)
    with pytest.raises(StateError, match=r"answers of the memo"):
        store.answer(MECHANISM, "visited", QUESTIONS, TRUTH)


def test_a_place_without_a_memo_is_refused(tmp_path: Path) -> None:
    for attempt in (MemoStore.open, MemoStore.restore):
        with pytest.raises(StateError, match="no memo in"):
            attempt(tmp_path / "nowhere")
    with pytest.raises(ParameterError, match="does not exist"):
        MemoStore.create(tmp_path / "missing" / "memo")


def test_paths_of_any_spelling_are_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("plain", "with space", "per%20cent?mode=ro#x"):
        MemoStore.create(name).answer(MECHANISM, "visited", QUESTIONS, TRUTH)
        assert MemoStore.open(tmp_path / name).spent() == 64.0


def test_a_copied_folder_is_the_same_memo(folder: Path, tmp_path: Path) -> None:
    first = answered(folder)
    shutil.copytree(folder, tmp_path / "copy")
    again = MemoStore.open(tmp_path / "copy").answer(MECHANISM, "visited", QUESTIONS, ~TRUTH)
    assert np.array_equal(again, first)


def test_files_are_private(folder: Path) -> None:
    answered(folder)
    assert folder.stat().st_mode & 0o777 == 0o700
    assert {path.name for path in folder.iterdir()} == {"key", "answers.sqlite"}
    assert all(path.stat().st_mode & 0o777 == 0o600 for path in folder.iterdir())


def test_the_key_is_in_no_repr_pickle_or_copy(folder: Path) -> None:
    key = bytes(range(100, 132))
    store = MemoStore.create(folder, rng=Keys(key))
    assert repr(store) == f"MemoStore({str(folder)!r}, <key hidden>)"
    for attempt in (pickle.dumps, copy.copy):
        with pytest.raises(TypeError, match="holds a key"):
            attempt(store)
    (folder / "key").write_bytes(b"privrec memo key 1\n" + key + bytes(32))
    with pytest.raises(StateError) as caught:
        MemoStore.open(folder)
    assert key.hex() not in str(caught.value)
    assert repr(key) not in repr(caught.value)
