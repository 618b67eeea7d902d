"""Items of correlated randomness in a folder of each party, each handed out once, come what may.

    session, items = SYSTEM_RNG.bytes(16), [Product((1000,))] * 50
    write_stock(folders, items, ring, session)  # the dealer, one empty folder for each party
    supply = FileSupply(folders[2])  # party 2, later, on a machine of her own
    PartyRun(in_step(supply), supply.seats, session)  # after a crash, before the next run

    FOLDER/stock              whose it is and how many items of each kind there are; written last
    FOLDER/used               how many of each kind are used up (``mpc.durable_counter``)
    FOLDER/KIND/NUMBER        one item; removed once it is used

Items are numbered within their kind. All parties ask for the same items in the same order; a crash
may leave them at different numbers, and ``in_step`` brings all to the highest.

Source: write-ahead, as in any log; items as in ``mpc.supply``.
Model: as ``mpc.supply``. Files are as secret as what the items mask, and their folder is private;
    checksums find damage, not forgery. The process may die at any instruction: an item is counted
    as used, on disk, before anybody sees it. A folder restored from a backup hands its items out
    again: keep no backups of it. Removed files may stay on the medium.
Leaks: the files' sizes and number to whoever can list the folder.
Error: none. A crash loses the item that was being taken.
"""

import hashlib
import os
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TypeVar

from mpc.core.checks import integer
from mpc.core.durable import flush_folder, write_durably
from mpc.core.errors import AbortError, ParameterError, StateError, WireError
from mpc.core.ring import Ring
from mpc.core.rng import SYSTEM_RNG, Rng
from mpc.core.wire import Message
from mpc.durable_counter import DurableCounters
from mpc.programs import MAX_PARTIES, SESSION_BYTES, Program, Seats, Tell, read_arrays
from mpc.supply import Item, Shares, deal

MessageT = TypeVar("MessageT", bound=Message)
StrPath = str | os.PathLike[str]

_STOCK, _USED = "stock", "used"
_COUNT_BYTES, _CHECK_BYTES = 8, 32


class _Stock(Message, frozen=True, tag="supply.stock"):
    """The public terms of a folder: kinds in rising order, how many of each."""

    session: bytes
    party: int
    n: int
    bits: int
    kinds: tuple[tuple[bytes, int], ...]

    def __post_init__(self) -> None:
        """Refuse sizes out of range."""
        if len(self.session) != SESSION_BYTES:
            raise ParameterError(f"session must be {SESSION_BYTES} bytes")
        integer("party", self.party, 0, integer("n", self.n, 2, MAX_PARTIES) - 1)
        integer("bits", self.bits, 1, 64)


class _Stored(Message, frozen=True, tag="supply.item"):
    """One item: the party's shares of all components, one behind the other."""

    session: bytes
    party: int
    number: int
    name: bytes
    payload: bytes


class StockWriter:
    """Fills one party's empty folder; ``close`` makes it a stock that ``FileSupply`` opens.

    folder: exists and is empty; ParameterError or StateError otherwise.  seats: of a single party.
    session: 16 bytes, the same for all parties of this stock and for nobody else.
    """

    def __init__(self, folder: StrPath, seats: Seats, ring: Ring, session: bytes) -> None:
        self._folder = Path(folder)
        if seats.only is None:
            raise ParameterError("a stock is for a single party")
        if not self._folder.is_dir():
            raise ParameterError(f"the folder {self._folder} does not exist")
        if any(self._folder.iterdir()):
            raise StateError(
                f"the folder {self._folder} is not empty", remedy="give each stock a new one"
            )
        self._ring = ring
        self._terms = _Stock(session, seats.only, seats.n, ring.bits, ())
        self._counts: Counter[bytes] = Counter()
        self._is_open = True

    def add(self, item: Item, shares: Shares) -> None:
        """Write one item; shares: the party's row of every component, (1, *s)."""
        self._expect_open()
        terms, kind = self._terms, _kind(item)
        number = self._counts[kind]
        folder = self._folder / kind.hex()
        if not number:
            folder.mkdir(mode=0o700)
            flush_folder(self._folder)
        payload = b"".join(
            self._ring.to_bytes(rows[0, ...]) for rows in (*shares.free, *shares.bound)
        )
        stored = _Stored(terms.session, terms.party, number, item.name, payload)
        write_durably(folder / str(number), _sealed(stored))
        self._counts[kind] += 1

    def close(self) -> None:
        """Write how many there are, last: a folder left half filled is refused when opened."""
        self._expect_open()
        self._is_open = False
        DurableCounters.create(self._folder / _USED, self._counts)
        terms, kinds = self._terms, tuple(sorted(self._counts.items()))
        stock = _Stock(terms.session, terms.party, terms.n, terms.bits, kinds)
        write_durably(self._folder / _STOCK, _sealed(stock))

    def _expect_open(self) -> None:
        if not self._is_open:
            raise StateError("this stock is closed")


