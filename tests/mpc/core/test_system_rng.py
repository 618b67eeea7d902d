"""SYSTEM_RNG: nothing ever gives the same bytes twice - fork, spawn, thread, copy, new key."""

import copy
import os
import pickle
import subprocess
import sys
import textwrap
import threading
from pathlib import Path

import numpy as np
import pytest

from mpc.core.errors import ParameterError
from mpc.core.prg import Prg
from mpc.core.rng import SYSTEM_RNG, SystemRng
from tests.support.stats import ALARM, byte_counts, chi_square_p_value

# Each script draws before it forks, so that there is a state to inherit, and prints one line of
# 32 bytes from each process. ``draw`` is SYSTEM_RNG's, or a twin's that never looks who it is.
FORKS = """
import os, sys
from mpc.core.prg import Prg
from mpc.core.rng import SYSTEM_RNG

draw = {draw}
draw(32)

def say():
    os.write(1, draw(32).hex().encode() + b"\\n")

def fork(body):
    child = {fork}()
    if child == 0:
        body()
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0

{before}
for _ in range(2):
    fork(lambda: (say(), fork(say), say()))
    say()
"""
OURS, TWIN = "SYSTEM_RNG.bytes", "Prg(os.urandom(32)).bytes"
# A fork by another library: Python's own hooks do not run, but the process id differs.
FOREIGN = "__import__('ctypes').CDLL(None).fork"
# A child that sees its parent's process id, as the first process of a new container can.
SAME_ID = "os.getpid = lambda: 1"


def lines(script: str, folder: Path) -> list[str]:
    path = folder / "script.py"
    path.write_text(textwrap.dedent(script), encoding="utf-8")
    root = Path(__file__).parents[3]
    done = subprocess.run(
        [sys.executable, str(path)],
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
        env={**os.environ, "PYTHONPATH": str(root)},
    )
    return done.stdout.split()


@pytest.mark.parametrize(
    ("fork", "before"),
    [("os.fork", ""), ("os.fork", SAME_ID), (FOREIGN, "")],
    ids=["fork", "fork with the same process id", "fork of another library"],
)
def test_forked_children_and_parents_share_no_bytes(fork: str, before: str, tmp_path: Path) -> None:
    drawn = lines(FORKS.format(draw=OURS, fork=fork, before=before), tmp_path)
    assert len(drawn) == 8
    assert len(set(drawn)) == 8


def test_the_fork_test_sees_a_generator_that_forks_with_its_state(tmp_path: Path) -> None:
    drawn = lines(FORKS.format(draw=TWIN, fork="os.fork", before=""), tmp_path)
    assert len(drawn) == 8
    assert len(set(drawn)) < 8


def test_spawned_processes_share_no_bytes(tmp_path: Path) -> None:
    """The parent's generator is sent to the children, which also have one of their own."""
    drawn = lines(
        """
        import multiprocessing
        from mpc.core.rng import SYSTEM_RNG

        def draw(rng):
            return [rng.bytes(32).hex(), SYSTEM_RNG.bytes(32).hex()]

        if __name__ == "__main__":
            SYSTEM_RNG.bytes(32)
            with multiprocessing.get_context("spawn").Pool(2) as pool:
                for pair in [*pool.map(draw, [SYSTEM_RNG] * 4, chunksize=1), draw(SYSTEM_RNG)]:
                    print(*pair)
        """,
        tmp_path,
    )
    assert len(drawn) == 10
    assert len(set(drawn)) == 10


