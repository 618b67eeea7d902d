"""A model on disk: separated by who holds what, never pickled, refused if damaged."""

import io
import json
import pickle
import shutil
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mpc.core.errors import ParameterError
from recsys.array_files import pack_arrays, read_arrays
from recsys.baselines.biases import Biases
from recsys.baselines.fm import FM
from recsys.config import TrainConfig
from recsys.errors import DataError
from recsys.model_files import read_model
from recsys.prirec import PriRec
from recsys.ratings.files import holds_rating_model
from recsys.recommender import Recommender
from tests.recsys.rating_worlds import fitted
from tests.recsys.worlds import city, small

FILES = ("public/model.json", "recommender/model.npz", "users/models.npz")
MODELS = [
    pytest.param(PriRec(small()), id="prirec"),
    pytest.param(PriRec(small(model="prirec-", seed=None)), id="prirec-"),
    pytest.param(FM(TrainConfig(model="fm", seed=0, epochs=2)), id="fm"),
]


@pytest.fixture(scope="module")
def model() -> Recommender:
    return PriRec(small()).fit(city())


@pytest.fixture
def saved(model: Recommender, tmp_path: Path) -> Path:
    model.save(tmp_path / "model")
    return tmp_path / "model"


@pytest.mark.parametrize("model", MODELS)
def test_a_saved_model_comes_back_as_it_was(model: Recommender, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    model.fit(city())
    model.save(str(tmp_path / "model"))
    again = type(model).load(str(tmp_path / "model"))
    assert again.model_digest == model.model_digest
    assert again.config == model.config
    ids = model.files
    pairs = [
        (ids.user_ids[rng.integers(len(ids.user_ids))], ids.poi_ids[rng.integers(len(ids.poi_ids))])
        for _ in range(50)
    ] + [("nobody", "nowhere")]
    before, after = model.predict(pairs), again.predict(pairs)
    assert np.array_equal(before.score, after.score)
    assert after.fallbacks == before.fallbacks == 1
    assert again.recommend("u1", k=9) == model.recommend("u1", k=9)
    test = model.prepared_.test
    assert again.evaluate(test) == model.evaluate(test)


def test_private_features_come_back_too(tmp_path: Path) -> None:
    fitted = PriRec(small()).fit(city(), user_features=np.ones((40, 2)))
    fitted.save(tmp_path)
    again = PriRec.load(tmp_path)
    assert again.files.features.user.tolist() == [[1, 1]] * 40
    assert again.files.features.names == fitted.files.features.names
    assert again.predict([("u1", "p1")]).score == fitted.predict([("u1", "p1")]).score


def test_files_are_separated_by_who_holds_what(saved: Path) -> None:
    found = sorted(
        path.relative_to(saved).as_posix() for path in saved.rglob("*") if path.is_file()
    )
    assert found == list(FILES)
    with np.load(saved / "users" / "models.npz") as users:
        assert set(users.files) == {
            "model.w",
            "user_features",
            "user_ids",
            "visit_users",
            "visit_pois",
        }
    with np.load(saved / "recommender" / "model.npz") as recommender:
        assert not set(recommender.files) & {"model.w", "user_ids", "visit_users", "visit_pois"}
        assert "model.v" in recommender.files
    assert (saved / "users").stat().st_mode & 0o777 == 0o700
    assert (saved / "users" / "models.npz").stat().st_mode & 0o777 == 0o600
    public = json.loads((saved / "public" / "model.json").read_text())
    assert set(public) == {"format", "config", "features", "arrays", "tables", "model_digest"}


def test_the_central_machine_is_held_by_the_recommender(tmp_path: Path) -> None:
    FM(TrainConfig(model="fm", seed=0, epochs=1)).fit(city()).save(tmp_path)
    with np.load(tmp_path / "recommender" / "model.npz") as recommender:
        assert "model.w" in recommender.files


def test_nothing_is_pickled(saved: Path) -> None:
    for name in FILES[1:]:
        with zipfile.ZipFile(saved / name) as archive:
            for member in archive.namelist():
                data = archive.read(member)
                assert data.startswith(b"\x93NUMPY")
                assert np.load(io.BytesIO(data), allow_pickle=False).dtype.kind in "fiU"


class Trap:
    """Unpickling it leaves a mark."""

    sprung = False

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return setattr, (Trap, "sprung", True)


def test_a_pickle_in_the_place_of_an_array_is_refused_unread(saved: Path) -> None:
    path = saved / "users" / "models.npz"
    np.savez(path, allow_pickle=True, w=np.array([Trap()], dtype=object))
    with pytest.raises(DataError, match="damaged array file"):
        PriRec.load(saved)
    path.write_bytes(pickle.dumps(Trap()))
    with pytest.raises(DataError, match="damaged array file"):
        PriRec.load(saved)
    assert not Trap.sprung


@pytest.mark.parametrize("name", FILES)
def test_a_missing_file_is_named(saved: Path, name: str) -> None:
    (saved / name).unlink()
    with pytest.raises(DataError, match=f"{name}: no ") as caught:
        PriRec.load(saved)
    assert caught.value.file == str(saved / name)


def test_a_folder_without_a_model_is_refused_with_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no trained model here; expected the --out folder"):
        PriRec.load(tmp_path / "nowhere")


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("content", [b"", b"{}", b"[]", b"3", b"\xff\xfe", b"PK\x03\x04", b"null"])
def test_a_file_that_holds_something_else_is_refused(
    saved: Path, name: str, content: bytes
) -> None:
    (saved / name).write_bytes(content)
    with pytest.raises(DataError):
        PriRec.load(saved)


@pytest.mark.parametrize("name", FILES)
def test_every_truncation_is_refused(saved: Path, name: str) -> None:
    data = (saved / name).read_bytes()
    for size in range(0, len(data) - 1, max(1, len(data) // 150)):
        (saved / name).write_bytes(data[:size])
        with pytest.raises(DataError):
            PriRec.load(saved)


@pytest.mark.parametrize("name", FILES)
def test_a_flipped_bit_is_refused_or_changes_nothing(
    model: Recommender, saved: Path, name: str
) -> None:
    """No other error, no other model: 400 places in each file."""
    data = (saved / name).read_bytes()
    rng = np.random.default_rng(0)
    refused = 0
    for at in rng.choice(8 * len(data), 400, replace=False):
        changed = bytearray(data)
        changed[at // 8] ^= 1 << (at % 8)
        (saved / name).write_bytes(changed)
        try:
            again = PriRec.load(saved)
        except DataError:
            refused += 1
            continue
        assert again.model_digest == model.model_digest
    assert refused > 100


@pytest.mark.parametrize("part", ["recommender/model.npz", "users/models.npz", "public/model.json"])
def test_parts_of_two_models_are_told_apart_by_the_digest(saved: Path, part: str) -> None:
    other = saved.parent / "other"
    PriRec(small(seed=1)).fit(city()).save(other)
    shutil.copy(other / part, saved / part)
    with pytest.raises(DataError, match=r"do not belong to public/model\.json"):
        PriRec.load(saved)


@pytest.mark.parametrize("key", ["model_digest", "config", "features", "arrays", "tables"])
def test_a_public_file_without_a_key_is_refused(saved: Path, key: str) -> None:
    path = saved / "public" / "model.json"
    public = json.loads(path.read_text())
    del public[key]
    path.write_text(json.dumps(public))
    with pytest.raises(DataError, match=f"'{key}' is missing"):
        PriRec.load(saved)


@pytest.mark.parametrize("name", ["model.v", "poi_features", "poi_ids", "lat", "category_names"])
def test_a_missing_array_is_named(saved: Path, name: str) -> None:
    path = saved / "recommender" / "model.npz"
    arrays = read_arrays(path)
    del arrays[name]
    path.write_bytes(pack_arrays(arrays))
    with pytest.raises(DataError, match=f"'{name}' is missing"):
        PriRec.load(saved)


def test_a_later_format_is_refused_with_the_known_one(saved: Path) -> None:
    path = saved / "public" / "model.json"
    public = json.loads(path.read_text()) | {"format": 3}
    path.write_text(json.dumps(public))
    with pytest.raises(DataError, match="model format 3; expected format 2"):
        PriRec.load(saved)


def test_models_of_visits_and_of_ratings_are_told_apart(saved: Path, tmp_path: Path) -> None:
    fitted(Biases).save(tmp_path / "rated")
    with pytest.raises(DataError, match="a model of ratings; expected a model of visits"):
        PriRec.load(tmp_path / "rated")
    with pytest.raises(DataError, match="a model of visits; expected a model of ratings"):
        Biases.load(saved)
    assert holds_rating_model(tmp_path / "rated")
    assert not holds_rating_model(saved)
    assert not holds_rating_model(tmp_path)


def test_a_rating_model_comes_back_and_damage_is_refused(tmp_path: Path) -> None:
    """The same three files as those of visits, under the same checks."""
    model = fitted(Biases)
    model.save(tmp_path)
    assert Biases.load(tmp_path).model_digest == model.model_digest
    names = {name: read_arrays(tmp_path / name) for name in FILES[1:]}
    for name, arrays in names.items():
        for gone in arrays:
            left = {key: array for key, array in arrays.items() if key != gone}
            (tmp_path / name).write_bytes(pack_arrays(left))
            with pytest.raises(DataError, match=f"'{gone}' is missing"):
                Biases.load(tmp_path)
        (tmp_path / name).write_bytes(pack_arrays(arrays))
    public = json.loads((tmp_path / FILES[0]).read_text())
    for key in set(public) - {"format", "kind"}:
        left = {name: value for name, value in public.items() if name != key}
        (tmp_path / FILES[0]).write_text(json.dumps(left))
        with pytest.raises(DataError, match=f"'{key}' is missing"):
            Biases.load(tmp_path)


def test_a_setting_of_another_version_is_refused(saved: Path) -> None:
    path = saved / "public" / "model.json"
    public = json.loads(path.read_text())
    public["config"]["momentum"] = 0.9
    path.write_text(json.dumps(public))
    with pytest.raises(DataError, match="unknown setting 'momentum'"):
        PriRec.load(saved)


def test_a_class_refuses_a_folder_of_the_other(saved: Path, tmp_path: Path) -> None:
    FM(TrainConfig(model="fm", seed=0, epochs=1)).fit(city()).save(tmp_path / "fm")
    with pytest.raises(ParameterError, match="PriRec trains prirec or prirec-, got model 'fm'"):
        PriRec.load(tmp_path / "fm")
    with pytest.raises(ParameterError, match="FM trains fm, got model 'prirec'"):
        FM.load(saved)
    assert read_model(tmp_path / "fm")[1].model == "fm"


def test_saving_over_a_model_replaces_it(saved: Path) -> None:
    other = PriRec(small(seed=1)).fit(city())
    other.save(saved)
    assert PriRec.load(saved).model_digest == other.model_digest
    assert [path.name for path in saved.rglob(".*")] == []


def test_a_kill_between_two_files_never_gives_a_mixture(
    model: Recommender, saved: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Saving over a model and dying at any write: the old one, the new one, or a refusal."""
    other = PriRec(small(seed=1)).fit(city())
    replace = Path.replace
    for survive in range(4):
        model.save(saved)
        left = survive

        def dying(path: Path, target: Path) -> Path:
            nonlocal left
            if not left:
                raise KeyboardInterrupt
            left -= 1
            return replace(path, target)

        with monkeypatch.context() as patch:
            patch.setattr(Path, "replace", dying)
            if survive < 3:
                with pytest.raises(KeyboardInterrupt):
                    other.save(saved)
            else:
                other.save(saved)
        try:
            digest = PriRec.load(saved).model_digest
        except DataError:
            assert survive in (1, 2)
        else:
            assert digest == (other if survive == 3 else model).model_digest
