"""What leaves a device of FedGNN, how many bytes it takes, and that no protocol is cut short."""

import struct
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import recsys.fedgnn
import recsys.ratings.expansion
import secagg.pads
from mpc.core.local import LocalNetwork
from mpc.core.ring import Ring, RingArray
from mpc.matching.messages import MATCHER
from recsys.fedgnn import FedGNNLearner
from recsys.models.star_devices import Devices
from recsys.models.star_model import ClientGradients
from recsys.pads import CohortPads, Part
from recsys.ratings.aggregate_clear import ClearSum, UploadedSum
from recsys.ratings.aggregate_mean import MeanRating
from recsys.ratings.aggregate_noise import SummedNoise
from recsys.ratings.aggregate_secure import SimulatedSum
from recsys.ratings.aggregate_vector import Layout
from recsys.ratings.expansion import Neighbourhood, find_neighbours
from recsys.ratings.gradients import Gradients, RoundSum
from recsys.ratings.uploads import GradientUpload
from recsys.training import Arrays
from secagg.masks import mask
from secagg.messages import SERVER
from tests.recsys.fedgnn_cases import PAPER_LIKE, crowd, fitted, learner_of, new_learner
from tests.recsys.models.star_cases import client_of, gradient, loss_of, reference_of

Integers = NDArray[np.int64]
Twin = Callable[[Gradients, Arrays, ClientGradients], Gradients]
"""Another upload than this one, by a device that may use all that it has."""

USERS, ITEMS, DIM = 9, 7, 4
STEP = 2.0**-16

# One round on the wire


