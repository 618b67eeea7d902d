"""``privrec flower``: apps that are ready to run, identities, rosters, and what is refused."""

import ast
import importlib.util
import tomllib
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from flwr.clientapp import ClientApp
from flwr.serverapp import ServerApp

from recsys.cli.flower import APPS
from recsys.flower.federation import secagg_config
from recsys.flower.fedgnn_settings import FedGNNSettings
from secagg.flower.addresses import node_fingerprint
from secagg.flower.keyring import Keyring, read_identity
from secagg.signed_roster import SignedRoster
from tests.support.cli import Run

FILES = ["README.md", "client_app.py", "pyproject.toml", "server_app.py"]


def imported(path: Path) -> ModuleType:
    """The module in a file, as Flower loads it."""
    spec = importlib.util.spec_from_file_location(f"written_{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def config_of(folder: str) -> dict[str, Any]:
    text = tomllib.loads((Path(folder) / "pyproject.toml").read_text())
    found: dict[str, Any] = text["tool"]["flwr"]["app"]["config"]
    return found


# New apps.


@pytest.mark.parametrize("app", APPS)
def test_an_app_is_written_whole(run: Run, app: str) -> None:
    done = run("flower", "new", app, "My App", "--json")
    assert done.code == 0, done.err
    assert done.row["files"] == FILES
    assert (done.row["app"], done.row["path"]) == (app, "My App")
    assert sorted(path.name for path in Path("My App").iterdir()) == FILES
    text = tomllib.loads(Path("My App/pyproject.toml").read_text())
    assert text["project"]["name"] == "my-app"
    assert text["project"]["dependencies"] == []
    for part in text["tool"]["flwr"]["app"]["components"].values():
        module, _, name = part.partition(":")
        tree = ast.parse(Path(f"My App/{module}.py").read_text())
        # Flower looks for an assignment before it loads anything.
        names = [t.id for n in tree.body if isinstance(n, ast.Assign) for t in n.targets]  # type: ignore[attr-defined]
        assert names == [name]


@pytest.mark.parametrize("app", APPS)
def test_an_app_can_be_imported(run: Run, app: str) -> None:
    run("flower", "new", app, "app")
    assert isinstance(imported(Path("app/client_app.py")).app, ClientApp)
    assert isinstance(imported(Path("app/server_app.py")).app, ServerApp)


def test_settings_of_the_app_are_settings_that_it_takes(run: Run) -> None:
    run("flower", "new", "fedgnn", "app")
    settings = FedGNNSettings.read(config_of("app"))
    assert settings.data == "synthetic-ratings"
    assert settings.out == str(Path("app/model").resolve())
    assert secagg_config(settings).variant == "semi-honest"


@pytest.mark.parametrize("app", APPS)
def test_the_readme_has_commands_for_simulation_and_deployment(run: Run, app: str) -> None:
    run("flower", "new", app, "app")
    text = Path("app/README.md").read_text()
    for command in ("flwr run ", "flower-superlink", "flower-supernode", "privrec flower roster"):
        assert command in text
    assert "$" not in text.replace("$HOME", "")


def test_data_are_found_from_anywhere(run: Run) -> None:
    Path("mine.csv").write_text("user,item,rating\na,x,1\na,y,5\n")
    done = run("flower", "new", "fedgnn", "app", "--data", "mine.csv", "--json")
    assert done.code == 0, done.err
    assert config_of("app")["data"] == done.row["data"] == str(Path("mine.csv").resolve())


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (("fedgnn", "app", "--data", "nowhere"), "no rating set 'nowhere', looked at 'nowhere'"),
        (("prirec", "app", "--data", "nowhere"), "no data set 'nowhere'"),
        (("fedgnn", "app", "--data", "synthetic-city"), "fedgnn learns from ratings of items"),
        (("prirec", "app", "--data", "synthetic-ratings"), "prirec learns from visits to places"),
        (("pmf", "app"), "name one of prirec, fedgnn, got 'pmf'"),
        (("fedgnn", "full"), "full is not empty"),
        (("fedgnn", "full/file"), "full/file is a file"),
        (("fedgnn",), "Missing argument 'DIR'"),
    ],
)
def test_mistakes_write_nothing(run: Run, arguments: tuple[str, ...], problem: str) -> None:
    Path("full").mkdir()
    Path("full/file").write_text("mine")
    done = run("flower", "new", *arguments)
    assert done.code == 2
    assert problem in done.err
    assert not Path("app").exists()
    assert [path.name for path in Path("full").iterdir()] == ["file"]


