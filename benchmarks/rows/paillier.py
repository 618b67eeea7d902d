"""Ratio rows of Paillier encryption."""

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import cache, partial
from multiprocessing import get_context
from operator import add, mul

import numpy as np

from benchmarks.harness import SCRIPTS, Case, Peer, Row
from benchmarks.peers.ciphertexts import (
    PLAINTEXT_BITS,
    decrypts_to,
    encrypts_rightly,
    plaintexts,
    primes,
    weights,
)
from mpc.core.prg import SEED_BYTES, Prg
from mpc.core.rng import SYSTEM_RNG
from mpc.paillier.batch import BatchEncryptor
from mpc.paillier.ciphertext import Ciphertext, total
from mpc.paillier.encrypt import Djn, Encryptor, Owner
from mpc.paillier.keys import PrivateKey
from mpc.paillier.packing import PackingPlan
from mpc.paillier.products import dot

PHE = ("phe==1.5.0", "gmpy2==2.3.2")
PYPAILLIER = ("pypaillier==0.8.0",)

COUNT = 32
"""Numbers that one call encrypts or decrypts: a peer needs a third of a second for them."""

SUMS = 1000
DIM = 1000
PACKED = 100_000
BATCH = 2048

CHECKED = 8
"""Of many results, how many a check decrypts one by one."""

PROCESSES = 2
ADDENDS = 1000
"""Vectors whose sum the slots have room for."""


def _djn(private: PrivateKey) -> Encryptor:
    return Djn(private.public)


