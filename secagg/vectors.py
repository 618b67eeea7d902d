"""A model's arrays as one vector of ring elements, and sums of such vectors as arrays again.

    codec = VectorCodec.like(
        model, clip=8.0, frac_bits=16, ring=Ring(40), parties=100, max_weight=60
    )
    sent = codec.encode(update, weight=samples)   # a client; sent.clipped stays with it
    means = codec.means(total)                    # the server, of the sum of all ``sent.vector``

Floats are clipped, scaled by 2^f and rounded without bias; integers go as they are. With a
``max_weight`` each client multiplies its entries by its weight, a whole number, and appends that:
the sum shows sum(w x) and sum(w), and nobody's weight or vector.

Source: quantisation as in ``secagg.quantize``. Means weighted by the clients' numbers of samples:
    McMahan et al., "Communication-Efficient Learning of Deep Networks from Decentralized Data"
    (AISTATS 2017), Algorithm 1, whose n_k are the weights.
Model: local computations at both ends. Counts of clipped entries go to the client's own caller and
    nowhere else.
Leaks: what the sum leaks, which includes the total weight.
Error: of a sum of w x less than sum(w) units of 2^-f, of a mean less than one, from that of the
    clipped inputs, and both unbiased; decoding to float64 adds a relative 2^-52 at most. Integers
    are exact. Clipping is a bias, and counted.
"""

import hashlib
import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from mpc.core.checks import integer
from mpc.core.errors import AbortError, ParameterError
from mpc.core.keys import label
from mpc.core.ring import Ring, RingArray
from mpc.core.rng import SYSTEM_RNG, Rng
from secagg.quantize import (
    MAX_FRAC_BITS,
    MAX_PARTIES,
    MAX_WEIGHT,
    Quantizer,
    check_clip,
    check_head_room,
)

Arrays = Mapping[str, NDArray[Any]]

MAX_LENGTH = 2**40
MAX_INTEGER = 2**62 - 1

_KINDS = {"f": (2, 4, 8), "i": (1, 2, 4, 8), "u": (1, 2, 4, 8)}


@dataclass(frozen=True)
class Field:
    """One array of a model.

    name: not empty.  shape: () for a number.  dtype: float16, float32, float64 or integers of 8 to
    64 bits.  clip: floats are clipped to [-clip, clip]; for integers it is a whole number, and what
    lies beyond it is refused.
    """

    name: str
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    clip: float

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name:
            raise ParameterError("an array's name must be a string, and not empty")
        dtype = np.dtype(self.dtype)
        if dtype.itemsize not in _KINDS.get(dtype.kind, ()):
            raise ParameterError(
                f"array {self.name!r} has dtype {dtype}",
                remedy="take float16, float32, float64 or integers of 8 to 64 bits",
            )
        exact = {
            "shape": tuple(integer("a length", length, 0, MAX_LENGTH) for length in self.shape),
            "dtype": dtype,
            "clip": _clip(self.name, self.clip, whole=dtype.kind != "f"),
        }
        for name, value in exact.items():
            object.__setattr__(self, name, value)

    @property
    def is_integer(self) -> bool:
        """Whether entries are integers, which are neither rounded nor clipped."""
        return self.dtype.kind != "f"

    @cached_property
    def size(self) -> int:
        """Number of entries."""
        return math.prod(self.shape)


@dataclass(frozen=True)
class Encoded:
    """What a client sends into the sum, and what only its own caller may know.

    vector: ring elements, shape (codec.size,).  clipped: entries outside the clip, by name of float
    arrays.
    """

    vector: RingArray
    clipped: dict[str, int]

    def __repr__(self) -> str:
        return f"Encoded(<{self.vector.size} elements>)"


