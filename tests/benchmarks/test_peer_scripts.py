"""The peers' scripts and what they share: right stand-ins pass their checks, wrong twins do not."""

import gc
import json
import math
import runpy
import sys
import time
from collections.abc import Callable, Iterator
from importlib import import_module

import gmpy2
import numpy as np
import pytest
from numpy.typing import NDArray

from benchmarks.harness import SCRIPTS
from benchmarks.peers import (
    bits,
    ciphertexts,
    factors,
    integers,
    items,
    noise,
    one_round,
    reals,
    values,
    vectors,
)
from benchmarks.ratios import ROWS
from mpc.core.rng import SYSTEM_RNG
from tests.benchmarks import fake_peers
from tests.benchmarks.fake_peers import Modules

Fake = Callable[..., Modules]

FREQUENCIES = ("20000", "10", "1.0")
"""Reports, domain and epsilon at which the wrong twins of frequency oracles are seen."""

SHARED = (
    "bits",
    "ciphertexts",
    "factors",
    "integers",
    "items",
    "noise",
    "one_round",
    "reals",
    "values",
    "vectors",
)
"""Modules beside the scripts that need no peer."""

RUNS: dict[str, tuple[tuple[str, ...], Fake]] = {
    "crypten_mul.py": (("1000",), fake_peers.crypten),
    "crypten_share.py": (("1000",), fake_peers.crypten),
    "diffprivlib_discrete_laplace.py": (("50000", "1"), fake_peers.diffprivlib),
    "flower_agree.py": (("3",), fake_peers.flower),
    "flower_mask.py": (("1000", "3"), fake_peers.flower),
    "flower_quantize.py": (("10000",), fake_peers.flower),
    "flower_round.py": (("6", "10000", "2", "4"), fake_peers.flower),
    "flower_shamir_combine.py": (("7", "5"), fake_peers.flower),
    "flower_shamir_share.py": (("7", "5"), fake_peers.flower),
    "mpyc_share.py": (("1000", "3"), fake_peers.mpyc),
    "mpyc_sum.py": (("1000", "3"), fake_peers.mpyc),
    "multi_freq_ldpy_krr.py": (FREQUENCIES, fake_peers.multi_freq_ldpy),
    "multi_freq_ldpy_olh_client.py": (FREQUENCIES, fake_peers.multi_freq_ldpy),
    "multi_freq_ldpy_olh_server.py": (("100", "150", "1.0"), fake_peers.multi_freq_ldpy),
    "multi_freq_ldpy_oue.py": (FREQUENCIES, fake_peers.multi_freq_ldpy),
    "multi_freq_ldpy_rr.py": (("2000", "1.0"), fake_peers.multi_freq_ldpy),
    "opendp_discrete_gaussian.py": (("50000", "4.0"), fake_peers.opendp),
    "opendp_rr.py": (("10000", "1.0"), fake_peers.opendp),
    "phe_add.py": (("2048", "3"), fake_peers.phe),
    "phe_decrypt.py": (("2048", "3"), fake_peers.phe),
    "phe_dot.py": (("2048", "3"), fake_peers.phe),
    "phe_encrypt.py": (("2048", "3"), fake_peers.phe),
    "pure_ldp_hadamard_client.py": (FREQUENCIES, fake_peers.pure_ldp),
    "pure_ldp_krr.py": (FREQUENCIES, fake_peers.pure_ldp),
    "pure_ldp_olh_client.py": (FREQUENCIES, fake_peers.pure_ldp),
    "pure_ldp_olh_server.py": (("100", "150", "1.0"), fake_peers.pure_ldp),
    "pure_ldp_oue.py": (FREQUENCIES, fake_peers.pure_ldp),
    "pure_ldp_rr.py": (("2000", "1.0"), fake_peers.pure_ldp),
    "pypaillier_encrypt.py": (("2048", "3"), fake_peers.pypaillier),
    "spu_mul.py": (("1000", "3"), fake_peers.spu),
    "spu_share.py": (("1000", "3"), fake_peers.spu),
    "voprf_batch.py": (("3",), fake_peers.voprf),
}


