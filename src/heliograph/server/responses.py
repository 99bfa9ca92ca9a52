"""Responses: JSON written by pydantic's encoder, and streams of lines that end when their client hangs up."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from fastapi import Request
from pydantic_core import to_json
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from heliograph.errors import HeliographError

# JSON out, written by pydantic's encoder: four times as fast as the standard library's on the bodies of queries.


class JsonBody(Response):
    """A response of plain dicts and lists, sent as it is; numbers that JSON does not know become null."""

    media_type = "application/json"

    def render(self, content: Any) -> bytes:
        """Return the content as JSON in UTF-8."""
        return to_json(content, inf_nan_mode="null")


def json_line(content: Any) -> bytes:
    """Return one line of newline-delimited JSON."""
    return to_json(content, inf_nan_mode="null") + b"\n"


# Work that ends when its client hangs up, and responses that leave line by line.
#
# `until_disconnect` runs a coroutine for a response that is sent whole. A `LineResponse` runs one task from the first
# line to the last: what fails before the first line is told as any other failure, with its own status, and what fails
# later becomes the last line. Either way the task is cancelled as soon as the client is gone.

_LOG = logging.getLogger(__name__)

T = TypeVar("T")
Write = Callable[[bytes], None]

STREAM_HEADERS = {"Cache-Control": "no-cache", "Connection": "keep-alive", "X-Accel-Buffering": "no"}


class ClientGone(Exception):  # noqa: N818 (no failure)
    """The client has hung up, so there is nobody to answer."""


async def until_disconnect(request: Request, work: Coroutine[Any, Any, T]) -> T:
    """Return the result of some work, which is cancelled when the client hangs up.

    Raises:
        ClientGone: It hung up.
    """
    task = asyncio.create_task(work)
    async with _watched(request.receive, task):
        await asyncio.wait([task])
        _raise_failure(task)
        return task.result()


class LineResponse(Response):
    """A response of lines that leave as they are written.

    Args:
        write_lines: Called once with what takes each line; ends after the last.
        on_failure: Makes the last line of a failure after the first line.
        media_type: Type of the whole.
    """

    def __init__(
        self,
        write_lines: Callable[[Write], Coroutine[Any, Any, None]],
        on_failure: Callable[[Exception], bytes],
        media_type: str,
    ) -> None:
        super().__init__(status_code=200, headers=STREAM_HEADERS, media_type=media_type)
        # Its length is not known.
        del self.headers["content-length"]
        self._write_lines = write_lines
        self._on_failure = on_failure

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002
        """Send the lines; raises what happens before the first of them."""
        lines: asyncio.Queue[bytes | None] = asyncio.Queue()
        task = asyncio.create_task(self._write_lines(lines.put_nowait))
        task.add_done_callback(lambda _: lines.put_nowait(None))
        async with _watched(receive, task):
            line = await lines.get()
            if line is None:
                _raise_failure(task)
            await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
            while line is not None:
                line, is_last = _all_ready(line, lines)
                await send({"type": "http.response.body", "body": line, "more_body": True})
                line = None if is_last else await lines.get()
            await self._end(task, send)

    async def _end(self, task: asyncio.Task[None], send: Send) -> None:
        error = None if task.cancelled() else task.exception()
        last = b""
        if isinstance(error, Exception):
            defect = None if isinstance(error, HeliographError) else error
            _LOG.warning("a response failed after it began: %s: %s", type(error).__name__, error, exc_info=defect)
            last = self._on_failure(error)
        await send({"type": "http.response.body", "body": last, "more_body": False})


def _raise_failure(task: asyncio.Task[Any]) -> None:
    if task.cancelled():
        raise ClientGone
    if (error := task.exception()) is not None:
        raise error


def _all_ready(line: bytes, lines: asyncio.Queue[bytes | None]) -> tuple[bytes, bool]:
    """Return a line with all that were written since, as one piece, and whether there will be no more."""
    ready = [line]
    while not lines.empty():
        following = lines.get_nowait()
        if following is None:
            return b"".join(ready), True
        ready.append(following)
    return b"".join(ready), False


@asynccontextmanager
async def _watched(receive: Callable[[], Awaitable[Any]], task: asyncio.Task[Any]) -> AsyncGenerator[None]:
    """Cancel a task once the client hangs up, and wait for its end when the block is left."""
    watcher = asyncio.create_task(_wait_for_disconnect(receive))
    watcher.add_done_callback(lambda done: None if done.cancelled() else task.cancel())
    try:
        yield
    finally:
        watcher.cancel()
        task.cancel()
        await asyncio.gather(watcher, task, return_exceptions=True)


async def _wait_for_disconnect(receive: Callable[[], Awaitable[Any]]) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
