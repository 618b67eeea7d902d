"""The two sums that PriRec needs, formed by the protocols or in the plain ring.

Both modes run the same encoding, the same rounding coins and the same decoding; they differ only
in how the ring sum comes about. ``ProtocolSums`` makes every share and pad through ``mpc`` and
``secagg``; ``SimulatedSums`` adds the encodings; ``FloatSums`` adds the floats, to measure what
the encoding costs.

Leaks: see docs/threat-model.md. A receiver learns one weighted sum of her neighbours' models for
    each mix; the recommender learns the sum of the cohort's gradients in each round.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mpc.core.errors import StateError
from mpc.core.local import LocalNetwork
from mpc.core.ring import RingArray
from mpc.core.rng import SYSTEM_RNG, Rng
from mpc.fixed import FixedPoint
from mpc.secure_sum import DirectChannel, Groups, PairKeys, SealedRelay, batch_sum
from recsys.drop_outs import DropOuts
from recsys.errors import DivergenceError
from recsys.pads import CohortPads
from recsys.rounds import NOBODY, CohortRounds
from secagg.quantize import Quantizer

Floats = NDArray[np.float64]

# Encoded neighbour models that are held at once, in ring elements.
_CHUNK_ELEMENTS = 1 << 20


@dataclass(frozen=True)
class Mix:
    """One batch of secure sums: receiver b adds models[neighbours[b]] with weights[b].

    receivers: int32 (B,), distinct.  neighbours: int32 (B, N).  weights: float64 (B, N), public.
    """

    receivers: NDArray[np.int32]
    neighbours: NDArray[np.int32]
    weights: Floats


@dataclass(frozen=True, eq=False)
class PartSum:
    """What some members of a cohort add up to: exact, however the cohort is parted.

    total: ring dtype (d,).  clipped: entries of all of them that the clip bound changed.
    """

    total: RingArray = field(repr=False)
    clipped: int


@dataclass(frozen=True, eq=False)
class Adder:
    """Encodes and adds up gradients where they were computed; it can be sent to a worker.

    quantizers: one for each cohort.
    """

    quantizers: Sequence[Quantizer]

    def add(self, cohort: int, gradients: Floats, coins: Rng, gone: NDArray[np.intp]) -> PartSum:
        """The ring sum of some members' gradients (c, d), without the rows ``gone``.

        Raises DivergenceError where a gradient is not finite.
        """
        check_gradients(gradients)
        quantizer = self.quantizers[cohort]
        encoded, clipped = quantizer.encode(gradients, rng=coins)
        return PartSum(quantizer.ring.sum(_staying(encoded, gone), axis=0), int(clipped.sum()))


class Sums(ABC):
    """What the training loop asks of the other parties.

    drop_outs: who is missing in which sum of gradients; nobody by default.
    """

    clipped: int = 0
    """Gradient entries that the clip bound changed, over the whole run."""

    adder: Adder | None = None
    """Forms the parts that ``combine`` takes; None where a sum needs what each member sends."""

    def __init__(self, drop_outs: DropOuts | None = None) -> None:
        self._drop_outs = drop_outs

    def _gone(self, cohort: int, round_: int) -> NDArray[np.intp]:
        return NOBODY if self._drop_outs is None else self._drop_outs.gone(cohort, round_)

    def absent(self, members: NDArray[np.int32], cohort: int, round_: int) -> NDArray[np.int32]:
        """Those of a cohort's ``members`` who drop out of the sum of a round."""
        return members[self._gone(cohort, round_)]

    def combine(self, cohort: int, parts: Sequence[PartSum]) -> Floats:
        """As ``aggregate``, of the parts that the cohort adds up to. StateError without adder."""
        raise StateError(f"{type(self).__name__} needs what each member sends, and has no parts")

    def begin_round(self, round_: int, end: int) -> None:  # noqa: B027 - most have nothing to do
        """Prepare aggregation round ``round_``; ``end`` is the first that is never needed."""

    @abstractmethod
    def mix(self, models: Floats, mix: Mix) -> Floats:
        """sum_f S_if w_f for each receiver of ``mix``; models (users, D + 1) -> (B, D + 1)."""

    @abstractmethod
    def aggregate(self, cohort: int, round_: int, gradients: Floats, coins: Rng) -> Floats:
        """Sum of the members' gradient vectors (members, d) -> (d,), without who drops out."""


