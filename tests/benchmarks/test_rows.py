"""The rows: each names its other side, its pins and what it means, and its check sees a fault.

No peer is built or called here.
"""

import re
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import mpc.oprf
import mpc.paillier.products
import mpc.shared_products
import secagg.full.client
import secagg.full.masking
import secagg.quantize
from benchmarks.environments import NO_DEPS
from benchmarks.harness import SCRIPTS, Peer, Row
from benchmarks.ratios import ROWS
from benchmarks.rows import ldp as ldp_rows
from benchmarks.rows import ldp_noise as ldp_noise_rows
from benchmarks.rows import mpc as mpc_rows
from benchmarks.rows import mpc_products as mpc_products_rows
from benchmarks.rows import mpc_shamir as mpc_shamir_rows
from benchmarks.rows import oprf as oprf_rows
from benchmarks.rows import paillier as paillier_rows
from benchmarks.rows import secagg as secagg_rows
from benchmarks.rows import secagg_full as secagg_full_rows
from ldp.discrete_gaussian import DiscreteGaussian
from ldp.discrete_laplace import DiscreteLaplace
from ldp.local_hashing import LocalHashing
from ldp.unary import UnaryEncoding
from mpc import shamir
from mpc.core.keys import KeyPair
from mpc.core.prg import Prg
from mpc.core.ring import Ring, RingArray
from mpc.core.rng import SYSTEM_RNG, Rng
from mpc.paillier.batch import BatchEncryptor
from mpc.paillier.ciphertext import Ciphertext
from mpc.paillier.encrypt import Djn
from mpc.paillier.keys import PrivateKey
from mpc.paillier.packing import PackingPlan
from mpc.programs import Program
from mpc.secure_sum import batch_sum
from mpc.supply import Item, LocalDealer, Shares
from secagg.full.masking import UnmaskTask
from secagg.masks import add_pads, sign
from secagg.vectors import VectorCodec

README = Path(__file__).resolve().parents[2] / "benchmarks" / "README.md"
PEERS = tuple((row, peer) for row in ROWS for peer in row.peers)

Patch = tuple[object, str, Callable[..., Any]]


def _zeros(x: RingArray, ring: Ring, **_: object) -> RingArray:
    return np.zeros(x.shape[1:], dtype=ring.dtype)


def _in_the_clear(x: RingArray, n: int, ring: Ring) -> RingArray:
    shares = np.zeros((n, *x.shape), dtype=ring.dtype)
    shares[-1] = x
    return shares


def _one_mask(x: RingArray, n: int, ring: Ring) -> RingArray:
    """Hides x from each holder alone, but two of the n shares open it."""
    shares = _in_the_clear(x, n, ring)
    shares[0] = ring.random(x.shape, SYSTEM_RNG)
    shares[-1] = ring.sub(x, shares[0])
    return shares


def _each_alone(x: RingArray, frac_bits: int, supply: object, ring: Ring) -> Program[RingArray]:
    """Truncation of each share by itself, which is wrong for three parties."""
    yield from ()
    shifted: RingArray = x >> ring.dtype.type(frac_bits)
    return shifted


_take = LocalDealer.take
_kept: dict[Item, Shares] = {}


def _same_again(dealer: LocalDealer, item: Item) -> Shares:
    """The same triple and the same mask for every product."""
    kept = _kept.setdefault(item, _take(dealer, item))
    return Shares(
        tuple(rows.copy() for rows in kept.free), tuple(rows.copy() for rows in kept.bound)
    )


def _without_macs(x: RingArray, ring: Ring, **_: object) -> RingArray:
    return batch_sum(x, ring)


def _constant(secrets: NDArray[np.uint32], n: int, t: int) -> NDArray[np.uint32]:
    """Shares of polynomials whose other coefficients are all zero."""
    return np.repeat(secrets[np.newaxis], n, axis=0)


def _one_polynomial(secrets: NDArray[np.uint32], n: int, t: int) -> NDArray[np.uint32]:
    return shamir.share(secrets, n, t, rng=Prg(bytes(32)))


def _last_share_lost(indices: Any, shares: NDArray[np.uint32], t: int) -> NDArray[np.uint32]:
    return shamir.reconstruct(indices[:-1], shares[:-1], t - 1)


class _KeylessPrg(Prg):
    """A generator that expands every key into the same masks."""

    def __init__(self, seed: bytes, offset: int = 0) -> None:
        super().__init__(bytes(len(seed)), offset)


def _own_key(keys: KeyPair, *_: object) -> bytes:
    return keys.private_bytes()


