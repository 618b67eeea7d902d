"""One round of a peer: warm up, time its call, check its result, print the line of JSON."""

import gc
import json
import time
from collections.abc import Callable
from typing import TypeVar

LEAST_SECONDS = 0.05
"""Shortest time that a round measures, as on our side."""

_Result = TypeVar("_Result")


def one_round(
    call: Callable[[], _Result],
    *,
    operations: int,
    check: Callable[[_Result], bool],
    warm_up: Callable[[], object] | None = None,
) -> None:
    """Print {"seconds": per operation, "ok": whether ``check`` takes the last result}.

    operations: operations in one call.  warm_up: a smaller call of the same kind, where one whole
    call would cost too long; it compiles, loads and fills caches, and is not timed.
    """
    (call if warm_up is None else warm_up)()
    gc.collect()
    gc.disable()  # as on our side
    spent, calls = 0.0, 0
    while spent < LEAST_SECONDS:
        start = time.perf_counter()
        result = call()
        spent += time.perf_counter() - start
        calls += 1
    gc.enable()
    print(json.dumps({"seconds": spent / (calls * operations), "ok": bool(check(result))}))
