"""Processes found by a mark in their environment, their sockets, and an end to them (Linux).

A process passes its environment on to what it starts, however often and however detached, so one
mark finds them all. Some (Ray's workers) write their title over their environment; so what descends
from a marked process counts too.
"""

import ipaddress
import os
import signal
import socket
import time
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

MARK = "PRIVREC_TEST_MARK"
PROC = Path("/proc")
END_SECONDS = 10.0
WORD = 4
"""Bytes of an address that the kernel prints as one number, in the machine's byte order."""


def marked(mark: str) -> list[int]:
    """Ids of the living processes whose variable ``MARK`` is ``mark``, and of their descendants."""
    wanted = f"{MARK}={mark}".encode()
    children: defaultdict[int, list[int]] = defaultdict(list)
    todo = []
    for process in (int(path.name) for path in PROC.iterdir() if path.name.isdecimal()):
        # The name, in parentheses, may hold spaces; the state and the parent come after it.
        fields = _read(process, "stat").rpartition(b")")[2].split()
        if not fields or fields[0] == b"Z":
            continue
        children[int(fields[1])].append(process)
        if wanted in _read(process, "environ").split(b"\0"):
            todo.append(process)
    found: set[int] = set()
    while todo:
        process = todo.pop()
        if process not in found:
            found.add(process)
            todo += children[process]
    return sorted(found)


def end(mark: str) -> None:
    """Kill what ``marked`` finds, and what that starts meanwhile; ten seconds at most."""
    deadline = time.monotonic() + END_SECONDS
    while (left := marked(mark)) and time.monotonic() < deadline:
        for process in left:
            try:
                os.kill(process, signal.SIGKILL)
            except ProcessLookupError:
                continue
        time.sleep(0.05)


def command(process: int) -> str:
    """The command line of a process, for a reader."""
    return _read(process, "cmdline").replace(b"\0", b" ").decode(errors="replace").strip()


@dataclass(frozen=True)
class Socket:
    """One socket for TCP or UDP; a listening one has the port 0 at its far end."""

    process: int
    near: tuple[str, int]
    far: tuple[str, int]

    @property
    def listens(self) -> bool:
        return self.far[1] == 0

    @property
    def leaves(self) -> bool:
        """Whether its far end, or where it listens the near one, is not on this machine alone."""
        host = self.near[0] if self.listens else self.far[0]
        address = ipaddress.ip_address(host)
        mapped = getattr(address, "ipv4_mapped", None)
        return not (mapped or address).is_loopback


def sockets(processes: list[int]) -> list[Socket]:
    """The TCP and UDP sockets of ``processes``, from the kernel's tables."""
    owners: dict[str, int] = {}
    for process in processes:
        try:
            links = [str(path.readlink()) for path in (PROC / str(process) / "fd").iterdir()]
        except OSError:
            continue
        owners |= {link[8:-1]: process for link in links if link.startswith("socket:[")}
    found = []
    for table in ("tcp", "tcp6", "udp", "udp6"):
        for line in _read("self", f"net/{table}").decode().splitlines()[1:]:
            fields = line.split()
            if fields[9] in owners:
                found.append(Socket(owners[fields[9]], _end(fields[1]), _end(fields[2])))
    return found


def _end(text: str) -> tuple[str, int]:
    host, port = text.split(":")
    raw = bytes.fromhex(host)
    words = [raw[at : at + WORD][::-1] for at in range(0, len(raw), WORD)]
    family = socket.AF_INET if len(words) == 1 else socket.AF_INET6
    return socket.inet_ntop(family, b"".join(words)), int(port, 16)


def _read(process: int | str, name: str) -> bytes:
    """A file of a process, empty where it has gone or belongs to somebody else."""
    try:
        return (PROC / str(process) / name).read_bytes()
    except OSError:
        return b""
