"""Items in files: each is handed out once, also after a crash, and to everybody in step."""

import signal
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mpc.additive import reconstruct, share
from mpc.beaver import multiply
from mpc.core.errors import AbortError, ParameterError, PeerError, StateError
from mpc.core.prg import Prg
from mpc.core.ring import Ring
from mpc.party_run import PartyRun
from mpc.programs import Opening, Seats
from mpc.supply import Item, LocalDealer, MatrixProduct, Product, Truncation, deal
from mpc.supply_files import FileSupply, StockWriter, in_step, write_stock
from tests.mpc.party_runs import SESSION, exchange, runs
from tests.support.faults import flips, truncations

RING = Ring(32)
ITEM = Product((3,))
ITEMS: list[Item] = [ITEM, Truncation((2,), 4), ITEM, MatrixProduct((2, 2), (2,)), ITEM]


def folders(root: Path, n: int = 3) -> list[Path]:
    made = [root / f"party-{party}" for party in range(n)]
    for folder in made:
        folder.mkdir()
    return made


def dealt(root: Path, items: list[Item], n: int = 3) -> list[Path]:
    made = folders(root, n)
    write_stock(made, items, RING, SESSION, rng=Prg(bytes(32)))
    return made


def test_files_hold_byte_for_byte_what_is_dealt(tmp_path: Path) -> None:
    supplies = [FileSupply(folder) for folder in dealt(tmp_path, ITEMS)]
    stream = Prg(bytes(32))
    for item in ITEMS:
        expected = deal(item, 3, RING, [stream] * 3)
        for party, supply in enumerate(supplies):
            own, mine = supply.take(item), expected.of(party)
            pairs = zip((*own.free, *own.bound), (*mine.free, *mine.bound), strict=True)
            assert all(np.array_equal(a, b) and a.flags.writeable for a, b in pairs)


def test_parties_multiply_with_items_from_their_folders(tmp_path: Path) -> None:
    x, y = (share(RING.reduce(numbers), 3, RING) for numbers in ([1, 2, 3], [-4, 5, 6]))
    supplies = [FileSupply(folder) for folder in dealt(tmp_path, [ITEM])]
    parties = runs(lambda p, supply: multiply(x[p : p + 1], y[p : p + 1], supply, RING), supplies)
    exchange(parties)
    rows = np.concatenate([run.result for run in parties])
    assert RING.signed(reconstruct(rows, RING)).tolist() == [-4, 10, 18]


def test_what_is_used_is_gone_for_every_object_and_from_the_disk(tmp_path: Path) -> None:
    folder = dealt(tmp_path, ITEMS)[0]
    first, second = FileSupply(folder), FileSupply(folder)
    taken = [supply.take(ITEM).free[0].tobytes() for supply in (first, second, first)]
    assert len(set(taken)) == 3
    assert first.left(ITEM) == second.left(ITEM) == 0
    for supply in (first, second, FileSupply(folder)):
        with pytest.raises(StateError, match="all 3 are used up"):
            supply.take(ITEM)
    items = [path for path in folder.rglob("*") if path.parent != folder]
    assert len(items) == len(ITEMS) - 3


def test_items_of_another_kind_or_size_are_refused(tmp_path: Path) -> None:
    supply = FileSupply(dealt(tmp_path, ITEMS)[0])
    for item in (Product((4,)), Truncation((2,), 5), Product((3, 1))):
        with pytest.raises(StateError, match="without items of this kind"):
            supply.take(item)
        with pytest.raises(StateError, match="without items of this kind"):
            supply.left(item)
    assert supply.left(ITEM) == 3


def test_the_folder_is_private(tmp_path: Path) -> None:
    for path in dealt(tmp_path, ITEMS)[0].rglob("*"):
        assert not stat.S_IMODE(path.stat().st_mode) & (stat.S_IRWXG | stat.S_IRWXO)


