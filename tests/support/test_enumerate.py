"""The walk over all tapes: it gives each tape once, and laws as exact fractions."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mpc.core.ring import Ring
from tests.support.enumerate import MAX_TAPES, TapeRng, joint, law, tapes


@given(st.lists(st.integers(1, 4), max_size=4))
def test_every_outcome_of_the_draws_is_one_tape(sizes: list[int]) -> None:
    walked = tapes(sizes)
    assert walked.shape == (int(np.prod(sizes, dtype=np.int64)), len(sizes))
    assert walked.dtype == np.uint64
    assert len({tuple(row) for row in walked.tolist()}) == len(walked)
    assert all(
        value < size for row in walked.tolist() for value, size in zip(row, sizes, strict=True)
    )


def test_more_tapes_than_the_limit_are_refused() -> None:
    assert len(tapes([2] * 16)) == MAX_TAPES
    with pytest.raises(ValueError, match=f"{2 * MAX_TAPES} tapes, at most {MAX_TAPES}"):
        tapes([2] * 17)


def test_a_kernel_draws_its_tape_in_order_along_the_batch() -> None:
    walked = tapes([3, 5, 2, 7])
    rng = TapeRng(walked)
    first = rng.words(len(walked), np.uint8)
    rest = rng.words((len(walked), 3), np.uint64)
    assert np.array_equal(np.column_stack([first, rest]), walked)
    assert rng.used == 4
    with pytest.raises(IndexError, match="draws more than the tape holds"):
        rng.words(len(walked), np.uint8)


def test_the_batch_may_be_another_axis() -> None:
    walked = tapes([4, 4])
    shares = TapeRng(walked, axis=1).words((2, 16), np.uint8)
    assert np.array_equal(shares.T, walked)


def test_a_draw_outside_the_batch_is_refused() -> None:
    with pytest.raises(ValueError, match="not the batch of 4 tapes"):
        TapeRng(tapes([4])).words(3, np.uint8)


def test_the_law_of_a_masked_secret_is_uniform_for_every_secret() -> None:
    ring = Ring(2)
    walked = tapes([4])
    laws = [
        law(ring.add(np.full(4, secret, ring.dtype), ring.random(4, TapeRng(walked))))
        for secret in range(4)
    ]
    assert all(found == {bytes([v]): Fraction(1, 4) for v in range(4)} for found in laws)


def test_the_law_shows_a_mask_of_half_the_ring() -> None:
    ring = Ring(2)
    laws = [law(ring.add(np.full(2, s, ring.dtype), tapes([2])[:, 0])) for s in (0, 1)]
    assert laws[0] != laws[1]


def test_the_law_counts_outcomes_of_rows() -> None:
    view = np.array([[1, 2], [1, 2], [2, 1]], dtype=np.uint8)
    assert law(view) == {b"\x01\x02": Fraction(2, 3), b"\x02\x01": Fraction(1, 3)}


def test_parts_stand_side_by_side() -> None:
    one, two = np.array([1, 2], dtype=np.uint8), np.arange(8, dtype=np.uint32).reshape(2, 2, 2)
    assert joint(one, two).tolist() == [[1, 0, 1, 2, 3], [2, 4, 5, 6, 7]]
