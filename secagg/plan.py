"""How many neighbours, and which threshold: the least that meets stated bounds, computed exactly.

    chosen = plan(1000, dropout=0.1, corrupt=0.1, largest=codec.largest)
    graph = chosen.graph(clients)      # its degree is chosen.neighbours

Three things can go wrong with a graph that is drawn at random:

  exposed        an honest client has t corrupt neighbours, who can put its secrets together
  disconnected   honest survivors fall apart: the server learns the sum of each part
  unrecoverable  a client has fewer than t neighbours left: the round ends without a sum

Source: Bell et al., CCS 2020 (eprint 2020/704), section 3: the three properties of a good graph.
    For the complete graph Bonawitz et al., CCS 2017, Theorems 6.3 to 6.5. The papers' letters: n, k
    (``neighbours``), t (``threshold``), gamma (``corrupt``), delta (``dropout``), sigma
    (``security_bits``), 2^-eta (``failure``), n_C (``corrupt_clients``).
Model: who is corrupt and who drops out does not depend on the graph, which the semi-honest server
    draws after the clients are chosen. At most floor(corrupt n) and floor(dropout n) clients.
Error: the bounds are exact fractions, and hold. What they overstate is the price of a union over
    clients, and over pairs of gaps in the ring.
Differs: the paper bounds the tails in closed form; here they are summed. Thresholds count
    neighbours alone: a client's own share of its own secret comes on top.

Disconnected: the ring joins each client to h = k // 2 on either side, so survivors part only where
two disjoint stretches of h clients are gone, corrupt or dropped. There are n (n - 2h + 1) / 2 pairs
of stretches; with g clients gone each is so with probability C(n - 2h, g - 2h) / C(n, g).
"""

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal, SupportsIndex

from mpc.core.checks import integer
from mpc.core.errors import ParameterError
from mpc.core.ring import Ring
from mpc.core.rng import SYSTEM_RNG, Rng
from secagg.graph import MIN_DEGREE, Graph, complete, sparse
from secagg.hypergeometric import MAX_POPULATION, least_within, log_tail, tail
from secagg.params import MIN_COHORT

Variant = Literal["semi-honest", "malicious"]

MAX_SECURITY_BITS = 256
MIN_THRESHOLD = 2

MAX_NEIGHBOURS = 2**16 - 2
"""With the client itself, as many share holders as the field Z_65537 has indices, less one."""

_SLACK = 1e-3

_NONE = Fraction(0)


@dataclass(frozen=True)
class Bounds:
    """Probabilities that are not exceeded, over the choice of the graph; exact."""

    exposed: Fraction
    disconnected: Fraction
    unrecoverable: Fraction

    @property
    def insecure(self) -> Fraction:
        """What an honest client's privacy fails with, at most."""
        return self.exposed + self.disconnected

    def __repr__(self) -> str:
        names = ("exposed", "disconnected", "unrecoverable")
        return f"Bounds({', '.join(f'{name}={shown(getattr(self, name))}' for name in names)})"


@dataclass(frozen=True)
class Plan:
    """Parameters of a round and what they achieve. Made by ``plan``.

    clients: n.  neighbours: k.  threshold: t.  corrupt_clients, dropped_clients: the most that the
    bounds allow for.  ring_bits: least l for a sum of all inputs, None if no range was given.
    """

    clients: int
    neighbours: int
    threshold: int
    corrupt_clients: int
    dropped_clients: int
    ring_bits: int | None
    variant: Variant
    bounds: Bounds

    @property
    def is_complete(self) -> bool:
        """Whether everybody is everybody's neighbour."""
        return self.neighbours == self.clients - 1

    @property
    def ring(self) -> Ring:
        """The ring of ``ring_bits``. ParameterError if the plan was made without a range."""
        if self.ring_bits is None:
            raise ParameterError("the plan knows no ring", remedy="give plan the largest entry")
        return Ring(self.ring_bits)

    def graph(self, clients: Iterable[SupportsIndex], *, rng: Rng = SYSTEM_RNG) -> Graph:
        """A graph for the clients of one round: distinct ids, rising, as many as planned.

        Raises ParameterError otherwise. Draw a new one for each round.
        """
        ids = tuple(clients)
        if len(ids) != self.clients:
            raise ParameterError(
                f"the plan is for {self.clients} clients, got {len(ids)}",
                remedy="make a plan for each cohort",
            )
        return complete(ids) if self.is_complete else sparse(ids, self.neighbours, rng=rng)

    def table(self) -> str:
        """The plan as a Markdown table of two columns."""
        ring = "not planned" if self.ring_bits is None else f"Z_2^{self.ring_bits}"
        rows = [
            ("", "planned"),
            ("---", "---"),
            ("clients n", str(self.clients)),
            ("variant", self.variant),
            ("corrupt, at most", str(self.corrupt_clients)),
            ("dropped, at most", str(self.dropped_clients)),
            ("neighbours k", f"{self.neighbours}{' (complete)' if self.is_complete else ''}"),
            ("threshold t", str(self.threshold)),
            ("ring", ring),
            ("an honest client has t corrupt neighbours", shown(self.bounds.exposed)),
            ("honest survivors are disconnected", shown(self.bounds.disconnected)),
            ("a client has fewer than t neighbours left", shown(self.bounds.unrecoverable)),
        ]
        return "\n".join(f"| {name} | {value} |" for name, value in rows)


