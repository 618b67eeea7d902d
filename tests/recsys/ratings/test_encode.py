"""Gradients on a grid: rounding without bias, bounds that are counted, coins bound to indices."""

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

import recsys.ratings.encode
from ldp.clipped_laplace import ClippedLaplace
from ldp.discrete_laplace import DiscreteLaplace
from mpc.core.errors import ParameterError
from mpc.core.prg import Prg
from mpc.core.ring import Ring
from recsys.errors import DivergenceError
from recsys.ratings.config import RatingConfig
from recsys.ratings.encode import Encoding, Grid, encode, noise_reach
from recsys.ratings.gradients import Floats, Gradients
from recsys.simulation import SimulationRng
from secagg.quantize import Quantizer
from tests.support.stats import hoeffding_half_width

SIM = SimulationRng(3)
PLAIN = RatingConfig(bound=2.0, frac_bits=4)
NOISY = RatingConfig(clip=0.1, laplace=0.2, frac_bits=16)
RING = Ring(32)


def gradients(rows: Floats, counts: list[int], weights: Floats | None = None) -> Gradients:
    """Clients 0, 2, 4, ... with so many items each, which are 0, 3, 6, ..."""
    clients = len(counts)
    return Gradients(
        members=np.arange(clients, dtype=np.int32) * 2,
        starts=np.concatenate([[0], np.cumsum(counts)]),
        items=np.concatenate([3 * np.arange(count, dtype=np.int32) for count in counts]),
        rows=rows,
        weights=np.zeros((clients, 0)) if weights is None else weights,
    )


def some(seed: int = 0, width: int = 5) -> Gradients:
    rng = np.random.default_rng(seed)
    counts = [4, 0, 7, 1]
    return gradients(rng.standard_normal((sum(counts), width)), counts, rng.standard_normal((4, 6)))


def client(given: Gradients, at: int) -> Gradients:
    part = slice(given.starts[at], given.starts[at + 1])
    return Gradients(
        members=given.members[at : at + 1],
        starts=np.array([0, part.stop - part.start]),
        items=given.items[part],
        rows=given.rows[part],
        weights=given.weights[at : at + 1],
    )


class Tape:
    """Every one of the 2^16 prefixes once, and one word for every tie."""

    def __init__(self, word: int) -> None:
        self.word = word
        self.ties = 0

    def first(self, rows: slice, width: int) -> NDArray[np.uint16]:
        return np.arange(2**16, dtype=np.uint16)[rows, np.newaxis]

    def further(self, rows: NDArray[np.int64], columns: NDArray[np.int64]) -> NDArray[np.uint64]:
        self.ties += rows.size
        return np.full(rows.size, self.word, dtype=np.uint64)


def ups(value: float, word: int) -> tuple[int, int]:
    """Of the 2^16 prefixes, how many round ``value`` up in magnitude, and how many ties there are.

    The grid has whole steps.
    """
    tape = Tape(word)
    grid = Grid(0, 1e9, 1e9, 10**9)
    steps, _ = recsys.ratings.encode._rounded(np.full((2**16, 1), value), grid, tape)  # type: ignore[arg-type]
    down = math.floor(abs(value))
    assert set(np.unique(np.abs(steps))) <= {down, down + 1}
    assert np.all(steps * value >= 0)
    return int((np.abs(steps) == down + 1).sum()), tape.ties


@given(
    st.one_of(
        st.floats(-1e6, 1e6, allow_nan=False),
        st.floats(-3, 3, allow_nan=False),
        st.integers(-8, 8).map(lambda k: 1 + k * 2.0**-20),
    )
)
def test_the_chance_of_rounding_up_is_the_fraction_exactly(value: float) -> None:
    """Over all prefixes, and in the tie over all words below a threshold: to 80 bits."""
    fraction = Fraction(abs(value)) % 1
    wins, rest = divmod(fraction * 2**80, 2**64)
    exact = int(rest)
    assert ups(value, 2**64 - 1) == (wins, 1)
    assert ups(value, exact) == (wins, 1)
    if exact:
        assert ups(value, exact - 1) == (wins + 1, 1)


def test_without_a_second_look_at_ties_small_entries_would_vanish() -> None:
    """The twin that decides by 16 bits alone: an entry of 2^-17 never rounds up."""
    value = 2.0**-17
    assert ups(value, 2**64 - 1) == (0, 1)  # what 16 bits say
    assert ups(value, 2**63 - 1) == (1, 1)  # in half of all ties it does


