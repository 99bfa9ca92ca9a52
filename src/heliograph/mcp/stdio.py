"""Serving one client over standard input and output.

One message per line and nothing else on either. A line that is no message is answered with an error, while the SDK's
own transport ignores it silently. The end of the input does not cancel running requests: it is passed on once all
requests are answered, or a timeout has passed. A client that reads slowly, or a process that is being stopped, waits
for no thread that reads or writes: they are daemons, unlike the SDK's.
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
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from io import BufferedReader
from pathlib import Path
from typing import Any, TypeVar, cast

import mcp.types as types
from anyio import BrokenResourceError, create_memory_object_stream
from anyio.streams.memory import MemoryObjectSendStream
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
# Longer than the longest accepted text, as JSON may encode one character in twelve bytes.
_BYTES_PER_CHARACTER = 12
_MOST_LINE_BYTES = 1_000_000_000
_SKIPPED_BYTES = 65_536
# Replaces a line that is too long to keep; it is no JSON, so that it is refused like other garbage.
_TOO_LONG = "(a line that is too long)"
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")
_EXPECTED = "Invalid Request: give 'jsonrpc': '2.0', a 'method', 'params' as an object, and an 'id' to be answered"


def run_stdio(settings: Settings) -> None:
    """Serve until input ends, output is closed, or SIGTERM or SIGINT comes.

    Raises as `open_parts` of the engine does.
    """
    # Output is for the protocol alone: all other output goes to standard error, and no other code reads input. These
    # descriptors are never closed: a thread may still wait on them.
    given, taken = os.dup(0), os.dup(1)
    with Path(os.devnull).open("rb") as nothing:
        os.dup2(nothing.fileno(), 0)
    os.dup2(2, 1)
    try:
        asyncio.run(_serve(settings, given, taken))
    finally:
        # Flush buffered output to where it belongs.
        sys.stdout.flush()
        os.dup2(given, 0)
        os.dup2(taken, 1)


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
    """Serve one client that sends and reads a message per line, until it sends or reads no more.

    Both descriptors are left open; a line longer than `most_bytes` is refused. The end of the input is held back for at
    most `patience_seconds` while requests are unanswered; after that they are cancelled, which loses no document.
    """
    owed: set[types.RequestId | None] = set()
    settled = asyncio.Event()
    to_server, incoming = create_memory_object_stream[SessionMessage | Exception]()
    outgoing, from_server = create_memory_object_stream[SessionMessage]()

    async def read_all(refusals: MemoryObjectSendStream[SessionMessage]) -> None:
        """Pass valid messages to the server, answer invalid lines, and pass on the end of the input in time."""
        stream = os.fdopen(input_fd, "rb", closefd=False)
        async with to_server, refusals:
            while (line := await _in_daemon_thread(partial(_read_line, stream, most_bytes))) is not None:
                try:
                    message = types.jsonrpc_message_adapter.validate_json(line, by_name=False)
                except ValidationError as error:
                    if (refusal := _refusal(line, error)) is not None:
                        await refusals.send(SessionMessage(refusal))
                    continue
                if isinstance(message, types.JSONRPCRequest):
                    owed.add(message.id)
                elif isinstance(message, types.JSONRPCNotification) and message.method == "notifications/cancelled":
                    # A cancelled request gets no answer.
                    id_ = (message.params or {}).get("requestId")
                    owed.discard(id_ if isinstance(id_, int | str) else None)
                await to_server.send(SessionMessage(message))
            with suppress(TimeoutError):
                async with asyncio.timeout(patience_seconds):
                    while owed:
                        settled.clear()
                        await settled.wait()

    async def write_all() -> None:
        """Write every message; a `BrokenPipeError` when the reader has closed the pipe."""
        async with from_server:
            async for item in from_server:
                line = item.message.model_dump_json(by_alias=True, exclude_unset=True) + "\n"
                await _in_daemon_thread(partial(_write_whole, output_fd, line.encode("utf-8", "replace")))
                if isinstance(item.message, types.JSONRPCResponse | types.JSONRPCError):
                    owed.discard(item.message.id)
                    settled.set()

    try:
        async with asyncio.TaskGroup() as group:
            writing = group.create_task(write_all())
            reading = group.create_task(read_all(outgoing.clone()))
            async with outgoing:
                await server.run(incoming, outgoing, server.create_initialization_options())
            reading.cancel()
            await writing
    except* (BrokenPipeError, BrokenResourceError):
        _LOG.info("the client reads no answers any more")


def _refusal(line: str, error: ValidationError) -> types.JSONRPCError | None:
    """Return the answer to a line that is no message; None for no answer.

    A line that is no JSON, or JSON nested too deeply, is a parse error of JSON-RPC; other JSON is an invalid request.
    Empty lines are ignored, and a line that looks like an answer is never answered, so that two sides cannot answer
    each other's errors for ever.
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
    # Clients in JavaScript send lone surrogates where they cut a text, and the SDK's parser refuses the whole message,
    # so that the client would wait for its answer forever.
    try:
        return replace_surrogates(json.dumps(json.loads(text), ensure_ascii=False))
    except (ValueError, RecursionError):
        return text


def _write_whole(fd: int, line: bytes) -> None:
    view = memoryview(line)
    while view:
        view = view[os.write(fd, view) :]


async def _in_daemon_thread(work: Callable[[], T]) -> T:
    """Run a function that may block in a daemon thread, which the end of the process does not wait for."""
    done: Future[T] = Future()
    # A cancelled waiter does not keep the thread from setting its result.
    done.set_running_or_notify_cancel()

    def run() -> None:
        try:
            done.set_result(work())
        except OSError as error:
            done.set_exception(error)

    threading.Thread(target=run, name="mcp-lines", daemon=True).start()
    return await asyncio.wrap_future(done)
