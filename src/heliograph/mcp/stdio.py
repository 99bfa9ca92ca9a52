"""Serving one client over standard input and output.

One message a line and nothing else on either. A line that is no message is answered with an error, which the SDK's own
transport passes over in silence. The end of the input does not break off what is under way: it is passed on once all
that was asked is answered, or the time for that has passed. A client that reads slowly, or a process that is told to
stop, waits for no thread that reads or writes: they are daemons, which the SDK's are not.
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
from collections.abc import AsyncIterator, Callable, Generator
from contextlib import contextmanager, suppress
from functools import partial
from io import BufferedReader
from typing import Any, TypeVar, cast

import mcp.types as types
from anyio import BrokenResourceError, create_memory_object_stream
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.server import Server
from mcp.shared.message import SessionMessage
from pydantic import ValidationError

from heliograph.documents.markdown import replace_surrogates
from heliograph.mcp.protocol import make_server
from heliograph.mcp.tools import Host
from heliograph.service.access import Principal, Role
from heliograph.service.admission import Admission
from heliograph.service.workspaces import Workspaces
from heliograph.settings import Settings

T = TypeVar("T")

_LOG = logging.getLogger(__name__)
_SIGNALS = (signal.SIGTERM, signal.SIGINT)
# Longer than the longest text that is taken in, as JSON may write one character in twelve bytes.
_BYTES_PER_CHARACTER = 12
_MOST_LINE_BYTES = 1_000_000_000
_SKIPPED_BYTES = 65_536
# Stands in for a line that is too long to keep; no JSON, so that it is refused like other garbage.
_TOO_LONG = "(a line that is too long)"
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")
_EXPECTED = "Invalid Request: give 'jsonrpc': '2.0', a 'method', 'params' as an object, and an 'id' to be answered"


def run_stdio(settings: Settings) -> None:
    """Serve until input ends, output is closed, or SIGTERM or SIGINT comes.

    Raises as `open_parts` of the engine does.
    """
    with _standard_pipes() as (given_input, output):
        asyncio.run(_serve(settings, given_input, output))


@contextmanager
def _standard_pipes() -> Generator[tuple[int, int]]:
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


async def _serve(settings: Settings, input_fd: int, output_fd: int) -> None:
    task = asyncio.current_task()
    assert task is not None
    loop = asyncio.get_running_loop()
    workspaces = Workspaces(settings)
    for number in _SIGNALS:
        loop.add_signal_handler(number, task.cancel)
    try:
        with suppress(asyncio.CancelledError):
            await workspaces.open()
            try:
                admission = Admission(settings.server.max_concurrent_queries, settings.server.max_waiting_queries)
                who = Principal("mcp", Role.ADMIN), workspaces.default
                server = make_server(Host(workspaces, admission), settings.mcp, lambda _: who)
                most = min(settings.ingest.max_document_characters * _BYTES_PER_CHARACTER, _MOST_LINE_BYTES)
                await serve_lines(server, input_fd, output_fd, most, settings.server.shutdown_seconds)
            finally:
                await workspaces.close()
    finally:
        for number in _SIGNALS:
            loop.remove_signal_handler(number)


async def serve_lines(
    server: Server[Any], input_fd: int, output_fd: int, most_bytes: int, patience_seconds: float
) -> None:
    """Serve one client that sends and reads a message a line, until it sends or reads no more.

    Both descriptors are left open; a line longer than `most_bytes` is refused. The end of the input is held back for
    `patience_seconds` at the most while answers are owed; what is not answered then is cancelled, which loses no
    document.
    """
    client = _Client(output_fd)
    to_server, incoming = create_memory_object_stream[SessionMessage | Exception]()
    outgoing, from_server = create_memory_object_stream[SessionMessage]()
    try:
        async with asyncio.TaskGroup() as group:
            writing = group.create_task(client.write_all(from_server))
            reading = group.create_task(client.read_all(_lines(input_fd, most_bytes), to_server, patience_seconds))
            async with outgoing:
                await server.run(incoming, outgoing, server.create_initialization_options())
            reading.cancel()
            await writing
    except* (BrokenPipeError, BrokenResourceError):
        _LOG.info("the client reads no answers any more")


class _Client:
    """The other side: what it sends is handed to the server, and what it is owed is counted."""

    def __init__(self, output_fd: int) -> None:
        self._output_fd = output_fd
        self._owed: set[types.RequestId] = set()
        self._owed_none = asyncio.Event()
        self._owed_none.set()
        # Two lines must not be written into one another.
        self._turn = asyncio.Lock()

    async def read_all(
        self, lines: AsyncIterator[str], to_server: MemoryObjectSendStream[Any], patience_seconds: float
    ) -> None:
        """Hand every line to the server that is a message, answer any other, and hand on the end when it may come."""
        async with to_server:
            async for line in lines:
                try:
                    message = types.jsonrpc_message_adapter.validate_json(line, by_name=False)
                except ValidationError as error:
                    if (refusal := _refusal(line, error)) is not None:
                        await self._write(refusal)
                    continue
                if isinstance(message, types.JSONRPCRequest):
                    self._owed.add(message.id)
                    self._owed_none.clear()
                elif isinstance(message, types.JSONRPCNotification) and message.method == "notifications/cancelled":
                    # It waits for no answer.
                    self._settle((message.params or {}).get("requestId"))
                await to_server.send(SessionMessage(message))
            with suppress(TimeoutError):
                async with asyncio.timeout(patience_seconds):
                    await self._owed_none.wait()

    async def write_all(self, from_server: MemoryObjectReceiveStream[SessionMessage]) -> None:
        """Write every message of the server; a `BrokenPipeError` when nobody reads any more."""
        async with from_server:
            async for item in from_server:
                try:
                    await self._write(item.message)
                finally:
                    if isinstance(item.message, types.JSONRPCResponse | types.JSONRPCError):
                        self._settle(item.message.id)

    async def _write(self, message: types.JSONRPCMessage) -> None:
        line = (message.model_dump_json(by_alias=True, exclude_unset=True) + "\n").encode("utf-8", "replace")

        def write_whole() -> None:
            view = memoryview(line)
            while view:
                view = view[os.write(self._output_fd, view) :]

        async with self._turn:
            await _in_daemon_thread(write_whole)

    def _settle(self, id_: types.RequestId | None) -> None:
        if id_ is not None:
            self._owed.discard(id_)
        if not self._owed:
            self._owed_none.set()


def _refusal(line: str, error: ValidationError) -> types.JSONRPCError | None:
    """Return the answer to a line that is no message; None for no answer.

    A line that is no JSON, or JSON nested too deeply, is a parse error of JSON-RPC; other JSON is an invalid request.
    Empty lines are nothing, and what looks like an answer is never answered, so that no two sides answer one another's
    errors for ever.
    """
    first = error.errors(include_url=False)[0]
    if first["type"] == "json_invalid":
        told = "the line is longer than any that is taken" if line == _TOO_LONG else first["msg"]
        code, message, id_ = types.PARSE_ERROR, f"Parse error: {told}", None
        if not line.strip():
            return None
    else:
        code, message, id_ = types.INVALID_REQUEST, _EXPECTED, None
        whole = json.loads(line)
        if isinstance(whole, dict):
            fields = cast("dict[str, Any]", whole)
            if {"result", "error"} & fields.keys():
                return None
            given = fields.get("id")
            id_ = given if isinstance(given, int | str) and not isinstance(given, bool) else None
    return types.JSONRPCError(jsonrpc="2.0", id=id_, error=types.ErrorData(code=code, message=message))


async def _lines(fd: int, most_bytes: int) -> AsyncIterator[str]:
    """Give the lines that come in, without end marks; iteration ends with the input."""
    stream = os.fdopen(fd, "rb", closefd=False)
    while (line := await _in_daemon_thread(partial(_read_line, stream, most_bytes))) is not None:
        yield line


def _read_line(stream: BufferedReader, most_bytes: int) -> str | None:
    try:
        line = stream.readline(most_bytes + 1)
        if not line:
            return None
        if len(line) > most_bytes and not line.endswith(b"\n"):
            while line and not line.endswith(b"\n"):
                line = stream.readline(_SKIPPED_BYTES)
            return _TOO_LONG
    except OSError:
        return None
    text = line.removesuffix(b"\n").decode("utf-8", "replace")
    if not _SURROGATE.search(text):
        return text
    # Clients in JavaScript write halves of surrogate pairs where they cut a text, and the SDK's parser refuses the
    # whole message, so that the client would wait for its answer forever.
    try:
        return replace_surrogates(json.dumps(json.loads(text), ensure_ascii=False))
    except (ValueError, RecursionError):
        return text


async def _in_daemon_thread(work: Callable[[], T]) -> T:
    """Return the result of something that may block, in a thread that the end of the process does not wait for."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[T] = loop.create_future()

    def settle(result: Any, error: OSError | None) -> None:
        if done.done():
            return
        if error is None:
            done.set_result(result)
        else:
            done.set_exception(error)

    def run() -> None:
        result, error = None, None
        try:
            result = work()
        except OSError as caught:
            error = caught
        # The loop is closed when the process is ending.
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(settle, result, error)

    threading.Thread(target=run, name="mcp-lines", daemon=True).start()
    return await done
