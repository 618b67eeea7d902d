"""A run on disk: what is written before it is used, who may read it, and what a kill leaves."""

import json
import stat
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from mpc.core.durable import write_durably
from mpc.core.errors import ParameterError, StateError
from recsys.data.catalogue import resolve
from recsys.data.prepare import PrepareConfig, Prepared, prepare
from recsys.errors import DataError, PrivacyRefusal
from recsys.report import held_folder, toml
from recsys.report.run_folder import RunFolder, data_digest, holds_run
from recsys.run import Snapshot
from recsys.simulation import SimulationRng


def snapshot(value: float, epochs: int = 1) -> Snapshot:
    return Snapshot(
        users={"w": np.full((2, 3), value)},
        recommender={"v": np.full((4, 5), -value)},
        progress={"history": [{"epoch": i + 1} for i in range(epochs)], "best": None},
    )


def json_of(folder: Path, name: str) -> dict[str, object]:
    values: dict[str, object] = json.loads((folder / "public" / name).read_text())
    return values


def test_the_experiment_seed_is_on_disk_before_it_is_returned(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with RunFolder(tmp_path / "run") as run:
        seed = run.experiment_seed()
        assert json_of(run.path, "run.json")["experiment_seed"] == seed
        assert run.experiment_seed() == seed
    with RunFolder(tmp_path / "run") as run:
        assert run.experiment_seed() == seed

    def fails(path: Path, data: bytes, *, mode: int = 0) -> None:
        raise OSError("disk full")

    with RunFolder(tmp_path / "other") as run:
        monkeypatch.setattr(held_folder, "write_durably", fails)
        with pytest.raises(OSError, match="disk full"):
            run.experiment_seed()


def test_two_runs_have_different_seeds_and_memo_keys(tmp_path: Path) -> None:
    with RunFolder(tmp_path / "a") as a, RunFolder(tmp_path / "b") as b:
        assert a.experiment_seed() != b.experiment_seed()
        assert not np.array_equal(a.memo_keys(3), b.memo_keys(3))


def test_memo_keys_are_private_and_the_same_after_a_restart(tmp_path: Path) -> None:
    with RunFolder(tmp_path) as run:
        keys = run.memo_keys(5)
        assert keys.shape == (5, 32)
        assert keys.dtype == np.uint8
        assert len({row.tobytes() for row in keys}) == 5
        assert np.array_equal(run.memo_keys(5), keys)
    with RunFolder(tmp_path) as run:
        assert np.array_equal(run.memo_keys(5), keys)
    assert stat.S_IMODE((tmp_path / "users").stat().st_mode) == 0o700
    assert stat.S_IMODE((tmp_path / "users" / "memo-keys.npz").stat().st_mode) == 0o600


def test_memo_keys_are_on_disk_before_they_are_returned(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written: list[str] = []
    real = write_durably

    def watched(path: Path, data: bytes, *, mode: int = 0o600) -> None:
        real(path, data, mode=mode)
        written.append(path.name)

    with RunFolder(tmp_path) as run:
        monkeypatch.setattr(held_folder, "write_durably", watched)
        run.memo_keys(4)
    # The keys first, then the mark that answers exist, and only then they are returned.
    assert written == ["memo-keys.npz", "run.json"]


def test_lost_memo_keys_are_refused_and_never_redrawn(tmp_path: Path) -> None:
    with RunFolder(tmp_path) as run:
        run.memo_keys(4)
    (tmp_path / "users" / "memo-keys.npz").unlink()
    with RunFolder(tmp_path) as run:
        with pytest.raises(PrivacyRefusal, match="is lost"):
            run.memo_keys(4)
        assert not (tmp_path / "users" / "memo-keys.npz").exists()


def test_damaged_memo_keys_are_refused_whatever_byte_is_wrong(tmp_path: Path) -> None:
    with RunFolder(tmp_path) as run:
        keys = run.memo_keys(4)
    path = tmp_path / "users" / "memo-keys.npz"
    whole = path.read_bytes()
    at = whole.index(keys[2].tobytes())
    path.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
    with RunFolder(tmp_path) as run, pytest.raises(PrivacyRefusal, match="is damaged"):
        run.memo_keys(4)
    path.write_bytes(whole[: len(whole) // 2])
    with RunFolder(tmp_path) as run, pytest.raises(PrivacyRefusal, match="is damaged"):
        run.memo_keys(4)
    path.write_bytes(whole)
    with RunFolder(tmp_path) as run:
        with pytest.raises(PrivacyRefusal, match="does not hold the keys of 7 users"):
            run.memo_keys(7)
        assert np.array_equal(run.memo_keys(4), keys)


def test_no_refusal_shows_a_key(tmp_path: Path) -> None:
    with RunFolder(tmp_path) as run:
        keys = run.memo_keys(4)
        with pytest.raises(PrivacyRefusal) as caught:
            run.memo_keys(5)
    assert keys[0].tobytes().hex()[:8] not in str(caught.value)
    assert str(list(keys[0][:4])) not in repr(caught.value)


def test_a_snapshot_comes_back_exactly(tmp_path: Path) -> None:
    rng = SimulationRng(0).generator("snapshot")
    saved = Snapshot(
        users={"w": rng.standard_normal((7, 3)), "best_w": rng.standard_normal((7, 3))},
        recommender={"v": rng.standard_normal((2, 5))},
        progress={"history": [{"epoch": 1, "loss": 0.1 + 0.2, "auc": None}], "best": None},
    )
    with RunFolder(tmp_path) as run:
        assert run.load() is None
        run.save(saved)
    with RunFolder(tmp_path) as run:
        loaded = run.load()
    assert loaded is not None
    assert loaded.progress == saved.progress
    for part in ("users", "recommender"):
        ours, theirs = getattr(saved, part), getattr(loaded, part)
        assert set(ours) == set(theirs)
        assert all(np.array_equal(ours[name], theirs[name]) for name in ours)


def test_each_party_s_arrays_lie_in_its_own_folder(tmp_path: Path) -> None:
    with RunFolder(tmp_path) as run:
        run.save(snapshot(1.0))
    with np.load(tmp_path / "users" / "checkpoint-0001.npz") as users:
        assert users.files == ["w"]
    with np.load(tmp_path / "recommender" / "checkpoint-0001.npz") as recommender:
        assert recommender.files == ["v"]
    mode = (tmp_path / "users" / "checkpoint-0001.npz").stat().st_mode
    assert stat.S_IMODE(mode) == 0o600
    public = b"".join(p.read_bytes() for p in (tmp_path / "public").iterdir())
    assert np.full(1, 1.0).tobytes() not in public


class Killed(BaseException):
    """The process ends here, as far as the folder can tell."""


@pytest.mark.parametrize("deaths", range(1, 5))
def test_a_kill_while_saving_leaves_the_new_snapshot_or_the_old_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, deaths: int
) -> None:
    with RunFolder(tmp_path) as run:
        run.save(snapshot(1.0, epochs=1))
    real, calls = write_durably, 0

    def dies(path: Path, data: bytes, *, mode: int = 0o600) -> None:
        nonlocal calls
        calls += 1
        if calls == deaths:
            raise Killed
        real(path, data, mode=mode)

    run = RunFolder(tmp_path)
    monkeypatch.setattr(held_folder, "write_durably", dies)
    if deaths < 4:  # a save writes three files
        with pytest.raises(Killed):
            run.save(snapshot(2.0, epochs=2))
    else:
        run.save(snapshot(2.0, epochs=2))
    run.close()
    monkeypatch.setattr(held_folder, "write_durably", real)
    with RunFolder(tmp_path) as after:
        loaded = after.load()
        assert loaded is not None
        expected = 2.0 if deaths == 4 else 1.0
        assert after.checkpoints == len(loaded.progress["history"]) == expected
        assert (loaded.users["w"] == expected).all()
        assert (loaded.recommender["v"] == -expected).all()
        after.save(snapshot(3.0, epochs=3))
    names = sorted(p.name for p in (tmp_path / "users").glob("checkpoint*"))
    assert names == [f"checkpoint-000{int(expected) + 1}.npz"]


def test_half_written_files_are_swept_up(tmp_path: Path) -> None:
    with RunFolder(tmp_path) as run:
        run.save(snapshot(1.0))
    for part in ("users", "recommender", "public"):
        (tmp_path / part / ".checkpoint-0002.npz.0011223344556677.tmp").write_bytes(b"half")
    with RunFolder(tmp_path) as run:
        assert run.load() is not None
    assert list(tmp_path.rglob("*.tmp")) == []


@pytest.mark.parametrize("name", ["users/checkpoint-0001.npz", "recommender/checkpoint-0001.npz"])
def test_a_damaged_checkpoint_is_refused(tmp_path: Path, name: str) -> None:
    with RunFolder(tmp_path) as run:
        run.save(snapshot(1.0))
    path = tmp_path / name
    whole = path.read_bytes()
    at = whole.index(np.full(1, 1.0 if name.startswith("users") else -1.0).tobytes())
    path.write_bytes(whole[:at] + b"\xff" + whole[at + 1 :])
    with RunFolder(tmp_path) as run, pytest.raises(DataError, match="damaged array file"):
        run.load()
    path.unlink()
    with RunFolder(tmp_path) as run, pytest.raises(DataError, match="no such file"):
        run.load()


@pytest.mark.parametrize("name", ["run.json", "state.json", "config.toml"])
@pytest.mark.parametrize("text", ["", "{", "[1]", '"x"', '{"a": 1}', "\x00"])
def test_a_damaged_public_file_is_refused(tmp_path: Path, name: str, text: str) -> None:
    with RunFolder(tmp_path) as run:
        run.save(snapshot(1.0))
    (tmp_path / "public" / name).write_text(text)
    if name == "config.toml" and text in {"", "[1]"}:
        text = "= 1"  # those are valid TOML
        (tmp_path / "public" / name).write_text(text)
    with pytest.raises(DataError, match=f"{name}: damaged file"), RunFolder(tmp_path) as run:
        assert run.settings


def test_a_run_of_another_format_is_refused(tmp_path: Path) -> None:
    RunFolder(tmp_path).close()
    values = {**json_of(tmp_path, "run.json"), "format": 99}
    (tmp_path / "public" / "run.json").write_text(json.dumps(values))
    with pytest.raises(DataError, match="run format 99; expected format 1"):
        RunFolder(tmp_path)


def test_two_processes_cannot_use_one_folder(tmp_path: Path) -> None:
    with RunFolder(tmp_path), pytest.raises(ParameterError, match="in use by another process"):
        RunFolder(tmp_path)
    RunFolder(tmp_path).close()


def test_the_lock_is_released_when_opening_fails(tmp_path: Path) -> None:
    RunFolder(tmp_path).close()
    state = tmp_path / "public" / "state.json"
    state.write_text("{")
    with pytest.raises(DataError):
        RunFolder(tmp_path)
    state.unlink()
    RunFolder(tmp_path).close()


def test_the_watermark_survives_and_its_loss_is_refused(tmp_path: Path) -> None:
    with RunFolder(tmp_path) as run:
        run.watermark().claim(bytes(32), 0, 0, 64)
    with RunFolder(tmp_path) as run, pytest.raises(StateError, match="are spent"):
        run.watermark().claim(bytes(32), 0, 48, 96)
    (tmp_path / "users" / "watermark").unlink()
    with RunFolder(tmp_path) as run, pytest.raises(StateError, match="missing"):
        run.watermark()


def test_settings_are_kept_and_cannot_be_replaced(tmp_path: Path) -> None:
    settings: dict[str, toml.Value] = {
        "data": 'a "city"\\\n\x7f\U0001f3d9',
        "epochs": 3,
        "rate": 1e-07,
        "relay": False,
        "seed": 2**64 - 1,
        "bounds": (1.5, -2.0, 3.0, 4.25),
        "features": None,
    }
    with RunFolder(tmp_path, settings=settings) as run:
        assert run.is_new
        expected = {**settings, "bounds": [1.5, -2.0, 3.0, 4.25]}
        del expected["features"]
        assert run.settings == expected
    with pytest.raises(ParameterError, match="holds a run already"):
        RunFolder(tmp_path, settings=settings)
    with RunFolder(tmp_path) as run:
        assert not run.is_new
        assert run.settings == expected


def test_a_foreign_folder_is_refused_and_left_alone(tmp_path: Path) -> None:
    (tmp_path / "users").mkdir()
    (tmp_path / "users" / "thesis.txt").write_text("mine")
    with pytest.raises(ParameterError, match="not empty and holds no run"):
        RunFolder(tmp_path)
    assert sorted(p.name for p in tmp_path.rglob("*")) == ["thesis.txt", "users"]
    file = tmp_path / "users" / "thesis.txt"
    for force in (False, True):
        with pytest.raises((ParameterError, FileExistsError)):
            RunFolder(file, force=force)
    assert file.read_text() == "mine"


def test_force_replaces_a_run_but_no_file_of_others(tmp_path: Path) -> None:
    (tmp_path / "users").mkdir()
    (tmp_path / "users" / "thesis.txt").write_text("mine")
    with RunFolder(tmp_path, force=True) as run:
        seed, keys = run.experiment_seed(), run.memo_keys(3)
        run.save(snapshot(1.0))
    with RunFolder(tmp_path, force=True) as run:
        assert run.is_new
        assert run.load() is None
        assert run.experiment_seed() != seed
        assert not np.array_equal(run.memo_keys(3), keys)
    assert (tmp_path / "users" / "thesis.txt").read_text() == "mine"


def test_force_does_not_replace_a_run_in_use(tmp_path: Path) -> None:
    with RunFolder(tmp_path) as run:
        seed = run.experiment_seed()
        with pytest.raises(ParameterError, match="in use"):
            RunFolder(tmp_path, force=True)
        assert holds_run(tmp_path)
    with RunFolder(tmp_path) as run:
        assert run.experiment_seed() == seed


def test_discard_leaves_nothing_of_a_run_without_checkpoint(tmp_path: Path) -> None:
    run = RunFolder(tmp_path / "new")
    run.memo_keys(3)
    run.discard()
    run.close()
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "empty").mkdir()
    run = RunFolder(tmp_path / "empty")
    run.discard()
    run.close()
    assert [p.name for p in tmp_path.rglob("*")] == ["empty"]


def test_discard_keeps_a_run_with_a_checkpoint_and_what_it_had_spent(tmp_path: Path) -> None:
    with RunFolder(tmp_path) as run:
        assert run.spent is None
        run.meter = lambda: {"seconds": 1.5}
        run.save(snapshot(1.0))
        run.discard()
    with RunFolder(tmp_path) as run:
        assert run.load() is not None
        assert run.spent == {"seconds": 1.5}


def test_other_versions_are_named(tmp_path: Path) -> None:
    RunFolder(tmp_path).close()
    path = tmp_path / "public" / "run.json"
    values = json.loads(path.read_text())
    values["versions"]["numpy"] = "1.0"
    path.write_text(json.dumps(values))
    with RunFolder(tmp_path) as run:
        (sentence,) = run.changed_versions()
    assert sentence.startswith("the run began with numpy 1.0 and goes on with")


@pytest.fixture(scope="module")
def city() -> Prepared:
    return prepare(resolve("synthetic-city:40x30,pois_per_user=8"), PrepareConfig(min_visitors=3))


def test_a_run_is_bound_to_its_data(tmp_path: Path, city: Prepared) -> None:
    other = prepare(
        resolve("synthetic-city:40x30,pois_per_user=8,seed=1"), PrepareConfig(min_visitors=3)
    )
    digest = data_digest(city, None)
    with RunFolder(tmp_path) as run:
        run.check_data(digest)
        run.check_data(digest)
    with RunFolder(tmp_path) as run:
        with pytest.raises(DataError, match="not those that the run began with"):
            run.check_data(data_digest(other, None))
        run.check_data(digest)


def test_the_data_digest_sees_every_array(city: Prepared) -> None:
    features = np.zeros((city.n_users, 2))
    moved, relabelled = city.lat.copy(), city.test.labels.copy()
    moved[3] += 1e-9
    relabelled[-1] *= -1
    changed = [
        data_digest(city, None),
        data_digest(city, features),
        data_digest(city, features + 1e-12),
        data_digest(replace(city, lat=moved), None),
        data_digest(replace(city, test=replace(city.test, labels=relabelled)), None),
        data_digest(replace(city, train=city.test, test=city.train), None),
        data_digest(replace(city, user_ids=("x", *city.user_ids[1:])), None),
    ]
    assert len(set(changed)) == len(changed)
    renamed = replace(city, name="elsewhere", notes=())
    assert data_digest(renamed, None) == changed[0]
