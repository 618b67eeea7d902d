"""What ``privrec flower identity`` and ``roster`` do."""

from pathlib import Path

from mpc.core.errors import MissingLibraryError, ParameterError
from recsys.cli.console import Console
from recsys.errors import DataError
from recsys.report.table import text_table
from secagg.full.identity import PUBLIC_BYTES, Identity
from secagg.signed_roster import Entry, SignedRoster

try:
    from recsys.flower.node_keys import fingerprint_of, read_identity, write_identity
except ModuleNotFoundError as error:
    if error.name is None or error.name.partition(".")[0] != "flwr":
        raise
    raise MissingLibraryError(
        "flwr is not installed", remedy="pip install 'privrec[flower]'"
    ) from None


def make_identity(file: Path, console: Console) -> None:
    """Write a fresh identity. ParameterError for a file that is there, or no folder for it."""
    if file.exists():
        raise ParameterError(
            f"{file} is there already",
            remedy="name a new file; whoever loses an identity is in no roster any more",
        )
    if not file.parent.is_dir():
        raise ParameterError(f"there is no folder {file.parent}", remedy="make it first")
    made = Identity.generate()
    write_identity(file, made)
    _tell(file, made, console)
    console.note(f"note: {file} holds the private half: keep it, and show it to nobody")


def show_identity(file: Path, console: Console) -> None:
    """Say the public half of the identity in a file. DataError if there is none."""
    _tell(file, _identity(file), console)


def sign_roster(file: Path, operator: Path, clients: list[str], console: Console) -> None:
    """Write a roster of ``clients``, as the options say, signed by ``operator``.

    Raises ParameterError for an option that is no client and for two that are alike, DataError for
    files that are not there or hold something else.
    """
    if not file.parent.is_dir():
        raise ParameterError(f"there is no folder {file.parent}", remedy="make it first")
    signer = _identity(operator)
    roster = SignedRoster.sign([_entry(text) for text in clients], signer)
    roster.write(file)
    rows = [
        {
            "client": entry.client,
            "name": entry.name,
            "public": entry.public.hex(),
            "node": entry.node.hex() or None,
        }
        for entry in roster.entries
    ]
    cells = [
        (str(entry.client), entry.name, entry.public.hex(), "yes" if entry.node else "no")
        for entry in roster.entries
    ]
    lines = [
        *text_table(("client", "name", "public", "bound"), cells, right=(0,)),
        "",
        f"roster    {file}",
        f"operator  {signer.public.hex()}",
        f"digest    {roster.digest.hex()}",
    ]
    told = {
        "rows": rows,
        "path": str(file),
        "operator": signer.public.hex(),
        "digest": roster.digest.hex(),
    }
    console.result(lines, told)


def _tell(file: Path, identity: Identity, console: Console) -> None:
    row = {"path": str(file), "public": identity.public.hex()}
    console.result([identity.public.hex()], {"rows": [row]})


def _identity(file: Path) -> Identity:
    try:
        return read_identity(file)
    except FileNotFoundError:
        problem = "no such file"
    except (OSError, ValueError):
        problem = "no identity"
    raise DataError(
        problem, file=str(file), expected="a file of privrec flower identity", remedy="make one"
    )


def _entry(text: str) -> Entry:
    parts = [part.strip() for part in text.split(",")]
    if len(parts) not in (3, 4):
        raise _bad(text)
    number, name, public = parts[:3]
    try:
        client, key = int(number), bytes.fromhex(public)
    except ValueError:
        raise _bad(text) from None
    if len(key) != PUBLIC_BYTES:
        raise _bad(text)
    node = fingerprint_of(Path(parts[3])) if len(parts) == 4 else b""
    return Entry(client, name, key, node)


def _bad(text: str) -> ParameterError:
    return ParameterError(
        f"--client takes ID,NAME,PUBLIC or ID,NAME,PUBLIC,SUPERNODE.pub, got {text!r}",
        remedy="PUBLIC is the 64 digits that privrec flower identity prints",
    )
