"""Engines: where chunks end, that work done elsewhere is the same work, and what is refused."""

import copy
import pickle
import socket
from collections.abc import Callable, Sequence
from dataclasses import replace
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mpc.core.errors import MissingLibraryError, ParameterError, StateError
from recsys.baselines.biases import Biases
from recsys.engine import RAY, LocalEngine, Shared, split
from recsys.engine_facts import Facts
from recsys.engine_ray import RayEngine, host_of
from recsys.errors import DivergenceError, EngineError
from recsys.fedgnn import FedGNNLearner
from recsys.prirec import PriRecLearner
from recsys.prirec_chunks import prirec_round
from recsys.registry import recommender_class
from recsys.report.run_folder import RunFolder
from recsys.run import MEMO_KEY_BYTES
from tests.recsys.baselines.cases import low_rank
from tests.recsys.engine_cases import CASES, CHUNK, PRIREC, trained
from tests.recsys.engine_work import Empty, echo, refuses
from tests.recsys.rating_worlds import small as rating_settings
from tests.recsys.worlds import KnownKeysRun, city, small
from tests.support.cli import CITY, QUICK, Run


class Elsewhere(LocalEngine):
    """What travels is pickled on its way, and nobody may write to what arrives."""

    name, remote = RAY, True

    def __init__(self) -> None:
        super().__init__()
        self.sent: list[bytes] = []
        self.returned: list[bytes] = []

    def start(self, shared: Shared) -> None:
        super().start(self._carried(shared, self.sent))

    def map(self, function: Callable[..., Any], current: Any, chunks: Sequence[Any]) -> list[Any]:
        there = [self._carried(chunk, self.sent) for chunk in chunks]
        parts = super().map(function, self._carried(current, self.sent), there)
        return [self._carried(part, self.returned) for part in parts]

    def _carried(self, thing: Any, kept: list[bytes]) -> Any:
        buffers: list[pickle.PickleBuffer] = []
        data = pickle.dumps(thing, protocol=5, buffer_callback=buffers.append)
        raw = [bytes(buffer.raw()) for buffer in buffers]
        kept.append(data + b"".join(raw))
        return pickle.loads(data, buffers=raw)  # so arrays are read-only


# Chunks


