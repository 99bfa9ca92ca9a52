"""Runs the service by uvicorn: one process, or several that share one socket.

In order: HTTP/1.1 stricter than uvicorn's, the log, reporting the start, several workers, and the server itself.
"""

from __future__ import annotations

import asyncio
import ipaddress
import json
import logging
import math
import os
import re
import resource
import signal
import socket
import sys
import time
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from http import HTTPStatus
from multiprocessing import get_context
from multiprocessing.queues import SimpleQueue
from pathlib import Path
from types import FrameType
from typing import Any

import h11
import uvicorn
from prometheus_client.multiprocess import mark_process_dead
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.config import STARTUP_FAILURE
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.supervisors.multiprocess import Multiprocess, Process

from heliograph.errors import HeliographError, SettingsError, StoreUnavailable
from heliograph.monitoring.monitoring import shared_folder
from heliograph.observing import REQUEST_ID
from heliograph.server.app import create_app
from heliograph.server.requests import Drain
from heliograph.service.access import has_credentials
from heliograph.settings import ServerSettings, Settings

# HTTP/1.1 by uvicorn, but stricter, since a proxy in front of the service may interpret the same bytes differently.
#
# Bytes that are not HTTP (an unreadable line, an address or headers that are too long) never reach the application, and
# are refused with a problem body like everything else. So is a head that two parsers could read as two requests
# (RFC 9112, 2.2, 5.2 and 6.3): lengths given twice or beside `Transfer-Encoding`, lines that end in a lone CR or LF,
# folded lines. For the same reason a request with a chunked body is the last of its connection.
#
# A client that owes the rest of a request and sends next to nothing for half a minute is disconnected, and connections
# per address are limited, so that no client takes all of them.

HEADER_BYTES = 32_768
_MOST_HEADERS = 100
_DETAIL = (
    f"the request is not HTTP/1.1, or its address and headers are longer than {HEADER_BYTES // 1024} KiB or more than "
    f"{_MOST_HEADERS}, or they can be read in two ways; send a shorter or proper one"
)
_WANTED_FILES = 65_536
_FILES, _MOST_FILES = resource.getrlimit(resource.RLIMIT_NOFILE)
_TOO_MANY = "this address has as many connections open as one may; close some, or use them again"
_LONE_END = re.compile(rb"\r(?!\n)|(?<!\r)\n")
_FOLDED = re.compile(rb"\r\n[ \t]")
_LENGTH = re.compile(rb"\r\ncontent-length:[ \t]*([^\r]*)", re.IGNORECASE)


class _StrictConnection(h11.Connection):
    """Parses one connection, and refuses heads that h11 alone would tolerate."""

    def next_event(self) -> Any:
        if self.their_state is not h11.IDLE:
            return super().next_event()
        before, _ = self.trailing_data
        event = super().next_event()
        if isinstance(event, h11.Request):
            after, _ = self.trailing_data
            _check_head(before[: len(before) - len(after)], event)
        return event


def _check_head(head: bytes, request: h11.Request) -> None:
    """Refuse a head that is ambiguous as received, or larger than it looks once it is parsed."""
    # Bytes that arrive at once are parsed before h11 checks their length.
    if len(head) > HEADER_BYTES or len(request.headers) > _MOST_HEADERS:
        raise h11.RemoteProtocolError("the head is too long", error_status_hint=431)
    if _LONE_END.search(head) or _FOLDED.search(head):
        raise h11.RemoteProtocolError("a line of the head does not end in CR LF, or is folded")
    lengths = _LENGTH.findall(head)
    if len(lengths) > 1 or not all(length.strip().isdigit() for length in lengths):
        raise h11.RemoteProtocolError("Content-Length is told more than once")
    if _is_in_chunks(request.headers) and (lengths or request.http_version < b"1.1"):
        raise h11.RemoteProtocolError("Transfer-Encoding stands beside Content-Length, or in HTTP/1.0")


def _is_in_chunks(headers: Iterable[tuple[bytes, bytes]]) -> bool:
    return any(name == b"transfer-encoding" for name, _ in headers)


