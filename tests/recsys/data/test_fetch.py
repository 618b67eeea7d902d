"""MovieLens 100K out of a wheel: the right bytes or nothing. No test here reaches for a network."""

import hashlib
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from recsys.data import fetch
from recsys.data.fetch import FILE, MEMBER, fetch_ml_100k
from recsys.errors import DataError

DATA = b"user_id:token\titem_id:token\trating:float\ttimestamp:float\n1\t2\t3\t4\n"


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """DATA takes the place of the published file."""
    monkeypatch.setattr(fetch, "SHA256", hashlib.sha256(DATA).hexdigest())
    monkeypatch.setattr(fetch, "BYTES", len(DATA))


def wheel(data: bytes = DATA, member: str = MEMBER) -> Callable[[Path], None]:
    def download(folder: Path) -> None:
        with zipfile.ZipFile(folder / "recbole-1.2.1-py3-none-any.whl", "w") as archive:
            archive.writestr(member, data)

    return download


def never(folder: Path) -> None:
    raise AssertionError("nothing was to be downloaded")


def test_the_file_and_its_terms(tmp_path: Path) -> None:
    target = tmp_path / "data" / "ml-100k"
    done = fetch_ml_100k(target, download=wheel())
    assert (done.path, done.fresh) == (target / FILE, True)
    assert done.path.read_bytes() == DATA
    assert [path.name for path in target.iterdir()] == [FILE], "no temporary file stays"
    for words in ("no commercial", "no redistribution", "endorses", "acknowledge"):
        assert words in done.terms


def test_a_file_that_is_there_is_kept(tmp_path: Path) -> None:
    fetch_ml_100k(tmp_path, download=wheel())
    done = fetch_ml_100k(tmp_path, download=never)
    assert not done.fresh
    assert done.terms
    (tmp_path / FILE).write_bytes(b"my own notes")
    with pytest.raises(DataError, match="this is not MovieLens 100K") as caught:
        fetch_ml_100k(tmp_path, download=never)
    assert caught.value.file == str(tmp_path / FILE)
    assert (tmp_path / FILE).read_bytes() == b"my own notes"


@pytest.mark.parametrize(
    ("download", "part"),
    [
        (wheel(DATA[:-2] + b"5\n"), "its SHA-256 is"),
        (wheel(DATA + b"\n"), "this is not MovieLens 100K"),
        (wheel(member="recbole/other.inter"), "the wheel is damaged or another"),
        (lambda folder: (folder / "a.whl").write_bytes(b"no zip"), "damaged or another"),
        (lambda folder: None, "pip brought 0 wheels"),
    ],
)
def test_another_file_is_refused_and_nothing_is_written(
    tmp_path: Path, download: Callable[[Path], Any], part: str
) -> None:
    with pytest.raises(DataError, match=part):
        fetch_ml_100k(tmp_path / "ml-100k", download=download)
    assert not (tmp_path / "ml-100k").exists()


def test_pip_is_asked_for_one_wheel_and_runs_no_code_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    def run(command: list[str], **settings: object) -> None:
        asked.append(command)
        wheel()(Path(command[command.index("--dest") + 1]))

    monkeypatch.setattr(subprocess, "run", run)
    assert fetch_ml_100k(tmp_path).fresh
    (command,) = asked
    assert command[:3] == [sys.executable, "-m", "pip"]
    assert command[-1] == "recbole==1.2.1"
    assert "--no-deps" in command
    assert command[command.index("--only-binary") + 1] == ":all:"


@pytest.mark.parametrize(
    ("error", "part"),
    [
        (
            subprocess.CalledProcessError(1, ["pip"], stderr="trying\nERROR: no route to host\n"),
            "pip did not bring recbole==1.2.1: ERROR: no route to host",
        ),
        (subprocess.TimeoutExpired(["pip"], 600), "timed out"),
        (FileNotFoundError(2, "No such file"), "No such file"),
    ],
)
def test_what_pip_says_is_passed_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception, part: str
) -> None:
    def run(*_: object, **settings: object) -> None:
        raise error

    monkeypatch.setattr(subprocess, "run", run)
    with pytest.raises(DataError, match=part) as caught:
        fetch_ml_100k(tmp_path / "ml-100k")
    assert FILE in caught.value.remedy
    assert not (tmp_path / "ml-100k").exists()
