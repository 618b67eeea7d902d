"""Signed integers side by side in the bits of large ones: exact, one shape for every width."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mpc.core.errors import AbortError
from mpc.paillier.slots import cut, join


@st.composite
def layouts(draw: st.DrawFn) -> tuple[list[int], int, int, int]:
    bound = draw(st.sampled_from([1, 2, 127, 128, 2**31, 2**62, 2**63 - 1, 2**63, 2**100]))
    width = (2 * bound).bit_length() + draw(st.integers(0, 9))
    edges = st.sampled_from([0, 1, -1, bound, -bound])
    values = draw(st.lists(edges | st.integers(-bound, bound), max_size=30))
    return values, draw(st.integers(1, 7)), width, bound


@given(layouts())
def test_slots_are_the_digits_of_the_numbers(layout: tuple[list[int], int, int, int]) -> None:
    values, slots, width, bound = layout
    integers = np.array(values, dtype=np.int64 if bound < 2**63 else object)
    numbers = list(join(integers, slots, width, bound))
    padded = values + [0] * (-len(values) % slots)
    assert numbers == [
        sum((padded[start + i] + bound) << (width * i) for i in range(slots))
        for start in range(0, len(padded), slots)
    ]
    back = cut(numbers, slots, width, bound)
    assert back.tolist() == padded
    assert back.dtype == integers.dtype


@pytest.mark.parametrize("bound", [3, 2**62, 2**63 - 1, 2**63, 2**80])
def test_a_slot_beyond_the_bound_is_refused(bound: int) -> None:
    width = (2 * bound).bit_length() + 1
    assert cut([2 * bound << width], 2, width, bound).tolist() == [-bound, bound]
    for slot in (2 * bound + 1, (1 << width) - 1, 1 << (width - 1)):
        for place in (0, width):
            with pytest.raises(AbortError, match="exceeds the bound"):
                cut([slot << place], 2, width, bound)


def test_long_arrays_go_in_pieces_that_meet_exactly() -> None:
    values = (np.arange(70_001) * 2_654_435_761 % 2**31 - 2**30).astype(np.int64)
    numbers = list(join(values, 13, 33, 2**30))
    assert len(numbers) == 5385
    assert (cut(numbers, 13, 33, 2**30)[:70_001] == values).all()
