"""What decides the last bits of a worker's results: its libraries, and how its machine rounds."""

import socket
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import metadata
from typing import Self

from recsys.engine import Shared
from recsys.errors import EngineError

_LIBRARIES = ("privrec", "numpy", "scipy", "torch")


@dataclass(frozen=True)
class Facts:
    """Of one process. versions: of Python and of libraries.  probe: see ``Shared.probe``."""

    machine: str
    versions: Mapping[str, str]
    probe: bytes

    @classmethod
    def here(cls, shared: Shared) -> Self:
        """Those of this process."""
        return cls(socket.gethostname(), versions(), shared.probe())

    def check(self, worker: "Facts") -> None:
        """EngineError if a worker has another version of anything."""
        for name, version in self.versions.items():
            other = worker.versions.get(name)
            if other != version:
                raise EngineError(
                    f"a worker on {worker.machine} has {name} {other}, and this process {version}",
                    remedy="install the same versions on every machine of the cluster",
                )


def versions() -> dict[str, str]:
    """Of Python, without the patch release, and of the libraries that compute; none for absent."""
    found = {"Python": f"{sys.version_info.major}.{sys.version_info.minor}"}
    for name in _LIBRARIES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            found[name] = "none"
    return found
