"""What the recommender learns of a round: the law of her view, noise everywhere, no shortcut."""

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import recsys.pads
import recsys.ratings.aggregate_clear
import recsys.ratings.aggregate_secure
import secagg.pads
from ldp.clipped_laplace import ClippedLaplace
from ldp.discrete_laplace import DiscreteLaplace
from mpc.core.local import LocalNetwork
from mpc.core.ring import Ring, RingArray
from mpc.core.rng import Rng
from recsys.pads import CohortPads
from recsys.ratings.aggregate import open_aggregation
from recsys.ratings.aggregate_clear import ClearSum
from recsys.ratings.aggregate_noise import ClientNoise, SummedNoise
from recsys.ratings.aggregate_secure import SimulatedSum
from recsys.ratings.aggregate_vector import Integers, Layout
from recsys.ratings.config import RatingConfig
from recsys.ratings.gradients import Gradients
from recsys.ratings.uploads import GradientUpload, UploadFormat
from recsys.run import MemoryRun
from recsys.simulation import SimulationRng
from secagg.cohort import PadCohort
from secagg.masks import mask
from secagg.messages import SERVER, MaskedVector
from tests.recsys.ratings.cohorts import (
    COHORTS,
    USERS,
    WIDTH,
    gradients,
    opened,
    plain_sum,
)
from tests.support.stats import byte_counts, chi_square_p_value, fits_multinomial

WIDE = 40


def forbidden(*arguments: object, **options: object) -> None:
    raise AssertionError("a shortcut was taken")


# The law of the recommender's view

RING = Ring(3)
TAPES = 8**3
"""Every outcome of three pads, one for each pair of three users, of one element of Z_2^3."""


class IdealPad(Rng):
    """A random function of (key, place), over all its outcomes: place t of the three is tape t.

    A round's vector, of one byte, takes a block of 16 bytes, so round t is at place 16 t.
    """

    def __init__(self, keys: dict[bytes, int], key: bytes, offset: int) -> None:
        self._pair = keys.setdefault(key, len(keys))
        self._place = offset

    def fill(self, out: NDArray[Any]) -> None:
        tape = (self._place + np.arange(out.size)) // 16
        self._place += out.size
        out[...] = (tape >> 3 * self._pair & 7).reshape(out.shape)


def view_law(monkeypatch: pytest.MonkeyPatch, inputs: list[float]) -> Counter[tuple[bytes, ...]]:
    """What the recommender receives of three users' gradients, over all pads."""
    keys: dict[bytes, int] = {}
    monkeypatch.setattr(recsys.pads, "PadCohort", partial(PadCohort, prg=partial(IdealPad, keys)))
    network = LocalNetwork(record=True)
    config = RatingConfig(bound=1.0, frac_bits=0, ring_bits=3, min_cohort=3)
    members = np.arange(3, dtype=np.int32)
    aggregation = open_aggregation(
        config, [members], 1, 1, 0, SimulationRng(0), MemoryRun(), network
    )
    given = Gradients(
        members=members,
        starts=np.arange(4),
        items=np.zeros(3, dtype=np.int32),
        rows=np.array(inputs)[:, np.newaxis],
        weights=np.zeros((3, 0)),
    )
    for tape in range(TAPES):
        aggregation.begin(tape, TAPES)
        assert aggregation.sum(0, tape, given).items.item() == sum(inputs)
    assert len(keys) == 3
    views: dict[int, list[bytes]] = {tape: [] for tape in range(TAPES)}
    for delivery in network.view(SERVER):
        if delivery.kind == "pads.masked":
            vector = MaskedVector.from_bytes(delivery.data)
            views[vector.round].append(vector.payload)
    return Counter(tuple(view) for view in views.values())


def test_the_law_of_the_view_depends_on_the_sum_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who rated the item, and what her gradient is, changes the law of no masked vector."""
    one = view_law(monkeypatch, [1.0, 0.0, 0.0])
    assert view_law(monkeypatch, [0.0, 0.0, 1.0]) == one
    assert view_law(monkeypatch, [1.0, 1.0, -1.0]) == one
    assert len(one) == 8**2  # all triples of this sum
    assert view_law(monkeypatch, [1.0, 1.0, 0.0]) != one  # which the recommender may learn


def leak(x: RingArray, pad: RingArray, ring: Ring) -> RingArray:
    """The twin that sends the second member's vector as it is."""
    masked = mask(x, pad, ring)
    masked[1] = x[1]
    return masked


def unmasked_total(x: RingArray, pad: RingArray, ring: Ring) -> RingArray:
    """The same twin, whose sum is right: another member makes up for the missing pad."""
    masked = leak(x, pad, ring)
    ring.add(masked[0], pad[1], out=masked[0])
    return masked


