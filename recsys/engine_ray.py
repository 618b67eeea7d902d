"""An engine whose workers are Ray actors, on this machine or on all machines of a cluster.

A worker is a process of its own. It gets what a training shares once, when it starts, and then one
chunk after the other, whichever comes next. If it dies, its chunk is done again by another one; a
chunk over which several have died is given up, with an EngineError.

Model: a Ray cluster trusts whoever reaches its ports with all that it holds, and to run any code. A
    cluster that is started here listens on the loopback address alone, and wants a token that only
    this process and its children know, so that no other user of the machine gets in. One that was
    started elsewhere is as safe as its owner made it.
Leaks: no usage statistics, and no probes for the clouds that this machine might be in.
"""

import os
import shutil
import signal
import socket
import tempfile
import threading
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

from mpc.core.checks import integer
from mpc.core.errors import MissingLibraryError, ParameterError, StateError, ToolkitError
from mpc.core.rng import SYSTEM_RNG
from recsys.engine import RAY, ChunkT, CurrentT, Engine, PartT, Shared, SharedT
from recsys.errors import EngineError

ATTEMPTS = 3
"""Workers that may die over one chunk, or in a row as they start, before it is an error."""

SLOTS = 2
"""Chunks that a worker has at a time: the next one is there when it ends one."""

START_SECONDS = 120.0
"""How long a worker may take to start, before none counts as coming."""

_ANSWER_SECONDS = 10.0
_ERRORS_ALONE = 40  # the level of errors in Python's logging
_LONGEST_FOLDER = 20
"""Characters: a socket below the temporary folder has about 80 more, and may have 103."""

_ONE_THREAD = dict.fromkeys(
    ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS"), "1"
)
"""A worker has one processor."""

_QUIET = {
    "RAY_USAGE_STATS_ENABLED": "0",
    # What workers and machines say would else come to our output, which may be one JSON object.
    "RAY_DEDUP_LOGS": "1",
    "RAY_DEDUP_LOGS_SKIP_REGEX": ".",
    "RAY_IGNORE_UNHANDLED_ERRORS": "1",
    # Else Ray warns that it will some day leave variables of accelerators alone.
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
}
_LOOPBACK = {"RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0"}
"""Ray then takes 127.0.0.1 for the address of this machine, on Linux too."""

_CLUSTER_FILE = "cluster_name: x\nprovider: {type: local}\navailable_node_types: {}\n"
"""In the home folder, it keeps Ray from asking the metadata servers of clouds."""

_LIBRARIES = ("privrec", "ray", "numpy", "scipy", "torch")


@dataclass(frozen=True)
class Facts:
    """What a worker says of itself. versions: of Python and of what it computes with."""

    machine: str
    versions: Mapping[str, str]
    probe: bytes