@dataclass(frozen=True)
class VectorCodec:
    """Arrays of fixed names, shapes and dtypes, to and from one vector.

    fields: as they are laid out, names distinct.  frac_bits: f in [0, 62]; one unit is 2^-f.
    parties: the most vectors in one sum, at least 2.  max_weight: the largest weight of one of
    them, in [1, 2^53]; 1 for plain means; None for sums without weights.
    Raises ParameterError at construction, with the bits that are missing, if a sum could leave
    [-2^(l-1), 2^(l-1)).
    """

    fields: tuple[Field, ...]
    frac_bits: int
    ring: Ring
    parties: int
    max_weight: int | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.ring, Ring):
            raise ParameterError(f"ring must be a Ring, got {type(self.ring).__name__}")
        exact: dict[str, object] = {
            "fields": tuple(self.fields),
            "frac_bits": integer("frac_bits", self.frac_bits, 0, MAX_FRAC_BITS),
            "parties": integer("parties", self.parties, 2, MAX_PARTIES),
        }
        if self.max_weight is not None:
            exact["max_weight"] = integer("max_weight", self.max_weight, 1, MAX_WEIGHT)
        for name, value in exact.items():
            object.__setattr__(self, name, value)
        names = [field.name for field in self.fields]
        if not names or len(set(names)) < len(names):
            raise ParameterError(f"a codec needs arrays of distinct names, got {names}")
        ways = "a clip, frac_bits, max_weight or parties"
        check_head_room(self.parties * self.largest, self.ring, ways)

    @classmethod
    def like(
        cls,
        arrays: Arrays,
        *,
        clip: float | Mapping[str, float],
        frac_bits: int,
        ring: Ring,
        parties: int,
        max_weight: int | None = None,
    ) -> Self:
        """The codec for arrays of the names, shapes and dtypes of ``arrays``.

        clip: one for all, or by name.
        """
        fields = []
        for name, given in arrays.items():
            array = np.asarray(given)
            bound = clip.get(name) if isinstance(clip, Mapping) else clip
            if bound is None:
                raise ParameterError(
                    f"array {name!r} has no clip", remedy="name one for each array"
                )
            fields.append(Field(name, array.shape, array.dtype, bound))
        return cls(tuple(fields), frac_bits, ring, parties, max_weight)

    @cached_property
    def largest(self) -> int:
        """Largest magnitude of an entry of one vector, weight included: what ``plan`` asks for."""
        return max(map(self._bound, self.fields)) * (self.max_weight or 1)

    @cached_property
    def size(self) -> int:
        """Ring elements of one vector: all entries, and the weight if there is one."""
        return sum(field.size for field in self.fields) + (self.max_weight is not None)

    @cached_property
    def digest(self) -> bytes:
        """SHA-256 over all that both ends must agree on to understand a sum."""
        parts: list[bytes | int] = [self.frac_bits, self.ring.bits, self.parties]
        parts += [self.max_weight or 0, len(self.fields)]
        for field in self.fields:
            parts += [field.name.encode(), field.dtype.str[1:].encode()]
            parts += [float(field.clip).hex().encode(), len(field.shape), *field.shape]
        return hashlib.sha256(label("secagg.vectors", *parts)).digest()

    def encode(
        self,
        arrays: Arrays,
        weight: float | None = None,
        *,
        rng: Rng = SYSTEM_RNG,
        strict: bool = False,
    ) -> Encoded:
        """One client's arrays, times its weight, as ring elements.

        arrays: names, shapes and dtypes of the fields.  weight: a whole number in [0, max_weight],
        with and only with a max_weight.
        Raises ParameterError for anything else, for NaN and infinities, for integers beyond their
        clip and, if ``strict``, for floats beyond theirs.
        """
        factor = self._weight(weight)
        if arrays.keys() != {field.name for field in self.fields}:
            raise ParameterError(
                f"arrays must be named {[field.name for field in self.fields]}, got {list(arrays)}"
            )
        vector: RingArray = np.empty(self.size, dtype=self.ring.dtype)
        clipped, at = {}, 0
        for field in self.fields:
            flat, into = _flat(field, arrays[field.name]), vector[at : at + field.size]
            if field.is_integer:
                _check_integers(field, flat)
                into[...] = self.ring.reduce(flat)
            else:
                into[...], clipped[field.name] = self._rounded(field, flat, rng, strict)
            at += field.size
        if factor is not None:
            # The product of residues is the residue of the product.
            self.ring.mul(vector, self.ring.reduce(factor), out=vector)
            vector[-1] = factor
        return Encoded(vector, clipped)

    def sums(self, total: RingArray, *, keep_dtypes: bool = False) -> dict[str, NDArray[Any]]:
        """sum(w x), or sum(x) without weights, by name: float64, and int64 for integers, exact.

        total: ring elements (size,), the sum of at most ``parties`` encoded vectors.
        keep_dtypes: the fields' own dtypes instead; ParameterError if one has no room for its sum.
        Raises AbortError, and returns nothing, if no clients could have made that total.
        """
        named, _ = self._opened(total)
        unit = float(1 << self.frac_bits)
        return {
            field.name: _typed(field, steps if field.is_integer else steps / unit, keep_dtypes)
            for field, steps in named
        }

    def means(self, total: RingArray, *, keep_dtypes: bool = False) -> dict[str, NDArray[Any]]:
        """sum(w x) / sum(w) by name, as float64; for a codec with weights.

        total: as for ``sums``.  keep_dtypes: the fields' own dtypes instead, integers rounded to
        the nearest.
        Raises AbortError, and returns nothing, if the total weight is 0, for then there is no mean,
        or if no clients could have made that total.
        """
        named, weight = self._opened(total)
        if weight is None:
            raise ParameterError(
                "a codec without weights has no means", remedy="make it with max_weight=1"
            )
        if not weight:
            raise AbortError(
                "the total weight is 0, so there is no mean", remedy="keep the model as it is"
            )
        means = {}
        for field, steps in named:
            mean = steps / weight
            if field.is_integer:
                mean = np.rint(mean) if keep_dtypes else mean
            else:
                mean /= float(1 << self.frac_bits)
            means[field.name] = _typed(field, mean, keep_dtypes)
        return means

    def total_weight(self, total: RingArray) -> int:
        """sum(w). Raises as ``sums`` does, and ParameterError for a codec without weights."""
        _, weight = self._opened(total)
        if weight is None:
            raise ParameterError("a codec without weights has no total weight")
        return weight

    def _opened(self, total: RingArray) -> tuple[list[tuple[Field, NDArray[np.int64]]], int | None]:
        """Each field with its sum of integers, in shape, and the total weight."""
        if np.shape(total) != (self.size,):
            raise ParameterError(f"total must have shape ({self.size},), got {np.shape(total)}")
        signed = self.ring.signed(total)
        weight = None if self.max_weight is None else int(signed[-1])
        most = self.parties * (self.max_weight or 1)
        if weight is not None:
            if not 0 <= weight <= most:
                raise _impossible(f"the total weight lies outside [0, {most}]")
            most = weight
        named, at = [], 0
        for field in self.fields:
            steps = signed[at : at + field.size].reshape(field.shape)
            high = most * self._bound(field)
            low = 0 if field.dtype.kind == "u" else -high
            if steps.size and not (low <= steps.min() and steps.max() <= high):
                raise _impossible(f"an entry of array {field.name!r} exceeds what its clip allows")
            named.append((field, steps))
            at += field.size
        return named, weight

    def _bound(self, field: Field) -> int:
        return int(field.clip) if field.is_integer else self._quantizers[field.clip].bound

    @cached_property
    def _quantizers(self) -> dict[float, Quantizer]:
        clips = {field.clip for field in self.fields if not field.is_integer}
        return {clip: Quantizer(clip, self.frac_bits, self.ring, self.parties) for clip in clips}

    def _rounded(
        self, field: Field, flat: NDArray[Any], rng: Rng, strict: bool
    ) -> tuple[RingArray, int]:
        try:
            encoded, clipped = self._quantizers[field.clip].encode(flat, rng=rng, strict=strict)
        except ParameterError as error:
            raise ParameterError(
                f"array {field.name!r}, flattened: {error.message}", remedy=error.remedy
            ) from None
        return encoded, int(clipped)

    def _weight(self, weight: float | None) -> int | None:
        if (weight is None) != (self.max_weight is None):
            needed = "no weight" if self.max_weight is None else "a weight"
            raise ParameterError(f"this codec takes {needed}")
        if weight is None or self.max_weight is None:
            return None
        # Stated as what is allowed, so that NaN falls out too; without the value, which is private.
        real = isinstance(weight, int | float | np.integer | np.floating)
        if not real or isinstance(weight, bool) or not 0 <= weight <= self.max_weight:
            raise ParameterError(f"weight must be a whole number in [0, {self.max_weight}]")
        if int(weight) != weight:
            raise ParameterError(
                "weight must be a whole number", remedy="scale fractional weights to integers"
            )
        return int(weight)


