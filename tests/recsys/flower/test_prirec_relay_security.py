"""What a server that relays between nodes of PriRec can see and do, and twins that it can.

Letters that are altered, swapped, repeated or invented are refused, and then their receivers keep
the models that they have: as if the letters had not come. No part of a sum passes the server, or
reaches another node, in the clear.
"""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flwr.app import ArrayRecord, ConfigRecord, Message, MetricRecord, RecordDict

import recsys.flower.prirec_mail as mail
from mpc.core.errors import AbortError
from mpc.core.keys import TAG_BYTES, KeyPair
from mpc.core.ring import Ring, RingArray
from mpc.fixed import FixedPoint
from mpc.relay import Letter, Mailbox, Offer, Outbox
from mpc.relay_messages import padded, unpadded
from mpc.secure_sum_messages import PartialSum, SumTerms
from recsys.flower.prirec_mail import Mail, part_bytes
from recsys.flower.prirec_messages import Joined, Setup
from recsys.flower.prirec_node import PriRecNode
from recsys.flower.prirec_records import content_of, read_content
from recsys.flower.prirec_server import Trained
from tests.recsys.flower.prirec_runs import (
    NODE_IDS,
    NODES,
    SMALL,
    Faults,
    between,
    exchange_in,
    grid_of,
    in_one_process,
    models,
    over_flower,
    trained,
    unfinished,
    with_arrays,
)
from tests.secagg.flower.by_hand import OPERATOR_KEY, Keys
from tests.support.faults import flip_bit
from tests.support.flower_grid import Deliver, LocalGrid

RUN = {**SMALL, "epochs": 4}
FIXED = FixedPoint(Ring(32), 16)
VICTIM, EPOCH = 3, 2
"""The node whose letters the relay meddles with, and the epoch in which it does."""

PARTIES = {party: NODE_IDS.index(node) for party, node in enumerate(sorted(NODE_IDS))}
"""The index of each node by the number that the server gives it."""

Tamper = Callable[[list[bytes], list[bytes]], list[bytes]]
"""(letters to the victim, letters that it got an epoch before) -> what the relay brings."""


def sender(letter: bytes) -> int:
    return PARTIES[Letter.from_bytes(letter).sender]


def cut(told: dict[str, Any], size: int) -> list[bytes]:
    data = told["letters"].tobytes()
    return [data[at : at + size] for at in range(0, len(data), size)]


# What it does.


def flipped(now: list[bytes], before: list[bytes]) -> list[bytes]:
    """The last bit of a letter, and one in the middle of another."""
    return [flip_bit(now[0], 8 * len(now[0]) - 1), flip_bit(now[1], 8 * 200), *now[2:]]


def swapped(now: list[bytes], before: list[bytes]) -> list[bytes]:
    """What one wrote under the other's name."""
    a, b = (Letter.from_bytes(letter) for letter in now[:2])
    crossed = (Letter(a.session, a.route, b.sealed), Letter(b.session, b.route, a.sealed))
    return [*(letter.to_bytes() for letter in crossed), *now[2:]]


def replayed(now: list[bytes], before: list[bytes]) -> list[bytes]:
    """What the two wrote an epoch before."""
    old = {sender(letter): letter for letter in before}
    return [*(old[sender(letter)] for letter in now[:2]), *now[2:]]


def redated(now: list[bytes], before: list[bytes]) -> list[bytes]:
    """The same, with today's date on it."""
    old = {sender(letter): Letter.from_bytes(letter) for letter in before}
    letters = []
    for data in now[:2]:
        new = Letter.from_bytes(data)
        letters.append(Letter(new.session, new.route, old[sender(data)].sealed).to_bytes())
    return [*letters, *now[2:]]


def invented(now: list[bytes], before: list[bytes]) -> list[bytes]:
    """Letters of its own, and one that is none."""
    a = Letter.from_bytes(now[0])
    own = Letter(a.session, a.route, bytes(len(a.sealed))).to_bytes()
    return [own, bytes(len(now[1])), *now[2:]]


def kept_back(now: list[bytes], before: list[bytes]) -> list[bytes]:
    """Two letters do not come."""
    return now[2:]


