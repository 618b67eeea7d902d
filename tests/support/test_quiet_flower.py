"""The means by which tests of Flower see that nothing leaves this machine, and that all ends."""

import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.quiet_flower import QuietFlower

ELSEWHERE = "192.0.2.1"
"""An address of nobody, for documentation (RFC 5737). Nothing is sent to it here."""

DETACHES = """
import subprocess, sys
command = [sys.executable, "-c", "import time; print(1, flush=True); time.sleep(600)"]
child = subprocess.Popen(command, start_new_session=True, stdout=subprocess.PIPE)
child.stdout.readline()
"""

SECONDS = 30.0


def until(condition: Callable[[], object]) -> bool:
    """Whether it comes true in time."""
    deadline = time.monotonic() + SECONDS
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.05)
    return bool(condition())


def run(quiet: QuietFlower, code: str, *options: str) -> None:
    command = [sys.executable, *options, "-c", code]
    subprocess.run(command, env=quiet.environment(), check=True, timeout=SECONDS)


def test_what_python_turns_to_is_written_down(tmp_path: Path) -> None:
    events = [
        ("socket.connect", (ELSEWHERE, 80)),
        ("socket.connect", ("127.0.0.1", 80)),
        ("socket.connect", "/run/some.socket"),
        ("socket.sendto", ("::1", 80)),
        ("socket.sendto", ("2001:db8::1", 53)),
    ]
    looks_up = ["metadata.example", "localhost", b"example.org", None]
    code = "import sys\n" + "".join(f"sys.audit({e!r}, None, {a!r})\n" for e, a in events)
    code += "".join(f"sys.audit('socket.getaddrinfo', {host!r}, 1)\n" for host in looks_up)
    with QuietFlower(tmp_path / "quiet") as quiet:
        run(quiet, code)
    assert [line.split()[:2] for line in quiet.turned_to()] == [
        ["socket.connect", ELSEWHERE],
        ["socket.getaddrinfo", "example.org"],
        ["socket.getaddrinfo", "metadata.example"],
        ["socket.sendto", "2001:db8::1"],
    ]


@pytest.mark.parametrize(
    ("opens", "seen"),
    [
        (f"socket.SOCK_DGRAM); s.connect(({ELSEWHERE!r}, 53))", True),
        ("socket.SOCK_STREAM); s.bind(('0.0.0.0', 0)); s.listen()", True),
        ("socket.SOCK_STREAM); s.bind(('127.0.0.1', 0)); s.listen()", False),
    ],
)
def test_sockets_that_no_hook_sees_are_seen(tmp_path: Path, opens: str, seen: bool) -> None:
    code = f"import socket, time; s = socket.socket(socket.AF_INET, {opens}; print(1, flush=True)"
    with QuietFlower(tmp_path / "quiet") as quiet:
        # An isolated interpreter loads no hook.
        command = [sys.executable, "-I", "-c", f"{code}; time.sleep(600)"]
        process = subprocess.Popen(command, env=quiet.environment(), stdout=subprocess.PIPE)
        assert process.stdout is not None
        with process.stdout:
            process.stdout.readline()
        quiet.look()
    process.wait()
    assert bool(quiet.turned_to()) is seen


def test_what_detaches_itself_is_found_and_ended(tmp_path: Path) -> None:
    with QuietFlower(tmp_path / "quiet") as quiet:
        run(quiet, DETACHES)
        (left,) = quiet.processes()
        assert Path(f"/proc/{left}").exists()
    assert until(lambda: not Path(f"/proc/{left}").exists())
    assert quiet.processes() == {}


def test_a_process_that_writes_over_its_environment_is_found_by_its_parent(tmp_path: Path) -> None:
    child = "import time; print(1, flush=True); time.sleep(600)"
    code = (
        "import subprocess, sys, time\n"
        f"child = subprocess.Popen([sys.executable, '-c', {child!r}], env={{}}, stdout=-1)\n"
        "child.stdout.readline(); print(1, flush=True); time.sleep(600)"
    )
    with QuietFlower(tmp_path / "quiet") as quiet:
        command = [sys.executable, "-c", code]
        process = subprocess.Popen(command, env=quiet.environment(), stdout=subprocess.PIPE)
        assert process.stdout is not None
        with process.stdout:
            process.stdout.readline()
        found = quiet.processes()
        assert len(found) == 2
    process.wait()
    assert until(lambda: not any(Path(f"/proc/{one}").exists() for one in found))
