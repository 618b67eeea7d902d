"""Fixtures for the tests of the command line and of pages."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from recsys.cli.main import main
from recsys.tasks import NAMES
from tests.support.browser import Browser, browser
from tests.support.cli import QUICK, Result, Run


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs a command in an empty folder."""
    monkeypatch.chdir(tmp_path)
    for name in NAMES:
        monkeypatch.delenv(f"PRIVREC_{name.upper()}", raising=False)

    def command(*arguments: str) -> Result:
        code = main(arguments)
        captured = capsys.readouterr()
        return Result(code, captured.out, captured.err)

    return command


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run through the real protocols, without a seed."""
    out = tmp_path_factory.mktemp("trained") / "run"
    assert main(["train", "prirec", *QUICK, "--out", str(out), "--quiet"]) == 0
    return out


@pytest.fixture(scope="session")
def chromium() -> Iterator[Browser]:
    """One browser for all tests of pages."""
    with browser() as one:
        yield one
