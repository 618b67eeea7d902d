"""Stand-ins for the peers' libraries, right ones and wrong twins, for tests of the peers' scripts.

Each function gives the modules that a script imports. The wrong twin breaks one thing that a
user of the library would suffer from.
"""

import base64
import hashlib
import math
import operator
import os
import threading
from collections.abc import Callable, Sequence
from types import ModuleType, SimpleNamespace
from typing import Any

import gmpy2
import numpy as np
from numpy.typing import NDArray

from benchmarks.peers.items import INFO, KNOWN, SEED
from ldp.randomized_response import RandomizedResponse
from mpc import shamir
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


def _coin(probability: float) -> bool:
    return bool(SYSTEM_RNG.bernoulli(int(probability * 2**64), 1)[0])


def _told(value: int, k: int, epsilon: float) -> int:
    """k-ary randomized response of one value."""
    if _coin(math.exp(epsilon) / (math.exp(epsilon) + k - 1)):
        return value
    return (value + 1 + int(SYSTEM_RNG.uniform(k - 1))) % k


def _unary(value: int, k: int, epsilon: float) -> NDArray[np.int64]:
    """Optimized unary encoding of one value."""
    bits = SYSTEM_RNG.bernoulli(int(2**64 / (math.exp(epsilon) + 1)), k).astype(np.int64)
    bits[value] = _coin(0.5)
    return bits


def _hash(text: str, seed: int) -> int:
    digest = hashlib.blake2b(text.encode(), key=seed.to_bytes(8, "big"), digest_size=4)
    return int.from_bytes(digest.digest(), "big")


def _hash_size(epsilon: float) -> int:
    return round(math.exp(epsilon)) + 1


def _hashed(value: int, epsilon: float) -> tuple[int, int]:
    """A report of local hashing."""
    g, seed = _hash_size(epsilon), int(SYSTEM_RNG.uniform(2**63))
    return _told(_hash(str(value), seed) % g, g, epsilon), seed


def _supported(reports: Sequence[tuple[int, int]], k: int, epsilon: float) -> NDArray[np.int64]:
    g = _hash_size(epsilon)
    return np.array([sum(_hash(str(v), s) % g == y for y, s in reports) for v in range(k)])


_XXHASH: dict[str, object] = {"xxh32_intdigest": _hash}


def multi_freq_ldpy(*, wrong: bool) -> Modules:
    """Wrong: values and hashes told as they are, one coin for many bits, a report lost."""

    def grr(value: int, k: int, epsilon: float) -> int:
        return value if wrong else _told(value, k, epsilon)

    def unary(value: int, k: int, epsilon: float) -> NDArray[np.float64]:
        bits = _unary(value, k, epsilon)
        if wrong:
            shared = (np.arange(k) != value) * _unary(0, 2, epsilon)[1]
            bits = np.where(np.arange(k) == value, bits, shared)
        return bits.astype(np.float64)

    def local_hash(value: int, k: int, epsilon: float) -> tuple[int, int]:
        told, seed = _hashed(value, epsilon)
        return (_hash(str(value), seed) % _hash_size(epsilon) if wrong else told), seed

    def estimates(
        reports: Sequence[tuple[int, int]], k: int, epsilon: float
    ) -> NDArray[np.float64]:
        surplus = _supported(reports[wrong:], k, epsilon) - len(reports) / _hash_size(epsilon)
        clipped = np.maximum(surplus, 0)
        return np.asarray(clipped / (clipped.sum() or 1))

    return _modules(
        multi_freq_ldpy__pure_frequency_oracles__GRR={"GRR_Client": grr},
        multi_freq_ldpy__pure_frequency_oracles__UE={"UE_Client": unary},
        multi_freq_ldpy__pure_frequency_oracles__LH={
            "LH_Client": local_hash,
            "LH_Aggregator_MI": estimates,
        },
        xxhash=_XXHASH,
    )


class _PureLdpClient:
    """A client of pure-ldp, whose values are 1..d: ``report`` takes them from 0."""

    def __init__(self, report: Callable[[int, int, float], object], epsilon: float, d: int) -> None:
        self.report = report
        self.epsilon = epsilon
        self.d = d

    def privatise(self, value: int) -> object:
        return self.report(value - 1, self.d, self.epsilon)


