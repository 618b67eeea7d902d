"""Which class trains which rating model, and what is said where its library is missing."""

from importlib import metadata
from typing import Any

import pytest

from mpc.core.errors import MissingLibraryError, ParameterError
from recsys.ratings import registry
from recsys.ratings.config import MEANS, MODELS
from recsys.ratings.registry import check_library, libraries_of, load_rating_model, rating_class
from tests.recsys.rating_worlds import fitted


@pytest.mark.parametrize("model", MODELS)
def test_every_model_has_the_class_that_trains_it(model: str) -> None:
    assert model in rating_class(model).models


@pytest.mark.parametrize("model", MODELS)
def test_a_missing_library_is_named_with_its_remedy(
    model: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def none(name: str) -> str:
        raise metadata.PackageNotFoundError(name)

    check_library(model)
    monkeypatch.setattr(metadata, "version", none)
    for library in libraries_of(model)[:1]:
        with pytest.raises(MissingLibraryError, match=f"{model} needs {library}") as error:
            check_library(model)
        assert error.value.remedy == "pip install 'privrec[gnn]'"
    if not libraries_of(model):
        check_library(model)


def test_means_need_no_library() -> None:
    assert not any(libraries_of(model) for model in MEANS)


@pytest.mark.parametrize("module", ["torch", "surprise"])
def test_an_import_that_fails_for_a_library_says_which(
    module: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def absent(model: str) -> Any:
        raise ModuleNotFoundError(f"No module named {module!r}", name=module)

    monkeypatch.setattr(registry, "_import", absent)
    with pytest.raises(MissingLibraryError, match="svdpp needs"):
        rating_class("svdpp")


def test_a_bug_of_ours_is_not_taken_for_a_missing_library(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def broken(model: str) -> Any:
        raise ModuleNotFoundError("No module named 'recsys.nowhere'", name="recsys.nowhere")

    monkeypatch.setattr(registry, "_import", broken)
    with pytest.raises(ModuleNotFoundError, match=r"recsys\.nowhere"):
        rating_class("pmf")


def test_an_unknown_model_is_refused() -> None:
    with pytest.raises(ParameterError, match="model must be one of fedgnn"):
        rating_class("mlp")


def test_a_folder_is_loaded_by_the_class_of_its_model(tmp_path: Any) -> None:
    model = fitted(rating_class("bias"), model="bias")
    model.save(tmp_path)
    loaded = load_rating_model(tmp_path)
    assert type(loaded) is type(model)
    assert loaded.model_digest == model.model_digest