# Crashes. A process that is killed at its n-th call of something that touches the disk: the three
# of a claim (flush of the new file, rename, flush of the folder), then the removal of the item,
# then the use. ``used`` gets a line, on disk, for each item that masked something.
VICTIM = """
import os, signal, sys
from pathlib import Path
from mpc.core.errors import StateError
from mpc.supply import Product
from mpc.supply_files import FileSupply

folder, fatal = Path(sys.argv[1]), int(sys.argv[2])
calls = 0

def lethal(function):
    def call(*args, **keywords):
        global calls
        calls += 1
        if calls == fatal:
            os.kill(os.getpid(), signal.SIGKILL)
        return function(*args, **keywords)
    return call

used = (folder / "../used").open("ab", buffering=0)
supply, item = FileSupply(folder), Product((3,))
os.fsync, Path.replace, Path.unlink = lethal(os.fsync), lethal(Path.replace), lethal(Path.unlink)
write = lethal(used.write)
take = lambda: supply.take(item).free[0].tobytes()
look = lambda: min(folder.glob("*/*")).read_bytes()
use = lambda data: write(data.hex().encode() + b"\\n")
for _ in range(3):
    try:
        ORDER
    except StateError:
        break
"""
CALLS = 5


def killed_and_run_again(root: Path, fatal: int, order: str) -> list[str]:
    """The items used by a run that dies at call ``fatal`` and by one after it."""
    folder = dealt(root, [ITEM] * 3)[1]
    program = VICTIM.replace("ORDER", order)
    for call, code in ((fatal, -signal.SIGKILL), (0, 0)):
        command = [sys.executable, "-c", program, str(folder), str(call)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == code, done.stderr
    return (root / "used").read_text().split()


@pytest.mark.parametrize("fatal", range(1, CALLS + 3))
def test_kill_9_at_any_point_and_no_item_serves_twice(tmp_path: Path, fatal: int) -> None:
    used = killed_and_run_again(tmp_path, fatal, "use(take())")
    assert len(used) == len(set(used))
    # Up to the rename the claim never happened; after it, the item is lost unless it was used.
    lost = 0 if fatal % CALLS in (1, 2) else 1
    assert len(used) == 3 - lost


def test_a_claim_that_is_written_after_the_use_is_caught(tmp_path: Path) -> None:
    used = killed_and_run_again(tmp_path, 2, "use(look()); take()")
    assert len(used) > len(set(used))


def test_a_dealer_who_is_killed_leaves_a_folder_that_nobody_opens(tmp_path: Path) -> None:
    folder = folders(tmp_path, 1)[0]
    writer = StockWriter(folder, Seats(3, 0), RING, SESSION)
    writer.add(ITEM, LocalDealer(3, RING).take(ITEM).of(0))
    with pytest.raises(StateError, match="no complete stock"):
        FileSupply(folder)
    with pytest.raises(StateError, match="is not empty"):
        StockWriter(folder, Seats(3, 0), RING, SESSION)
    writer.close()
    FileSupply(folder).take(ITEM)
    for call in (writer.close, lambda: writer.add(ITEM, LocalDealer(3, RING).take(ITEM).of(0))):
        with pytest.raises(StateError, match="is closed"):
            call()


# Damage.
def item_files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.parent != folder and path.is_file())


def test_every_damaged_item_is_refused_and_lost(tmp_path: Path) -> None:
    folder = dealt(tmp_path, [ITEM] * 4)[0]
    first, second, third, _ = item_files(folder)
    good = first.read_bytes()
    supply = FileSupply(folder)
    first.write_bytes(good[:-1])
    with pytest.raises(StateError, match="is damaged"):
        supply.take(ITEM)
    second.write_bytes(good)  # undamaged, and the wrong one
    with pytest.raises(StateError, match="holds another item"):
        supply.take(ITEM)
    third.unlink()
    with pytest.raises(StateError, match="is missing"):
        supply.take(ITEM)
    supply.take(ITEM)


