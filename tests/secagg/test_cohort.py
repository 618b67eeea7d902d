"""The batched form: what it sends equals, byte for byte, what clients and server send."""

import copy
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mpc.core.errors import ParameterError, StateError
from mpc.core.local import LocalNetwork
from mpc.core.prg import Prg
from mpc.core.rng import Rng
from secagg.client import PadClient
from secagg.cohort import CONFIRMED, KEY, MASKED, ROSTER, PadCohort
from secagg.messages import SERVER, AdvertiseKey, MaskedVector, Roster, RoundConfirmed
from secagg.pads import MAX_PAD_BYTES
from secagg.params import PadParams
from secagg.server import PadServer
from secagg.watermark import FileWatermark, MemoryWatermark
from tests.secagg.session import inputs, key_pair, params


def cohort_of(agreed: PadParams, **options: Any) -> PadCohort:
    """A cohort that has agreed with the fixed test keys."""
    keys = [key_pair(client) for client in agreed.clients]
    cohort = PadCohort(agreed, keys=keys, **{"watermark": MemoryWatermark(), **options})
    cohort.agree()
    return cohort


def run_parties(agreed: PadParams, rounds: list[int], network: LocalNetwork) -> list[Any]:
    """The same sessions by party objects, every message over ``network`` as bytes."""
    server, sums = PadServer(agreed), []
    members = {
        client: PadClient(agreed, client, keys=key_pair(client), watermark=MemoryWatermark())
        for client in agreed.clients
    }
    for client, member in members.items():
        network.send(client, SERVER, KEY, member.advertise().to_bytes())
    for delivery in network.receive(SERVER):
        server.collect_key(agreed.decode(AdvertiseKey, delivery.data))
    for client, member in members.items():
        network.send(SERVER, client, ROSTER, server.roster().to_bytes())
        member.receive_roster(agreed.decode(Roster, network.receive(client)[0].data))
    for round in rounds:
        server.open_round(round)
        for (client, member), vectors in zip(
            members.items(), inputs(agreed, seed=round), strict=True
        ):
            for message in member.mask(round, vectors):
                network.send(client, SERVER, MASKED, message.to_bytes())
        for delivery in network.receive(SERVER):
            server.collect(agreed.decode(MaskedVector, delivery.data))
        sums.append(server.finish_round())
        for client, member in members.items():
            network.send(SERVER, client, CONFIRMED, server.notice().to_bytes())
            member.confirm(agreed.decode(RoundConfirmed, network.receive(client)[0].data))
    return sums


@given(
    clients=st.lists(st.integers(0, 2**32 - 1), min_size=3, max_size=5, unique=True),
    bits=st.sampled_from([1, 7, 8, 12, 32, 33, 64]),
    dim=st.integers(1, 9),
    sums=st.integers(1, 3),
    epoch=st.integers(1, 4),
    rounds=st.lists(st.integers(0, 300), min_size=1, max_size=4, unique=True),
    ahead=st.booleans(),
)
def test_every_view_equals_that_of_the_party_objects_byte_for_byte(
    clients: list[int],
    bits: int,
    dim: int,
    sums: int,
    epoch: int,
    rounds: list[int],
    ahead: bool,
) -> None:
    agreed = params(tuple(sorted(clients)), bits=bits, dim=dim, sums=sums, epoch=epoch)
    rounds = sorted(rounds)
    apart, together = LocalNetwork(record=True), LocalNetwork(record=True)
    expected = run_parties(agreed, rounds, apart)
    cohort = cohort_of(agreed, network=together)
    if ahead:
        cohort.expand(rounds[0], rounds[-1] - rounds[0] + 1)
    found = [cohort.run_round(round, inputs(agreed, seed=round)) for round in rounds]
    assert np.array_equal(found, expected)
    for party in (SERVER, *agreed.clients):
        assert together.view(party) == apart.view(party)
    counted = LocalNetwork()
    cohort = cohort_of(agreed, network=counted)
    for round in rounds:
        cohort.run_round(round, inputs(agreed, seed=round))
    assert counted.traffic == together.traffic == apart.traffic


def test_bytes_and_messages_follow_the_formula() -> None:
    """n keys, n rosters, and each round n * sums vectors of header plus payload."""
    n, sums, dim, rounds = 7, 3, 30, 5
    agreed = params(tuple(range(n)), bits=32, dim=dim, sums=sums)
    network = LocalNetwork()
    cohort = cohort_of(agreed, network=network)
    for round in range(rounds):
        cohort.run_round(round, inputs(agreed, seed=round))
    messages = {kind: traffic.messages for kind, traffic in network.traffic.items()}
    assert messages == {KEY: n, ROSTER: n, MASKED: n * sums * rounds, CONFIRMED: n * rounds}
    header = 49  # version, tag, session, route, bits, length of the payload
    assert network.traffic[MASKED].bytes == n * sums * rounds * (header + 4 * dim)