class FloatSums(Sums):
    """Floating-point sums, no encoding: the reference that the ring modes are held against."""

    def mix(self, models: Floats, mix: Mix) -> Floats:
        """See ``Sums.mix``."""
        mixed: Floats = np.einsum("bn,bnd->bd", mix.weights, models[mix.neighbours])
        return mixed

    def aggregate(self, cohort: int, round_: int, gradients: Floats, coins: Rng) -> Floats:
        """See ``Sums.aggregate``."""
        total: Floats = _staying(gradients, self._gone(cohort, round_)).sum(axis=0)
        return total


class RingSums(Sums):
    """Encoding and decoding around a ring sum; subclasses say how that sum is formed."""

    def __init__(
        self,
        fixed: FixedPoint,
        quantizers: Sequence[Quantizer],
        drop_outs: DropOuts | None = None,
    ) -> None:
        super().__init__(drop_outs)
        self._fixed = fixed
        self._quantizers = quantizers

    def mix(self, models: Floats, mix: Mix) -> Floats:
        """See ``Sums.mix``. DivergenceError where a weighted model no longer fits the ring."""
        size = mix.neighbours.shape[1]
        out = np.empty((mix.receivers.size, models.shape[1]))
        step = max(1, _CHUNK_ELEMENTS // (size * models.shape[1]))
        for start in range(0, mix.receivers.size, step):
            part = slice(start, start + step)
            # The party axis leads: that is the layout in which the shares are summed.
            weighted = models[mix.neighbours[part].T] * mix.weights[part].T[..., np.newaxis]
            encoded = encode_weighted(self._fixed, weighted, size)
            out[part] = self._fixed.decode(self._neighbour_sum(encoded, mix, part))
        return out

    def aggregate(self, cohort: int, round_: int, gradients: Floats, coins: Rng) -> Floats:
        """See ``Sums.aggregate``. DivergenceError where a gradient is not finite."""
        check_gradients(gradients)
        quantizer = self._quantizers[cohort]
        encoded, clipped = quantizer.encode(gradients, rng=coins)
        self.clipped += int(clipped.sum())
        gone = self._gone(cohort, round_)
        return quantizer.decode(self._cohort_sum(cohort, round_, encoded, gone))

    @abstractmethod
    def _neighbour_sum(self, encoded: RingArray, mix: Mix, part: slice) -> RingArray:
        """(N, B, D + 1) -> (B, D + 1)."""

    @abstractmethod
    def _cohort_sum(
        self, cohort: int, round_: int, encoded: RingArray, gone: NDArray[np.intp]
    ) -> RingArray:
        """(members, d) -> (d,), without the rows of those who are gone."""


class SimulatedSums(RingSums):
    """The plain ring sum of the very same encodings: same digest, nothing is sent."""

    def __init__(
        self,
        fixed: FixedPoint,
        quantizers: Sequence[Quantizer],
        drop_outs: DropOuts | None = None,
    ) -> None:
        super().__init__(fixed, quantizers, drop_outs)
        self.adder = Adder(quantizers)

    def combine(self, cohort: int, parts: Sequence[PartSum]) -> Floats:
        """See ``Sums.combine``."""
        self.clipped += sum(part.clipped for part in parts)
        quantizer = self._quantizers[cohort]
        return quantizer.decode(quantizer.ring.sum([part.total for part in parts], axis=0))

    def _neighbour_sum(self, encoded: RingArray, mix: Mix, part: slice) -> RingArray:
        return self._fixed.ring.sum(encoded, axis=0)

    def _cohort_sum(
        self, cohort: int, round_: int, encoded: RingArray, gone: NDArray[np.intp]
    ) -> RingArray:
        return self._quantizers[cohort].ring.sum(_staying(encoded, gone), axis=0)


class ProtocolSums(RingSums):
    """Algorithm 1 for the linear models, ``secagg`` for the gradients: everybody's real work.

    cohorts: by one-time pads, from which nobody may drop out, or by the full protocol; None where
    there is no interaction model to aggregate.
    relay: shares and partial sums travel through the recommender, sealed end to end, because
    phones cannot reach each other; otherwise they go straight to their addressee.
    security: of Algorithm 1, as ``mpc.secure_sum.batch_sum`` takes it.
    """

    def __init__(
        self,
        fixed: FixedPoint,
        quantizers: Sequence[Quantizer],
        cohorts: CohortPads | CohortRounds | None,
        network: LocalNetwork,
        *,
        drop_outs: DropOuts | None = None,
        relay: bool = False,
        security: str = "semi-honest",
    ) -> None:
        super().__init__(fixed, quantizers, drop_outs)
        self._cohorts = cohorts
        self._session = SYSTEM_RNG.bytes(16)
        self._mixes = 0
        self._network = network
        self._relay = relay
        self._security = security
        self._keys = PairKeys()
        self._channel = SealedRelay(network, self._keys) if relay else DirectChannel(network)

    def agree(self, mix: Mix) -> None:
        """Agree all keys that a relay needs for ``mix`` and any part of it, once, ahead of time."""
        if self._relay and mix.neighbours.size:
            self._keys.prepare(self._groups(mix, slice(None)))

    def begin_round(self, round_: int, end: int) -> None:
        """See ``Sums.begin_round``: pads are expanded in bulk."""
        if isinstance(self._cohorts, CohortPads):
            self._cohorts.begin(round_, end)

    def mix(self, models: Floats, mix: Mix) -> Floats:
        """See ``Sums.mix``; every mix is a round of its own in the sealed messages.

        AbortError where a malicious party has altered something.
        """
        self._mixes += 1
        return super().mix(models, mix)

    def _neighbour_sum(self, encoded: RingArray, mix: Mix, part: slice) -> RingArray:
        # Where nobody looks at single messages, stand-in ids do.
        named = self._relay or self._network.records
        groups = self._groups(mix, part) if named else None
        return batch_sum(
            encoded,
            self._fixed.ring,
            channel=self._channel,
            groups=groups,
            security=self._security,
        )

    def _groups(self, mix: Mix, part: slice) -> Groups:
        return Groups(self._session, self._mixes, mix.receivers[part], mix.neighbours[part].T)

    def _cohort_sum(
        self, cohort: int, round_: int, encoded: RingArray, gone: NDArray[np.intp]
    ) -> RingArray:
        if self._cohorts is None:
            raise StateError("there is no interaction model, so there is nothing to aggregate")
        if isinstance(self._cohorts, CohortRounds):
            return self._cohorts.run_round(cohort, round_, encoded, gone)
        if gone.size:
            raise StateError("one-time pads give no sum if a member drops out")
        return self._cohorts.run_round(cohort, round_, encoded)


def _staying(vectors: NDArray[Any], gone: NDArray[np.intp]) -> NDArray[Any]:
    return np.delete(vectors, gone, axis=0) if gone.size else vectors


def encode_weighted(fixed: FixedPoint, weighted: Floats, size: int) -> RingArray:
    """Weighted linear models as ring elements, for a sum of ``size`` of them.

    Raises DivergenceError where one no longer fits the ring.
    """
    limit = fixed.headroom(size)
    if not np.all(np.abs(weighted) <= limit):  # false for NaN too
        raise DivergenceError(
            "a weighted linear model has left the range of the fixed-point ring "
            f"(|w| <= {limit:.6g} with {size} neighbours)",
            remedy="lower the learning rate, use weights whose rows sum to one (weights "
            "'half'), a larger ring or fewer fractional bits",
        )
    return fixed.encode(weighted)


def check_gradients(gradients: Floats) -> None:
    """DivergenceError unless all entries are finite."""
    if not np.isfinite(gradients).all():
        raise DivergenceError("a gradient of the interaction model is not finite")