class Wire:
    """One round of all users by gradient steps, every number of theirs a multiple of ``STEP``."""

    def __init__(self, patch: pytest.MonkeyPatch, twin: Twin | None = None, **changes: Any) -> None:
        self.network = LocalNetwork(record=True)
        patch.setattr(recsys.fedgnn, "LocalNetwork", lambda: self.network)
        self.vectors: list[RingArray] = []
        patch.setattr(CohortPads, "run_parts", self._padded(CohortPads.run_parts))
        patch.setattr(Devices, "upload", self._uploading(Devices.upload, twin))
        self.gnn = changes.get("gnn", "gat")
        settings: dict[str, Any] = {
            **{"mode": "protocol", "user_fit": "steps", "cohort": 200, "min_cohort": 3},
            **{"neighbours": "trainable", "expand_after": 50, "gnn": self.gnn, "user_rate": 1e-300},
        }
        self.learner = new_learner(crowd(USERS, ITEMS), **{**settings, **changes})
        self._fill()
        self.before = {name: array.copy() for name, array in self.learner.state.arrays.items()}
        self.learner.epoch(0)

    def _fill(self) -> None:
        rng, arrays = np.random.default_rng(3), self.learner.state.arrays
        for name in ("items", "users", "weights"):
            arrays[name][:] = rng.integers(-(2**15), 2**15, arrays[name].shape) * STEP
        arrays["neighbour_counts"][:] = 1 + np.arange(USERS) % 3
        there = np.arange(arrays["neighbours"].shape[1]) < arrays["neighbour_counts"][:, np.newaxis]
        arrays["neighbours"][there] = rng.integers(-(2**15), 2**15, (int(there.sum()), DIM)) * STEP

    def _padded(self, honest: Any) -> Any:
        def summed(pads: Any, cohort: int, round_: int, part: Part) -> RingArray:
            def kept(start: int, stop: int) -> RingArray:
                self.vectors.append(part(start, stop).copy())
                return self.vectors[-1].copy()

            found: RingArray = honest(pads, cohort, round_, kept)
            return found

        return summed

    def _uploading(self, honest: Any, twin: Twin | None) -> Any:
        def upload(devices: Devices, members: Any, found: ClientGradients) -> Gradients:
            sent: Gradients = honest(devices, members, found)
            return twin(sent, self.learner.state.arrays, found) if twin else sent

        return upload

    def messages(self) -> Iterator[bytes]:
        for party in (SERVER, MATCHER, *range(USERS)):
            yield from (delivery.data for delivery in self.network.view(party))

    def sent(self, user: int) -> tuple[list[int], Integers]:
        """Items and numbers, in steps: of her message, or of what her pads were added to."""
        if self.learner.config.aggregate == "secure":
            [vectors] = [one for one in self.vectors if one.shape[1] > 2]  # not those of the mean
            return list(range(ITEMS)), vectors[user].view(np.int32).astype(np.int64)
        [data] = [
            delivery.data
            for delivery in self.network.view(SERVER)
            if delivery.kind == "ratings.gradients" and delivery.sender == user
        ]
        upload = GradientUpload.from_bytes(data)
        words = [upload.values[at : at + 3] for at in range(0, len(upload.values), 3)]
        numbers = [int.from_bytes(word, "little", signed=True) for word in words]
        items = np.frombuffer(upload.items, dtype="<u4")
        return items.tolist(), np.array(numbers, dtype=np.int64)

    def expected(self, user: int) -> tuple[list[int], NDArray[np.float64]]:
        """Items, and the gradients of these and of the weights, by the plain reference."""
        learner, config = self.learner, self.learner.config
        inputs = learner.devices.inputs(np.array([user], dtype=np.int32), self.before)
        client = client_of(inputs, 0)
        errors = reference_of(self.gnn, learner.model).errors(client)
        loss = loss_of(errors, absolute=config.loss == "absolute", mean=config.reduction == "mean")
        loss.backward()  # type: ignore[no-untyped-call]
        biases = gradient(client.item_biases).numpy() * config.bias
        rows = np.concatenate([gradient(client.items).numpy(), biases[:, np.newaxis]], axis=1)
        train = learner.devices.ratings
        items = train.items[train.users == user].tolist()
        if config.aggregate == "secure":
            table = np.zeros((ITEMS, DIM + 1))
            table[items] = rows
            items, rows = list(range(ITEMS)), table
        weights = [gradient(weights).numpy().reshape(-1) for weights in client.weights.values()]
        return items, np.concatenate([rows.reshape(-1), *weights])

    def faults(self) -> set[str]:
        """How some upload is more, or another, than gradients of items and of weights."""
        found = set()
        for user in range(USERS):
            items, numbers = self.sent(user)
            expected_items, expected = self.expected(user)
            if items != expected_items:
                found.add("items")
            elif numbers.size != expected.size:
                found.add("size")
            elif (np.abs(numbers * STEP - expected) >= STEP).any():
                found.add("numbers")
        return found

    def private_rows(self) -> dict[str, list[NDArray[np.float64]]]:
        """The beginnings of all embeddings that only their holders may know."""
        counts = self.before["neighbour_counts"].astype(int)
        return {
            "users": [row[:2] for row in self.before["users"]],
            "neighbours": [
                row[:2] for u in range(USERS) for row in self.before["neighbours"][u, : counts[u]]
            ],
        }

    def shown(self) -> set[str]:
        """Whose rows some message holds, as grid words of any size or as floating point."""
        everything = b"|".join(self.messages())
        return {
            name
            for name, rows in self.private_rows().items()
            for row in rows
            if any(form in everything for form in forms(row))
        }


def forms(row: NDArray[np.float64]) -> list[bytes]:
    """What two coordinates may look like on a wire."""
    steps = [round(value / STEP) for value in row.tolist()]
    words = [
        b"".join(step.to_bytes(size, order, signed=True) for step in steps)
        for size in (3, 4, 8)
        for order in ("little", "big")
    ]
    return [*words, *(struct.pack(code, *row) for code in ("<2d", ">2d", "<2f", ">2f"))]


AGGREGATES = ("secure", "clear")


@pytest.mark.parametrize("aggregate", AGGREGATES)
@pytest.mark.parametrize("gnn", ["gcn", "gat", "ggnn"])
def test_an_upload_is_gradients_of_items_and_weights_and_nothing_else(
    monkeypatch: pytest.MonkeyPatch, gnn: str, aggregate: str
) -> None:
    """Number by number those of the plain reference, but for rounding; zero where unrated."""
    wire = Wire(monkeypatch, gnn=gnn, aggregate=aggregate)
    assert wire.faults() == set()
    assert wire.shown() == set()