def test_expanding_is_bounded_and_pads_do_not_outlive_their_round() -> None:
    agreed = params(tuple(range(4)), dim=1000, sums=1, epoch=100)
    cohort = cohort_of(agreed)
    too_many = MAX_PAD_BYTES // (4 * agreed.round_bytes) + 1
    with pytest.raises(ParameterError, match="expand fewer rounds"):
        cohort.expand(0, too_many)
    cohort.expand(0, 2)
    held = cohort._pads()._pads
    assert list(held) == [0, 1]
    cohort.run_round(0, inputs(agreed))
    assert list(held) == [1]


def test_each_round_serves_once() -> None:
    agreed = params()
    cohort = cohort_of(agreed)
    cohort.run_round(3, inputs(agreed))
    for round in (3, 0):
        with pytest.raises(StateError, match="are spent"):
            cohort.run_round(round, inputs(agreed, seed=1))
    with pytest.raises(StateError, match="claimed or given up"):
        cohort.expand(2, 4)


@pytest.mark.parametrize(
    "x",
    [
        np.zeros((2, 2, 5), dtype=np.uint32),
        np.zeros((3, 2, 4), dtype=np.uint32),
        np.zeros((3, 10), dtype=np.uint32),
        np.zeros((3, 2, 5), dtype=np.uint64),
        np.zeros((3, 2, 5)),
    ],
    ids=lambda x: f"{x.dtype} {x.shape}",
)
def test_bad_inputs_are_refused_and_the_round_stays_free(x: Any) -> None:
    agreed = params()
    cohort = cohort_of(agreed)
    with pytest.raises(ParameterError):
        cohort.run_round(0, x)
    cohort.run_round(0, inputs(agreed))


def test_calls_out_of_order_and_bad_construction_are_refused() -> None:
    agreed = params()
    cohort = PadCohort(agreed)
    for call in (lambda: cohort.expand(0, 1), lambda: cohort.run_round(0, inputs(agreed))):
        with pytest.raises(StateError, match="call agree first"):
            call()
    cohort.agree()
    with pytest.raises(StateError, match="agreed on its keys already"):
        cohort.agree()
    keys = [key_pair(client) for client in agreed.clients]
    with pytest.raises(ParameterError, match="need a watermark"):
        PadCohort(agreed, keys=keys)
    with pytest.raises(ParameterError, match="2 key pairs for 3 clients"):
        PadCohort(agreed, keys=keys[:2], watermark=MemoryWatermark())


def test_a_claim_is_durable_before_a_pad_exists(tmp_path: Path) -> None:
    """The keystream is opened only for regions that the file already holds."""
    agreed = params(epoch=2)
    path = tmp_path / "marks"
    watermark = FileWatermark.create(path)
    opened: list[int] = []

    def prg(key: bytes, offset: int) -> Rng:
        marks = FileWatermark(path)._read()
        (epoch, stop), *rest = marks.values()
        assert not rest
        assert stop > offset
        opened.append(epoch)
        return Prg(key, offset)

    cohort = cohort_of(agreed, watermark=watermark, prg=prg)
    cohort.expand(1, 4)
    # Six ends of three pairs; rounds 1, 2 and 3, 4 lie in epochs 0, 1, 1 and 2.
    assert opened == [0] * 6 + [1] * 6 + [2] * 6


def test_a_run_that_resumes_cannot_repeat_a_pad(tmp_path: Path) -> None:
    agreed = params()
    path = tmp_path / "marks"
    cohort_of(agreed, watermark=FileWatermark.create(path)).expand(0, 3)
    again = cohort_of(agreed, watermark=FileWatermark(path))
    for round in range(3):
        with pytest.raises(StateError, match="are spent"):
            again.run_round(round, inputs(agreed))
    again.run_round(3, inputs(agreed))


def test_fresh_cohorts_never_share_a_pad() -> None:
    agreed = params()
    views = []
    for _ in range(2):
        network = LocalNetwork(record=True)
        cohort = PadCohort(agreed, network=network)
        cohort.agree()
        cohort.run_round(0, inputs(agreed))
        views.append({d.data for d in network.view(SERVER) if d.kind == MASKED})
    assert len(views[0] | views[1]) == 12


def test_a_cohort_cannot_be_copied_pickled_or_read() -> None:
    cohort = cohort_of(params())
    for clone in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError, match="not picklable"):
            clone(cohort)
    assert repr(cohort) == "PadCohort(clients=3, agreed=True)"
