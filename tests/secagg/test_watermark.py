"""High-water marks: nothing is granted twice, whatever happens to the process or the file."""

import os
import pickle
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mpc.core.errors import ParameterError, StateError
from secagg.params import Region
from secagg.watermark import FileWatermark, MemoryWatermark, Watermark
from tests.support.faults import flips, truncations

KEY, OTHER = b"k" * 32, b"o" * 32


def in_memory(path: Path) -> Watermark:
    return MemoryWatermark()


def in_file(path: Path) -> Watermark:
    return FileWatermark.create(path / "marks")


@pytest.fixture(params=[in_memory, in_file])
def watermark(request: pytest.FixtureRequest, tmp_path: Path) -> Watermark:
    make: Callable[[Path], Watermark] = request.param
    return make(tmp_path)


def test_claims_move_forward_and_never_back(watermark: Watermark) -> None:
    watermark.claim(KEY, 0, 0, 32)
    watermark.claim(KEY, 0, 64, 96)  # bytes 32 to 64 are given up
    for start, stop in [(64, 96), (32, 64), (0, 32), (80, 112), (0, 128)]:
        with pytest.raises(StateError, match="are spent"):
            watermark.claim(KEY, 0, start, stop)
    watermark.claim(KEY, 0, 96, 112)
    watermark.claim(KEY, 3, 0, 16)
    for epoch, start in [(0, 112), (2, 1024), (3, 0)]:
        with pytest.raises(StateError, match="are spent"):
            watermark.claim(KEY, epoch, start, start + 16)
    watermark.claim(OTHER, 0, 0, 16)  # every key has a mark of its own


def test_a_bad_region_is_refused_and_nothing_is_recorded(watermark: Watermark) -> None:
    for region in [(0, 0, 8), (0, 16, 16), (-1, 0, 16), (0, -16, 16)]:
        with pytest.raises(ParameterError):
            watermark.claim(KEY, *region)
    watermark.claim(KEY, 0, 0, 16)


regions = st.builds(
    lambda epoch, start, blocks: Region(epoch, 16 * start, 16 * (start + blocks)),
    st.integers(0, 2),
    st.integers(0, 6),
    st.integers(1, 4),
)


@given(wanted=st.lists(regions, max_size=12))
def test_granted_regions_never_overlap_whatever_is_asked(wanted: list[Region]) -> None:
    watermark = MemoryWatermark()
    granted: list[Region] = []
    for region in wanted:
        try:
            watermark.claim(KEY, region.epoch, region.start, region.stop)
        except StateError:
            continue
        assert not any(region.overlaps(other) for other in granted)
        granted.append(region)
    assert bool(granted) == bool(wanted)


def test_a_reopened_file_goes_on_where_it_stood(tmp_path: Path) -> None:
    FileWatermark.create(tmp_path / "marks").claim(KEY, 1, 0, 32)
    again = FileWatermark(tmp_path / "marks")
    with pytest.raises(StateError, match="are spent"):
        again.claim(KEY, 1, 16, 48)
    again.claim(KEY, 1, 32, 48)


def test_two_objects_on_one_file_see_each_other_s_claims(tmp_path: Path) -> None:
    first = FileWatermark.create(tmp_path / "marks")
    second = FileWatermark(tmp_path / "marks")
    first.claim(KEY, 0, 0, 16)
    with pytest.raises(StateError, match="are spent"):
        second.claim(KEY, 0, 0, 16)
    second.claim(KEY, 0, 16, 32)
    with pytest.raises(StateError, match="are spent"):
        first.claim(KEY, 0, 16, 32)


def test_threads_never_share_a_region(watermark: Watermark) -> None:
    granted: list[int] = []

    def work() -> None:
        for block in range(20):
            try:
                watermark.claim(KEY, 0, 16 * block, 16 * block + 16)
            except StateError:
                continue
            granted.append(block)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(granted) == len(set(granted)) > 0


def test_a_missing_file_is_refused_not_begun_anew(tmp_path: Path) -> None:
    with pytest.raises(StateError, match="is missing"):
        FileWatermark(tmp_path / "marks")
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(ParameterError, match="does not exist"):
        FileWatermark.create(tmp_path / "nowhere" / "marks")


