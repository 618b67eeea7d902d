"""Paillier by length of the key: encryption, arithmetic, products, fractions, packing, the wire."""

from collections.abc import Callable
from functools import cache
from operator import add, mul
from typing import Any

import numpy as np
import pytest

from benchmarks.peers.ciphertexts import encrypts_rightly, plaintexts, primes, weights
from mpc.paillier import codec, packing
from mpc.paillier.ciphertext import vector_from_bytes, vector_to_bytes
from mpc.paillier.encrypt import Djn, Encryptor, Owner, Textbook
from mpc.paillier.keys import PrivateKey
from mpc.paillier.products import dot, dot_fractions, matrix_vector

COUNT = 16

ENCRYPTORS: dict[str, Callable[[PrivateKey], Encryptor]] = {
    "djn": lambda private: Djn(private.public),
    "djn_half": lambda private: Djn(private.public, exponent_bits=private.public.bits // 2),
    "owner": Owner,
    "textbook": lambda private: Textbook(private.public),
}
"""``djn_half``: exponents of half the bits of n, as Damgard, Jurik and Nielsen draw them."""

every_size = pytest.mark.parametrize("bits", [2048, 3072])


@cache
def _private(bits: int) -> PrivateKey:
    return PrivateKey(*primes(bits))


@cache
def _djn(bits: int) -> Djn:
    return Djn(_private(bits).public)


def _describe(benchmark: Any, bits: int, operations: int, ciphertexts: int) -> None:
    """Bytes are those of the ciphertexts that leave, for each operation."""
    size = _private(bits).public.ciphertext_bytes
    benchmark.extra_info.update(
        operations=operations, rounds=1, bytes=ciphertexts * size // operations, key_bits=bits
    )


@pytest.mark.benchmark(group="paillier.table")
@every_size
def test_table(benchmark: Any, bits: int) -> None:
    """What an encryptor with short exponents computes once for a key."""
    djn = benchmark(Djn, _private(bits).public)
    (number,) = djn.encrypt_many(plaintexts(1))
    assert _private(bits).decrypt(number) == plaintexts(1)[0]
    _describe(benchmark, bits, 1, 0)


@pytest.mark.benchmark(group="paillier.encrypt")
@pytest.mark.parametrize("name", ENCRYPTORS)
@every_size
def test_encrypt(benchmark: Any, bits: int, name: str) -> None:
    encryptor = ENCRYPTORS[name](_private(bits))
    numbers = benchmark(encryptor.encrypt_many, plaintexts(COUNT))
    assert encrypts_rightly([int(number.value) for number in numbers], plaintexts(COUNT), bits)
    _describe(benchmark, bits, COUNT, COUNT)


@pytest.mark.benchmark(group="paillier.decrypt")
@pytest.mark.parametrize("constant_time", [False, True], ids=["plain", "constant_time_powmod"])
@every_size
def test_decrypt(benchmark: Any, bits: int, constant_time: bool) -> None:
    private, values = _private(bits), plaintexts(COUNT)
    numbers = _djn(bits).encrypt_many(values)
    found = benchmark(private.decrypt_many, numbers, constant_time_powmod=constant_time)
    assert found == values
    _describe(benchmark, bits, COUNT, 0)


@pytest.mark.benchmark(group="paillier.add")
@every_size
def test_add(benchmark: Any, bits: int) -> None:
    x = plaintexts(2 * COUNT)
    numbers = _djn(bits).encrypt_many(x)
    sums = benchmark(lambda: list(map(add, numbers[:COUNT], numbers[COUNT:])))
    assert _private(bits).decrypt_many(sums) == list(map(add, x[:COUNT], x[COUNT:]))
    _describe(benchmark, bits, COUNT, 0)


@pytest.mark.benchmark(group="paillier.scale")
@pytest.mark.parametrize("sign", [1, -1], ids=["positive", "negative"])
@every_size
def test_scale(benchmark: Any, bits: int, sign: int) -> None:
    """A ciphertext times a weight of 21 bits."""
    x, w = plaintexts(COUNT), [sign * weight for weight in weights(COUNT)]
    numbers = _djn(bits).encrypt_many(x)
    scaled = benchmark(lambda: list(map(mul, numbers, w)))
    assert _private(bits).decrypt_many(scaled) == list(map(mul, x, w))
    _describe(benchmark, bits, COUNT, 0)


@pytest.mark.benchmark(group="paillier.dot")
@pytest.mark.parametrize("dim", [10, 100, 1000])
@every_size
def test_dot(benchmark: Any, bits: int, dim: int) -> None:
    x, w = plaintexts(dim), weights(dim)
    total = benchmark(dot, _djn(bits).encrypt_many(x), w)
    assert _private(bits).decrypt(total) == sum(map(mul, x, w))
    _describe(benchmark, bits, 1, 0)


@pytest.mark.benchmark(group="paillier.matrix_vector")
@pytest.mark.parametrize(("rows", "columns"), [(10, 64), (100, 100)])
def test_matrix_vector(benchmark: Any, rows: int, columns: int) -> None:
    x, w = plaintexts(columns), weights(rows * columns)
    matrix = [w[start : start + columns] for start in range(0, len(w), columns)]
    found = benchmark(matrix_vector, matrix, _djn(2048).encrypt_many(x))
    assert _private(2048).decrypt_many(found) == [sum(map(mul, row, x)) for row in matrix]
    _describe(benchmark, 2048, rows, 0)


@pytest.mark.benchmark(group="paillier.wire")
@pytest.mark.parametrize("operation", ["to_bytes", "from_bytes"])
@every_size
def test_wire(benchmark: Any, bits: int, operation: str) -> None:
    public = _private(bits).public
    numbers = _djn(bits).encrypt_many(plaintexts(COUNT))
    data = vector_to_bytes(numbers)
    if operation == "to_bytes":
        assert benchmark(vector_to_bytes, numbers) == data
    else:
        read = benchmark(vector_from_bytes, data, public, COUNT)
        assert [number.value for number in read] == [number.value for number in numbers]
    _describe(benchmark, bits, COUNT, COUNT)


@pytest.mark.benchmark(group="paillier.fractions")
@pytest.mark.parametrize("operation", ["encode", "encrypt", "decrypt"])
def test_fractions(benchmark: Any, operation: str) -> None:
    private, djn, x = _private(2048), _djn(2048), np.sin(np.arange(COUNT))
    fractions = codec.FractionCodec(private.public, frac_bits=32, magnitude_bits=1)
    found: Any
    if operation == "encode":
        encoded = benchmark(fractions.encode_array, x)
        found = [fractions.decode(mantissa) for mantissa in encoded]
    elif operation == "encrypt":
        found = codec.decrypt_array(private, benchmark(fractions.encrypt_array, x, djn))
    else:
        found = benchmark(codec.decrypt_array, private, fractions.encrypt_array(x, djn))
    assert np.abs(np.array(found, dtype=np.float64) - x).max() <= 2.0**-33
    _describe(benchmark, 2048, COUNT, COUNT if operation == "encrypt" else 0)


@pytest.mark.benchmark(group="paillier.dot_fractions")
@pytest.mark.parametrize("dim", [100, 1000])
def test_dot_fractions(benchmark: Any, dim: int) -> None:
    """Weights rounded to 20 fractional bits."""
    private, x, w = _private(2048), np.sin(np.arange(dim)), np.cos(np.arange(dim))
    fractions = codec.FractionCodec(private.public, frac_bits=32, magnitude_bits=1)
    numbers = fractions.encrypt_array(x, _djn(2048)).tolist()
    total = benchmark(dot_fractions, numbers, w, frac_bits=20)
    assert abs(float(codec.decrypt(private, total)) - x @ w) <= float(total.account.max_error)
    _describe(benchmark, 2048, 1, 0)


@pytest.mark.benchmark(group="paillier.packing")
@pytest.mark.parametrize("operation", ["pack", "encrypt", "add", "decrypt"])
def test_packing(benchmark: Any, operation: str) -> None:
    """Values of 32 bits with room for the sum of 1,000 vectors."""
    private, djn, x = _private(2048), _djn(2048), np.array(plaintexts(1000))
    plan = packing.PackingPlan(max_value=2**32 - 1, terms=1000)
    if operation == "pack":
        packed = benchmark(plan.pack, private.public, x)
        found = plan.unpack(private.public, packed, x.size, plan.max_value)
    elif operation == "encrypt":
        found = packing.decrypt(private, benchmark(plan.encrypt, x, djn))
    elif operation == "add":
        vector = plan.encrypt(x, djn)
        found = packing.decrypt(private, benchmark(add, vector, vector)) // 2
    else:
        found = benchmark(packing.decrypt, private, plan.encrypt(x, djn))
    assert np.array_equal(found, x)
    leaving = plan.plaintexts(private.public, x.size) if operation == "encrypt" else 0
    _describe(benchmark, 2048, x.size, leaving)
