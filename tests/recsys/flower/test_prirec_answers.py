"""What a node tells of visits: randomized bits, the same in every run, and not of everybody's."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ldp.randomized_response import RandomizedResponse
from mpc.core.errors import AbortError
from recsys.config import TrainConfig
from recsys.data.city import CityConfig, synthetic_city
from recsys.data.prepare import PrepareConfig
from recsys.errors import DataError, PrivacyRefusal
from recsys.features import answers, assemble, assemble_from
from recsys.flower.prirec_answers import answer
from recsys.flower.prirec_visits import NodeVisits, Places, own_visits, partition, public_places
from recsys.simulation import SimulationRng
from tests.recsys.flower.prirec_runs import NODE_IDS, SET, SMALL, grid_of, over_flower
from tests.recsys.worlds import seeded_coins

KEY = bytes(range(32))


def config_of(**changes: Any) -> TrainConfig:
    return TrainConfig(**{"seed": None, "neighbours": 0, **changes})


def visits_of(part: tuple[int, int] = (1, 4), **changes: Any) -> NodeVisits:
    config = config_of()
    places = public_places(SET, "", config.prepare)
    found = partition(SET, part, places, config, 0)
    return NodeVisits(found.prepared, found.ids, **{"own": True, **changes})


def test_nodes_together_answer_what_everybody_answers_in_one_process() -> None:
    """The same bits by the same coins, added up by node: the features are equal to the last bit."""
    for dynamic in ("visitors", "average", "three"):
        config = config_of(seed=7, dynamic=dynamic)
        places, sim = public_places(SET, "", config.prepare), SimulationRng(7)
        whole = partition(SET, (0, 1), places, config, 7).prepared
        parts = [partition(SET, (k, 3), places, config, 7) for k in range(3)]
        total = np.sum([answer(part, config, KEY, None) for part in parts], axis=0)

        def coins(*asked: Any, sim: SimulationRng = sim) -> Any:
            return seeded_coins(sim, *asked)

        assert np.array_equal(total, answers(whole, config, coins))
        features = assemble_from(places.nobody(), config, np.zeros((0, 0)), total, whole.n_users)
        assert np.array_equal(features.poi, assemble(whole, config, sim, coins).poi)


def test_answers_are_randomized_bits() -> None:
    """Of 16 users; at epsilon = 1 a bit is turned with probability 0.27, so some are."""
    visits = visits_of(own=False)
    keep = RandomizedResponse.from_epsilon(1.0).keep / 2**64
    told = answer(visits, config_of(), KEY, None)
    prepared = visits.prepared
    true = np.bincount(prepared.visitors.pois, minlength=prepared.n_pois)
    assert told.shape == (1, prepared.n_pois)
    assert ((told >= 0) & (told <= prepared.n_users)).all()
    assert not np.array_equal(told[0], true)
    expected = true * keep + (prepared.n_users - true) * (1 - keep)
    spread = np.sqrt(prepared.n_users * keep * (1 - keep) * prepared.n_pois)
    assert abs(told.sum() - expected.sum()) < 6.5 * spread  # false alarm below 1e-10


def test_a_second_run_gets_the_same_answers_and_another_key_others(tmp_path: Path) -> None:
    visits, config = visits_of(), config_of()
    first = answer(visits, config, KEY, tmp_path)
    assert np.array_equal(answer(visits, config, KEY, tmp_path), first)
    assert not np.array_equal(answer(visits, config, KEY[::-1], tmp_path), first)


def test_answers_belong_to_users_and_pois_by_name(tmp_path: Path) -> None:
    """Who else is on the node, and in which order, changes nobody's coins."""
    whole = visits_of((0, 1))
    halves = [visits_of((k, 2)) for k in range(2)]
    config = config_of()
    together = answer(whole, config, KEY, tmp_path)
    assert np.array_equal(sum(answer(half, config, KEY, tmp_path) for half in halves), together)


@pytest.mark.parametrize(
    "changes", [{"epsilon": 2.0}, {"dynamic": "three"}, {"dynamic": "average"}], ids=str
)
def test_a_node_answers_in_one_way_for_ever(tmp_path: Path, changes: dict[str, Any]) -> None:
    """Under another epsilon the same coins would tell the true bit."""
    visits = visits_of()
    answer(visits, config_of(), KEY, tmp_path)
    with pytest.raises(PrivacyRefusal, match="has answered before"):
        answer(visits, config_of(**changes), KEY, tmp_path)
    (tmp_path / "answered.json").write_text("{")
    with pytest.raises(PrivacyRefusal, match="has answered before"):
        answer(visits, config_of(), KEY, tmp_path)


