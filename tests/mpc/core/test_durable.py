"""mpc.core.durable: the old file or the new one, private, and nothing left behind."""

import os
import stat
from pathlib import Path

import pytest

from mpc.core.durable import PUBLIC, flush_folder, write_durably


def test_a_file_is_written_and_replaced(tmp_path: Path) -> None:
    path = tmp_path / "state"
    for data in (b"", b"first", bytes(1 << 20)):
        write_durably(path, data)
        assert path.read_bytes() == data
    assert [entry.name for entry in tmp_path.iterdir()] == ["state"]


@pytest.mark.parametrize(("arguments", "mode"), [({}, 0o600), ({"mode": PUBLIC}, 0o644)])
def test_files_are_private_unless_told(
    tmp_path: Path, arguments: dict[str, int], mode: int
) -> None:
    path = tmp_path / "state"
    path.write_bytes(b"old, and readable by all")
    path.chmod(0o666)
    before = os.umask(0)
    try:
        write_durably(path, b"new", **arguments)
    finally:
        os.umask(before)
    assert stat.S_IMODE(path.stat().st_mode) == mode


@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_a_write_that_fails_leaves_the_old_file_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    path = tmp_path / "state"
    write_durably(path, b"old")

    def fail(*_: object) -> None:
        raise OSError("disk full")

    if step == "fsync":
        monkeypatch.setattr(os, "fsync", fail)
    else:
        monkeypatch.setattr(Path, "replace", fail)
    with pytest.raises(OSError, match="disk full"):
        write_durably(path, b"new")
    assert path.read_bytes() == b"old"
    assert [entry.name for entry in tmp_path.iterdir()] == ["state"]


def test_bytes_are_flushed_before_the_name_changes_and_the_name_after(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps: list[str] = []
    fsync, replace = os.fsync, Path.replace

    def flushed(descriptor: int) -> None:
        folder = stat.S_ISDIR(os.fstat(descriptor).st_mode)
        steps.append("flush folder" if folder else "flush file")
        fsync(descriptor)

    def renamed(self: Path, target: Path) -> Path:
        steps.append("rename")
        return replace(self, target)

    monkeypatch.setattr(os, "fsync", flushed)
    monkeypatch.setattr(Path, "replace", renamed)
    write_durably(tmp_path / "state", b"data")
    assert steps == ["flush file", "rename", "flush folder"]


def test_a_missing_folder_is_an_error_of_the_system(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        write_durably(tmp_path / "absent" / "state", b"data")
    with pytest.raises(FileNotFoundError):
        flush_folder(tmp_path / "absent")
