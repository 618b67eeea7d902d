"""What graph expansion tells the ledger."""

import math
from dataclasses import replace

import pytest

from mpc.core.errors import ParameterError
from recsys.ratings.expansion_payloads import embedding_noise
from recsys.ratings.expansion_releases import MATCHER, RECOMMENDER, expansion_releases
from recsys.report.ledger import Release
from tests.recsys.ratings.expansions import CONFIG

NOISY = replace(CONFIG, embedding_epsilon=0.7, frac_bits=16)


def test_every_release_is_one_of_the_ledgers() -> None:
    for config in (CONFIG, NOISY):
        for fields in expansion_releases(config, 32, 2):
            release = Release(**fields)
            assert release.rounds == 2
            assert release.to_dict()["epsilon_user"] == "infinity" or release.epsilon_user < 100


def test_without_noise_nothing_has_a_finite_epsilon() -> None:
    releases = expansion_releases(CONFIG, 32)
    assert {fields["epsilon_user"] for fields in releases} == {math.inf}
    [embeddings] = [fields for fields in releases if "user embeddings" in fields["what"]]
    assert embeddings["adversary"] == "no protection"
    assert "2^-8" in embeddings["note"]


@pytest.mark.parametrize(("coordinates", "expansions"), [(1, 1), (32, 1), (32, 3)])
def test_noise_costs_epsilon_for_each_coordinate_of_each_payload(
    coordinates: int, expansions: int
) -> None:
    releases = expansion_releases(NOISY, coordinates, expansions)
    finite = [fields for fields in releases if fields["epsilon_user"] < math.inf]
    [embeddings] = finite
    assert "user embeddings" in embeddings["what"]
    noise = embedding_noise(NOISY)
    assert noise is not None
    assert embeddings["epsilon_unit"] == noise.epsilon <= 0.7
    assert embeddings["epsilon_user"] == pytest.approx(0.7 * coordinates * expansions, rel=1e-9)
    assert embeddings["epsilon_user"] == noise.vector_epsilon(coordinates, expansions)


def test_the_graph_stays_unbounded_however_small_epsilon_is() -> None:
    graph = {fields["what"]: fields for fields in expansion_releases(NOISY, 32)}
    [told] = [fields for what, fields in graph.items() if what.startswith("user-token graph")]
    assert told["sees"] == MATCHER
    assert told["epsilon_user"] == math.inf
    assert "collude" in told["adversary"]


def test_the_recommender_learns_who_takes_part_and_nothing_else() -> None:
    for config in (CONFIG, NOISY):
        seen = [f["what"] for f in expansion_releases(config, 8) if RECOMMENDER in f["sees"]]
        assert seen == ["who takes part in graph expansion"]


@pytest.mark.parametrize("wrong", [0, -1, 1.5])
def test_numbers_that_are_none_are_refused(wrong: float) -> None:
    with pytest.raises(ParameterError, match="coordinates"):
        expansion_releases(CONFIG, wrong)  # type: ignore[arg-type]
    with pytest.raises(ParameterError, match="expansions"):
        expansion_releases(CONFIG, 1, wrong)  # type: ignore[arg-type]
