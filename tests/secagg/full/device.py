"""A client that gets a process for each message, as a program: ``python -m ... FOLDER FATAL KIND``.

FOLDER has the announcement, the marks, the state (from the second message on), the class of the
question and its bytes, and the input.  The answer is written first, then the state of what has
become of the client.  The process kills itself at its FATAL-th call of something that touches the
disk; 0 for never.  KIND: "history", or "stepless" for the twin that marks no steps.
"""

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from mpc.core.durable import write_durably
from mpc.core.errors import StateError
from secagg.full import messages
from secagg.full.announcement import Announcement
from secagg.full.client import Client, Phase
from secagg.full.history import History
from secagg.full.messages import RoundMessage
from secagg.watermark import FileWatermark
from tests.secagg.full.twins import Stepless
from tests.secagg.full.world import signing

REFUSED = 3
"""The exit code of a process that was asked for what was answered before."""


def ask(client: Client, folder: Path) -> RoundMessage:
    kind = (folder / "kind").read_text()
    if not kind:
        return client.advertise()
    question = getattr(messages, kind).from_bytes((folder / "question").read_bytes())
    x = np.frombuffer((folder / "x").read_bytes(), client.params.ring.dtype)
    answers: dict[str, Callable[[], RoundMessage]] = {
        "Roster": lambda: client.share_keys(question),
        "Delivered": lambda: client.mask(question, x),
        "SurvivorsRequest": lambda: client.sign_survivors(question),
        "UnmaskRequest": lambda: client.unmask(question),
    }
    return answers[kind]()


def lethal(function: Callable[..., Any], fatal: int, calls: list[int]) -> Callable[..., Any]:
    def call(*arguments: Any, **keywords: Any) -> Any:
        calls[0] += 1
        if calls[0] == fatal:
            os.kill(os.getpid(), signal.SIGKILL)
        return function(*arguments, **keywords)

    return call


def main(folder: Path, fatal: int, kind: str) -> int:
    params = Announcement.read((folder / "announcement").read_bytes())
    client = int((folder / "client").read_text())
    history = {"history": History, "stepless": Stepless}[kind](FileWatermark(folder / "marks"))
    more: dict[str, Any] = {"history": history, **signing(params, client)}
    calls, state = [0], folder / "state"
    os.fsync = lethal(os.fsync, fatal, calls)
    Path.replace = lethal(Path.replace, fatal, calls)  # type: ignore[method-assign]
    try:
        if state.exists():
            party = Client.resume(params, state.read_bytes(), **more)
        else:
            party = Client(params, client, **more)
        answer = ask(party, folder)
    except StateError:
        return REFUSED
    write_durably(folder / "answer", answer.to_bytes())
    if party.phase is not Phase.DONE:
        write_durably(state, party.suspend())
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3]))
