"""An engine whose workers are Ray actors, on this machine or on all machines of a cluster.

A worker is a process of its own. It gets what a training shares once, when it starts, and then one
chunk after the other, whichever comes next. If it dies, its chunk is done again by another one; a
chunk over which several have died is given up, with an EngineError.

Model: a Ray cluster trusts whoever reaches its ports with all that it holds, and to run any code. A
    cluster that is started here listens on the loopback address alone, and wants a token that only
    this process and its children know, so that no other user of the machine gets in. One that was
    started elsewhere is as safe as its owner made it.
Leaks: of a cluster that is started here no usage statistics, and no probes for the clouds that this
    machine might be in; its files are in a temporary folder, which is deleted in the end.
"""

import socket
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from importlib import metadata
from typing import Any

from mpc.core.checks import integer
from mpc.core.errors import MissingLibraryError, ParameterError, ToolkitError
from recsys.engine import RAY, ChunkT, CurrentT, Engine, PartT, Shared, SharedT
from recsys.engine_facts import Facts
from recsys.engine_surroundings import LOOPBACK, Surroundings, processors
from recsys.errors import EngineError

ATTEMPTS = 3
"""Workers that may die over one chunk, or in a row as they start, before it is an error."""

SLOTS = 2
"""Chunks that a worker has at a time: the next one is there when it ends one."""

START_SECONDS = 120.0
"""How long a worker may take to start, before none counts as coming."""

LOCAL_CLUSTER = "local"
"""What Ray calls a cluster that it starts, whatever other ones there are."""

_ANSWER_SECONDS = 10.0
_ERRORS_ALONE = 40  # the level of errors in Python's logging


class Worker:
    """What runs in a worker's process."""

    def keep(self, shared: Shared) -> Facts:
        """Take what a training shares, in place of an earlier one's; the worker is then ready."""
        self._shared = shared
        return Facts.here(shared)

    def run(
        self, function: Callable[..., Any], current: Any, chunk: Any
    ) -> tuple[Any, ToolkitError | None]:
        """The part of a chunk, or the typed error that it ends in."""
        try:
            return function(self._shared, current, chunk), None
        except ToolkitError as error:
            return None, error


