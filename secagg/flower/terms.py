"""What clients must know of a round beside its ``Announcement``: how their vectors are made.

    terms = Terms.make(clip={"*": 8.0}, frac_bits=16, ring_bits=40, parties=10, ...)
    codec = terms.codec(model)               # model: the ArrayRecord of the train message
    bound = context(terms, content_digest(message.content), message.metadata.message_type)

Source: ours. Fields and scales are those of ``secagg.vectors``.
Model: the server chooses the terms and the model, and clients must not take its word for either:
    one that gave a client another scale, or another model, would find that client's part in the
    sum. So ``context`` covers both; it enters every key of the round from step 2 on, and each
    client compares it with what it was given to train on before it masks anything. Clients whose
    contexts differ have no key in common.
Leaks: nothing; terms are public.
Differs: Flower's own SecAgg+ sends its clients a range and a modulus, which nothing binds.
"""

import hashlib
import struct
from collections.abc import Mapping
from typing import Any

import numpy as np
from flwr.app import ArrayRecord, ConfigRecord, MetricRecord, RecordDict
from numpy.typing import NDArray

from mpc.core.checks import integer
from mpc.core.errors import ParameterError, PeerError
from mpc.core.keys import label
from mpc.core.ring import Ring
from mpc.core.wire import Message
from secagg.flower.records import is_ours
from secagg.full.params import RoundParams
from secagg.messages import SERVER
from secagg.quantize import MAX_BITS, MAX_FRAC_BITS, MAX_PARTIES, MAX_WEIGHT, check_clip
from secagg.vectors import Field, VectorCodec

REST = "*"
"""In a mapping of clips: all arrays of floats that have none of their own."""

METRIC = "metric:"
"""Before the name of a metric among the fields of a vector."""

_FLOAT = struct.Struct("<d")
_EXACT = 2**53  # whole clips beyond it would not survive a float

Clips = float | Mapping[str, float]


class Terms(Message, frozen=True, tag="flower.terms"):
    """How each client turns its arrays, metrics and weight into the round's vector.

    clips, metrics: (name, bound as the 8 bytes of a float64), names rising; ``make`` takes numbers.
    frac_bits, ring_bits, parties, max_weight: as ``VectorCodec``.  weight_key: the metric that is
    the weight, usually the number of examples.
    Raises ParameterError for anything out of range.
    """

    clips: tuple[tuple[str, bytes], ...]
    metrics: tuple[tuple[str, bytes], ...]
    frac_bits: int
    ring_bits: int
    parties: int
    max_weight: int
    weight_key: str

    def __post_init__(self) -> None:
        """Refuse what no codec would take."""
        for pairs, kind in ((self.clips, "arrays"), (self.metrics, "metrics")):
            names = [name for name, _ in pairs]
            if names != sorted(set(names)) or "" in names:
                raise ParameterError(f"names of {kind} must be distinct, rising and not empty")
            for name, bound in pairs:
                if len(bound) != _FLOAT.size:
                    raise ParameterError(f"the clip of {name!r} takes {_FLOAT.size} bytes")
                check_clip(*_FLOAT.unpack(bound))
        integer("frac_bits", self.frac_bits, 0, MAX_FRAC_BITS)
        integer("ring_bits", self.ring_bits, 1, MAX_BITS)
        integer("parties", self.parties, 2, MAX_PARTIES)
        integer("max_weight", self.max_weight, 1, MAX_WEIGHT)
        if not self.clips or not self.weight_key:
            raise ParameterError("terms need a clip and a weight key")
        if self.weight_key in dict(self.metrics):
            raise ParameterError(f"{self.weight_key!r} is the weight, and no metric")

    @classmethod
    def make(
        cls,
        *,
        clip: Clips,
        frac_bits: int,
        ring_bits: int,
        parties: int,
        max_weight: int,
        weight_key: str,
        metrics: Mapping[str, float] | None = None,
    ) -> "Terms":
        """Terms from numbers.

        clip: one for all arrays of floats, or by name, with ``"*"`` for those not named; integers
        need a whole number of their own.  metrics: the largest magnitude of each metric that is
        averaged.
        """
        return cls(
            clips=_packed({REST: clip} if not isinstance(clip, Mapping) else clip),
            metrics=_packed({} if metrics is None else metrics),
            frac_bits=integer("frac_bits", frac_bits, 0, MAX_FRAC_BITS),
            ring_bits=integer("ring_bits", ring_bits, 1, MAX_BITS),
            parties=integer("parties", parties, 2, MAX_PARTIES),
            max_weight=integer("max_weight", max_weight, 1, MAX_WEIGHT),
            weight_key=weight_key,
        )

    @property
    def clip(self) -> dict[str, float]:
        """The bound of each named array; ``"*"`` is for the others."""
        return _unpacked(self.clips)

    @property
    def metric_clips(self) -> dict[str, float]:
        """The bound of each metric that is averaged."""
        return _unpacked(self.metrics)

    @property
    def digest(self) -> bytes:
        """SHA-256 over all of it."""
        return _hash("secagg.flower.terms", self.to_bytes())

    def codec(self, model: ArrayRecord) -> VectorCodec:
        """What encodes arrays of the names, shapes and dtypes of ``model``, then the metrics.

        Raises ParameterError for an array without a clip, for one that numpy cannot read, and if a
        sum could leave the ring.
        """
        fields = [self._field(name, array) for name, array in read_arrays(model).items()]
        for name, bound in self.metric_clips.items():
            fields.append(Field(METRIC + name, (), np.dtype(np.float64), bound))
        ring = Ring(self.ring_bits)
        return VectorCodec(tuple(fields), self.frac_bits, ring, self.parties, self.max_weight)

    def check_round(self, params: RoundParams) -> None:
        """PeerError unless the ring and the number of clients are those of the round."""
        told = (self.ring_bits, self.parties)
        if told != (params.ring.bits, len(params.clients)):
            raise PeerError(
                f"terms for {self.parties} clients and {self.ring_bits} bits came with a round of "
                f"{len(params.clients)} and {params.ring.bits}",
                party=SERVER,
            )

    def _field(self, name: str, array: NDArray[Any]) -> Field:
        named = self.clip
        floats = array.dtype.kind == "f"
        bound = named.get(name, named.get(REST) if floats else None)
        if bound is None:
            raise ParameterError(
                f"array {name!r} of {array.dtype} has no clip of its own",
                remedy=f"name one: clip={{'*': 8.0, {name!r}: 1000}}",
            )
        whole = not floats and bound == int(bound) and bound <= _EXACT
        return Field(name, array.shape, array.dtype, int(bound) if whole else bound)


