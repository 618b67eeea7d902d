"""Ten million ratings in less than 2 GB: nothing on the way is dense or a list of strings."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

ROWS = 10_000_000
USERS = 70_000

PROGRAM = """
import sys
from recsys.data.rating_files import load_ratings
from recsys.peak_memory import peak_memory
before = peak_memory()
data = load_ratings(sys.argv[1])
after = peak_memory()
print(len(data.triples), data.n_users, data.n_items, data.low, data.high, after, after - before)
"""


def write(path: Path, rows: int) -> None:
    """As MovieLens 10M looks: by user, her items in no order, half stars, seconds."""
    coins = np.random.default_rng(0)
    with path.open("wb") as file:
        for first in range(0, rows, 100_000):
            row = np.arange(first, min(first + 100_000, rows))
            users, items = row * USERS // rows + 1, row * 7_919 % 10_681 + 1
            stars = coins.integers(1, 11, row.size) / 2
            times = coins.integers(800_000_000, 1_200_000_000, row.size)
            columns = (users.tolist(), items.tolist(), stars.tolist(), times.tolist())
            file.writelines(
                f"{u}::{i}::{s:g}::{t}\n".encode() for u, i, s, t in zip(*columns, strict=True)
            )


@pytest.mark.deep
def test_ten_million_ratings_take_less_than_two_gigabytes(tmp_path: Path) -> None:
    path = tmp_path / "ratings.dat"
    write(path, ROWS)
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(path)], capture_output=True, text=True, check=True
    )
    path.unlink()  # a quarter of a gigabyte
    rows, users, items, low, high, peak, grown = (float(word) for word in done.stdout.split())
    assert (rows, users, items, low, high) == (ROWS, USERS, 10_681, 0.5, 5.0)
    assert peak < 2e9
    assert 16 * ROWS < grown < 100 * ROWS, "bytes a rating, of which 16 stay"
