"""A client with a process for each message: restarted, killed, put back, asked twice.

The processes are real ones, and so are the kills: between the mark of a step, the answer and the
state that follows it, at every call that touches the disk.
"""

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from secagg.full.announcement import Announcement
from secagg.full.history import History
from secagg.full.messages import (
    SHARE_BYTES,
    AdvertiseKeys,
    ConsistencySignature,
    MaskedInput,
    RoundMessage,
    SharedKeys,
    Step,
    UnmaskShares,
)
from secagg.full.params import RoundParams, Variant
from secagg.watermark import FileWatermark
from tests.secagg.full.device import REFUSED
from tests.secagg.full.forgeries import HONEST, ME, request
from tests.secagg.full.replicas import new_client, new_server
from tests.secagg.full.turns import turns
from tests.secagg.full.world import CLIENTS, VARIANTS, Driven, inputs, params, total

ROOT = Path(__file__).parents[3]
ANSWER: dict[Step, type[RoundMessage]] = {
    Step.ADVERTISE_KEYS: AdvertiseKeys,
    Step.SHARE_KEYS: SharedKeys,
    Step.MASKED_INPUT: MaskedInput,
    Step.CONSISTENCY_CHECK: ConsistencySignature,
    Step.UNMASKING: UnmaskShares,
}


class Device:
    """The folder of one client, and its processes."""

    def __init__(self, folder: Path, agreed: RoundParams, client: int, x: NDArray[Any]) -> None:
        self.folder = folder
        (folder / "announcement").write_bytes(Announcement.of(agreed).to_bytes())
        (folder / "client").write_text(str(client))
        (folder / "x").write_bytes(x.tobytes())

    def ask(self, question: RoundMessage | None, fatal: int = 0, kind: str = "history") -> int:
        """The exit code of a process that is asked; what it has answered lies in ``answer``."""
        (self.folder / "answer").unlink(missing_ok=True)
        (self.folder / "kind").write_text("" if question is None else type(question).__name__)
        (self.folder / "question").write_bytes(b"" if question is None else question.to_bytes())
        program = [sys.executable, "-m", "tests.secagg.full.device"]
        done = subprocess.run(
            [*program, str(self.folder), str(fatal), kind],
            capture_output=True,
            text=True,
            check=False,
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )
        assert done.returncode in (0, REFUSED, -signal.SIGKILL), done.stderr
        assert not done.stderr
        return done.returncode

    @property
    def answer(self) -> bytes | None:
        path = self.folder / "answer"
        return path.read_bytes() if path.exists() else None


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_client_with_a_process_for_each_message_is_in_the_sum(
    tmp_path: Path, variant: Variant
) -> None:
    agreed = params(variant=variant)
    x, server = inputs(agreed), new_server(agreed)
    FileWatermark.create(tmp_path / "marks")
    device = Device(tmp_path, agreed, ME, x[ME])
    clients = {u: new_client(agreed, u) for u in CLIENTS if u != ME}
    for turn in turns(agreed):
        assert device.ask(None if turn.ask is None else turn.ask(server, ME)) == 0
        assert device.answer is not None
        turn.receive(server, agreed.decode(ANSWER[turn.step], device.answer))
        for u, client in clients.items():
            question = None if turn.ask is None else turn.ask(server, u)
            turn.receive(server, turn.answer(client, question, x[u]))
        result = turn.close(server)
    assert np.array_equal(result, total(agreed, x, CLIENTS))


def before_the_last_step(folder: Path) -> tuple[Device, Driven]:
    """A client that has masked its input and lies in its folder; its owner may be asked."""
    history = History(FileWatermark.create(folder / "marks"))
    world = Driven(HONEST, history=history).before(Step.UNMASKING)
    (folder / "state").write_bytes(world.client.suspend())
    return Device(folder, HONEST, ME, world.x[ME]), world


def asked_twice(folder: Path, fatal: int, kind: str) -> tuple[list[bytes], int]:
    """All answers of a client that is asked for everybody, then for all but one.

    The first process dies at the call ``fatal``; the state is what was there before it. Also the
    second one\'s exit code.
    """
    device, world = before_the_last_step(folder)
    state, answers = (folder / "state").read_bytes(), list[bytes]()
    for survivors, dies in ((CLIENTS, fatal), (CLIENTS[:4], 0)):
        (folder / "state").write_bytes(state)  # put back, as if nothing had been written
        code = device.ask(request(world, *survivors), dies, kind)
        if device.answer is not None:
            answers.append(UnmaskShares.from_bytes(device.answer).shares)
    return answers, code


def test_a_client_that_is_put_back_after_its_answer_gives_no_other(tmp_path: Path) -> None:
    answers, code = asked_twice(tmp_path, 0, "history")
    assert code == REFUSED
    assert len(answers) == 1


def test_a_twin_that_marks_no_steps_gives_both_shares_of_a_peer(tmp_path: Path) -> None:
    answers, code = asked_twice(tmp_path, 0, "stepless")
    assert code == 0
    first, second = answers
    last = slice(4 * SHARE_BYTES, 5 * SHARE_BYTES)
    assert first[: last.start] == second[: last.start]
    assert first[last] != second[last]  # the seed\'s share, then the key\'s


@pytest.mark.parametrize("fatal", range(1, 7))
def test_kill_9_at_any_point_and_nobody_answers_twice(tmp_path: Path, fatal: int) -> None:
    """The mark takes the calls 1 to 3 (flush, rename, flush), the answer 4 to 6.

    A process that dies before the mark is in its place has not begun: the next one answers. After
    it no other one does; the answer may be lost, never doubled.
    """
    answers, code = asked_twice(tmp_path, fatal, "history")
    marked = fatal > 2
    assert code == (REFUSED if marked else 0)
    assert len(answers) == (0 if marked and fatal < 6 else 1)