def blocks_of_threads(draw: "list[SystemRng] | list[Prg]", rounds: int = 20) -> list[bytes]:
    """The 16-byte blocks that threads draw at the same time, each from its entry of ``draw``."""
    start = threading.Barrier(len(draw))
    found: list[list[bytes]] = [[] for _ in draw]

    def work(index: int) -> None:
        start.wait()
        for size in range(1, rounds + 1):
            data = draw[index].bytes(16 * 97 * size)
            found[index] += [data[i : i + 16] for i in range(0, len(data), 16)]

    threads = [threading.Thread(target=work, args=(i,)) for i in range(len(draw))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return [block for blocks in found for block in blocks]


def test_threads_that_draw_at_once_share_no_block() -> None:
    """8 threads, 163,000 blocks: two uniform blocks are equal with probability below 1e-27."""
    rng = SystemRng()
    blocks = blocks_of_threads([rng] * 8)
    assert len(blocks) == 8 * 97 * 210
    assert len(set(blocks)) == len(blocks)
    twin = blocks_of_threads([Prg(bytes(32)) for _ in range(8)])
    assert len(set(twin)) < len(twin)


def test_copies_and_unpickled_ones_start_their_own_stream() -> None:
    rng = SystemRng(rekey_bytes=1000)
    rng.bytes(16)
    copies = [
        pickle.loads(pickle.dumps(rng)),
        pickle.loads(pickle.dumps(rng)),
        copy.copy(rng),
        copy.deepcopy(rng),
        rng,
    ]
    assert all(isinstance(one, SystemRng) for one in copies)
    assert len({one.bytes(32) for one in copies}) == len(copies)


class Keys:
    """Stands in for the operating system's generator and remembers the keys it gave."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.given: list[bytes] = []
        monkeypatch.setattr(os, "urandom", self.urandom)

    def urandom(self, size: int) -> bytes:
        self.given.append(Prg(len(self.given).to_bytes(32, "big")).bytes(size))
        return self.given[-1]


def test_a_key_serves_for_its_limit_and_no_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    keys = Keys(monkeypatch)
    rng = SystemRng(rekey_bytes=64)
    drawn = [rng.bytes(24) for _ in range(5)]
    assert len(keys.given) == 3
    first, second, third = (Prg(key).bytes(48) for key in keys.given)
    assert b"".join(drawn) == first + second + third[:24]


def test_a_draw_above_the_limit_takes_one_key_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    keys = Keys(monkeypatch)
    rng = SystemRng(rekey_bytes=64)
    assert rng.bytes(1) + rng.bytes(1000) + rng.bytes(1) == b"".join(
        Prg(key).bytes(size) for key, size in zip(keys.given, (1, 1000, 1), strict=True)
    )
    assert len(keys.given) == 3


def test_each_thread_asks_for_one_key(monkeypatch: pytest.MonkeyPatch) -> None:
    keys = Keys(monkeypatch)
    blocks_of_threads([SystemRng()] * 5, rounds=3)
    assert len(keys.given) == 5


def test_a_key_serves_a_gibibyte_by_default(monkeypatch: pytest.MonkeyPatch) -> None:
    keys = Keys(monkeypatch)
    rng, piece = SystemRng(), np.empty(1 << 20, dtype=np.uint8)
    monkeypatch.setattr("mpc.core.rng.Keystream.fill", lambda self, out: None)
    for _ in range(1024):
        rng.fill(piece)
    assert len(keys.given) == 1
    rng.fill(piece[:1])
    assert len(keys.given) == 2


def test_bytes_fit_the_uniform_law() -> None:
    """10^6 bytes, fixed keys, alarm 1e-9; the twin never gives the byte 255."""
    counts = byte_counts(Prg(bytes(range(32))).bytes(10**6))
    assert chi_square_p_value(counts) > ALARM
    twin = np.bincount(Prg(bytes(range(32))).uniform(255, 10**6).astype(np.int64), minlength=256)
    assert chi_square_p_value(twin) < ALARM


@pytest.mark.parametrize("limit", [0, -1, 2.0, True, None])
def test_a_limit_that_is_none_is_refused(limit: int) -> None:
    with pytest.raises(ParameterError, match="rekey_bytes must"):
        SystemRng(limit)


def test_the_default_generator_cannot_be_seeded() -> None:
    assert type(SYSTEM_RNG) is SystemRng
    assert not hasattr(SYSTEM_RNG, "seed")
    with pytest.raises(TypeError):
        SystemRng(seed=1)  # type: ignore[call-arg]