def test_two_epsilons_under_one_coin_tell_the_bit() -> None:
    """The twin: a coin between the two thresholds turns one report and not the other."""
    low, high = (RandomizedResponse.from_epsilon(epsilon) for epsilon in (0.5, 3.0))
    coin = np.array([(low.keep + high.keep) // 2], dtype=np.uint64)
    for bit in (True, False):
        x = np.array([bit])
        reports = (low.perturb_with(x, coin)[0], high.perturb_with(x, coin)[0])
        assert reports == (not bit, bit)


@pytest.mark.parametrize(
    ("changes", "folder", "match"),
    [({"seed": 0}, True, "a seed tells every coin"), ({}, False, "without a folder")],
)
def test_a_node_with_visits_of_its_own_refuses(
    tmp_path: Path, changes: dict[str, Any], folder: bool, match: str
) -> None:
    with pytest.raises(PrivacyRefusal, match=match):
        answer(visits_of(), config_of(**changes), KEY, tmp_path if folder else None)


def test_a_node_consents_to_an_epsilon(tmp_path: Path) -> None:
    visits = visits_of()
    with pytest.raises(PrivacyRefusal, match="with epsilon 1, this node answers up to 0"):
        answer(visits, config_of(), KEY, tmp_path, 0.5)
    assert answer(visits, config_of(), KEY, tmp_path, 1.0).any()


def test_with_visits_of_its_own_a_node_consents_to_one_unless_told(tmp_path: Path) -> None:
    nodes, catalogue = own_nodes(tmp_path)
    run = {k: v for k, v in SMALL.items() if k not in ("seed", "data")}
    run |= {"catalogue": str(catalogue), "epochs": 1, "epsilon": 1.5}
    with pytest.raises(AbortError, match="0 of 3 nodes have joined"):
        over_flower(grid_of(run, nodes))
    willing = {node: {**config, "privrec-epsilon": 2} for node, config in nodes.items()}
    assert over_flower(grid_of(run, willing)).users == 64
    wrong = {node: {**config, "privrec-epsilon": "2"} for node, config in nodes.items()}
    with pytest.raises(AbortError, match="0 of 3 nodes have joined"):
        over_flower(grid_of(run, wrong))


def test_nothing_is_asked_where_no_feature_needs_it() -> None:
    told = answer(visits_of(), config_of(model="prirec-"), KEY, None)
    assert told.shape == (0, visits_of().prepared.n_pois)


# Visits of the node's own.


def write_checkins(folder: Path, node: int, nodes: int) -> tuple[Path, Path]:
    """A node's share of a city as a file, and the catalogue of all of its POIs."""
    city = synthetic_city(CityConfig(users=64, pois=40, pois_per_user=10))
    mine = city.users % nodes == node
    path, catalogue = folder / f"{node}.csv", folder / "pois.csv"
    rows = zip(city.users[mine], city.pois[mine], strict=True)
    lines = [f"u{u},{city.poi_ids[p]},{city.lat[p]},{city.lon[p]}" for u, p in rows]
    path.write_text("\n".join(["user,poi,lat,lon", *lines, "u1,nowhere,0,0"]) + "\n")
    every = zip(city.poi_ids, city.lat, city.lon, strict=True)
    text = [f"nobody,{poi},{lat},{lon}" for poi, lat, lon in every]
    catalogue.write_text("\n".join(["user,poi,lat,lon", *text]) + "\n")
    return path, catalogue


def test_own_visits_are_put_on_the_catalogue(tmp_path: Path) -> None:
    path, catalogue = write_checkins(tmp_path, 1, 4)
    config = config_of(prepare=PrepareConfig(min_visitors=10))
    places = public_places("", str(catalogue), config.prepare)
    found = own_visits(str(path), places, config, 3)
    assert found.own
    assert found.left_out == 1
    assert found.ids is None
    assert found.prepared.poi_ids == places.poi_ids
    assert found.prepared.n_users == 16
    assert set(found.prepared.user_ids) == {f"u{u}" for u in range(1, 64, 4)}


def test_a_partition_of_another_set_is_refused() -> None:
    config = config_of()
    places = public_places(SET, "", config.prepare)
    with pytest.raises(DataError, match="are not those of the server"):
        partition("synthetic-city:64x41,pois_per_user=10", (0, 4), places, config, 0)
    with pytest.raises(DataError, match="none of its 64 users falls to this node"):
        partition(SET, (70, 80), places, config, 0)


def test_places_of_nobody_are_a_set_without_visits() -> None:
    places = public_places(SET, "", config_of().prepare)
    nobody = places.nobody()
    assert (nobody.n_users, nobody.n_pois) == (0, len(places.poi_ids))
    assert Places.of(nobody).poi_ids == places.poi_ids


def own_nodes(folder: Path, **more: Any) -> tuple[dict[int, Any], Path]:
    nodes: dict[int, Any] = {}
    catalogue = folder / "pois.csv"
    for index, node in enumerate(NODE_IDS):
        path, catalogue = write_checkins(folder, index, len(NODE_IDS))
        own = {"privrec-data": str(path), "privrec-folder": str(folder / f"node {index}")}
        nodes[node] = {**own, **more}
    return nodes, catalogue


def test_nodes_train_on_visits_of_their_own(tmp_path: Path) -> None:
    """Nobody has the others' visits, and no seed is needed; a second run answers as the first."""
    nodes, catalogue = own_nodes(tmp_path)
    run = {k: v for k, v in SMALL.items() if k not in ("seed", "data")}
    run |= {"catalogue": str(catalogue), "epochs": 2}
    first, second = (over_flower(grid_of(run, nodes)) for _ in range(2))
    assert first.users == 64
    assert first.failed == 0
    assert np.array_equal(first.features.poi, second.features.poi)
    assert not np.array_equal(first.v, second.v)  # it starts at random
    way = json.loads((tmp_path / "node 0" / "answered.json").read_text())
    assert float.fromhex(way["epsilon"]) == 1.0


def test_homes_are_told_with_the_node_s_consent_alone(tmp_path: Path) -> None:
    nodes, catalogue = own_nodes(tmp_path)
    run = {k: v for k, v in SMALL.items() if k not in ("seed", "data")}
    run |= {"catalogue": str(catalogue), "epochs": 1, "network": "geographic", "neighbours": 10}
    with pytest.raises(AbortError, match="0 of 3 nodes have joined"):
        over_flower(grid_of(run, nodes))
    willing = {node: {**config, "privrec-tell-homes": True} for node, config in nodes.items()}
    assert over_flower(grid_of(run, willing)).users == 64
