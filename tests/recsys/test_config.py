"""Settings: every invalid value is refused at once, by its name and with its bound."""

import math
from typing import Any

import numpy as np
import pytest

from mpc.core.errors import ParameterError
from recsys.config import TrainConfig
from recsys.data.prepare import PrepareConfig
from recsys.network import BY_DISTANCE

NAN, INF = math.nan, math.inf

WHOLE = {"factors": 1, "epochs": 1, "patience": 1, "neighbours": 0, "local_batch": 1, "cohort": 1}
WHOLE |= {"min_cohort": 3, "regions": 0}
NAMES = ("model", "mode", "features", "network", "weights", "mix", "security", "dynamic")
ABOVE_0 = ("learning_rate", "learning_rate_v", "init_scale", "clip")
FROM_0 = ("penalty_w", "penalty_v")


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("value", ["", "PriRec", 3, None, ["prirec"]])
def test_an_unknown_choice_is_refused_with_the_known_ones(name: str, value: Any) -> None:
    if (name, value) == ("features", None):
        assert TrainConfig(features=None).feature_kind == "all"
        return
    with pytest.raises(ParameterError, match=f"^{name} must be one of .*, got "):
        TrainConfig(**{name: value})


@pytest.mark.parametrize(("name", "low"), WHOLE.items())
@pytest.mark.parametrize("value", ["below", 2.0, "3", True, NAN, np.float64(4)])
def test_a_count_is_a_whole_number_with_a_lower_bound(name: str, low: int, value: Any) -> None:
    value = low - 1 if value == "below" else value
    with pytest.raises(ParameterError, match=f"^{name} must be an integer of at least {low}, got "):
        TrainConfig(**{name: value})


@pytest.mark.parametrize(("name", "low"), WHOLE.items())
def test_the_lower_bound_itself_is_taken(name: str, low: int) -> None:
    given: dict[str, Any] = {name: np.int64(low)}
    config = TrainConfig(**given)
    assert getattr(config, name) == low
    assert type(getattr(config, name)) is int


@pytest.mark.parametrize("name", ABOVE_0)
@pytest.mark.parametrize("value", [0, 0.0, -1, NAN, INF, -INF, 1e19, "1", True, 10**400])
def test_a_step_or_scale_lies_above_zero(name: str, value: Any) -> None:
    with pytest.raises(ParameterError, match=rf"^{name} must lie in \(0, 1e\+18\], got "):
        TrainConfig(**{name: value})


@pytest.mark.parametrize("name", FROM_0)
@pytest.mark.parametrize("value", [-1e-9, NAN, INF, "0", False])
def test_a_penalty_is_not_negative(name: str, value: Any) -> None:
    with pytest.raises(ParameterError, match=rf"^{name} must lie in \[0, 1e\+18\], got "):
        TrainConfig(**{name: value})
    none: dict[str, Any] = {name: 0}
    assert getattr(TrainConfig(**none), name) == 0


@pytest.mark.parametrize("value", [-0.1, 1.0001, NAN, "half", True])
def test_the_own_weight_is_a_share(value: Any) -> None:
    with pytest.raises(ParameterError, match=r"^own_weight must lie in \[0, 1\], got "):
        TrainConfig(own_weight=value)


@pytest.mark.parametrize("value", [0, -1, NAN, INF, 1e-320, "1", True])
def test_o09_epsilon_is_that_of_the_mechanism(value: Any) -> None:
    with pytest.raises(ParameterError, match=r"^epsilon must be "):
        TrainConfig(epsilon=value)


@pytest.mark.parametrize("value", [-1, 2**64, 1.0, "0", True])
def test_a_seed_is_a_64_bit_number(value: Any) -> None:
    with pytest.raises(ParameterError, match=r"^seed must "):
        TrainConfig(seed=value)


def test_every_seed_in_range_is_taken() -> None:
    assert TrainConfig().seed is None
    for seed in (0, 2**64 - 1, np.uint64(2**64 - 1)):
        assert TrainConfig(seed=seed).seed == int(seed)  # type: ignore[arg-type]


@pytest.mark.parametrize("value", [0, 65, -1, 32.0, "32", True])
def test_ring_bits_are_those_of_a_word(value: Any) -> None:
    with pytest.raises(ParameterError, match=r"^ring_bits must "):
        TrainConfig(ring_bits=value)


