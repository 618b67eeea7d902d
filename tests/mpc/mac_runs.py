"""Runs of programs with MACs for tests: what is sent kept, altered, or sent by an attacker."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from mpc.core.errors import ToolkitError
from mpc.core.ring import Ring
from mpc.party_run import PartyRun
from mpc.programs import Opening, Program, Tell

T = TypeVar("T")
Alter = Callable[[int, int, int, bytes], bytes]
"""(step, sender, receiver, payload) to what arrives."""


def honest(step: int, sender: int, receiver: int, payload: bytes) -> bytes:
    return payload


def exchange(
    runs: Sequence[PartyRun[Any]], alter: Alter = honest, attacker: int | None = None
) -> list[BaseException | None]:
    """Drive parties' runs until nothing moves; who aborts sends no more. The errors of each.

    attacker: whose message of a step is asked for last, when those of all others are known.
    """
    errors: list[BaseException | None] = [None] * len(runs)
    order = sorted(range(len(runs)), key=lambda seat: seat == attacker)
    latest = [-1] * len(runs)  # the step of what each has sent last
    while True:
        sent = {seat: runs[seat].outgoing for seat in order}
        moved = False
        for sender, message in sent.items():
            if message is None or message.step == latest[sender]:
                continue
            latest[sender], moved = message.step, True
            for receiver, run in enumerate(runs):
                if receiver == sender or errors[receiver] is not None or run.outgoing is None:
                    continue
                payload = alter(message.step, sender, receiver, message.payload)
                arrived = Opening.make(message.session, message.step, sender, payload)
                try:
                    run.receive(arrived)
                except ToolkitError as error:
                    errors[receiver] = error
                    with suppress(ToolkitError):
                        run.abort()
        if not moved:
            return errors


def corrupted(program: Program[T], alter: Callable[[int, bytes], bytes], ring: Ring) -> Program[T]:
    """An attacker's program, who tells everybody the same, but not what she should.

    alter: (step, payload) to what she sends instead; with it she computes on.
    """
    step, request = 0, next(program)
    while True:
        if isinstance(request, Tell):
            request = replace(request, payloads=(alter(step, request.payloads[0]),))
        else:
            rows = []
            for shares in request.shares:
                data = alter(step, ring.to_bytes(shares))
                rows.append(ring.from_bytes(data, shares.shape))
            request = replace(request, shares=tuple(rows))
        answer = yield request
        step += 1
        try:
            request = program.send(answer)
        except StopIteration as end:
            result: T = end.value
            return result


def watched(program: Program[T], ring: Ring) -> tuple[T | None, list[tuple[Any, ...]]]:
    """A program with all parties present: its result, and what all sent in each step.

    A step is the payloads of a ``Tell`` or the shares of each array of an ``Open``.
    """
    steps: list[tuple[Any, ...]] = []
    try:
        request = next(program)
        while True:
            if isinstance(request, Tell):
                steps.append(request.payloads)
                request = program.send(request.payloads)
            else:
                steps.append(tuple(shares.copy() for shares in request.shares))
                sums = tuple(ring.sum(shares, axis=0) for shares in request.shares)
                request = program.send(sums)
    except StopIteration as end:
        return end.value, steps


def flip(data: bytes, bit: int) -> bytes:
    """One bit of the data flipped, counted from its start."""
    number = int.from_bytes(data, "little") ^ (1 << bit)
    return number.to_bytes(len(data), "little")


def columns(*parts: NDArray[Any]) -> NDArray[np.uint64]:
    """Parts (B, ...) side by side, (B, columns)."""
    return np.concatenate([p.reshape(len(p), -1).astype(np.uint64) for p in parts], axis=1)
