"""Where the command ``privrec`` starts and ends."""

import signal
import sys
from collections.abc import Sequence

from recsys.cli.codes import INTERRUPTED


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code (``recsys.cli.codes`` lists them).

    arguments: without the program's name; those of the process by default.
    Raises nothing but SystemExit, where a reader of the output went away.
    """
    # Loaded here, since it takes long enough for an impatient Ctrl-C.
    from recsys.cli.app import execute  # noqa: PLC0415

    return execute(sys.argv[1:] if arguments is None else arguments)


def run() -> None:
    """The entry point of the installed script."""
    signal.signal(signal.SIGTERM, _terminate)
    try:
        code = main()
    except KeyboardInterrupt:  # before a command began, or after it had ended
        print("error: interrupted", file=sys.stderr)
        code = INTERRUPTED
    sys.exit(code)


def _terminate(number: int, frame: object) -> None:
    """SIGTERM ends a command as Ctrl-C does: in order."""
    raise KeyboardInterrupt
