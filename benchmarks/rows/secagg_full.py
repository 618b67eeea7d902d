"""Ratio rows of the full protocol of ``secagg``: whole rounds, everybody's work, with drop-outs."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from numpy.typing import NDArray

from benchmarks.harness import SCRIPTS, Case, Peer, Row
from benchmarks.keystream import keystream
from benchmarks.peers.vectors import CLIP, FRAC_BITS, are_masked, is_mean, vectors
from benchmarks.rows.secagg import FLOWER
from mpc.core.local import LocalNetwork
from mpc.core.ring import Ring, RingArray
from mpc.core.rng import SYSTEM_RNG
from secagg.full.messages import MaskedInput, Step
from secagg.full.params import RoundParams
from secagg.full.run import Outcome, run_round
from secagg.messages import SERVER
from secagg.vectors import VectorCodec

RING = Ring(32)
DIM = 100_000
FEW = 20
FEW_DROPPED = 2
FEW_THRESHOLD = 14
CHECKED = 10_000
"""Elements of which a check looks at the masks."""
MANY = 100
MANY_DROPPED = 10
MANY_THRESHOLD = 67


def _params(clients: int, dim: int, threshold: int) -> RoundParams:
    return RoundParams(SYSTEM_RNG.bytes(16), 0, tuple(range(clients)), threshold, RING, dim)


def _run(x: RingArray, threshold: int, dropped: int, network: LocalNetwork | None) -> Outcome:
    """A round in which the first ``dropped`` clients leave after sharing their keys."""
    clients, dim = x.shape
    return run_round(
        _params(clients, dim, threshold),
        dict(enumerate(x)),
        drop_outs={Step.MASKED_INPUT: range(dropped)},
        network=network,
    )


def _sent(x: RingArray, threshold: int, dropped: int) -> list[NDArray[np.uint32]]:
    """The masked vectors that the server gets of a round with these inputs."""
    network = LocalNetwork(record=True)
    _run(x, threshold, dropped, network)
    messages = [m for m in network.view(SERVER) if m.kind == MaskedInput.__name__]
    payloads = [MaskedInput.from_bytes(message.data).payload for message in messages]
    return [np.frombuffer(payload, "<u4").astype(np.uint32) for payload in payloads]


def _hides(x: RingArray, threshold: int, dropped: int) -> bool:
    """Whether every vector is masked, by other masks in each round, and by some that stay.

    With nobody gone the pairwise masks cancel, and the self masks are all that hides the sum.
    """
    first, second = (_sent(x, threshold, dropped) for _ in range(2))
    whole = RING.sum(np.stack(_sent(x, threshold, 0)), axis=0)
    renewed = all(np.mean(a == b) < 0.01 for a, b in zip(first, second, strict=True))
    covered = np.mean(whole == RING.sum(x, axis=0)) < 0.01
    return bool(are_masked(first) and renewed and covered)


def _round_of_few() -> Case:
    x = vectors(FEW, DIM)
    codec = VectorCodec.like(
        {"model": x[0]}, clip=CLIP, frac_bits=FRAC_BITS, ring=RING, parties=FEW, max_weight=1
    )

    def encoded(client: int) -> RingArray:
        return codec.encode({"model": x[client]}, weight=1).vector

    def ours() -> NDArray[np.float64]:
        outcome = run_round(
            _params(FEW, codec.size, FEW_THRESHOLD),
            encoded,
            drop_outs={Step.MASKED_INPUT: range(FEW_DROPPED)},
        )
        return codec.means(outcome.total)["model"]

    def check() -> bool:
        vector = np.stack([encoded(client) for client in range(FEW)])
        right = is_mean(ours(), x[FEW_DROPPED:])
        return right and _hides(vector[:, :CHECKED], FEW_THRESHOLD, FEW_DROPPED)

    return Case(
        ours=ours,
        other=None,
        operations=1,
        check=check,
        note=f"a whole round, everybody's work: {FEW} clients, {FEW_DROPPED} of them gone after "
        f"sharing keys, threshold {FEW_THRESHOLD}, complete graph, semi-honest, a mean of d = 1e5 "
        "doubles with hidden weights. Ours: X25519, AES-256-CTR masks under whole keys, secrets "
        "checked when put together, messages as bytes; the peer: P-384, Mersenne Twister masks "
        "under 32 bits, messages as objects",
    )


@dataclass(frozen=True)
class Work:
    """The bare operations that no complete round can do without, with everybody's work.

    exchanges: X25519.  keystream_bytes: of masks.  additions: of one vector to another.
    """

    exchanges: int
    keystream_bytes: int
    additions: int

    @classmethod
    def of_round(cls, clients: int, dropped: int, dim: int) -> "Work":
        """n clients in the complete graph, g of them gone after sharing keys, d elements.

        Each client agrees on two keys with every other, the server on the g m mask keys that the
        gone had with the m = n - g left. Each of those puts n masks on its vector, its own and
        those of n - 1 peers, and the server takes off m + g m: m (n + 1 + g) in all. Each mask is
        added once; so is each vector that arrives.
        """
        left = clients - dropped
        masks = left * (clients + 1 + dropped)
        return cls(
            exchanges=2 * clients * (clients - 1) + dropped * left,
            keystream_bytes=masks * RING.element_bytes() * dim,
            additions=masks + left,
        )

    def bare(self, dim: int) -> Callable[[], None]:
        """A call that does all of it at raw cost: keys that are read already, one cipher context,
        and two vectors of ``dim`` elements that stay in cache as far as they fit."""
        private = X25519PrivateKey.generate()
        public: X25519PublicKey = X25519PrivateKey.generate().public_key()
        stream = keystream(self.keystream_bytes)
        total, vector = RING.random((dim,), SYSTEM_RNG), RING.random((dim,), SYSTEM_RNG)

        def run() -> None:
            for _ in range(self.exchanges):
                private.exchange(public)
            stream()
            for _ in range(self.additions):
                np.add(total, vector, out=total)

        return run


def _round_of_many() -> Case:
    x = RING.random((MANY, DIM), SYSTEM_RNG)

    def check() -> bool:
        outcome = _run(x, MANY_THRESHOLD, MANY_DROPPED, None)
        right = np.array_equal(outcome.total, RING.sum(x[MANY_DROPPED:], axis=0))
        some = x[:, :CHECKED] >> np.uint32(10)
        return bool(right) and _hides(some, MANY_THRESHOLD, MANY_DROPPED)

    return Case(
        ours=lambda: _run(x, MANY_THRESHOLD, MANY_DROPPED, None),
        other=Work.of_round(MANY, MANY_DROPPED, DIM).bare(DIM),
        operations=1,
        check=check,
        note=f"a whole round, everybody's work: {MANY} clients, {MANY_DROPPED} of them gone after "
        f"sharing keys, threshold {MANY_THRESHOLD}, complete graph, semi-honest, d = 1e5 mod 2^32; "
        "limit: the X25519 exchanges, the keystream and the additions alone, as "
        "rows.secagg_full.Work counts them",
    )


ROWS: tuple[Row, ...] = (
    Row(
        name="secagg.round_n20_d1e5.vs_flower",
        groups=("secagg",),
        unit="round",
        make=_round_of_few,
        peers=(
            Peer(
                "flower",
                FLOWER,
                SCRIPTS / "flower_round.py",
                tuple(map(str, (FEW, DIM, FEW_DROPPED, FEW_THRESHOLD))),
            ),
        ),
    ),
    Row(
        name="secagg.round_n100_d1e5.over_limit",
        groups=("secagg",),
        unit="round",
        make=_round_of_many,
    ),
)
