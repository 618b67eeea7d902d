"""Hypothesis strategies for what protocols take: rings, their elements, shapes, party counts."""

from typing import Any

import numpy as np
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst
from numpy.typing import NDArray

from mpc.core.ring import Ring


def rings(min_bits: int = 1, max_bits: int = 64) -> st.SearchStrategy[Ring]:
    """Rings of every size in the range, the word sizes and their neighbours included."""
    return st.integers(min_bits, max_bits).map(Ring)


def shapes(max_dims: int = 3, max_side: int = 4) -> st.SearchStrategy[tuple[int, ...]]:
    """Array shapes from 0-d on, with empty axes among them."""
    return npst.array_shapes(min_dims=0, max_dims=max_dims, min_side=0, max_side=max_side)


def elements(ring: Ring) -> st.SearchStrategy[int]:
    """Residues of the ring, its ends and its middle more often than chance would."""
    top = 2**ring.bits
    near_edges = {0, 1, top // 2 - 1, top // 2, top - 2, top - 1}
    edges = sorted(value for value in near_edges if 0 <= value < top)
    return st.sampled_from(edges) | st.integers(0, top - 1)


def ring_arrays(
    ring: Ring, shape: tuple[int, ...] | st.SearchStrategy[tuple[int, ...]] | None = None
) -> st.SearchStrategy[NDArray[Any]]:
    """Arrays of ring elements, of a fixed shape or of any."""
    return npst.arrays(ring.dtype, shapes() if shape is None else shape, elements=elements(ring))


def party_counts(least: int = 2, most: int = 8) -> st.SearchStrategy[int]:
    """Numbers of parties."""
    return st.integers(least, most)


def seeds() -> st.SearchStrategy[bytes]:
    """Seeds of 32 bytes, the constant ones among them."""
    constant = st.sampled_from([bytes(32), b"\xff" * 32, bytes(range(32))])
    return constant | st.binary(min_size=32, max_size=32)


def finite_floats(magnitude: float) -> st.SearchStrategy[float]:
    """Finite float64 values up to ``magnitude``, subnormal ones and minus zero among them."""
    return st.floats(-magnitude, magnitude, allow_nan=False, width=64)


def float_arrays(
    magnitude: float, shape: tuple[int, ...] | st.SearchStrategy[tuple[int, ...]] | None = None
) -> st.SearchStrategy[NDArray[np.float64]]:
    """Float64 arrays with entries up to ``magnitude``, of a fixed shape or of any."""
    return npst.arrays(
        np.dtype(np.float64),
        shapes() if shape is None else shape,
        elements=finite_floats(magnitude),
    )
