"""Serving one client over standard input and output, as clients start servers from their configuration.

It opens the workspace that the settings name, and is done when its input ends and what was asked is answered, when
nobody reads its answers any more, or when it is told to stop. Who started the process may do everything in that
workspace, unless the settings say read-only.
"""

from __future__ import annotations

import asyncio
import logging
import signal
from collections.abc import Generator
from contextlib import contextmanager, suppress
from typing import Any, cast

from anyio import BrokenResourceError
from mcp.server import Server
from mcp.server.stdio import stdio_server

from heliograph.engine import Given
from heliograph.mcp.calls import Caller, Host
from heliograph.mcp.pipes import LineReader, LineWriter, standard_pipes
from heliograph.mcp.server import make_server
from heliograph.mcp.unanswered import Unanswered
from heliograph.service.admission import Admission
from heliograph.service.principal import Principal, Role
from heliograph.service.workspaces import Workspaces
from heliograph.settings import Settings

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