class ProblemProtocol(H11Protocol):
    """One connection."""

    patience_seconds = 30.0
    least_bytes = 1024
    # Half of the files that the process can open, if that is limited.
    most_of_one_address = max(64, _FILES // 2) if _FILES > 0 else 65_536

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Start to watch how fast requests arrive, unless the address has too many connections."""
        super().connection_made(transport)
        self.conn = _StrictConnection(h11.SERVER, HEADER_BYTES)
        # Since when a request is owed, and bytes received since; None while none is.
        self._owed_since: float | None = self.loop.time()
        self._received = 0
        self._watch()
        known = (getattr(other, "client", None) for other in self.connections)
        if self.client and sum(bool(c) and c[0] == self.client[0] for c in known) > self.most_of_one_address:
            self._refuse(HTTPStatus.TOO_MANY_REQUESTS, "Too many connections", _TOO_MANY)

    def data_received(self, data: bytes) -> None:
        """Receive data, and count it."""
        if self._owed_since is None:
            self._owe()
        before = self.cycle
        self._received += len(data)
        super().data_received(data)
        if not self._is_owed():
            self._owed_since = None
        elif self.cycle is not before:
            # The head is complete; the body has a time limit of its own.
            self._owe()

    def handle_events(self) -> None:
        """Pass received events on; bytes after a chunked body are not read as a request, wherever it ended."""
        before = self.cycle
        super().handle_events()
        if self.cycle is not before and _is_in_chunks(self.headers):
            self.cycle.default_headers = [*self.cycle.default_headers, (b"connection", b"close")]

    def send_400_response(self, msg: str) -> None:
        """Refuse an unreadable request, and close the connection."""
        self._refuse(HTTPStatus.BAD_REQUEST, msg, _DETAIL)

    def _refuse(self, status: HTTPStatus, title: str, detail: str) -> None:
        if self.conn.our_state not in (h11.IDLE, h11.SEND_RESPONSE):
            # A response has begun, so breaking it off is the only way to report the error.
            self.transport.close()
            return
        body = {"type": "about:blank", "title": title, "status": status, "detail": detail, "request_id": ""}
        data = json.dumps(body).encode()
        headers = [
            ("Content-Type", "application/problem+json"),
            ("Content-Length", str(len(data))),
            ("X-Content-Type-Options", "nosniff"),
            ("Connection", "close"),
        ]
        events = (
            h11.Response(status_code=status, headers=headers, reason=status.phrase.encode()),
            h11.Data(data=data),
            h11.EndOfMessage(),
        )
        for event in events:
            self.transport.write(self.conn.send(event) or b"")
        self.transport.close()

    def _watch(self) -> None:
        """Close the connection if hardly anything of the request arrived within `patience_seconds`."""
        if self.transport.is_closing():
            return
        if self._owed_since is None:
            if self.conn.their_state is h11.SEND_BODY and self._is_owed():
                self._owe()
        elif self.loop.time() - self._owed_since >= self.patience_seconds:
            if self._received < self.least_bytes:
                self.transport.close()
                return
            self._owe()
        self.loop.call_later(self.patience_seconds, self._watch)

    def _owe(self) -> None:
        self._owed_since, self._received = self.loop.time(), 0

    def _is_owed(self) -> bool:
        """Whether the client is to send; not while reading is paused or it waits for "100 Continue"."""
        if self.flow.read_paused or self.conn.they_are_waiting_for_100_continue:
            return False
        return self.conn.their_state in (h11.IDLE, h11.SEND_BODY)


# The log: to standard error, each line with the id of the request that caused it.

# The service's loggers; all others stay as the surrounding program configured them.
_LOGGERS = ("heliograph", "uvicorn")
# Characters that end a line or control a terminal; a traceback keeps its line ends.
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")
_CONTROL_IN_LINES = re.compile(rf"(?![\n\t]){_CONTROL.pattern}")


def configure_logging(settings: ServerSettings) -> None:
    """Configure the log of this process by the settings."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter() if settings.log_format == "json" else TextFormatter())
    for name in _LOGGERS:
        logger = logging.getLogger(name)
        logger.handlers = [handler]
        logger.propagate = False
        logger.setLevel(settings.log_level.upper())
    # Its warnings quote questions; the caller gets them in the answer.
    logging.getLogger("heliograph.query").setLevel(logging.ERROR)
    # Messages below warnings are only about uvicorn itself.
    logging.getLogger("uvicorn").setLevel(max(logging.WARNING, logging.getLogger("uvicorn").level))


class TextFormatter(logging.Formatter):
    """One line per record, the request's id before the message; control characters inside it are escaped."""

    def format(self, record: logging.LogRecord) -> str:
        time = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        request_id = REQUEST_ID.get() or "-"
        message = _CONTROL.sub(_escaped, record.getMessage())
        line = f"{time} {record.levelname} {record.name} {request_id} {message}"
        if not record.exc_info:
            return line
        return f"{line}\n{_CONTROL_IN_LINES.sub(_escaped, self.formatException(record.exc_info))}"


class JsonFormatter(logging.Formatter):
    """One JSON object per record, with the fields of `extra={"fields": ...}`."""

    def format(self, record: logging.LogRecord) -> str:
        fields: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "request_id": REQUEST_ID.get() or None,
            "message": record.getMessage(),
            **getattr(record, "fields", {}),
        }
        if record.exc_info:
            fields["exception"] = self.formatException(record.exc_info)
        return json.dumps({name: value for name, value in fields.items() if value is not None}, default=str)


