"""Starting commands as a terminal would."""

import sys

_EXEC = (
    "import os, signal, sys; signal.signal(signal.SIGINT, signal.SIG_DFL); "
    "os.execv(sys.executable, [sys.executable, *sys.argv[1:]])"
)


def python(*arguments: str) -> list[str]:
    """The command line that runs Python with ``arguments`` and heeds Ctrl-C in any case.

    A shell without job control starts what it sends to the background with SIGINT ignored, and
    children inherit that.
    """
    return [sys.executable, "-c", _EXEC, *arguments]
