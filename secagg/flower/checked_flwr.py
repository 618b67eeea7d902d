"""The version of Flower that this package is written for, checked when the package is imported.

Source: flwr 1.42. Its transport changed twice under the same names, so other versions are refused.
"""

from importlib.metadata import PackageNotFoundError, version

from mpc.core.errors import MissingLibraryError

WRITTEN_FOR = "1.42"


def check_flwr(found: str | None) -> str:
    """``found`` if it is a version that this package is written for; MissingLibraryError if not."""
    if found is None or found.split(".")[:2] != WRITTEN_FOR.split("."):
        told = "there is none" if found is None else f"found {found}"
        raise MissingLibraryError(
            f"secagg.flower is written for flwr {WRITTEN_FOR}: {told}",
            remedy="pip install 'privrec[flower]'",
        )
    return found


def installed() -> str | None:
    """The version of flwr, None without it."""
    try:
        return version("flwr")
    except PackageNotFoundError:
        return None


FLWR_VERSION = check_flwr(installed())
