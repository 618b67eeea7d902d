"""FedMF: the protocol reaches what the simulation does, and messages have their stated size."""

from pathlib import Path

import numpy as np
import pytest

from mpc.core.errors import ParameterError, StateError, WireError
from mpc.paillier.keys import DEFAULT_BITS
from recsys.baselines.fcf import FCF
from recsys.baselines.fedmf import FedMF
from recsys.baselines.fedmf_sum import SUM, UPLOAD, Server
from recsys.errors import PrivacyRefusal
from tests.mpc.paillier.stored_keys import private_key
from tests.recsys.baselines.cases import (
    COLD_USER,
    ITEMS,
    config,
    federated,
    low_rank,
    model,
)
from tests.recsys.baselines.encrypted import (
    BITS,
    SmallKey,
    encrypted_sum,
    learner,
    opened,
    uploads,
)
from tests.support.faults import append, flip_bit, truncate


@pytest.fixture(scope="module")
def protocol() -> SmallKey:
    """Two epochs in which every user encrypts the whole table."""
    return SmallKey(config("fedmf", mode="protocol", epochs=2)).fit(low_rank())


def test_both_modes_reach_the_same_digest(protocol: SmallKey) -> None:
    simulate = SmallKey(config("fedmf", epochs=2)).fit(low_rank())
    assert protocol.model_digest == simulate.model_digest
    assert protocol.history_ == simulate.history_


def test_another_key_changes_nothing() -> None:
    """Nor do its coins: what is decrypted is exact."""
    again = SmallKey(config("fedmf", mode="protocol", epochs=1)).fit(low_rank())
    simulate = FedMF(config("fedmf", epochs=1)).fit(low_rank())
    assert again.model_digest == simulate.model_digest


def test_it_learns_what_fcf_learns() -> None:
    """The same gradients, rounded alike; encryption costs no accuracy."""
    settings = {"epochs": 3, "dim": 2, "penalty": 2.0}
    one = FedMF(config("fedmf", **settings)).fit(low_rank())
    other = FCF(config("fcf", **settings)).fit(low_rank())
    for name, array in one.files.arrays.items():
        assert other.files.arrays[name] == pytest.approx(array)


def test_messages_have_the_stated_size(protocol: SmallKey) -> None:
    """In each epoch one upload from each of 79 users, and three cohorts' sums for all of them."""
    traffic = federated(protocol).traffic.traffic
    size = federated(protocol).aggregation.upload_bytes(1)
    assert traffic[UPLOAD].messages == 2 * 79
    assert traffic[UPLOAD].bytes == 2 * 79 * size
    assert traffic[SUM].messages == 2 * 3 * 79
    assert traffic[SUM].bytes == 2 * 3 * 79 * size


def test_the_simulation_states_the_size_and_sends_nothing(protocol: SmallKey) -> None:
    simulate = SmallKey(config("fedmf", epochs=1)).fit(low_rank())
    of = federated(protocol).aggregation.upload_bytes
    assert [federated(simulate).aggregation.upload_bytes(items) for items in (0, 1, ITEMS)] == [
        of(0),
        of(1),
        of(ITEMS),
    ]
    assert not federated(simulate).traffic.traffic


def test_the_size_by_hand() -> None:
    """150 numbers; 27 times 16 2^16 has 25 bits, sign and guard make 27, so 113 go into 3,071 bits.

    Two ciphertexts of 768 bytes, after a version, four fields, a tag and the key's fingerprint.
    """
    made = model("fedmf", dim=2, epochs=1).fit(low_rank())
    assert DEFAULT_BITS == 3072
    header = 1 + 1 + (1 + 20) + (2 + 32) + 1 + 3
    assert federated(made).aggregation.upload_bytes(7) == header + 2 * 768
    facts = federated(made).aggregation.describe()
    assert (facts.aggregate, facts.mode, facts.all_items) == ("paillier", "simulate", True)
    assert (facts.smallest, facts.largest, facts.coordinates) == (26, 27, 150)