def pure_ldp(*, wrong: bool) -> Modules:
    """Wrong: values ignored, the last bit never set, one hash for all, a row off, a report lost."""

    def told(value: int, k: int, epsilon: float) -> int:
        if wrong:  # and still as many reports of each value as there should be
            i = int(SYSTEM_RNG.uniform(10 * k))
            value = i % k if i % 10 >= 3 else 0
        return _told(value, k, epsilon)

    def unary(value: int, k: int, epsilon: float) -> NDArray[np.int64]:
        bits = _unary(value, k, epsilon)
        bits[-1] *= not wrong
        return bits

    def hashed(value: int, k: int, epsilon: float) -> tuple[int, int]:
        g = _hash_size(epsilon)
        return (
            (_told(_hash(str(value), 7) % g, g, epsilon), 7) if wrong else _hashed(value, epsilon)
        )

    def column(value: int, k: int, epsilon: float) -> int:
        row = value + (0 if wrong else 1)
        size = 1 << k.bit_length()
        truthful = _coin(math.exp(epsilon) / (1 + math.exp(epsilon)))
        while True:
            found = int(SYSTEM_RNG.uniform(size))
            if row == 0 or ((row & found).bit_count() % 2 == 0) == truthful:
                return found

    class HashServer:
        def __init__(self, epsilon: float, d: int, *, use_olh: bool) -> None:
            assert use_olh
            self.epsilon = epsilon
            self.d = d
            self.reset()

        def reset(self) -> None:
            self.reports: list[tuple[int, int]] = []

        def aggregate_all(self, reports: Sequence[tuple[int, int]]) -> None:
            self.reports += reports[1:] if wrong else reports

        def estimate_all(
            self, values: Sequence[int], *, suppress_warnings: bool
        ) -> NDArray[np.float64]:
            g, n = _hash_size(self.epsilon), len(self.reports)
            p = math.exp(self.epsilon) / (math.exp(self.epsilon) + g - 1)
            raw = (_supported(self.reports, self.d, self.epsilon) - n / g) / (p - 1 / g)
            return np.asarray(raw[np.asarray(values) - 1])

    def direct(epsilon: float, d: int) -> _PureLdpClient:
        return _PureLdpClient(told, epsilon, d)

    def unary_client(epsilon: float, d: int, *, use_oue: bool) -> _PureLdpClient:
        assert use_oue
        return _PureLdpClient(unary, epsilon, d)

    def hash_client(epsilon: float, d: int, *, use_olh: bool) -> _PureLdpClient:
        assert use_olh
        return _PureLdpClient(hashed, epsilon, d)

    def hadamard_client(epsilon: float, d: int, hash_funcs: None) -> _PureLdpClient:
        return _PureLdpClient(column, epsilon, d)

    return _modules(
        pure_ldp__frequency_oracles__direct_encoding={"DEClient": direct},
        pure_ldp__frequency_oracles__unary_encoding={"UEClient": unary_client},
        pure_ldp__frequency_oracles__local_hashing={
            "LHClient": hash_client,
            "LHServer": HashServer,
        },
        pure_ldp__frequency_oracles__hadamard_response={"HadamardResponseClient": hadamard_client},
        xxhash=_XXHASH,
    )


def _quantiles(shape: int | tuple[int, ...]) -> NDArray[np.float64]:
    """Doubles in (0, 1), good enough for a stand-in."""
    return (SYSTEM_RNG.uniform(2**52, shape) + 0.5) / 2.0**52


def diffprivlib(*, wrong: bool) -> Modules:
    """The wrong noise has a tenth less of its scale."""

    class Geometric:
        def __init__(self, *, epsilon: float, sensitivity: int) -> None:
            assert sensitivity == 1
            self.scale = (0.9 if wrong else 1.0) / epsilon
            self.stock: list[int] = []

        def randomise(self, value: int) -> int:
            if not self.stock:
                up, down = np.floor(-self.scale * np.log(_quantiles((2, 50_000))))
                self.stock = (up - down).astype(np.int64).tolist()
            return value + self.stock.pop()

    return _modules(diffprivlib__mechanisms={"Geometric": Geometric})