@pytest.mark.parametrize("aggregate", AGGREGATES)
def test_what_is_switched_off_leaves_no_device(
    monkeypatch: pytest.MonkeyPatch, aggregate: str
) -> None:
    """Without biases their column is zero; another loss, other numbers, and nothing more."""
    settings: dict[str, Any] = {"bias": False, "loss": "absolute", "reduction": "mean"}
    wire = Wire(monkeypatch, aggregate=aggregate, residual=False, **settings)
    assert wire.faults() == set()
    items, numbers = wire.sent(0)
    assert not numbers[: len(items) * (DIM + 1)].reshape(-1, DIM + 1)[:, -1].any()


def her_embedding(sent: Gradients, arrays: Arrays, found: ClientGradients) -> Gradients:
    rows = sent.rows.copy()
    rows[sent.starts[:-1], :-1] = arrays["users"][sent.members, :-1]
    return replace(sent, rows=rows)


def its_gradient(sent: Gradients, arrays: Arrays, found: ClientGradients) -> Gradients:
    rows = sent.rows.copy()
    rows[sent.starts[:-1], :-1] = found.users.numpy()
    return replace(sent, rows=rows)


def her_bias(sent: Gradients, arrays: Arrays, found: ClientGradients) -> Gradients:
    rows = sent.rows.copy()
    rows[sent.starts[:-1], -1] = arrays["users"][sent.members, -1]
    return replace(sent, rows=rows)


def a_neighbour(sent: Gradients, arrays: Arrays, found: ClientGradients) -> Gradients:
    weights = sent.weights.copy()
    weights[:, -DIM:] = arrays["neighbours"][sent.members, 0]
    return replace(sent, weights=weights)


def a_neighbours_gradient(sent: Gradients, arrays: Arrays, found: ClientGradients) -> Gradients:
    weights = sent.weights.copy()
    weights[:, :DIM] += found.neighbours.numpy()[0]
    return replace(sent, weights=weights)


def one_more_row(sent: Gradients, arrays: Arrays, found: ClientGradients) -> Gradients:
    """In the place of an item that the first user did not rate, before all others or behind."""
    mine = set(sent.items[: sent.starts[1]].tolist())
    other = min(set(range(ITEMS)) - mine)
    at = int(np.searchsorted(sent.items[: sent.starts[1]], other))
    return replace(
        sent,
        starts=np.append([0], sent.starts[1:] + 1),
        items=np.insert(sent.items, at, other),
        rows=np.insert(sent.rows, at, arrays["users"][0], axis=0),
    )


TWINS: dict[Twin, tuple[str, set[str]]] = {
    her_embedding: ("numbers", {"users"}),
    its_gradient: ("numbers", set()),
    her_bias: ("numbers", set()),
    a_neighbour: ("numbers", {"neighbours"}),
    a_neighbours_gradient: ("numbers", set()),
    one_more_row: ("items", {"users"}),
}
"""How each is found out, and whose rows can be read off the wire in the clear."""


@pytest.mark.parametrize("aggregate", AGGREGATES)
@pytest.mark.parametrize("twin", TWINS, ids=lambda twin: twin.__name__)
def test_a_device_that_uploads_more_is_caught(
    monkeypatch: pytest.MonkeyPatch, twin: Twin, aggregate: str
) -> None:
    wire = Wire(monkeypatch, twin, aggregate=aggregate)
    how, whose = TWINS[twin]
    if aggregate == "secure":  # a row more is a row that should be zero; pads hide what it says
        assert wire.faults() == {"numbers"}
        assert wire.shown() == set()
    else:
        assert wire.faults() == {how}
        assert wire.shown() == whose


def unmasked(x: RingArray, pad: RingArray, ring: Ring) -> RingArray:
    return x.copy()


def rows_in_messages(wire: Wire) -> int:
    """How many rows of gradients, of several numbers that are not zero, lie in a message."""
    everything = b"|".join(wire.messages())
    rows = [
        vectors[user, at : at + DIM]
        for vectors in wire.vectors
        if vectors.shape[1] > 2
        for user in range(USERS)
        for at in range(0, ITEMS * (DIM + 1), DIM + 1)
    ]
    return sum(bool(row.all()) and row.astype("<u4").tobytes() in everything for row in rows)


