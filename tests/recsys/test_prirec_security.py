"""Protocol mode does what it says: no shortcut, no plaintext on the wire, no secret on disk."""

import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import mpc.secure_sum
import mpc.secure_sum_malicious
import recsys.pads
import recsys.prirec
import recsys.sums
import secagg.pads
import secagg.schedule
from mpc.core.errors import AbortError
from mpc.core.keys import KeyPair
from mpc.core.local import LocalNetwork
from mpc.core.prg import Prg
from mpc.core.ring import Ring, RingArray
from mpc.core.rng import Rng
from mpc.programs import Open, Program
from mpc.secure_sum import DirectChannel, batch_sum
from mpc.secure_sum_malicious import sum_program
from mpc.secure_sum_relay import RELAY
from recsys.config import TrainConfig
from recsys.prirec import PriRec
from recsys.report.run_folder import RunFolder
from recsys.run import Snapshot
from recsys.sums import FloatSums, SimulatedSums
from secagg.masks import mask, net_pad
from secagg.messages import SERVER
from tests.recsys.worlds import LAST, city, small

# One shortcut or another


def forbidden(*arguments: object, **options: object) -> None:
    raise AssertionError("a shortcut was taken")


@pytest.fixture
def no_shortcuts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every way to a sum but the protocols' fails."""
    for shortcut in (SimulatedSums, FloatSums):
        monkeypatch.setattr(shortcut, "__init__", forbidden)
        for name in ("mix", "aggregate", "_neighbour_sum", "_cohort_sum"):
            monkeypatch.setattr(shortcut, name, forbidden, raising=False)


@pytest.mark.usefixtures("no_shortcuts")
@pytest.mark.parametrize("mix", ["epoch", "update"])
def test_protocol_mode_never_calls_the_simulation(mix: str) -> None:
    assert PriRec(small(mode="protocol", mix=mix)).fit(city()).history_


@pytest.mark.usefixtures("no_shortcuts")
@pytest.mark.parametrize("mode", ["simulate", "float"])
def test_the_other_modes_are_caught_as_shortcuts(mode: str) -> None:
    with pytest.raises(AssertionError, match="a shortcut was taken"):
        PriRec(small(mode=mode)).fit(city())


def test_every_share_and_pad_comes_from_the_base_layer(monkeypatch: pytest.MonkeyPatch) -> None:
    """N - 1 masks of D + 1 elements for each neighbour of each sum; a pair's pads at both ends."""
    drawn = {"shares": 0, "streams": 0}
    fill = Ring.fill

    def filled(self: Ring, out: RingArray, rng: Rng) -> RingArray:
        drawn["shares"] += out.size
        return fill(self, out, rng)

    def expanded(streams: Any, shape: tuple[int, ...], ring: Ring) -> RingArray:
        drawn["streams"] += len(streams)
        return net_pad(streams, shape, ring)

    monkeypatch.setattr(secagg.schedule, "net_pad", expanded)
    model = PriRec(small(mode="simulate", epochs=1)).fit(city())
    assert drawn == {"shares": 0, "streams": 0}
    monkeypatch.setattr(Ring, "fill", filled)
    PriRec(small(mode="protocol", epochs=1, features="user")).fit(city())
    users = len(model.prepared_.user_ids)
    assert drawn == {"shares": users * 3 * 2 * 1, "streams": 0}
    monkeypatch.undo()
    monkeypatch.setattr(secagg.schedule, "net_pad", expanded)
    PriRec(small(mode="protocol", epochs=1)).fit(city())
    assert drawn["streams"] == users * (users - 1)  # one block of rounds


# One bit


class FlippingChannel(DirectChannel):
    """Alters one bit of one share of a whole training."""

    bit = 0
    done = False

    def shares(self, columns: slice, offset: int, shares: RingArray) -> RingArray:
        arrived = super().shares(columns, offset, shares)
        if not type(self).done and self._sums == 2:
            type(self).done = True
            arrived[1, 0, 0] ^= np.uint32(1 << self.bit)
        return arrived

    def open(self, *arguments: Any) -> None:
        super().open(*arguments)
        self._sums = getattr(self, "_sums", 0) + 1