def test_the_law_gives_away_a_row_without_a_pad(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(secagg.pads, "mask", unmasked_total)
    one = view_law(monkeypatch, [1.0, 0.0, 0.0])
    assert view_law(monkeypatch, [0.0, 1.0, 0.0]) != one


# The view of real pads


def masked_vectors(network: LocalNetwork) -> list[bytes]:
    return [
        MaskedVector.from_bytes(delivery.data).payload
        for delivery in network.view(SERVER)
        if delivery.kind == "pads.masked"
    ]


def sent_in_secret(rounds: int = 6) -> tuple[list[bytes], list[bytes]]:
    """The payloads of some rounds, and the rows of ring elements that were masked."""
    network = LocalNetwork(record=True)
    aggregation = opened(mode="protocol", network=network, width=WIDE)
    rows = []
    for round_ in range(rounds):
        given = gradients(COHORTS[1], width=WIDE, seed=round_)
        aggregation.begin(round_, rounds)
        aggregation.sum(1, round_, given)
        grid, _ = aggregation._encode(given, round_)
        rows += [row.tobytes() for row in Ring(32).reduce(grid.rows)]
    return masked_vectors(network), rows


def hidden(payloads: list[bytes], rows: list[bytes]) -> bool:
    """Whether no row shows, bytes look uniform, and no two stretches of eight bytes are equal."""
    stretches = [p[at : at + 8] for p in payloads for at in range(0, len(p) - 7, 8)]
    return (
        not any(row in payload for row in rows for payload in payloads)
        and chi_square_p_value(byte_counts(b"".join(payloads))) > 1e-9
        and len(set(stretches)) == len(stretches)  # a chance of 1e-11
    )


def test_masked_vectors_look_uniform_and_hold_no_row() -> None:
    payloads, rows = sent_in_secret()
    assert len(payloads) == 6 * COHORTS[1].size
    assert hidden(payloads, rows)


@pytest.mark.parametrize("twin", [leak, unmasked_total])
def test_a_row_without_a_pad_is_found_in_the_view(
    monkeypatch: pytest.MonkeyPatch, twin: Callable[..., RingArray]
) -> None:
    monkeypatch.setattr(secagg.pads, "mask", twin)
    assert not hidden(*sent_in_secret())


def test_pads_and_sessions_never_come_from_a_seed() -> None:
    """The same seeded round twice: nothing of the masked vectors is alike."""
    first, second = ({*sent_in_secret(2)[0]} for _ in range(2))
    assert len(first) == len(second) == 12
    assert not first & second


@pytest.mark.parametrize("bit", [0, 15, 31])
def test_one_altered_masked_element_changes_the_sum(
    monkeypatch: pytest.MonkeyPatch, bit: int
) -> None:
    given = gradients(COHORTS[0])
    honest = opened(mode="protocol").sum(0, 0, given)

    def flipped(x: RingArray, pad: RingArray, ring: Ring) -> RingArray:
        masked = mask(x, pad, ring)
        masked[3, 0, 4] ^= np.uint32(1 << bit)
        return masked

    monkeypatch.setattr(secagg.pads, "mask", flipped)
    altered = opened(mode="protocol").sum(0, 0, given)
    assert np.flatnonzero(altered.items != honest.items).tolist() == [4]


# Which way was taken


def test_protocols_add_up_nothing_by_themselves(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither plain sums nor summed noise, nor the simulations' classes."""
    for owner, name in (
        (Layout, "total"),
        (SummedNoise, "__init__"),
        (SimulatedSum, "_ring_sum"),
        (ClearSum, "_sum"),
    ):
        monkeypatch.setattr(owner, name, forbidden)
    for aggregate in ("secure", "clear"):
        for clip, laplace in ((None, None), (0.1, 0.2)):
            way: dict[str, Any] = {"aggregate": aggregate, "clip": clip, "laplace": laplace}
            assert opened(mode="protocol", **way).sum(0, 0, gradients(COHORTS[0]))
            with pytest.raises(AssertionError, match="a shortcut was taken"):
                opened(mode="simulate", **way).sum(0, 0, gradients(COHORTS[0]))


def test_simulations_make_neither_pads_nor_uploads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(CohortPads, "__init__", forbidden)
    monkeypatch.setattr(UploadFormat, "message", forbidden)
    monkeypatch.setattr(ClientNoise, "__init__", forbidden)
    for aggregate in ("secure", "clear"):
        way: dict[str, Any] = {"aggregate": aggregate, "clip": 0.1, "laplace": 0.2}
        opened(mode="simulate", **way).sum(0, 0, gradients(COHORTS[0]))
        with pytest.raises(AssertionError, match="a shortcut was taken"):
            opened(aggregate=aggregate, mode="protocol").sum(0, 0, gradients(COHORTS[0]))


# Noise

NOISE: dict[str, Any] = {"clip": 1.0, "laplace": 1.5, "frac_bits": 1, "ring_bits": 16, "seed": 4}
LAW = ClippedLaplace(1.0, 1.5, 1).noise
ROUNDS = 150


def law_of_sums(law: DiscreteLaplace, terms: int, reach: int) -> list[float]:
    """Probabilities of -reach ... reach for the sum of ``terms`` draws; the tails join the ends."""
    rho = float(np.exp(-1 / float(law.scale)))
    support = np.arange(-60 * reach, 60 * reach + 1)
    one = (1 - rho) / (1 + rho) * rho ** np.abs(support)
    total = np.ones(1)
    for _ in range(terms):
        total = np.convolve(total, one)
    middle = total.size // 2
    inner = total[middle - reach : middle + reach + 1].copy()
    inner[0] = inner[-1] = total[: middle - reach + 1].sum()
    return [float(p) for p in inner / inner.sum()]


def fits(sums: NDArray[np.float64], law: DiscreteLaplace, terms: int) -> bool:
    """Whether sums of noise on zeros, in halves, have the exact law of so many terms."""
    reach = int(3 * float(law.scale) * np.sqrt(terms))
    steps = np.clip(np.rint(2 * sums).astype(int).reshape(-1), -reach, reach)
    counts = np.bincount(steps + reach, minlength=2 * reach + 1)
    return fits_multinomial(counts, law_of_sums(law, terms, reach))


def noisy_sums(**way: Any) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Sums for item 8, which each of four users rated, and of the weights; all gradients are 0."""
    aggregation = opened(width=200, weights=200, **NOISE, **way)
    given = gradients(COHORTS[1], width=200, weights=200, scale=0.0)
    assert given.members.size == 4
    sums = [aggregation.sum(1, round_, given) for round_ in range(ROUNDS)]
    return np.array([s.items[8] for s in sums]), np.array([s.weights for s in sums])


@pytest.mark.parametrize("mode", ["protocol", "simulate"])
@pytest.mark.parametrize(("aggregate", "terms"), [("secure", 6), ("clear", 4)])
def test_sums_have_the_law_of_everybodys_noise(mode: str, aggregate: str, terms: int) -> None:
    """30,000 sums each, false alarm 1e-9: with pads all six members add noise, in the clear four.

    Rejected are the sums of one member fewer, one draw for the whole sum, and noise 10% too small.
    """
    for sums in noisy_sums(aggregate=aggregate, mode=mode):
        assert fits(sums, LAW, terms)
        assert not fits(sums, LAW, terms - 1)
        assert not fits(sums, LAW, 1)
        weaker = DiscreteLaplace(LAW.scale * 9 / 10)
        assert not fits(sums, weaker, terms)


@pytest.mark.parametrize("mode", ["protocol", "simulate"])
def test_with_pads_even_items_that_nobody_rated_have_everybodys_noise(mode: str) -> None:
    aggregation = opened(width=WIDE, weights=0, mode=mode, **NOISE)
    given = gradients(COHORTS[0], width=WIDE, weights=0, scale=0.0)
    assert 0 not in given.items
    sums = np.array([aggregation.sum(0, r, given).items[0] for r in range(ROUNDS)])
    assert fits(sums, LAW, 5)


def uploaded(**changes: Any) -> tuple[list[Integers], list[Integers]]:
    """All rows and all weights that clients of zero gradients upload in the clear."""
    network = LocalNetwork(record=True)
    settings = {**NOISE, "aggregate": "clear", "mode": "protocol", "pseudo": 2, **changes}
    aggregation = opened(width=WIDE, weights=WIDE, network=network, **settings)
    given = gradients(COHORTS[1], width=WIDE, weights=WIDE, scale=0.0)
    for round_ in range(30):
        aggregation.sum(1, round_, given)
    rows, weights = [], []
    for delivery in network.view(SERVER):
        upload = GradientUpload.from_bytes(delivery.data)
        values = np.frombuffer(upload.values, dtype="<i2")
        items = len(upload.items) // 4
        rows.append(values[: items * WIDE].astype(np.int64))
        weights.append(values[items * WIDE :].astype(np.int64))
    return rows, weights


def test_every_value_of_an_upload_has_noise_of_its_own() -> None:
    """Rows of real and of pseudo-interacted items, and weights."""
    for values in uploaded():
        assert fits(np.concatenate(values) / 2, LAW, 1)
        assert len({part.tobytes() for part in values}) == len(values)  # nobody's twice


def test_noise_on_rows_alone_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    perturb = ClientNoise.perturb

    def rows_alone(self: ClientNoise, values: Integers) -> Integers:
        noised = perturb(self, values)
        noised[-WIDE:] = values[-WIDE:]
        return noised

    monkeypatch.setattr(ClientNoise, "perturb", rows_alone)
    rows, weights = uploaded()
    assert fits(np.concatenate(rows) / 2, LAW, 1)
    assert not fits(np.concatenate(weights) / 2, LAW, 1)


@pytest.mark.parametrize("aggregate", ["secure", "clear"])
@pytest.mark.parametrize("mode", ["protocol", "simulate"])
def test_noise_is_the_systems_unless_a_seed_is_given(aggregate: str, mode: str) -> None:
    def summed(seed: int | None) -> bytes:
        noise: dict[str, Any] = {"clip": 0.1, "laplace": 0.2, "seed": seed}
        found = opened(aggregate=aggregate, mode=mode, **noise).sum(0, 0, gradients(COHORTS[0]))
        return found.items.tobytes() + found.weights.tobytes()

    assert summed(4) == summed(4)
    assert summed(None) != summed(None)


@pytest.mark.parametrize("aggregate", ["secure", "clear"])
@pytest.mark.parametrize("mode", ["protocol", "simulate"])
def test_no_two_users_and_no_two_rounds_share_noise(aggregate: str, mode: str) -> None:
    """Under a seed too: equal zeros give sums and, in the clear, uploads that all differ."""
    aggregation = opened(aggregate=aggregate, mode=mode, width=WIDE, **NOISE)
    sums = set()
    for round_ in range(4):
        for cohort in (0, 1):
            given = gradients(COHORTS[cohort], width=WIDE, scale=0.0)
            sums.add(aggregation.sum(cohort, round_, given).items.tobytes())
    assert len(sums) == 8


def test_the_noisy_sum_is_around_the_clipped_one() -> None:
    """In all four ways; per entry a mean over rounds, within six standard errors of it."""
    for aggregate in ("secure", "clear"):
        for mode in ("protocol", "simulate"):
            aggregation = opened(aggregate=aggregate, mode=mode, clip=0.5, laplace=0.1)
            given = gradients(COHORTS[0])
            clipped = Gradients(
                given.members,
                given.starts,
                given.items,
                np.clip(given.rows, -0.5, 0.5),
                np.clip(given.weights, -0.5, 0.5),
            )
            rows, weights = plain_sum(clipped)
            sums = [aggregation.sum(0, round_, given) for round_ in range(60)]
            error = 6.7 * np.sqrt(5 * 2 * 0.1**2 / 60)  # a normal tail of 1e-11 for each entry
            assert np.abs(np.mean([s.items for s in sums], axis=0) - rows).max() < error
            assert np.abs(np.mean([s.weights for s in sums], axis=0) - weights).max() < error


OWN_KEYS = np.arange(USERS * 32, dtype=np.uint32).astype(np.uint8).reshape(USERS, 32)


def attempt(given: Gradients, aggregate: str, round_: int = 0) -> list[bytes]:
    """What an unseeded process sends, or with pads the noisy sum: each call is a new process."""
    network = LocalNetwork(record=True)
    settings: dict[str, Any] = {"clip": 0.1, "laplace": 0.2, "seed": None, "mode": "protocol"}
    settings |= {"aggregate": aggregate, "pseudo": 3 if aggregate == "clear" else 0}
    aggregation = opened(network=network, keys=OWN_KEYS, **settings)
    found = aggregation.sum(0, round_, given)
    if aggregate == "secure":
        return [found.items.tobytes() + found.weights.tobytes()]
    uploads = [GradientUpload.from_bytes(each.data) for each in network.view(SERVER)]
    return [upload.items + upload.values for upload in uploads]


def more(given: Gradients, step: float) -> Gradients:
    """The same gradients, but for one entry of the first client."""
    rows = given.rows.copy()
    rows[0, 0] += step
    return replace(given, rows=rows)


@pytest.mark.parametrize("aggregate", ["secure", "clear"])
def test_a_repeated_round_repeats_its_noise(aggregate: str) -> None:
    """A killed run goes on from its last checkpoint: what it sends again tells nothing new."""
    given = gradients(COHORTS[0], scale=0.02)
    assert attempt(given, aggregate) == attempt(given, aggregate)
    assert attempt(given, aggregate) != attempt(given, aggregate, round_=1)


def test_other_gradients_never_meet_the_same_noise() -> None:
    """Else the difference of two uploads would be that of the gradients, without any noise."""
    given = gradients(COHORTS[0], scale=0.02)
    # A whole number of steps, so that no rounding hides the difference.
    first, second = attempt(given, "clear"), attempt(more(given, 2.0**-4), "clear")
    assert first[1:] == second[1:]
    assert len(first[0]) == len(second[0])
    differences = np.frombuffer(first[0], np.uint8) != np.frombuffer(second[0], np.uint8)
    assert differences.sum() > 4 * WIDTH