def test_the_recommender_holds_nothing_but_the_mean(tmp_path: Path) -> None:
    made = model("fedmf", epochs=1).fit(low_rank())
    made.save(tmp_path)
    with np.load(tmp_path / "recommender" / "model.npz") as held:
        assert [name for name in held.files if name.startswith("model.")] == ["model.mean"]


def test_a_fresh_key_has_the_stated_size() -> None:
    class Weak(FedMF):
        key_bits = 2048

    key = Weak(config("fedmf"))._draw_key()
    assert key.public.bits == 2048
    assert key.public != Weak(config("fedmf", seed=0))._draw_key().public


def test_noise_is_refused_rather_than_left_out() -> None:
    with pytest.raises(ParameterError, match="fedmf adds no noise"):
        model("fedmf", clip=0.1, laplace=0.2).fit(low_rank())


@pytest.mark.parametrize("mode", ["protocol", "simulate"])
def test_a_cohort_below_the_minimum_is_refused(mode: str) -> None:
    """Every user decrypts its sum."""
    with pytest.raises(PrivacyRefusal, match="a cohort of 13 users is below the minimum of 16"):
        SmallKey(config("fedmf", mode=mode, cohort=13)).fit(low_rank())


# The server


def test_the_server_adds_what_users_decrypt() -> None:
    """Against the uploads decrypted one by one, which no user would do."""
    made = learner()
    members = made._cohorts[0][:4]
    sent = uploads(made, members)
    aggregation = encrypted_sum(made)
    server = aggregation._server
    for data in sent:
        server.add(data)
    total = opened(made, server.total())
    assert np.array_equal(total, np.sum([opened(made, data) for data in sent], axis=0))
    grid, _ = aggregation._encode(made.devices.gradients(members)[0], 0)
    assert np.array_equal(total, aggregation._plan.layout.total(grid))


def test_a_round_starts_at_nothing() -> None:
    made = learner()
    (data,) = uploads(made, made._cohorts[0][:1])
    server = encrypted_sum(made)._server
    for _ in range(2):
        server.add(data)
        assert np.array_equal(opened(made, server.total()), opened(made, data))
    with pytest.raises(StateError, match="nothing was uploaded"):
        server.total()


def test_bytes_that_are_no_upload_are_refused_and_the_sum_stays() -> None:
    made = learner()
    first, second = uploads(made, made._cohorts[0][:2])
    server = encrypted_sum(made)._server
    server.add(first)
    header = len(second) - second[::-1].index(private_key(BITS).public.fingerprint[::-1])
    wrong = [flip_bit(second, bit) for bit in range(8 * header)]
    for data in (b"", truncate(second, len(second) - 1), append(second), *wrong):
        with pytest.raises(WireError):
            server.add(data)
    server.add(second)
    both = opened(made, first) + opened(made, second)
    assert np.array_equal(opened(made, server.total()), both)


def test_another_keys_upload_is_refused() -> None:
    made = learner()
    (data,) = uploads(made, made._cohorts[0][:1])
    packing = encrypted_sum(made)._packing
    with pytest.raises(WireError):
        Server(private_key(2048).public, packing, made.state["items"].size).add(data)


def test_more_uploads_than_a_slot_has_room_for_are_refused() -> None:
    """The largest cohort has 27 members; a 28th upload could spill into the next number."""
    made = learner()
    (data,) = uploads(made, made._cohorts[0][:1])
    server = encrypted_sum(made)._server
    for _ in range(27):
        server.add(data)
    with pytest.raises(ParameterError, match="bits short"):
        server.add(data)
    assert np.array_equal(opened(made, server.total()), 27 * opened(made, data))


def test_users_without_ratings_take_no_part() -> None:
    assert COLD_USER not in np.concatenate(learner()._cohorts)