@pytest.mark.parametrize("value", [0, -1, 2**31, 10**400, 2.0, NAN, "5", True, None])
def test_a_cap_on_visits_is_a_whole_number_from_1_on(value: Any) -> None:
    with pytest.raises(ParameterError, match=r"^visit_cap must "):
        TrainConfig(visit_cap=value)
    assert TrainConfig(visit_cap=1).visit_cap == 1
    assert type(TrainConfig(visit_cap=np.int64(7)).visit_cap) is int  # type: ignore[arg-type]


@pytest.mark.parametrize("value", [-1, 32, 64, 1.0, True])
def test_o02_fractional_bits_fit_into_the_ring(value: Any) -> None:
    with pytest.raises(ParameterError, match=r"^frac_bits must "):
        TrainConfig(frac_bits=value)
    assert TrainConfig(ring_bits=64, frac_bits=40).frac_bits == 40


@pytest.mark.parametrize("name", ["categories", "relay"])
@pytest.mark.parametrize("value", [0, 1, "true", None])
def test_a_switch_is_true_or_false(name: str, value: Any) -> None:
    with pytest.raises(ParameterError, match=f"^{name} must be true or false, got "):
        TrainConfig(**{name: value})


def test_the_preparation_has_settings_of_its_own() -> None:
    wrong: tuple[Any, ...] = (None, {}, "sound")
    for value in wrong:
        with pytest.raises(ParameterError, match=r"^prepare must be a PrepareConfig, got "):
            TrainConfig(prepare=value)


def test_prirec_minus_cannot_have_dynamic_features() -> None:
    assert TrainConfig(model="prirec-").feature_kind == "static"
    assert TrainConfig(model="prirec-", features="user").feature_kind == "user"
    with pytest.raises(ParameterError, match=r"^features must not be 'all' with prirec-"):
        TrainConfig(model="prirec-", features="all")


@pytest.mark.parametrize("weights", BY_DISTANCE)
def test_a_random_network_has_no_distances_to_weigh_by(weights: str) -> None:
    with pytest.raises(ParameterError, match=f"^weights '{weights}' go by distance"):
        TrainConfig(network="random", weights=weights)
    assert TrainConfig(weights=weights).weights == weights


def test_a_relay_cannot_carry_sums_with_macs() -> None:
    with pytest.raises(ParameterError, match=r"^relay must be left out with security 'malicious'"):
        TrainConfig(relay=True, security="malicious")


def test_settings_that_suit_the_model_are_its_own_unless_given() -> None:
    fm, prirec = TrainConfig(model="fm"), TrainConfig()
    assert fm.is_central
    assert not prirec.is_central
    assert fm.step_w < prirec.step_w
    assert fm.region_count(10_000) > prirec.region_count(10_000) > 0
    assert prirec.region_count(20) == 10
    given = TrainConfig(learning_rate=0.5, learning_rate_v=0.25, regions=7)
    assert (given.step_w, given.step_v, given.region_count(3)) == (0.5, 0.25, 7)


def test_settings_survive_a_file() -> None:
    config = TrainConfig(
        *("prirec", "simulate", "static"),
        seed=2**63,
        regions=4,
        weights="exponential",
        dynamic="average",
        visit_cap=7,
        prepare=PrepareConfig(bounds=(1, 2, 3, 4), max_positives=5),
    )
    assert TrainConfig.from_dict(config.to_dict()) == config
    assert TrainConfig.from_dict({}) == TrainConfig()
    assert config.with_seed(3).seed == 3


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ({"epoch": 3}, "unknown setting 'epoch' (known: categories, "),
        ({"prepare": {"max_negatives": 1}}, "unknown setting of prepare 'max_negatives' (known: "),
        ({"prepare": 3}, "prepare must be a PrepareConfig, got 3"),
        ({"epochs": 0}, "epochs must be an integer of at least 1, got 0"),
        ({"prepare": {"max_positives": 0}}, "max_positives must lie in [1, 2^31 - 1], got 0"),
    ],
)
def test_values_from_a_file_are_checked_alike(values: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ParameterError) as caught:
        TrainConfig.from_dict(values)
    assert str(caught.value).startswith(sentence)


def test_settings_cannot_be_changed_behind_the_checks() -> None:
    with pytest.raises(AttributeError):
        TrainConfig().epochs = 0  # type: ignore[misc]


@pytest.mark.parametrize("model", ["mf", "dmf"])
def test_a_model_by_id_takes_no_features(model: str) -> None:
    assert TrainConfig(model=model).feature_kind == "none"
    with pytest.raises(ParameterError, match=f"features must be left out with {model}"):
        TrainConfig(model=model, features="static")