def _djn_half(private: PrivateKey) -> Encryptor:
    """With exponents of half the bits of n."""
    return Djn(private.public, exponent_bits=private.public.bits // 2)


def _private(bits: int) -> PrivateKey:
    return PrivateKey(*primes(bits))


def _encrypt(bits: int, encryptor_of: Callable[[PrivateKey], Encryptor], note: str) -> Case:
    encryptor = encryptor_of(_private(bits))
    values = plaintexts(COUNT)

    def check() -> bool:
        # Of two calls, since a generator that starts anew would mask both alike.
        numbers = [*encryptor.encrypt_many(values), *encryptor.encrypt_many(values)]
        return encrypts_rightly(_integers(numbers), [*values, *values], bits)

    return Case(
        ours=lambda: encryptor.encrypt_many(values),
        other=None,
        operations=COUNT,
        check=check,
        note=f"{COUNT} numbers of 32 bits, n of {bits} bits; {note}",
    )


def _decrypt(bits: int) -> Case:
    private = _private(bits)
    values = plaintexts(COUNT)
    numbers = Djn(private.public).encrypt_many(values)
    return Case(
        ours=lambda: private.decrypt_many(numbers),
        other=None,
        operations=COUNT,
        check=lambda: private.decrypt_many(numbers) == values,
        note=f"{COUNT} ciphertexts, n of {bits} bits; ours and the peer's are the same two powers "
        "modulo p^2 and q^2, by GMP, not in constant time",
    )


def _add(bits: int) -> Case:
    values = plaintexts(2 * SUMS)
    numbers = _djn(_private(bits)).encrypt_many(values)
    left, right = numbers[:SUMS], numbers[SUMS:]

    def ours() -> list[Ciphertext]:
        return list(map(add, left, right))

    def check() -> bool:
        sums = _integers(ours())
        return len(sums) == SUMS and all(
            decrypts_to(sums[i], values[i] + values[SUMS + i], bits) for i in _some(SUMS)
        )

    return Case(
        ours=ours,
        other=None,
        operations=SUMS,
        check=check,
        note=f"one product modulo n^2, n of {bits} bits; neither ours nor the peer's is "
        "re-randomised, which both leave to what is sent",
    )


def _dot(bits: int) -> Case:
    x, w = plaintexts(DIM), weights(DIM)
    numbers = _djn(_private(bits)).encrypt_many(x)
    return Case(
        ours=lambda: dot(numbers, w),
        other=None,
        operations=1,
        check=lambda: decrypts_to(int(dot(numbers, w).value), sum(map(mul, x, w)), bits),
        note=f"{DIM} ciphertexts with plain weights of 21 bits, n of {bits} bits; ours raises all "
        "at once, the peer one by one; neither result is re-randomised",
    )


def _packed(bits: int) -> Case:
    encryptor = _djn(_private(bits))
    plan = PackingPlan(max_value=2**PLAINTEXT_BITS - 1, terms=ADDENDS)
    slots = plan.capacity(encryptor.public)
    values = plaintexts(PACKED)
    x = np.array(values)

    def check() -> bool:
        numbers = plan.encrypt(x, encryptor).ciphertexts
        # The plan's documented form; the last plaintext may have fewer slots.
        expected = [
            sum(value << plan.slot_bits * i for i, value in enumerate(values[start:][:slots]))
            for start in range(0, PACKED, slots)
        ]
        some = _some(len(expected))
        # Their sum, of a few bits more, still fits: so one decryption looks at all of them.
        return (
            _masks_differ(numbers)
            and encrypts_rightly(
                _integers(numbers[i] for i in some), [expected[i] for i in some], bits
            )
            and decrypts_to(int(total(numbers).value), sum(expected), bits)
        )

    return Case(
        ours=lambda: plan.encrypt(x, encryptor),
        other=None,
        operations=PACKED,
        check=check,
        note=f"{PACKED} values of 32 bits, {slots} to a ciphertext with room for the sum of "
        f"{ADDENDS} vectors, n of {bits} bits; the peer one by one, on {COUNT} of them; "
        + _SHORT.format(448)
        + _TEXTBOOK,
    )


def _batch(bits: int) -> Case:
    encryptor = BatchEncryptor.djn(_private(bits).public)
    values = plaintexts(BATCH)

    def ours() -> list[Ciphertext]:
        return encryptor.encrypt_many(values, map=_workers().map)

    def check() -> bool:
        seed = SYSTEM_RNG.bytes(SEED_BYTES)
        spread = encryptor.encrypt_many(values, map=_workers().map, rng=Prg(seed))
        alone = encryptor.encrypt_many(values, rng=Prg(seed))
        some = _some(BATCH)
        return (
            _integers(spread) == _integers(alone)
            and _masks_differ([*spread, *ours()])
            and encrypts_rightly(
                _integers(spread[i] for i in some), [values[i] for i in some], bits
            )
        )

    return Case(
        ours=ours,
        other=lambda: encryptor.encrypt_many(values),
        operations=BATCH,
        check=check,
        note=f"{BATCH} numbers in chunks, n of {bits} bits; ours over the map of {PROCESSES} "
        "worker processes, the other in this process; the tables of powers were made before",
    )


@cache
def _workers() -> ProcessPoolExecutor:
    """Started anew rather than forked, as a fork copies the threads' locks; ends with us."""
    return ProcessPoolExecutor(PROCESSES, mp_context=get_context("spawn"))


def _some(count: int) -> range:
    return range(0, count, -(-count // CHECKED))


def _integers(numbers: Iterable[Ciphertext]) -> list[int]:
    return [int(number.value) for number in numbers]


def _masks_differ(numbers: Sequence[Ciphertext]) -> bool:
    """Whether no two ciphertexts are the same modulo n, where a ciphertext is its mask."""
    return len({number.value % number.public.n for number in numbers}) == len(numbers)


def _phe(operation: str, *arguments: int) -> Peer:
    script = SCRIPTS / f"phe_{operation}.py"
    return Peer("phe", PHE, script, tuple(map(str, arguments)))


_SHORT = (
    "ours draws an exponent of {} bits for a table of powers, which rests on a further assumption, "
    "and the table, made before, is of this key; "
)
_DJN = (
    "the peer's exponents, in one call and one thread, are of 1024 bits, and its time is meant "
    "not to depend on them"
)
_TEXTBOOK = "the peer's is textbook encryption, which rests on DCR alone"
_PYPAILLIER_ENCRYPT = Peer(
    "pypaillier", PYPAILLIER, SCRIPTS / "pypaillier_encrypt.py", ("2048", str(COUNT))
)


def _row(name: str, unit: str, make: Callable[[], Case], peer: Peer) -> Row:
    return Row(f"paillier.{name}", ("paillier",), unit, make, (peer,))


ROWS: tuple[Row, ...] = (
    _row(
        "encrypt_2048.vs_phe",
        "number",
        partial(_encrypt, 2048, _djn, _SHORT.format(448) + _TEXTBOOK),
        _phe("encrypt", 2048, COUNT),
    ),
    _row(
        "encrypt_3072.vs_phe",
        "number",
        partial(_encrypt, 3072, _djn, _SHORT.format(512) + _TEXTBOOK),
        _phe("encrypt", 3072, COUNT),
    ),
    _row(
        "encrypt_owner_textbook_2048.vs_phe",
        "number",
        partial(
            _encrypt,
            2048,
            Owner,
            "ours for who holds the private key, the peer's for anybody; both draw r^n with r "
            "uniform, and rest on DCR alone",
        ),
        _phe("encrypt", 2048, COUNT),
    ),
    _row(
        "encrypt_2048.vs_pypaillier",
        "number",
        partial(
            _encrypt,
            2048,
            _djn,
            _SHORT.format(448) + _DJN,
        ),
        _PYPAILLIER_ENCRYPT,
    ),
    _row(
        "encrypt_djn_1024_2048.vs_pypaillier",
        "number",
        partial(_encrypt, 2048, _djn_half, _SHORT.format(1024) + _DJN),
        _PYPAILLIER_ENCRYPT,
    ),
    _row("decrypt_2048.vs_phe", "number", partial(_decrypt, 2048), _phe("decrypt", 2048, COUNT)),
    _row("add_2048.vs_phe", "sum", partial(_add, 2048), _phe("add", 2048, SUMS)),
    _row("dot_1000_2048.vs_phe", "dot product", partial(_dot, 2048), _phe("dot", 2048, DIM)),
    _row("packed_1e5_2048.vs_phe", "value", partial(_packed, 2048), _phe("encrypt", 2048, COUNT)),
    Row(
        "paillier.batch_2_processes_2048.over_one_process",
        ("paillier",),
        "number",
        partial(_batch, 2048),
    ),
)