@given(st.integers(0, 400), st.integers(1, 500))
def test_chunks_are_as_few_and_as_even_as_can_be(count: int, size: int) -> None:
    members = np.arange(count, dtype=np.int32)
    parts = [members[part] for part in split(members, size)]
    assert np.array_equal(np.concatenate([members[:0], *parts]), members)
    assert len(parts) == -(-count // size)
    sizes = [part.size for part in parts]
    assert max(sizes, default=0) - min(sizes, default=0) <= 1


@pytest.mark.parametrize("case", ["prirec", "fedgnn", "fedgnn, steps and neighbours"])
def test_other_chunks_change_no_more_than_last_bits(case: str) -> None:
    one, other, whole = (trained(case, None, chunk=chunk) for chunk in (1, CHUNK, 1000))
    for name, array in whole.files.arrays.items():
        assert one.files.arrays[name] == pytest.approx(array, abs=1e-9)
        assert other.files.arrays[name] == pytest.approx(array, abs=1e-9)


# Elsewhere


@pytest.mark.parametrize("case", CASES)
def test_work_done_elsewhere_gives_the_same_model(case: str) -> None:
    here, there = trained(case, None), trained(case, Elsewhere())
    assert there.model_digest == here.model_digest
    assert there.history_ == here.history_
    assert clipped(there) == clipped(here)


def clipped(model: Any) -> int:
    learner = model.learner_
    if isinstance(learner, PriRecLearner):
        return learner.sums.clipped
    assert isinstance(learner, FedGNNLearner)
    return learner.aggregation.clipped


def test_clipped_entries_are_counted_elsewhere_too() -> None:
    """So equal counts above are no matter of course."""
    assert clipped(trained("fedgnn, as the paper", Elsewhere())) > 0
    assert clipped(trained("prirec", Elsewhere(), clip=1e-3)) > 0


@pytest.mark.parametrize("case", CASES)
def test_a_probe_is_the_same_in_two_places_and_another_for_another_work(case: str) -> None:
    engine, other = Elsewhere(), Elsewhere()
    trained(case, engine)
    trained(case, other, **({"factors": 4} if case in PRIREC else {"dim": 3, "gnn": "gcn"}))
    here, there = engine._shared.probe(), copy.deepcopy(engine._shared).probe()
    assert here == there
    assert here != other._shared.probe()


SECRETS = KnownKeysRun().memo_keys(30)


def keys_in(sent: list[bytes]) -> int:
    """How many users' memo keys are in what was sent."""
    together = b"".join(sent)
    return sum(key.tobytes() in together for key in SECRETS)


@pytest.mark.parametrize(
    ("case", "changes"),
    [
        ("prirec, without a seed", {}),
        ("prirec, without a seed", {"mode": "simulate"}),
        ("fedgnn, without a seed", {"mode": "protocol"}),
        ("fedgnn, without a seed", {"mode": "protocol", "clip": 0.1, "laplace": 0.05}),
        ("fedgnn, without a seed", {"clip": 0.1, "laplace": 0.05, "pseudo": 0}),
    ],
)
def test_no_memo_key_travels(case: str, changes: dict[str, Any]) -> None:
    """Of pads and noise nothing does either: they are made where sums are."""
    engine = Elsewhere()
    trained(case, engine, **changes)
    assert engine.sent
    assert keys_in(engine.sent) == 0


def test_keys_of_pseudo_items_travel_in_a_simulation() -> None:
    """The one exception, which the guide names; so the search above finds keys where they are."""
    engine = Elsewhere()
    trained("fedgnn, without a seed", engine)
    assert keys_in(engine.sent) == 30
    assert SECRETS.shape[1] == MEMO_KEY_BYTES


@pytest.mark.parametrize("case", ["prirec", "fedgnn", "fedgnn, as the paper"])
def test_sums_come_back_where_a_simulation_needs_no_more(case: str) -> None:
    """And what each member sends, where a protocol adds it up."""
    simulated, real = Elsewhere(), Elsewhere()
    trained(case, simulated, chunk=1000)
    trained(case, real, chunk=1000, mode="protocol")
    assert sum(map(len, simulated.returned)) < sum(map(len, real.returned))


def test_parts_come_in_the_order_of_their_chunks_and_the_first_error_counts() -> None:
    engine = LocalEngine()
    engine.start(Empty())
    assert engine.map(echo, 5, (3, 1, 2)) == [(3, 5), (1, 5), (2, 5)]
    assert engine.map(echo, 5, ()) == []
    with pytest.raises(DivergenceError, match="chunk 2"):
        engine.map(refuses, None, range(6))


def test_a_protocol_s_sum_takes_no_parts() -> None:
    for case in ("prirec, protocol", "prirec, float"):
        learner = trained(case, None).learner_
        assert isinstance(learner, PriRecLearner)
        assert learner.sums.adder is None
        with pytest.raises(StateError, match="has no parts"):
            learner.sums.combine(0, [])
    learner = trained("fedgnn, protocol", None).learner_
    assert isinstance(learner, FedGNNLearner)
    with pytest.raises(StateError, match="has no parts"):
        learner.aggregation.combine(0, 0, [])


# Refused


@pytest.mark.parametrize("model", ["mf", "fm", "dmf"])
def test_a_model_of_visits_without_work_for_workers_refuses_them(model: str) -> None:
    fresh = recommender_class(model)(small(model=model))
    with pytest.raises(ParameterError, match=f"^{model} trains in one process"):
        fresh.fit(city(), engine=Elsewhere())
    assert fresh.fit(city(), engine=LocalEngine()).history_


def test_a_model_of_ratings_without_work_for_workers_refuses_them() -> None:
    fresh = Biases(rating_settings(model="bias"))
    with pytest.raises(ParameterError, match=r"^bias trains in one process"):
        fresh.fit(low_rank(), engine=Elsewhere())
    assert fresh.fit(low_rank(), engine=LocalEngine()).history_


@pytest.mark.parametrize("address", ["ray://head:1", "head", ":1", "head:", "head:x", "a/b:1", ""])
def test_an_address_is_a_host_and_a_port(address: str) -> None:
    with pytest.raises(ParameterError, match=r"^ray_address must be HOST:PORT or auto"):
        RayEngine(address=address)
    assert host_of("auto") == "auto"
    assert host_of("10.0.0.7:6379") == "10.0.0.7"


@pytest.mark.parametrize("workers", [0, -1, 1.5, True])
def test_workers_are_counted_from_one(workers: Any) -> None:
    with pytest.raises(ParameterError, match=r"^workers must"):
        RayEngine(workers)


def test_a_worker_with_another_version_is_refused() -> None:
    here = Facts.here(Empty())
    here.check(here)
    for name in ("Python", "privrec", "numpy", "scipy", "torch"):
        other = replace(here, machine="second", versions={**here.versions, name: "0.1"})
        with pytest.raises(EngineError, match=rf"^a worker on second has {name} 0\.1, and this"):
            here.check(other)


def closed_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--engine", "spark"], "engine must be one of local, ray, got 'spark'"),
        (["--workers", "2"], "workers has no meaning with the engine local, got 2"),
        (["--ray-address", "h:1"], "ray_address has no meaning with the engine local, got 'h:1'"),
        (["--engine", "ray", "--workers", "0"], "workers must lie in [1, 2^16], got 0"),
        (["--engine", "ray", "--ray-address", "head"], "ray_address must be HOST:PORT or auto"),
        (["--chunk", "0"], "chunk must be an integer of at least 1, got 0"),
    ],
)
def test_the_command_refuses(run: Run, options: list[str], sentence: str) -> None:
    result = run("train", "prirec", *QUICK, *options, "--out", "out")
    assert result.code == 2
    assert result.err.startswith(f"error: {sentence}")
    assert not Path("out").exists()


