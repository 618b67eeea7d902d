"""Many small signed numbers in one plaintext, so that one ciphertext adds and scales them all.

Source: Ge and Zdonik, "Answering aggregation queries in a secure system model" (VLDB 2007), for
    numbers packed into one Paillier plaintext; the account of their room is ours.
Model: the plan is public, and so is the account: it depends on the plan and on the plain factors
    and summands. Whoever decrypts reads every slot, and each sum in full.
Leaks: the account of a product tells how large its plain factor was. The receiver of a result
    needs the plan's ``limit`` alone: send that.
Error: none for integers; half of 2^-frac_bits for each fraction that is packed.
Differs: slot i holds its signed number times 2^(i slot_bits), a negative one borrowing from the
    slot above, and the offset that makes all slots positive is added when they are read. So
    negative factors, and sums of any number of terms, need no account of where an offset went.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, SupportsIndex

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mpc.core.checks import integer
from mpc.core.errors import AbortError, ParameterError
from mpc.core.rng import SYSTEM_RNG, Rng
from mpc.paillier.ciphertext import Ciphertext, check_same_key
from mpc.paillier.encrypt import Encryptor
from mpc.paillier.exact import fraction, objects, scaled
from mpc.paillier.keys import PrivateKey, PublicKey
from mpc.paillier.products import dot
from mpc.paillier.slots import cut, join

_MOST = (1 << 4096) - 1
_HALF_WORD = 1 << 63


@dataclass(frozen=True)
class PackingPlan:
    """How wide a slot is: room for the sum of ``terms`` values, each times a factor.

    max_value: the largest absolute value that is packed, in steps of 2^-frac_bits.
    max_factor: the largest absolute value of the integers that slots are multiplied by.
    terms: how many such products are added.
    guard_bits: bits on top, by which a slot that went wrong shows instead of spilling over.
    frac_bits: fractional bits of the values, in [0, 63]; 0 packs integers and refuses fractions.
    Raises ParameterError unless the first three are at least 1.
    """

    max_value: int
    max_factor: int = 1
    terms: int = 1
    guard_bits: int = 1
    frac_bits: int = 0

    def __post_init__(self) -> None:
        for name, least, most in (
            ("max_value", 1, _MOST),
            ("max_factor", 1, _MOST),
            ("terms", 1, _MOST),
            ("guard_bits", 0, 1 << 12),
            ("frac_bits", 0, 63),
        ):
            object.__setattr__(self, name, integer(name, getattr(self, name), least, most))

    @cached_property
    def limit(self) -> int:
        """The largest absolute value that a slot has room for."""
        return self.max_value * self.max_factor * self.terms

    @cached_property
    def slot_bits(self) -> int:
        """At most the bits of value and factor, ceil(log2 terms), one for the sign, the guard."""
        return self.limit.bit_length() + 1 + self.guard_bits

    def capacity(self, public: PublicKey) -> int:
        """Slots in one plaintext; ParameterError if it cannot hold a single one."""
        slots = (public.bits - 1) // self.slot_bits
        if not slots:
            raise ParameterError(
                f"a slot takes {self.slot_bits} bits, a plaintext has {public.bits - 1}",
                remedy="take a larger key, or plan for fewer terms or smaller factors",
            )
        return slots

    def plaintexts(self, public: PublicKey, count: int) -> int:
        """Plaintexts that ``count`` values take."""
        return -(-integer("count", count, 0, 2**63 - 1) // self.capacity(public))

    def pack(self, public: PublicKey, values: ArrayLike) -> list[int]:
        """The values as plaintexts in (-n/2, n/2), ``capacity`` of them in each, in order.

        values: one dimension; integers, or with frac_bits floats too, which round to nearest.
        Raises ParameterError for booleans, NaN and what exceeds max_value; no value is quoted.
        """
        return self._packed(public, self._integers(values), self.max_value)

    def unpack(
        self, public: PublicKey, plaintexts: Sequence[int], count: int, bound: int
    ) -> NDArray[Any]:
        """The first ``count`` slots of plaintexts in (-n/2, n/2): the inverse of ``pack``.

        bound: what the absolute values of slots are known not to exceed, at most ``limit``.
        Returns int64, or Python's integers (dtype object) where ``bound`` needs them; with
        frac_bits float64, rounded to nearest.
        Raises AbortError if a slot exceeds the bound: who made the plaintext left the plan.
        """
        bound = integer("bound", bound, 0, self.limit)
        if len(plaintexts) != self.plaintexts(public, count):
            raise ParameterError(
                f"{count} values take {self.plaintexts(public, count)} plaintexts, got "
                f"{len(plaintexts)}"
            )
        slots = self.capacity(public)
        shift, bits = self._all_slots(bound, slots), slots * self.slot_bits
        lifted = [int(plaintext) + shift for plaintext in plaintexts]
        if any(number < 0 or number >> bits for number in lifted):
            raise AbortError("a plaintext does not have the form of the plan")
        integers = cut(lifted, slots, self.slot_bits, bound)[:count]
        if not self.frac_bits:
            return integers
        if integers.dtype == np.int64:
            return np.ldexp(integers.astype(np.float64), -self.frac_bits)
        # The quotient of two Python integers is rounded once.
        scale = 1 << self.frac_bits
        return np.array([number / scale for number in integers], dtype=np.float64)

    def encrypt(
        self, values: ArrayLike, encryptor: Encryptor, *, rng: Rng = SYSTEM_RNG
    ) -> "PackedVector":
        """Fresh encryptions of at least one value, packed; ``pack`` says what is refused."""
        integers = self._integers(values)
        packed = self._packed(encryptor.public, integers, self.max_value)
        ciphertexts = tuple(encryptor.encrypt_many(packed, rng=rng))
        return PackedVector(self, integers.size, ciphertexts, self.max_value)

    def _packed(self, public: PublicKey, integers: NDArray[Any], bound: int) -> list[int]:
        slots = self.capacity(public)
        shift = self._all_slots(bound, slots)
        return [number - shift for number in join(integers, slots, self.slot_bits, bound)]

    def _all_slots(self, value: int, slots: int) -> int:
        """``value`` in each slot of a plaintext."""
        return value * (((1 << slots * self.slot_bits) - 1) // ((1 << self.slot_bits) - 1))

    def _integers(self, values: ArrayLike, bound: int | None = None) -> NDArray[Any]:
        """The values in steps of 2^-frac_bits, checked: int64, or objects if ``bound`` needs it."""
        bound = self.max_value if bound is None else bound
        array = values if isinstance(values, np.ndarray) else objects(values)
        if array.ndim != 1:
            raise ParameterError(f"values must have one dimension, got shape {array.shape}")
        if array.dtype == object and set(map(type, array)) == {float}:
            array = array.astype(np.float64)
        if array.dtype.kind == "f" and array.dtype.itemsize <= 8 and bound < _HALF_WORD:
            return self._rounded(array, bound)
        if array.dtype.kind not in "iu":
            entries = [self._integer(index, value) for index, value in enumerate(array.tolist())]
            array, shift = np.array(entries, dtype=object), 0
        else:
            shift = self.frac_bits
        most = bound >> shift
        wrong = np.flatnonzero((array > most) | (array < -most))
        if wrong.size:
            raise _too_large(wrong[0])
        integers: NDArray[Any] = array.astype(np.int64 if bound < _HALF_WORD else object)
        return integers << shift

    def _rounded(self, array: NDArray[Any], bound: int) -> NDArray[Any]:
        if not self.frac_bits:
            raise _no_integer(0)
        with np.errstate(over="ignore", invalid="ignore"):
            steps = np.rint(np.ldexp(array.astype(np.float64), self.frac_bits))
        outside = np.flatnonzero(~(np.abs(steps) < 2.0**63))  # NaN is not below it
        if outside.size:
            raise _too_large(outside[0])
        integers = steps.astype(np.int64)
        wrong = np.flatnonzero((integers > bound) | (integers < -bound))
        if wrong.size:
            raise _too_large(wrong[0])
        return integers

    def _integer(self, index: int, value: Any) -> int:
        if type(value) is int:
            return value << self.frac_bits
        exact = fraction(f"values[{index}]", value)
        nearest, is_exact = scaled(exact, self.frac_bits)
        if not self.frac_bits and (not is_exact or isinstance(value, float | np.floating)):
            raise _no_integer(index)
        return nearest


@dataclass(frozen=True, eq=False)
class PackedVector:
    """Ciphertexts of ``count`` >= 1 numbers that are packed by one plan, and their account.

    bound: no slot exceeds it in absolute value, in steps of 2^-frac_bits; what came from somebody
    else is held to the plan's ``limit``, or to what was agreed.
    ``a + b`` and ``a - b`` take vectors of one plan, length and key, or plain numbers: one for all
    slots, or an array (count). ``a * k`` takes a plain integer. Results are not fresh.
    Raises ParameterError, before anything is computed, for what the slots may not hold.
    """

    plan: PackingPlan
    count: int
    ciphertexts: tuple[Ciphertext, ...]
    bound: int

    # An array on the left hands the operation to us instead of going through our entries.
    __array_ufunc__ = None

    def __post_init__(self) -> None:
        integer("count", self.count, 1, 2**63 - 1)
        integer("bound", self.bound, 0, self.plan.limit)
        if not self.ciphertexts or len(self.ciphertexts) != self.plan.plaintexts(
            self.public, self.count
        ):
            raise ParameterError(
                f"{len(self.ciphertexts)} ciphertexts do not hold {self.count} values of this plan"
            )

    @property
    def public(self) -> PublicKey:
        """The key that the ciphertexts belong to."""
        return self.ciphertexts[0].public

    def __add__(self, other: "PackedVector | ArrayLike") -> "PackedVector":
        if not isinstance(other, PackedVector):
            return self._add_plain(other, 1)
        _check_alike(self, other)
        bound = self.bound + other.bound
        _check_room(self.plan, bound)
        pairs = zip(self.ciphertexts, other.ciphertexts, strict=True)
        return self._replaced([a + b for a, b in pairs], bound)

    def __radd__(self, other: ArrayLike) -> "PackedVector":
        return self + other

    def __neg__(self) -> "PackedVector":
        return self._replaced([-ciphertext for ciphertext in self.ciphertexts], self.bound)

    def __sub__(self, other: "PackedVector | ArrayLike") -> "PackedVector":
        return self + -other if isinstance(other, PackedVector) else self._add_plain(other, -1)

    def __rsub__(self, other: ArrayLike) -> "PackedVector":
        return -self + other

    def __mul__(self, factor: SupportsIndex) -> "PackedVector":
        exact = integer("factor", factor, -_MOST, _MOST)
        bound = self.bound * abs(exact)
        _check_room(self.plan, bound)
        return self._replaced([ciphertext * exact for ciphertext in self.ciphertexts], bound)

    def __rmul__(self, factor: SupportsIndex) -> "PackedVector":
        return self * factor

    def rerandomised(self, encryptor: Encryptor, *, rng: Rng = SYSTEM_RNG) -> "PackedVector":
        """The same numbers and account in fresh ciphertexts."""
        return self._replaced(encryptor.rerandomise_many(self.ciphertexts, rng=rng), self.bound)

    def _add_plain(self, values: ArrayLike, sign: int) -> "PackedVector":
        array = np.asarray(values)
        room = self.plan.limit - self.bound
        full = np.full(self.count, array.item()) if array.ndim == 0 else array
        if full.shape != (self.count,):
            raise ParameterError(f"a plain summand must have {self.count} entries")
        integers = self.plan._integers(full, room)
        bound = int(np.abs(integers).max())
        packed = self.plan._packed(self.public, integers, bound)
        pairs = zip(self.ciphertexts, packed, strict=True)
        return self._replaced([c + sign * plaintext for c, plaintext in pairs], self.bound + bound)

    def _replaced(self, ciphertexts: Iterable[Ciphertext], bound: int) -> "PackedVector":
        return PackedVector(self.plan, self.count, tuple(ciphertexts), bound)


def weighted_sum(vectors: Sequence[PackedVector], factors: Sequence[SupportsIndex]) -> PackedVector:
    """The sum of factors[i] * vectors[i], slot by slot, by one multi-exponentiation each plaintext.

    Raises ParameterError unless there are as many factors as vectors, at least one, the vectors
    have one plan, length and key, and the slots have the room.
    """
    if not vectors or len(factors) != len(vectors):
        raise ParameterError(f"{len(vectors)} vectors and {len(factors)} factors make no sum")
    first = vectors[0]
    for vector in vectors:
        _check_alike(first, vector)
    exact = [integer("a factor", factor, -_MOST, _MOST) for factor in factors]
    bound = sum(vector.bound * abs(factor) for vector, factor in zip(vectors, exact, strict=True))
    _check_room(first.plan, bound)
    columns = zip(*(vector.ciphertexts for vector in vectors), strict=True)
    return first._replaced([dot(column, exact) for column in columns], bound)


def decrypt(private: PrivateKey, vector: PackedVector) -> NDArray[Any]:
    """The numbers (count), as ``PackingPlan.unpack`` gives and refuses them."""
    plaintexts = private.decrypt_many(vector.ciphertexts)
    return vector.plan.unpack(vector.public, plaintexts, vector.count, vector.bound)


def _check_alike(first: PackedVector, second: PackedVector) -> None:
    check_same_key(first.public, second.public)
    if first.plan != second.plan or first.count != second.count:
        raise ParameterError("packed vectors must have one plan and one length")


def _check_room(plan: PackingPlan, bound: int) -> None:
    if bound > plan.limit:
        raise ParameterError(
            f"the slots of this plan could be {(bound // plan.limit).bit_length()} bits short",
            remedy="plan for more terms or larger factors",
        )


def _too_large(index: int) -> ParameterError:
    return ParameterError(f"values[{index}] is larger than the plan has room for, or not a number")


def _no_integer(index: int) -> ParameterError:
    return ParameterError(
        f"values[{index}] is not an integer", remedy="plan frac_bits for fractions"
    )
