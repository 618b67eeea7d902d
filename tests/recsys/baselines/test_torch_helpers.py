"""Threads, dropout, starts, and what is computed once."""

import numpy as np
import pytest
import torch

from recsys.baselines import _network_learner
from recsys.baselines._torch import (
    NO_DROPOUT,
    Dropout,
    Latest,
    Values,
    glorot,
    inference,
    one_thread,
)
from recsys.simulation import SimulationRng
from tests.recsys.baselines.networks import few, network


def test_one_thread_inside_and_as_before_outside() -> None:
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(2)
        with one_thread():
            assert torch.get_num_threads() == 1
        with pytest.raises(ZeroDivisionError), one_thread():
            raise ZeroDivisionError
        assert torch.get_num_threads() == 2
        with inference():
            assert torch.get_num_threads() == 1
            assert not torch.is_grad_enabled()
        assert torch.get_num_threads() == 2
        assert torch.is_grad_enabled()
    finally:
        torch.set_num_threads(before)


def test_dropout_drops_its_share_and_keeps_the_mean() -> None:
    """10^5 entries: the share is off by more than .011 with probability below 1e-9 (Hoeffding)."""
    coins = SimulationRng(0).generator("dropout")
    found = Dropout(0.3, coins)(torch.full((100, 1000), 7.0)).numpy()
    assert set(np.unique(found).tolist()) == {0.0, float(np.float32(7.0) / np.float32(0.7))}
    assert (found == 0).mean() == pytest.approx(0.3, abs=0.011)


def test_dropout_of_rows_takes_them_whole() -> None:
    coins = SimulationRng(0).generator("dropout")
    found = Dropout(0.5, coins)(torch.ones(50, 4), (50, 1)).numpy()
    assert (found == found[:, :1]).all()
    assert 0 < (found[:, 0] == 0).sum() < 50


def test_without_a_share_or_coins_nothing_is_dropped() -> None:
    x = torch.ones(3, 2)
    assert NO_DROPOUT(x) is x
    assert Dropout(0.0, SimulationRng(0).generator("dropout"))(x) is x
    assert Dropout(0.5)(x) is x


def test_weights_start_with_the_variance_of_their_fans() -> None:
    """7.5 * 10^4 weights; the mean of squares is off by .02 of itself in under 1e-9 of seeds."""
    found = glorot(SimulationRng(0), "weights", 5, 100, 150)
    bound = np.sqrt(6 / 250)
    assert found.shape == (5, 100, 150)
    assert np.abs(found).max() <= bound
    assert np.mean(found**2) == pytest.approx(2 / 250, rel=0.02)
    assert not np.array_equal(found, glorot(SimulationRng(0), "others", 5, 100, 150))


def test_what_has_not_changed_is_computed_once() -> None:
    calls: list[float] = []

    def total(values: Values) -> float:
        calls.append(float(values["x"].sum()))
        return calls[-1]

    latest = Latest(total)
    arrays = {"x": np.ones(3)}
    assert latest(arrays) == latest(arrays) == 3.0
    assert len(calls) == 1
    arrays["x"][0] = 5.0
    assert latest(arrays) == 7.0
    assert len(calls) == 2


def test_adam_in_pieces_is_adam(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = network("ngcf", epochs=2).fit(few()).model_digest
    monkeypatch.setattr(_network_learner, "_PIECE", 7)
    assert network("ngcf", epochs=2).fit(few()).model_digest == whole
