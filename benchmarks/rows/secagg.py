"""Ratio rows of ``secagg``."""

from functools import partial

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from numpy.typing import NDArray

from benchmarks.harness import SCRIPTS, Case, Peer, Row
from benchmarks.keystream import keystream
from benchmarks.peers.reals import CLIP, FRAC_BITS, reals, rounds_without_bias
from mpc.core.keys import KeyPair
from mpc.core.prg import Prg
from mpc.core.ring import Ring, RingArray
from mpc.core.rng import SYSTEM_RNG
from secagg.masks import add_pads, net_pad
from secagg.messages import Roster
from secagg.params import PadParams
from secagg.quantize import Quantizer
from secagg.schedule import PairChains

FLOWER = (
    "flwr==1.42.0",
    "cryptography==50.0.2",
    "numpy==2.4.6",
    "pycryptodome==3.24.1",
)

RING = Ring(32)
DIM = 100_000
MASKS = 20
NEIGHBOURS = 100


def _mask_expand_and_add() -> Case:
    total = RING.random((DIM,), SYSTEM_RNG)
    seed = SYSTEM_RNG.bytes(32)
    streams = [(1, Prg(seed))]  # the context is kept, as it is along an epoch
    return Case(
        ours=lambda: add_pads(total, streams, RING),
        other=keystream(DIM * RING.element_bytes()),
        operations=1,
        check=partial(_masks_are_right, [seed]),
        note="expand one pairwise mask and add it, d = 1e5 mod 2^32; limit: its keystream alone",
    )


def _mask_from_seed() -> Case:
    total = RING.random((DIM,), SYSTEM_RNG)
    seeds = [SYSTEM_RNG.bytes(32) for _ in range(MASKS)]
    return Case(
        ours=lambda: add_pads(total, [(1, Prg(seed)) for seed in seeds], RING),
        other=None,
        operations=MASKS,
        check=partial(_masks_are_right, seeds),
        note=f"expand one of {MASKS} pairwise masks from its key and add it, d = 1e5 mod 2^32; "
        "ours is AES-256 under the whole key, the peer's a Mersenne Twister under 32 bits folded "
        "from it, which never gives the top residue",
    )


def _masks_are_right(seeds: list[bytes]) -> bool:
    before = RING.random((DIM,), SYSTEM_RNG)
    after = before.copy()
    add_pads(after, [(1, Prg(seed)) for seed in seeds], RING)
    words = np.zeros(DIM, dtype="<u4")
    for seed in seeds:
        # From the cipher library: a generator that ignored its key would agree with itself.
        cipher = Cipher(algorithms.AES(seed), modes.CTR(bytes(16))).encryptor()
        words += np.frombuffer(cipher.update(bytes(4 * DIM)), dtype="<u4")
    cancelled = after + net_pad([(-1, Prg(seed)) for seed in seeds], (DIM,), RING)
    return np.array_equal(after - before, words) and np.array_equal(cancelled, before)


def _quantize() -> Case:
    quantizer = Quantizer(CLIP, FRAC_BITS, RING, parties=1000)
    x = np.array(reals(DIM))

    def ours() -> tuple[RingArray, NDArray[np.int64]]:
        return quantizer.encode(x)

    def check() -> bool:
        encoded, clipped = ours()
        outside = np.count_nonzero(np.abs(x) > CLIP)
        return bool(clipped == outside) and rounds_without_bias(RING.signed(encoded).tolist())

    return Case(
        ours=ours,
        other=None,
        operations=1,
        check=check,
        note="clip d = 1e5 doubles to 8 and round them without bias to 2^-18, the resolution of "
        "the peer's defaults; ours has secure coins, exact to 2^-64, refuses NaN, counts what it "
        "clips, the peer's coins are numpy's Mersenne Twister",
    )


def _agree() -> Case:
    clients = tuple(range(NEIGHBOURS + 1))
    params = PadParams(
        SYSTEM_RNG.bytes(16), clients, RING, dim=30, sums_per_round=1, rounds_per_epoch=1
    )
    pairs = [KeyPair.generate() for _ in clients]
    roster = Roster(params.session, clients, tuple(pair.public for pair in pairs))

    def check() -> bool:
        region = params.region(0, 0)
        pads = [
            PairChains(params, client, pairs[client], roster).net_pads(region) for client in clients
        ]
        # Pads cancel over the whole cohort only if both ends of every pair hold the same key.
        return all(pad.any() for pad in pads) and not RING.sum(np.stack(pads), axis=0).any()

    return Case(
        ours=lambda: PairChains(params, 0, pairs[0], roster),
        other=None,
        operations=NEIGHBOURS,
        check=check,
        note=f"one client's key with each of {NEIGHBOURS} neighbours: ours X25519 and HKDF bound "
        "to both public keys, ids and session, at 128 bits of security; the peer P-384 and HKDF "
        "bound to nothing, at 192 bits, and both keys read from PEM for each neighbour, as its "
        "client does",
    )


def _flower(script: str, *arguments: int) -> Peer:
    return Peer("flower", FLOWER, SCRIPTS / script, tuple(map(str, arguments)))


ROWS: tuple[Row, ...] = (
    Row(
        name="secagg.mask_1e5_u32.of_keystream",
        groups=("core", "secagg"),
        unit="mask",
        make=_mask_expand_and_add,
    ),
    Row(
        name="secagg.mask_1e5_u32.vs_flower",
        groups=("core", "secagg"),
        unit="mask",
        make=_mask_from_seed,
        peers=(_flower("flower_mask.py", DIM, MASKS),),
    ),
    Row(
        name="secagg.quantize_1e5.vs_flower",
        groups=("core", "secagg"),
        unit="vector",
        make=_quantize,
        peers=(_flower("flower_quantize.py", DIM),),
    ),
    Row(
        name="secagg.agree.vs_flower",
        groups=("core", "secagg"),
        unit="neighbour",
        make=_agree,
        peers=(_flower("flower_agree.py", NEIGHBOURS),),
    ),
)