def test_the_command_says_that_no_cluster_answers(run: Run) -> None:
    address = f"127.0.0.1:{closed_port()}"
    options = ("--engine", "ray", "--ray-address", address, "--out", "out")
    result = run("train", "prirec", *QUICK, *options)
    assert result.code == 2
    assert f"no Ray cluster answers at {address}" in result.err
    assert "remedy: start one with `ray start --head`" in result.err
    assert not Path("out").exists()


def test_without_ray_the_command_says_what_to_install(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    version = metadata.version

    def without_ray(name: str) -> str:
        if name == "ray":
            raise metadata.PackageNotFoundError(name)
        return version(name)

    monkeypatch.setattr(metadata, "version", without_ray)
    with pytest.raises(MissingLibraryError, match=r"^the engine ray needs ray"):
        RayEngine(1).start(Empty())
    result = run("train", "prirec", *QUICK, "--engine", "ray", "--out", "out")
    assert result.code == 2
    assert result.err.startswith("error: the engine ray needs ray, which is not installed")
    assert "remedy: pip install 'privrec[ray]'" in result.err
    assert not Path("out").exists()


def test_the_command_refuses_workers_for_another_model(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("recsys.cli.engines.EngineChoice.open", lambda *rest: Elsewhere())
    result = run("train", "fm", *CITY, "--engine", "ray", "--out", "out")
    assert result.code == 2
    assert "error: fm trains in one process, and has no work for the engine ray" in result.err
    assert not Path("out").exists()


# Written down


def test_a_failed_engine_leaves_the_run_and_says_how_to_go_on(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Even before the first epoch: the users may have answered by then."""

    def fails(shared: Any, v: Any, chunk: Any) -> Any:
        if chunk.epoch >= epochs:
            raise EngineError("3 workers died", remedy="take smaller chunks")
        return prirec_round(shared, v, chunk)

    monkeypatch.setattr("recsys.prirec.prirec_round", fails)
    for epochs, kept in ((0, "no epoch is done yet"), (1, "epoch 1 is kept")):
        result = run("train", "prirec", *QUICK, "--out", "out", "--force")
        assert result.code == 1
        assert f"error: 3 workers died; {kept}\n" in result.err
        assert "remedy: take smaller chunks; go on with: privrec train --resume " in result.err
        with RunFolder("out") as folder:
            assert folder.checkpoints == epochs
    monkeypatch.setattr("recsys.prirec.prirec_round", prirec_round)
    assert run("train", "--resume", "out").code == 0


def test_the_engine_is_written_down_and_is_no_setting(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    seeded = ("train", "prirec", *QUICK, "--seed", "1", "--json")
    local = run(*seeded, "--out", "local").row
    with monkeypatch.context() as patch:
        patch.setattr("recsys.cli.engines.EngineChoice.open", lambda *rest: Elsewhere())
        remote = run(*seeded, "--engine", "ray", "--out", "remote").row
    assert remote["model_digest"] == local["model_digest"]
    assert (local["engine"], remote["engine"]) == ("local", "ray")
    settings = [Path(out, "public", "config.toml").read_text() for out in ("local", "remote")]
    assert settings[0] == settings[1]
    assert "chunk = 32" in settings[0]
    assert "workers of the engine ray" in Path("remote", "public", "report.html").read_text()
    assert "workers of the engine" not in Path("local", "public", "report.html").read_text()
