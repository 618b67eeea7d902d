"""FCF: gradients of a device, the server's step, cohorts, modes, refusals, and what leaks."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from mpc.core.errors import ParameterError
from recsys.baselines.fcf import FCF, FCFLearner
from recsys.data.rating_split import split_ratings
from recsys.errors import PrivacyRefusal
from recsys.models.rating_factors import predicted
from recsys.ratings.aggregate_clear import UPLOAD
from recsys.run import MemoryRun
from recsys.simulation import SimulationRng
from tests.recsys.baselines.cases import (
    COLD_USER,
    ITEMS,
    config,
    federated,
    low_rank,
    model,
)
from tests.recsys.worlds import KeepingRun
from tests.support.differences import Floats, central_differences

PENALTY = 2.0


def learner(**changes: Any) -> FCFLearner:
    """A learner whose items are far from zero."""
    settings = config("fcf", **{"dim": 2, "penalty": PENALTY, **changes})
    sim = SimulationRng(0)
    parts = split_ratings(low_rank(), settings.split, sim)
    made = FCFLearner(parts, settings, sim, MemoryRun())
    made.state["items"][...] = np.random.default_rng(1).standard_normal(made.state["items"].shape)
    if not settings.bias:
        made.state["items"][:, -1] = 0
    return made


def members_of(made: FCFLearner) -> Any:
    return np.array([0, 3, 4, 20], dtype=np.int32)


def objective(made: FCFLearner, members: Any) -> float:
    """Half the squared errors and penalties of the members, each at her best row."""
    made.devices.solve(members)
    train = made._train
    mine = np.isin(train.users, members)
    p = made.state["users"][train.users[mine]]
    q = made.state["items"][train.items[mine]]
    errors = train.values[mine] - made.state["mean"] - predicted(p, q)
    own = made.state["users"][members]
    return 0.5 * float(errors @ errors) + 0.5 * PENALTY * float((own**2).sum())


@pytest.mark.parametrize("bias", [True, False])
def test_uploads_are_the_gradient_of_the_members_objective(bias: bool) -> None:
    """Each user's row moves with the items, and at her optimum that changes nothing."""
    made = learner(bias=bias)
    members = members_of(made)
    gradients, errors = made.devices.gradients(members)
    total = np.zeros((ITEMS, 3))
    np.add.at(total, gradients.items, gradients.rows)
    expected = central_differences(lambda: objective(made, members), made.state["items"])
    if not bias:
        expected[:, -1] = 0  # what is left out is not learned
    assert total == pytest.approx(expected, abs=1e-6)
    assert np.abs(expected).max() > 0.1
    assert errors > 0


def test_a_member_uploads_the_items_that_she_rated() -> None:
    made = learner()
    members = members_of(made)
    gradients, _ = made.devices.gradients(members)
    for at, user in enumerate(members):
        rows = slice(gradients.starts[at], gradients.starts[at + 1])
        expected = made._train.items[made._train.users == user]
        assert np.array_equal(gradients.items[rows], expected)


def test_nobody_elses_row_moves() -> None:
    made = learner()
    made.devices.gradients(members_of(made))
    others = np.setdiff1d(np.arange(made.state["users"].shape[0]), members_of(made))
    assert not made.state["users"][others].any()


@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
def test_one_epoch_by_hand(optimizer: str) -> None:
    """One cohort of all: one step by the whole gradient, up to rounding to 2^-16."""
    made = learner(cohort=79, optimizer=optimizer, learning_rate=0.01)
    (members,) = made._cohorts
    before = made.state["items"].copy()
    gradients, errors = made.devices.gradients(members)
    total = PENALTY * before
    np.add.at(total, gradients.items, gradients.rows)
    assert made.epoch(0) == pytest.approx(errors / len(made._train))
    step = total if optimizer == "sgd" else total / (np.abs(total) + 1e-8)
    # At most 79 users add at most one unit of rounding each.
    slack = 79 * 2.0**-16 if optimizer == "sgd" else 0.05
    assert (before - made.state["items"]) / 0.01 == pytest.approx(step, abs=slack)


def test_users_fit_the_items_as_they_are_after_an_epoch() -> None:
    made = learner()
    made.epoch(0)
    users = made.state["users"].copy()
    made.devices.solve(made._active)
    assert np.array_equal(made.state["users"], users)


def test_everybody_with_ratings_is_in_one_cohort() -> None:
    """79 users in cohorts of 20 are three cohorts, none smaller (case O22); one has no rating."""
    made = learner(cohort=20)
    assert sorted(map(len, made._cohorts)) == [26, 26, 27]
    everybody = np.concatenate(made._cohorts)
    assert sorted(everybody) == list(range(COLD_USER))