def context(terms: Terms, content: bytes, message_type: str, roster: bytes = b"") -> bytes:
    """32 bytes for ``RoundParams.context``: the terms, and what the clients do with which data.

    content: ``content_digest`` of the train message.  message_type: its type, such as "train",
    which says which of the app's functions trains.  roster: in the malicious variant the digest of
    the ``SignedRoster``, so that whoever has an older one from the operator shares no key.
    """
    return _hash("secagg.flower.context", terms.digest, content, message_type.encode(), roster)


def content_digest(content: RecordDict) -> bytes:
    """SHA-256 over all records of a train message but ours, in their order, with their types.

    Order counts: arrays are often read by it.
    """
    parts: list[bytes] = []
    for name, record in content.items():
        if is_ours(name):
            continue
        values = _arrays(record) if isinstance(record, ArrayRecord) else _values(record)
        kind = type(record).__name__.encode()
        parts += [name.encode(), kind, _hash("secagg.flower.record", *values)]
    return _hash("secagg.flower.content", *parts)


def _hash(purpose: str, *parts: bytes | int) -> bytes:
    return hashlib.sha256(label(purpose, *parts)).digest()


def _arrays(record: ArrayRecord) -> list[bytes | int]:
    parts: list[bytes | int] = []
    for key, array in record.items():
        parts += [key.encode(), array.dtype.encode(), array.stype.encode()]
        parts += [len(array.shape), *array.shape, hashlib.sha256(array.data).digest()]
    return parts


def _values(record: ConfigRecord | MetricRecord) -> list[bytes]:
    return [part for key, value in record.items() for part in (key.encode(), _value(value))]


def _value(value: object) -> bytes:
    """A value of a ConfigRecord or MetricRecord as bytes, with its type."""
    if isinstance(value, bool):
        return label("bool", int(value))
    if isinstance(value, int):
        # Flower's integers lie in [-2^63, 2^64).
        return label("int", value.to_bytes(9, "little", signed=True))
    if isinstance(value, float):
        return label("float", _FLOAT.pack(value))
    if isinstance(value, str):
        return label("str", value.encode())
    if isinstance(value, bytes):
        return label("bytes", value)
    if isinstance(value, list):
        return label("list", *map(_value, value))
    raise ParameterError(f"a record holds a {type(value).__name__}, which Flower has no place for")


def read_arrays(model: ArrayRecord) -> dict[str, NDArray[Any]]:
    """The arrays by name, in order. ParameterError for one that numpy cannot read."""
    arrays = {}
    for name, array in model.items():
        try:
            arrays[name] = array.numpy()
        except (TypeError, ValueError, EOFError) as error:
            raise ParameterError(
                f"array {name!r} of kind {array.stype!r} cannot be read by numpy"
            ) from error
    return arrays


def _packed(bounds: Mapping[str, float]) -> tuple[tuple[str, bytes], ...]:
    for name, bound in bounds.items():
        if not isinstance(name, str):
            raise ParameterError(f"names must be strings, got {type(name).__name__}")
        try:
            check_clip(bound)
        except ParameterError as error:
            raise ParameterError(f"{name!r}: {error.message}") from None
    return tuple((name, _FLOAT.pack(float(bound))) for name, bound in sorted(bounds.items()))


def _unpacked(pairs: tuple[tuple[str, bytes], ...]) -> dict[str, float]:
    return {name: float(_FLOAT.unpack(bound)[0]) for name, bound in pairs}
