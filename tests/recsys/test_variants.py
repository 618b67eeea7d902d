"""Rows of a comparison: what each name stands for, and what contradicts it."""

import pytest

from mpc.core.errors import ParameterError
from recsys.config import MODELS, TrainConfig
from recsys.variants import VARIANTS, find_variant, with_variant


def test_the_rows_are_those_of_the_comparison_in_their_order() -> None:
    assert list(VARIANTS) == ["mf", "dmf", "fm", "prirec-", "prirec", "prirec-random", "prirec-n0"]
    assert {variant.model for variant in VARIANTS.values()} == set(MODELS)


@pytest.mark.parametrize("name", VARIANTS)
def test_a_variant_is_a_configuration(name: str) -> None:
    config = TrainConfig(**find_variant(name).settings)
    assert config.model == VARIANTS[name].model


def test_a_variant_stands_for_its_settings() -> None:
    assert with_variant({"model": "prirec-n0", "epochs": 3}) == {
        "model": "prirec",
        "neighbours": 0,
        "epochs": 3,
    }
    assert with_variant({"model": "prirec", "neighbours": 5})["neighbours"] == 5
    assert with_variant({"epochs": 3}) == {"epochs": 3}


def test_a_setting_that_contradicts_its_variant_is_refused() -> None:
    with pytest.raises(ParameterError, match="neighbours must be 0 with prirec-n0, got 5") as error:
        with_variant({"model": "prirec-n0", "neighbours": 5})
    assert error.value.remedy == "leave it out, or choose the model prirec"


def test_an_unknown_variant_is_refused_with_those_there_are() -> None:
    with pytest.raises(ParameterError, match="model must be one of mf, dmf, fm, prirec-, prirec"):
        find_variant("prirec-far")