def test_creating_over_a_file_is_refused(tmp_path: Path) -> None:
    FileWatermark.create(tmp_path / "marks").claim(KEY, 0, 0, 16)
    with pytest.raises(StateError, match="exists"):
        FileWatermark.create(tmp_path / "marks")
    with pytest.raises(StateError, match="are spent"):
        FileWatermark(tmp_path / "marks").claim(KEY, 0, 0, 16)


def test_a_file_that_vanishes_in_use_is_refused(tmp_path: Path) -> None:
    watermark = FileWatermark.create(tmp_path / "marks")
    watermark.claim(KEY, 0, 0, 16)
    (tmp_path / "marks").unlink()
    with pytest.raises(StateError, match="is missing"):
        watermark.claim(KEY, 0, 16, 32)
    assert not (tmp_path / "marks").exists()


def test_a_file_that_goes_back_in_use_is_refused(tmp_path: Path) -> None:
    watermark = FileWatermark.create(tmp_path / "marks")
    watermark.claim(KEY, 0, 0, 16)
    old = (tmp_path / "marks").read_bytes()
    watermark.claim(KEY, 0, 16, 32)
    (tmp_path / "marks").write_bytes(old)
    with pytest.raises(StateError, match="went back"):
        watermark.claim(KEY, 0, 32, 48)


def test_every_damaged_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "marks"
    watermark = FileWatermark.create(path)
    watermark.claim(KEY, 2, 0, 16)
    good = path.read_bytes()
    for bad in [*truncations(good), *flips(good), good + b"\0"]:
        path.write_bytes(bad)
        with pytest.raises(StateError, match="is damaged"):
            FileWatermark(path)
    with pytest.raises(StateError, match="is damaged"):
        watermark.claim(KEY, 2, 16, 32)
    path.write_bytes(good)
    watermark.claim(KEY, 2, 16, 32)


def test_marks_in_memory_are_not_carried_elsewhere() -> None:
    with pytest.raises(TypeError, match="use FileWatermark"):
        pickle.dumps(MemoryWatermark())


# A process that is killed at its n-th call of something that touches the disk: the three of a
# claim (flush of the new file, rename, flush of the folder), then the use. ``used`` gets a line,
# on disk, for each region that masked something.
VICTIM = """
import os, signal, sys
from pathlib import Path
from mpc.core.errors import StateError
from secagg.watermark import FileWatermark

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

used = (folder / "used").open("ab", buffering=0)
watermark = FileWatermark(folder / "marks")
os.fsync, Path.replace, write = lethal(os.fsync), lethal(Path.replace), lethal(used.write)
claim = lambda block: watermark.claim(b"k" * 32, 0, 16 * block, 16 * block + 16)
use = lambda block: write(b"%d\\n" % block)
for block in range(3):
    try:
        ORDER
    except StateError:
        continue
"""


def killed_and_run_again(folder: Path, fatal: int, order: str) -> list[int]:
    """The blocks used by a run that dies at call ``fatal`` and by one after it."""
    FileWatermark.create(folder / "marks")
    program = VICTIM.replace("ORDER", order)
    for call, code in ((fatal, -signal.SIGKILL), (0, 0)):
        command = [sys.executable, "-c", program, str(folder), str(call)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == code, done.stderr
    return [int(line) for line in (folder / "used").read_text().split()]


@pytest.mark.parametrize("fatal", range(1, 6))
def test_kill_9_at_any_point_and_no_region_serves_twice(tmp_path: Path, fatal: int) -> None:
    used = killed_and_run_again(tmp_path, fatal, "claim(block); use(block)")
    assert len(used) == len(set(used))
    # Before the rename the claim never happened; after it, the block is lost unless it was used.
    lost = {(fatal - 1) // 4} if fatal % 4 in (0, 3) else set()
    assert set(used) == {0, 1, 2} - lost


def test_a_mark_that_is_written_after_the_use_is_caught(tmp_path: Path) -> None:
    used = killed_and_run_again(tmp_path, 2, "use(block); claim(block)")
    assert len(used) > len(set(used))


def test_marks_in_memory_are_refused_to_a_forked_process(monkeypatch: pytest.MonkeyPatch) -> None:
    watermark = MemoryWatermark()
    watermark.claim(KEY, 0, 0, 16)
    monkeypatch.setattr(os, "getpid", lambda: -1)
    with pytest.raises(StateError, match="another process"):
        watermark.claim(KEY, 0, 16, 32)
    monkeypatch.undo()
    watermark.claim(KEY, 0, 16, 32)
