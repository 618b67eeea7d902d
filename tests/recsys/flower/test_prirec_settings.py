"""Settings of the app, and messages as bytes: what is taken, and what is refused."""

from typing import Any

import numpy as np
import pytest
from flwr.app import ArrayRecord, ConfigRecord, RecordDict
from hypothesis import given
from hypothesis import strategies as st

from mpc.core.errors import ParameterError, WireError
from recsys.config import TrainConfig
from recsys.errors import PrivacyRefusal
from recsys.flower.federation import secagg_config
from recsys.flower.prirec_messages import (
    Exchange,
    Exchanged,
    Finish,
    Joined,
    Joining,
    Setup,
    Table,
    settings_of,
)
from recsys.flower.prirec_records import content_of, pack_table, read_content, unpack_table
from recsys.flower.prirec_settings import PriRecSettings


def test_settings_have_the_names_of_the_command() -> None:
    settings = PriRecSettings.read(
        {"learning-rate-v": 0.01, "min_visitors": 3, "nodes": 5, "wait": 7, "few-nodes": "refuse"}
    )
    assert settings.train.step_v == 0.01
    assert settings.train.prepare.min_visitors == 3
    assert (settings.nodes, settings.wait, settings.few_nodes) == (5, 7.0, "refuse")
    assert settings.train.rounds == 1
    assert PriRecSettings.read({"rounds": 4}).train.rounds == 4


@pytest.mark.parametrize(
    ("given", "match"),
    [
        ({"epoch": 3}, "unknown setting 'epoch'"),
        ({"mode": "float"}, "mode has no meaning in a Flower app"),
        ({"cohort": 128}, "cohort has no meaning"),
        ({"patience": 3}, "patience has no meaning"),
        ({"relay": True}, "relay has no meaning"),
        ({"model": "fm"}, "trains prirec or prirec-"),
        ({"features": "user"}, "features must not be 'user'"),
        ({"weights": "literal"}, "diverge"),
        ({"rounds": 0}, "nobody knows the busiest user"),
        ({"nodes": 2}, "nodes must lie in"),
        ({"nodes": "3"}, "nodes must be a whole number"),
        ({"wait": "long"}, "wait must be a number"),
        ({"data": 3}, "data must be text"),
        ({"few-nodes": "some"}, "few-nodes must be one of"),
        ({"epochs": 0}, "epochs"),
    ],
    ids=str,
)
def test_settings_that_make_no_sense_are_refused(given: dict[str, Any], match: str) -> None:
    with pytest.raises(ParameterError, match=match):
        PriRecSettings.read(given)


def test_one_or_two_neighbours_are_refused() -> None:
    for neighbours in (1, 2):
        with pytest.raises(PrivacyRefusal, match="fewer than 3 models"):
            PriRecSettings.read({"neighbours": neighbours})
    assert PriRecSettings.read({"neighbours": 0}).train.neighbours == 0


def test_the_federation_s_settings_become_those_of_secagg() -> None:
    settings = PriRecSettings.read({"nodes": 7, "dropout": 0.2, "grace": 3})
    config = secagg_config(settings)
    assert (config.min_clients, config.dropout, config.grace) == (7, 0.2, 3.0)
    assert secagg_config(PriRecSettings.read({})).grace is None
    with pytest.raises(ParameterError, match="hexadecimal"):
        secagg_config(PriRecSettings.read({"operator": "xyz"}))
    with pytest.raises(ParameterError, match="roster and operator"):
        secagg_config(PriRecSettings.read({"variant": "malicious"}))


# Messages.

SESSION = bytes(range(16))
MESSAGES = [
    Joining(SESSION, 3, settings_of(TrainConfig()), "set", ("p1", "p2"), ("cafe",)),
    Joined(b"offer", 4),
    Setup((b"offer", b"other"), 100),
    Exchange(SESSION, 2, 1, b"setup"),
    Exchanged(SESSION, 2),
    Finish(SESSION),
]


@pytest.mark.parametrize("message", MESSAGES, ids=lambda m: type(m).__name__)
def test_messages_are_exact_inverses(message: Any) -> None:
    assert type(message).from_bytes(message.to_bytes()) == message


def test_settings_travel_whole() -> None:
    config = PriRecSettings.read({"epsilon": 0.3, "bounds": [35.0, 139.0, 36.0, 140.0]}).train
    joining = Joining(SESSION, 0, settings_of(config), "set", (), ())
    assert Joining.from_bytes(joining.to_bytes()).config == config
    for text in ("", "{", "[]", '{"model": "nobody"}', '{"epochs": -1}'):
        with pytest.raises(WireError, match="no settings"):
            _ = Joining(SESSION, 0, text, "set", (), ()).config


@pytest.mark.parametrize(
    "make",
    [
        lambda: Joining(bytes(15), 0, "", "", (), ()),
        lambda: Joining(SESSION, 2**31, "", "", (), ()),
        lambda: Exchange(SESSION, 2**16, 0),
        lambda: Exchange(bytes(3), 0, 0),
        lambda: Setup((), 2**30),
        lambda: Finish(b""),
    ],
)
def test_numbers_out_of_range_are_refused(make: Any) -> None:
    with pytest.raises(ParameterError):
        make()


TABLE: Table = {
    "a": np.arange(6, dtype=np.float64).reshape(2, 3),
    "b": np.arange(3, dtype=np.uint32),
    "c": np.zeros((0, 4), dtype=np.int8),
    "d": np.arange(4, dtype=np.uint8),
    "e": np.array([-1, 2], dtype=np.int64),
}


def test_tables_are_exact_inverses_and_may_be_written_to() -> None:
    again = unpack_table(pack_table(TABLE))
    assert sorted(again) == sorted(TABLE)
    for name, array in TABLE.items():
        assert again[name].dtype == array.dtype
        assert np.array_equal(again[name], array)
        again[name][...] = 0
    big = pack_table({"x": np.arange(3, dtype=">f8")})
    assert np.array_equal(unpack_table(big)["x"], np.arange(3.0))


@given(st.binary(max_size=200))
def test_arbitrary_bytes_are_no_table(data: bytes) -> None:
    with pytest.raises(WireError):
        unpack_table(data)


@given(st.data())
def test_altered_tables_are_tables_or_refused(data: st.DataObject) -> None:
    packed = bytearray(pack_table(TABLE))
    place = data.draw(st.integers(0, len(packed) - 1))
    packed[place] ^= data.draw(st.integers(1, 255))
    try:
        found = unpack_table(bytes(packed))
    except WireError:
        return
    assert all(isinstance(array, np.ndarray) for array in found.values())


def test_arrays_of_other_kinds_have_no_place() -> None:
    for array in (np.zeros(2, dtype=complex), np.array(["x"]), np.zeros((1,) * 5)):
        with pytest.raises(WireError, match="no place"):
            pack_table({"x": array})


def test_records_that_are_none_of_ours_are_refused() -> None:
    good = content_of(MESSAGES[3], TABLE)
    data, table = read_content(good)
    assert Exchange.from_bytes(data) == MESSAGES[3]
    assert len(table) == len(TABLE)
    for record in good:
        without = RecordDict({name: r for name, r in good.items() if name != record})
        with pytest.raises(WireError, match="no records"):
            read_content(without)
    other = RecordDict(dict(good.items()))
    other["privrec.prirec"] = ConfigRecord({"data": 3})
    other["privrec.arrays"] = ArrayRecord([np.zeros(2)])
    with pytest.raises(WireError, match="no records"):
        read_content(other)