def twice(now: list[bytes], before: list[bytes]) -> list[bytes]:
    """Every letter comes twice."""
    return [*now, *now]


def meddled(tamper: Tamper) -> tuple[LocalGrid, Trained, list[tuple[int, int]]]:
    """A training with a relay that tampers, and whose letters it touched."""
    seen: dict[int, list[bytes]] = {}
    touched: list[tuple[int, int]] = []

    def query(index: int, trip: str, message: Message, deliver: Deliver) -> Message | None:
        if trip == "exchange" and index == VICTIM:
            asked, told = exchange_in(message)
            seen[asked.epoch] = cut(told, len_of_letters())
            if asked.epoch == EPOCH:
                now = seen[EPOCH]
                brought = tamper(now, seen[EPOCH - 1])
                told["letters"] = np.frombuffer(b"".join(brought), dtype=np.uint8)
                touched.extend((sender(data), VICTIM) for data in now if data not in brought)
                return deliver(with_arrays(message, told))
        return unfinished(index, trip, message, deliver)

    grid = grid_of(RUN)
    between(grid, query)
    return grid, over_flower(grid), touched


def len_of_letters() -> int:
    return trained("one-round")[0].letter


@pytest.mark.parametrize(
    "tamper", [flipped, swapped, replayed, redated, invented, kept_back], ids=lambda t: t.__name__
)
def test_a_relay_that_tampers_gains_what_one_that_drops_gains(tamper: Tamper) -> None:
    """The touched letters' receivers keep their own models in that epoch, everybody else mixes."""
    grid, found, touched = meddled(tamper)
    assert len(touched) == 2
    model = in_one_process(RUN, Faults({}, {}, {EPOCH: tuple(touched)}))
    assert models(grid) == pytest.approx(model.state["w"], abs=1e-12)
    assert found.v == pytest.approx(model.state["v"], abs=1e-12)
    undisturbed = in_one_process(RUN)
    assert not np.array_equal(model.state["w"], undisturbed.state["w"])


def test_a_letter_that_comes_twice_counts_once() -> None:
    grid, found, touched = meddled(twice)
    model = in_one_process(RUN)
    assert not touched
    assert models(grid) == pytest.approx(model.state["w"], abs=1e-12)
    assert found.v == pytest.approx(model.state["v"], abs=1e-12)


# Twins.


def plain_seal(self: Outbox, to: int, payload: bytes, size: int) -> Letter:
    """A twin that sends letters open."""
    box, body = self._mailbox, padded(payload, size) + bytes(TAG_BYTES)
    return Letter.make(box.session, self.epoch, box.party, to, body)


def plain_open(self: Mailbox, letter: Letter, epoch: int, size: int) -> bytes:
    """And reads them as they come."""
    return unpadded(letter.sealed[:-TAG_BYTES]) or b""


def unmasked(
    terms: SumTerms, party: int, x: RingArray, keys: Mapping[int, bytes], **_: Any
) -> PartialSum:
    """A twin that sends its part as it is: the sum is wrong for nobody, and hides nothing."""
    return terms.partial_message(party, x)


def open_letters(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Outbox, "seal", plain_seal)
    monkeypatch.setattr(Mailbox, "open", plain_open)


def open_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mail, "partial_sum", unmasked)


def shifted(now: list[bytes], before: list[bytes]) -> list[bytes]:
    """A bit of somebody's part in a sum, where that can be found: the top of its last number."""
    a = Letter.from_bytes(now[0])
    top = 8 * (4 + part_bytes(trained("one-round")[0].features.dim + 1, FIXED)) - 2
    return [Letter(a.session, a.route, flip_bit(a.sealed, top)).to_bytes(), *now[1:]]


def test_a_relay_of_open_letters_moves_a_model_unnoticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """What sealing is for: the very same change is refused by the nodes that seal."""
    open_letters(monkeypatch)
    grid, _, touched = meddled(shifted)
    without = in_one_process(RUN, Faults({}, {}, {EPOCH: tuple(touched)}))
    assert np.abs(models(grid) - in_one_process(RUN).state["w"]).max() > 1
    assert np.abs(models(grid) - without.state["w"]).max() > 1


# What it sees.


