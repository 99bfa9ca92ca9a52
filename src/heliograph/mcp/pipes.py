"""Standard input and output as the protocol uses them: one message a line, and nothing else on either.

The SDK reads and writes in threads that cannot be interrupted, so that a process told to stop would wait for the
client's next line. Here daemon threads do nothing but `read` and `write`, and the process ends without them. Within
`standard_pipes`, what anything else prints goes to standard error.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import sys
import threading
from collections.abc import Generator
from contextlib import contextmanager, suppress

from heliograph.documents.markdown import replace_surrogates

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
