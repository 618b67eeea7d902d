"""Session parameters: what is refused, and that no two sums share a byte of pad."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mpc.core.errors import ParameterError
from mpc.core.ring import Ring
from secagg.params import MAX_EPOCH_BYTES, PadParams, Region
from tests.secagg.session import OTHER_SESSION, params

layouts = st.builds(
    params,
    bits=st.sampled_from([1, 8, 9, 32, 33, 64]),
    dim=st.integers(1, 40),
    sums=st.integers(1, 3),
    epoch=st.integers(1, 4),
)


@given(layout=layouts)
def test_the_regions_of_different_sums_never_overlap(layout: PadParams) -> None:
    regions = [layout.region(r, s) for r in range(9) for s in range(layout.sums_per_round)]
    for at, region in enumerate(regions):
        assert region.start % 16 == region.stop % 16 == 0
        assert region.stop - region.start >= layout.dim * layout.ring.element_bytes()
        assert not any(region.overlaps(other) for other in regions[:at])
    assert regions == sorted(regions)


def test_an_overlap_is_seen() -> None:
    region = Region(1, 32, 64)
    assert region.overlaps(Region(1, 48, 80))
    assert region.overlaps(Region(1, 0, 48))
    assert region.overlaps(Region(1, 0, 128))
    assert not region.overlaps(Region(1, 64, 80))
    assert not region.overlaps(Region(2, 32, 64))


@given(layout=layouts, first=st.integers(0, 9), rounds=st.integers(1, 9))
def test_bulk_regions_are_exactly_the_single_ones(
    layout: PadParams, first: int, rounds: int
) -> None:
    at = first
    for count, region in layout.regions(first, rounds):
        assert region.start == layout.region(at, 0).start
        assert region.stop == layout.region(at + count - 1, layout.sums_per_round - 1).stop
        assert {layout.region(r, 0).epoch for r in range(at, at + count)} == {region.epoch}
        at += count
    assert at == first + rounds


@pytest.mark.parametrize(
    "change",
    [
        {"session": OTHER_SESSION},
        {"clients": (2, 5, 10)},
        {"clients": (2, 5, 9, 10)},
        {"ring": Ring(31)},
        {"dim": 6},
        {"sums_per_round": 3},
        {"rounds_per_epoch": 4},
    ],
)
def test_everything_that_moves_a_pad_changes_the_digest(change: dict[str, Any]) -> None:
    assert replace(params(), **change).digest != params().digest


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"session": bytes(15)}, "session must be 16 bytes"),
        ({"session": "0" * 16}, "session must be 16 bytes"),
        ({"clients": (1, 2)}, "at least 3 clients, got 2"),
        ({"clients": ()}, "at least 3 clients, got 0"),
        ({"clients": (1, 1, 2)}, "distinct"),
        ({"clients": (3, 2, 1)}, "rising"),
        ({"clients": (-1, 2, 3)}, "a client must lie"),
        ({"clients": (1, 2, 2**32)}, "a client must lie"),
        ({"min_cohort": 2}, "min_cohort must lie"),
        ({"min_cohort": 4}, "at least 4 clients, got 3"),
        ({"ring": 32}, "ring must be a Ring"),
        ({"dim": 0}, "dim must lie"),
        ({"dim": 2.0}, "dim must be an integer"),
        ({"dim": True}, "dim must be an integer"),
        ({"sums_per_round": 0}, "sums_per_round must lie"),
        ({"rounds_per_epoch": 0}, "rounds_per_epoch must lie"),
        ({"dim": 2**27 - 1, "rounds_per_epoch": 2**20}, "exceeds"),
    ],
)
def test_bad_parameters_are_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        replace(params(), **change)


@pytest.mark.parametrize(
    "fields",
    [
        (0, 8, 16),
        (0, 0, 24),
        (0, 16, 16),
        (0, 32, 16),
        (-1, 0, 16),
        (0, -16, 16),
        (0, 0, MAX_EPOCH_BYTES + 16),
    ],
)
def test_bad_regions_are_refused(fields: tuple[int, int, int]) -> None:
    with pytest.raises(ParameterError):
        Region(*fields)


def test_rounds_and_sums_out_of_range_are_refused() -> None:
    for round, sum_id in [(-1, 0), (2**32, 0), (0, 2), (0, -1)]:
        with pytest.raises(ParameterError):
            params(sums=2).region(round, sum_id)
    for first, rounds in [(0, 0), (2**32 - 1, 2), (-1, 1)]:
        with pytest.raises(ParameterError):
            list(params().regions(first, rounds))
