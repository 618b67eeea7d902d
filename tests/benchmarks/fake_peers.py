"""Stand-ins for the peers' libraries, right ones and wrong twins, for tests of the peers' scripts.

Each function gives the modules that a script imports. The wrong twin breaks one thing that a
user of the library would suffer from.
"""

import base64
import hashlib
import os
from collections.abc import Callable, Sequence
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldp.randomized_response import RandomizedResponse
from mpc.additive import reconstruct, share
from mpc.core.keys import KeyPair, hkdf
from mpc.core.prg import Prg
from mpc.core.ring import Ring
from mpc.core.rng import SYSTEM_RNG
from mpc.core.samplers import round_unbiased

Modules = dict[str, ModuleType]


def _modules(**contents: dict[str, object]) -> Modules:
    """Modules by name, ``__`` for a dot, with the packages above them."""
    modules: Modules = {}
    for name, content in contents.items():
        parts = name.split("__")
        for depth in range(1, len(parts) + 1):
            path = ".".join(parts[:depth])
            module = modules.setdefault(path, ModuleType(path))
            if depth > 1:
                setattr(modules[".".join(parts[: depth - 1])], parts[depth - 1], module)
        vars(modules[".".join(parts)]).update(content)
    return modules


def _report(bit: int, epsilon: float) -> int:
    return int(RandomizedResponse.from_epsilon(epsilon).perturb(np.array([bit == 1]))[0])


def multi_freq_ldpy(*, wrong: bool) -> Modules:
    """The wrong client tells every value as it is."""

    def client(value: int, k: int, epsilon: float) -> int:
        assert k == 2
        return value if wrong else _report(value, epsilon)

    return _modules(multi_freq_ldpy__pure_frequency_oracles__GRR={"GRR_Client": client})


def pure_ldp(*, wrong: bool) -> Modules:
    """The wrong client ignores its value, and still reports as many ones as it should."""

    class Client:
        def __init__(self, epsilon: float, d: int) -> None:
            assert d == 2
            self.epsilon = epsilon

        def privatise(self, value: int) -> int:
            if wrong:
                value = 1 + int(SYSTEM_RNG.uniform(10) < 3)
            return _report(value - 1, self.epsilon)

    return _modules(pure_ldp__frequency_oracles__direct_encoding={"DEClient": Client})


def opendp(*, wrong: bool) -> Modules:
    """The wrong measurement flips bits half as often as it should."""

    def make(domain: object, metric: object, f: float) -> Callable[[bytes], bytes]:
        flip = int(f / (4 if wrong else 2) * 2**64)
        mechanism = RandomizedResponse(2**64 - flip)

        def measurement(data: bytes) -> bytes:
            bits = np.unpackbits(np.frombuffer(data, dtype=np.uint8)).astype(np.bool_)
            return np.packbits(mechanism.perturb(bits)).tobytes()

        return measurement

    return _modules(
        opendp__prelude={
            "enable_features": lambda *_: None,
            "m": SimpleNamespace(make_randomized_response_bitvec=make),
            "bitvector_domain": lambda max_weight: max_weight,
            "discrete_distance": lambda: None,
        }
    )


class FieldArray:
    """Elements of a prime field, as Python integers in ``value``."""

    def __init__(self, value: NDArray[Any], modulus: int) -> None:
        self.value = value % modulus
        self.modulus = modulus

    def __add__(self, other: "FieldArray") -> "FieldArray":
        return FieldArray(self.value + other.value, self.modulus)


class Field:
    """A prime field."""

    def __init__(self, modulus: int) -> None:
        self.modulus = modulus

    def array(self, value: NDArray[Any], *, check: bool = True) -> FieldArray:
        return FieldArray(value, self.modulus)