class Watched:
    """Secrets of nodes while they train, what passes the server, and what letters hold."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.parts: set[bytes] = set()
        self.models: set[bytes] = set()
        self.gradients: set[bytes] = set()
        self.payloads: list[bytes] = []
        own_part, step, opened = Mail._own_part, PriRecNode._step, Mailbox.open

        def part(this: Mail, row: int, w: Any) -> Any:
            x = own_part(this, row, w)
            self.parts |= telling(this._fixed.ring.to_bytes(x))
            return x

        def stepped(this: PriRecNode, *args: Any) -> None:
            step(this, *args)
            for row in this.arrays["w"]:
                self.models |= telling(row.tobytes())
            for grid in (this.arrays["stash.v"], this.arrays["stash.v"] / 2.0**16):
                self.gradients |= telling(grid.tobytes())

        def opening(this: Mailbox, *args: Any) -> bytes:
            payload = opened(this, *args)
            self.payloads.append(payload)
            return payload

        monkeypatch.setattr(Mail, "_own_part", part)
        monkeypatch.setattr(PriRecNode, "_step", stepped)
        monkeypatch.setattr(Mailbox, "open", opening)
        self.grid = grid_of({**SMALL, "epochs": 2})
        over_flower(self.grid)
        self.wire = b"\xff".join(
            data
            for passed in self.grid.passed
            for message in (passed.request, passed.reply)
            if message is not None and message.has_content()
            for data in contents(message.content)
        )

    def seen(self, secrets: set[bytes]) -> int:
        """How many of them pass the server."""
        return sum(secret in self.wire for secret in secrets)

    def told(self) -> int:
        """How many parts of single nodes some letter holds, sealed or not."""
        return sum(part in payload for part in self.parts for payload in self.payloads)


def telling(secret: bytes) -> set[bytes]:
    """Long enough and varied enough that it is nowhere by chance."""
    return {secret} if len(set(secret)) > 8 else set()


def contents(content: RecordDict) -> Iterator[bytes]:
    for record in content.values():
        if isinstance(record, ArrayRecord):
            yield from (array.data for array in record.values())
        elif isinstance(record, ConfigRecord | MetricRecord):
            yield from (value for value in record.values() if isinstance(value, bytes))


def test_no_model_part_or_gradient_passes_the_server(monkeypatch: pytest.MonkeyPatch) -> None:
    watched = Watched(monkeypatch)
    for secrets in (watched.parts, watched.models, watched.gradients):
        assert len(secrets) >= NODES
        assert watched.seen(secrets) == 0
    assert watched.payloads
    assert not any(payload in watched.wire for payload in watched.payloads)


def test_no_letter_tells_its_reader_a_single_node_s_part(monkeypatch: pytest.MonkeyPatch) -> None:
    assert Watched(monkeypatch).told() == 0


def test_open_letters_are_seen_on_the_wire(monkeypatch: pytest.MonkeyPatch) -> None:
    open_letters(monkeypatch)
    watched = Watched(monkeypatch)
    assert all(payload in watched.wire for payload in watched.payloads)
    assert watched.seen(watched.parts) == 0  # they are masked all the same


def test_parts_without_masks_are_seen_in_letters(monkeypatch: pytest.MonkeyPatch) -> None:
    open_parts(monkeypatch)
    watched = Watched(monkeypatch)
    assert watched.told() > NODES
    assert watched.seen(watched.parts) == 0  # they are sealed all the same


def test_with_neither_the_server_reads_parts_of_sums(monkeypatch: pytest.MonkeyPatch) -> None:
    open_letters(monkeypatch)
    open_parts(monkeypatch)
    watched = Watched(monkeypatch)
    assert watched.seen(watched.parts) > NODES


def test_all_letters_are_equally_long_whatever_they_hold() -> None:
    """Node pairs have from one to several sums with each other; their letters do not show it."""
    grid, size = trained("one-round")[1], trained("one-round")[0].letter
    sums = set()
    for passed in grid.passed:
        if passed.request.metadata.message_type == "query.exchange" and passed.reply is not None:
            _, told = read_content(passed.reply.content)
            if "letters" in told:
                assert told["letters"].size % size == 0
                sums.add(told["letters"].size // size)
    assert sums


# Keys.


def exchanged_offers(grid: LocalGrid, replace: Callable[[Offer], Offer]) -> None:
    """A server that gives every node other offers than the ones it got."""

    def query(index: int, trip: str, message: Message, deliver: Deliver) -> Message | None:
        if trip == "exchange":
            asked, told = exchange_in(message)
            if asked.setup:
                setup = Setup.from_bytes(asked.setup)
                offers = [replace(Offer.from_bytes(offer)).to_bytes() for offer in setup.offers]
                changed = Setup(tuple(offers), setup.letter).to_bytes()
                with_setup = type(asked)(asked.session, asked.epoch, asked.round, changed)
                message.content = content_of(with_setup, told)
        return deliver(message)

    between(grid, query)


def malicious(tmp_path: Path, **run: Any) -> LocalGrid:
    keys = Keys(tmp_path, tuple(range(1, NODES + 1)))
    nodes = {
        node: {
            "partition-id": i,
            "num-partitions": NODES,
            "privrec-folder": str(tmp_path / f"node {i}"),
            **keys.node_config[i + 1],
        }
        for i, node in enumerate(NODE_IDS)
    }
    told = {
        "variant": "malicious",
        "roster": str(tmp_path / "roster.bin"),
        "operator": OPERATOR_KEY.public.hex(),
        "dropout": 0.1,
    }
    return grid_of({**SMALL, "epochs": 2, **told, **run}, nodes)


def test_nodes_with_identities_train_as_ever(tmp_path: Path) -> None:
    grid = malicious(tmp_path)
    between(grid, unfinished)
    found = over_flower(grid)
    model = in_one_process({**SMALL, "epochs": 2})
    assert found.v == pytest.approx(model.state["v"], abs=1e-12)
    assert models(grid) == pytest.approx(model.state["w"], abs=1e-12)


FORGERIES: dict[str, Callable[[Offer], Offer]] = {
    "another key": lambda o: Offer(o.session, o.party, KeyPair.generate().public, o.signature),
    "another party": lambda o: Offer(o.session, o.party + 100, o.public, o.signature),
    "no signature": lambda o: Offer(o.session, o.party, o.public),
}


@pytest.mark.parametrize("forge", FORGERIES.values(), ids=FORGERIES)
def test_a_server_cannot_put_keys_between_nodes_with_identities(
    tmp_path: Path, forge: Callable[[Offer], Offer]
) -> None:
    """Nobody takes the exchange; without letters nobody mixes, and no part of a sum is made."""
    grid = malicious(tmp_path)
    exchanged_offers(grid, forge)
    with pytest.raises(AbortError):  # no node has a model to take gradients of
        over_flower(grid)
    exchanges = [p for p in grid.passed if p.request.metadata.message_type == "query.exchange"]
    assert exchanges
    assert all(p.reply is None or p.reply.has_error() for p in exchanges)


def test_a_node_with_an_identity_needs_marks_on_disk(tmp_path: Path) -> None:
    grid = malicious(tmp_path)
    for config in grid.configs.values():
        del config["privrec-folder"]
    with pytest.raises(AbortError, match="0 of 3 nodes have joined"):
        over_flower(grid)


def test_between_nodes_without_identities_it_can() -> None:
    """The twin: its own keys are taken, and letters to real keys go nowhere."""
    pairs: dict[int, KeyPair] = {}

    def forge(offer: Offer) -> Offer:
        pair = pairs.setdefault(offer.party, KeyPair.generate())
        return Offer(offer.session, offer.party, pair.public)

    grid = grid_of({**SMALL, "epochs": 2})
    exchanged_offers(grid, forge)
    over_flower(grid)
    exchanges = [p for p in grid.passed if p.request.metadata.message_type == "query.exchange"]
    assert not any(p.reply is None or p.reply.has_error() for p in exchanges)


def test_an_offer_says_nothing_but_the_key() -> None:
    grid = trained("one-round")[1]
    joined = [p for p in grid.passed if p.request.metadata.message_type == "query.join"]
    assert len(joined) == NODES
    for passed in joined:
        assert passed.reply is not None
        data, told = read_content(passed.reply.content)
        offer = Offer.from_bytes(Joined.from_bytes(data).offer)
        assert len(offer.public) == 32
        assert set(told) == {"ones", "ids"}