class RayEngine(Engine):
    """Spreads chunks over ``workers`` processes; by default as many as there are processors.

    address: HOST:PORT of a running cluster, of which this machine is a part, or ``auto`` for the
    one that runs here; None starts one on this machine, which ends with the engine.
    tell: called with a sentence where something is worth knowing, such as a worker's death.
    Raises ParameterError for other arguments. The engine is for a process that has not used Ray.
    After an EngineError there is nothing to do but to close it.
    """

    name = RAY
    remote = True

    def __init__(
        self,
        workers: int | None = None,
        address: str | None = None,
        tell: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._wanted = None if workers is None else integer("workers", workers, 1, 1 << 16)
        if address is not None:
            host_of(address)
        self._address = address
        self._tell = tell
        self._ray: Any = None
        self._surroundings: Surroundings | None = None
        self._count = 0
        self._idle = deque[Any]()
        self._starting: dict[Any, Any] = {}
        self._failed_starts = 0
        self._odd_machines: set[str] = set()

    def check(self) -> None:
        """What can be known before anything is started.

        Raises MissingLibraryError without Ray, and ParameterError where no cluster answers.
        """
        try:
            metadata.version(RAY)
        except metadata.PackageNotFoundError:
            raise _missing() from None
        if self._address not in (None, "auto"):
            _check_answer(str(self._address))

    def start(self, shared: Shared) -> None:
        """See ``Engine.start``. It returns when the first worker is ready; others may join later.

        A second call begins another training, with the same workers.
        Raises what ``check`` does, and EngineError where a worker has other versions of what it
        computes with.
        """
        if self._ray is None:
            self.check()
            self._connect()
            self._tell(f"engine {self.name}: {self.describe()}")
        workers = dict.fromkeys([*self._idle, *self._starting.values()])
        self._idle.clear()
        self._starting.clear()
        self._facts = Facts.here(shared)
        self._kept = self._ray.put(shared)
        for worker in workers:
            self._starting[worker.keep.remote(self._kept)] = worker
        while len(self._starting) < self._count:
            self._add_worker()
        while not self._idle:
            self._welcome(self._first_of(self._starting, START_SECONDS))

    def map(
        self,
        function: Callable[[SharedT, CurrentT, ChunkT], PartT],
        current: CurrentT,
        chunks: Sequence[ChunkT],
    ) -> list[PartT]:
        """See ``Engine.map``. EngineError where ``ATTEMPTS`` workers died over a chunk."""
        here = self._ray.put(current)
        waiting, running = deque(range(len(chunks))), dict[Any, tuple[Any, int]]()
        deaths, done = Counter[int](), dict[int, tuple[Any, ToolkitError | None]]()
        while len(done) < len(chunks):
            while waiting and self._idle:
                worker, at = self._idle.popleft(), waiting.popleft()
                running[worker.run.remote(function, here, chunks[at])] = worker, at
            # A chunk may take its time; a worker may not, where nothing else goes on.
            seconds = None if running else START_SECONDS
            ended = self._first_of({**running, **self._starting}, seconds)
            if ended not in running:
                self._welcome(ended)
                continue
            worker, at = running[ended]
            try:
                done[at] = self._ray.get(ended)
            except self._ray.exceptions.RayTaskError:
                raise  # a bug in the function, which no other worker would be spared
            except self._ray.exceptions.RayError:
                lost = {ref: at for ref, (other, at) in running.items() if other == worker}
                running = {ref: each for ref, each in running.items() if ref not in lost}
                waiting.extendleft(reversed(lost.values()))
                deaths[waiting[0]] += 1  # the one that it was working on
                self._replace(worker, waiting[0], len(chunks), deaths[waiting[0]])
            else:
                del running[ended]
                self._idle.append(worker)
        for at in range(len(chunks)):
            error = done[at][1]
            if error is not None:
                raise error
        return [done[at][0] for at in range(len(chunks))]

    def describe(self) -> str:
        """See ``Engine.describe``."""
        many = "1 worker" if self._count == 1 else f"{self._count:,} workers"
        where = "this machine" if self._address is None else f"the cluster at {self._address}"
        return f"{many} on {where}"

    def close(self) -> None:
        """See ``Engine.close``. What was started here is gone afterwards, its files too."""
        surroundings, self._surroundings = self._surroundings, None
        ray, self._ray = self._ray, None
        self._idle.clear()
        self._starting.clear()
        if surroundings is None:
            return
        try:
            if ray is not None:
                with surroundings.of_its_own():
                    ray.shutdown()
        finally:
            surroundings.restore()

    def _connect(self) -> None:
        """Load Ray, and start a cluster or join one."""
        starts = self._address is None
        self._surroundings = Surroundings(starts=starts)
        try:
            self._ray = _loaded(starts=starts)
            settings: dict[str, Any] = {"address": self._address}
            if starts:
                settings = {
                    "address": LOCAL_CLUSTER,
                    "num_cpus": self._wanted or processors(),
                    "include_dashboard": False,
                    "_temp_dir": self._surroundings.files,
                }
            with self._surroundings.of_its_own():
                self._ray.init(log_to_driver=False, logging_level=_ERRORS_ALONE, **settings)
        except (RuntimeError, ValueError, OSError) as error:
            self.close()
            raise EngineError(
                f"Ray does not start {'here' if starts else f'at {self._address}'}: "
                f"{_last_line(error)}",
                remedy="choose the engine local, or see that `ray status` works, with the "
                "RAY_AUTH_TOKEN of the cluster if it has one",
            ) from error
        except BaseException:
            self.close()
            raise
        self._actor = self._ray.remote(num_cpus=1)(Worker)
        self._count = self._wanted or max(1, int(self._ray.cluster_resources().get("CPU", 1)))

    def _add_worker(self) -> None:
        worker = self._actor.remote()
        self._starting[worker.keep.remote(self._kept)] = worker

    def _first_of(self, references: Mapping[Any, Any], seconds: float | None) -> Any:
        """Whichever ends first. EngineError where none does in time."""
        if not references:
            raise EngineError("no worker is left")
        ended, _ = self._ray.wait(list(references), num_returns=1, timeout=seconds)
        if not ended:
            raise EngineError(
                f"no worker has started within {seconds:g} s",
                remedy="see whether the cluster has free processors: `ray status`",
            )
        return ended[0]

    def _welcome(self, started: Any) -> None:
        """Take a worker in, or another one in its place if it died as it started."""
        worker = self._starting.pop(started)
        try:
            facts: Facts = self._ray.get(started)
        except self._ray.exceptions.RayError as error:
            self._failed_starts += 1
            if self._failed_starts >= ATTEMPTS:
                raise EngineError(
                    f"{ATTEMPTS} workers in a row died as they started: {_last_line(error)}",
                    remedy="install the same privrec on every machine of the cluster",
                ) from error
            self._add_worker()
            return
        self._failed_starts = 0
        self._facts.check(facts)
        if facts.probe != self._facts.probe and facts.machine not in self._odd_machines:
            self._odd_machines.add(facts.machine)
            self._tell(
                f"workers on {facts.machine} round otherwise than this process: the digest will "
                "not be that of one process"
            )
        self._idle.extend([worker] * SLOTS)

    def _replace(self, worker: Any, at: int, chunks: int, deaths: int) -> None:
        """Another worker for one that died over chunk ``at``, unless too many have."""
        if deaths >= ATTEMPTS:
            raise EngineError(
                f"{deaths} workers died over the same work, chunk {at + 1} of {chunks} of a round",
                remedy="see whether memory has run out",
            )
        self._tell(f"a worker died; its chunk, {at + 1} of {chunks} of a round, is done again")
        self._idle = deque(other for other in self._idle if other != worker)
        self._add_worker()


def host_of(address: str) -> str:
    """The host of HOST:PORT, or ``auto``. ParameterError for what is neither."""
    if address == "auto":
        return address
    host, _, port = address.rpartition(":")
    if not host or "/" in host or not (port.isascii() and port.isdecimal()):
        raise ParameterError(
            f"ray_address must be HOST:PORT or auto, got {address!r}",
            remedy="take the address that `ray start --head` printed",
        )
    return host


def _loaded(*, starts: bool) -> Any:
    """The module, unless it is of no use in this process."""
    try:
        import ray  # noqa: PLC0415 - it reads its environment when it is loaded
    except ModuleNotFoundError as error:
        if error.name != RAY:
            raise
        raise _missing() from None
    if ray.is_initialized():
        raise EngineError(
            "this process uses Ray already", remedy="call ray.shutdown() before the training"
        )
    # Where Ray was loaded before, what it takes for its address is decided.
    address: Any = ray.util.get_node_ip_address
    if starts and not address().startswith("127."):
        raise EngineError(
            "Ray was loaded before the engine, and would listen to other machines",
            remedy=f"train in a process of its own, or set {LOOPBACK}=0 before Python starts",
        )
    return ray


def _missing() -> MissingLibraryError:
    return MissingLibraryError(
        f"the engine {RAY} needs ray, which is not installed",
        remedy="pip install 'privrec[ray]', or choose the engine local",
    )


def _check_answer(address: str) -> None:
    """ParameterError where nothing listens, for which Ray would wait a minute."""
    port = int(address.rpartition(":")[2])
    try:
        socket.create_connection((host_of(address), port), timeout=_ANSWER_SECONDS).close()
    except (OSError, OverflowError) as error:
        raise ParameterError(
            f"no Ray cluster answers at {address} ({error})",
            remedy="start one with `ray start --head`, and take the address that it prints",
        ) from None


def _last_line(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[-1] if lines else type(error).__name__