def test_no_masked_vector_shows_a_gradient(monkeypatch: pytest.MonkeyPatch) -> None:
    assert rows_in_messages(Wire(monkeypatch, aggregate="secure")) == 0


def test_a_vector_without_its_pad_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(secagg.pads, "mask", unmasked)
    assert rows_in_messages(Wire(monkeypatch, aggregate="secure")) == USERS * 5


# What the recommender works with


def of_the_recommender(seed: int, step: Any = None) -> dict[str, bytes]:
    """What he holds after an epoch whose sums are fixed, of users who differ by ``seed``.

    step: in place of the server's.
    """
    rng = np.random.default_rng(seed)
    parts = crowd(30)
    ratings = replace(parts.train, values=rng.uniform(1, 5, len(parts.train)))
    settings: dict[str, Any] = {"user_fit": "steps", "neighbours": "fixed", "expand_after": 0}
    learner = new_learner(replace(parts, train=ratings), center=False, match_items=4, **settings)
    for name in learner.state.private - {"neighbour_counts"}:
        learner.state[name][:] = rng.standard_normal(learner.state[name].shape)
    fixed = np.random.default_rng(99)
    items, weights = (fixed.standard_normal(learner.state[n].shape) for n in ("items", "weights"))
    summed = RoundSum(16, items, weights, senders=None, clipped=0)
    learner.aggregation.sum = lambda *rest: summed  # type: ignore[method-assign]
    if step is not None:
        learner._server_step = step(learner)  # type: ignore[method-assign]
    learner.epoch(0)
    arrays = learner.state.arrays
    return {name: arrays[name].tobytes() for name in set(arrays) - learner.state.private}


def test_the_recommender_has_nothing_but_the_sums() -> None:
    """With the same sums he ends at the same bits, whatever the users rated, have and receive."""
    first = of_the_recommender(1)
    assert {"items", "weights", "mean", "first moment of items"} <= set(first)
    assert first == of_the_recommender(2)


def test_a_recommender_who_looks_at_users_is_caught() -> None:
    def curious(learner: FedGNNLearner) -> Any:
        step = learner._server_step

        def looks(*arguments: Any) -> None:
            step(*arguments)
            learner.state["weights"][0] += 1e-12 * learner.state["users"].mean()

        return looks

    assert of_the_recommender(1, curious) != of_the_recommender(2, curious)


# Embeddings travel for matching alone


MET: dict[str, Any] = {
    **{"mode": "protocol", "user_fit": "steps", "neighbours": "fixed", "expand_after": 1},
    **{"match_items": 4, "cohort": 200, "min_cohort": 3, "frac_bits": 16},
}


def expanding(
    monkeypatch: pytest.MonkeyPatch, **changes: Any
) -> tuple[LocalNetwork, list[set[str]], list[bytes]]:
    """The network of three epochs, the kinds of message of each, and the embeddings on the grid."""
    network = LocalNetwork(record=True)
    monkeypatch.setattr(recsys.fedgnn, "LocalNetwork", lambda: network)
    learner = new_learner(crowd(12), **{**MET, **changes})
    kinds, seen = [], dict[str, int]()
    payloads: list[bytes] = []
    for number in range(3):
        if number == 1:
            steps = np.rint(learner.state["users"][:, :-1] / STEP).astype("<i8")
            payloads = [row.tobytes() for row in steps]
        learner.epoch(number)
        now = {kind: traffic.messages for kind, traffic in network.traffic.items()}
        kinds.append({kind for kind in now if now[kind] != seen.get(kind, 0)})
        seen = now
    return network, kinds, payloads


def carriers(network: LocalNetwork, payloads: list[bytes]) -> set[tuple[int, str]]:
    """The recipient, users as 0, and the kind of each message with somebody's embedding."""
    return {
        (min(party, 0), delivery.kind)
        for party in (SERVER, MATCHER, *range(12))
        for delivery in network.view(party)
        if any(payload in delivery.data for payload in payloads)
    }


