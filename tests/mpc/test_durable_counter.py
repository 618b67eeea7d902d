"""Counters on disk: no number is given twice, whatever happens to the process or the file."""

import threading
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mpc.core.errors import ParameterError, StateError
from mpc.durable_counter import DurableCounters
from tests.support.faults import flips, truncations

A, B = b"a", b"b" * 40


def counters(folder: Path) -> DurableCounters:
    return DurableCounters.create(folder / "used", [A, B])


def test_each_name_counts_by_itself_up_to_its_limit(tmp_path: Path) -> None:
    used = counters(tmp_path)
    assert [used.claim(A, 2), used.claim(B, 9), used.claim(A, 2)] == [0, 0, 1]
    with pytest.raises(StateError, match="all 2 are used up"):
        used.claim(A, 2)
    assert used.numbers() == {A: 2, B: 1}
    with pytest.raises(ParameterError, match="no counter of this name"):
        used.claim(b"c", 2)


def test_numbers_are_given_up_forwards_only(tmp_path: Path) -> None:
    used = counters(tmp_path)
    used.give_up(A, 5)
    used.give_up(A, 3)
    assert used.claim(A, 9) == 5
    assert used.numbers() == {A: 6, B: 0}
    with pytest.raises(ParameterError, match="no counter of this name"):
        used.give_up(b"c", 2)


def test_a_reopened_file_and_a_second_object_go_on_where_it_stands(tmp_path: Path) -> None:
    first = counters(tmp_path)
    second = DurableCounters(tmp_path / "used")
    assert [first.claim(A, 9), second.claim(A, 9), first.claim(A, 9)] == [0, 1, 2]
    assert DurableCounters(tmp_path / "used").claim(A, 9) == 3


@settings(max_examples=15)
@given(calls=st.lists(st.tuples(st.sampled_from([A, B]), st.integers(0, 3)), max_size=8))
def test_no_number_is_given_twice(
    tmp_path_factory: pytest.TempPathFactory, calls: list[tuple[bytes, int]]
) -> None:
    used = counters(tmp_path_factory.mktemp("used"))
    given_out = set()
    for name, start in calls:
        if start:
            used.give_up(name, start)
        number = used.claim(name, 100)
        assert (name, number) not in given_out
        assert number >= start
        given_out.add((name, number))


def test_threads_never_get_the_same_number(tmp_path: Path) -> None:
    used = counters(tmp_path)
    numbers: list[int] = []

    def work() -> None:
        numbers.extend(used.claim(A, 100) for _ in range(10))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(numbers) == list(range(40))


def test_a_missing_file_is_refused_not_begun_anew(tmp_path: Path) -> None:
    with pytest.raises(StateError, match="are missing"):
        DurableCounters(tmp_path / "used")
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(ParameterError, match="does not exist"):
        DurableCounters.create(tmp_path / "nowhere" / "used", [A])


def test_creating_over_a_file_is_refused(tmp_path: Path) -> None:
    counters(tmp_path).claim(A, 9)
    with pytest.raises(StateError, match="exist"):
        counters(tmp_path)
    assert DurableCounters(tmp_path / "used").claim(A, 9) == 1


def test_a_file_that_vanishes_or_goes_back_in_use_is_refused(tmp_path: Path) -> None:
    used = counters(tmp_path)
    used.claim(A, 9)
    old = (tmp_path / "used").read_bytes()
    used.claim(A, 9)
    (tmp_path / "used").write_bytes(old)
    for call in (lambda: used.claim(A, 9), used.numbers, lambda: used.give_up(A, 5)):
        with pytest.raises(StateError, match="went back"):
            call()
    (tmp_path / "used").unlink()
    with pytest.raises(StateError, match="are missing"):
        used.claim(A, 9)


def test_every_damaged_file_is_refused(tmp_path: Path) -> None:
    used = counters(tmp_path)
    used.claim(A, 9)
    good = (tmp_path / "used").read_bytes()
    for bad in [*truncations(good), *flips(good), good + b"\0"]:
        (tmp_path / "used").write_bytes(bad)
        with pytest.raises(StateError, match="are damaged"):
            DurableCounters(tmp_path / "used")
    with pytest.raises(StateError, match="are damaged"):
        used.claim(A, 9)
    (tmp_path / "used").write_bytes(good)
    assert used.claim(A, 9) == 1
