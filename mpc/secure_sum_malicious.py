"""PriRec's secure sum with MACs: a neighbour who alters what she forwards makes the sum abort.

The neighbours and the receiver share a key that nobody knows. Each neighbour brings her input under
a mask of a dealer, the sum is opened under a mask of the receiver, and the opening is checked.

Source: PriRec (Chen et al., 2020), Algorithm 1, whose authors leave malicious parties to future
    work; the protocol of ``mpc.spdz2k``. Names: N neighbours, vectors of D elements of Z_{2^k}
    (k is ``ring.bits``), s bits of security. The receiver is the last of the N + 1 parties.
Model: malicious and rushing; the receiver and up to N-2 neighbours collude, or N-1 neighbours
    without her. A trusted dealer takes part before the sum and sees no input. Links authenticate;
    they need not hide anything, for all that is sent is masked.
Leaks: the sum to the receiver; who sums for whom to the network. What several sums tell is the same
    as without MACs.
Error: none in the ring; an altered sum passes with a probability of at most (s+1) 2^-s.
Rounds: six: inputs, opening, and four of the check. Everybody sends to everybody.
Differs: nobody shares her input out: a mask that the dealer has shared already does it. A neighbour
    may still lie about her own input, or stop the sum, after the receiver has learnt it or before.
"""

import hashlib
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from mpc.core.checks import integer
from mpc.core.errors import ParameterError, StateError
from mpc.core.keys import label
from mpc.core.local import LocalNetwork
from mpc.core.ring import Ring, RingArray
from mpc.core.rng import SYSTEM_RNG, Rng
from mpc.party_run import PartyRun
from mpc.programs import SESSION_BYTES, Program, together, wire_bytes
from mpc.secure_sum_messages import SumTerms, check_count
from mpc.spdz2k import MacSession
from mpc.spdz2k_check import COIN_BYTES, DIGEST_BYTES, SALT_BYTES
from mpc.spdz2k_kits import KitDealer, KitSupply, MacKit
from mpc.spdz2k_supply import LocalMacDealer, MacSupply, Sizes
from mpc.supply import Dims

OPENING = "program.opening"
SECURITY_BITS = 32
"""s unless told otherwise: 2^-26.9, and with 32 bits of data one machine word."""

# Bytes of all parties' shares of one block, (N + 1, columns, D). What a block costs apart from its
# size is as much as that of some thousand numbers; some five such arrays are alive at a time.
_PLANE_BYTES = 2 << 20


def sum_program(
    session: MacSession, x: dict[int, RingArray], shape: Dims
) -> Program[RingArray | None]:
    """The sum of what all parties but the last one bring, to that one alone, once it is checked.

    x: the inputs (*b, D) of the neighbours who are present.  shape: (*b, D).
    Returns the sum, elements of Z_{2^k}, where the last party is present. AbortError otherwise.
    """
    receiver = session.seats.n - 1
    opened = yield from session.sum_to(receiver, x, shape, range(receiver))
    yield from session.check()
    return opened


def take_sum(supply: MacSupply, shape: Dims) -> None:
    """Take the items of ``sum_program`` in its order: what a dealer does beforehand."""
    receiver = supply.seats.n - 1
    supply.take_masks(shape, range(receiver), receiver)