@pytest.mark.parametrize("aggregate", AGGREGATES)
def test_an_embedding_leaves_her_device_for_matching_alone(
    monkeypatch: pytest.MonkeyPatch, aggregate: str
) -> None:
    """Once, for the matcher and from there for her neighbours, and never for the recommender."""
    network, kinds, payloads = expanding(monkeypatch, aggregate=aggregate)
    matching = [{kind for kind in here if kind.startswith("matching.")} for here in kinds]
    assert not matching[0]
    assert {"matching.upload", "matching.neighbours"} < matching[1]
    assert not matching[2]
    found = carriers(network, payloads)
    assert found == {(MATCHER, "matching.upload"), (0, "matching.neighbours")}


def test_with_noise_not_even_there(monkeypatch: pytest.MonkeyPatch) -> None:
    network, _, payloads = expanding(monkeypatch, embedding_epsilon=1.0)
    assert carriers(network, payloads) == set()


def test_an_embedding_for_the_recommender_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    def generous(config: Any, train: Any, embeddings: Any, *rest: Any) -> Neighbourhood:
        data = np.rint(embeddings[5] / STEP).astype("<i8").tobytes()
        rest[-1].send(5, SERVER, "matching.blinded", b"..." + data)
        return find_neighbours(config, train, embeddings, *rest)

    monkeypatch.setattr(recsys.fedgnn, "find_neighbours", generous)
    network, _, payloads = expanding(monkeypatch)
    assert (SERVER, "matching.blinded") in carriers(network, payloads)


@pytest.mark.parametrize("neighbours", ["none", "fixed"])
def test_without_matching_there_is_no_third_party(
    monkeypatch: pytest.MonkeyPatch, neighbours: str
) -> None:
    network, kinds, _ = expanding(monkeypatch, neighbours=neighbours, expand_after=9)
    assert network.view(MATCHER) == ()
    assert not any(kind.startswith("matching.") for here in kinds for kind in here)


# Bytes

MIN: dict[str, Any] = {"min_cohort": 3}


@pytest.mark.parametrize("mode", ["protocol", "simulate"])
@pytest.mark.parametrize("way", [{"gnn": "gcn"}, {"gnn": "gat", "dim": 3}, {"dim": 0}], ids=str)
def test_masked_vectors_of_a_training_cost_a_formula(way: dict[str, Any], mode: str) -> None:
    """(items * (d + 1) + weights) words of four bytes, and what is around them, for every round."""
    learner = learner_of(
        fitted(crowd(30), mode=mode, epochs=3, patience=3, cohort=15, **MIN, **way)
    )
    dim = learner.config.dim
    weights = sum(int(np.prod(shape)) for shape in learner.model.shapes().values())
    payload = 4 * (12 * (dim + 1) + weights)
    size = payload + (49 if payload < 256 else 50)
    assert learner.aggregation.upload_bytes(5) == size
    masked = learner.traffic.traffic["pads.masked"]
    # The mean takes one vector of two words of eight bytes.
    expected = (30 * (3 + 1), 30 * (3 * size + 16 + 49))
    assert (masked.messages, masked.bytes) == (expected if mode == "protocol" else (0, 0))


@pytest.mark.parametrize("mode", ["protocol", "simulate"])
@pytest.mark.parametrize("pseudo", [0, 4, 1000])
def test_uploads_in_the_clear_cost_a_formula(pseudo: int, mode: str) -> None:
    """Four bytes for each item, three for each number, 52 around them: 12 items, 5 of them hers."""
    settings: dict[str, Any] = {"aggregate": "clear", "pseudo": pseudo, "epochs": 3, "patience": 3}
    learner = learner_of(fitted(crowd(30), mode=mode, cohort=15, **MIN, **settings))
    items = min(5 + pseudo, 12)
    weights = sum(int(np.prod(shape)) for shape in learner.model.shapes().values())
    size = 52 + 4 * items + 3 * (items * 5 + weights)
    assert learner.aggregation.upload_bytes(items) == size
    sent = learner.traffic.traffic["ratings.gradients"]
    expected = (30 * 3, 30 * 3 * size) if mode == "protocol" else (0, 0)
    assert (sent.messages, sent.bytes) == expected


# One bit


