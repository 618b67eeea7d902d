"""CrypTen with three parties in three processes, as its ``run_multiprocess`` starts them.

Its converter of ONNX models does not load with today's torch; it is left out here, and with it the
only module that asks for ``onnx``.
"""

import gc
import json
import sys
import time
from collections.abc import Callable
from types import ModuleType
from typing import Any

_converter: Any = ModuleType("crypten.nn.onnx_converter")
_converter.from_onnx = _converter.from_pytorch = _converter.from_tensorflow = None
_converter.TF_AND_TF2ONNX = False
sys.modules[_converter.__name__] = _converter

import crypten  # type: ignore[import-not-found]  # noqa: E402
import crypten.communicator as comm  # type: ignore[import-not-found]  # noqa: E402
import torch  # noqa: E402
from crypten.mpc.context import run_multiprocess  # type: ignore[import-not-found]  # noqa: E402

__all__ = ["PARTIES", "crypten", "one_round"]

PARTIES = 3
CALLS = 3
"""Timed calls in a round; parties that each looked at a clock could disagree on when to stop."""


def one_round(
    prepare: Callable[[], tuple[Callable[[], Any], Callable[[Any, Any], bool]]], *, operations: int
) -> None:
    """Print {"seconds": per operation, "ok": bool} of the calls that all parties make together.

    prepare: run by each party; returns its call, and a check of the last two results. The time is
    that until the last party is done.
    """

    @run_multiprocess(PARTIES)  # type: ignore[untyped-decorator]
    def party() -> tuple[float, bool]:
        torch.set_num_threads(1)  # there are fewer cores than parties
        call, check = prepare()
        result, spent = call(), 0.0
        gc.collect()
        gc.disable()
        for _ in range(CALLS):
            before = result
            comm.get().barrier()
            start = time.perf_counter()
            result = call()
            comm.get().barrier()
            spent += time.perf_counter() - start
        gc.enable()
        return spent / (CALLS * operations), check(before, result)

    parties = party()
    if parties is None:
        raise SystemExit("a party of CrypTen failed")
    seconds = max(spent for spent, _ in parties)
    print(json.dumps({"seconds": seconds, "ok": all(ok for _, ok in parties)}))
