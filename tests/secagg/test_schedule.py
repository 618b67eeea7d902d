"""The key schedule: both ends agree, epochs only go forward, and old keys are gone."""

import copy
import pickle

import pytest

from mpc.core.errors import PeerError, StateError
from mpc.core.keys import KeyPair, derive
from mpc.core.rng import Rng
from secagg.messages import Roster
from secagg.params import PadParams, Region
from secagg.schedule import MAX_SKIP, PairChains
from tests.secagg.session import OTHER_SESSION, key_pair, params, roster

FIRST = Region(0, 0, 16)


class Recorder:
    """A stream factory that notes which keys were asked for."""

    def __init__(self) -> None:
        self.keys: list[bytes] = []

    def __call__(self, key: bytes, offset: int) -> Rng:
        self.keys.append(key)
        return _Silent()


class _Silent(Rng):
    def fill(self, out: object) -> None:
        """Leave ``out`` as it is."""


def stream_keys(agreed: PadParams, client: int, epoch: int = 0) -> dict[int, bytes]:
    recorder = Recorder()
    chains = PairChains(agreed, client, key_pair(client), roster(agreed), prg=recorder)
    chains.streams(Region(epoch, 0, 16))
    return dict(zip(chains.peers, recorder.keys, strict=True))


@pytest.mark.parametrize("epoch", [0, 1, 7])
def test_both_ends_of_each_pair_have_the_key_and_nobody_else_has(epoch: int) -> None:
    agreed = params()
    found = {client: stream_keys(agreed, client, epoch) for client in agreed.clients}
    for one, keys in found.items():
        for other, key in keys.items():
            assert found[other][one] == key
    assert len({key for keys in found.values() for key in keys.values()}) == 3


def test_session_params_and_epoch_each_change_every_key() -> None:
    variants = [
        stream_keys(params(), 2),
        stream_keys(params(), 2, epoch=1),
        stream_keys(params(session=OTHER_SESSION), 2),
        stream_keys(params(dim=6), 2),
        stream_keys(params(clients=(2, 5, 9, 11)), 2),
    ]
    keys = [key for variant in variants for key in variant.values()]
    assert len(set(keys)) == len(keys)


def test_an_epoch_is_reached_alike_by_steps_and_at_once() -> None:
    agreed = params()
    recorder = Recorder()
    chains = PairChains(agreed, 2, key_pair(2), roster(agreed), prg=recorder)
    for epoch in range(5):
        chains.streams(Region(epoch, 0, 16))
    assert recorder.keys[-2:] == list(stream_keys(agreed, 2, epoch=4).values())


def test_an_epoch_left_behind_is_refused_and_its_keys_are_gone() -> None:
    agreed = params()
    recorder = Recorder()
    chains = PairChains(agreed, 2, key_pair(2), roster(agreed), prg=recorder)
    chains.streams(FIRST)
    old = set(recorder.keys)
    chains.streams(Region(1, 0, 16))
    with pytest.raises(StateError, match="epoch 0 lies before"):
        chains.streams(FIRST)
    state = [bytes(getattr(chains, name)) for name in ("_chains", "_streams")]
    # Everything that the state can still lead to: its own keys and what they derive.
    within = {part[at : at + 32] for part in state for at in range(0, len(part), 32)}
    later = {derive(key, "secagg.pad.epoch", 2, length=64)[32:] for key in within}
    assert not old & (within | later)


def test_a_far_epoch_is_refused_before_any_hashing() -> None:
    agreed = params()
    chains = PairChains(agreed, 2, key_pair(2), roster(agreed))
    with pytest.raises(StateError, match="epochs ahead"):
        chains.streams(Region(MAX_SKIP, 0, 16))
    assert chains.epoch == -1


def test_a_key_of_low_order_names_its_client() -> None:
    agreed = params()
    honest = roster(agreed)
    forged = Roster(honest.session, honest.clients, (*honest.publics[:2], bytes(32)))
    with pytest.raises(PeerError, match="client 9") as caught:
        PairChains(agreed, 2, key_pair(2), forged)
    assert caught.value.party == 9


def test_chains_cannot_be_copied_or_pickled_and_show_no_key() -> None:
    agreed = params()
    chains = PairChains(agreed, 2, key_pair(2), roster(agreed))
    for clone in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError, match="not picklable"):
            clone(chains)
    assert repr(chains) == "PairChains(client=2, peers=2, epoch=-1)"


def test_a_client_with_another_key_pair_agrees_on_other_keys() -> None:
    agreed = params()
    recorder = Recorder()
    stranger = PairChains(agreed, 2, KeyPair(bytes(range(32))), roster(agreed), prg=recorder)
    stranger.streams(FIRST)
    assert not set(recorder.keys) & set(stream_keys(agreed, 2).values())
