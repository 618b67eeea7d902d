"""Who drops out of which round, and which rates are refused."""

from typing import Any

import numpy as np
import pytest

from mpc.core.errors import ParameterError
from recsys.config import TrainConfig
from recsys.drop_outs import DropOuts, missing
from recsys.ratings.config import RatingConfig
from recsys.simulation import SimulationRng

COHORTS = [np.arange(0, 40, 2, dtype=np.int32), np.arange(1, 60, 2, dtype=np.int32)]


def opened(rate: float, seed: int = 0) -> DropOuts:
    return DropOuts(COHORTS, rate, SimulationRng(seed))


@pytest.mark.parametrize(
    ("members", "rate", "count"),
    [(20, 0.0, 0), (20, 0.04, 0), (20, 0.05, 1), (100, 0.29, 29), (30, 0.1, 3), (3, 0.99, 2)],
)
def test_the_share_of_a_cohort_that_drops_out_is_rounded_down(
    members: int, rate: float, count: int
) -> None:
    assert missing(members, rate) == count


def test_each_round_of_each_cohort_has_its_own_drop_outs_and_a_seed_repeats_them() -> None:
    drop_outs = opened(0.25)
    seen = {(c, r): drop_outs.gone(c, r).tolist() for c in range(2) for r in range(20)}
    for (cohort, _), gone in seen.items():
        assert len(set(gone)) == len(gone) == missing(COHORTS[cohort].size, 0.25)
        assert gone == sorted(gone)
        assert set(gone) <= set(range(COHORTS[cohort].size))
    assert len({tuple(gone) for (cohort, _), gone in seen.items() if cohort == 0}) > 15
    again = opened(0.25)
    assert {at: again.gone(*at).tolist() for at in reversed(seen)} == seen
    assert opened(0.25, seed=1).gone(0, 0).tolist() != seen[0, 0]


def test_everybody_drops_out_as_often_as_anybody() -> None:
    """2,000 rounds: 500 expected of each, 19 a standard deviation; 7 of them are allowed."""
    drop_outs = opened(0.25)
    counts = np.bincount(np.concatenate([drop_outs.gone(0, r) for r in range(2_000)]), minlength=20)
    assert np.all(np.abs(counts - 500) < 7 * np.sqrt(2_000 * 0.25 * 0.75))


def test_without_a_rate_nobody_drops_out() -> None:
    assert opened(0.0).gone(1, 5).size == 0


@pytest.mark.parametrize("kind", [TrainConfig, RatingConfig])
@pytest.mark.parametrize("rate", [-0.1, 1.0, float("nan"), float("inf"), True, "0.1", None])
def test_a_rate_outside_its_range_is_refused(kind: Any, rate: Any) -> None:
    with pytest.raises(ParameterError, match=r"drop_rate must lie in \[0, 1\)"):
        kind(secagg="full", drop_rate=rate)


@pytest.mark.parametrize("kind", [TrainConfig, RatingConfig])
def test_pads_stand_no_drop_outs(kind: Any) -> None:
    assert kind().secagg == "pads"
    with pytest.raises(ParameterError, match=r"drop_rate must be 0 with secagg pads, got 0\.1"):
        kind(drop_rate=0.1)
    with pytest.raises(ParameterError, match="secagg must be one of pads, full, got 'half'"):
        kind(secagg="half")
    assert kind(secagg="full", drop_rate=0.1).drop_rate == 0.1


def test_sums_in_the_clear_have_no_protocol_to_choose() -> None:
    with pytest.raises(ParameterError, match="secagg full needs aggregate secure"):
        RatingConfig(secagg="full", aggregate="clear")
