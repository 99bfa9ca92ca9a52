"""Workers as actors of Ray: the only module that knows Ray, its addresses, its options and its exceptions.

A cluster of this machine alone listens on loopback, writes into a folder of its own below the system's temporary
one, shows no dashboard, sends no usage data, and ends with its last user in this process. Ray ends a cluster's
processes together with the thread that started them, so a thread of its own (`OwnThread`) starts it and lives as long.
"""

from __future__ import annotations

import asyncio
import logging
import os
import pickle
import re
import shutil
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from queue import SimpleQueue
from threading import Thread
from typing import Any

from heliograph.distributed.messages import Launcher, Worker, WorkerLostError, WorkerSetup
from heliograph.distributed.worker import ReadingWorker
from heliograph.errors import ClusterUnavailable, MissingDependencyError
from heliograph.settings import RaySettings

_Order = tuple[Callable[[], None], Future[None]]


class OwnThread:
    """Runs work items one after the other in a daemon thread."""

    def __init__(self, name: str) -> None:
        self._orders: SimpleQueue[_Order | None] = SimpleQueue()
        Thread(target=self._serve, name=name, daemon=True).start()

    def run(self, work: Callable[[], None]) -> None:
        """Run a function in the thread and wait for it; its exceptions are raised here."""
        done: Future[None] = Future()
        self._orders.put((work, done))
        done.result()

    def end(self) -> None:
        """End the thread after its current work."""
        self._orders.put(None)

    def _serve(self) -> None:
        while (order := self._orders.get()) is not None:
            work, done = order
            try:
                work()
            except BaseException as error:  # noqa: BLE001 (it is raised where the work was given)
                done.set_exception(error)
            else:
                done.set_result(None)


_log = logging.getLogger(__name__)

_LOOPBACK = "127.0.0.1"
# Tasks pass through it; what does not fit is written to disk.
_OBJECT_STORE_BYTES = 256 * 1024 * 1024
# More than a pool ever has in progress on one worker.
_CALLS_PER_WORKER = 1_000
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_LONGEST_SAID = 400
_REACH_SECONDS = 10.0
# Exceptions that mean the loss of one worker or its machine, not of the cluster.
_LOST = (
    "RayActorError",
    "WorkerCrashedError",
    "NodeDiedError",
    "ObjectLostError",
    "OutOfMemoryError",
    "AsyncioActorExit",
    "TaskCancelledError",
)


def check_ray() -> None:
    """Check that Ray is installed, without loading it; raises `MissingDependencyError` if not."""
    if find_spec("ray") is None:
        raise MissingDependencyError("ray", "ray")


def translate(error: Exception) -> Exception:
    """Return our error for an exception of Ray: a lost worker, or a cluster that cannot be used.

    An exception of a worker's own code is returned unchanged: Ray restores its class.
    """
    exceptions = import_module("ray.exceptions")
    said = _said(error)
    if isinstance(error, exceptions.ActorUnschedulableError | exceptions.ActorPlacementGroupRemoved):
        return ClusterUnavailable(f"the cluster has no place for a worker ({said}); lower ray.workers")
    if isinstance(error, tuple(getattr(exceptions, name) for name in _LOST)):
        return WorkerLostError(said)
    if isinstance(error, exceptions.RayTaskError):
        return error
    return ClusterUnavailable(f"the Ray cluster failed ({said}); see that it runs, then run resume to go on")


def _said(error: Exception) -> str:
    """Return an exception's message in one line, without colours and traceback marks."""
    words = [word for word in _COLOUR.sub("", str(error)).split() if word.strip("^~")]
    text = " ".join(words).partition(" Some common causes include")[0] or type(error).__name__
    if len(text) <= _LONGEST_SAID:
        return text
    # The beginning shows how it started, the end what failed.
    half = _LONGEST_SAID // 2
    return f"{text[:half]} ... {text[-half:]}"


