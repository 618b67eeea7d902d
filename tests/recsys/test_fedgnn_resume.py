"""The same again: both modes, seeds, files, and runs that were killed wherever it may be."""

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import recsys.fedgnn
from mpc.core.local import LocalNetwork
from recsys.fedgnn import FedGNN, FedGNNLearner
from recsys.ratings.uploads import GradientUpload
from recsys.report.run_folder import RunFolder
from recsys.run import Run, Snapshot
from secagg.messages import SERVER
from tests.recsys.baselines.cases import COLD_USER
from tests.recsys.fedgnn_cases import (
    PAPER_LIKE,
    WAYS,
    config,
    crowd,
    fitted,
    learner_of,
    named,
)
from tests.recsys.fedgnn_kill_driver import RUNS, USERS, train
from tests.recsys.worlds import KeepingRun, KnownKeysRun
from tests.support.source import ROOT

SECURE: dict[str, Any] = {"gnn": "gcn"}
MET: dict[str, Any] = {"gnn": "ggnn", "neighbours": "trainable", "match_items": 4}
EPOCHS: dict[str, Any] = {"epochs": 4, "patience": 4, "cohort": 15, "min_cohort": 5}

# Both modes.


@pytest.mark.parametrize(
    "way",
    [
        {"gnn": "gcn"},
        {"gnn": "gat", "user_fit": "steps", "residual": False, "optimizer": "sgd"},
        {"gnn": "ggnn", "neighbours": "fixed", "expand_after": 1, "match_items": 4},
        {"gnn": "gcn", "clip": 0.1, "center": False},
        {"gnn": "gcn", "aggregate": "clear"},
        {"gnn": "gat", "aggregate": "clear", "pseudo": 9, "user_fit": "steps", "dropout": 0.2},
        {"gnn": "gcn", "aggregate": "clear", "clip": 0.1, "pseudo": 9, "pseudo_items": "resampled"},
        {"dim": 0},
    ],
    ids=named,
)
def test_one_seed_gives_one_digest_in_both_modes(way: dict[str, Any]) -> None:
    """Whatever is summed and matched, as long as there is no noise."""
    first, second = (fitted(mode=mode, epochs=2, **way) for mode in ("protocol", "simulate"))
    assert first.model_digest == second.model_digest
    assert first.history_ == second.history_
    assert learner_of(first).traffic.bytes > 0
    assert learner_of(second).traffic.bytes == 0


def test_with_noise_the_modes_differ() -> None:
    """By their noise alone, of one law: so equal digests above are no matter of course."""
    noise: dict[str, Any] = {"clip": 0.1, "laplace": 0.05}
    first, second = (fitted(mode=mode, epochs=1, **noise) for mode in ("protocol", "simulate"))
    assert first.model_digest != second.model_digest


def test_modes_agree_without_a_seed_of_the_user_s_too() -> None:
    """Rounding, order and start follow from the run's own seed; keys and pads do not count."""
    first, second = (
        fitted(run=KeepingRun(), mode=mode, epochs=1, seed=None)
        for mode in ("protocol", "simulate")
    )
    assert first.model_digest == second.model_digest


