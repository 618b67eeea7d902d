"""Ratio rows of the oblivious pseudorandom function."""

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any

from benchmarks.harness import SCRIPTS, Case, Peer, Row
from benchmarks.peers.items import INFO, SEED, items, tokens_are_right
from mpc.core.errors import PeerError
from mpc.oprf import ServerKey, blind, evaluate, finalize, output_of

VOPRF = ("voprf==0.2.0",)

BATCH = 100


THREADS = 2

Map = Callable[..., Iterable[Any]]


class _Session:
    """A key holder and the tokens that a client gets from her for the batch of items."""

    def __init__(self) -> None:
        self.key = ServerKey.derive(SEED, INFO)
        self.inputs = items(BATCH)

    def tokens(self, map: Map = map, public: bytes = b"") -> list[bytes]:
        """All three steps; the client expects the key ``public``, by default the right one."""
        kept, sent = blind(self.inputs, map=map)
        answer = evaluate(self.key, sent, map=map)
        return finalize(kept, answer.elements, public or self.key.public, answer.proof, map=map)

    def is_right(self, map: Map = map) -> bool:
        evaluated = [output_of(self.key, item) for item in self.inputs]
        return tokens_are_right(
            self.inputs, self.tokens(map), evaluated
        ) and self._refuses_another_key(map)

    def _refuses_another_key(self, map: Map) -> bool:
        try:
            self.tokens(map, ServerKey.derive(SEED, b"another key").public)
        except PeerError:
            return True
        return False


def _one_thread() -> Case:
    session = _Session()
    return Case(
        ours=session.tokens,
        other=None,
        operations=BATCH,
        check=session.is_right,
        note=f"blind, evaluate and finalize, {BATCH} items under one proof, which the client "
        "verifies, and elements as bytes: the same protocol and key; ours by libsodium from "
        "Python, the peer by a Rust crate; one thread each",
    )


def _two_threads() -> Case:
    session = _Session()
    return Case(
        ours=lambda: session.tokens(_pool().map),
        other=session.tokens,
        operations=BATCH,
        check=lambda: session.is_right(_pool().map) and session.is_right(),
        note=f"blind, evaluate and finalize, {BATCH} items under one proof; ours over the map of "
        f"{THREADS} threads, the other in one",
    )


@cache
def _pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(THREADS)


ROWS: tuple[Row, ...] = (
    Row(
        name="oprf.item.vs_voprf_batch",
        groups=("paillier",),
        unit="item",
        make=_one_thread,
        peers=(Peer("voprf", VOPRF, SCRIPTS / "voprf_batch.py", (str(BATCH),)),),
    ),
    Row("oprf.item_2_threads.over_one_thread", ("paillier",), "item", _two_threads),
)