def plan(
    n: int,
    *,
    dropout: float | Fraction,
    corrupt: float | Fraction,
    security_bits: int = 40,
    failure: float | Fraction = 2.0**-40,
    largest: int | None = None,
    variant: Variant = "semi-honest",
    complete_graph: bool = False,
) -> Plan:
    """The fewest neighbours, and a threshold, with which a round of ``n`` clients meets the bounds.

    n: in [3, 2^32].  dropout, corrupt: fractions of the clients, in [0, 1); decimals count as
    written.  security_bits: privacy fails with probability at most 2^-security_bits, in [1, 256].
    failure: an honest round ends without a sum with at most this probability, in (0, 1).
    largest: the largest magnitude of an entry of one input, as an integer (``Quantizer.bound``,
    ``VectorCodec.largest``); decides the ring.
    variant: "malicious" always has the complete graph, with t > (n + corrupt clients) / 2.
    complete_graph: everybody is everybody's neighbour, even where fewer would do.
    Of the thresholds that meet the bounds the middle one is taken, rounded up.
    Raises ParameterError, with what would do, where no graph meets the bounds.
    """
    n = integer("n", n, MIN_COHORT, MAX_POPULATION)
    if variant not in ("semi-honest", "malicious"):
        raise ParameterError(f'variant must be "semi-honest" or "malicious", got {variant!r}')
    dropped = math.floor(_share("dropout", dropout) * n)
    bad = math.floor(_share("corrupt", corrupt) * n)
    insecure = Fraction(1, 1 << integer("security_bits", security_bits, 1, MAX_SECURITY_BITS))
    unlucky = Fraction(_real("failure", failure))
    if not unlucky:
        raise ParameterError("failure must lie in (0, 1), got 0")
    bits = None if largest is None else _ring_bits(n, largest)
    everybody = _complete_thresholds(n, dropped, bad, variant)
    if variant == "semi-honest" and not complete_graph:
        for k in _candidates(n, dropped, bad, insecure / n, unlucky / n):
            parted = disconnected(n, k, bad + dropped)
            if parted > insecure:
                continue
            low = max(MIN_THRESHOLD, least_within(n - 1, bad, k, (insecure - parted) / n))
            high = k + 1 - least_within(n - 1, dropped, k, unlucky / n)
            if low <= high:
                t = (low + high + 1) // 2
                bounds = Bounds(exposed(n, k, t, bad), parted, unrecoverable(n, k, t, dropped))
                return Plan(n, k, t, bad, dropped, bits, variant, bounds)
    if n - 1 > MAX_NEIGHBOURS:
        raise ParameterError(
            f"{n} clients would need more than {MAX_NEIGHBOURS} neighbours each",
            remedy="lower dropout, corrupt or security_bits, raise failure, or split the cohort",
        )
    t = sum(everybody, 1) // 2
    return Plan(n, n - 1, t, bad, dropped, bits, variant, Bounds(_NONE, _NONE, _NONE))


def exposed(n: int, k: int, t: int, corrupt_clients: int) -> Fraction:
    """Bound on the probability that an honest client has at least t corrupt neighbours."""
    return min(Fraction(1), n * tail(n - 1, corrupt_clients, k, t))