def test_every_flipped_bit_of_the_terms_is_found(tmp_path: Path) -> None:
    folder = dealt(tmp_path, [ITEM])[0]
    good = (folder / "stock").read_bytes()
    for bad in [*truncations(good), *flips(good), good + b"\0"]:
        (folder / "stock").write_bytes(bad)
        with pytest.raises(StateError, match="is damaged"):
            FileSupply(folder)
    (folder / "stock").write_bytes(good)
    assert FileSupply(folder).left(ITEM) == 1


def test_a_stock_without_its_counters_is_refused(tmp_path: Path) -> None:
    folder = dealt(tmp_path, [ITEM])[0]
    (folder / "used").unlink()
    with pytest.raises(StateError, match="are missing"):
        FileSupply(folder)


def test_an_item_of_another_party_is_refused(tmp_path: Path) -> None:
    mine, other, _ = dealt(tmp_path, [ITEM])
    item_files(mine)[0].write_bytes(item_files(other)[0].read_bytes())
    with pytest.raises(StateError, match="holds another item"):
        FileSupply(mine).take(ITEM)


@pytest.mark.parametrize(
    ("make", "error"),
    [
        (lambda root: StockWriter(root / "none", Seats(3, 0), RING, SESSION), ParameterError),
        (lambda root: StockWriter(root, Seats(3), RING, SESSION), ParameterError),
        (lambda root: StockWriter(root, Seats(3, 0), RING, bytes(15)), ParameterError),
        (lambda root: write_stock([root], [], RING, SESSION), ParameterError),
        (lambda root: FileSupply(root / "none"), StateError),
    ],
)
def test_wrong_folders_and_parties_are_refused(
    tmp_path: Path, make: Callable[[Path], Any], error: type[Exception]
) -> None:
    with pytest.raises(error):
        make(tmp_path)
    assert list(tmp_path.iterdir()) == []


# In step.
def test_after_a_crash_all_parties_go_on_with_the_same_items(tmp_path: Path) -> None:
    supplies = [FileSupply(folder) for folder in dealt(tmp_path, ITEMS)]
    supplies[0].take(ITEM)
    supplies[2].take(ITEM)
    supplies[2].take(ITEM)
    supplies[1].take(Truncation((2,), 4))
    exchange([PartyRun(in_step(supply), supply.seats, SESSION) for supply in supplies])
    assert [supply.left(ITEM) for supply in supplies] == [1, 1, 1]
    assert [supply.left(Truncation((2,), 4)) for supply in supplies] == [0, 0, 0]
    taken = [supply.take(ITEM) for supply in supplies]
    a, b, c = (
        RING.sum(np.concatenate(rows), axis=0)
        for rows in zip(*((*own.free, *own.bound) for own in taken), strict=True)
    )
    assert np.array_equal(RING.mul(a, b), c)


def test_a_peer_with_another_stock_is_found_out(tmp_path: Path) -> None:
    supply = FileSupply(dealt(tmp_path, [ITEM], n=2)[0])
    run = PartyRun(in_step(supply), Seats(2, 0), SESSION)
    with pytest.raises(PeerError, match="bytes came where"):
        run.receive(Opening.make(SESSION, 0, 1, bytes(16)))
    with pytest.raises(AbortError, match="not of the same dealing"):
        run.receive(Opening.make(SESSION, 0, 1, bytes(24)))
    assert supply.left(ITEM) == 1


def test_a_peer_can_at_most_make_us_give_up_what_there_is(tmp_path: Path) -> None:
    supply = FileSupply(dealt(tmp_path, [ITEM], n=2)[0])
    run = PartyRun(in_step(supply), Seats(2, 0), SESSION)
    run.receive(Opening.make(SESSION, 0, 1, SESSION + b"\xff" * 8))
    assert supply.left(ITEM) == 0
