"""Exit codes of ``privrec``."""

DONE = 0
INTERNAL = 1
"""A bug of ours, or a machine that gave up."""
BAD_INPUT = 2
"""Options, files, data, or a training that diverged."""
REFUSED = 3
"""Privacy would suffer."""
INTERRUPTED = 130
"""Ctrl-C or SIGTERM; the last checkpoint is kept. As in shells: 128 and the number of SIGINT."""