@pytest.mark.parametrize("call", [1, 4])
@pytest.mark.parametrize("bit", [0, 12, 28])
def test_one_altered_masked_vector_changes_the_digest(
    monkeypatch: pytest.MonkeyPatch, call: int, bit: int
) -> None:
    """Of two cohorts: the first vectors are those of the mean, in words of eight bytes."""
    few: dict[str, Any] = {"mode": "protocol", "epochs": 2, "cohort": 15, **MIN}
    honest = fitted(crowd(30), **few).model_digest
    calls = 0

    def flipped(x: RingArray, pad: RingArray, ring: Ring) -> RingArray:
        nonlocal calls
        calls += 1
        masked = mask(x, pad, ring)
        if calls == call:
            masked[4, 0, 0] ^= masked.dtype.type(1 << bit)
        return masked

    monkeypatch.setattr(secagg.pads, "mask", flipped)
    assert fitted(crowd(30), **few).model_digest != honest
    assert calls == 2 * (1 + 2)


@pytest.mark.parametrize("noise", [{}, {"clip": 0.1, "laplace": 0.05}], ids=str)
def test_one_altered_upload_changes_the_digest(
    monkeypatch: pytest.MonkeyPatch, noise: dict[str, Any]
) -> None:
    """The lowest bit of the last number of one upload."""
    few: dict[str, Any] = {"mode": "protocol", "aggregate": "clear", "epochs": 2, **noise}
    honest = fitted(crowd(30), **few).model_digest
    calls, carried = 0, UploadedSum._carried

    def flipped(self: UploadedSum, user: int, data: bytes) -> bytes:
        nonlocal calls
        calls += 1
        if calls == 7:
            data = data[:-3] + bytes([data[-3] ^ 1]) + data[-2:]
        return carried(self, user, data)

    monkeypatch.setattr(UploadedSum, "_carried", flipped)
    assert fitted(crowd(30), **few).model_digest != honest
    assert calls == 60


# One shortcut or another


def forbidden(*arguments: object, **options: object) -> None:
    raise AssertionError("a shortcut was taken")


@pytest.fixture
def no_shortcuts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every way to a sum, a mean or neighbours but the protocols' fails."""
    for owner, name in (
        (SimulatedSum, "__init__"),
        (SimulatedSum, "_ring_sum"),
        (ClearSum, "__init__"),
        (ClearSum, "_sum"),
        (SummedNoise, "__init__"),
        (Layout, "total"),
        (recsys.ratings.expansion, "_compared"),
    ):
        monkeypatch.setattr(owner, name, forbidden)
    honest = MeanRating.__init__

    def over_the_network(self: MeanRating, *arguments: Any, **more: Any) -> None:
        if arguments[-1] is None:
            forbidden()
        honest(self, *arguments, **more)

    monkeypatch.setattr(MeanRating, "__init__", over_the_network)


WAYS: tuple[dict[str, Any], ...] = (
    {"neighbours": "fixed", "expand_after": 1, "match_items": 4},
    {"clip": 0.1, "laplace": 0.05},
    {**PAPER_LIKE, "expand_after": 1},
)


@pytest.mark.usefixtures("no_shortcuts")
@pytest.mark.parametrize("way", WAYS, ids=["expansion", "noise", "paper-like"])
def test_protocol_mode_never_calls_the_simulation(way: dict[str, Any]) -> None:
    found = fitted(crowd(30), mode="protocol", epochs=2, **way)
    assert len(found.history_) == 2
    assert learner_of(found).traffic.bytes > 0


@pytest.mark.usefixtures("no_shortcuts")
@pytest.mark.parametrize("way", WAYS, ids=["expansion", "noise", "paper-like"])
def test_the_simulation_is_caught_as_a_shortcut(way: dict[str, Any]) -> None:
    with pytest.raises(AssertionError, match="a shortcut was taken"):
        fitted(crowd(30), mode="simulate", epochs=2, **way)


@pytest.mark.usefixtures("no_shortcuts")
def test_simulated_neighbours_are_caught_where_sums_are_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A training through the protocols whose matching alone compares items in the clear."""

    def in_the_clear(config: Any, *rest: Any) -> Neighbourhood:
        return find_neighbours(replace(config, mode="simulate"), *rest)

    monkeypatch.setattr(recsys.fedgnn, "find_neighbours", in_the_clear)
    with pytest.raises(AssertionError, match="a shortcut was taken"):
        fitted(crowd(30), mode="protocol", epochs=2, **WAYS[0])
