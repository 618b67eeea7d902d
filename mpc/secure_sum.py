"""The secure sum of PriRec: one receiver learns the sum of her neighbours' vectors, nothing else.

Each neighbour shares its vector among all neighbours, each adds up the shares that it holds, and
the receiver adds up these partial sums.

Source: PriRec (Chen et al., 2020), Algorithm 1. Names: the paper's user i is the *receiver*,
    N(i) are the *neighbours* (N = n of them), sw^f is the input x of neighbour f, <sw^f>_j is the
    share of f for j; lines 2 and 11 (weights S_if, encoding, the update of w^i) belong to the
    caller.
Model: semi-honest; the receiver and up to n-2 neighbours collude, or n-1 neighbours without
    her. Links hide their content (``mpc.secure_sum_relay`` where they do not). Perfect secrecy,
    given uniform bytes. One altered message alters the sum, and nobody can tell; with
    ``security="malicious"`` the sum aborts instead: ``mpc.secure_sum_malicious``.
Leaks: the sum to the receiver; who sums for whom to the network. It protects *one* sum: two sums
    that differ in one neighbour, or in one neighbour's input, open that input by subtraction.
Error: none in the ring; the caller keeps n inputs within ``FixedPoint.headroom(n)``.
Differs: fewer than three neighbours are refused; the paper's N = 1 sends the model in the clear.
"""

import numpy as np
from numpy.typing import ArrayLike

from mpc import secure_sum_malicious
from mpc.additive import deal, reconstruct
from mpc.core.errors import ParameterError, PeerError, StateError
from mpc.core.local import LocalNetwork
from mpc.core.ring import Ring, RingArray
from mpc.core.rng import SYSTEM_RNG, Rng
from mpc.secure_sum_channels import Channel, DirectChannel, Groups, HandOver
from mpc.secure_sum_malicious import SECURITY_BITS, MaliciousSum
from mpc.secure_sum_messages import PartialSum, ShareMessage, SumTerms, check_count
from mpc.secure_sum_relay import PairKeys, SealedRelay

__all__ = [
    "Channel",
    "DirectChannel",
    "Groups",
    "HandOver",
    "MaliciousSum",
    "Neighbour",
    "PairKeys",
    "PartialSum",
    "Receiver",
    "SealedRelay",
    "ShareMessage",
    "SumTerms",
    "batch_sum",
]

# Bytes of one plane of shares, (n, columns, D). A plane and the sums are touched again and again
# and must stay in the second cache level together; smaller ones leave more to the interpreter.
_PLANE_BYTES = 256 << 10