def batch_sum(
    x: ArrayLike,
    ring: Ring,
    *,
    s: int = SECURITY_BITS,
    rng: Rng = SYSTEM_RNG,
    network: LocalNetwork | None = None,
) -> RingArray:
    """Run the sum for B receivers at once, the dealer's and everybody's work; returns (B, D).

    x: (n, B, D), ring dtype, as for ``mpc.secure_sum.batch_sum``. Each sum has a key, coins and a
    check of its own; ``network`` counts what the parties send.
    Raises ParameterError for fewer than 3 neighbours, another shape or entries outside the ring.
    """
    inputs = ring.check(x)
    if inputs.ndim != 3 or inputs.shape[2] == 0:
        raise ParameterError(f"x must have shape (n, B, D) with D >= 1, got {inputs.shape}")
    n, batch, dim = inputs.shape
    check_count(n)
    sizes = Sizes(ring.bits, s)
    totals = np.empty((batch, dim), ring.dtype)
    step = max(1, _PLANE_BYTES // ((n + 1) * dim * sizes.ring.element_bytes()))
    for start in range(0, batch, step):
        columns = slice(start, min(start + step, batch))
        block = inputs[:, columns]
        supply = LocalMacDealer(n + 1, sizes, batch=block.shape[1:2], rng=rng)
        session = MacSession(supply, rng=rng)
        program = sum_program(session, dict(enumerate(block)), block.shape[1:])
        totals[columns] = together(program, n + 1)
    if network is not None:
        count_sum(network, n, batch, dim, sizes)
    return totals


def count_sum(network: LocalNetwork, n: int, batch: int, dim: int, sizes: Sizes) -> None:
    """Count what the parties of ``batch`` sums send: six steps, everybody to n others in each."""
    element = sizes.ring.element_bytes()
    vector, coin = wire_bytes(dim * element), wire_bytes(COIN_BYTES + SALT_BYTES)
    commitment, sigma = wire_bytes(DIGEST_BYTES), wire_bytes(element + SALT_BYTES)
    all_parties = [(n + 1) * each for each in (vector, commitment, coin, commitment, sigma)]
    for sent in (n * vector + wire_bytes(0), *all_parties):  # the receiver has no input
        network.count(OPENING, n * (n + 1) * batch, n * sent * batch)
        network.next_round()


@dataclass(frozen=True)
class MaliciousSum:
    """The public terms of one sum with MACs, and its parties; all hold equal ones.

        kits = MaliciousSum(terms).deal()  # the dealer; each kit goes to its party alone
        run = MaliciousSum(terms).neighbour(party, x, kits[party])  # or receiver(kit)

    A party sends ``run.outgoing`` to all others and gives ``run.receive`` what they send, until
    ``run.is_done``. On the way parties go by their seats: the neighbours in their order, then the
    receiver. What was altered raises AbortError or PeerError from ``receive`` and ends the run.
    """

    terms: SumTerms
    s: int = SECURITY_BITS

    def __post_init__(self) -> None:
        object.__setattr__(self, "s", integer("s", self.s, 1, 64))

    @cached_property
    def sizes(self) -> Sizes:
        """k bits of data, s of security."""
        return Sizes(self.terms.ring.bits, self.s)

    @cached_property
    def session(self) -> bytes:
        """Sixteen bytes of their own for these terms, in every message and kit."""
        t, k = self.terms, self.sizes.k
        numbers = (t.round, t.receiver, t.dim, k, self.s, *t.neighbours)
        digest = hashlib.sha256(label("mpc.secure_sum_malicious", t.session, *numbers))
        return digest.digest()[:SESSION_BYTES]

    def seat(self, party: int) -> int:
        """The seat of a neighbour or of the receiver. ParameterError for anybody else."""
        is_receiver = party == self.terms.receiver
        return len(self.terms.neighbours) if is_receiver else self.terms.seat(party)

    def deal(self, *, rng: Rng = SYSTEM_RNG) -> dict[int, MacKit]:
        """The dealer's part: a kit for every party by her id, to go to her alone."""
        parties = (*self.terms.neighbours, self.terms.receiver)
        dealer = KitDealer(len(parties), self.sizes, self.session, rng=rng)
        take_sum(dealer, (self.terms.dim,))
        return dict(zip(parties, dealer.kits(), strict=True))

    def neighbour(
        self, party: int, x: ArrayLike, kit: MacKit, *, rng: Rng = SYSTEM_RNG
    ) -> PartyRun[RingArray | None]:
        """One neighbour's run with input ``x`` (D,), ring dtype; it ends with None.

        Raises ParameterError for a wrong ``x``, StateError for a kit of another party or sum.
        """
        own = self.terms.ring.check(x)
        if own.shape != (self.terms.dim,):
            raise ParameterError(f"x must have shape ({self.terms.dim},), got {own.shape}")
        seat = self.terms.seat(party)
        return self._run(seat, {seat: own}, kit, rng)

    def receiver(self, kit: MacKit, *, rng: Rng = SYSTEM_RNG) -> PartyRun[RingArray | None]:
        """The receiver's run, which ends with the sum (D,), ring dtype; it has been checked."""
        return self._run(self.seat(self.terms.receiver), {}, kit, rng)

    def _run(
        self, seat: int, x: dict[int, RingArray], kit: MacKit, rng: Rng
    ) -> PartyRun[RingArray | None]:
        seats = (len(self.terms.neighbours) + 1, seat)
        if (kit.session, kit.n, kit.seat) != (self.session, *seats):
            raise StateError("this kit was dealt for another party or another sum")
        supply = KitSupply(kit)
        program = sum_program(MacSession(supply, rng=rng), x, (self.terms.dim,))
        return PartyRun(program, supply.seats, self.session)
