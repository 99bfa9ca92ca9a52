"""Reads documents outside the event loop, hostile ones in a separate process that can be killed.

`DocumentReader` owns at most one such process, and one for scans: started for the first document that needs it, killed
when a document takes too long, replaced when it dies. Plain text, Markdown and program text are read in the caller's
thread. The process starts isolated (`python -I`), with few environment variables and no module of the working folder;
`worker` is its code.
"""

from __future__ import annotations

import base64
import json
import os
import selectors
import subprocess
import sys
import threading
import time
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import IO, Any

from heliograph.documents.base import Limits, LoadedDocument, RawDocument
from heliograph.documents.registry import find_loader, load_document
from heliograph.errors import HeliographError, IngestError, MissingDependencyError
from heliograph.settings import isolated_environment

_PACKAGE = Path(__file__).parent.parent
# Registers the package without running its __init__, which would load the whole engine into the process. The
# interpreter's own search path comes first, so that no other folder can replace its modules.
_START = (
    "import sys, types; package = types.ModuleType('heliograph'); package.__path__ = [sys.argv[1]]; "
    "sys.path += [path for path in sys.argv[2:] if path not in sys.path]; "
    "sys.modules['heliograph'] = package; from heliograph.documents.worker import main; main()"
)
# Parsers leak a little memory, so a process is replaced before that matters.
_DOCUMENTS_PER_PROCESS = 500
_LENGTH_BYTES = 8
_PIECE_BYTES = 1 << 20
_START_SECONDS = 120.0
_LAST_WORDS_SECONDS = 0.05


class DocumentReader:
    """Reads sources within limits; its methods block, may be called from any thread, and run one at a time."""

    def __init__(self, limits: Limits, *, isolate: bool = True, reads_scans: bool = False) -> None:
        """Start nothing yet.

        Args:
            limits: Limits of one document.
            isolate: Whether formats that hostile input may crash are read in a separate process; without it, time and
                memory are not limited.
            reads_scans: Whether its process reads scans too; else a second process does, so that no other document
                waits for a scan.
        """
        self._limits = limits
        self._isolate = isolate
        self._scans = None if reads_scans else DocumentReader(limits, isolate=isolate, reads_scans=True)
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._served = 0

    def load(self, raw: RawDocument) -> LoadedDocument:
        """Read a source from its bytes.

        Raises:
            IngestError: It cannot be read, is beyond a limit, or ends its reader; says why and what to do.
            MissingDependencyError: The package that reads it is not installed.
        """
        if self._isolate and find_loader(raw).runs_isolated:
            with self._lock:
                reply = _reply_of(self._ask(raw))
            if self._scans is not None and "scan" in reply:
                return self._scans.load(raw)
            fields: dict[str, Any] = reply["document"]
            fields["page_starts"] = tuple(fields["page_starts"])
            return LoadedDocument(**fields)
        return load_document(raw, self._limits)

    def draw_page(self, raw: RawDocument, number: int, width: int) -> bytes:
        """Return a page of a PDF file as PNG, always rendered in the separate process, whatever the settings are.

        Pages count from 1; `width` is in pixels.

        Raises:
            IngestError: It cannot be read, is no PDF, or has no such page.
            MissingDependencyError: The package that reads it is not installed.
        """
        with self._lock:
            return base64.b64decode(_reply_of(self._ask(raw, (number, width)))["picture"])

    def close(self) -> None:
        """Kill the process, if there is one, with the read in progress; the reader may be used again."""
        process = self._process
        if process is not None:
            # Before taking the lock, which a thread waiting for the process holds.
            process.kill()
        with self._lock:
            self._stop()
        if self._scans is not None:
            self._scans.close()

    def _ask(self, raw: RawDocument, drawing: tuple[int, int] | None = None) -> dict[str, Any]:
        if self._process is None or self._process.poll() is not None or self._served >= _DOCUMENTS_PER_PROCESS:
            self._stop()
            self._process = _start()
            self._served = 0
        self._served += 1
        try:
            request = {"drawing": drawing, "leaves_scans": self._scans is not None}
            reply = _exchange(self._process, raw, self._limits, request)
        except BaseException:
            # Its next reply would answer the previous request.
            self._stop()
            raise
        if reply is None:
            code = self._stop()
            raise IngestError(
                f"{raw.name!r} ended the process that was reading it (exit code {code}); it is broken or made to do "
                "harm, or needs more than documents.max_memory_bytes; save it anew"
            )
        return reply

    def _stop(self) -> int | None:
        """Kill the process and return its exit code, which is None if there was no process."""
        process, self._process = self._process, None
        if process is None:
            return None
        with suppress(subprocess.TimeoutExpired):
            # A process that has just died takes a moment to exit.
            process.wait(_LAST_WORDS_SECONDS)
        return _end(process)


