"""What a client insists on, whatever round the server announces.

    ClientApp(mods=[SecAggMod(Policy(variant="malicious", min_clients=10, threshold=0.6))])

Source: ours. What the numbers protect from is said in ``secagg.full.params`` and ``secagg.plan``.
Model: the server chooses all parameters of a round. ``RoundParams`` refuses those that no round may
    have; a policy refuses those that this client does not want. It is worth as much as the way by
    which it reached the client: a policy that comes with an app which the server ships is the
    server's own.
Leaks: that a round was refused.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from mpc.core.checks import integer
from mpc.core.errors import ParameterError, PeerError
from secagg.flower.terms import Terms
from secagg.full.params import MAX_CLIENTS, RoundParams, Variant
from secagg.messages import SERVER
from secagg.params import MIN_COHORT


@dataclass(frozen=True)
class Policy:
    """The least that a round must offer. Picklable.

    variant: "malicious" insists on signatures and the consistency check; "semi-honest" takes both.
    min_clients: the least number of summands of a sum, at least 3.
    threshold: the least share of those who hold a secret that must come together to give it back:
    of all clients, and in a sparse graph of the largest neighbourhood; in [0, 1].
    colluding: the least share of the clients that may pool what they see with the server without
    learning more; in [0, 1).
    sparse: whether clients may share with few neighbours only.
    metrics: names that may be averaged; None for all that the server asks for.
    durable: whether the node must have a file for its marks, see ``secagg.flower.store``; None for
    in the malicious variant alone, whose server may ask for one step twice while a state is stored.
    Decimals count as written. Raises ParameterError for anything else.
    """

    variant: Variant = "semi-honest"
    min_clients: int = MIN_COHORT
    threshold: float = 0.0
    colluding: float = 0.0
    sparse: bool = True
    metrics: Sequence[str] | None = None
    durable: bool | None = None

    def __post_init__(self) -> None:
        if self.variant not in ("semi-honest", "malicious"):
            raise ParameterError(
                f'variant must be "semi-honest" or "malicious", got {self.variant!r}'
            )
        least = integer("min_clients", self.min_clients, MIN_COHORT, MAX_CLIENTS)
        object.__setattr__(self, "min_clients", least)
        _check_share("threshold", self.threshold, whole=True)
        _check_share("colluding", self.colluding, whole=False)
        if not isinstance(self.sparse, bool) or not isinstance(self.durable, bool | None):
            raise ParameterError(
                f"sparse and durable must be True or False, got {self.sparse!r}, {self.durable!r}"
            )
        if isinstance(self.metrics, str):
            raise ParameterError(
                "metrics must be names, got one string", remedy=f"metrics=({self.metrics!r},)"
            )
        if self.metrics is not None:
            object.__setattr__(self, "metrics", tuple(self.metrics))

    def check(self, params: RoundParams, terms: Terms) -> None:
        """PeerError, naming the value and what this client insists on, for a round below it."""
        if self.variant == "malicious" and not params.malicious:
            raise _below("variant", params.variant, self.variant)
        if params.least < self.min_clients:
            raise _below("summands", params.least, self.min_clients)
        beside, n = params.neighbourhoods, len(params.clients)
        if not beside.complete and not self.sparse:
            raise _below("neighbours", beside.largest - 1, n - 1)
        needed = math.ceil(_exact(self.threshold) * beside.largest)
        if params.threshold < needed:
            raise _below("threshold", params.threshold, needed)
        needed = math.floor(_exact(self.colluding) * n)
        if params.colluding < needed:
            raise _below("colluding", params.colluding, needed)
        if self.metrics is not None:
            others = sorted(set(terms.metric_clips) - set(self.metrics))
            if others:
                raise _below("metrics", others, sorted(self.metrics))

    def check_marks(self, params: RoundParams, *, durable: bool) -> None:
        """PeerError if this client must have its marks on disk in such a round, and has not."""
        needed = params.malicious if self.durable is None else self.durable
        if needed and not durable:
            raise PeerError(
                "this client's policy needs marks on disk, and its node has no secagg-state",
                party=SERVER,
                remedy="--node-config 'secagg-state=\"/var/lib/...\"'; or Policy(durable=False)",
            )


def _check_share(name: str, value: float, *, whole: bool) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float | Fraction):
        raise ParameterError(f"{name} must be a share of the clients, got {type(value).__name__}")
    inside = 0 <= value <= 1 if whole else 0 <= value < 1  # false for NaN too
    if not inside:
        raise ParameterError(f"{name} must lie in [0, 1{']' if whole else ')'}, got {value}")


def _exact(share: float) -> Fraction:
    # A float stands for the decimal that a person wrote: 0.3 of 10 clients are 3, not 4.
    return Fraction(repr(share)) if isinstance(share, float) else Fraction(share)


def _below(name: str, told: object, needed: object) -> PeerError:
    return PeerError(
        f"the round has {name} {told}, this client's policy is {needed}",
        party=SERVER,
        remedy="change the round's config, or the policy of the clients",
    )