@pytest.mark.parametrize("bit", [0, 16, 24])
def test_one_altered_share_changes_the_digest(monkeypatch: pytest.MonkeyPatch, bit: int) -> None:
    honest = PriRec(small(mode="protocol")).fit(city()).model_digest
    monkeypatch.setattr(FlippingChannel, "bit", bit)
    monkeypatch.setattr(FlippingChannel, "done", False)
    monkeypatch.setattr(recsys.sums, "DirectChannel", FlippingChannel)
    assert PriRec(small(mode="protocol")).fit(city()).model_digest != honest
    assert FlippingChannel.done


class AlteringNeighbour:
    """Alters, in the third sum of a training with MACs, one bit of what a neighbour forwards.

    Of one receiver's sum alone; everybody's part in the opening is a row, (N + 1, B, D + 1).
    """

    def __init__(self, bit: int) -> None:
        self.bit = bit
        self.sums = 0

    def program(self, *arguments: Any) -> Program[RingArray | None]:
        self.sums += 1
        program = sum_program(*arguments)
        request = next(program)
        while True:
            if self.sums == 3 and isinstance(request, Open):
                request.shares[0][1, 7, 0] ^= np.uint64(1 << self.bit)
            try:
                request = program.send((yield request))
            except StopIteration as end:
                total: RingArray = end.value
                return total


@pytest.mark.parametrize("bit", [0, 16, 24])
def test_one_altered_partial_sum_ends_a_training_with_macs(
    monkeypatch: pytest.MonkeyPatch, bit: int
) -> None:
    config = small(mode="protocol", security="malicious", epochs=4)
    epochs: list[int] = []
    with monkeypatch.context() as patched:
        neighbour = AlteringNeighbour(bit)
        patched.setattr(mpc.secure_sum_malicious, "sum_program", neighbour.program)
        with pytest.raises(AbortError, match="in 1 of 40 computations: somebody altered"):
            PriRec(config).fit(city(), progress=lambda record: epochs.append(record.epoch))
    assert neighbour.sums == 3
    assert len(epochs) == 2  # nothing that was altered came to count
    assert (
        PriRec(config).fit(city()).model_digest == PriRec(small(epochs=4)).fit(city()).model_digest
    )


@pytest.mark.parametrize("bit", [0, 16, 24])
def test_one_altered_masked_vector_changes_the_digest(
    monkeypatch: pytest.MonkeyPatch, bit: int
) -> None:
    honest = PriRec(small(mode="protocol")).fit(city()).model_digest
    calls = 0

    def flipped(x: RingArray, pad: RingArray, ring: Ring) -> RingArray:
        nonlocal calls
        calls += 1
        masked = mask(x, pad, ring)
        if calls == 3:
            masked[4, 0, 7] ^= np.uint32(1 << bit)
        return masked

    monkeypatch.setattr(secagg.pads, "mask", flipped)
    assert PriRec(small(mode="protocol")).fit(city()).model_digest != honest
    assert calls >= 3


# What travels


def tiny(**changes: Any) -> TrainConfig:
    """A training of a few hundred messages."""
    few: dict[str, Any] = {"min_cohort": 5, "local_batch": 8, "factors": 2}
    return small(prepare=replace(LAST, min_visitors=0), **few, **changes)


class Wire:
    """A short training on a network that keeps every view, and what the parties put in."""

    def __init__(self, patch: pytest.MonkeyPatch, **changes: Any) -> None:
        self.network = LocalNetwork(record=True)
        self.models: set[bytes] = set()
        self.gradients: set[bytes] = set()
        run_round = recsys.pads.CohortPads.run_round

        def summed(x: RingArray, ring: Ring, **options: Any) -> RingArray:
            self.models |= {ring.to_bytes(row) for row in x.reshape(-1, x.shape[-1])}
            return batch_sum(x, ring, **options)

        def aggregated(pads: Any, cohort: int, round_: int, encoded: RingArray) -> RingArray:
            self.gradients |= {row.astype("<u4").tobytes() for row in encoded}
            return run_round(pads, cohort, round_, encoded)

        patch.setattr(recsys.sums, "batch_sum", summed)
        patch.setattr(recsys.pads.CohortPads, "run_round", aggregated)
        patch.setattr(recsys.prirec, "LocalNetwork", lambda: self.network)
        self.model = PriRec(tiny(mode="protocol", **changes)).fit(city(12, 10, 6))
        self.users = range(len(self.model.prepared_.user_ids))

    def messages(self) -> Iterator[bytes]:
        for party in (SERVER, *self.users):
            for delivery in self.network.view(party):
                yield delivery.data

    def plain(self) -> list[bytes]:
        """Every encoded model or gradient that lies in some message as it is."""
        everything = b"|".join(self.messages())
        return [secret for secret in self.models | self.gradients if secret in everything]

    def kinds(self, party: int) -> set[str]:
        return {delivery.kind for delivery in self.network.view(party)}


