"""Rows of bits: sums that equal numpy's, and shapes that are checked."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from ldp.bit_reports import checked_bits, checked_shape, column_sums, row_sums
from mpc.core.errors import ParameterError
from mpc.core.prg import Prg
from mpc.core.rng import ONE
from tests.support.strategies import seeds


@given(st.integers(0, 700), st.integers(1, 300), seeds())
def test_sums_are_exact(n: int, k: int, seed: bytes) -> None:
    bits = Prg(seed).bernoulli(ONE // 3, (n, k))
    assert np.array_equal(column_sums(bits), np.sum(bits, axis=0, dtype=np.int64))
    assert np.array_equal(row_sums(bits), np.sum(bits, axis=1, dtype=np.int64))


@pytest.mark.parametrize("k", [1, 2, 7, 255, 256, 257, 65_536])
def test_full_rows_and_columns_do_not_overflow(k: int) -> None:
    n = 2 * 255 * -(-256 // k) + 3
    bits = np.ones((n, k), dtype=np.bool_)
    assert column_sums(bits).tolist() == [n] * k
    assert row_sums(bits).tolist() == [k] * n


@pytest.mark.parametrize("view", [np.s_[::2], np.s_[:, ::2], np.s_[::-1, ::-1]])
def test_any_memory_layout_is_summed(view: slice | tuple[slice, slice]) -> None:
    bits = Prg(bytes(32)).bernoulli(ONE // 3, (1_021, 202))
    for some in (bits[view], np.asfortranarray(bits)[view]):
        assert np.array_equal(column_sums(some), np.sum(some, axis=0, dtype=np.int64))
        assert np.array_equal(row_sums(some), np.sum(some, axis=1, dtype=np.int64))


def test_reports_are_rows_of_k_bits() -> None:
    bits = np.zeros((3, 4), dtype=np.bool_)
    assert checked_bits(bits, 4) is bits
    wrong: list[NDArray[np.bool_]] = [bits.T, bits[0], bits[np.newaxis], bits.astype(np.uint8)]
    for reports in wrong:
        with pytest.raises(ParameterError, match=r"bool array of shape \(n, 4\)"):
            checked_bits(reports, 4)


def test_shapes_are_checked() -> None:
    assert checked_shape((3, 4), 4) == (3, 4)
    for shape in (12, (3,), (4, 3), (-1, 4), (1, 3, 4)):
        with pytest.raises(ParameterError, match=r"shape \(n, 4\)"):
            checked_shape(shape, 4)
