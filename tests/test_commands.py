"""``make`` and ``.ci/run``: what they say without a fitting Python, and how a failed step ends."""

import os
import shutil
import stat
import subprocess
from pathlib import Path

import pytest

from tests.support.source import ROOT


def run(
    folder: Path, *command: str, path: str = os.environ["PATH"]
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command,
        cwd=folder,
        env={"PATH": path},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )


def script(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A checkout of which only the command files matter here."""
    for name in ("Makefile", "pyproject.toml", "constraints.txt"):
        shutil.copy(ROOT / name, tmp_path)
    return tmp_path


def test_make_alone_lists_the_targets(checkout: Path) -> None:
    done = run(checkout, "make")
    listed = {line.split()[0] for line in done.stdout.splitlines() if line.startswith("  ")}
    assert done.returncode == 0
    assert {"demo", "test", "test-deep", "bench", "docs", "clean"} <= listed


@pytest.mark.parametrize("target", ["demo", "test", "test-deep", "bench", "docs"])
def test_a_missing_python_is_told_in_one_sentence(checkout: Path, target: str) -> None:
    done = run(checkout, "make", target, "PYTHON=./no-such-python")
    assert done.returncode != 0
    assert "privrec needs Python 3.11 or newer, but ./no-such-python" in done.stderr
    assert not (checkout / ".venv").exists()


def test_an_old_python_is_refused(checkout: Path) -> None:
    old = script(checkout / "python3.8", "exit 1")  # says no to the comparison of versions
    done = run(checkout, "make", "demo", f"PYTHON={old}")
    assert done.returncode != 0
    assert f"privrec needs Python 3.11 or newer, but {old}" in done.stderr


def test_a_python_without_venv_leaves_nothing_half_made(checkout: Path) -> None:
    bare = script(
        checkout / "python3.11",
        'case "$1 $2" in "-m venv") mkdir -p .venv/bin; exit 1;; esac; exit 0',
    )
    done = run(checkout, "make", "demo", f"PYTHON={bare}")
    assert done.returncode != 0
    assert "install its venv module" in done.stderr
    assert not (checkout / ".venv").exists()


CLOSING = {"test": "= 5 passed in 1.00s =", "test-deep": "= 3 passed in 2.00s ="}


TOOLS = [
    "bash",
    "cat",
    "dirname",
    "echo",
    "grep",
    "make",
    "mktemp",
    "rm",
    "sh",
    "tail",
    "tee",
    "timeout",
]


def ci(
    folder: Path, failing: str = "", *, browser: bool = True
) -> subprocess.CompletedProcess[str]:
    """Run .ci/run with targets that only say their names, one of them failing.

    browser: a browser is there; otherwise the package manager, no real one, has to bring it.
    """
    tools = folder / "bin"
    tools.mkdir()
    for name in TOOLS:
        (tools / name).symlink_to(shutil.which(name) or name)
    if browser:
        script(tools / "chromium", "exit 0")
    script(tools / "apt-get", "echo apt-get $*")
    targets = []
    for name in ("test", "test-deep", "docs", "demo"):
        status = 1 if name == failing else 0
        say = CLOSING.get(name, name)
        targets.append(f"{name}:\n\t@echo '{say}' $(PYTEST_FLAGS); exit {status}\n")
    (folder / "repo").mkdir()
    (folder / "repo" / "Makefile").write_text("\n".join(targets))
    script(folder / "repo" / ".venv" / "bin" / "python", "echo data=$PRIVREC_DATA")
    (folder / "repo" / ".ci").mkdir()
    shutil.copy(ROOT / ".ci" / "run", folder / "repo" / ".ci")
    return run(folder, "bash", "repo/.ci/run", path=str(tools))


def test_ci_ends_with_the_closing_lines_and_refuses_skips(tmp_path: Path) -> None:
    done = ci(tmp_path)
    assert done.returncode == 0
    assert done.stdout.strip().endswith("= 5 passed in 1.00s = --no-skips")
    assert "= 3 passed in 2.00s = --no-skips" in done.stdout
    assert "data=\n" in done.stdout


def test_ci_uses_real_data_that_lies_beside_the_checkout(tmp_path: Path) -> None:
    (tmp_path / "shared" / "data").mkdir(parents=True)
    assert f"data={tmp_path}/shared/data\n" in ci(tmp_path).stdout


@pytest.mark.parametrize("failing", ["test", "test-deep", "docs", "demo"])
def test_ci_stops_at_a_failing_step(tmp_path: Path, failing: str) -> None:
    done = ci(tmp_path, failing)
    assert done.returncode == 1
    assert "FAILED" in done.stderr
    assert "all steps passed" not in done.stdout


def test_ci_installs_a_browser_where_there_is_none(tmp_path: Path) -> None:
    (tmp_path / "without").mkdir()
    (tmp_path / "with").mkdir()
    missing = ci(tmp_path / "without", browser=False).stdout
    assert "apt-get -qq update\napt-get -qq install --yes chromium\n" in missing
    assert "apt-get" not in ci(tmp_path / "with").stdout
