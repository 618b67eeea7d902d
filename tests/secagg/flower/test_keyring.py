"""A node's identity and the operator's roster, from files."""

import stat
from pathlib import Path
from typing import Any

import pytest

from mpc.core.errors import ParameterError, WireError
from secagg.flower.keyring import (
    IDENTITY_PATH,
    OPERATOR,
    ROSTER_PATH,
    Keyring,
    read_identity,
    write_identity,
)
from secagg.signed_roster import Entry, SignedRoster
from tests.secagg.flower.by_hand import OPERATOR_KEY, Keys
from tests.secagg.full.world import identity

CLIENTS = (1, 2, 3)


def test_a_node_finds_its_identity_its_id_and_the_roster(tmp_path: Path) -> None:
    keys = Keys(tmp_path, CLIENTS)
    for client in CLIENTS:
        keyring = Keyring(keys.node_config[client])
        assert keyring.identity.public == identity(client).public
        assert keyring.client == client
        assert keyring.roster.digest == keys.roster.digest


def test_the_file_of_an_identity_is_its_owner_s_alone(tmp_path: Path) -> None:
    path = tmp_path / "identity.key"
    write_identity(path, identity(1))
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert read_identity(path).public == identity(1).public


@pytest.mark.parametrize("data", [b"", bytes(31), bytes(33)])
def test_a_file_of_another_length_is_no_identity(data: bytes, tmp_path: Path) -> None:
    path = tmp_path / "identity.key"
    path.write_bytes(data)
    with pytest.raises(WireError):
        read_identity(path)


@pytest.mark.parametrize("missing", [IDENTITY_PATH, ROSTER_PATH, OPERATOR])
@pytest.mark.parametrize("value", [None, "", 1])
def test_what_is_not_configured_is_named(missing: str, value: Any, tmp_path: Path) -> None:
    config: dict[str, object] = dict(Keys(tmp_path, CLIENTS).node_config[1])
    config[missing] = value
    if value is None:
        del config[missing]
    with pytest.raises(ParameterError, match=missing):
        _ = Keyring(config).client


@pytest.mark.parametrize("operator", ["00" * 31, "00" * 33, "zz" * 32, "/etc/operator.pub"])
def test_an_operator_s_key_is_64_hexadecimal_digits(operator: str, tmp_path: Path) -> None:
    config = {**Keys(tmp_path, CLIENTS).node_config[1], OPERATOR: operator}
    with pytest.raises(ParameterError, match="hexadecimal"):
        _ = Keyring(config).roster


def test_a_roster_of_another_operator_is_refused(tmp_path: Path) -> None:
    config = {**Keys(tmp_path, CLIENTS).node_config[1], OPERATOR: identity(998).public.hex()}
    with pytest.raises(WireError):
        _ = Keyring(config).roster


def test_an_identity_that_is_not_listed_has_no_id(tmp_path: Path) -> None:
    config = Keys(tmp_path, CLIENTS).node_config[1]
    SignedRoster.sign([Entry(2, "two", identity(2).public)], OPERATOR_KEY).write(
        tmp_path / "roster.bin"
    )
    with pytest.raises(ParameterError, match="does not list"):
        _ = Keyring(config).client


def test_files_that_are_not_there_are_not_made(tmp_path: Path) -> None:
    config = {IDENTITY_PATH: str(tmp_path / "no.key")}
    with pytest.raises(FileNotFoundError):
        _ = Keyring(config).identity
    assert not list(tmp_path.iterdir())
