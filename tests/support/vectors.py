"""Known answers, stored as JSON in tests/vectors/: a source and a list of cases each.

Values are strings of hexadecimal digits where they stand for bytes. A file of our own names the
script that made it; that script stands beside it and imports none of our packages.
"""

import json
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent.parent / "vectors"


def load(name: str) -> dict[str, Any]:
    """The file ``name``.json with its ``source``; ValueError if it names none."""
    content: dict[str, Any] = json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))
    if not content.get("source"):
        raise ValueError(f"{name}.json names no source")
    return content


def cases(name: str, group: str = "cases") -> list[dict[str, Any]]:
    """The non-empty list ``group`` of the file."""
    found: list[dict[str, Any]] = load(name)[group]
    if not found:
        raise ValueError(f"{name}.json holds no {group}")
    return found
