"""A budget on disk: exact sums, and a refusal for every file that may have forgotten something."""

import copy
import os
import pickle
import shutil
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ldp.accounting import AbstractBudget, Budget, compose
from ldp.durable_budget import DurableBudget, _Record
from ldp.randomized_response import RandomizedResponse
from mpc.core.errors import BudgetError, ParameterError, StateError
from tests.support.faults import append, flips, truncations

COIN = RandomizedResponse.from_epsilon(1.0)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "private" / "budget"


def in_memory(_: Path, total: float) -> AbstractBudget:
    return Budget(total)


@pytest.fixture(params=[in_memory, DurableBudget.create])
def make(request: pytest.FixtureRequest, path: Path) -> Callable[[float], AbstractBudget]:
    return lambda total: request.param(path, total)


def test_o09_the_second_request_raises_and_returns_nothing(
    make: Callable[[float], AbstractBudget],
) -> None:
    budget = make(1.0)
    first = budget.perturb(COIN, np.array([True]))
    assert first.shape == (1,)
    second = None
    with pytest.raises(BudgetError, match=r"remaining 0\.0 of 1\.0"):
        second = budget.perturb(COIN, np.array([True]))
    assert second is None
    assert (budget.spent, budget.remaining) == (1.0, 0.0)


def test_both_budgets_keep_the_same_rules(make: Callable[[float], AbstractBudget]) -> None:
    budget = make(compose([0.1] * 3))
    budget.spend(0.1, releases=2)
    assert budget.spent == compose([0.1] * 2)
    with pytest.raises(BudgetError):
        budget.spend(0.1, releases=2)
    budget.spend(0.0)
    budget.spend(0.1)
    assert 0 <= budget.remaining < 1e-16  # the total was rounded up
    assert budget.perturb(COIN, np.zeros(0, dtype=np.bool_)).size == 0
    with pytest.raises(BudgetError):
        budget.perturb(COIN, np.zeros(1, dtype=np.bool_))
    for bad in (-1.0, float("nan"), float("inf"), "1", True):
        with pytest.raises(ParameterError, match="epsilon"):
            budget.spend(bad)  # type: ignore[arg-type]
    assert budget.spent == compose([0.1] * 3)


def test_what_is_spent_outlives_the_process(path: Path) -> None:
    DurableBudget.create(path, 1.0).spend(0.25)
    again = DurableBudget(path, 1.0)
    assert (again.spent, again.remaining) == (0.25, 0.75)
    again.spend(0.75)
    with pytest.raises(BudgetError):
        DurableBudget(path, 1.0).spend(5e-324)


def test_the_sums_on_disk_are_exact(path: Path) -> None:
    """In doubles 1.0 - 2^-53 + 2^-60 is 1.0; and three times the double 0.1 is above 0.3."""
    budget = DurableBudget.create(path, 1.0)
    budget.spend(1.0 - 2.0**-53)
    for _ in range(128):
        DurableBudget(path, 1.0).spend(2.0**-60)
    with pytest.raises(BudgetError):
        budget.spend(2.0**-60)
    assert b"\nspent 1/1\n" in path.read_bytes()
    other = DurableBudget.create(path.with_name("other"), 0.3)
    with pytest.raises(BudgetError):
        other.spend(0.1, releases=3)
    assert b"\nspent 0/1\n" in other._path.read_bytes()


@given(st.lists(st.floats(0, 1e300), max_size=5), st.floats(0, 1.7e308))
@settings(deadline=None, max_examples=25)
def test_a_file_gives_back_every_sum_of_doubles(
    tmp_path_factory: pytest.TempPathFactory, losses: list[float], total: float
) -> None:
    path = tmp_path_factory.mktemp("sums") / "budget"
    budget, spent = DurableBudget.create(path, total), Fraction(0)
    for epsilon in losses:
        if spent + Fraction(epsilon) <= Fraction(total):
            budget.spend(epsilon)
            spent += Fraction(epsilon)
        else:
            with pytest.raises(BudgetError):
                budget.spend(epsilon)
    assert DurableBudget(path, total)._state() == (Fraction(total), spent)