class RayLauncher(Launcher):
    """Starts workers as actors, spread over the machines of a cluster, one core each."""

    def __init__(self, settings: RaySettings) -> None:
        self._settings = settings
        self._is_open = False

    async def open(self) -> int:
        if not self._is_open:
            self._is_open = True
            try:
                await asyncio.to_thread(_CONNECTION.acquire, self._settings)
            except BaseException:
                self._is_open = False
                raise
        resources = import_module("ray").cluster_resources
        return self._settings.workers or max(1, int((await asyncio.to_thread(resources)).get("CPU", 0)))

    async def start(self, setup: WorkerSetup) -> Worker:
        return await asyncio.to_thread(_start_actor, setup)

    async def close(self) -> None:
        if self._is_open:
            self._is_open = False
            await asyncio.to_thread(_CONNECTION.release)


class _ReadingActor(ReadingWorker):
    """A worker as Ray creates it, from a `WorkerSetup` that was pickled by us to report what cannot be pickled."""

    def __init__(self, setup: bytes) -> None:
        # It comes from the process that owns the cluster, as this class does.
        super().__init__(pickle.loads(setup))  # noqa: S301


class _RayWorker(Worker):
    """An actor, by its handle."""

    def __init__(self, actor: Any) -> None:
        self._actor = actor

    async def call(self, method: str, *arguments: object) -> Any:
        ray = import_module("ray")
        try:
            return await getattr(self._actor, method).remote(*arguments)
        except ray.exceptions.RayError as error:
            raise translate(error) from error

    def tell(self, method: str, *arguments: object) -> None:
        if import_module("ray").is_initialized():
            getattr(self._actor, method).remote(*arguments)

    def kill(self) -> None:
        ray = import_module("ray")
        if ray.is_initialized():
            ray.kill(self._actor)


def _start_actor(setup: WorkerSetup) -> Worker:
    ray = import_module("ray")
    options = {
        "num_cpus": 1,
        "max_restarts": 0,
        "max_task_retries": 0,
        "max_concurrency": _CALLS_PER_WORKER,
        "scheduling_strategy": "SPREAD",
    }
    try:
        pickled = import_module("ray.cloudpickle").dumps(setup)
    except (TypeError, AttributeError, ValueError, pickle.PicklingError) as error:
        raise ClusterUnavailable(
            f"a model or extractor that was given cannot be sent to workers ({error}); give one that can be pickled, "
            "or name it in the settings, or leave ingest.engine at 'local'"
        ) from error
    try:
        return _RayWorker(ray.remote(**options)(_ReadingActor).remote(pickled))
    except ray.exceptions.RayError as error:
        raise translate(error) from error


