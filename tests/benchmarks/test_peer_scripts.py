"""The peers' scripts and what they share: right stand-ins pass their checks, wrong twins do not."""

import gc
import json
import runpy
import sys
import time
from collections.abc import Callable
from importlib import import_module

import pytest

from benchmarks.harness import SCRIPTS
from benchmarks.peers import bits, integers, one_round, reals
from benchmarks.ratios import ROWS
from mpc.core.rng import SYSTEM_RNG
from tests.benchmarks import fake_peers
from tests.benchmarks.fake_peers import Modules

Fake = Callable[..., Modules]

RUNS: dict[str, tuple[tuple[str, ...], Fake]] = {
    "flower_agree.py": (("3",), fake_peers.flower),
    "flower_mask.py": (("1000", "3"), fake_peers.flower),
    "flower_quantize.py": (("10000",), fake_peers.flower),
    "mpyc_share.py": (("1000", "3"), fake_peers.mpyc),
    "mpyc_sum.py": (("1000", "3"), fake_peers.mpyc),
    "multi_freq_ldpy_rr.py": (("2000", "1.0"), fake_peers.multi_freq_ldpy),
    "opendp_rr.py": (("10000", "1.0"), fake_peers.opendp),
    "pure_ldp_rr.py": (("2000", "1.0"), fake_peers.pure_ldp),
    "spu_share.py": (("1000", "3"), fake_peers.spu),
}


@pytest.fixture(autouse=True)
def _beside_the_scripts(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a script finds beside itself, and rounds of one call."""
    for name in ("bits", "integers", "one_round", "reals"):
        monkeypatch.setitem(sys.modules, name, import_module(f"benchmarks.peers.{name}"))
    monkeypatch.setattr(one_round, "LEAST_SECONDS", 1e-9)


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
    assert {row.peer.script.name for row in ROWS if row.peer} == set(RUNS)


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


def test_the_integers_are_distinct_and_fit_every_domain() -> None:
    values = integers.integers(10_000)
    assert len(set(values)) == len(values)
    assert 2 ** (integers.BITS - 1) < max(values) < 2**integers.BITS