@pytest.mark.parametrize("relay", [False, True])
def test_no_message_holds_a_model_or_a_gradient(
    monkeypatch: pytest.MonkeyPatch, relay: bool
) -> None:
    wire = Wire(monkeypatch, relay=relay)
    assert len(wire.models) > 10
    assert len(wire.gradients) > 10
    assert wire.plain() == []


def unmasked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(secagg.pads, "mask", lambda x, pad, ring: x.copy())


def shared_in_the_clear(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first neighbour gets the secret itself, all others get nothing."""

    def deal(x: RingArray, n: int, ring: Ring, rng: Rng, **options: Any) -> Iterator[RingArray]:
        yield x.copy()
        for _ in range(n - 1):
            yield np.zeros_like(x)

    def no_difference(x: RingArray, n: int, ring: Ring, rng: Rng, **options: Any) -> Any:
        out = options.get("out")
        shares = deal(x, n, ring, rng)
        if out is not None:
            out[1][...] = 0  # the sums begin without the own share, which is nothing
        return shares

    monkeypatch.setattr(mpc.secure_sum, "deal", no_difference)


@pytest.mark.parametrize("twin", [unmasked, shared_in_the_clear])
def test_a_broken_twin_is_seen_on_the_wire(
    monkeypatch: pytest.MonkeyPatch, twin: Callable[[pytest.MonkeyPatch], None]
) -> None:
    """The same sums, so the same digest, and the very same check finds what should not be there."""
    honest = PriRec(tiny(mode="simulate")).fit(city(12, 10, 6)).model_digest
    twin(monkeypatch)
    wire = Wire(monkeypatch)
    assert wire.model.model_digest == honest
    assert wire.plain() != []


def test_each_party_gets_the_messages_meant_for_it_and_no_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    wire = Wire(monkeypatch)
    assert wire.kinds(SERVER) == {"pads.key", "pads.masked"}
    graph = wire.model.learner_.network  # type: ignore[attr-defined]
    for user in wire.users:
        assert wire.kinds(user) <= {
            *("pads.roster", "pads.confirmed", "secure_sum.share", "secure_sum.partial")
        }
        partial = [d.sender for d in wire.network.view(user) if d.kind == "secure_sum.partial"]
        assert sorted(partial) == sorted(2 * graph.neighbours[user].tolist())


def test_a_relay_sees_sealed_messages_only(monkeypatch: pytest.MonkeyPatch) -> None:
    wire = Wire(monkeypatch, relay=True, epochs=1)
    assert RELAY == SERVER  # the recommender, who also aggregates
    assert wire.kinds(SERVER) == {"pads.key", "pads.masked", "secure_sum.relay_up"}
    for user in wire.users:
        assert "secure_sum.share" not in wire.kinds(user)


def secrets_sent(patch: pytest.MonkeyPatch) -> tuple[str, set[bytes]]:
    """The digest of a seeded run, and the ends of messages: of shares, keys and masked vectors."""
    with patch.context() as inner:
        wire = Wire(inner, seed=1, epochs=1)
    kinds = {"pads.key", "pads.masked", "secure_sum.share", "secure_sum.partial"}
    views = (wire.network.view(party) for party in (SERVER, *wire.users))
    # The payload comes last; the head names the session, which is fresh in any case.
    sent = {delivery.data[-16:] for view in views for delivery in view if delivery.kind in kinds}
    return wire.model.model_digest, sent


def test_no_share_key_or_pad_comes_from_a_seed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two runs of one seed end in one model, and share not a single payload that hides a value."""
    (first, sent), (second, again) = secrets_sent(monkeypatch), secrets_sent(monkeypatch)
    assert first == second
    assert len(sent) > 100
    assert not sent & again


def test_a_seeded_twin_repeats_its_payloads(monkeypatch: pytest.MonkeyPatch) -> None:
    """With shares drawn from a seed, the check above would fail."""
    honest = batch_sum

    def seeded(x: RingArray, ring: Ring, **options: Any) -> RingArray:
        return honest(x, ring, **options, rng=Prg(bytes(32)))

    monkeypatch.setattr(sys.modules[__name__], "batch_sum", seeded)
    (_, sent), (_, again) = secrets_sent(monkeypatch), secrets_sent(monkeypatch)
    assert sent & again


def test_a_recorded_training_is_the_counted_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Batches that are only counted stand for exactly the messages that are sent when recorded."""
    wire = Wire(monkeypatch)
    monkeypatch.undo()
    counted = PriRec(tiny(mode="protocol")).fit(city(12, 10, 6))
    assert counted.traffic is not None
    assert counted.traffic.traffic == wire.network.traffic
    assert counted.model_digest == wire.model.model_digest


# What is stored


class Secrets:
    """Collects every pair key, stream key and pad of the trainings that follow."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.keys: set[bytes] = set()
        self.pads: set[bytes] = set()
        agree, expand = KeyPair.agree, Prg.__init__

        def agreed(pair: KeyPair, *arguments: Any) -> bytes:
            key = agree(pair, *arguments)
            self.keys.add(key)
            return key

        def expanded(prg: Prg, seed: bytes, *arguments: Any) -> None:
            self.keys.add(seed)
            expand(prg, seed, *arguments)

        def masked(x: RingArray, pad: RingArray, ring: Ring) -> RingArray:
            self.pads |= {row.tobytes()[:32] for row in pad.reshape(len(pad), -1)}
            return mask(x, pad, ring)

        patch.setattr(KeyPair, "agree", agreed)
        patch.setattr(Prg, "__init__", expanded)
        patch.setattr(secagg.pads, "mask", masked)


class WatchedRun(RunFolder):
    """Reads the whole folder after every snapshot."""

    def save(self, snapshot: Snapshot) -> None:
        super().save(snapshot)
        self.contents = [*getattr(self, "contents", []), contents(self.path)]


def contents(folder: Path) -> dict[str, bytes]:
    files = (path for path in sorted(folder.rglob("*")) if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}


def bits(array: NDArray[Any]) -> bytes:
    return np.ascontiguousarray(array).tobytes()


def test_no_key_and_no_pad_is_ever_written_to_disk(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    secrets = Secrets(monkeypatch)
    with WatchedRun(tmp_path / "run", settings={}) as run:
        model = PriRec(small(mode="protocol", relay=True, seed=None)).fit(city(), run=run)
        model.save(run.path)
        seen = [*run.contents, contents(run.path)]
    users = len(model.prepared_.user_ids)
    assert len(secrets.keys) >= users * (users - 1)  # a pair key and a stream key for each pair
    assert len(secrets.pads) >= 2 * users
    assert len(seen) == 3
    everything = b"|".join(data for files in seen for data in files.values())
    assert not [secret for secret in secrets.keys | secrets.pads if secret in everything]
    # The search would find them: memo keys are meant to be there, in one place.
    holders = {
        name
        for name, data in seen[-1].items()
        if bits(run.memo_keys(len(model.prepared_.user_ids))[0]) in data
    }
    assert holders == {"users/memo-keys.npz"}


def test_models_and_visits_are_stored_with_the_users_alone(tmp_path: Path) -> None:
    """Rows of W and the visits lie in users/, V and the POIs' features in recommender/."""
    with WatchedRun(tmp_path / "run", settings={}) as run:
        model = PriRec(small(mode="protocol", seed=None)).fit(city(), run=run)
        model.save(run.path)
        seen = [*run.contents, contents(run.path)]
    files = model.files
    private = [bits(row) for row in files.arrays["w"]] + [bits(files.visit_pois)]
    for stored in seen:
        for name, data in stored.items():
            if not name.startswith("users/"):
                assert not any(secret in data for secret in private), name
    assert bits(files.arrays["w"][0]) in seen[-1]["users/models.npz"]
    assert bits(files.arrays["v"]) in seen[-1]["recommender/model.npz"]
    assert bits(files.arrays["v"]) in seen[1]["recommender/checkpoint-0002.npz"]
    assert (run.path / "users").stat().st_mode & 0o777 == 0o700
    for name in ("models.npz", "checkpoint-0002.npz", "memo-keys.npz"):
        assert (run.path / "users" / name).stat().st_mode & 0o777 == 0o600