@pytest.fixture(autouse=True)
def _beside_the_scripts(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """What a script finds beside itself, and rounds of one call."""
    for name in SHARED:
        monkeypatch.setitem(sys.modules, name, import_module(f"benchmarks.peers.{name}"))
    monkeypatch.setattr(one_round, "LEAST_SECONDS", 1e-9)
    monkeypatch.syspath_prepend(str(SCRIPTS))
    yield
    for name in ("crypten_parties", "hashed", "phe_keys"):  # they hold on to a stand-in
        sys.modules.pop(name, None)
    sys.modules.pop("crypten.nn.onnx_converter", None)


def run(
    script: str,
    modules: Modules,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> tuple[float, bool]:
    for name, module in modules.items():
        monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.setattr(sys, "argv", [script, *RUNS[script][0]])
    runpy.run_path(str(SCRIPTS / script), run_name="__main__")
    line = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert list(line) == ["seconds", "ok"]
    return line["seconds"], line["ok"]


def test_every_script_of_a_row_is_tried_here() -> None:
    assert {peer.script.name for row in ROWS for peer in row.peers} == set(RUNS)


@pytest.mark.parametrize("script", RUNS)
def test_a_right_result_passes_the_script_s_check(
    script: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    seconds, ok = run(script, RUNS[script][1](wrong=False), monkeypatch, capsys)
    assert ok
    assert seconds > 0


@pytest.mark.parametrize("script", RUNS)
def test_a_wrong_result_fails_the_script_s_check(
    script: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    _, ok = run(script, RUNS[script][1](wrong=True), monkeypatch, capsys)
    assert not ok


def test_phe_without_gmpy2_is_not_measured(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    modules = fake_peers.phe(wrong=False)
    monkeypatch.setattr(modules["phe.util"], "HAVE_GMP", False)
    with pytest.raises(SystemExit, match="phe found no gmpy2"):
        run("phe_decrypt.py", modules, monkeypatch, capsys)


def test_a_round_is_its_whole_calls_after_a_warm_up_with_the_collector_off(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    now, calls = [0.0], []
    monkeypatch.setattr(time, "perf_counter", lambda: now[0])
    monkeypatch.setattr(one_round, "LEAST_SECONDS", 10.0)

    def call() -> int:
        calls.append(gc.isenabled())
        now[0] += 4.0
        return len(calls)

    one_round.one_round(call, operations=2, check=lambda result: result == 4)
    assert calls == [True, False, False, False]  # warming up, then 12 s of three calls
    assert gc.isenabled()
    assert json.loads(capsys.readouterr().out) == {"seconds": 2.0, "ok": True}


def test_the_check_of_reports_takes_each_value_by_itself() -> None:
    truth = bits.bits(10_000)
    told = [bit if SYSTEM_RNG.uniform(1000) < 731 else 1 - bit for bit in truth]
    assert bits.told_truthfully(truth, told, 1.0)
    assert not bits.told_truthfully(truth, told, 2.0)  # 38 deviations off
    assert not bits.told_truthfully(truth, sorted(told), 1.0)  # the right number of ones
    assert not bits.told_truthfully(truth, truth, 1.0)
    assert not bits.told_truthfully(truth, told[:-1], 1.0)
    assert not bits.told_truthfully(truth, [2, *told[1:]], 1.0)


K = 10


def _told(truth: NDArray[np.int64], p: float) -> NDArray[np.int64]:
    lies = (truth + 1 + SYSTEM_RNG.uniform(K - 1, truth.size).astype(np.int64)) % K
    return np.where(SYSTEM_RNG.bernoulli(int(p * 2**64), truth.size), truth, lies)


def test_the_check_of_told_values_sees_lies_that_favour_a_value_or_a_distance() -> None:
    population = values.values(50_000, K)
    truth = np.array(population)
    told = _told(truth, 0.4)
    assert values.tells_rightly(population, told, K, 0.4)
    assert values.tells_rightly(population, told.tolist(), K, 0.4)
    assert not values.tells_rightly(population, told, K, 0.38)
    assert not values.tells_rightly(population, truth, K, 0.4)
    assert not values.tells_rightly(population, np.sort(told), K, 0.4)
    lied = told != truth
    favoured = np.where(lied & (told == 7) & (truth != 8), 8, told)
    assert not values.tells_rightly(population, favoured, K, 0.4)
    nearer = np.where((told - truth) % K == K - 1, (truth + 1) % K, told)
    assert not values.tells_rightly(population, nearer, K, 0.4)
    assert not values.tells_rightly(population, told[:-1], K, 0.4)
    assert not values.tells_rightly(population, told.astype(np.float64), K, 0.4)
    assert not values.tells_rightly(population, np.where(told == 9, 10, told), K, 0.4)


def test_the_check_of_unary_reports_sees_a_clear_bit_and_a_shared_coin() -> None:
    population = values.values(20_000, K)
    own = np.arange(K) == np.array(population)[:, np.newaxis]
    rows = np.where(
        own,
        SYSTEM_RNG.bernoulli(2**63, own.shape),
        SYSTEM_RNG.bernoulli(2**62, own.shape),
    ).astype(np.int64)
    assert values.sets_bits_rightly(population, rows, K, 0.5, 0.25)
    assert not values.sets_bits_rightly(population, rows, K, 0.5, 0.28)
    assert not values.sets_bits_rightly(population, rows, K, 0.45, 0.25)
    assert not values.sets_bits_rightly(population, rows[:, :-1], K, 0.5, 0.25)
    assert not values.sets_bits_rightly(population, 2 * rows, K, 0.5, 0.25)
    for row in (own[:, -1], np.zeros(20_000)):  # the last bit in clear, or never set
        clear = np.column_stack([rows[:, :-1], row]).astype(np.int64)
        assert not values.sets_bits_rightly(population, clear, K, 0.5, 0.25)
    for shift in (0, 1):  # two bits of other values under one coin, or the own bit's coin in both
        shared = np.where(own, rows, np.roll(rows, 1, axis=1) if shift else rows[:, :1])
        assert not values.sets_bits_rightly(population, shared, K, 0.5, 0.25)


def test_the_check_of_hadamard_columns_sees_a_row_off_by_one_and_favoured_columns() -> None:
    population = values.values(20_000, K)
    row = 1 + np.array(population)
    columns = SYSTEM_RNG.uniform(16, row.size).astype(np.int64)
    wrong = (np.bitwise_count(columns & row) ^ SYSTEM_RNG.bernoulli(2**62, row.size)) & 1
    told = columns ^ (row & -row) * wrong  # supports the truth in three of four cases
    assert values.picks_columns_rightly(population, told, K, 0.75)
    assert values.picks_columns_rightly(population, told.tolist(), K, 0.75)
    assert not values.picks_columns_rightly(population, told, K, 0.7)
    assert not values.picks_columns_rightly(population, columns, K, 0.75)
    shifted = [(value + 1) % K for value in population]
    assert not values.picks_columns_rightly(shifted, told, K, 0.75)
    favoured = np.where(told == 12, 0, told)
    for broken in (favoured, told & 7, told | 8, told + 16, told[1:]):
        assert not values.picks_columns_rightly(population, broken, K, 0.75)


def test_the_other_values_are_others_and_take_every_value() -> None:
    population = values.values(1000, K)
    elsewhere = values.others(population, K)
    assert all(a != b for a, b in zip(population, elsewhere, strict=True))
    assert set(elsewhere) == set(range(K))
    assert set(population) == {0, *range(3, K)}
    assert 300 <= population.count(0) < 310


def _discrete_laplace(scale: float, count: int) -> NDArray[np.int64]:
    words = (SYSTEM_RNG.uniform(2**52, (2, count)) + 0.5) / 2.0**52
    up, down = np.floor(-scale * np.log(words))
    return np.asarray(up - down, dtype=np.int64)


@pytest.mark.parametrize("scale", [1, 2**18])
def test_the_check_of_discrete_laplace_noise_sees_scale_bias_bits_and_repeats(scale: int) -> None:
    samples = _discrete_laplace(scale, 100_000)
    assert noise.is_discrete_laplace(samples, scale)
    assert noise.is_discrete_laplace(samples.tolist(), scale)
    for wrong in (
        _discrete_laplace(0.9 * scale, 100_000),
        samples + scale // 8 + 1,
        np.abs(samples),
        np.repeat(samples[:50_000], 2),
        samples.astype(np.float64),
    ):
        assert not noise.is_discrete_laplace(wrong, scale)
    if scale > 1:
        assert not noise.is_discrete_laplace(samples & ~1, scale)


def test_the_check_of_discrete_gaussian_noise_sees_width_and_another_law() -> None:
    x = np.arange(-100, 101)

    def drawn(sigma: float) -> NDArray[np.int64]:
        weights = np.exp(-(x**2) / (2 * sigma**2))
        words = (SYSTEM_RNG.uniform(2**52, 50_000) + 0.5) / 2.0**52
        return x[np.searchsorted(np.cumsum(weights) / weights.sum(), words)]

    assert noise.is_discrete_gaussian(drawn(4.0), 4.0)
    assert not noise.is_discrete_gaussian(drawn(3.6), 4.0)
    assert not noise.is_discrete_gaussian(drawn(4.0) + 1, 4.0)
    # The same variance, and another law.
    assert not noise.is_discrete_gaussian(_discrete_laplace(4.0 / np.sqrt(2), 50_000), 4.0)


def test_the_check_of_quantisation_sees_bias_and_missing_clips() -> None:
    units = [int(x * 2**reals.FRAC_BITS // 1) for x in reals.reals(10_000)]
    largest = int(reals.CLIP * 2**reals.FRAC_BITS)
    clipped = [min(max(unit, -largest), largest) for unit in units]
    inside = [-largest < unit < largest for unit in units]

    def rounded(ups: int) -> list[int]:
        """The entries within the clip, rounded up in ``ups`` cases of a hundred."""
        coins = SYSTEM_RNG.uniform(100, len(units)) < ups
        return [u + int(i and c) for u, i, c in zip(clipped, inside, coins, strict=True)]

    assert not all(inside)
    assert reals.rounds_without_bias(rounded(25))
    assert not reals.rounds_without_bias(rounded(0))  # to the nearest
    assert not reals.rounds_without_bias(rounded(50))
    assert not reals.rounds_without_bias(units)
    assert not reals.rounds_without_bias([unit + 1 for unit in rounded(25)])


def test_the_check_of_a_mean_sees_a_unit_too_much_and_another_set_of_clients() -> None:
    x = vectors.vectors(5, 1000)
    unit = 2.0**-vectors.FRAC_BITS
    mean = x[1:].mean(axis=0)
    assert vectors.is_mean(mean + 0.9 * unit, x[1:])
    assert vectors.is_mean((mean - 0.9 * unit).tolist(), x[1:])
    for wrong in (mean + 1.1 * unit, x.mean(axis=0), mean[1:], mean * 4, mean[np.newaxis]):
        assert not vectors.is_mean(wrong, x[1:])


def test_the_check_of_masks_sees_a_bare_vector_and_a_narrow_mask() -> None:
    bare = [np.rint(row * 2.0**18).astype(np.int64) % 2**32 for row in vectors.vectors(2, 10_000)]
    masks = [SYSTEM_RNG.uniform(2**32, 10_000) for _ in bare]
    masked = [(x.astype(np.uint64) + m) % 2**32 for x, m in zip(bare, masks, strict=True)]
    assert vectors.are_masked(masked)
    assert not vectors.are_masked([masked[0], bare[1]])
    assert not vectors.are_masked([bare[0], masked[1]])
    assert not vectors.are_masked([m % 2**31 for m in masked])
    assert not vectors.are_masked([m | 1 << 31 for m in masked])


def test_the_check_of_products_takes_a_unit_for_each_party_and_sees_a_wrap() -> None:
    left, right = factors.factors(10_000)
    assert min(left) < 0 < max(left)
    assert max(map(abs, left + right)) <= factors.MAGNITUDE << factors.FRAC_BITS
    exact = [x * y / 2**factors.FRAC_BITS for x, y in zip(left, right, strict=True)]
    down = [math.floor(product) for product in exact]
    assert factors.multiplied_rightly(down, 1)
    assert factors.multiplied_rightly([math.ceil(product) for product in exact], 1)
    assert factors.multiplied_rightly([unit - 2 for unit in down], 3)
    assert not factors.multiplied_rightly([unit - 2 for unit in down], 1)
    assert not factors.multiplied_rightly([*down[:-1], down[-1] + (1 << 48)], 3)
    assert not factors.multiplied_rightly([0] * 10_000, 3)


def test_the_integers_are_distinct_and_fit_every_domain() -> None:
    values = integers.integers(10_000)
    assert len(set(values)) == len(values)
    assert 2 ** (integers.BITS - 1) < max(values) < 2**integers.BITS


def _encrypted(values: list[int]) -> list[int]:
    p, q = ciphertexts.primes(2048)
    n = p * q
    return [
        (1 + value * n) * pow(3 + i, n, n * n) % (n * n) for i, value in enumerate(values, start=1)
    ]


def test_the_stored_keys_are_of_safe_primes_and_have_their_length() -> None:
    for bits_of_n in (2048, 3072):
        p, q = ciphertexts.primes(bits_of_n)
        assert p != q
        assert (p * q).bit_length() == bits_of_n
        for prime in (p, q):
            assert gmpy2.is_prime(prime)
            assert gmpy2.is_prime((prime - 1) // 2)


def test_the_check_of_ciphertexts_sees_a_wrong_number_and_a_mask_that_hides_nothing() -> None:
    p, q = ciphertexts.primes(2048)
    n = p * q
    plain = ciphertexts.plaintexts(2)
    assert plain[0] == plain[1]  # so that one mask for all would give equal ciphertexts
    right = _encrypted(plain)
    assert ciphertexts.encrypts_rightly(right, plain, 2048)
    for wrong in (
        [right[0], right[0]],  # one mask
        [right[0], right[0] * (1 + n) % (n * n)],  # one mask, and another number
        [right[0], 1 + plain[1] * n],  # no mask
        [right[0], right[1] * (1 + n) % (n * n)],  # one too much
        [right[0], right[1] * (1 + p * n) % (n * n)],  # right modulo p only
        [right[0], right[1] * (1 + q * n) % (n * n)],
        [right[0], right[1] + n * n],
        [right[0], 0],
        right[:1],
        [*right, *_encrypted([0])],
    ):
        assert not ciphertexts.encrypts_rightly(wrong, plain, 2048)
    assert ciphertexts.decrypts_to(pow(right[0], -1, n * n), -plain[0], 2048)


def test_plaintexts_and_weights_have_their_bits() -> None:
    assert all(0 < value < 2**32 for value in ciphertexts.plaintexts(1000))
    assert len(set(ciphertexts.plaintexts(1000))) == 500
    assert {weight.bit_length() for weight in ciphertexts.weights(1000)} == {21}
    assert len(set(ciphertexts.weights(1000))) > 990


def test_the_check_of_tokens_sees_another_key_a_lost_token_and_equal_ones() -> None:
    inputs = items.items(4)
    assert len(set(inputs)) == 4
    tokens = [items.KNOWN.get(item, item.ljust(64)) for item in inputs]
    assert items.tokens_are_right(inputs, tokens, tokens)
    assert not items.tokens_are_right(inputs, tokens, tokens[::-1])
    for wrong in (
        [bytes(64), *tokens[1:]],
        [*tokens[:3], tokens[2]],
        tokens[::-1],
        tokens[:-1],
    ):
        assert not items.tokens_are_right(inputs, wrong, wrong)
