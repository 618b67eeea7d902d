"""The most memory that this process has had.

Source: proc(5), VmHWM of /proc/self/status; getrusage(2).
Differs: on Linux ``ru_maxrss`` of a new process begins at that of whoever started it, because it
    outlives the exec; VmHWM belongs to the new program alone.
"""

import re
import resource
import sys
from pathlib import Path


def peak_memory() -> int:
    """Bytes of the largest resident set that this process ever had."""
    try:
        status = Path("/proc/self/status").read_text(encoding="ascii", errors="replace")
    except OSError:
        status = ""
    found = re.search(r"^VmHWM:\s*(\d+) kB$", status, re.MULTILINE)
    if found is not None:
        return int(found[1]) * 1024
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024  # Linux counts in KiB
