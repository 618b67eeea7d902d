"""No repr, no text of an error and no pretty-printer shows a secret byte."""

import traceback
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from mpc.core.errors import ToolkitError
from mpc.core.keys import KeyPair, SealingKey, derive, open_sealed
from mpc.core.keystream import BlockPrf, Keystream
from mpc.core.local import Delivery, LocalNetwork
from mpc.core.prg import Prg
from mpc.core.ring import Ring
from mpc.core.rng import SYSTEM_RNG
from mpc.core.samplers import round_unbiased
from mpc.core.wire import Message

# 32 bytes that are also text, so that any way of showing them is easy to find.
SECRET = b"Rosencrantz and Guildenstern 007"
NUMBER = int.from_bytes(SECRET[:8], "big")


class Letter(Message):
    sender: int
    payload: bytes
    entries: tuple[bytes, ...]


def shown(secret: bytes) -> list[str]:
    """The ways in which Python code tends to print bytes."""
    return [
        secret.decode()[:12],
        secret.hex()[:24],
        secret.hex(" ")[:23],
        ", ".join(str(value) for value in secret[:8]),
        str(int.from_bytes(secret, "big")),
        str(int.from_bytes(secret, "little")),
        str(NUMBER),
    ]


def assert_silent(text: str, secret: bytes = SECRET) -> None:
    assert not [way for way in shown(secret) if way in text]


def test_the_search_finds_each_way_of_showing_a_secret() -> None:
    for text in (repr(SECRET), SECRET.hex(), repr(list(SECRET)), repr(NUMBER), SECRET.hex(" ")):
        with pytest.raises(AssertionError):
            assert_silent(text)


@pytest.mark.parametrize(
    "holder",
    [
        KeyPair(SECRET),
        SealingKey(SECRET),
        Prg(SECRET),
        Keystream(SECRET),
        BlockPrf(SECRET),
        SYSTEM_RNG,
        Letter(1, SECRET, (SECRET, SECRET)),
        Delivery(0, 1, "share", SECRET),
    ],
    ids=lambda holder: type(holder).__name__,
)
def test_the_repr_of_a_holder_of_secrets_is_silent(holder: Any) -> None:
    nested = [holder], {"holder": holder}
    for text in (repr(holder), str(holder), f"{holder}", repr(nested)):
        assert type(holder).__name__ in text
        assert_silent(text)


def test_a_used_sealing_key_says_so_and_no_more() -> None:
    key = SealingKey(SECRET)
    assert repr(key) == "SealingKey(used=False)"
    key.seal(b"")
    assert repr(key) == "SealingKey(used=True)"


def test_a_message_shows_sizes_in_place_of_payloads() -> None:
    letter = Letter(1, SECRET, (SECRET, SECRET))
    assert repr(letter) == "Letter(sender=1, payload=<32 bytes>, entries=<2 entries>)"
    assert_silent(repr(letter.__rich_repr__()))
    odd = Letter(1, bytearray(SECRET), [SECRET])  # type: ignore[arg-type]
    assert repr(odd) == "Letter(sender=1, payload=<bytearray>, entries=<list>)"


def test_the_network_shows_no_payloads() -> None:
    network = LocalNetwork(record=True)
    network.send(0, 1, "share", SECRET)
    assert_silent(repr(network) + repr(network.view(1)) + repr(network.traffic))


LONG = SECRET + b"!"
ENTRY = np.array([NUMBER % 2**32], dtype=np.uint32)


@pytest.mark.parametrize(
    "call",
    [
        lambda: KeyPair(LONG),
        lambda: SealingKey(LONG),
        lambda: derive(LONG, "mask"),
        lambda: Prg(LONG),
        lambda: Keystream(LONG),
        lambda: BlockPrf(LONG),
        lambda: KeyPair(SECRET).exchange(bytes(32)),
        lambda: KeyPair(SECRET).agree(KeyPair(SECRET).public, "mask"),
        lambda: open_sealed(SECRET, LONG),
        lambda: open_sealed(LONG, SECRET),
        lambda: Letter.from_bytes(b"\x01" + LONG),
        lambda: Letter.from_bytes(Letter(1, SECRET, (SECRET,)).to_bytes()[:-1]),
        lambda: Letter(-NUMBER, SECRET, ()).to_bytes(),
        lambda: Letter(1, SECRET, (SECRET, SECRET.decode() + "\ud800")).to_bytes(),  # type: ignore[arg-type]
        lambda: Ring(8).check(ENTRY),
        lambda: Ring(20).check(ENTRY),
        lambda: Ring(20).from_bytes(SECRET, 8),
        lambda: Ring(20).from_bytes(LONG, 8),
        lambda: Ring(64).reduce([NUMBER, 0.5]),
        lambda: round_unbiased(np.array([float(NUMBER) * 2**20]), SYSTEM_RNG),
    ],
)
def test_an_error_about_a_secret_is_silent_and_so_is_what_hangs_on_it(
    call: Callable[[], object],
) -> None:
    with pytest.raises(ToolkitError) as caught:
        call()
    error = caught.value
    told = "".join(traceback.format_exception_only(error))
    for linked in (error.__cause__, error.__context__):
        told += "".join(traceback.format_exception_only(linked)) + repr(vars(linked or error))
    assert_silent(told + repr(error.args) + repr(vars(error)))
    assert str(ENTRY[0]) not in told