class _Connection:
    """This process's connection to Ray, shared by all users; methods block and may be called from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._users = 0
        # Set while the connection is ours.
        self._thread: OwnThread | None = None
        self._folder = ""

    def acquire(self, settings: RaySettings) -> None:
        """Connect, unless connected already.

        Raises:
            ClusterUnavailable: The cluster cannot be reached or started.
            MissingDependencyError: Ray is not installed.
        """
        with self._lock:
            check_ray()
            ray = import_module("ray")
            if not ray.is_initialized():
                logging.getLogger("ray").setLevel(logging.ERROR)
                # Ray prints workers' events to standard output, between the results of commands; the pool reports them
                # instead.
                printing: Any = import_module("ray._private.worker")
                printing.print_to_stdstream = _note
                thread = OwnThread("heliograph-ray")
                try:
                    thread.run(lambda: self._connect(ray, settings))
                except BaseException:
                    thread.end()
                    raise
                self._thread = thread
            self._users += 1

    def release(self) -> None:
        """Disconnect if no other user is left and the connection was made here; end a cluster started here."""
        with self._lock:
            self._users -= 1
            thread = self._thread
            if self._users or thread is None:
                return
            self._thread = None
            thread.run(import_module("ray").shutdown)
            thread.end()
            self._remove_folder()

    def _connect(self, ray: Any, settings: RaySettings) -> None:
        until = time.monotonic() + settings.start_timeout_seconds
        while True:
            try:
                if settings.address:
                    # Ray itself retries for minutes if there is no listener at an address.
                    host, mark, port = settings.address.rpartition(":")
                    if mark and host and port.isdigit() and "://" not in settings.address:
                        socket.create_connection((host.strip("[]"), int(port)), _REACH_SECONDS).close()
                    self._folder = tempfile.mkdtemp(prefix="ray-")
                    script_folder = os.path.dirname(os.path.realpath(sys.argv[0]))  # noqa: PTH120 (as Ray finds it)
                    ray.init(
                        address=settings.address,
                        log_to_driver=False,
                        configure_logging=False,
                        runtime_env=_runtime_env(self._folder, [path for path in sys.path if path == script_folder]),
                    )
                else:
                    self._start_local(ray, settings)
            except Exception as error:  # Ray raises bare ones here.
                ray.shutdown()
                self._remove_folder()
                # A busy machine may be slower than Ray waits.
                if settings.address or "timed out" not in str(error) or time.monotonic() >= until:
                    raise _not_connected(settings.address, error) from error
            else:
                return

    def _start_local(self, ray: Any, settings: RaySettings) -> None:
        # Socket paths must be short, and Ray's own folder below this one is long.
        self._folder = tempfile.mkdtemp(prefix="ray-")
        import_module("ray._common.usage.usage_lib").set_usage_stats_enabled_via_env_var(False)
        # Otherwise Ray uses an address that others can reach, without access control.
        constants: Any = import_module("ray._private.ray_constants")
        before, constants.ENABLE_RAY_CLUSTER = constants.ENABLE_RAY_CLUSTER, False
        try:
            ray.init(
                address="local",
                num_cpus=settings.workers or os.cpu_count() or 1,
                object_store_memory=_OBJECT_STORE_BYTES,
                include_dashboard=False,
                log_to_driver=False,
                configure_logging=False,
                runtime_env=_runtime_env(self._folder, [path or str(Path.cwd()) for path in sys.path]),
                _node_ip_address=_LOOPBACK,
                _temp_dir=self._folder,
                # Ray would run its workers at a lower priority than everything else on the machine.
                _system_config={"worker_niceness": 0},
            )
        finally:
            constants.ENABLE_RAY_CLUSTER = before
        at = ray.util.get_node_ip_address()
        if at != _LOOPBACK:
            raise RuntimeError(f"it listens at {at} in place of {_LOOPBACK}, where anybody could give it work")

    def _remove_folder(self) -> None:
        folder, self._folder = self._folder, ""
        if folder:
            shutil.rmtree(folder, ignore_errors=True)


_CONNECTION = _Connection()


def _runtime_env(folder: str, path: Sequence[str]) -> dict[str, Any]:
    """Return the runtime environment of workers: they import the same modules from the same places as this process.

    By default, Ray makes them look for modules in this process's working folder first, even if this process does not.
    An empty folder replaces it.
    """
    empty = Path(folder) / "empty"
    empty.mkdir()
    return {"working_dir": str(empty), "env_vars": {"PYTHONPATH": os.pathsep.join(path)}}


def _not_connected(address: str, error: Exception) -> ClusterUnavailable:
    said = _said(error)
    if address:
        return ClusterUnavailable(
            f"the Ray cluster at {address!r} cannot be reached ({said}); check ray.address, that it runs ('ray status "
            f"--address {address}'), that this machine has the same versions of Ray and Python, and, if it asks for a "
            "token, that RAY_AUTH_MODE=token is set"
        )
    return ClusterUnavailable(
        f"a Ray cluster cannot be started on this machine ({said}); see that it has memory free, and that the path of "
        f"the temporary folder {tempfile.gettempdir()!r} is short, or set TMPDIR; or leave ingest.engine at 'local'"
    )


def _note(data: dict[str, Any], *_: object, **__: object) -> None:
    for line in data.get("lines", ()):
        _log.debug("ray: %s", line)
