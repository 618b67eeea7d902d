"""Sums over nodes from their means, figures in units, and waiting for nodes."""

import numpy as np
import pytest
from flwr.app import ConfigRecord, Message, RecordDict
from hypothesis import given
from hypothesis import strategies as st

from mpc.core.errors import AbortError, ParameterError
from recsys.flower.rounds import ARRAYS, ASKED, FIGURES, Figures, read, wait_for_nodes
from secagg.flower import SecAggConfig
from tests.recsys.flower.fedgnn_runs import grid_of

BITS = 16


@given(
    steps=st.lists(st.integers(-(2**40), 2**40), min_size=1, max_size=200),
    bits=st.sampled_from([0, 4, 16, 24]),
)
def test_the_sum_comes_back_from_the_mean_to_the_last_bit(steps: list[int], bits: int) -> None:
    """A mean is a sum divided and rounded; up to 2^51 steps nothing is lost by that."""
    total, nodes = sum(steps), len(steps)
    figures = Figures(1.0, bits, {})
    found = figures.exact(np.array([total / nodes / 2**bits]), nodes)
    assert found[0] * 2**bits == total


@given(
    most=st.floats(1e-3, 1e9),
    clip=st.floats(1e-2, 1e6),
    bits=st.integers(0, 24),
)
def test_a_unit_is_the_least_power_of_two_that_does_not_widen_the_ring(
    most: float, clip: float, bits: int
) -> None:
    unit = Figures(clip, bits, {"x": most}).unit("x")
    assert np.log2(unit) == int(np.log2(unit))
    assert 1 <= unit <= max(2.0 ** (bits - 4), 1)
    assert most / unit <= clip or unit == max(2.0 ** (bits - 4), 1)
    assert unit == 1 or most / (unit / 2) > clip


def message() -> Message:
    grid_of({})  # which tells Flower where it runs
    content = RecordDict({ASKED: ConfigRecord({"x": 1})})
    return Message(content, 7, "train")


def test_a_reply_has_its_weight_and_its_figures_in_units() -> None:
    figures = Figures(2.0, BITS, {"few": 1.0, "many": 5.0})
    reply = figures.reply(message(), {"a": np.arange(3.0)}, {"few": 0.5, "many": 4.0})
    record = reply.content.metric_records[FIGURES]
    assert dict(record) == {"num-examples": 1, "few": 0.5, "many": 1.0}
    assert np.array_equal(reply.content.array_records[ARRAYS]["a"].numpy(), [0, 1, 2])
    assert figures.totals({"few": 0.25, "many": 0.5}, 2) == {"few": 0.5, "many": 4.0}


@pytest.mark.parametrize("value", [5.1, -5.1, float("nan"), float("inf")])
def test_a_figure_beyond_its_bound_is_refused_without_being_told(value: float) -> None:
    figures = Figures(2.0, BITS, {"many": 5.0})
    with pytest.raises(ParameterError, match="the figure 'many' of this node is beyond") as caught:
        figures.reply(message(), {}, {"many": value})
    assert "5.1" not in str(caught.value)


def test_a_config_gets_clips_and_no_weights() -> None:
    figures = Figures(3.0, 12, {"few": 1.0, "many": 24.0})
    config = figures.configured(SecAggConfig(dropout=0.2))
    assert (config.clip, config.frac_bits, config.max_weight, config.dropout) == (3.0, 12, 1, 0.2)
    assert dict(config.metrics) == {"few": 1.0, "many": 3.0}


def test_a_message_of_something_else_is_refused() -> None:
    with pytest.raises(ParameterError, match="no records 'arrays' and 'asked'"):
        read(message())


def test_nodes_are_waited_for() -> None:
    grid = grid_of({}, 3)
    assert len(wait_for_nodes(grid, 3, 0.0)) == 3
    with pytest.raises(AbortError, match="3 of 4 nodes are connected after 0 s"):
        wait_for_nodes(grid, 4, 0.0)