def _start() -> subprocess.Popen[bytes]:
    """Return a process that is ready to read; an error on start is not blamed on the document."""
    search_path: list[str] = []
    for path in sys.path:
        is_working_folder = False
        with suppress(OSError):
            is_working_folder = os.path.samefile(path, os.curdir)  # noqa: PTH121 (cwd() fails where it was removed)
        if Path(path).is_absolute() and not is_working_folder:
            search_path.append(path)
    command = [sys.executable, "-I", "-c", _START, str(_PACKAGE), *search_path]
    try:
        process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            bufsize=0,
            cwd="/",
            # Threads of image libraries, each of which takes memory before any work starts.
            env={**isolated_environment(), "OPENBLAS_NUM_THREADS": "1", "OPENCV_FOR_THREADS_NUM": "1"},
            start_new_session=True,
        )
    except OSError as error:
        raise _not_started(str(error)) from error
    stdin, stdout = _streams(process)
    os.set_blocking(stdin.fileno(), False)
    try:
        if _receive(stdout, time.monotonic() + _START_SECONDS) is not None:
            return process
        told = f"exit code {process.wait(_START_SECONDS)}"
    except (TimeoutError, subprocess.TimeoutExpired):
        told = f"not ready after {_START_SECONDS:g} s"
    except BaseException:
        _end(process)
        raise
    _end(process)
    raise _not_started(told)


def _not_started(told: str) -> HeliographError:
    return HeliographError(
        f"the process that reads documents cannot be started ({told}); check that '{sys.executable} -I' runs and that "
        "Heliograph is installed whole, or set documents.isolate to false"
    )


def _end(process: subprocess.Popen[bytes]) -> int:
    """Kill a process, unless it has exited, and return its exit code."""
    process.kill()
    code = process.wait()
    for stream in _streams(process):
        stream.close()
    return code


def _exchange(
    process: subprocess.Popen[bytes], raw: RawDocument, limits: Limits, request: dict[str, Any]
) -> dict[str, Any] | None:
    """Send a document with a request, and return the reply, or None if the process died."""
    header: dict[str, Any] = {
        "name": raw.name,
        "mime_type": raw.mime_type,
        "charset": raw.charset,
        "limits": asdict(limits),
        **request,
    }
    deadline = time.monotonic() + limits.timeout_seconds
    stdin, stdout = _streams(process)
    try:
        for body in (json.dumps(header).encode(), raw.data):
            _send(stdin, len(body).to_bytes(_LENGTH_BYTES, "big"), deadline)
            _send(stdin, body, deadline)
        # An empty frame follows each page that OCR has read, which takes seconds.
        while (reply := _receive(stdout, deadline)) == b"":
            deadline = time.monotonic() + limits.timeout_seconds
    except BrokenPipeError:
        return None
    except TimeoutError as error:
        raise IngestError(
            f"{raw.name!r} was not read within {limits.timeout_seconds:g} s; split it, or raise "
            "documents.timeout_seconds"
        ) from error
    return json.loads(reply) if reply else None


def _send(stream: IO[bytes], data: bytes, deadline: float) -> None:
    """Send all the data; raises `TimeoutError` at the deadline."""
    rest = memoryview(data)
    while rest:
        _wait_for(stream, selectors.EVENT_WRITE, deadline)
        rest = rest[os.write(stream.fileno(), rest[:_PIECE_BYTES]) :]


def _receive(stream: IO[bytes], deadline: float) -> bytes | None:
    """Return the next frame, None if the process closed its side; raises `TimeoutError` at the deadline."""
    head = _read(stream, _LENGTH_BYTES, deadline)
    return None if head is None else _read(stream, int.from_bytes(head, "big"), deadline)


def _read(stream: IO[bytes], length: int, deadline: float) -> bytes | None:
    received = bytearray()
    while len(received) < length:
        _wait_for(stream, selectors.EVENT_READ, deadline)
        piece = os.read(stream.fileno(), min(length - len(received), _PIECE_BYTES))
        if not piece:
            return None
        received += piece
    return bytes(received)


def _wait_for(stream: IO[bytes], event: int, deadline: float) -> None:
    # Unlike select(), poll() accepts descriptors of any number, and unlike epoll it needs none of its own.
    with selectors.PollSelector() as selector:
        selector.register(stream, event)
        if not selector.select(max(0.0, deadline - time.monotonic())):
            raise TimeoutError


def _streams(process: subprocess.Popen[bytes]) -> tuple[IO[bytes], IO[bytes]]:
    if process.stdin is None or process.stdout is None:
        raise HeliographError("the process that reads documents has no pipes; this is a defect, please report it")
    return process.stdin, process.stdout


def _reply_of(reply: dict[str, Any]) -> dict[str, Any]:
    """Return a successful reply; raise the error of a failed one."""
    if "missing" in reply:
        # With the message that it had in the process.
        error = MissingDependencyError("")
        error.args, error.msg = (reply["missing"],), reply["missing"]
        raise error
    if "refused" in reply:
        refusal = IngestError(reply["refused"])
        refusal.traceback = reply.get("traceback", "")
        raise refusal
    return reply
