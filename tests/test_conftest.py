"""The options of the suite do what they say: deep tests stay out, skips cannot hide."""

import subprocess
import sys
from pathlib import Path

import pytest

CONFTEST = Path(__file__).with_name("conftest.py")

SUITE = """
import os
import pytest
from hypothesis import settings

def test_plain(): pass

@pytest.mark.deep
def test_deep(): pass

def test_profile():
    assert settings().max_examples == int(os.environ["EXAMPLES"])
"""

SKIPS = """
import pytest

def test_skips(): pytest.skip("not today")

@pytest.mark.gpu
def test_gpu(): pytest.skip("no GPU here")

@pytest.mark.peers
def test_peer(): pytest.skip("no peer here")
"""

MODULE_SKIPS = "import pytest\npytest.skip('not this module', allow_module_level=True)\n"


def run(folder: Path, suite: str, *options: str, **environment: str) -> tuple[int, str]:
    """Run a suite of its own under a copy of the conftest; exit status and closing line."""
    (folder / "conftest.py").write_text(CONFTEST.read_text())
    (folder / "test_suite.py").write_text(suite)
    (folder / "pytest.ini").write_text("[pytest]\nmarkers =\n  deep: d\n  gpu: g\n  peers: p\n")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *options]
    done = subprocess.run(
        command,
        cwd=folder,
        env={"PATH": "", **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout.strip().splitlines()[-1]


@pytest.mark.parametrize(
    ("options", "environment", "examples", "closing"),
    [
        ((), {}, 50, "2 passed, 1 deselected"),
        ((), {"CI": "true"}, 100, "2 passed, 1 deselected"),
        (("--deep",), {"CI": "true"}, 1000, "3 passed"),
        (("--deep",), {"HYPOTHESIS_PROFILE": "ci"}, 100, "3 passed"),
    ],
)
def test_deep_tests_are_deselected_and_the_profile_follows(
    tmp_path: Path,
    options: tuple[str, ...],
    environment: dict[str, str],
    examples: int,
    closing: str,
) -> None:
    status, line = run(tmp_path, SUITE, *options, EXAMPLES=str(examples), **environment)
    assert status == 0
    assert line.startswith(closing)


@pytest.mark.parametrize("workers", [(), ("-n", "1")])
def test_no_skips_fails_every_skip_but_those_of_gpu_and_peers(
    tmp_path: Path, workers: tuple[str, ...]
) -> None:
    status, line = run(tmp_path, SKIPS, "--no-skips", *workers)
    assert status == 1
    assert line.startswith("1 failed, 2 skipped")


def test_no_skips_fails_a_module_that_skips_itself(tmp_path: Path) -> None:
    status, line = run(tmp_path, MODULE_SKIPS, "--no-skips")
    assert status != 0
    assert "error" in line


def test_without_the_option_a_skip_stays_a_skip(tmp_path: Path) -> None:
    status, line = run(tmp_path, SKIPS)
    assert status == 0
    assert line.startswith("3 skipped")