@pytest.mark.parametrize("value", [0.3, -0.7, 12.99, -1e-3])
def test_the_mean_of_coins_from_a_seed_is_the_entry(value: float) -> None:
    n = 2**18
    given = gradients(np.full((n // 8, 8), value), [n // 8])
    grid, _ = encode(given, Grid(0, 99.0, 99.0, 99), SIM, 0)
    margin = hoeffding_half_width(n, 1.0)  # false alarm 1e-9
    assert abs(grid.rows.mean() - value) < margin
    assert abs(np.rint(given.rows).mean() - value) > margin or abs(value) < margin  # the twin


@given(st.integers(0, 2**32 - 1), st.sampled_from([0, 1, 4, 16]))
def test_entries_move_by_less_than_a_step_and_grid_values_not_at_all(seed: int, bits: int) -> None:
    given = some(seed)
    encoding = Encoding.of(RatingConfig(bound=1.5, frac_bits=bits), 4, RING)
    grid, clipped = encode(given, encoding.grid, SIM, seed % 7)
    for integers, reals in ((grid.rows, given.rows), (grid.weights, given.weights)):
        kept = np.clip(reals, -1.5, 1.5)
        assert np.abs(integers * 2.0**-bits - kept).max(initial=0) < 2.0**-bits
    assert clipped == (np.abs(given.rows) > 1.5).sum() + (np.abs(given.weights) > 1.5).sum()
    step = np.float64(2.0**-bits)
    back = replace(given, rows=grid.rows * step, weights=grid.weights * step)
    loose = Encoding.of(RatingConfig(bound=4.0, frac_bits=bits), 4, RING)
    again, _ = encode(back, loose.grid, SIM, 5)
    assert np.array_equal(again.rows, grid.rows)
    assert np.array_equal(again.weights, grid.weights)


@pytest.mark.parametrize("bound", [2.0, 1.99, 1 / 3, 5.1])
def test_without_noise_bounds_are_those_of_the_quantizer(bound: float) -> None:
    """Cut first, then rounded; up to the next step beyond the bound."""
    config = replace(PLAIN, bound=bound)
    encoding = Encoding.of(config, 4, RING)
    quantizer = Quantizer(bound, config.frac_bits, RING, 4)
    values = np.array([bound, -bound, bound * (1 + 1e-9), -1e300, 0.5 * bound, 0.0, -0.0, 3.0])
    given = gradients(np.repeat(values[:, np.newaxis], 300, axis=1), [8])
    grid, clipped = encode(given, encoding.grid, SIM, 0)
    expected, counts = quantizer.to_integers(given.rows)
    assert clipped == counts.sum()
    assert encoding.quantizer == quantizer
    for row in range(8):  # both take all values that the law allows, and no other
        assert set(grid.rows[row]) == set(expected[row])


@pytest.mark.parametrize("clip", [0.1, 0.125, 2**-15])
def test_with_noise_bounds_are_those_of_the_mechanism(clip: float) -> None:
    """Rounded first, then cut to an integer, so that the sensitivity is exactly twice that."""
    encoding = Encoding.of(replace(NOISY, clip=clip), 4, RING)
    assert encoding.mechanism == ClippedLaplace(clip, 0.2, 16)
    top = encoding.mechanism.bound
    values = np.array([clip, -clip, clip * 1.001, 1e300, -1e300, (top + 0.5) * 2**-16, 0.0])
    given = gradients(np.repeat(values[:, np.newaxis], 300, axis=1), [7])
    grid, clipped = encode(given, encoding.grid, SIM, 0)
    assert np.abs(grid.rows).max() == top
    assert grid.rows[:, 0].tolist()[3:5] == [top, -top]
    assert clipped == (np.abs(given.rows) > clip).sum()
    expected = encoding.mechanism._clipped(given.rows.reshape(-1), Prg(bytes(32)))
    for row, law in zip(grid.rows, expected.reshape(7, 300), strict=True):
        assert set(row) == set(law)


@pytest.mark.parametrize("piece", [1, 2, 3, 100])
@pytest.mark.parametrize("block", [1, 20, 1000])
def test_coins_do_not_depend_on_the_batch(
    monkeypatch: pytest.MonkeyPatch, piece: int, block: int
) -> None:
    given = some()
    grid = Encoding.of(PLAIN, 4, RING).grid
    whole, clipped = encode(given, grid, SIM, 9)
    monkeypatch.setattr(recsys.ratings.encode, "_PIECE", piece * 5)
    monkeypatch.setattr(recsys.ratings.encode, "_BLOCK", block * 5)
    count = 0
    for at in range(4):
        part, cut = encode(client(given, at), grid, SIM, 9)
        assert np.array_equal(part.rows, whole.rows[given.starts[at] : given.starts[at + 1]])
        assert np.array_equal(part.weights, whole.weights[at : at + 1])
        count += cut
    assert count == clipped


def test_coins_follow_from_user_item_and_round_alone() -> None:
    """A client who leaves an item out rounds the others as before."""
    given = some()
    grid = Encoding.of(PLAIN, 4, RING).grid
    whole, _ = encode(given, grid, SIM, 9)
    third = client(given, 2)
    fewer = replace(third, starts=np.array([0, 6]), items=third.items[1:], rows=third.rows[1:])
    alone, _ = encode(fewer, grid, SIM, 9)
    assert np.array_equal(alone.rows, whole.rows[given.starts[2] + 1 : given.starts[3]])


def test_no_two_users_items_rounds_columns_or_seeds_share_coins() -> None:
    """512 entries of one half each: two equal ones would be a chance of 2^-512."""
    grid = Grid(0, 9.0, 9.0, 9)

    def rounded(user: int, item: int, round_: int, seed: int) -> tuple[int, ...]:
        given = Gradients(
            members=np.array([user], dtype=np.int32),
            starts=np.array([0, 1]),
            items=np.array([item], dtype=np.int32),
            rows=np.full((1, 512), 0.5),
            weights=np.full((1, 512), 0.5),
        )
        out, _ = encode(given, grid, SimulationRng(seed), round_)
        assert 100 < out.rows[0].sum() < 412  # no two columns share a coin in bulk either
        assert out.rows[0].tolist() != out.weights[0].tolist()
        return tuple(out.rows[0])

    seen = {
        rounded(user, item, round_, seed)
        for user in (0, 1)
        for item in (0, 1)
        for round_ in (0, 1)
        for seed in (0, 1)
    }
    assert len(seen) == 16


@pytest.mark.parametrize("config", [PLAIN, NOISY], ids=["plain", "noisy"])
@pytest.mark.parametrize("wrong", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("field", ["rows", "weights"])
def test_a_gradient_that_is_not_finite_is_divergence(
    config: RatingConfig, wrong: float, field: str
) -> None:
    given = some()
    getattr(given, field)[2, 1] = wrong
    with pytest.raises(DivergenceError, match="a gradient is not finite"):
        encode(given, Encoding.of(config, 4, RING).grid, SIM, 0)


def test_nobody_and_nothing_encode_to_nothing() -> None:
    given = gradients(np.zeros((0, 3)), [0, 0])
    grid, clipped = encode(given, Encoding.of(PLAIN, 2, RING).grid, SIM, 0)
    assert grid.rows.shape == (0, 3)
    assert grid.weights.shape == (2, 0)
    assert clipped == 0


# The ring


@pytest.mark.parametrize(
    ("changes", "bits", "missing"),
    [
        ({"ring_bits": 12}, 12, 2),  # 100 * 32 steps and a sign take 13, and the bound is rounded
        ({"bound": 2.0**20}, 16, 17),
        ({"clip": 0.1, "laplace": 0.2, "frac_bits": 16}, 16, 7),
    ],
)
def test_a_ring_too_small_for_the_cohort_is_refused_with_the_missing_bits(
    changes: dict[str, float], bits: int, missing: int
) -> None:
    config = RatingConfig(**{"bound": 2.0, "frac_bits": 5, **changes})  # type: ignore[arg-type]
    with pytest.raises(ParameterError, match=f"{missing} more than the ring's {bits}") as caught:
        Encoding.of(config, 100, Ring(bits))
    assert "ring_bits" in caught.value.remedy
    Encoding.of(config, 100, Ring(bits + missing))
    with pytest.raises(ParameterError, match="1 more than the ring's"):
        Encoding.of(config, 100, Ring(bits + missing - 1))


@pytest.mark.parametrize("scale", [0.5, 3.0, 40.0])
@pytest.mark.parametrize("terms", [1, 2, 3, 8])
def test_sums_of_noise_stay_within_reach_but_for_2_to_the_minus_60(
    scale: float, terms: int
) -> None:
    """Against the exact law of one term, and of more by convolution of its support."""
    reach = noise_reach(DiscreteLaplace(scale), terms)
    rho = math.exp(-1 / scale)
    far = reach + int(60 * scale)
    one = (1 - rho) / (1 + rho) * rho ** np.abs(np.arange(-far, far + 1.0))
    law = one
    for _ in range(terms - 1):
        law = np.convolve(law, one)
    distance = np.abs(np.arange(law.size) - law.size // 2)
    outside = law[distance > reach].sum()
    assert 0 < outside <= 2.0**-60
    assert law[distance > 0.6 * reach].sum() > 2.0**-60  # not far more room than it takes