def test_files_and_folder_are_private(path: Path) -> None:
    DurableBudget.create(path, 1.0).spend(0.5)
    assert path.parent.stat().st_mode & 0o777 == 0o700
    files = sorted(path.parent.iterdir())
    assert [file.name for file in files] == ["budget", "budget.mark"]
    assert all(file.stat().st_mode & 0o777 == 0o600 for file in files)


def test_what_others_may_read_or_write_is_refused(path: Path) -> None:
    budget = DurableBudget.create(path, 1.0)
    for file, loose, strict in (
        (path, 0o644, 0o600),
        (path.with_name("budget.mark"), 0o620, 0o600),
        (path.parent, 0o755, 0o700),
    ):
        file.chmod(loose)
        with pytest.raises(StateError, match=rf"open to other users.*chmod {strict:o}"):
            budget.spend(0.1)
        with pytest.raises(StateError, match="open to other users"):
            DurableBudget(path, 1.0)
        file.chmod(strict)
    path.parent.chmod(0o750)
    with pytest.raises(StateError, match="open to other users"):
        DurableBudget.create(path.with_name("second"), 1.0)
    path.parent.chmod(0o700)
    assert budget.spent == 0


def test_a_budget_is_made_once(path: Path) -> None:
    DurableBudget.create(path, 1.0).spend(1.0)
    for total in (1.0, 100.0):
        with pytest.raises(StateError, match=r"exists.*open the budget"):
            DurableBudget.create(path, total)
    path.unlink()
    with pytest.raises(StateError, match="exists"):  # its mark does
        DurableBudget.create(path, 1.0)
    with pytest.raises(ParameterError, match="does not exist"):
        DurableBudget.create(path.parent / "no" / "such" / "budget", 1.0)


@pytest.mark.parametrize("total", [-1, float("nan"), float("inf"), "1", True, None])
def test_a_bad_total_makes_nothing(path: Path, total: float) -> None:
    with pytest.raises(ParameterError, match="epsilon"):
        DurableBudget.create(path, total)
    assert not path.parent.exists()


@pytest.mark.parametrize("total", [0.5, 2.0, 1.0 + 2**-52])
def test_a_budget_is_opened_with_the_total_that_it_was_made_for(path: Path, total: float) -> None:
    DurableBudget.create(path, 1.0)
    with pytest.raises(StateError, match=r"total of 1\.0, not of"):
        DurableBudget(path, total)
    DurableBudget(path, 1)


def test_a_missing_file_is_refused_not_begun_anew(path: Path) -> None:
    for _ in range(2):
        with pytest.raises(StateError, match="cannot be opened"):
            DurableBudget(path, 1.0)
        assert not path.parent.exists()
    budget = DurableBudget.create(path, 1.0)
    budget.spend(0.5)
    kept = path.read_bytes()
    path.unlink()
    for use in (
        lambda: budget.spend(0.1),
        lambda: budget.remaining,
        lambda: DurableBudget(path, 1.0),
    ):
        with pytest.raises(StateError, match="is missing"):
            use()
    assert not path.exists()
    path.write_bytes(kept)
    path.chmod(0o600)
    path.with_name("budget.mark").unlink()
    with pytest.raises(StateError, match=r"budget\.mark is missing"):
        DurableBudget(path, 1.0)


def test_a_file_that_goes_back_is_refused_by_a_new_process_too(path: Path) -> None:
    """The mark stays ahead; a folder that goes back as a whole is seen by who had it open."""
    budget = DurableBudget.create(path, 1.0)
    before = shutil.copytree(path.parent, path.parent.with_name("backup"))
    budget.spend(0.25)
    shutil.copy(before / path.name, path)
    for use in (lambda: budget.spend(0.1), lambda: budget.spent, lambda: DurableBudget(path, 1.0)):
        with pytest.raises(StateError, match="went back"):
            use()
    shutil.copy(before / "budget.mark", path.with_name("budget.mark"))
    with pytest.raises(StateError, match="went back"):
        budget.spend(0.1)


