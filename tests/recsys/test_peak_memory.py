"""Peak memory is that of the process, not of whoever started it."""

import subprocess
import sys

import numpy as np
import pytest

from recsys import peak_memory as module
from recsys.peak_memory import peak_memory

MEGABYTE = 1_000_000
PROGRAM = "from recsys.peak_memory import peak_memory; print(peak_memory())"


def test_it_grows_with_what_the_process_has() -> None:
    before = peak_memory()
    held = np.ones(before + 100 * MEGABYTE, dtype=np.uint8)
    assert before + 100 * MEGABYTE < peak_memory() < 3 * before + 200 * MEGABYTE
    assert held[-1] == 1


def test_a_new_process_has_nothing_of_its_parent() -> None:
    held = np.ones(300 * MEGABYTE, dtype=np.uint8)
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True
    )
    assert MEGABYTE < int(done.stdout) < 200 * MEGABYTE
    assert held[-1] == 1


def test_without_proc_it_asks_the_system(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "Path", lambda path: _Missing())
    assert peak_memory() > MEGABYTE


class _Missing:
    def read_text(self, **how: str) -> str:
        raise FileNotFoundError