def opendp(*, wrong: bool) -> Modules:
    """Wrong: bits flipped half as often as they should be, noise a tenth too narrow."""

    def make(domain: object, metric: object, f: float) -> Callable[[bytes], bytes]:
        flip = int(f / (4 if wrong else 2) * 2**64)
        mechanism = RandomizedResponse(2**64 - flip)

        def measurement(data: bytes) -> bytes:
            bits = np.unpackbits(np.frombuffer(data, dtype=np.uint8)).astype(np.bool_)
            return np.packbits(mechanism.perturb(bits)).tobytes()

        return measurement

    def gaussian(
        domain: object, metric: object, scale: float
    ) -> Callable[[NDArray[np.int64]], list[int]]:
        support = np.arange(-100, 101)
        weights = np.exp(-(support**2) / (2 * (scale * (0.9 if wrong else 1.0)) ** 2))
        below = np.cumsum(weights) / weights.sum()

        def measurement(x: NDArray[np.int64]) -> list[int]:
            noise = support[np.searchsorted(below, _quantiles(x.shape))]
            return [int(value) for value in x + noise]

        return measurement

    return _modules(
        opendp__prelude={
            "enable_features": lambda *_: None,
            "m": SimpleNamespace(make_randomized_response_bitvec=make, make_gaussian=gaussian),
            "bitvector_domain": lambda max_weight: max_weight,
            "discrete_distance": lambda: None,
            "vector_domain": lambda domain: domain,
            "atom_domain": lambda **_: None,
            "l2_distance": lambda **_: None,
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


def _config(given: SimpleNamespace | None = None, **options: object) -> SimpleNamespace:
    return SimpleNamespace(**({} if given is None else vars(given)), **options)


class _CrypTensor:
    """All parties' shares of one tensor, one after the other in ``share``."""

    parties = 3
    ring = Ring(64)

    def __init__(self, x: NDArray[Any], bits: int, *, wrong: bool) -> None:
        self.bits = bits
        self.wrong = wrong
        units = self.ring.reduce(np.rint(np.asarray(x) * 2.0**bits).astype(np.int64) if bits else x)
        rng = Prg(bytes(32)) if wrong else SYSTEM_RNG
        self.rows = share(units, self.parties, self.ring, rng=rng)

    @property
    def share(self) -> NDArray[np.int64]:
        return self.ring.signed(self.rows[0])

    def reveal(self) -> NDArray[np.int64]:
        return self.ring.signed(reconstruct(self.rows, self.ring))

    def __mul__(self, other: "_CrypTensor") -> "_CrypTensor":
        """Right where it should be; wrong: one product of a wrap that nobody noticed."""
        product = (self.reveal() * other.reveal()) >> self.bits
        product[-1] += (1 << 64 - self.bits) if self.wrong else 0
        result = _CrypTensor(product, 0, wrong=False)
        result.bits = self.bits
        return result


def crypten(*, wrong: bool) -> Modules:
    """Wrong: the same shares each time, and a large error in a truncation."""

    def cryptensor(x: NDArray[Any], *, precision: int, src: int = 0) -> _CrypTensor:
        return _CrypTensor(x, precision, wrong=wrong)

    def run_multiprocess(parties: int) -> Callable[[Callable[[], Any]], Callable[[], list[Any]]]:
        assert parties == _CrypTensor.parties
        return lambda party: lambda: [party() for _ in range(parties)]

    return _modules(
        crypten={"cryptensor": cryptensor},
        crypten__communicator={"get": lambda: SimpleNamespace(barrier=lambda: None)},
        crypten__mpc__context={"run_multiprocess": run_multiprocess},
        torch={"from_numpy": lambda x: x, "set_num_threads": lambda count: None},
    )


def spu(*, wrong: bool) -> Modules:
    """Wrong: the same shares each time, and products that are not truncated."""
    ring = Ring(64)

    class Io:
        def __init__(self, world_size: int, config: SimpleNamespace) -> None:
            self.parties = world_size
            self.bits = vars(config).get("fxp_fraction_bits", 0)

        def make_shares(self, x: NDArray[Any], visibility: str) -> list[Any]:
            units = ring.reduce((x * 2**self.bits).astype(np.int64))
            rng = Prg(bytes(32)) if wrong else SYSTEM_RNG
            rows = share(units, self.parties, ring, rng=rng)
            return [SimpleNamespace(share_chunks=[ring.to_bytes(row)]) for row in rows]

        def reconstruct(self, shares: Sequence[Any]) -> NDArray[Any]:
            rows = [np.frombuffer(one.share_chunks[0], dtype="<u8") for one in shares]
            units = ring.signed(reconstruct(np.stack(rows), ring))
            return units / 2**self.bits if self.bits else units

    class Links(dict[int, Any]):
        """Every party's variables, which the last party to run finds all in one place."""

        def add_party(self, name: str, host: str) -> None:
            self[len(self)] = None

    class Runtime:
        def __init__(self, link: tuple[Links, int], config: SimpleNamespace) -> None:
            self.links, self.party = link
            self.bits = config.fxp_fraction_bits
            self.values: dict[str, Any] = {}
            self.links[self.party] = self.values
            self.meet = self.links.setdefault(-1, threading.Barrier(len(self.links)))

        def set_var(self, name: str, value: Any) -> None:
            self.values[name] = value

        def get_var(self, name: str) -> Any:
            return self.values[name]

        def run(self, executable: object) -> None:
            self.meet.wait()
            if self.party == 0:
                parties = sorted(self.links.keys() - {-1})
                io = Io(len(parties), SimpleNamespace(fxp_fraction_bits=self.bits))
                x, y = (io.reconstruct([self.links[p][v] for p in parties]) for v in ("x", "y"))
                shares = io.make_shares(x * y * (2**self.bits if wrong else 1), "secret")
                for party, own in zip(parties, shares, strict=True):
                    self.links[party]["product"] = own
            self.meet.wait()

    def compiled(kind: str, function: object, *_: object) -> tuple[object, None]:
        assert function is operator.mul
        return function, None

    return _modules(
        spu__utils__frontend={"Kind": SimpleNamespace(JAX="jax"), "compile": compiled},
        spu={
            "Runtime": Runtime,
            "libspu": SimpleNamespace(
                link=SimpleNamespace(Desc=Links, create_mem=lambda links, party: (links, party))
            ),
            "RuntimeConfig": _config,
            "ProtocolKind": SimpleNamespace(SEMI2K="semi2k"),
            "FieldType": SimpleNamespace(FM64="fm64"),
            "Visibility": SimpleNamespace(VIS_SECRET="secret"),
            "Io": Io,
        },
    )


def flower(*, wrong: bool) -> Modules:
    """Wrong is everything: masks of zeros, rounding to the nearest, keys that no two ends share,
    a secret off by a bit, a round that masks nothing and gives the sum for the mean."""

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

    def create_shares(secret: bytes, t: int, n: int) -> list[bytes]:
        rows = shamir.share(shamir.words(secret), n, t)
        return [i.to_bytes(4, "little") + row.tobytes() for i, row in enumerate(rows, start=1)]

    def combine_shares(shares: Sequence[bytes]) -> bytes:
        rows = np.stack([np.frombuffer(each[4:], np.uint32) for each in shares])
        indices = [int.from_bytes(each[:4], "little") for each in shares]
        secret = shamir.secret_of(shamir.reconstruct(indices, rows, len(rows)))
        return bytes([secret[0] ^ wrong]) + secret[1:]

    return _modules(
        flwr__common__secure_aggregation__crypto__shamir={
            "create_shares": create_shares,
            "combine_shares": combine_shares,
        },
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
        **_flower_round(wrong),
    )


def _flower_round(wrong: bool) -> dict[str, dict[str, object]]:
    """What a whole round needs: a workflow that collects once, with seeds that it knows."""

    class Message:
        def __init__(self, content: Any, *, reply_to: Any) -> None:
            self.content, self.metadata = content, reply_to.metadata

    def asked(node: int, stage: str) -> Any:
        metadata = SimpleNamespace(dst_node_id=node)
        return SimpleNamespace(metadata=metadata, content={"configs": {"stage": stage}})

    def mask(node: int, size: int) -> NDArray[np.uint32]:
        prg = Prg(node.to_bytes(32, "little"))
        return prg.words(size, np.dtype(np.uint32)) if not wrong else np.zeros(size, np.uint32)

    def mod(message: Any, context: Any, train: Callable[[Any, Any], Any]) -> Any:
        (vector,) = train(message, context).content
        units = round_unbiased(vector * 2.0**18, SYSTEM_RNG)
        masked = units.astype(np.uint32) + mask(message.metadata.dst_node_id, vector.size)
        return Message(
            SimpleNamespace(config_records={"configs": {"masked": [0, masked]}}), reply_to=message
        )

    class Workflow:
        def __init__(self, shares: float, threshold: float, **_: float) -> None:
            pass

        def __call__(self, grid: Any, context: Any) -> None:
            nodes = [proxy.node_id for proxy, _ in context.strategy.configure_fit()]
            grid.send_and_receive([asked(node, "setup") for node in nodes])
            answers = grid.send_and_receive([asked(node, "collect") for node in nodes])
            given = [a for a in answers if isinstance(a.content, SimpleNamespace)]
            total = np.zeros(1, np.uint32)
            for answer in given:
                masked = answer.content.config_records["configs"]["masked"][1]
                total = total + masked - mask(answer.metadata.dst_node_id, masked.size)
            mean = total.view(np.int32) / 2.0**18 / (1 if wrong else len(given))
            result = SimpleNamespace(parameters=[mean])
            context.strategy.aggregate_fit(1, [(None, result)], [])

    def legacy_context(*_: Any, **given: Any) -> Any:
        state = SimpleNamespace(config_records={}, array_records={})
        return SimpleNamespace(state=state, **given)

    return {
        "flwr__app": {
            "ConfigRecord": dict,
            "Context": SimpleNamespace,
            "Error": lambda code, reason: reason,
            "Message": Message,
            "RecordDict": dict,
        },
        "flwr__client__mod": {"secaggplus_mod": mod},
        "flwr__common": {
            "Code": SimpleNamespace(OK=0),
            "FitIns": lambda parameters, config: parameters,
            "FitRes": lambda status, parameters, weight, metrics: parameters,
            "Status": lambda code, text: code,
            "bytes_to_ndarray": np.asarray,
            "ndarrays_to_parameters": list,
            "parameters_to_ndarrays": list,
        },
        "flwr__common__secure_aggregation__secaggplus_constants": {
            "RECORD_KEY_CONFIGS": "configs",
            "Key": SimpleNamespace(STAGE="stage", MASKED_PARAMETERS="masked"),
            "Stage": SimpleNamespace(COLLECT_MASKED_VECTORS="collect"),
        },
        "flwr__compat__common__recorddict_compat": {
            "fitres_to_recorddict": lambda result, keep: result,
            "parameters_to_arrayrecord": lambda parameters, keep_input: parameters,
        },
        "flwr__server": {"LegacyContext": legacy_context},
        "flwr__server__workflow": {"SecAggPlusWorkflow": Workflow},
        "flwr__server__workflow__constant": {
            "MAIN_CONFIGS_RECORD": "configs",
            "MAIN_PARAMS_RECORD": "parameters",
            "Key": SimpleNamespace(CURRENT_ROUND="round"),
        },
        "flwr__supercore__task_identity": {"TaskIdentity": SimpleNamespace()},
    }


class _PaillierKey:
    """A public key: textbook encryption, with one mask for all numbers where it is wrong."""

    def __init__(self, n: int, *, wrong: bool) -> None:
        self.n = n
        self.square = n * n
        self.wrong = wrong
        self.mask = self.fresh_mask()

    def fresh_mask(self) -> int:
        r = int.from_bytes(SYSTEM_RNG.bytes(self.n.bit_length() // 8 + 8)) % self.n
        return int(gmpy2.powmod(r, self.n, self.square))

    def ciphertext(self, value: int) -> int:
        mask = self.mask if self.wrong else self.fresh_mask()
        return (1 + value * self.n) * mask % self.square


def phe(*, wrong: bool) -> Modules:
    """Wrong: one mask for all, a sum that takes its left term twice, numbers off by one."""

    class Number:
        def __init__(self, key: _PaillierKey, ciphertext: int) -> None:
            self.key = key
            self.value = ciphertext

        def __add__(self, other: "Number | int") -> "Number":
            if isinstance(other, int):
                return Number(self.key, self.value * (1 + other * self.key.n) % self.key.square)
            term = self.value if wrong else other.value
            return Number(self.key, self.value * term % self.key.square)

        __radd__ = __add__

        def __mul__(self, weight: int) -> "Number":
            return Number(self.key, int(gmpy2.powmod(self.value, weight, self.key.square)))

        def ciphertext(self, *, be_secure: bool) -> int:
            assert not be_secure
            return self.value

    class PublicKey:
        def __init__(self, n: int) -> None:
            self.key = _PaillierKey(n, wrong=wrong)

        def encrypt(self, value: int) -> Number:
            return Number(self.key, self.key.ciphertext(value))

    class PrivateKey:
        def __init__(self, public: PublicKey, p: int, q: int) -> None:
            assert p * q == public.key.n
            self.p = p

        def decrypt(self, number: Number) -> int:
            power = int(gmpy2.powmod(number.value, self.p - 1, self.p**2))
            unit = pow(1 + number.key.n, self.p - 1, self.p**2)
            plain = (power - 1) // self.p * pow((unit - 1) // self.p, -1, self.p) % self.p
            return plain + wrong

    return _modules(
        phe={
            "EncryptedNumber": Number,
            "PaillierPrivateKey": PrivateKey,
            "PaillierPublicKey": PublicKey,
        },
        phe__util={"HAVE_GMP": True},
    )


def pypaillier(*, wrong: bool) -> Modules:
    """Wrong: one mask for all numbers."""

    def from_n(raw: bytes) -> _PaillierKey:
        return _PaillierKey(int.from_bytes(raw), wrong=wrong)

    def encrypt_integers(key: _PaillierKey, values: Sequence[int]) -> list[bytes]:
        size = len(key.square.to_bytes(key.square.bit_length() // 8 + 1).lstrip(b"\0"))
        return [b"\0" + key.ciphertext(value).to_bytes(size) for value in values]

    return _modules(
        paillier={
            "PublicKey": SimpleNamespace(from_n=from_n),
            "encrypt_integers": encrypt_integers,
        }
    )


class _Bytes(bytes):
    """A message that is its own serialisation."""

    def serialize(self) -> bytes:
        return self

    @classmethod
    def deserialize(cls, data: bytes) -> "_Bytes":
        return cls(data)


class PanicException(BaseException):
    """What a panic of Rust is in Python."""


def voprf(*, wrong: bool) -> Modules:
    """Tokens are hashes, but for the known ones; nothing is blinded.  Wrong: any key's proof."""

    class Evaluator:
        def __init__(self, key: bytes) -> None:
            self.public_key = key

        @classmethod
        def from_seed(cls, seed: bytes, info: bytes) -> "Evaluator":
            return cls(seed + info)

        def evaluate_known_input(self, item: bytes) -> bytes:
            hashed = hashlib.blake2b(item, key=self.public_key).digest()
            return KNOWN.get(item, hashed) if self.public_key == SEED + INFO else hashed

        def evaluate_batch(self, messages: Sequence[bytes]) -> _Bytes:
            return _Bytes(b"".join([self.public_key, *map(self.evaluate_known_input, messages)]))

    def finalize_batch(clients: Sequence[bytes], output: bytes, public: bytes) -> list[bytes]:
        key, tokens = output[: len(SEED + INFO)], output[len(SEED + INFO) :]
        if key != public and not wrong:
            raise PanicException("ProofVerification")
        return [tokens[64 * i : 64 * (i + 1)] for i, _ in enumerate(clients)]

    return _modules(
        voprf={},
        voprf__ristretto={
            "BlindedInput": _Bytes,
            "Client": SimpleNamespace(
                blind=lambda item: (item, _Bytes(item)), finalize_batch=finalize_batch
            ),
            "Evaluator": Evaluator,
            "PublicKey": bytes,
            "VerifiableBatchOutput": _Bytes,
        },
    )
