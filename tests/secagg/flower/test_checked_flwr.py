"""Another version of Flower is refused when the package is imported, and says what to install."""

import subprocess
import sys

import pytest

from mpc.core.errors import MissingLibraryError
from secagg.flower import FLWR_VERSION
from secagg.flower.checked_flwr import WRITTEN_FOR, check_flwr, installed


@pytest.mark.parametrize("found", ["1.42.0", "1.42.1", "1.42"])
def test_the_version_that_it_is_written_for_will_do(found: str) -> None:
    assert check_flwr(found) == found


@pytest.mark.parametrize("found", ["1.41.0", "1.43.0", "1.420.0", "2.42.0", "1", None])
def test_other_versions_and_none_are_refused(found: str | None) -> None:
    with pytest.raises(MissingLibraryError, match=r"written for flwr 1\.42: .*privrec\[flower\]"):
        check_flwr(found)


def test_the_installed_one_was_checked() -> None:
    assert installed() == FLWR_VERSION
    assert FLWR_VERSION.startswith(WRITTEN_FOR)


def test_without_flower_the_import_says_so_before_anything_else() -> None:
    code = """
import importlib.metadata as metadata
def version(name):
    raise metadata.PackageNotFoundError(name)
metadata.version = version
try:
    import secagg.flower
except ImportError as error:
    print(type(error).__name__, error)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("MissingLibraryError secagg.flower is written for flwr 1.42")
