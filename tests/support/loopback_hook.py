"""An audit hook that writes down every address outside this machine that Python code turns to.

``tests.support.quiet_flower`` has every interpreter of its processes run this file at its start.
It imports nothing of ours, for it runs before anything else.
"""

import os
import sys
from typing import Any

VARIABLE = "PRIVREC_TEST_CONNECTIONS"
"""Names the file; where it is not set, nothing is written down."""

CONNECTS = ("socket.connect", "socket.sendto", "socket.sendmsg")
LOOKS_UP = ("socket.getaddrinfo", "socket.gethostbyname", "socket.gethostbyaddr")
LOCAL = ("127.", "::1", "::ffff:127.", "localhost")


def host_of(event: str, arguments: tuple[Any, ...]) -> str | None:
    """The host that an event turns to, or None where there is none, as for a socket with a path."""
    if event in CONNECTS:
        address = arguments[1]
        host = address[0] if isinstance(address, tuple) and address else None
    elif event in LOOKS_UP:
        host = arguments[0]
    else:
        return None
    return host.decode() if isinstance(host, bytes) else host


def install(path: str) -> None:
    """Append a line to the file at ``path`` for each address that is not this machine's."""

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        host = host_of(event, arguments)
        if host and not host.startswith(LOCAL):
            line = f"{event} {host} by {' '.join(sys.argv[:2])}\n"
            file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
            os.write(file, line.encode())
            os.close(file)

    sys.addaudithook(hook)


if path := os.environ.get(VARIABLE):
    install(path)