_bernoulli = Rng.bernoulli


def _tenth_too_rare(rng: Rng, threshold: int, shape: int = 1) -> Any:
    return _bernoulli(rng, threshold * 9 // 10, shape)


def _one_client_lost(x: Any, *arguments: Any) -> Any:
    """A round in which the last client's vector is zero."""
    return _run(np.concatenate([x[:-1], 0 * x[-1:]]), *arguments)


def _same_masks(out: RingArray, streams: Any, ring: Ring) -> None:
    """Masks that cancel, and are the same ones in each round."""
    add_pads(out, [(factor, Prg(bytes(32))) for factor, _ in streams], ring)


def _no_self_mask(client: int, _: bytes, pair_keys: Any, prg: Any = Prg) -> Any:
    return [(sign(client, peer), prg(key, 0)) for peer, key in pair_keys]


def _only_dropped(task: UnmaskTask) -> Any:
    return _streams(replace(task, seeds=()))


_streams = UnmaskTask.streams
_run = secagg_full_rows._run
_uniform = Rng.uniform
_unary = UnaryEncoding.perturb
_hash_estimate = LocalHashing.estimate


def _one_short(rng: Rng, bound: int, shape: Any = (), dtype: Any = np.uint64) -> Any:
    """Integers that never reach the last value of their range."""
    return _uniform(rng, bound - 1, shape, dtype)


def _one_seed(rng: Rng, bound: int, shape: Any = (), dtype: Any = np.uint64) -> Any:
    """The same word for all users where words are drawn."""
    if bound < 2**32:
        return _uniform(rng, bound, shape, dtype)
    return np.full(shape, _uniform(rng, bound, (), dtype))


def _last_bit_clear(mechanism: UnaryEncoding, x: NDArray[Any]) -> NDArray[np.bool_]:
    reports = _unary(mechanism, x)
    reports[:, -1] = x == mechanism.k - 1
    return reports


def _report_lost(mechanism: LocalHashing, reports: NDArray[np.void]) -> Any:
    return _hash_estimate(mechanism, reports[1:])


class _NarrowLaplace(DiscreteLaplace):
    """Noise a tenth too narrow."""

    def sample(self, *arguments: Any, **options: Any) -> NDArray[np.int64]:
        return DiscreteLaplace(self.scale * Fraction(9, 10)).sample(*arguments, **options)


class _EvenLaplace(DiscreteLaplace):
    """Noise whose lowest bit is lost."""

    def sample(self, *arguments: Any, **options: Any) -> NDArray[np.int64]:
        return super().sample(*arguments, **options) & ~1


class _NarrowGaussian(DiscreteGaussian):
    """Noise a tenth too narrow."""

    def sample(self, *arguments: Any, **options: Any) -> NDArray[np.int64]:
        return DiscreteGaussian(self.sigma * Fraction(9, 10)).sample(*arguments, **options)


_residues = Djn.residues
_decrypt_many = PrivateKey.decrypt_many
_dot = mpc.paillier.products.dot
_pack_and_encrypt = PackingPlan.encrypt
_encrypt_batch = BatchEncryptor.encrypt_many
_finalize = mpc.oprf.finalize


def _one_mask_for_all(djn: Djn, count: int, *, rng: Rng = SYSTEM_RNG) -> list[Any]:
    return _residues(djn, 1, rng=rng) * count


def _seeded_masks(djn: Djn, count: int, *, rng: Rng = SYSTEM_RNG) -> list[Any]:
    """Masks that differ, but are the same ones in each call."""
    return _residues(djn, count, rng=Prg(bytes(32)))


def _no_masks(private: PrivateKey, count: int, **_: object) -> list[int]:
    return [1] * count


def _one_off(private: PrivateKey, numbers: Any) -> list[int]:
    return [number + 1 for number in _decrypt_many(private, numbers)]


def _left_twice(a: Ciphertext, b: Ciphertext) -> Ciphertext:
    return a * 2


def _last_term_lost(numbers: Any, weights: Any) -> Ciphertext:
    return _dot(numbers[:-1], weights[:-1])


def _value_lost(plan: PackingPlan, x: Any, encryptor: Any) -> Any:
    return _pack_and_encrypt(plan, np.where(np.arange(x.size) == x.size // 2, 0, x), encryptor)


def _reversed_batch(*arguments: Any, **options: Any) -> list[Ciphertext]:
    return _encrypt_batch(*arguments, **options)[::-1]


def _chunks_reversed(work: Callable[[Any], Any], tasks: Any) -> list[Any]:
    return [done[::-1] for done in map(work, tasks)]


def _out_of_order(*answer: Any, **options: Any) -> list[bytes]:
    return _finalize(*answer, **options)[::-1]


SUM: Patch = (mpc_rows, "batch_sum", _zeros)
SHARE: Patch = (mpc_rows, "share", _in_the_clear)
TRUNCATION: Patch = (mpc.shared_products, "truncate", _each_alone)
TRIPLES: Patch = (LocalDealer, "take", _same_again)
PADS: Patch = (secagg_rows, "add_pads", lambda out, streams, ring: None)
COINS: Patch = (Rng, "bernoulli", _tenth_too_rare)
MASKS: Patch = (Djn, "residues", _one_mask_for_all)
PROOFS: Patch = (mpc.oprf, "verify_proof", lambda *_, **__: True)
NARROW_LAPLACE: Patch = (ldp_noise_rows, "DiscreteLaplace", _NarrowLaplace)
NARROW_GAUSSIAN: Patch = (ldp_noise_rows, "DiscreteGaussian", _NarrowGaussian)

# For each row a fault of ours that its check must see; MORE_FAULTS are subtler ones.
FAULTS: dict[str, Patch] = {
    "mpc.secure_sum_n30_d7_u32.of_keystream": SUM,
    "mpc.secure_sum_n10_d90_u32.of_keystream": SUM,
    "mpc.secure_sum_n10_d7_u32_relay.over_direct": SUM,
    "mpc.secure_sum_n3.vs_mpyc": SUM,
    "mpc.share_n3.vs_mpyc": SHARE,
    "mpc.share_n3.vs_spu": SHARE,
    "mpc.share_n3_1e6.of_keystream": SHARE,
    "mpc.share_n3_1e6.vs_crypten": SHARE,
    "mpc.mac_sum.over_semi_honest": SUM,
    "mpc.mul_trunc_n3_1e6.vs_crypten": TRUNCATION,
    "mpc.mul_trunc_n3_1e6.vs_spu": TRUNCATION,
    "mpc.shamir_share_500_334.vs_flower": (mpc_shamir_rows, "share", _constant),
    "mpc.shamir_combine_100_67.vs_flower": (mpc_shamir_rows, "reconstruct", _last_share_lost),
    "secagg.mask_1e5_u32.of_keystream": PADS,
    "secagg.mask_1e5_u32.vs_flower": PADS,
    "secagg.quantize_1e5.vs_flower": (
        secagg.quantize,
        "round_clipped",
        lambda x, clip, frac_bits, rng, out: np.copyto(
            out, np.rint(np.clip(x, -clip, clip) * 2.0**frac_bits), casting="unsafe"
        ),
    ),
    "secagg.agree.vs_flower": (KeyPair, "agree", _own_key),
    "secagg.round_n20_d1e5.vs_flower": (VectorCodec, "means", VectorCodec.sums),
    "secagg.round_n100_d1e5.over_limit": (secagg_full_rows, "_run", _one_client_lost),
    "ldp.rr.vs_multi_freq_ldpy": COINS,
    "ldp.rr.vs_pure_ldp": COINS,
    "ldp.rr.vs_opendp": COINS,
    "ldp.rr.vs_best_peer": COINS,
    "ldp.krr_100.vs_best_peer": COINS,
    "ldp.oue_100.vs_best_peer": COINS,
    "ldp.olh_client_100.vs_best_peer": COINS,
    "ldp.olh_server_1e4.vs_best_peer": (LocalHashing, "estimate", _report_lost),
    "ldp.hadamard_client_100.vs_best_peer": COINS,
    "ldp.discrete_laplace_s1.vs_diffprivlib": NARROW_LAPLACE,
    "ldp.discrete_laplace_s2e18.vs_diffprivlib": NARROW_LAPLACE,
    "ldp.discrete_gaussian_s4.vs_opendp": NARROW_GAUSSIAN,
    "paillier.encrypt_2048.vs_phe": MASKS,
    "paillier.encrypt_3072.vs_phe": MASKS,
    "paillier.encrypt_2048.vs_pypaillier": MASKS,
    "paillier.encrypt_owner_textbook_2048.vs_phe": (PrivateKey, "random_residues", _no_masks),
    "paillier.decrypt_2048.vs_phe": (PrivateKey, "decrypt_many", _one_off),
    "paillier.add_2048.vs_phe": (paillier_rows, "add", _left_twice),
    "paillier.dot_1000_2048.vs_phe": (paillier_rows, "dot", _last_term_lost),
    "paillier.encrypt_djn_1024_2048.vs_pypaillier": MASKS,
    "paillier.packed_1e5_2048.vs_phe": (PackingPlan, "encrypt", _value_lost),
    "paillier.batch_2_processes_2048.over_one_process": (
        BatchEncryptor,
        "encrypt_many",
        _reversed_batch,
    ),
    "oprf.item.vs_voprf_batch": (oprf_rows, "finalize", _out_of_order),
    "oprf.item_2_threads.over_one_thread": (oprf_rows, "finalize", _out_of_order),
}

MORE_FAULTS: dict[str, Patch] = {
    "mpc.share_n3.vs_mpyc": (mpc_rows, "share", _one_mask),
    "mpc.share_n3.vs_spu": (mpc_rows, "share", _one_mask),
    "mpc.share_n3_1e6.of_keystream": (mpc_rows, "share", _one_mask),
    "mpc.share_n3_1e6.vs_crypten": (mpc_rows, "share", _one_mask),
    "mpc.mac_sum.over_semi_honest": (mpc_rows, "batch_sum", _without_macs),
    "mpc.mul_trunc_n3_1e6.vs_crypten": TRIPLES,
    "mpc.mul_trunc_n3_1e6.vs_spu": TRIPLES,
    "mpc.shamir_share_500_334.vs_flower": (mpc_shamir_rows, "share", _one_polynomial),
    "secagg.mask_1e5_u32.of_keystream": (secagg_rows, "Prg", _KeylessPrg),
    "secagg.mask_1e5_u32.vs_flower": (secagg_rows, "Prg", _KeylessPrg),
    "secagg.round_n20_d1e5.vs_flower": (secagg.full.masking, "add_pads", lambda *_: None),
    "secagg.round_n100_d1e5.over_limit": (secagg.full.masking, "add_pads", _same_masks),
    "ldp.krr_100.vs_best_peer": (Rng, "uniform", _one_short),
    "ldp.oue_100.vs_best_peer": (UnaryEncoding, "perturb", _last_bit_clear),
    "ldp.olh_client_100.vs_best_peer": (Rng, "uniform", _one_seed),
    "ldp.hadamard_client_100.vs_best_peer": (Rng, "uniform", _one_short),
    "ldp.discrete_laplace_s2e18.vs_diffprivlib": (ldp_noise_rows, "DiscreteLaplace", _EvenLaplace),
    "paillier.encrypt_2048.vs_phe": (Djn, "residues", _seeded_masks),
    "paillier.encrypt_3072.vs_phe": (Djn, "residues", _seeded_masks),
    "paillier.encrypt_2048.vs_pypaillier": (Djn, "residues", _seeded_masks),
    "paillier.packed_1e5_2048.vs_phe": MASKS,
    "paillier.batch_2_processes_2048.over_one_process": (
        paillier_rows,
        "_workers",
        lambda: SimpleNamespace(map=_chunks_reversed),
    ),
    "oprf.item.vs_voprf_batch": PROOFS,
    "oprf.item_2_threads.over_one_thread": PROOFS,
}


def name_of(value: object) -> str | None:
    return value.name if isinstance(value, Row) else None


@pytest.fixture
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Inputs of sizes that a check takes little time for."""
    monkeypatch.setattr(mpc_rows, "ELEMENTS", 1000)
    monkeypatch.setattr(mpc_rows, "SUMS", 10)
    monkeypatch.setattr(mpc_products_rows, "ELEMENTS", 1000)
    monkeypatch.setattr(secagg_rows, "DIM", 10_000)
    monkeypatch.setattr(secagg_rows, "NEIGHBOURS", 4)
    monkeypatch.setattr(secagg_full_rows, "DIM", 2_000)
    monkeypatch.setattr(secagg_full_rows, "MANY", 12)
    monkeypatch.setattr(secagg_full_rows, "MANY_DROPPED", 2)
    monkeypatch.setattr(secagg_full_rows, "MANY_THRESHOLD", 7)
    monkeypatch.setattr(ldp_rows, "REPORTS", 100_000)
    monkeypatch.setattr(paillier_rows, "COUNT", 4)
    monkeypatch.setattr(paillier_rows, "SUMS", 4)
    monkeypatch.setattr(paillier_rows, "DIM", 4)
    monkeypatch.setattr(paillier_rows, "PACKED", 100)
    monkeypatch.setattr(paillier_rows, "BATCH", 8)
    monkeypatch.setattr(oprf_rows, "BATCH", 4)


@pytest.mark.usefixtures("_small")
@pytest.mark.parametrize("row", ROWS, ids=name_of)
def test_a_row_has_one_other_side_and_a_note_that_names_it(row: Row) -> None:
    case = row.make()
    assert bool(row.peers) == (case.other is None)
    direction, _, other = row.name.rpartition(".")[2].partition("_")
    if direction == "vs":
        assert row.peers
        peer = row.peers[0].environment.replace("-", "_")
        assert other in ("best_peer", peer, f"{peer}_batch")
        assert len(row.peers) == 1 or other == "best_peer"
        assert "peer" in case.note
    elif direction == "of":
        assert "limit" in case.note
    else:
        assert case.note


@pytest.mark.parametrize(("row", "peer"), PEERS, ids=name_of)
def test_a_peer_is_pinned_and_its_script_is_here(row: Row, peer: Peer) -> None:
    assert peer.requirements
    for requirement in peer.requirements:
        assert requirement == NO_DEPS or re.fullmatch(r"[a-z0-9-]+==\d+(\.\d+)+", requirement)
    assert peer.script.parent == SCRIPTS
    assert peer.script.is_file()
    assert peer.script.name.startswith(peer.environment.replace("-", "_"))


def test_peers_of_one_environment_ask_for_the_same_in_the_same_order() -> None:
    wanted = {(peer.environment, peer.requirements) for _, peer in PEERS}
    assert len(wanted) == len({environment for environment, _ in wanted})


@pytest.mark.parametrize(("row", "peer"), PEERS, ids=name_of)
def test_the_table_of_peers_has_the_row_with_its_version(row: Row, peer: Peer) -> None:
    (line,) = [line for line in README.read_text().splitlines() if f"| `{row.name}` |" in line]
    assert peer.requirements[0].partition("==")[2] in line.split("|")[2]


def test_every_row_has_a_fault_that_its_check_must_see() -> None:
    assert set(FAULTS) == {row.name for row in ROWS}


@pytest.mark.usefixtures("_small")
@pytest.mark.parametrize("row", ROWS, ids=name_of)
def test_the_check_takes_our_result_and_refuses_a_wrong_one(
    row: Row, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = row.make()
    assert case.check()
    monkeypatch.setattr(*FAULTS[row.name])
    if isinstance(FAULTS[row.name][2], type):
        case = row.make()  # a broken class must be there when the objects are made
    assert not case.check()


@pytest.mark.usefixtures("_small")
@pytest.mark.parametrize("name", MORE_FAULTS)
def test_a_check_sees_a_result_that_adds_up_and_hides_too_little(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (row,) = (row for row in ROWS if row.name == name)
    monkeypatch.setattr(*MORE_FAULTS[name])
    assert not row.make().check()


def test_a_round_whose_masks_all_cancel_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    x = Ring(32).random((6, 2_000), SYSTEM_RNG) >> np.uint32(10)
    assert secagg_full_rows._hides(x, 4, 1)
    monkeypatch.setattr(secagg.full.client, "client_streams", _no_self_mask)
    monkeypatch.setattr(UnmaskTask, "streams", _only_dropped)
    assert np.array_equal(_run(x, 4, 1, None).total, Ring(32).sum(x[1:], axis=0))
    assert not secagg_full_rows._hides(x, 4, 1)


def test_the_limit_of_a_round_counts_what_a_round_does(monkeypatch: pytest.MonkeyPatch) -> None:
    clients, dropped, dim = 7, 2, 500
    x = Ring(32).random((clients, dim), SYSTEM_RNG)
    done = {"exchanges": 0, "bytes": 0, "additions": 0}
    exchange, add = KeyPair.exchange, Ring.add

    def exchanged(keys: KeyPair, peer: bytes) -> bytes:
        done["exchanges"] += 1
        return exchange(keys, peer)

    def padded(out: RingArray, streams: Any, ring: Ring) -> None:
        done["bytes"] += len(streams) * out.nbytes
        done["additions"] += len(streams)
        add_pads(out, streams, ring)

    def added(ring: Ring, *arguments: Any, **options: Any) -> RingArray:
        done["additions"] += 1
        return add(ring, *arguments, **options)

    monkeypatch.setattr(KeyPair, "exchange", exchanged)
    monkeypatch.setattr(secagg.full.masking, "add_pads", padded)
    monkeypatch.setattr(Ring, "add", added)
    _run(x, 4, dropped, None)
    work = secagg_full_rows.Work.of_round(clients, dropped, dim)
    # The round adds up what is taken off in a vector of its own, and adds that to the sum.
    assert done == {
        "exchanges": work.exchanges,
        "bytes": work.keystream_bytes,
        "additions": work.additions + 1,
    }