def test_fewer_users_than_a_cohort_are_one_cohort() -> None:
    made = learner(cohort=500)
    assert [members.size for members in made._cohorts] == [79]
    made.epoch(0)


def test_both_modes_reach_the_same_digest() -> None:
    protocol, simulate = (
        FCF(config("fcf", mode=mode, epochs=3)).fit(low_rank()) for mode in ("protocol", "simulate")
    )
    assert protocol.model_digest == simulate.model_digest
    traffic = federated(protocol).traffic.traffic[UPLOAD]
    assert traffic.messages == 3 * 79
    counts = np.bincount(protocol.parts_.train.users)[:COLD_USER]
    sizes = [federated(protocol).aggregation.upload_bytes(int(count)) for count in counts]
    assert traffic.bytes == 3 * sum(sizes)
    assert UPLOAD not in federated(simulate).traffic.traffic


def test_noise_is_the_same_again_after_a_resume() -> None:
    """Without a seed it follows from the users' own keys, which the run keeps."""
    settings = config("fcf", mode="protocol", seed=None, epochs=3, clip=0.1, laplace=0.2)
    keys = np.arange(80 * 32, dtype=np.uint64).reshape(80, 32).astype(np.uint8)

    class Run(KeepingRun):
        def memo_keys(self, users: int) -> Any:
            return keys

    run = Run()
    whole = FCF(settings).fit(low_rank(), run=run)
    resumed = FCF(settings).fit(low_rank(), run=Run(run.snapshots[0]))
    quiet = FCF(replace(settings, laplace=None)).fit(low_rank(), run=Run())
    assert resumed.model_digest == whole.model_digest
    assert quiet.model_digest != whole.model_digest


def test_only_users_hold_their_rows() -> None:
    assert model("fcf", epochs=1).fit(low_rank()).files.private == {"users"}


def test_a_single_cohort_too_small_to_centre_is_refused() -> None:
    """The totals of so few would tell the ratings of each."""
    data = low_rank()
    few = data.triples.users < 10
    assert data.test is not None
    thin = replace(data, triples=data.triples.part(few), test=data.test[few])
    with pytest.raises(PrivacyRefusal, match="fewer than 16 users"):
        model("fcf").fit(thin)
    model("fcf", min_cohort=3, epochs=1).fit(thin)


@pytest.mark.parametrize("name", ["fcf", "fedmf"])
def test_pseudo_items_are_refused_rather_than_left_out(name: str) -> None:
    with pytest.raises(ParameterError, match=f"{name} uploads no pseudo-interacted items"):
        model(name, aggregate="clear", pseudo=5).fit(low_rank())


def read_ratings(rows: Floats, q: Floats, mean: float) -> Floats:
    """A member's ratings from her upload, by whoever knows the items: the server.

    rows: -error * (p, 1).  At her optimum the errors add up to penalty * her bias.
    """
    errors = -rows[:, -1]
    p = np.median(rows[:, :-1] / rows[:, -1:], axis=0)
    read: Floats = mean + q[:, :-1] @ p + q[:, -1] + errors.sum() / PENALTY + errors
    return read


def test_the_server_reads_ratings_off_a_single_upload() -> None:
    """Every one to within a tenth, from what the module says it leaks: rounding hides no more."""
    made = learner()
    members = made._active
    gradients, _ = made.devices.gradients(members)
    rounded = np.rint(gradients.rows * 2.0**16) / 2.0**16
    worst = 0.0
    for at, user in enumerate(members):
        rows = slice(gradients.starts[at], gradients.starts[at + 1])
        q = made.state["items"][gradients.items[rows]]
        read = read_ratings(rounded[rows], q, float(made.state["mean"][0]))
        truth = made._train.values[made._train.users == user]
        worst = max(worst, float(np.abs(read - truth).max()))
    assert worst < 0.1


def test_the_reading_fails_on_another_users_upload() -> None:
    """A twin that must not pass: the errors of one user with the items of another."""
    made = learner()
    gradients, _ = made.devices.gradients(made._active)
    starts = gradients.starts
    q = made.state["items"][gradients.items[starts[1] : starts[2]]]
    size = min(starts[1], q.shape[0])
    read = read_ratings(gradients.rows[:size], q[:size], float(made.state["mean"][0]))
    truth = made._train.values[made._train.users == 1][:size]
    assert np.abs(read - truth).max() > 0.5