def write_stock(
    folders: Sequence[StrPath],
    items: Iterable[Item],
    ring: Ring,
    session: bytes,
    *,
    rng: Rng = SYSTEM_RNG,
) -> None:
    """The dealer's part: deal all ``items`` into the parties' folders, in the parties' order."""
    n = integer("the number of folders", len(folders), 2, MAX_PARTIES)
    writers = [StockWriter(f, Seats(n, p), ring, session) for p, f in enumerate(folders)]
    for item in items:
        shares = deal(item, n, ring, [rng] * n)
        for party, writer in enumerate(writers):
            writer.add(item, shares.of(party))
    for writer in writers:
        writer.close()


class FileSupply:
    """One party's supply from her folder.

    Raises StateError if the folder is incomplete or damaged. Processes may share it, and then no
    two get the same item; but which one gets it is not the same with all parties.
    """

    def __init__(self, folder: StrPath) -> None:
        self._folder = Path(folder)
        path = self._folder / _STOCK
        if not path.exists():
            raise StateError(
                f"the folder {self._folder} holds no complete stock",
                remedy="let the dealer fill an empty folder",
            )
        stock = _opened(_Stock, path)
        self.seats = Seats(stock.n, stock.party)
        self.ring = Ring(stock.bits)
        self.session = stock.session
        self._counts = dict(stock.kinds)
        self._used = DurableCounters(self._folder / _USED)

    def take(self, item: Item) -> Shares:
        """See ``Supply.take``; on disk as used before it is read.

        Raises StateError if none is left, or if its file is missing or damaged: then this number
        is lost, and ``in_step`` makes the others pass it over too.
        """
        kind = _kind(item)
        number = self._used.claim(kind, self._count(kind))
        path = self._folder / kind.hex() / str(number)
        stored = _opened(_Stored, path)
        place = (stored.session, stored.party, stored.number, stored.name)
        if place != (self.session, self.seats.only, number, item.name):
            raise StateError(f"{path} holds another item")
        try:
            parts = read_arrays(stored.payload, (*item.free, *item.bound), self.ring)
        except WireError as error:
            raise StateError(f"{path} does not hold this item: {error.message}") from None
        path.unlink()
        rows, free = [part[None] for part in parts], len(item.free)
        return Shares(tuple(rows[:free]), tuple(rows[free:]))

    def left(self, item: Item) -> int:
        """How many of this kind have not been used."""
        kind = _kind(item)
        return self._count(kind) - self._used.numbers()[kind]

    def _count(self, kind: bytes) -> int:
        if kind not in self._counts:
            raise StateError(
                "the stock was made without items of this kind and size",
                remedy="let the dealer make the items that the program asks for",
            )
        return self._counts[kind]

    def numbers(self) -> bytes:
        """The session and the next number of each kind, for ``in_step``."""
        numbers = self._used.numbers()
        return self.session + b"".join(
            numbers[kind].to_bytes(_COUNT_BYTES, "little") for kind in self._counts
        )

    def give_up_before(self, numbers: bytes) -> None:
        """Count as used whatever another party's ``numbers`` have passed."""
        if numbers[:SESSION_BYTES] != self.session:
            raise AbortError("another party's stock is not of the same dealing")
        for index, (kind, count) in enumerate(self._counts.items()):
            start = SESSION_BYTES + _COUNT_BYTES * index
            number = int.from_bytes(numbers[start : start + _COUNT_BYTES], "little")
            self._used.give_up(kind, min(number, count))


def in_step(supply: FileSupply) -> Program[None]:
    """Bring all parties to the same next item of every kind, after a crash of any: one step."""
    mine = supply.numbers()
    told = yield Tell((len(mine),) * supply.seats.n, (mine,))
    for numbers in told:
        supply.give_up_before(numbers)


def _kind(item: Item) -> bytes:
    return hashlib.sha256(item.name).digest()[:16]


def _sealed(message: Message) -> bytes:
    """The message behind a SHA-256 of it."""
    data = message.to_bytes()
    return hashlib.sha256(data).digest() + data


def _opened(kind: type[MessageT], path: Path) -> MessageT:
    """Inverse of ``_sealed`` on a file's bytes; StateError if it is missing or damaged."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        raise StateError(f"{path} is missing") from None
    try:
        message = kind.from_bytes(data[_CHECK_BYTES:], limit=len(data))
    except WireError:
        message = None
    if message is None or _sealed(message) != data:
        raise StateError(f"{path} is damaged")
    return message
