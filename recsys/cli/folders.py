"""The folder of a run or an experiment for which nobody named one."""

import re
from datetime import datetime
from pathlib import Path


def new_folder(name: str) -> Path:
    """runs/NAME-TIME, with a number behind it if that is there already."""
    moment = datetime.now().astimezone().strftime("%Y%m%d-%H%M%S")
    name = re.sub(r"[^\w.-]+", "-", f"{name}-{moment}")
    folder, number = Path("runs") / name, 2
    while folder.exists():
        folder, number = Path("runs") / f"{name}-{number}", number + 1
    return folder