def disconnected(n: int, k: int, gone: int) -> Fraction:
    """Bound on the probability that the clients left by ``gone`` others fall into parts."""
    half = k // 2
    if k >= n - 1 or gone < 2 * half:
        return _NONE
    pairs = Fraction(n * (n - 2 * half + 1), 2)
    # C(g, 2h) / C(n, 2h): the same number, for what is drawn and what is marked change places.
    return min(Fraction(1), pairs * tail(n, gone, 2 * half, 2 * half))


def unrecoverable(n: int, k: int, t: int, dropped_clients: int) -> Fraction:
    """Bound on the probability that a client has fewer than t neighbours that do not drop out."""
    return min(Fraction(1), n * tail(n - 1, dropped_clients, k, k - t + 1))


def shown(probability: Fraction) -> str:
    """A probability as a power of two, never smaller than it is; "0" where it is none."""
    if not probability:
        return "0"
    log = math.log2(probability.numerator) - math.log2(probability.denominator)
    # math.log2 is off by less than this for the largest integers that occur.
    tenths = math.ceil(log * 10 + 1e-6)
    return "1" if tenths >= 0 else f"2^{tenths / 10:.1f}"


def _share(name: str, value: float | Fraction) -> Fraction:
    exact = _real(name, value)
    # A float stands for the decimal that a person wrote: 0.3 of 10 clients are 3, not 2.
    return Fraction(repr(float(exact))) if isinstance(exact, float) else Fraction(exact)


def _real(name: str, value: float | Fraction) -> float | Fraction:
    if isinstance(value, bool) or not isinstance(value, int | float | Fraction):
        raise ParameterError(f"{name} must be a real number, got {type(value).__name__}")
    if not 0 <= value < 1:  # false for NaN too
        raise ParameterError(f"{name} must lie in [0, 1), got {value}")
    return value


def _ring_bits(n: int, largest: int) -> int:
    total = n * integer("largest", largest, 1, 2**64)
    bits = total.bit_length() + 1
    if bits > 64:
        raise ParameterError(
            f"sums reach {total}, which takes {bits} bits with the sign: {bits - 64} more than 64",
            remedy="lower the range, the resolution, the weights or the number of clients",
        )
    return bits


def _complete_thresholds(n: int, dropped: int, bad: int, variant: Variant) -> tuple[int, int]:
    """The thresholds that serve in the complete graph, where nothing is left to chance."""
    malicious = variant == "malicious"
    low = max(MIN_THRESHOLD, (n + bad) // 2 + 1 if malicious else bad + 1)
    # Two honest inputs at least stand in every sum.
    least = max(low, bad + 2, MIN_COHORT)
    if least <= n - dropped:
        return low, n - dropped
    most_bad = min(n - 2 * dropped - 1 if malicious else n, n - dropped - 2)
    raise ParameterError(
        f"of {n} clients {bad} may be corrupt and {dropped} drop out, which leaves {n - dropped}; "
        f"the {variant} variant needs {least}",
        remedy=_remedy(bad, n - least, dropped, most_bad if n - dropped >= MIN_COHORT else -1),
    )


def _remedy(bad: int, most_dropped: int, dropped: int, most_bad: int) -> str:
    ways = []
    if most_dropped >= 0:
        ways.append(f"with {bad} corrupt, at most {most_dropped} may drop out")
    if most_bad >= 0:
        ways.append(f"with {dropped} dropped, at most {most_bad} may be corrupt")
    return "; ".join(ways) or "lower both dropout and corrupt"


def _candidates(
    n: int, dropped: int, bad: int, exposure: Fraction, unlucky: Fraction
) -> Iterator[int]:
    """Rising degrees below n - 1, without those that miss a client's bounds by far.

    Judged by floating point with ample slack, for what would pass exactly must not be left out. The
    least threshold rises with the degree: one more neighbour is one more that may be corrupt.
    """
    limits = (_log(exposure) + _SLACK, _log(unlucky) + _SLACK)
    low, lost = MIN_THRESHOLD, 0
    for k in range(MIN_DEGREE, min(n - 1, MAX_NEIGHBOURS + 1)):
        while log_tail(n - 1, bad, k, low) > limits[0]:
            low += 1
        while log_tail(n - 1, dropped, k, lost) > limits[1]:
            lost += 1
        if low + lost <= k + 1 and n * k % 2 == 0:
            yield k


def _log(probability: Fraction) -> float:
    return math.log(probability.numerator) - math.log(probability.denominator)