class Worker:
    """What runs in a worker's process."""

    def keep(self, shared: Shared) -> Facts:
        """Take what a training shares, in place of an earlier one's; the worker is then ready."""
        self._shared = shared
        return Facts(socket.gethostname(), versions(), shared.probe())

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
        self._address = address
        self._host = "" if address is None else host_of(address)
        self._tell = tell
        self._ray: Any = None
        self._folder: Path | None = None
        self._variables: dict[str, str | None] = {}
        self._count = 0
        self._idle = deque[Any]()
        self._starting: dict[Any, Any] = {}
        self._failed_starts = 0
        self._odd_machines: set[str] = set()

    def start(self, shared: Shared) -> None:
        """See ``Engine.start``. It returns when the first worker is ready; others may join later.

        A second call begins another training, with the same workers.

        Raises MissingLibraryError without Ray, ParameterError where no cluster answers, and
        EngineError where a worker has other versions of what it computes with.
        """
        if self._ray is None:
            check_ray(self._wanted, self._address)
            self._connect()
        workers = dict.fromkeys([*self._idle, *self._starting.values()])
        self._idle.clear()
        self._starting.clear()
        self._facts = Facts(socket.gethostname(), versions(), shared.probe())
        self._kept = self._ray.put(shared)
        for worker in workers:
            self._starting[worker.keep.remote(self._kept)] = worker
        while len(self._starting) < self._count:
            self._add_worker()
        while not self._idle:
            self._welcome(self._first_of(self._starting, START_SECONDS))
        if not workers:
            self._tell(f"engine {self.name}: {self.describe()}")

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
            ended = self._first_of(
                {**running, **self._starting}, None if running else START_SECONDS
            )
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
        return f"{many} on {'this machine' if self._address is None else f'{self._address}'}"

    def close(self) -> None:
        """See ``Engine.close``. What was started here is gone afterwards, its files too."""
        ray, self._ray = self._ray, None
        if ray is not None:
            with _own_handlers():
                ray.shutdown()
        for name, value in self._variables.items():
            _set(name, value)
        self._variables = {}
        self._idle.clear()
        self._starting.clear()
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = None

    def _connect(self) -> None:
        """Load Ray, and start a cluster or join one."""
        local = self._address is None
        loopback = local or self._host.startswith("127.") or self._host in ("localhost", "auto")
        self._folder = _private_folder()
        wanted = {**_QUIET, **(_LOOPBACK if loopback else {})}
        if local:
            # A cluster that a variable names is for others.
            wanted |= {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": _token(), "RAY_ADDRESS": ""}
            wanted |= _ONE_THREAD
        self._variables = {name: os.environ.get(name) for name in wanted}
        for name, value in wanted.items():
            _set(name, value or None)
        try:
            import ray  # noqa: PLC0415 - it reads its environment when it is loaded
        except ModuleNotFoundError as error:
            self.close()
            if error.name != "ray":
                raise
            raise missing() from None
        home = os.environ.get("HOME")
        _set("HOME", str(self._folder / "home"))
        try:
            self._check_process(ray, loopback=loopback)
            with _own_handlers():
                ray.init(
                    address="local" if local else self._address,
                    num_cpus=self._wanted or _processors() if local else None,
                    include_dashboard=False if local else None,
                    log_to_driver=False,
                    logging_level=_ERRORS_ALONE,
                    _temp_dir=str(self._folder) if local else None,
                )
        except ToolkitError:
            self.close()
            raise
        except (ConnectionError, RuntimeError, ValueError, OSError) as error:
            ray.shutdown()
            self.close()
            where = "here" if local else f"at {self._address}"
            raise EngineError(
                f"Ray does not start {where}: {_last_line(error)}",
                remedy="train with the engine local, or see that `ray status` works there",
            ) from error
        finally:
            _set("HOME", home)
        self._ray = ray
        self._actor = ray.remote(num_cpus=1)(Worker)
        self._count = self._wanted or max(1, int(ray.cluster_resources().get("CPU", 1)))

    def _check_process(self, ray: Any, *, loopback: bool) -> None:
        if ray.is_initialized():
            raise EngineError(
                "this process uses Ray already", remedy="call ray.shutdown() before the training"
            )
        # Where Ray was loaded before, what it takes for its address is decided.
        if loopback and not ray.util.get_node_ip_address().startswith("127."):
            raise EngineError(
                "Ray was loaded before the engine, and would listen to other machines",
                remedy="train in a process of its own, or set "
                f"{next(iter(_LOOPBACK))}=0 before Python starts",
            )

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
        self._compare(facts)
        self._idle.extend([worker] * SLOTS)

    def _compare(self, facts: Facts) -> None:
        for name, version in self._facts.versions.items():
            other = facts.versions.get(name)
            if other != version:
                raise EngineError(
                    f"a worker on {facts.machine} has {name} {other}, and this process {version}",
                    remedy="install the same versions on every machine of the cluster",
                )
        if facts.probe != self._facts.probe and facts.machine not in self._odd_machines:
            self._odd_machines.add(facts.machine)
            self._tell(
                f"workers on {facts.machine} round otherwise than this process: the digest will "
                "not be that of one process"
            )

    def _replace(self, worker: Any, at: int, chunks: int, deaths: int) -> None:
        """Another worker for one that died over chunk ``at``, unless too many have."""
        if deaths >= ATTEMPTS:
            raise EngineError(
                f"{deaths} workers died over the same work, chunk {at + 1} of {chunks} of a round",
                remedy="a smaller chunk takes less memory",
            )
        self._tell(f"a worker died; its chunk, {at + 1} of {chunks} of a round, is done again")
        self._idle = deque(other for other in self._idle if other != worker)
        self._add_worker()


def check_ray(workers: int | None, address: str | None) -> None:
    """What can be known before anything is started: raises as ``RayEngine`` and its ``start`` do."""
    host = RayEngine(workers, address)._host
    try:
        metadata.version("ray")
    except metadata.PackageNotFoundError:
        raise missing() from None
    if address is not None and host != "auto":
        _check_answer(address)


def missing() -> MissingLibraryError:
    """The error where Ray is not installed."""
    return MissingLibraryError(
        f"the engine {RAY} needs ray, which is not installed",
        remedy="pip install 'privrec[ray]', or train with the engine local",
    )


def host_of(address: str) -> str:
    """The host of an address, or ``auto``. ParameterError for what is neither that nor HOST:PORT."""
    host, colon, port = address.rpartition(":")
    if address == "auto":
        return address
    if not colon or not host or "/" in host or not (port.isascii() and port.isdecimal()):
        raise ParameterError(
            f"ray_address must be HOST:PORT or auto, got {address!r}",
            remedy="take the address that `ray start --head` printed",
        )
    return host


def versions() -> dict[str, str]:
    """Of Python's minor release and of the libraries that decide what comes out."""
    found = {"Python": ".".join(map(str, _python()))}
    for name in _LIBRARIES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            found[name] = "none"
    return found


def _python() -> tuple[int, int]:
    import sys  # noqa: PLC0415

    return sys.version_info[:2]


def _check_answer(address: str) -> None:
    """ParameterError where nothing listens, which Ray would wait a minute for."""
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host, int(port)), timeout=_ANSWER_SECONDS).close()
    except OSError as error:
        raise ParameterError(
            f"no Ray cluster answers at {address} ({error.strerror or error})",
            remedy="start one with `ray start --head`, and take the address that it prints",
        ) from None


@cache
def _token() -> str:
    """What a cluster of this process wants to see; Ray reads it once in a process."""
    return SYSTEM_RNG.bytes(32).hex()


def _private_folder() -> Path:
    """For Ray's files, readable by its owner alone, with a home folder in it."""
    base = tempfile.gettempdir()
    folder = Path(tempfile.mkdtemp("", "privrec-ray-", base if len(base) < _LONGEST_FOLDER else "/tmp"))
    (folder / "home").mkdir()
    (folder / "home" / "ray_bootstrap_config.yaml").write_text(_CLUSTER_FILE)
    return folder


def _processors() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@contextmanager
def _own_handlers() -> Iterator[None]:
    """SIGTERM is handled afterwards as it was before; Ray takes it over."""
    before = signal.getsignal(signal.SIGTERM)
    try:
        yield
    finally:
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, before)


def _set(name: str, value: str | None) -> None:
    if value is None:
        with suppress(KeyError):
            del os.environ[name]
    else:
        os.environ[name] = value


def _last_line(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[-1] if lines else type(error).__name__
