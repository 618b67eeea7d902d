"""MovieLens 100K out of the wheel of RecBole 1.2.1, which carries it as an example.

Nothing of it is part of this project, whose licence does not cover it: GroupLens's terms do.

Source: RecBole 1.2.1 on the package index; GroupLens's README of MovieLens 100K for the terms.
Model: pip brings the wheel without running any of its code. What the wheel holds is trusted as far
    as its SHA-256, which stands below: another file is refused, whoever served it.
"""

import hashlib
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from mpc.core.durable import PUBLIC, write_durably
from recsys.errors import DataError

REQUIREMENT = "recbole==1.2.1"
MEMBER = "recbole/dataset_example/ml-100k/ml-100k.inter"
SHA256 = "4edb74e2a81178c2ba9ff381495f754f996c4aea351b1272ca36b43da0935eff"
BYTES = 1_979_230
FILE = "ml-100k.inter"

TERMS = """\
MovieLens 100K is GroupLens Research's, University of Minnesota. Its terms, in short:
- for research; no commercial or revenue-bearing use without permission of the GroupLens project;
- no redistribution without separate permission;
- no statement or hint that the university or GroupLens endorses you;
- publications acknowledge it: F. M. Harper and J. A. Konstan, "The MovieLens Datasets: History and
  Context", ACM Transactions on Interactive Intelligent Systems 5, 4 (2015), doi:10.1145/2827872.
The full text is in the README at grouplens.org/datasets/movielens/100k.
"""

_LONGEST_S = 600

Download = Callable[[Path], None]
"""Puts the wheel into an empty folder."""


@dataclass(frozen=True)
class Fetched:
    """path: the file.  fresh: False where it was there already.  terms: for its user to read."""

    path: Path
    fresh: bool
    terms: str = TERMS


def fetch_ml_100k(folder: Path, *, download: Download | None = None) -> Fetched:
    """Put ``ml-100k.inter`` into ``folder``, which is made if need be; ``load_ratings`` reads it.

    download: by default pip, asked for REQUIREMENT alone. A file that is there already is kept.
    Raises DataError where pip fails, or where the wheel, or the file that is there, is another.
    """
    path = folder / FILE
    if path.exists():
        _check(path.read_bytes(), str(path), "move it away and fetch again")
        return Fetched(path, fresh=False)
    with tempfile.TemporaryDirectory() as temporary:
        (download or _pip)(Path(temporary))
        data = _member(Path(temporary))
    folder.mkdir(parents=True, exist_ok=True)
    write_durably(path, data, mode=PUBLIC)
    return Fetched(path, fresh=True)


def _pip(folder: Path) -> None:
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--no-input", "download"]
    # A wheel alone: building from source would run its code.
    command += ["--no-deps", "--only-binary", ":all:", "--dest", str(folder), REQUIREMENT]
    try:
        subprocess.run(command, check=True, capture_output=True, text=True, timeout=_LONGEST_S)
    except (OSError, subprocess.SubprocessError) as error:
        said = (getattr(error, "stderr", None) or str(error)).strip().splitlines()
        raise DataError(
            f"pip did not bring {REQUIREMENT}: {said[-1] if said else 'it said nothing'}",
            remedy=f"see that pip reaches a package index, or put {FILE} into the folder yourself",
        ) from error


def _member(folder: Path) -> bytes:
    wheels = sorted(folder.glob("*.whl"))
    if len(wheels) != 1:
        raise DataError(f"pip brought {len(wheels)} wheels of {REQUIREMENT}", expected="one")
    file = f"{wheels[0].name}, {MEMBER}"
    try:
        with zipfile.ZipFile(wheels[0]) as wheel:
            size = wheel.getinfo(MEMBER).file_size
            data = wheel.read(MEMBER) if size == BYTES else b""
    except (KeyError, OSError, zipfile.BadZipFile) as error:
        raise DataError("the wheel is damaged or another", file=file) from error
    _check(data, file, "fetch it again; if it stays so, do not use it")
    return data


def _check(data: bytes, file: str, remedy: str) -> None:
    found = hashlib.sha256(data).hexdigest()
    if found != SHA256:
        raise DataError(
            f"this is not MovieLens 100K, its SHA-256 is {found}",
            file=file,
            expected=f"SHA-256 {SHA256}",
            remedy=remedy,
        )
