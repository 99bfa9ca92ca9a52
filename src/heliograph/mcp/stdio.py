"""Serving one client over standard input and output.

One message a line and nothing else on either; a line that is no message is answered with an error, and the end of the
input does not break off what is under way.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import re
import signal
import sys
import threading
from collections.abc import Generator
from contextlib import contextmanager, suppress
from types import TracebackType
from typing import Any, Self, cast

from anyio import BrokenResourceError
from mcp.server import Server
from mcp.server.stdio import stdio_server
from mcp.shared.message import SessionMessage
from mcp.types import (
    INVALID_REQUEST,
    PARSE_ERROR,
    ErrorData,
    JSONRPCError,
    JSONRPCNotification,
    JSONRPCRequest,
    JSONRPCResponse,
    RequestId,
)
from pydantic import ValidationError

from heliograph.documents.markdown import replace_surrogates
from heliograph.engine import Given
from heliograph.mcp.calls import Caller, Host
from heliograph.mcp.server import make_server
from heliograph.service.admission import Admission
from heliograph.service.principal import Principal, Role
from heliograph.service.workspaces import Workspaces
from heliograph.settings import Settings

# What is answered to a line that is no message of the protocol, which the SDK passes over in silence.
#
# The SDK hands on the error of its parser in place of the message. A line that is no JSON, or JSON nested too deeply,
# is a parse error of JSON-RPC; other JSON is an invalid request. Empty lines are nothing, and what looks like an
# answer is never answered, so that no two sides answer one another's errors for ever.

_NO_JSON = "json_invalid"
_EXPECTED = "Invalid Request: give 'jsonrpc': '2.0', a 'method', 'params' as an object, and an 'id' to be answered"


def answer_malformed(error: Exception) -> SessionMessage | None:
    """Return what to answer to a line that could not be read, or None for nothing."""
    if not isinstance(error, ValidationError):
        return None
    problems = error.errors(include_url=False)
    first = problems[0]
    if first["type"] == _NO_JSON:
        line = str(first["input"])
        told = "the line is longer than any that is taken" if line == TOO_LONG else first["msg"]
        return _answer(None, PARSE_ERROR, f"Parse error: {told}") if line.strip() else None
    # Each kind of message has a field of its own that this one misses, which is told with the whole message.
    whole: Any = next((item["input"] for item in problems if item["type"] == "missing" and len(item["loc"]) == 2), None)
    if not isinstance(whole, dict):
        return _answer(None, INVALID_REQUEST, _EXPECTED)
    return None if {"result", "error"} & whole.keys() else _answer(_id_of(whole.get("id")), INVALID_REQUEST, _EXPECTED)


def _id_of(value: object) -> RequestId | None:
    return value if isinstance(value, int | str) and not isinstance(value, bool) else None


def _answer(id_: RequestId | None, code: int, message: str) -> SessionMessage:
    return SessionMessage(JSONRPCError(jsonrpc="2.0", id=id_, error=ErrorData(code=code, message=message)))


# Requests that came in and are not answered yet, so that the end of the input does not break off what is under way.
#
# The SDK cancels everything when its input ends. Here the end is told to it once all that was asked is answered, or
# the time for that has passed. A request that its client has cancelled waits for no answer. What came in and is no
# message is answered here, since the SDK answers nothing to it.

_CANCELLED = "notifications/cancelled"
Incoming = SessionMessage | Exception


class Unanswered:
    """Counts requests of one connection.

    Args:
        patience_seconds: How long the end of the input is held back at the most.
    """

    def __init__(self, patience_seconds: float) -> None:
        self._patience_seconds = patience_seconds
        self._ids: set[RequestId] = set()
        self._none_left = asyncio.Event()
        self._none_left.set()

    def reading(self, stream: Any, replies: Writing) -> Reading:
        """Return a stream with its end held back until there is nothing left to answer.

        Args:
            stream: What comes in.
            replies: Where it is told that something is no message.
        """
        return Reading(stream, self, replies)

    def writing(self, stream: Any) -> Writing:
        """Return a stream whose answers are noted once they are handed on."""
        return Writing(stream, self)

    def note_read(self, item: Incoming) -> None:
        """Note what came in."""
        message = None if isinstance(item, Exception) else item.message
        if isinstance(message, JSONRPCRequest):
            self._ids.add(message.id)
            self._none_left.clear()
        elif isinstance(message, JSONRPCNotification) and message.method == _CANCELLED:
            self._settle((message.params or {}).get("requestId"))

    def note_written(self, item: SessionMessage) -> None:
        """Note what went out."""
        if isinstance(item.message, JSONRPCResponse | JSONRPCError):
            self._settle(item.message.id)

    async def wait(self) -> None:
        """Wait until nothing is left to answer, or patience is at its end."""
        # What is left then is cancelled by the SDK, which loses no document.
        with suppress(TimeoutError):
            async with asyncio.timeout(self._patience_seconds):
                await self._none_left.wait()

    def _settle(self, id_: RequestId | None) -> None:
        if id_ is not None:
            self._ids.discard(id_)
        if not self._ids:
            self._none_left.set()


class Reading:
    """What the SDK takes for its input: all of a stream of its own, and the end only when it may come."""

    def __init__(self, stream: Any, unanswered: Unanswered, replies: Writing) -> None:
        self._stream = stream
        self._unanswered = unanswered
        self._replies = replies

    @property
    def last_context(self) -> object:
        """Where the SDK finds the context of who sent the last message."""
        return getattr(self._stream, "last_context", None)

    async def receive(self) -> Incoming:
        """Return the next message; an error of the stream if there is none any more."""
        return await self._taken(await self._stream.receive())

    async def aclose(self) -> None:
        """Close the stream."""
        await self._stream.aclose()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Incoming:
        try:
            item = await self._stream.__anext__()
        except StopAsyncIteration:
            await self._unanswered.wait()
            raise
        return await self._taken(item)

    async def _taken(self, item: Incoming) -> Incoming:
        self._unanswered.note_read(item)
        if isinstance(item, Exception) and (reply := answer_malformed(item)) is not None:
            await self._replies.send(reply)
        return item

    async def __aenter__(self) -> Self:
        await self._stream.__aenter__()
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc_val: BaseException | None, exc_tb: TracebackType | None
    ) -> bool | None:
        return await self._stream.__aexit__(exc_type, exc_val, exc_tb)


class Writing:
    """What the SDK takes for its output."""

    def __init__(self, stream: Any, unanswered: Unanswered) -> None:
        self._stream = stream
        self._unanswered = unanswered

    async def send(self, item: SessionMessage, /) -> None:
        """Hand a message on."""
        try:
            await self._stream.send(item)
        finally:
            self._unanswered.note_written(item)

    async def aclose(self) -> None:
        """Close the stream."""
        await self._stream.aclose()

    async def __aenter__(self) -> Self:
        await self._stream.__aenter__()
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc_val: BaseException | None, exc_tb: TracebackType | None
    ) -> bool | None:
        return await self._stream.__aexit__(exc_type, exc_val, exc_tb)


# Standard input and output as the protocol uses them: one message a line, and nothing else on either.
#
# The SDK reads and writes in threads that cannot be interrupted, so that a process told to stop would wait for the
# client's next line. Here daemon threads do nothing but `read` and `write`, and the process ends without them. Within
# `standard_pipes`, what anything else prints goes to standard error.

_READ_BYTES = 65_536
_MOST_WAITING = 16
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")
# What stands in for a line that is too long to keep; no JSON, so that it is refused like other garbage.
TOO_LONG = "(a line that is too long)"


class LineReader:
    """The lines that come in, without end markers; iteration ends with the input.

    Args:
        fd: Where they come from.
        most_bytes: A longer line is dropped.
    """

    def __init__(self, fd: int, most_bytes: int) -> None:
        self._fd = fd
        self._most_bytes = most_bytes
        self._loop = asyncio.get_running_loop()
        self._lines: asyncio.Queue[str | None] = asyncio.Queue()
        # A few lines may wait; beyond that the client is held up by its own pipe.
        self._room = threading.Semaphore(_MOST_WAITING)
        threading.Thread(target=self._read, name="mcp-input", daemon=True).start()

    def __aiter__(self) -> LineReader:
        return self

    async def __anext__(self) -> str:
        line = await self._lines.get()
        self._room.release()
        if line is None:
            raise StopAsyncIteration
        return line

    def _read(self) -> None:
        line = _Line(self._most_bytes)
        while data := self._read_some():
            first, *others = data.split(b"\n")
            line.add(first)
            for part in others:
                self._hand_on(line.take())
                line.add(part)
        if line.has_some:
            self._hand_on(line.take())
        self._hand_on(None)

    def _read_some(self) -> bytes:
        try:
            return os.read(self._fd, _READ_BYTES)
        except OSError:
            return b""

    def _hand_on(self, line: str | None) -> None:
        self._room.acquire()
        # The loop is closed when the process is ending.
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._lines.put_nowait, line)


class _Line:
    """A line that is being put together from what was read."""

    def __init__(self, most_bytes: int) -> None:
        self._most_bytes = most_bytes
        self._parts: list[bytes] = []
        self._length = 0

    @property
    def has_some(self) -> bool:
        return self._length > 0

    def add(self, part: bytes) -> None:
        self._length += len(part)
        if self._length > self._most_bytes:
            self._parts.clear()
        else:
            self._parts.append(part)

    def take(self) -> str:
        """Return the line, and begin the next."""
        text = TOO_LONG if self._length > self._most_bytes else _decoded(b"".join(self._parts))
        self._parts, self._length = [], 0
        return text


class LineWriter:
    """Writes texts whole and in order.

    Args:
        fd: Where they go.
    """

    def __init__(self, fd: int) -> None:
        self._fd = fd

    async def write(self, text: str) -> None:
        """Write a text.

        Raises:
            OSError: Nobody reads any more.
        """
        loop = asyncio.get_running_loop()
        written: asyncio.Future[None] = loop.create_future()

        def work() -> None:
            error: OSError | None = None
            try:
                _write_all(self._fd, text.encode("utf-8", "replace"))
            except OSError as caught:
                error = caught
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(_settle, written, error)

        threading.Thread(target=work, name="mcp-output", daemon=True).start()
        await written

    async def flush(self) -> None:
        """Do nothing: `write` keeps nothing back."""


@contextmanager
def standard_pipes() -> Generator[tuple[int, int]]:
    """Take standard input and output for the protocol; give the descriptors to read from and to write to.

    Within the block, input is empty for everybody else, and output is standard error.
    """
    given, taken = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    try:
        os.dup2(nothing, 0)
        os.dup2(2, 1)
        # Never closed: a thread may still wait on it.
        yield given, taken
    finally:
        # What was printed meanwhile still goes where it was to go.
        sys.stdout.flush()
        os.dup2(given, 0)
        os.dup2(taken, 1)
        os.close(nothing)


def _decoded(line: bytes) -> str:
    """Return a line as text, halves of surrogate pairs replaced.

    Clients in JavaScript write such halves where they cut a text, and the SDK's parser refuses the whole message, so
    that the client would wait for its answer forever.
    """
    text = line.decode("utf-8", "replace")
    if not _SURROGATE.search(text):
        return text
    try:
        return replace_surrogates(json.dumps(json.loads(text), ensure_ascii=False))
    except (ValueError, RecursionError):
        return text


def _settle(written: asyncio.Future[None], error: OSError | None) -> None:
    if written.done():
        return
    if error is None:
        written.set_result(None)
    else:
        written.set_exception(error)


def _write_all(fd: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


_LOG = logging.getLogger(__name__)
_SIGNALS = (signal.SIGTERM, signal.SIGINT)
# Longer than the longest text that is taken in, as JSON may write one character in twelve bytes.
_BYTES_PER_CHARACTER = 12
_MOST_LINE_BYTES = 1_000_000_000


def run_stdio(settings: Settings, given: Given | None = None) -> None:
    """Serve until input ends, nobody reads the answers, or SIGTERM or SIGINT comes.

    Args:
        settings: Of the workspace and the tools.
        given: Models to use in place of those of the settings.

    Raises:
        SettingsError: The settings do not go together.
        StoreError: The workspace cannot be opened.
        ModelError: A model cannot be made ready.
    """
    with standard_pipes() as (given_input, output):
        asyncio.run(_serve(settings, given, given_input, output))


async def _serve(settings: Settings, given: Given | None, input_fd: int, output_fd: int) -> None:
    task = asyncio.current_task()
    assert task is not None
    workspaces = Workspaces(settings, given)
    with _cancelled_by_signals(task), suppress(asyncio.CancelledError):
        await workspaces.open()
        try:
            admission = Admission(settings.server.max_concurrent_queries, settings.server.max_waiting_queries)
            caller = Caller(Principal("mcp", Role.ADMIN), workspaces.default)
            server = make_server(Host(workspaces, admission), settings.mcp, lambda _: caller)
            most = min(settings.ingest.max_document_characters * _BYTES_PER_CHARACTER, _MOST_LINE_BYTES)
            unanswered = Unanswered(settings.server.shutdown_seconds)
            await _run(server, LineReader(input_fd, most), LineWriter(output_fd), unanswered)
        finally:
            await workspaces.close()


async def _run(server: Server[Any], reader: LineReader, writer: LineWriter, unanswered: Unanswered) -> None:
    options = server.create_initialization_options()
    try:
        # All that the SDK does with the two is to iterate over one, and to write to and flush the other.
        async with stdio_server(cast("Any", reader), cast("Any", writer)) as (incoming, outgoing):
            writing = unanswered.writing(outgoing)
            await server.run(unanswered.reading(incoming, writing), writing, options)
    except* (BrokenPipeError, BrokenResourceError):
        _LOG.info("the client reads no answers any more")


@contextmanager
def _cancelled_by_signals(task: asyncio.Task[Any]) -> Generator[None]:
    loop = asyncio.get_running_loop()
    for number in _SIGNALS:
        loop.add_signal_handler(number, task.cancel)
    try:
        yield
    finally:
        for number in _SIGNALS:
            loop.remove_signal_handler(number)