def test_force_writes_beside_what_is_there(run: Run) -> None:
    Path("full").mkdir()
    Path("full/file").write_text("mine")
    assert run("flower", "new", "fedgnn", "full", "--force").code == 0
    assert sorted(path.name for path in Path("full").iterdir()) == sorted([*FILES, "file"])


# Identities and rosters.


def identity(run: Run, name: str) -> str:
    done = run("flower", "identity", name, "--json", "--quiet")
    assert done.code == 0, done.err
    public: str = done.row["public"]
    return public


def test_an_identity_is_for_its_owner_alone_and_prints_its_public_half(run: Run) -> None:
    public = identity(run, "node.key")
    assert Path("node.key").stat().st_mode & 0o777 == 0o600
    assert read_identity("node.key").public.hex() == public
    shown = run("flower", "identity", "node.key", "--show")
    assert shown.out == f"{public}\n"
    assert read_identity("node.key").private_bytes().hex() not in shown.out + shown.err
    assert identity(run, "other.key") != public


def test_an_identity_is_never_replaced(run: Run) -> None:
    identity(run, "node.key")
    before = Path("node.key").read_bytes()
    done = run("flower", "identity", "node.key")
    assert (done.code, "node.key is there already" in done.err) == (2, True)
    assert Path("node.key").read_bytes() == before
    done = run("flower", "identity", "no/node.key")
    assert (done.code, "there is no folder no" in done.err) == (2, True)


def test_a_roster_is_what_a_node_reads(run: Run) -> None:
    operator, ann, bob = (identity(run, name) for name in ("operator.key", "ann.key", "bob.key"))
    key = ec.generate_private_key(ec.SECP384R1()).public_key()
    Path("bob.pub").write_bytes(key.public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH))
    done = run(
        *("flower", "roster", "roster.bin", "--operator", "operator.key", "--json"),
        *("--client", f"7,ann,{ann}", "--client", f"3, bob, {bob}, bob.pub"),
    )
    assert done.code == 0, done.err
    roster = SignedRoster.from_file("roster.bin", bytes.fromhex(operator))
    assert [(e.client, e.name, e.public.hex()) for e in roster.entries] == [
        (3, "bob", bob),
        (7, "ann", ann),
    ]
    pem = key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    assert roster.client_of_node(node_fingerprint(pem)) == 3
    assert done.json["digest"] == roster.digest.hex()
    assert done.json["operator"] == operator
    assert [row["client"] for row in done.json["rows"]] == [3, 7]
    node = {
        "secagg-identity": "ann.key",
        "secagg-roster": "roster.bin",
        "secagg-operator": done.json["operator"],
    }
    assert Keyring(node).client == 7


def test_a_roster_of_somebody_twice_or_nobody_is_refused(run: Run) -> None:
    ann = identity(run, "ann.key")
    identity(run, "operator.key")
    Path("short.key").write_bytes(b"short")
    ok = ("--operator", "operator.key")
    for options, problem in (
        ((*ok, "--client", f"1,ann,{ann}", "--client", f"2,bob,{ann}"), "have the same public"),
        ((*ok, "--client", f"1,ann,{ann}", "--client", f"1,bob,{ann}"), "have the same client"),
        ((*ok, "--client", f"one,ann,{ann}"), "--client takes ID,NAME,PUBLIC"),
        ((*ok, "--client", "1,ann,abcd"), "--client takes ID,NAME,PUBLIC"),
        ((*ok, "--client", f"1,{ann}"), "--client takes ID,NAME,PUBLIC"),
        ((*ok, "--client", f"1,ann,{ann},no.pub"), "no.pub: no such file"),
        (("--operator", "no.key", "--client", f"1,ann,{ann}"), "no.key: no such file"),
        (("--operator", "short.key", "--client", f"1,ann,{ann}"), "short.key: no identity"),
        (ok, "Missing option '--client'"),
    ):
        done = run("flower", "roster", "roster.bin", *options)
        assert done.code == 2
        assert problem in done.err
        assert not Path("roster.bin").exists()


def test_help_names_the_commands(run: Run) -> None:
    for words in (("flower",), ("flower", "--help"), ("--help",)):
        done = run(*words)
        assert done.code == 0
        assert "privrec flower new fedgnn films" in done.out
