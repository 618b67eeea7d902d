"""What workers are asked to do by tests; apart, because a worker loads what it is asked for."""

import os
import signal
from pathlib import Path
from typing import Any

from recsys.errors import DivergenceError
from recsys.prirec_chunks import prirec_round

MARKER = "PRIVREC_TEST_MARKER"
"""Names the file that says whether ``prirec_round_that_dies`` has killed a worker yet."""


class Empty:
    """Nothing is shared."""

    def probe(self) -> bytes:
        return b""


class Odd:
    """What no two processes agree on."""

    def probe(self) -> bytes:
        return str(os.getpid()).encode()


def echo(shared: object, current: int, chunk: int) -> tuple[int, int]:
    """The chunk, and what is current."""
    return chunk, current


def process(shared: object, current: None, chunk: int) -> int:
    """Where a chunk is done."""
    return os.getpid()


def refuses(shared: object, current: None, chunk: int) -> int:
    """Every chunk from the third on diverges."""
    if chunk >= 2:
        raise DivergenceError(f"chunk {chunk}", epoch=chunk, remedy="none")
    return chunk


def prirec_round_that_dies(shared: Any, v: Any, chunk: Any) -> Any:
    """A chunk of the second epoch, over which the first worker that comes to one is killed."""
    marker = Path(os.environ[MARKER])
    if chunk.epoch == 1 and not marker.exists():
        marker.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return prirec_round(shared, v, chunk)


def prirec_round_that_kills(shared: Any, v: Any, chunk: Any) -> Any:
    """A chunk of the second epoch, over which every worker is killed."""
    if chunk.epoch == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    return prirec_round(shared, v, chunk)
