"""PriRec: Algorithm 2 as the paper has it, both modes alike, and what is refused."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from mpc.core.errors import ParameterError
from recsys.baselines.fm import FM
from recsys.config import TrainConfig
from recsys.data.city import synthetic_city
from recsys.data.prepare import PrepareConfig, Prepared
from recsys.errors import DataError, DivergenceError
from recsys.metrics import pooled_auc
from recsys.network import WEIGHTS
from recsys.prirec import PriRec, PriRecLearner
from recsys.run import MemoryRun
from recsys.scoring import score_pairs
from tests.recsys.worlds import LAST, built, city, everyone, small, world

Floats = NDArray[np.float64]


def learner_of(config: TrainConfig, prepared: Prepared | None = None) -> PriRecLearner:
    data, features, sim = built(city(), config)
    return PriRecLearner(prepared or data, features, config, sim, MemoryRun())


def digest(config: TrainConfig) -> str:
    return PriRec(config).fit(city()).model_digest


# Protocol and simulation


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({}, id="default"),
        pytest.param({"seed": 1}, id="another seed"),
        pytest.param({"seed": 2**64 - 1, "neighbours": 10}, id="ten neighbours"),
        pytest.param({"neighbours": 10, "mix": "update"}, id="a mix for each update"),
        pytest.param({"cohort": 16, "mix": "update"}, id="two cohorts"),
        pytest.param({"relay": True, "epochs": 1}, id="relay"),
        pytest.param({"security": "malicious"}, id="malicious"),
        pytest.param({"security": "malicious", "mix": "update"}, id="malicious, each update"),
        pytest.param({"network": "random", "neighbours": 5}, id="random network"),
        pytest.param({"neighbours": 0}, id="no neighbours"),
        pytest.param({"ring_bits": 64, "frac_bits": 24}, id="wide ring"),
        pytest.param({"ring_bits": 24, "frac_bits": 10, "clip": 2.0}, id="narrow ring"),
        pytest.param({"local_batch": 1, "factors": 2}, id="single samples"),
        pytest.param({"features": "user"}, id="no interaction model"),
        pytest.param({"dynamic": "three"}, id="three dynamic features"),
        pytest.param({"model": "prirec-"}, id="PriRec-"),
        pytest.param({"prepare": PrepareConfig()}, id="early stopping"),
    ],
)
def test_one_seed_gives_one_digest_in_both_modes(changes: dict[str, Any]) -> None:
    config = small(**changes)
    assert digest(config) == digest(replace(config, mode="protocol"))


@pytest.mark.parametrize("weights", [kind for kind in WEIGHTS if kind != "literal"])
def test_every_kind_of_weights_gives_one_digest_in_both_modes(weights: str) -> None:
    config = small(weights=weights, neighbours=4)
    assert digest(config) == digest(replace(config, mode="protocol"))


def test_the_digest_depends_on_what_it_should() -> None:
    """Each change of settings or seed gives another model, or the tests above would be idle."""
    changes: list[dict[str, Any]] = [
        {},
        {"seed": 1},
        {"neighbours": 4},
        {"network": "random"},
        {"weights": "exponential"},
        {"mix": "update"},
        {"cohort": 16},
        {"frac_bits": 12},
        {"mode": "float"},
        {"epsilon": 2.0},
        {"epochs": 3},
    ]
    assert len({digest(small(**change)) for change in changes}) == len(changes)


def test_ring_modes_equal_floating_point_within_half_a_thousandth_of_auc() -> None:
    """l = 32, f = 16 on the synthetic city: AUC within .0005, parameters within rounding."""
    data = synthetic_city()
    ring, plain = (
        PriRec(TrainConfig(mode=mode, seed=0, epochs=12)).fit(data)
        for mode in ("simulate", "float")
    )
    test = ring.prepared_.test
    for of_ring, of_floats in zip(ring.evaluate(test), plain.evaluate(test), strict=True):
        assert of_ring is not None
        assert of_floats is not None
        assert abs(of_ring - of_floats) <= 0.0005
    assert not np.array_equal(ring.files.arrays["w"], plain.files.arrays["w"])
    assert np.abs(ring.files.arrays["w"] - plain.files.arrays["w"]).max() < 0.005


def test_prirec_is_above_fm_on_the_synthetic_city() -> None:
    data = synthetic_city()
    areas = []
    for model in (
        PriRec(TrainConfig(mode="simulate", seed=0, epochs=15)),
        FM(TrainConfig(model="fm", seed=0, epochs=15)),
    ):
        model.fit(data)
        areas.append(model.evaluate(model.prepared_.test)[0] or 0.0)
    assert areas[0] > areas[1] + 0.05


# Algorithm 2


def single(config: TrainConfig, users: int = 5) -> tuple[PriRecLearner, Prepared]:
    """A learner whose users have one sample each, so that an epoch is one round."""
    prepared = world(
        [(user, user, 1 if user % 2 else -1) for user in range(users)], users=users, pois=6
    )
    rng = np.random.default_rng(0)
    _, features, sim = built(city(), config)
    features = replace(features, user=rng.standard_normal((users, 1)), poi=rng.random((6, 3)))
    return PriRecLearner(prepared, features, config, sim, MemoryRun()), prepared


def loss_of(learner: PriRecLearner, prepared: Prepared, w: Floats, v: Floats, user: int) -> float:
    """Eq. 2 for the one sample of ``user``, penalties included."""
    pair = prepared.train.users == user
    score = score_pairs(
        learner.features, w, v, prepared.train.users[pair], prepared.train.pois[pair]
    )
    label = prepared.train.labels[pair]
    penalty = learner.config.penalty_w * (w[user] ** 2).sum()
    penalty += learner.config.penalty_v * (v**2).sum()
    return float(np.log1p(np.exp(-label * score)).sum() + penalty)


def differences(loss: Any, at: Floats, step: float = 1e-5) -> Floats:
    out = np.zeros_like(at)
    for index in np.ndindex(at.shape):
        there, here = at.copy(), at.copy()
        there[index] += step
        here[index] -= step
        out[index] = (loss(there) - loss(here)) / (2 * step)
    return out


@pytest.mark.parametrize("mix", ["update", "epoch"])
def test_an_update_is_eq_8_and_eq_9(mix: str) -> None:
    """Gradients by finite differences of Eq. 2 with its penalties, for a sample of each user.

    With a mix for each update the gradient is that at the model before mixing, as Eq. 8 says;
    with one for each epoch, mixing comes first and the gradient steps follow.
    """
    config = small(
        mode="float", mix=mix, neighbours=2, penalty_w=0.05, penalty_v=0.03, init_scale=0.3
    )
    learner, prepared = single(config)
    learner.epoch(0)
    state, graph = learner.state, learner.network
    w, v = state["w"].copy(), state["v"].copy()
    assert np.abs(w).min(axis=1).max() > 0
    learner.epoch(1)
    mixed = np.array(
        [
            graph.own[i] * w[i]
            + sum(s * w[f] for s, f in zip(graph.weights[i], graph.neighbours[i], strict=True))
            for i in range(len(w))
        ]
    )
    at = w if mix == "update" else mixed
    gradient_v = np.zeros_like(v)
    for user in range(len(w)):

        def of_w(own: Floats, user: int = user) -> float:
            changed = at.copy()
            changed[user] = own
            return loss_of(learner, prepared, changed, v, user)

        def of_v(factors: Floats, user: int = user) -> float:
            return loss_of(learner, prepared, at, factors, user)

        expected = mixed[user] - config.step_w * differences(of_w, at[user])
        assert state["w"][user] == pytest.approx(expected, abs=1e-8)
        gradient_v += differences(of_v, v)
    assert state["v"] == pytest.approx(v - config.step_v * gradient_v, abs=1e-8)


def test_members_of_a_cohort_act_on_the_same_v_and_cohorts_in_turn() -> None:
    """Line 12: everybody pulls V, then acts; line 15: V changes once for each cohort."""
    learner, _ = single(small(mode="float", neighbours=0, cohort=3), users=6)
    seen: list[tuple[int, Floats]] = []
    aggregate = learner.sums.aggregate

    def watched(cohort: int, round_: int, gradients: Floats, coins: Any) -> Floats:
        seen.append((cohort, learner.state["v"].copy()))
        return aggregate(cohort, round_, gradients, coins)

    learner.sums.aggregate = watched  # type: ignore[method-assign]
    learner.epoch(0)
    assert [cohort for cohort, _ in seen] == [0, 1]
    assert not np.array_equal(seen[0][1], seen[1][1])


def test_the_reported_loss_is_the_mean_over_real_samples() -> None:
    learner = learner_of(small(mode="float", neighbours=0, init_scale=1e-12))
    # Untrained models score 0 and lose ln 2 on their first batch; later batches lose less.
    assert 0 < learner.epoch(0) <= np.log(2)
    one = learner_of(small(mode="float", neighbours=0, init_scale=1e-12, local_batch=1000))
    assert one.epoch(0) == pytest.approx(np.log(2))


def test_o26_a_user_without_training_data_follows_her_neighbours() -> None:
    """She is skipped in training, not divided by 0; mixing gives her a model all the same."""
    rows = [row for row in everyone(8) if row[0] != 2]
    prepared = world(rows, test=[(2, 1, 1), (2, 6, -1)], users=8, pois=8)
    models = {}
    for neighbours in (0, 3):
        model = PriRec(small(mode="float", neighbours=neighbours, epochs=3)).fit(prepared)
        models[neighbours] = model.files.arrays["w"]
        assert np.isfinite(model.files.arrays["w"]).all()
        assert model.evaluate(prepared.test)[0] is not None
    assert not models[0][2].any()
    assert models[3][2].any()
    others = np.delete(models[0], 2, axis=0)
    assert others.any(axis=1).all()


# Divergence


@pytest.mark.parametrize("mode", ["float", "simulate", "protocol"])
@pytest.mark.parametrize(("mix", "epoch"), [("epoch", 2), ("update", 1)])
@pytest.mark.parametrize("neighbours", [10, 30])
def test_literal_weights_diverge_and_name_the_epoch(
    mode: str, mix: str, epoch: int, neighbours: int
) -> None:
    config = small(weights="literal", mode=mode, mix=mix, neighbours=neighbours, epochs=5)
    with pytest.raises(DivergenceError, match=f"training diverged in epoch {epoch}: ") as caught:
        PriRec(config).fit(city())
    assert caught.value.epoch == epoch
    assert "weights" in caught.value.remedy


def test_early_stopping_cannot_hide_that_literal_weights_diverge() -> None:
    """The default settings on the synthetic city, S_if = 1 but for the mode."""
    config = TrainConfig(weights="literal", mode="simulate", seed=0, patience=1)
    with pytest.raises(DivergenceError, match="training diverged in epoch 2") as caught:
        PriRec(config).fit(synthetic_city())
    assert caught.value.epoch == 2


def test_no_other_weights_diverge() -> None:
    assert TrainConfig().weights == "half"
    for kind in WEIGHTS:
        if kind != "literal":
            for mix in ("epoch", "update"):
                PriRec(small(weights=kind, mix=mix, frac_bits=4, epochs=3)).fit(city())


# What does not fit


def test_a_ring_without_room_for_the_cohort_is_refused_before_training() -> None:
    config = small(ring_bits=20, frac_bits=16, clip=16.0)
    with pytest.raises(ParameterError, match="which takes 27 bits with the sign: 7 more than"):
        PriRec(config).fit(city())


def test_the_split_shows_in_an_auc_of_users_alone() -> None:
    """Findings on Table 4: sound, a model of users alone is chance; literal, it is below chance."""
    data = synthetic_city()
    areas = {}
    for order in ("sound", "literal"):
        prepare = replace(LAST, order=order)
        config = TrainConfig(
            features="user", mode="simulate", seed=0, neighbours=0, epochs=5, prepare=prepare
        )
        model = PriRec(config).fit(data)
        areas[order] = model.evaluate(model.prepared_.test)[0] or 0.0
    assert abs(areas["sound"] - 0.5) <= 0.01
    assert areas["literal"] < 0.45


def test_three_dynamic_features_need_an_order_of_check_ins() -> None:
    unordered = replace(city(), order=None)
    with pytest.raises(DataError, match="the order of the check-ins is not known"):
        PriRec(small(dynamic="three")).fit(unordered)
    assert PriRec(small()).fit(unordered).history_


def test_held_out_labels_are_what_the_auc_is_taken_on() -> None:
    model = PriRec(small()).fit(city())
    test = model.prepared_.test
    scores = score_pairs(
        model.files.features,
        model.files.arrays["w"],
        model.files.arrays["v"],
        test.users,
        test.pois,
    )
    assert model.evaluate(test)[0] == pooled_auc(test.labels, scores)