def mpyc(*, wrong: bool) -> Modules:
    """The wrong sharing leaves the random coefficient out where the party's number is even."""

    def split(field: Field, s: NDArray[Any], t: int, m: int) -> list[NDArray[Any]]:
        assert t == 1
        coefficients = SYSTEM_RNG.uniform(field.modulus, len(s)).astype(object)
        skipped = [wrong and party % 2 == 0 for party in range(1, m + 1)]
        return [
            (s + (0 if skip else party) * coefficients) % field.modulus
            for party, skip in enumerate(skipped, start=1)
        ]

    def recombine(field: Field, points: Sequence[tuple[int, NDArray[Any]]]) -> FieldArray:
        total = 0 * points[0][1]
        for i, values in points:
            weight = 1
            for j, _ in points:
                if i != j:
                    weight = weight * j * pow(j - i, -1, field.modulus) % field.modulus
            total = total + weight * values
        return field.array(total)

    return _modules(
        mpyc__finfields={"GF": Field},
        mpyc__thresha={"np_random_split": split, "np_recombine": recombine},
    )


def spu(*, wrong: bool) -> Modules:
    """The wrong sharing gives the same shares each time."""
    ring = Ring(64)

    class Io:
        def __init__(self, world_size: int, config: object) -> None:
            self.parties = world_size

        def make_shares(self, x: NDArray[np.int64], visibility: str) -> list[Any]:
            rng = Prg(bytes(32)) if wrong else SYSTEM_RNG
            rows = share(ring.reduce(x), self.parties, ring, rng=rng)
            return [SimpleNamespace(share_chunks=[ring.to_bytes(row)]) for row in rows]

        def reconstruct(self, shares: Sequence[Any]) -> NDArray[np.int64]:
            rows = [np.frombuffer(one.share_chunks[0], dtype="<u8") for one in shares]
            return ring.signed(reconstruct(np.stack(rows), ring))

    return _modules(
        spu={
            "RuntimeConfig": SimpleNamespace,
            "ProtocolKind": SimpleNamespace(SEMI2K="semi2k"),
            "FieldType": SimpleNamespace(FM64="fm64"),
            "Visibility": SimpleNamespace(VIS_SECRET="secret"),
            "Io": Io,
        }
    )


def flower(*, wrong: bool) -> Modules:
    """Wrong is everything: masks of zeros, rounding to the nearest, keys that no two ends share."""

    def mask(seed: bytes, bound: int, shapes: Sequence[tuple[int, ...]]) -> list[NDArray[Any]]:
        prg = Prg(hashlib.sha256(seed).digest())
        return [prg.uniform(1 if wrong else bound, shape).astype(np.int64) for shape in shapes]

    def quantize(x: Sequence[NDArray[Any]], clip: float, steps: int) -> list[NDArray[Any]]:
        scaled = [np.clip(vector, -clip, clip) * (steps / (2 * clip)) for vector in x]
        if wrong:
            return [np.rint(vector).astype(np.int64) + steps // 2 for vector in scaled]
        return [round_unbiased(vector, SYSTEM_RNG) + steps // 2 for vector in scaled]

    def shared_key(private: KeyPair, public: bytes) -> bytes:
        key = os.urandom(32) if wrong else hkdf(private.exchange(public), info=b"")
        return base64.urlsafe_b64encode(key)

    def pair() -> tuple[KeyPair, bytes]:
        keys = KeyPair.generate()
        return keys, keys.public

    return _modules(
        flwr__common__secure_aggregation__secaggplus_utils={"pseudo_rand_gen": mask},
        flwr__common__secure_aggregation__quantization={"quantize": quantize},
        flwr__common__secure_aggregation__ndarrays_arithmetic={
            "parameters_addition": lambda a, b: [x + y for x, y in zip(a, b, strict=True)],
            "parameters_subtraction": lambda a, b: [x - y for x, y in zip(a, b, strict=True)],
            "parameters_mod": lambda a, modulus: [x % modulus for x in a],
        },
        flwr__common__secure_aggregation__crypto__symmetric_encryption={
            "generate_shared_key": shared_key
        },
        flwr__supercore__primitives__asymmetric={
            "generate_key_pairs": pair,
            "private_key_to_bytes": KeyPair.private_bytes,
            "bytes_to_private_key": KeyPair,
            "public_key_to_bytes": bytes,
            "bytes_to_public_key": bytes,
        },
    )