def _flat(field: Field, given: NDArray[Any]) -> NDArray[Any]:
    array = np.asarray(given)
    if array.shape != field.shape or array.dtype != field.dtype:
        raise ParameterError(
            f"array {field.name!r} must be {field.dtype} of shape {field.shape}, got "
            f"{array.dtype} of shape {array.shape}"
        )
    return array.reshape(-1)


def _check_integers(field: Field, flat: NDArray[Any]) -> None:
    high = int(field.clip)
    # Python's integers, because a bound of 62 bits has no place in a narrow dtype.
    if flat.size and not (-high <= int(flat.min()) and int(flat.max()) <= high):
        raise ParameterError(
            f"an entry of the integers {field.name!r} lies outside [-{high}, {high}]",
            remedy="raise their clip: integers are never clipped",
        )


def _typed(field: Field, values: NDArray[Any], keep: bool) -> NDArray[Any]:
    """``values`` in the field's own dtype if asked for, and if it has room for them."""
    values = np.asarray(values)
    if not keep:
        return values
    limits = np.iinfo(field.dtype) if field.is_integer else np.finfo(field.dtype)
    if values.size and not (limits.min <= values.min() and values.max() <= limits.max):
        raise ParameterError(
            f"array {field.name!r} has a result beyond {field.dtype}", remedy="keep_dtypes=False"
        )
    return values.astype(field.dtype)


def _impossible(what: str) -> AbortError:
    return AbortError(
        what, remedy="a client sent something else than its encoded vector, or masks did not cancel"
    )


def _clip(name: str, clip: float, *, whole: bool) -> float:
    try:
        return integer("clip", clip, 1, MAX_INTEGER) if whole else check_clip(clip)  # type: ignore[arg-type]
    except ParameterError as error:
        kind = "integers" if whole else "floats"
        raise ParameterError(f"array {name!r} of {kind}: {error.message}") from None
