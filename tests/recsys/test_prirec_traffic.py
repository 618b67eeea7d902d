"""What a training in protocol mode sends: a closed formula in N, D, K, cohorts, rounds, epochs."""

from itertools import combinations
from typing import Any

import pytest

from mpc.programs import wire_bytes as wire_of
from mpc.secure_sum_messages import PartialSum, ShareMessage, wire_bytes
from mpc.secure_sum_relay import PartyKeys
from recsys.config import TrainConfig
from recsys.prirec import PriRec, PriRecLearner
from secagg.messages import MaskedVector, RoundConfirmed
from secagg.params import PadParams
from tests.recsys.worlds import city, small


def closed_form(model: PriRec, config: TrainConfig, users: int) -> dict[str, tuple[int, int]]:
    """Messages and bytes in N, D, K, cohorts, rounds and epochs, from the messages' own sizes."""
    learner = model.learner_
    assert isinstance(learner, PriRecLearner)
    n, word, epochs = config.neighbours, config.ring_bits // 8, len(model.history_)
    payload = (learner.features.dim + 1) * word
    rounds = learner.batches.rounds
    sums = users * epochs
    if config.mix == "update":
        sums = epochs * int((-(-learner.batches.counts // config.local_batch)).sum())
    masked = users * rounds * epochs
    params = PadParams(
        session=bytes(16),
        clients=tuple(range(users)),
        ring=learner.sums._fixed.ring,  # type: ignore[attr-defined]
        dim=learner.features.dim * config.factors,
    )
    confirmed = sum(
        len(RoundConfirmed(bytes(16), round_).to_bytes()) for round_ in range(rounds * epochs)
    )
    return {
        "secure_sum.share": (
            n * (n - 1) * sums,
            n * (n - 1) * sums * wire_bytes(ShareMessage, payload),
        ),
        "secure_sum.partial": (n * sums, n * sums * wire_bytes(PartialSum, payload)),
        "pads.masked": (masked, masked * params.message_bytes[MaskedVector]),
        "pads.confirmed": (masked, users * confirmed),
    }


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({}, id="default"),
        pytest.param({"neighbours": 7}, id="N"),
        pytest.param({"features": "static", "regions": 4}, id="D"),
        pytest.param({"factors": 2}, id="K"),
        pytest.param({"cohort": 16}, id="cohorts"),
        pytest.param({"epochs": 3}, id="epochs"),
        pytest.param({"local_batch": 2}, id="rounds"),
        pytest.param({"mix": "update"}, id="a mix for each update"),
        pytest.param({"ring_bits": 64}, id="word"),
    ],
)
def test_traffic_is_a_formula_in_n_d_cohorts_rounds_and_epochs(changes: dict[str, Any]) -> None:
    config = small(mode="protocol", **changes)
    model = PriRec(config).fit(city())
    assert model.traffic is not None
    sent = {kind: (cost.messages, cost.bytes) for kind, cost in model.traffic.traffic.items()}
    expected = closed_form(model, config, len(model.prepared_.user_ids))
    assert {kind: sent[kind] for kind in expected} == expected
    # Beside them there is the key agreement: two messages for each member of a cohort.
    rest = {kind: cost for kind, (cost, _) in sent.items() if kind not in expected}
    users = len(model.prepared_.user_ids)
    assert rest == {"pads.key": users, "pads.roster": users}


def test_message_sizes_are_those_of_the_paper_plus_a_header() -> None:
    """54 + 4 (D + 1) bytes for a share, 52 + 4 (D + 1) for a partial sum, D + 1 below 64."""
    for dim in (1, 7, 46, 63):
        assert wire_bytes(ShareMessage, 4 * dim) == 54 + 4 * dim
        assert wire_bytes(PartialSum, 4 * dim) == 52 + 4 * dim


def test_a_relay_carries_every_message_of_the_sums_twice() -> None:
    direct, relayed = (
        PriRec(small(mode="protocol", epochs=1, relay=relay)).fit(city()).traffic
        for relay in (False, True)
    )
    assert direct is not None
    assert relayed is not None
    messages = sum(direct.traffic[f"secure_sum.{kind}"].messages for kind in ("share", "partial"))
    for kind in ("secure_sum.relay_up", "secure_sum.relay_down"):
        assert relayed.traffic[kind].messages == messages
    assert "secure_sum.share" not in relayed.traffic
    assert relayed.traffic["pads.masked"] == direct.traffic["pads.masked"]


@pytest.mark.parametrize("neighbours", [3, 7])
def test_sums_with_macs_are_six_steps_of_everybody_to_everybody(neighbours: int) -> None:
    config = small(mode="protocol", security="malicious", neighbours=neighbours)
    model = PriRec(config).fit(city())
    learner = model.learner_
    assert isinstance(learner, PriRecLearner)
    assert model.traffic is not None
    sums, dim = 40 * len(model.history_), learner.features.dim + 1
    # Inputs and their sum are words of 64 bits; seeds and sigmas have salts of 32 bytes.
    vector, empty, commitment = wire_of(8 * dim), wire_of(0), wire_of(32)
    each = vector + commitment + wire_of(64) + commitment + wire_of(40)
    sent = neighbours * vector + empty + (neighbours + 1) * each
    cost = model.traffic.traffic["program.opening"]
    assert cost.messages == 6 * neighbours * (neighbours + 1) * sums
    assert cost.bytes == neighbours * sent * sums
    assert not [kind for kind in model.traffic.traffic if kind.startswith("secure_sum")]


@pytest.mark.parametrize("mode", ["simulate", "float"])
def test_a_simulation_sends_nothing(mode: str) -> None:
    model = PriRec(small(mode=mode)).fit(city())
    assert model.traffic is not None
    assert model.traffic.messages == 0


def test_a_relay_s_keys_are_agreed_once_and_before_training(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One X25519 exchange for each end of a pair, all in the step of that name."""
    met: list[str] = []
    meet, epoch = PartyKeys.meet, PriRecLearner.epoch

    def counted(keys: PartyKeys, peer: int, public: bytes) -> None:
        met.append("agreed")
        meet(keys, peer, public)

    def marked(learner: PriRecLearner, number: int) -> float:
        met.append("epoch")
        return epoch(learner, number)

    monkeypatch.setattr(PartyKeys, "meet", counted)
    monkeypatch.setattr(PriRecLearner, "epoch", marked)
    model = PriRec(small(mode="protocol", relay=True)).fit(city())
    graph = model.learner_.network  # type: ignore[attr-defined]
    pairs = {
        frozenset(pair)
        for user, neighbours in enumerate(graph.neighbours.tolist())
        for pair in combinations((user, *neighbours), 2)
    }
    assert met == ["agreed"] * (2 * len(pairs)) + ["epoch"] * 2