def test_another_budget_in_its_place_is_refused(path: Path) -> None:
    budget = DurableBudget.create(path, 1.0)
    budget.spend(1.0)
    fresh = path.parent.with_name("fresh") / "budget"
    DurableBudget.create(fresh, 1.0)
    shutil.copy(fresh, path)
    for use in (lambda: budget.spend(0.1), lambda: DurableBudget(path, 1.0)):
        with pytest.raises(StateError, match="replaced by another"):
            use()
    shutil.copy(fresh.with_name("budget.mark"), path.with_name("budget.mark"))
    with pytest.raises(StateError, match="replaced by another"):
        budget.spend(0.1)


def test_every_damaged_file_is_refused(path: Path) -> None:
    budget = DurableBudget.create(path, 2.0)
    budget.spend(0.1)
    good = path.read_bytes()
    longer = [append(good), append(good, b"\n"), good.replace(b"total 2/1", b"total 4/2")]
    damaged = [*truncations(good), *flips(good), *longer]
    assert [bad for bad in damaged if _Record.from_bytes(bad) is not None] == []
    for file in (path, path.with_name("budget.mark")):
        for bad in [*damaged[::150], *longer]:
            file.write_bytes(bad)
            with pytest.raises(StateError, match="is damaged"):
                budget.spend(0.1)
        file.write_bytes(good)
    budget.spend(0.1)
    assert budget.spent == compose([0.1] * 2)


def test_a_file_with_a_second_name_is_refused(path: Path) -> None:
    """Each name would have a lock of its own, and a rename would make two budgets of one."""
    budget = DurableBudget.create(path, 1.0)
    second = path.parent.with_name("second")
    second.mkdir(mode=0o700)
    os.link(path, second / "budget")
    for use in (lambda: budget.spend(0.1), lambda: DurableBudget(second / "budget", 1.0)):
        with pytest.raises(StateError, match="has a second name"):
            use()
    (second / "budget").unlink()
    (second / "budget").symlink_to(path)
    with pytest.raises(StateError, match="cannot be opened"):
        DurableBudget(second / "budget", 1.0)
    with pytest.raises(StateError, match="exists"):
        DurableBudget.create(second / "budget", 1.0)
    path.with_name("budget.mark").unlink()
    path.unlink()
    path.mkdir(mode=0o700)
    with pytest.raises(StateError, match="is no file"):
        DurableBudget(path, 1.0)


def test_a_link_in_the_folder_s_name_leads_to_the_same_lock(path: Path) -> None:
    first = DurableBudget.create(path, 1.0)
    alias = path.parent.with_name("alias")
    alias.symlink_to(path.parent)
    second = DurableBudget(alias / "budget", 1.0)
    second.spend(0.75)
    with pytest.raises(BudgetError):
        first.spend(0.5)
    assert first._path == second._path


def test_a_number_that_a_file_could_not_give_back_is_not_written(path: Path) -> None:
    budget = DurableBudget.create(path, 1.0)
    with pytest.raises(ParameterError, match="at most 3300 bits"):
        budget.spend(Fraction(1, 3**3000))  # type: ignore[arg-type]
    budget.spend(Fraction(1, 3))  # type: ignore[arg-type]
    assert budget._state()[1] == Fraction(1, 3)


def test_repr_and_copies_hold_no_secret_and_see_the_same_file(path: Path) -> None:
    budget = DurableBudget.create(path, 1.0)
    assert repr(budget) == f"DurableBudget({str(path)!r})"
    for other in (copy.deepcopy(budget), pickle.loads(pickle.dumps(budget))):
        other.spend(0.25)
    assert budget.spent == 0.5
