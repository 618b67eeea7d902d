"""Folders that commands write into: whether one is free, and one for which nobody named any."""

import re
from datetime import datetime
from pathlib import Path

from mpc.core.errors import ParameterError


def new_folder(name: str) -> Path:
    """runs/NAME-TIME, with a number behind it if that is there already."""
    moment = datetime.now().astimezone().strftime("%Y%m%d-%H%M%S")
    name = re.sub(r"[^\w.-]+", "-", f"{name}-{moment}")
    folder, number = Path("runs") / name, 2
    while folder.exists():
        folder, number = Path("runs") / f"{name}-{number}", number + 1
    return folder


def check_free(folder: Path, *, force: bool) -> None:
    """ParameterError for a file, and for a folder that holds something unless ``force``."""
    if folder.exists() and not folder.is_dir():
        raise ParameterError(f"{folder} is a file", remedy="name a folder")
    if not force and folder.exists() and any(folder.iterdir()):
        raise ParameterError(
            f"{folder} is not empty",
            remedy="choose a new folder, or --force to write beside what is there",
        )
