"""What a client keeps between two messages, and the marks that stand against answering twice.

Source: ours. Flower runs each message in a process of its own: nothing lives from one to the next
    but ``Context.state``, and what the node writes to its disk.
Model: the state holds this client's secrets and lies in its SuperNode's memory. In deployment
    Flower sends the reply first and stores the state afterwards, so a crash between the two takes
    the state back to before a reply that has left, and a message that arrives between the two is
    given the old state. ``DiskStore`` writes each step down on disk before its reply leaves, and a
    step that was taken is taken for good. ``StateStore`` keeps these marks in the state itself,
    where they go back with it: enough for simulations, where one process plays everybody, and
    under a server that asks for each step once.
Leaks: to whoever reads ``Context.state`` between two messages, what ``secagg.full.suspended`` says.
    While the training function runs the state is taken out of it.

A node's configuration names the file:

    flower-supernode --node-config 'secagg-state="/var/lib/node/marks"' ...
"""

import hashlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from flwr.app import ConfigRecord, Context, RecordDict

from mpc.core.errors import ParameterError, StateError, WireError
from mpc.core.wire import Message
from secagg.flower.records import RECORD
from secagg.full.history import History
from secagg.params import Region
from secagg.watermark import FileWatermark, Mark, Watermark

STATE_PATH = "secagg-state"
"""The key of ``node_config`` under which the path of the file of marks is found."""

_DATA = "data"


class Held(Message, frozen=True, tag="flower.held"):
    """One round that is under way: what this client was told, and the client itself, suspended."""

    session: bytes
    round: int
    client: int
    announcement: bytes
    terms: bytes
    state: bytes


class _Stored(Message, frozen=True, tag="flower.state"):
    """sessions: (session, own id, whether this client has left it).  marks: as a ``Watermark``."""

    sessions: tuple[tuple[bytes, int, int], ...]
    marks: tuple[tuple[bytes, int, int], ...]
    held: tuple[Held, ...]
    check: bytes


class StateWatermark:
    """Marks in memory, to be stored with everything else of a client."""

    def __init__(self, marks: Mapping[bytes, Mark]) -> None:
        self.marks = dict(marks)

    def claim(self, key_id: bytes, epoch: int, start: int, stop: int) -> None:
        """See ``Watermark.claim``; durable only once the marks are stored."""
        region = Region(epoch, start, stop)
        if (region.epoch, region.start) < self.marks.get(key_id, (0, 0)):
            raise StateError(f"epoch {epoch} bytes [{start}, {stop}) are spent")
        self.marks[key_id] = (region.epoch, region.stop)


class StateStore:
    """All that a client keeps, in the bytes of one record of ``Context.state``.

    sessions: this client's id in each session that it has taken part in.  left: the sessions that
    it has refused to go on with.  held: the round that is under way.  history: what ``Client`` asks
    before it answers.
    Raises WireError for a record that ``record`` did not make.
    """

    durable = False

    def __init__(self, record: ConfigRecord | None = None) -> None:
        stored = _Stored((), (), (), b"") if record is None else _read(record)
        self.sessions = {session: client for session, client, _ in stored.sessions}
        self.left = {session for session, _, left in stored.sessions if left}
        self.held = stored.held[0] if stored.held else None
        self._marks = {key: (epoch, stop) for key, epoch, stop in stored.marks}
        self.history = History(self._watermark())

    def _watermark(self) -> Watermark:
        marks = StateWatermark(self._marks)
        self._marks = marks.marks
        return marks

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to keep."""
        return not (self.sessions or self._marks or self.held)

    def record(self) -> ConfigRecord:
        """Everything as a record."""
        sessions = [(s, client, int(s in self.left)) for s, client in sorted(self.sessions.items())]
        stored = _Stored(
            tuple(sessions),
            tuple((key, *mark) for key, mark in sorted(self._marks.items())),
            () if self.held is None else (self.held,),
            b"",
        )
        return ConfigRecord({_DATA: _checked(stored).to_bytes()})


class DiskStore(StateStore):
    """The same with its marks in a file, which must not be lost, shared or put back from a backup.

    path: made if it is missing. A round that is under way and that a new file does not know is
    refused. Raises StateError for a file that is damaged, ParameterError for a missing folder.
    """

    durable = True

    def __init__(self, path: Path, record: ConfigRecord | None = None) -> None:
        self._path = path
        super().__init__(record)

    def _watermark(self) -> Watermark:
        if not self._path.exists():
            try:
                return FileWatermark.create(self._path)
            except StateError:
                pass  # another process of this node was first
        return FileWatermark(self._path)


@contextmanager
def taken_out(ctx: Context) -> Iterator[None]:
    """Our record is not in ``ctx.state`` meanwhile, and is there again afterwards."""
    record = ctx.state.pop(RECORD, None)
    try:
        yield
    finally:
        if record is not None:
            ctx.state[RECORD] = record


@contextmanager
def opened(ctx: Context, node_config: Mapping[str, object]) -> Iterator[StateStore]:
    """The store of a node, taken out of ``ctx.state``; what is in it at the end is put back.

    Raises as the stores do; ``ctx.state`` is as it was then.
    """
    record = ctx.state.get(RECORD)
    if record is not None and not isinstance(record, ConfigRecord):
        raise WireError(f"the record {RECORD!r} in the state of this node is not ours")
    path = node_config.get(STATE_PATH)
    if path is not None and (not isinstance(path, str) or not path):
        raise ParameterError(f"{STATE_PATH} must be a path, got {type(path).__name__}")
    store = StateStore(record) if path is None else DiskStore(Path(path), record)
    _remove(ctx.state)
    try:
        yield store
    finally:
        if record is not None or not store.is_empty:
            ctx.state[RECORD] = store.record()


def _remove(state: RecordDict) -> None:
    if RECORD in state:
        del state[RECORD]


def _read(record: ConfigRecord) -> _Stored:
    data = record.get(_DATA)
    if not isinstance(data, bytes):
        raise WireError("the stored state of this client has no bytes")
    stored = _Stored.from_bytes(data)
    if _checked(stored) != stored or len(stored.held) > 1:
        raise WireError("the stored state of this client is damaged")
    return stored


def _checked(stored: _Stored) -> _Stored:
    bare = _Stored(stored.sessions, stored.marks, stored.held, b"")
    check = hashlib.sha256(bare.to_bytes()).digest()
    return _Stored(stored.sessions, stored.marks, stored.held, check)
