"""Exact laws: what a coalition below the threshold sees depends on the sums alone; broken twins.

Coalitions are the server alone or with one client, t = 2. See ``laws.py`` for what is walked.
"""

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from mpc.core.prg import PrgFactory
from mpc.core.rng import Rng
from secagg.masks import SignedStreams
from tests.secagg.full.laws import CLIENTS, KEY, SEED, Coefficients, Round, Scenario, World

A, B, C = CLIENTS
EVERY = [
    Scenario(late, corrupt)
    for corrupt in (None, *CLIENTS)
    for late in itertools.product((None, *CLIENTS), repeat=2)
    if corrupt is None or corrupt not in late
]
"""A client that is late and corrupt hides nothing from the coalition, and is hidden nothing."""

SOME = [Scenario(late, corrupt) for corrupt in (None, A) for late in ((None, None), (None, C), (B, C), (C, C))]


def name(scenario: Scenario) -> str:
    return f"late {scenario.late} with {scenario.corrupt}"


@pytest.mark.parametrize("scenario", EVERY, ids=name)
def test_one_bit_the_view_depends_on_the_sums_alone(scenario: Scenario) -> None:
    """All twelve masks of both rounds are walked."""
    world = World(1, scenario, walk_known=True)
    assert len(world.pads) == 12
    for sums in itertools.product(range(2), repeat=2):
        assert world.hides(world.with_these_sums(sums))


@pytest.mark.parametrize("scenario", EVERY, ids=name)
def test_two_bits_the_view_depends_on_the_sums_alone(scenario: Scenario) -> None:
    world = World(2, scenario)
    assert world.hides(world.with_these_sums((1, 2)))


@pytest.mark.parametrize("scenario", SOME, ids=name)
def test_with_all_shares_the_view_depends_on_the_sums_alone(scenario: Scenario) -> None:
    """The shares of one client after another, in each round, are walked with the masks."""
    for number, owner in itertools.product(range(2), CLIENTS):
        if owner == scenario.corrupt:
            continue
        world = World(1, scenario, focus=(number, owner))
        assert world.hidden == [SEED if owner == scenario.late[number] else KEY]
        assert world.hides(world.with_these_sums((1, 0)))


@pytest.mark.parametrize("scenario", EVERY, ids=name)
def test_the_kernels_give_the_sums_on_every_tape(scenario: Scenario) -> None:
    world = World(1, scenario, walk_known=True)
    for sums in itertools.product(range(2), repeat=2):
        x = world.with_these_sums(sums)
        for number, total in enumerate(sums):
            assert (world.sums(number, x) == total).all()


@pytest.mark.parametrize("scenario", SOME, ids=name)
def test_the_law_does_show_the_sums(scenario: Scenario) -> None:
    world = World(1, scenario, walk_known=True)
    x = [world.with_these_sums(sums)[:1] for sums in itertools.product(range(2), repeat=2)]
    for one, other in itertools.combinations(x, 2):
        assert not world.hides(np.concatenate([one, other]))