def _escaped(found: re.Match[str]) -> str:
    return found[0].encode("unicode_escape").decode()


# Reports whether the application has started, and if not, why: by the error itself if Heliograph raised it.

StartReport = Callable[[HeliographError | None], None]
"""Called once with the outcome of a start: None if it succeeded, otherwise the error."""


_FAILURES = ("lifespan.startup.failed", "lifespan.shutdown.failed")


class PlainStartup:
    """Passes everything on, but suppresses two tracebacks.

    One is that of a start that failed with a Heliograph error, the other that of an immediate exit by a second Ctrl-C.
    Any other shows a defect, and stays.
    """

    def __init__(self, app: ASGIApp, report: StartReport) -> None:
        self._app = app
        self._report = report

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on; watch for the messages that report the start."""
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
        """Return the message for the log; empty for an error that goes to `report`, whose receiver shows it."""
        if isinstance(error, asyncio.CancelledError):
            return "ended at once, before everything was closed"
        if isinstance(error, HeliographError) and failure["type"] == "lifespan.startup.failed":
            self._report(error)
            return ""
        return failure.get("message", "")


# Several processes that serve one socket: uvicorn's supervisor, which here also reports how their start went.
#
# A worker reports once: that it serves, or why it cannot. Until it has, it is not checked for liveness, since a
# starting worker does not answer; but only for a while, as one that hangs never reports.

_logger = logging.getLogger(__name__)

_UNASKED_SECONDS = 60.0
# After a worker failed to start, wait this long from its start before another is tried.
_REST_SECONDS = 5.0


# The process that reports, and its error or None.
Reports = SimpleQueue[tuple[int, HeliographError | None]]


def _tell(reports: Reports, error: HeliographError | None) -> None:
    reports.put((os.getpid(), error))


class Workers(Multiprocess):
    """Runs the workers until a signal to stop, or until one of the first cannot start.

    A worker that dies later is replaced; a replacement that cannot start is tried again, while the others serve.
    `has_failed` says that one of the first could not start for a reason that only the log has.
    """

    def __init__(
        self,
        config: uvicorn.Config,
        listener: socket.socket,
        reports: Reports,
        metrics_folder: Path,
        on_started: Callable[[], None],
    ) -> None:
        super().__init__(config, [listener])
        self.error: HeliographError | None = None
        self.has_failed = False
        self._reports = reports
        self._metrics_folder = metrics_folder
        self._on_started = on_started
        self._awaited = config.workers
        # Start times of workers that do not serve yet, by process id.
        self._starting: dict[int | None, float] = {}

    def init_processes(self) -> None:
        """Start the workers."""
        self.processes += [self._start() for _ in range(self.processes_num)]

    def handle_ttin(self) -> None:
        """Add one worker."""
        self.processes_num += 1
        self.processes.append(self._start())

    def keep_subprocess_alive(self) -> None:
        """Read reports; replace workers that died or hang; stop if one of the first cannot start."""
        self._take_reports()
        for place, worker in enumerate(self.processes):
            if self.should_exit.is_set():
                return
            age = time.monotonic() - self._starting.get(worker.pid, -math.inf)
            is_unasked = age < _UNASKED_SECONDS
            if not (worker.process.is_alive() if is_unasked else worker.is_alive(_WORKER_ANSWER_SECONDS)):
                self._replace(place, worker, age)

    def _start(self) -> Process:
        worker = Process(self.config, self.sockets)
        # Ctrl-C reaches all processes of a terminal, but only this one handles it; a spawned process inherits the
        # blocked signal.
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            worker.start()
        finally:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
        self._starting[worker.pid] = time.monotonic()
        return worker

    def _take_reports(self) -> None:
        while not self._reports.empty():
            process_id, error = self._reports.get()
            if error is None:
                self._starting.pop(process_id, None)
                self._awaited -= 1
                if self._awaited == 0:
                    self._on_started()
            elif self._awaited > 0:
                self.error = self.error or error
                self.should_exit.set()
            else:
                _logger.error("a worker that was to replace another cannot start: %s", error)

    def _replace(self, place: int, worker: Process, age: float) -> None:
        if worker.process.is_alive():
            _logger.warning("worker %s does not answer and is ended", worker.pid)
            worker.kill()
            worker.join()
        # Requests that it was serving no longer count.
        mark_process_dead(worker.pid, self._metrics_folder)
        if worker.exitcode == STARTUP_FAILURE and self._awaited > 0:
            # Its report, if it made one, may have come since.
            self._take_reports()
            self.has_failed = self.error is None
            self.should_exit.set()
        elif age >= _REST_SECONDS:
            _logger.warning("worker %s is gone (%s); another takes its place", worker.pid, worker.exitcode)
            self._starting.pop(worker.pid, None)
            self.processes[place] = self._start()


_BACKLOG = 2048
_KEEP_ALIVE_SECONDS = 30
# Timeout of a liveness check, for workers that were killed during it or hang.
_WORKER_ANSWER_SECONDS = 10
_SIGNALS = (signal.SIGTERM, signal.SIGINT)


def run_server(settings: Settings, announce: Callable[[str], None]) -> int:
    """Serve HTTP requests until stopped; return the exit code: 0, or 1 for a defect, which the log has.

    Raises:
        SettingsError: The address can be reached by others but no credentials are configured, or they are not valid.
        StoreUnavailable: The address cannot be listened on.
        HeliographError: It could not start.
    """
    check_exposure(settings)
    # An open workspace has some eight files open; a shell's default limit would suffice for a hundred.
    wanted = min(_MOST_FILES, _WANTED_FILES) if _MOST_FILES > 0 else _WANTED_FILES
    if 0 < _FILES < wanted:
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, _MOST_FILES))
    listener = _bind(settings.server)
    configure_logging(settings.server)
    with listener:
        host, port = listener.getsockname()[:2]
        address = f"http://{f'[{host}]' if ':' in host else host}:{port}{settings.server.root_path}"
        run = _run_workers if settings.server.workers > 1 else _run_alone
        return run(settings, listener, lambda: announce(address))


def _run_workers(settings: Settings, listener: socket.socket, on_started: Callable[[], None]) -> int:
    # Workers report that they serve before they listen; check here, once and early, that the port is free.
    with _listening_errors(settings.server):
        listener.listen(_BACKLOG)
    # A spawned process searches the working folder for modules until it has this process's path.
    os.putenv("PYTHONSAFEPATH", "1")
    reports: Reports = get_context("spawn").SimpleQueue()
    with shared_folder() as folder:
        config = _config(settings, partial(_tell, reports), folder)
        workers = Workers(config, listener, reports, folder, on_started)
        workers.run()
    if workers.error is not None:
        raise workers.error
    return int(workers.has_failed)


def _run_alone(settings: Settings, listener: socket.socket, on_started: Callable[[], None]) -> int:
    errors: list[HeliographError] = []
    config = _config(settings, lambda error: errors.extend([error] if error else []))
    server = _Server(config, settings.server, on_started)

    # Handles signals, also before uvicorn listens to them; uvicorn raises them again at its end, with no effect.
    def stop(received: int, frame: FrameType | None) -> None:  # noqa: ARG001
        server.should_exit = True

    before = {number: signal.signal(number, stop) for number in _SIGNALS}
    try:
        server.run([listener])
    except SystemExit:
        # It could not start: the reason has been reported, or is in the log.
        pass
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    if errors:
        raise errors[0]
    return 0 if server.started else 1


class _Server(uvicorn.Server):
    """Announces that it serves."""

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


def check_exposure(settings: Settings) -> None:
    """Raise `SettingsError` if others could reach the service without credentials."""
    server = settings.server
    if not (server.insecure or has_credentials(settings) or is_loopback(server.host)):
        raise SettingsError(
            f"listening on {server.host!r} without credentials would let everybody on the network read and change "
            "everything; set server.api_key, server.keys or server.accounts ('heliograph make-key' makes a key), "
            "listen on 127.0.0.1, or say --insecure"
        )


def describe_names(settings: Settings) -> str:
    """Return which host names are accepted, for the operator; empty for the default."""
    former = "; mcp.allowed_hosts is now called server.allowed_hosts" if settings.mcp.allowed_hosts else ""
    if hosts := settings.allowed_hosts:
        return f"answering by {', '.join(hosts)} and by the names and addresses of this machine{former}"
    if is_loopback(settings.server.host):
        return ""
    return "answering by any host name; name those of the service by --allowed-host or in server.allowed_hosts"


def is_loopback(host: str) -> bool:
    """Whether an address can be reached only from this machine."""
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        # Another name could resolve to another address later.
        return host == "localhost"


@dataclass(frozen=True, slots=True)
class _Factory:
    """Creates the application in the process that will serve."""

    settings: Settings
    report: StartReport
    metrics_folder: Path | None

    def __call__(self) -> ASGIApp:
        configure_logging(self.settings.server)
        app = create_app(self.settings, shared=self.metrics_folder)
        for number in _SIGNALS:
            _begin_drain_on(number, app.state.drain)
        return PlainStartup(app, self.report)


def _begin_drain_on(number: int, drain: Drain) -> None:
    """Begin the drain of requests on a signal, before uvicorn's own handler, already installed, takes over."""
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
        # Given here, the application's path includes the prefix as well, as mounted pages need it.
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
