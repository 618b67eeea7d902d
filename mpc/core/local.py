"""An in-process network: carries bytes between parties, counts them, keeps views on request.

Model: reliable, in order, everything visible to the test that owns it. It is not a transport.
"""

from collections import defaultdict
from dataclasses import dataclass, field

from mpc.core.checks import integer
from mpc.core.errors import ParameterError


@dataclass
class Traffic:
    """What one kind of message cost: how many, and how many bytes on the wire."""

    messages: int = 0
    bytes: int = 0

    def add(self, messages: int, size: int) -> None:
        """Count ``messages`` more, ``size`` bytes all together."""
        self.messages += messages
        self.bytes += size


@dataclass(frozen=True)
class Delivery:
    """One entry of a party's view."""

    round: int
    sender: int
    kind: str
    data: bytes = field(repr=False)


class LocalNetwork:
    """Mailboxes for parties with integer ids.

    Messages and bytes are always counted by kind, and rounds by ``next_round``. With
    ``record=True`` each party's view (all that it ever received) is kept for inspection.
    """

    def __init__(self, *, record: bool = False) -> None:
        self.round = 0
        self.traffic: defaultdict[str, Traffic] = defaultdict(Traffic)
        self._record = record
        self._views: defaultdict[int, list[Delivery]] = defaultdict(list)
        self._boxes: defaultdict[int, list[Delivery]] = defaultdict(list)

    def send(self, sender: int, receiver: int, kind: str, data: bytes) -> None:
        """Put ``data`` into the receiver's box and count it."""
        if sender == receiver:
            raise ParameterError(f"party {sender} keeps what is its own, it does not send it")
        delivery = Delivery(self.round, sender, kind, bytes(data))
        self.traffic[kind].add(1, len(data))
        self._boxes[receiver].append(delivery)
        if self._record:
            self._views[receiver].append(delivery)

    def count(self, kind: str, messages: int, size: int) -> None:
        """Count a batch that moves as one array: ``messages`` of ``size`` bytes all together."""
        messages = integer("messages", messages, 0, 2**63 - 1)
        self.traffic[kind].add(messages, integer("size", size, 0, 2**63 - 1))

    def receive(self, receiver: int) -> list[Delivery]:
        """Empty the receiver's box, in the order of sending."""
        return self._boxes.pop(receiver, [])

    def next_round(self) -> None:
        """Close the round: what is sent from now on belongs to the next one."""
        self.round += 1

    def view(self, party: int) -> tuple[Delivery, ...]:
        """All that ``party`` received, in order; needs ``record=True``."""
        if not self._record:
            raise ParameterError("views were not recorded", remedy="LocalNetwork(record=True)")
        return tuple(self._views[party])

    @property
    def records(self) -> bool:
        """Whether views are kept, so that batches must send every message one by one."""
        return self._record

    @property
    def messages(self) -> int:
        """Messages of every kind."""
        return sum(traffic.messages for traffic in self.traffic.values())

    @property
    def bytes(self) -> int:
        """Bytes of every kind."""
        return sum(traffic.bytes for traffic in self.traffic.values())