def batch_sum(
    x: ArrayLike,
    ring: Ring,
    *,
    rng: Rng = SYSTEM_RNG,
    channel: Channel | None = None,
    groups: Groups | None = None,
    security: str = "semi-honest",
    s: int = SECURITY_BITS,
) -> RingArray:
    """Run Algorithm 1 for B receivers at once, everybody's work included; returns (B, D).

    x: (n, B, D), ring dtype; x[f, b] is the input of the f-th neighbour of receiver b. The party
    axis leads: docs/decisions/0006-party-axis-before-batch-axis.md.
    channel: how shares travel; by default arrays change hands and nothing is counted.
    groups: the ids of all parties, for channels that need them.
    security: "semi-honest", or "malicious": with MACs, ``s`` bits of security and a dealer
        (``MaliciousSum`` for the parties); its messages are masked and take no sealing channel.
    Raises ParameterError for fewer than 3 neighbours, another shape or entries outside the ring,
    AbortError where a malicious party has altered something.
    """
    inputs = ring.check(x)
    if inputs.ndim != 3 or inputs.shape[2] == 0:
        raise ParameterError(f"x must have shape (n, B, D) with D >= 1, got {inputs.shape}")
    n, batch, dim = inputs.shape
    check_count(n)
    if groups is not None and groups.neighbours.shape != (n, batch):
        raise ParameterError(
            f"groups must name ({n}, {batch}) neighbours, got {groups.neighbours.shape}"
        )
    link = HandOver() if channel is None else channel
    if security != "semi-honest":
        network = _open_network(security, link)
        return secure_sum_malicious.batch_sum(inputs, ring, s=s, rng=rng, network=network)
    link.open(groups, (n, batch, dim), ring)
    partials = np.empty((n, batch, dim), dtype=ring.dtype)
    step = max(1, min(batch, _PLANE_BYTES // (n * dim * ring.element_bytes())))
    space = np.empty((2, n * step * dim), dtype=ring.dtype)
    for start in range(0, batch, step):
        columns = slice(start, min(start + step, batch))
        block = inputs[:, columns]
        plane, sums = space[:, : block.size].reshape(2, *block.shape)
        # Each dealer's own share comes about where it adds up the shares of the others, so the
        # sums begin as the inputs, lose every share that leaves and gain every one that comes.
        for offset, shares in enumerate(deal(block, n, ring, rng, out=(plane, sums)), start=1):
            if offset < n:  # the last one is that own share
                add_shares(sums, link.shares(columns, offset, shares), offset)
        partials[:, columns] = sums
    return reconstruct(link.partials(partials), ring)


def _open_network(security: str, channel: Channel) -> LocalNetwork | None:
    """The network that counts the messages of a sum with MACs, if any."""
    if security != "malicious":
        raise ParameterError(f"security is 'semi-honest' or 'malicious', got {security!r}")
    if type(channel) is HandOver:
        return None
    if type(channel) is DirectChannel and not channel.network.records:
        return channel.network
    raise ParameterError(
        "a malicious sum counts messages on a DirectChannel whose network records no views",
        remedy="run the parties of a MaliciousSum over any other network",
    )


def add_shares(sums: RingArray, shares: RingArray, offset: int) -> None:
    """Line 7, for all parties present: party (f + offset) mod n adds what party f made for it.

    sums and shares: (n, B, D); sums are updated in place, as two contiguous slices. Only the word
    wraps, which is right because 2^l divides its modulus; the caller clears the surplus bits by
    ``ring.mask`` at the end.
    """
    n = len(sums)
    turn = offset % n
    np.add(sums[turn:], shares[: n - turn], out=sums[turn:])
    np.add(sums[:turn], shares[n - turn :], out=sums[:turn])


class Neighbour:
    """One neighbour in one sum: ``share``, then ``receive`` from all others, then ``partial_sum``.

    Shares of others may arrive before ``share`` is called. A message that is refused changes
    nothing. The object serves one sum and keeps no share once its partial sum has left.
    """

    def __init__(self, terms: SumTerms, party: int, *, rng: Rng = SYSTEM_RNG) -> None:
        self.terms = terms
        self.party = party
        self._seat = terms.seat(party)
        self._rng = rng
        self._awaited = set(terms.others(party))
        self._partial: RingArray | None = np.zeros((1, 1, terms.dim), dtype=terms.ring.dtype)
        self._shared = False

    def share(self, x: ArrayLike) -> tuple[ShareMessage, ...]:
        """Lines 3 and 4: one message for each other neighbour, starting with the next in order.

        x: (D,), ring dtype.  Raises StateError the second time, ParameterError for a wrong ``x``.
        """
        terms, n = self.terms, len(self.terms.neighbours)
        partial = self._open_partial()
        if self._shared:
            raise StateError("this neighbour has shared its input already")
        secret = terms.ring.check(x)
        if secret.shape != (terms.dim,):
            raise ParameterError(f"x must have shape ({terms.dim},), got {secret.shape}")
        messages = []
        dealt = deal(secret.reshape(1, 1, -1), n, terms.ring, self._rng)
        for offset, share in enumerate(dealt, start=1):
            if offset == n:
                add_shares(partial, share, offset)
            else:
                to = terms.neighbours[(self._seat + offset) % n]
                messages.append(terms.share_message(self.party, to, share[0, 0]))
        self._shared = True
        return tuple(messages)

    def receive(self, message: ShareMessage) -> None:
        """Take the share that another neighbour made for us.

        Raises PeerError for a repeat or a message of another sum, sender or addressee, WireError
        for a payload that does not fit, StateError after ``partial_sum``.
        """
        partial = self._open_partial()
        share = self.terms.read_share(message, self.party)
        if message.sender not in self._awaited:
            raise PeerError(f"party {message.sender} has sent a share before", party=message.sender)
        self._awaited.remove(message.sender)
        add_shares(partial, share.reshape(1, 1, -1), 0)

    def partial_sum(self) -> PartialSum:
        """Lines 7 and 8: the sum of all shares that we hold, for the receiver; once.

        Raises StateError while our own input or a share is missing.
        """
        partial = self._open_partial()
        if not self._shared:
            raise StateError("partial_sum called before share")
        if self._awaited:
            raise StateError(f"no share has come yet from {sorted(self._awaited)}")
        self._partial = None
        return self.terms.partial_message(self.party, partial[0, 0] & self.terms.ring.mask)

    def _open_partial(self) -> RingArray:
        if self._partial is None:
            raise StateError("this neighbour's part in the sum is over")
        return self._partial


class Receiver:
    """The receiver of one sum: ``receive`` from every neighbour, then ``total``."""

    def __init__(self, terms: SumTerms) -> None:
        self.terms = terms
        self._awaited = set(terms.neighbours)
        self._partials = np.zeros((len(terms.neighbours), 1, terms.dim), dtype=terms.ring.dtype)

    def receive(self, message: PartialSum) -> None:
        """Take one neighbour's partial sum.

        Raises PeerError for a repeat or a message of another sum or sender, WireError for a
        payload that does not fit. A message that is refused changes nothing.
        """
        partial = self.terms.read_partial(message)
        if message.sender not in self._awaited:
            raise PeerError(f"party {message.sender} has sent its sum before", party=message.sender)
        self._awaited.remove(message.sender)
        self._partials[self.terms.seat(message.sender), 0] = partial

    def total(self) -> RingArray:
        """Line 10: the sum of all inputs, (D,), ring dtype. StateError while a part is missing."""
        if self._awaited:
            raise StateError(f"no partial sum has come yet from {sorted(self._awaited)}")
        return reconstruct(self._partials, self.terms.ring).reshape(self.terms.dim)
