"""Accuracy of rating models on real sets, where PRIVREC_DATA names a folder that holds them.

Settings are the defaults and presets; the epoch is picked on the validation part, and the test part
only measures. MovieLens 100K is split as its publishers' u1. Three seeds where a bound is about
their mean, one where a training is long or the bound far.
"""

from functools import cache
from pathlib import Path

import numpy as np
import pytest

from recsys.baselines.biases import Biases
from recsys.data.rating_catalogue import list_rating_sets, resolve
from recsys.fedgnn import FedGNN
from recsys.ratings.config import RatingConfig
from recsys.ratings.model import RatingModel
from recsys.ratings.presets import PRESETS
from recsys.report.costs import Costs
from recsys.report.rating_page import rating_page
from recsys.report.rating_summary import summarise_ratings
from recsys.report.rating_uploads import aggregation_of
from tests.support.pages import Source

MOVIELENS, DOUBAN = "ml-100k", "douban"
HERE = {known.name for known in list_rating_sets()}
SEEDS = (0, 1, 2)

pytestmark = pytest.mark.deep


def sets(*names: str) -> list[str]:
    return [name for name in names if name in HERE]


@cache
def trained(data: str, preset: str = "default", gnn: str | None = None, seed: int = 0) -> FedGNN:
    settings = {**PRESETS[preset], **({} if gnn is None else {"gnn": gnn})}
    config = RatingConfig(mode="simulate", seed=seed, **settings)
    return FedGNN(config).fit(resolve(data))


def rmse(model: RatingModel) -> float:
    found = model.evaluate(model.parts_.test)
    assert found is not None
    return found


@cache
def of_biases(data: str, seed: int) -> float:
    return rmse(Biases(RatingConfig(model="bias", seed=seed)).fit(resolve(data)))


@pytest.mark.parametrize("data", sets(MOVIELENS))
def test_convolution_stays_below_921_thousandths_and_far_below_two_biases(data: str) -> None:
    ours = np.mean([rmse(trained(data, gnn="gcn", seed=seed)) for seed in SEEDS])
    biases = np.mean([of_biases(data, seed) for seed in SEEDS])
    assert ours <= 0.921
    assert ours <= biases - 0.025


@pytest.mark.parametrize("gnn", ["gat", "ggnn"])
@pytest.mark.parametrize("data", sets(MOVIELENS))
def test_the_other_networks_stay_below_930_thousandths(data: str, gnn: str) -> None:
    assert rmse(trained(data, gnn=gnn)) <= 0.930


@pytest.mark.parametrize("data", sets(DOUBAN))
def test_douban_stays_below_740_thousandths(data: str) -> None:
    assert rmse(trained(data)) <= 0.740


@pytest.mark.parametrize("data", sets(MOVIELENS))
def test_local_noise_leaves_it_below_990_thousandths(data: str) -> None:
    model = trained(data, preset="default-ldp")
    aggregation = aggregation_of(model)
    assert aggregation is not None
    assert aggregation.describe().epsilon == pytest.approx(1)
    assert rmse(model) <= 0.990


@pytest.mark.parametrize("data", sets(MOVIELENS))
def test_the_papers_hyper_parameters_end_at_the_constant_and_the_report_says_so(data: str) -> None:
    model = trained(data, preset="paper")
    summary = summarise_ratings(model, Costs(1.0), Path())
    constant = summary.row["constant_rmse"]
    assert abs(rmse(model) - constant) <= 0.002
    assert Source(rating_page(model, summary, "")).text.count(
        f"It ends at the constant predictor: test RMSE {rmse(model):.4f}, the training mean alone "
        f"has {constant:.4f}."
    )
