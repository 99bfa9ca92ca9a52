"""Runs the service by uvicorn: one process, or several that share one socket."""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import os
import signal
import socket
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.queues import SimpleQueue
from pathlib import Path
from types import FrameType

import uvicorn
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.config import STARTUP_FAILURE
from uvicorn.supervisors.multiprocess import Multiprocess, Process

from heliograph.errors import HeliographError, SettingsError, StoreUnavailable
from heliograph.monitoring.metrics import SharedMetrics, shared_folder
from heliograph.server.app import create_app
from heliograph.server.protocol import ProblemProtocol
from heliograph.server.request_log import configure_logging
from heliograph.server.requests import Drain
from heliograph.service.access import has_credentials
from heliograph.settings import ServerSettings, Settings

# Tells whether the application has started, and if not, why: by the error itself where Heliograph raised it.

StartReport = Callable[[HeliographError | None], None]
"""Told once how a start went: None if well, else what went wrong."""


_FAILURES = ("lifespan.startup.failed", "lifespan.shutdown.failed")


class PlainStartup:
    """Passes everything on, but spares two tracebacks.

    That of a start that failed for a reason Heliograph knows, and that of an end at once, by a second Ctrl-C. Any other
    is that of a defect, and stays.

    Args:
        app: What is to start.
        report: Told how that went.
    """

    def __init__(self, app: ASGIApp, report: StartReport) -> None:
        self._app = app
        self._report = report

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on; listen to what is said of the start."""
        if scope["type"] != "lifespan":
            await self._app(scope, receive, send)
            return
        failure: Message | None = None

        async def tell(message: Message) -> None:
            nonlocal failure
            if message["type"] in _FAILURES:
                # Held back: the error itself follows.
                failure = message
                return
            await send(message)
            if message["type"] == "lifespan.startup.complete":
                self._report(None)

        try:
            await self._app(scope, receive, tell)
        except BaseException as error:
            if failure is not None:
                await send({**failure, "message": self._reason(error, failure)})
            raise

    def _reason(self, error: BaseException, failure: Message) -> str:
        """Return what the log is told; an error that is reported is told by who gets the report."""
        if isinstance(error, asyncio.CancelledError):
            return "ended at once, before everything was closed"
        if isinstance(error, HeliographError) and failure["type"] == "lifespan.startup.failed":
            self._report(error)
            return ""
        return failure.get("message", "")


# Several processes that serve one socket: uvicorn's supervisor, which here also tells how their start went.
#
# A worker reports once: that it serves, or why it cannot. Until it has, it is not asked whether it is alive, since
# one that is starting does not answer; but only for a while, as one that hangs never reports.

_logger = logging.getLogger(__name__)

_UNASKED_SECONDS = 60.0
# So long a worker is left alone that could not start, or did not live, before another is tried.
_REST_SECONDS = 5.0


class Reports:
    """Where workers tell how their start went; it can be given to processes that are spawned."""

    def __init__(self) -> None:
        self._queue: SimpleQueue[tuple[int, HeliographError | None]] = get_context("spawn").SimpleQueue()

    def tell(self, error: HeliographError | None) -> None:
        """Say that this process serves, or why it cannot."""
        self._queue.put((os.getpid(), error))

    def take(self) -> list[tuple[int, HeliographError | None]]:
        """Return what has been told since the last time: by which process, and its error or None."""
        told: list[tuple[int, HeliographError | None]] = []
        while not self._queue.empty():
            told.append(self._queue.get())
        return told


class Workers(Multiprocess):
    """Runs the workers until told to stop, or until one of the first cannot start.

    One that is gone later is replaced; a replacement that cannot start is tried again, while the others serve.

    Args:
        config: What they serve, and how many there are.
        listener: The socket they share.
        reports: Where they tell how their start went.
        on_started: Called once all of them serve.

    Attributes:
        error: Why one of the first could not start.
        has_failed: Whether one of the first could not start for a reason that only the log tells.
    """

    def __init__(
        self, config: uvicorn.Config, listener: socket.socket, reports: Reports, on_started: Callable[[], None]
    ) -> None:
        super().__init__(config, [listener])
        self.error: HeliographError | None = None
        self.has_failed = False
        self._reports = reports
        self._on_started = on_started
        self._awaited = config.workers
        self._begun_seconds: dict[Process, float] = {}
        self._serving: set[int] = set()

    def init_processes(self) -> None:
        """Start the workers."""
        self.processes += [self._start() for _ in range(self.processes_num)]

    def handle_ttin(self) -> None:
        """Serve with one worker more."""
        self.processes_num += 1
        self.processes.append(self._start())

    def keep_subprocess_alive(self) -> None:
        """Take reports; then replace workers that are gone or hang, and stop if one of the first cannot start."""
        self._take_reports()
        self._forget_gone()
        for place, worker in enumerate(self.processes):
            if self.should_exit.is_set():
                return
            if not self._is_alive(worker):
                self._replace(place, worker)

    def _start(self) -> Process:
        worker = Process(self.config, self.sockets)
        # Ctrl-C, which reaches all processes of a terminal, is this one's to hear; what is blocked here stays blocked
        # in a process that is spawned.
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            worker.start()
        finally:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
        self._begun_seconds[worker] = time.monotonic()
        return worker

    def _take_reports(self) -> None:
        for process_id, error in self._reports.take():
            if error is None:
                self._serving.add(process_id)
            if self._awaited > 0:
                self._take_first(error)
            elif error is not None:
                _logger.error("a worker that was to replace another cannot start: %s", error)

    def _forget_gone(self) -> None:
        """Keep notes of those workers only that are there: others were replaced or, at a signal, retired."""
        self._begun_seconds = {
            worker: self._begun_seconds[worker] for worker in self.processes if worker in self._begun_seconds
        }
        self._serving &= {worker.pid for worker in self.processes if worker.pid}

    def _take_first(self, error: HeliographError | None) -> None:
        if error is not None:
            self.error = self.error or error
            self.should_exit.set()
            return
        self._awaited -= 1
        if self._awaited == 0:
            self._on_started()

    def _is_alive(self, worker: Process) -> bool:
        is_starting = worker.pid not in self._serving and self._age_seconds(worker) < _UNASKED_SECONDS
        return worker.process.is_alive() if is_starting else worker.is_alive(self.config.timeout_worker_healthcheck)

    def _age_seconds(self, worker: Process) -> float:
        return time.monotonic() - self._begun_seconds.setdefault(worker, time.monotonic())

    def _replace(self, place: int, worker: Process) -> None:
        if worker.process.is_alive():
            _logger.warning("worker %s does not answer and is ended", worker.pid)
            worker.kill()
            worker.join()
        if worker.exitcode == STARTUP_FAILURE and self._awaited > 0:
            # Its report, if it made one, may have come since.
            self._take_reports()
            self.has_failed = self.error is None
            self.should_exit.set()
        elif self._age_seconds(worker) >= _REST_SECONDS:
            _logger.warning("worker %s is gone (%s); another takes its place", worker.pid, worker.exitcode)
            self.processes[place] = self._start()


_BACKLOG = 2048
_KEEP_ALIVE_SECONDS = 30
# One that is killed while it is asked is missed after this long; one that hangs as well.
_WORKER_ANSWER_SECONDS = 10
_SIGNALS = (signal.SIGTERM, signal.SIGINT)


def run_server(settings: Settings, announce: Callable[[str], None]) -> int:
    """Serve until told to stop, and return the exit code: 0, or 1 if a defect, which the log tells, kept it from that.

    Args:
        settings: Where to listen, and everything else.
        announce: Told the address once requests are served.

    Raises:
        SettingsError: Nobody would be asked for credentials on an address that others reach, or they are not valid.
        StoreUnavailable: The address cannot be listened on.
        HeliographError: It could not start.
    """
    check_exposure(settings)
    listener = _bind(settings.server)
    configure_logging(settings.server)
    with listener:
        address = _address(listener, settings.server)
        run = _run_workers if settings.server.workers > 1 else _run_alone
        return run(settings, listener, lambda: announce(address))


def _run_workers(settings: Settings, listener: socket.socket, on_started: Callable[[], None]) -> int:
    # Workers tell that they serve before they listen; that the port is taken shows here, once and in time.
    with _listening_errors(settings.server):
        listener.listen(_BACKLOG)
    # A process that is spawned looks for modules in the working folder until it has the path of this one.
    os.putenv("PYTHONSAFEPATH", "1")
    reports = Reports()
    with shared_folder() as folder:
        workers = Workers(_config(settings, reports.tell, folder), listener, reports, on_started)
        workers.run()
    if workers.error is not None:
        raise workers.error
    return int(workers.has_failed)


def _run_alone(settings: Settings, listener: socket.socket, on_started: Callable[[], None]) -> int:
    errors: list[HeliographError] = []
    config = _config(settings, lambda error: errors.extend([error] if error else []))
    server = _Server(config, settings.server, on_started)
    _run_until_told(server, listener)
    if errors:
        raise errors[0]
    return 0 if server.started else 1


class _Server(uvicorn.Server):
    """Says when it serves."""

    def __init__(self, config: uvicorn.Config, settings: ServerSettings, on_started: Callable[[], None]) -> None:
        super().__init__(config)
        self._settings = settings
        self._on_started = on_started

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        with _listening_errors(self._settings):
            try:
                await super().startup(sockets)
            except OSError:
                # Another process began to listen while this one opened its stores.
                await self.lifespan.shutdown()
                raise
        if not self.should_exit:
            self._on_started()


def _run_until_told(server: uvicorn.Server, listener: socket.socket) -> None:
    """Serve until a signal, also one that comes before uvicorn listens to them.

    The signal that ends it, which uvicorn raises again when all is closed, then has nothing left to end.
    """

    def stop(received: int, frame: FrameType | None) -> None:  # noqa: ARG001
        server.should_exit = True

    before = {number: signal.signal(number, stop) for number in _SIGNALS}
    try:
        server.run([listener])
    except SystemExit:
        # It could not start: why has been reported, or is in the log.
        pass
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def check_exposure(settings: Settings) -> None:
    """Refuse to be reached by others without credentials.

    Raises:
        SettingsError: That is what the settings ask for.
    """
    server = settings.server
    if not (server.insecure or has_credentials(settings) or is_loopback(server.host)):
        raise SettingsError(
            f"listening on {server.host!r} without credentials would let everybody on the network read and change "
            "everything; set server.api_key, server.keys or server.accounts ('heliograph make-key' makes a key), "
            "listen on 127.0.0.1, or say --insecure"
        )


def describe_names(settings: Settings) -> str:
    """Return which host names are answered, for who starts the service; empty where that is as the default is."""
    former = "; mcp.allowed_hosts is now called server.allowed_hosts" if settings.mcp.allowed_hosts else ""
    if hosts := settings.allowed_hosts:
        return f"answering by {', '.join(hosts)} and by the names and addresses of this machine{former}"
    if is_loopback(settings.server.host):
        return ""
    return "answering by any host name; name those of the service by --allowed-host or in server.allowed_hosts"


def is_loopback(host: str) -> bool:
    """Whether an address is reached from this machine alone."""
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        # Another name could come to mean another address.
        return host == "localhost"


@dataclass(frozen=True, slots=True)
class _Factory:
    """Makes the application in whichever process is to serve."""

    settings: Settings
    report: StartReport
    metrics_folder: Path | None

    def __call__(self) -> ASGIApp:
        configure_logging(self.settings.server)
        shared = None if self.metrics_folder is None else SharedMetrics(self.metrics_folder)
        app = create_app(self.settings, shared=shared)
        for number in _SIGNALS:
            _begin_drain_on(number, app.state.drain)
        return PlainStartup(app, self.report)


def _begin_drain_on(number: int, drain: Drain) -> None:
    """Tell requests that the end is near before uvicorn's own handler, which is in place by now, takes over."""
    before = signal.getsignal(number)
    loop = asyncio.get_running_loop()

    def handle(received: int, frame: FrameType | None) -> None:
        loop.call_soon_threadsafe(drain.begin)
        if callable(before):
            before(received, frame)

    signal.signal(number, handle)


