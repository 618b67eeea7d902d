"""The feature vector of a sample: private and public parts, and what is refused."""

import math
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from mpc.core.errors import ParameterError
from recsys.features import Features, assemble
from recsys.prirec import PriRec
from recsys.simulation import SimulationRng
from tests.recsys.worlds import built, city, everyone, seeded_coins, small, world

PREPARED = world(everyone(6), users=6, pois=8)


def features_of(user_features: Any = None, **changes: Any) -> Features:
    sim = SimulationRng(0)
    config = small(**{"features": "static", "regions": 2, **changes})
    return assemble(PREPARED, config, sim, lambda *asked: seeded_coins(sim, *asked), user_features)


def test_a_sample_is_the_user_s_part_beside_the_poi_s() -> None:
    private = np.arange(12.0).reshape(6, 2)
    features = features_of(private)
    users, pois = np.array([4, 0], dtype=np.int32), np.array([7, 3], dtype=np.int32)
    x = features.samples(users, pois)
    assert x.shape == (2, features.dim)
    assert x[:, :2].tolist() == private[[4, 0]].tolist()
    assert x[:, 2:].tolist() == features.poi[[7, 3]].tolist()


@pytest.mark.parametrize("private", [None, np.arange(12.0).reshape(6, 2)])
def test_users_broadcast_over_their_samples(private: NDArray[np.float64] | None) -> None:
    features = features_of(private)
    users = np.array([[2], [5]], dtype=np.int32)
    pois = np.array([[0, 1, 2], [3, 4, 5]], dtype=np.int32)
    together = features.samples(users, pois)
    assert together.shape == (2, 3, features.dim)
    for row in range(2):
        alone = features.samples(np.repeat(users[row], 3), pois[row])
        assert np.array_equal(together[row], alone)


def test_names_say_which_feature_is_which() -> None:
    features = features_of(np.zeros((6, 1)), features="all")
    assert features.names == (
        *("user:0", "region=0", "region=1", "category=cafe", "category=museum"),
        "dynamic:visitors",
    )
    assert len(features.names) == features.dim
    assert features.poi[0, 2:4].tolist() == [0, 0]  # of unknown category


@pytest.mark.parametrize(
    ("dynamic", "names"),
    [
        ("visitors", ["visitors"]),
        ("average", ["average"]),
    ],
)
def test_each_choice_of_dynamic_features_has_its_columns(dynamic: str, names: list[str]) -> None:
    features = features_of(features="all", dynamic=dynamic)
    assert [count.name for count in features.counts] == names
    assert features.names[-len(names) :] == tuple(f"dynamic:{name}" for name in names)


@pytest.mark.parametrize(
    ("kind", "dim", "dynamic"), [("user", 1, 0), ("static", 5, 0), ("all", 6, 1)]
)
def test_each_kind_adds_its_features(kind: str, dim: int, dynamic: int) -> None:
    features = features_of(np.zeros((6, 1)), features=kind)
    assert features.dim == dim
    assert len(features.counts) == dynamic
    assert features.poi.shape == (8, dim - 1)


def test_prirec_minus_has_no_dynamic_features_and_asks_nobody() -> None:
    model = PriRec(small(model="prirec-")).fit(city())
    assert model.features_.counts == ()
    assert not any(name.startswith("dynamic") for name in model.features_.names)


def test_regions_and_categories_are_optional() -> None:
    assert features_of(regions=0, categories=False).dim == 0
    assert features_of(regions=0).names == ("category=cafe", "category=museum")
    assert features_of(categories=False).names == ("region=0", "region=1")
    # The model's own number of regions is at most half of the POIs.
    assert len(features_of(regions=None, categories=False).names) == 4


def test_neither_model_nor_auc_needs_any_feature() -> None:
    model = PriRec(small(regions=0, categories=False, features="static")).fit(city())
    assert model.files.arrays["v"].size == 0
    assert model.evaluate(model.prepared_.test)[0] is not None


def test_user_features_reach_the_model() -> None:
    prepared, _, _ = built(city(), small())
    private = np.random.default_rng(0).standard_normal((prepared.n_users, 2))
    with_them, without = (
        PriRec(small()).fit(prepared, user_features=given) for given in (private, None)
    )
    assert with_them.features_.dim == without.features_.dim + 2
    assert with_them.files.arrays["w"][:, 1:3].any()
    assert with_them.files.features.user.tolist() == private.tolist()


@pytest.mark.parametrize("dtype", [np.float32, np.int64, np.bool_])
def test_user_features_of_any_number_type_become_doubles(dtype: type) -> None:
    features = features_of(np.ones((6, 2), dtype=dtype))
    assert features.user.dtype == np.float64
    assert features.user.tolist() == [[1, 1]] * 6


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (np.zeros((5, 2)), r"must be numbers of shape \(6, m\), got float64 \(5, 2\)"),
        (np.zeros(6), r"must be numbers of shape \(6, m\), got float64 \(6,\)"),
        (np.full((6, 1), "x"), r"must be numbers of shape \(6, m\), got <U1"),
        (np.full((6, 1), 1j), r"must be numbers of shape \(6, m\), got complex128"),
        (np.array([[0.0]] * 4 + [[math.nan], [1.0]]), "must be finite, row 4 is not"),
        (np.array([[math.inf]] + [[0.0]] * 5), "must be finite, row 0 is not"),
    ],
)
def test_user_features_that_do_not_fit_are_refused(wrong: Any, message: str) -> None:
    with pytest.raises(ParameterError, match=f"user_features {message}"):
        features_of(wrong)