def test_sums_in_chunks_give_the_same_digest(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = fitted(crowd(30), mode="simulate", epochs=2)
    monkeypatch.setattr("recsys.pads.CHUNK_BYTES", 600)
    assert fitted(crowd(30), mode="protocol", epochs=2).model_digest == whole.model_digest


def test_the_seed_decides() -> None:
    first, same, other = (fitted(seed=seed).model_digest for seed in (3, 3, 4))
    assert first == same
    assert first != other


def test_without_a_seed_no_two_runs_are_alike() -> None:
    first, second = (fitted(seed=None, epochs=1).model_digest for _ in range(2))
    assert first != second


# Killed after an epoch.


@pytest.mark.parametrize("way", WAYS, ids=named)
def test_resuming_at_every_epoch_gives_the_same_digest(way: dict[str, Any]) -> None:
    run = KeepingRun()
    whole = fitted(run=run, **EPOCHS, **way)
    assert len(run.snapshots) == 4
    for snapshot in run.snapshots:
        resumed = fitted(run=KeepingRun(snapshot), **EPOCHS, **way)
        assert resumed.model_digest == whole.model_digest
        assert resumed.history_ == whole.history_


@pytest.mark.parametrize(
    "name", ["second moment of items", "first moment of weights", "neighbours"]
)
def test_a_snapshot_that_lacks_something_is_not_enough(name: str) -> None:
    """So what a digest proves above is that all of it is kept."""
    way = {**MET, "expand_after": 1}
    run = KeepingRun()
    whole = fitted(crowd(30), run=run, **EPOCHS, **way)
    kept = run.snapshots[1]
    (kept.users if name == "neighbours" else kept.recommender)[name][:] = 0
    assert (
        fitted(crowd(30), run=KeepingRun(kept), **EPOCHS, **way).model_digest != whole.model_digest
    )


@pytest.mark.parametrize("way", [SECURE, PAPER_LIKE, {**MET, "expand_after": 1}], ids=named)
def test_resuming_through_the_protocols_gives_the_same_digest(way: dict[str, Any]) -> None:
    """With new pads, new sessions and new keys. A seeded run's noise and matching are the same."""
    run = KeepingRun()
    whole = fitted(crowd(30), run=run, mode="protocol", **EPOCHS, **way)
    for snapshot in run.snapshots[:3]:  # before and after the expansion, where there is one
        resumed = fitted(crowd(30), run=KeepingRun(snapshot), mode="protocol", **EPOCHS, **way)
        assert resumed.model_digest == whole.model_digest


def test_a_run_without_a_seed_resumes_likewise() -> None:
    settings: dict[str, Any] = {"seed": None, "epochs": 3, "dropout": 0.1}
    run = KeepingRun()
    whole = fitted(run=run, **settings)
    resumed = fitted(run=KeepingRun(run.snapshots[0]), **settings)
    assert resumed.model_digest == whole.model_digest


@pytest.mark.parametrize("aggregate", ["clear", "secure"])
def test_noise_of_users_own_keys_is_repeated_too(aggregate: str) -> None:
    """So a resumed run tells nothing new; another key gives another model."""
    settings: dict[str, Any] = {
        **{"seed": None, "mode": "protocol", "aggregate": aggregate, "clip": 0.1, "laplace": 0.05},
        **{"pseudo": 5 if aggregate == "clear" else 0, "epochs": 3, "patience": 3},
    }
    run = KnownKeysRun()
    whole = fitted(crowd(30), run=run, **settings)
    for snapshot in run.snapshots[:2]:
        resumed = fitted(crowd(30), run=KnownKeysRun(start=snapshot), **settings)
        assert resumed.model_digest == whole.model_digest
    other = fitted(crowd(30), run=KnownKeysRun(3, start=run.snapshots[0]), **settings)
    assert other.model_digest != whole.model_digest


def uploads_of(run: Run, monkeypatch: pytest.MonkeyPatch, **changes: Any) -> list[list[bytes]]:
    """Of each round of a training in the clear: items and values of all uploads, as sent."""
    network = LocalNetwork(record=True)
    with monkeypatch.context() as patched:
        patched.setattr(recsys.fedgnn, "LocalNetwork", lambda: network)
        fitted(crowd(30), run=run, **changes)
    rounds: dict[int, list[bytes]] = {}
    for delivery in network.view(SERVER):
        if delivery.kind == "ratings.gradients":
            upload = GradientUpload.from_bytes(delivery.data)
            number = int.from_bytes(upload.route[4:], "little")
            rounds.setdefault(number, []).append(upload.route + upload.items + upload.values)
    return [sorted(rounds[number]) for number in sorted(rounds)]


@pytest.mark.parametrize("how", ["sticky", "resampled"])
def test_a_resumed_run_repeats_its_uploads(monkeypatch: pytest.MonkeyPatch, how: str) -> None:
    """To the bit, noise and pseudo items included, so that no repetition tells more."""
    settings: dict[str, Any] = {
        **{"seed": None, "mode": "protocol", "aggregate": "clear", "clip": 0.1, "laplace": 0.05},
        **{"pseudo": 5, "pseudo_items": how, "epochs": 3, "patience": 3},
    }
    run = KnownKeysRun()
    whole = uploads_of(run, monkeypatch, **settings)
    assert len(whole) == 3
    again = uploads_of(KnownKeysRun(start=run.snapshots[0]), monkeypatch, **settings)
    assert again == whole[1:]
    other = uploads_of(KnownKeysRun(1, start=run.snapshots[0]), monkeypatch, **settings)
    assert not set(other[0]) & set(whole[1])


# Killed in the middle of one.


class Kill(BaseException):
    """Nothing catches it."""


def killed_in_round(
    monkeypatch: pytest.MonkeyPatch, count: int, run: Run, way: dict[str, Any]
) -> None:
    """Train until round ``count`` of the run has been summed, and end there."""
    with monkeypatch.context() as patched:
        step = FedGNNLearner._server_step
        steps = 0

        def stops(self: FedGNNLearner, *arguments: Any) -> None:
            nonlocal steps
            steps += 1
            if steps == count:
                raise Kill
            step(self, *arguments)

        patched.setattr(FedGNNLearner, "_server_step", stops)
        with pytest.raises(Kill):
            fitted(crowd(60), run=run, **EPOCHS, **way)


@pytest.mark.parametrize("way", [SECURE, PAPER_LIKE, {**MET, "expand_after": 1}], ids=named)
def test_killed_between_two_rounds_it_repeats_the_epoch(
    monkeypatch: pytest.MonkeyPatch, way: dict[str, Any]
) -> None:
    """Four rounds an epoch; before the expansion, in its epoch, and after it."""
    whole = fitted(crowd(60), run=KeepingRun(), **EPOCHS, **way)
    for count in (2, 7, 14):
        run = KeepingRun()
        killed_in_round(monkeypatch, count, run, way)
        assert len(run.snapshots) == (count - 1) // 4
        last: Snapshot | None = run.snapshots[-1] if run.snapshots else None
        resumed = fitted(crowd(60), run=KeepingRun(last), **EPOCHS, **way)
        assert resumed.model_digest == whole.model_digest
        assert resumed.history_ == whole.history_


def test_killed_by_the_system_it_goes_on_from_its_folder(tmp_path: Path) -> None:
    """Kill -9 in a process of its own, then the same folder again: locks, files, keys and all."""
    for name, (settings, _) in RUNS.items():
        with RunFolder(tmp_path / name, settings={}) as run:
            if settings.get("seed", 0) is None:
                run.experiment_seed()
                run.memo_keys(USERS)
        shutil.copytree(tmp_path / name, tmp_path / "whole" / name)
    driver = subprocess.run(
        [sys.executable, "-m", "tests.recsys.fedgnn_kill_driver", str(tmp_path)],
        cwd=ROOT,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    ended = dict(line.split() for line in driver.stdout.splitlines())
    assert ended == dict.fromkeys(RUNS, str(int(signal.SIGKILL)))
    for name, (settings, rounds) in RUNS.items():
        with RunFolder(tmp_path / name) as run:
            assert run.checkpoints == (rounds - 1) // 4
        assert train(tmp_path / name, settings) == train(tmp_path / "whole" / name, settings)


# Stored.


@pytest.mark.parametrize("way", WAYS, ids=named)
def test_a_saved_model_comes_back_as_it_was(way: dict[str, Any], tmp_path: Path) -> None:
    found = fitted(**way)
    found.save(tmp_path)
    again = FedGNN.load(tmp_path)
    assert again.model_digest == found.model_digest
    assert again.config == config(**way)
    asked = [("u1", "i3"), ("nobody", "i3"), ("u1", "nothing"), (f"u{COLD_USER}", "i2")]
    assert np.array_equal(again.predict(asked).value, found.predict(asked).value)
    assert again.recommend("u1", k=4) == found.recommend("u1", k=4)