def _config(settings: Settings, report: StartReport, metrics_folder: Path | None = None) -> uvicorn.Config:
    server = settings.server
    return uvicorn.Config(
        _Factory(settings, report, metrics_folder),
        factory=True,
        backlog=_BACKLOG,
        host=server.host,
        port=server.port,
        workers=server.workers,
        http=ProblemProtocol,
        ws="none",
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        # Given here, the prefix is before the path that the application sees as well, as mounted pages need it.
        root_path=server.root_path.rstrip("/"),
        proxy_headers=bool(server.trusted_proxies),
        forwarded_allow_ips=list(server.trusted_proxies),
        timeout_keep_alive=_KEEP_ALIVE_SECONDS,
        timeout_worker_healthcheck=_WORKER_ANSWER_SECONDS,
        timeout_graceful_shutdown=max(1, round(server.shutdown_seconds * 0.9)),
    )


def _bind(settings: ServerSettings) -> socket.socket:
    host = settings.host.strip("[]")
    with _listening_errors(settings):
        found = socket.getaddrinfo(host, settings.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, kind, protocol, _, address = found[0]
        listener = socket.socket(family, kind, protocol)
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(address)
            listener.set_inheritable(True)
        except OSError:
            listener.close()
            raise
    return listener


@contextmanager
def _listening_errors(settings: ServerSettings) -> Generator[None]:
    try:
        yield
    except OSError as error:
        raise StoreUnavailable(
            f"cannot listen on {settings.host!r} port {settings.port} ({error.strerror}); "
            "choose others by --host and --port"
        ) from error


def _address(listener: socket.socket, settings: ServerSettings) -> str:
    host, port = listener.getsockname()[:2]
    shown = f"[{host}]" if ":" in host else host
    return f"http://{shown}:{port}{settings.root_path}"
