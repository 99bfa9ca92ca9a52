"""Reading documents outside the event loop, hostile ones in a process of their own that can be ended.

`DocumentReader` owns at most one such process: started for the first document that needs it, used for those after it,
killed when one takes too long, and replaced when it dies. Plain text, Markdown and program text, whose readers are
Python of linear cost in time and memory, are read in the caller's thread.
"""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import threading
import time
from dataclasses import asdict
from pathlib import Path
from typing import IO, Any

from heliograph.documents.base import Limits, LoadedDocument, RawDocument
from heliograph.documents.reading import read_file
from heliograph.documents.registry import find_loader, load_document
from heliograph.documents.worker import write_frame
from heliograph.errors import HeliographError, IngestError, MissingDependencyError
from heliograph.settings import DocumentSettings

__all__ = ["DocumentReader", "limits_of"]

_PACKAGE = Path(__file__).parent.parent
# Makes the package known without running its __init__, which would load the whole engine into the process.
_START = (
    "import sys, types; package = types.ModuleType('heliograph'); package.__path__ = [sys.argv[1]]; "
    "sys.modules['heliograph'] = package; from heliograph.documents.worker import main; main()"
)
# Parsers leak a little; a process is replaced before that counts.
_DOCUMENTS_PER_PROCESS = 500
_LENGTH_BYTES = 8
_LAST_WORDS_SECONDS = 0.05


def limits_of(settings: DocumentSettings, max_characters: int) -> Limits:
    """Return the limits that settings ask for.

    Args:
        settings: Those of the documents.
        max_characters: Longest text, which `ingest.max_document_characters` sets.
    """
    return Limits(
        max_bytes=settings.max_file_bytes,
        max_characters=max_characters,
        max_pages=settings.max_pages,
        max_unpacked_bytes=settings.max_unpacked_bytes,
        max_archive_entries=settings.max_archive_entries,
        max_compression_ratio=settings.max_compression_ratio,
        max_memory_bytes=settings.max_memory_bytes,
        timeout_seconds=settings.timeout_seconds,
    )


class DocumentReader:
    """Reads sources within limits; its methods block and may be called from any thread, one at a time goes on."""

    def __init__(self, limits: Limits, *, isolate: bool = True) -> None:
        """Start nothing yet.

        Args:
            limits: What one document may cost.
            isolate: Whether formats that hostile input may crash are read in a process of their own; without it, time
                and memory are not limited.
        """
        self._limits = limits
        self._isolate = isolate
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._served = 0

    def read(self, path: str | os.PathLike[str]) -> LoadedDocument:
        """Return what a file says.

        Raises:
            IngestError: It cannot be read, is beyond a limit, or ends its reader; says why and what to do.
            MissingDependencyError: The package that reads it is not installed.
        """
        return self.load(read_file(path, self._limits.max_bytes))

    def load(self, raw: RawDocument) -> LoadedDocument:
        """Return what the bytes of a source say; raises as `read`."""
        if self._isolate and find_loader(raw).runs_isolated:
            with self._lock:
                return self._load_isolated(raw)
        return load_document(raw, self._limits)

    def close(self) -> None:
        """End the process, if there is one, and so what it is reading; the reader may be used again."""
        process = self._process
        if process is not None:
            # Before the lock, which whoever waits for the process holds.
            process.kill()
        with self._lock:
            self._stop()

    def _load_isolated(self, raw: RawDocument) -> LoadedDocument:
        if self._process is None or self._process.poll() is not None or self._served >= _DOCUMENTS_PER_PROCESS:
            self._stop()
            self._process = _start()
            self._served = 0
        self._served += 1
        try:
            reply = _exchange(self._process, raw, self._limits)
        except BaseException:
            # Whatever it was doing, its next reply would be to the wrong question.
            self._stop()
            raise
        if reply is None:
            code = self._stop()
            raise IngestError(
                f"{raw.name!r} ended the process that was reading it (exit code {code}); it is broken or made to do "
                "harm, or needs more than documents.max_memory_bytes; save it anew"
            )
        return _document(reply)

    def _stop(self) -> int | None:
        """End the process and return its exit code, which is None if there was no process."""
        process, self._process = self._process, None
        if process is None:
            return None
        try:
            # One that has just died takes a moment to be gone.
            code = process.wait(_LAST_WORDS_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            code = process.wait()
        _close_streams(process)
        return code


def _start() -> subprocess.Popen[bytes]:
    try:
        return subprocess.Popen(
            [sys.executable, "-c", _START, str(_PACKAGE)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
    except OSError as error:
        raise HeliographError(
            f"the process that reads documents cannot be started ({error}); check that {sys.executable!r} runs, or set "
            "documents.isolate to false"
        ) from error


def _exchange(process: subprocess.Popen[bytes], raw: RawDocument, limits: Limits) -> dict[str, Any] | None:
    """Send a document and return the reply, or None if the process died.

    Raises:
        IngestError: No reply came in time.
    """
    header = {"name": raw.name, "mime_type": raw.mime_type, "charset": raw.charset, "limits": asdict(limits)}
    deadline = time.monotonic() + limits.timeout_seconds
    stdin, stdout = _streams(process)
    try:
        write_frame(stdin, json.dumps(header).encode())  # pyright: ignore[reportArgumentType]
        write_frame(stdin, raw.data)  # pyright: ignore[reportArgumentType]
    except BrokenPipeError:
        return None
    head = _receive(stdout, _LENGTH_BYTES, deadline, raw.name, limits)
    body = _receive(stdout, int.from_bytes(head, "big"), deadline, raw.name, limits) if head else b""
    return json.loads(body) if body else None


def _receive(stream: IO[bytes], length: int, deadline: float, name: str, limits: Limits) -> bytes:
    """Return so many bytes; none if the process closed its side before."""
    received = bytearray()
    while len(received) < length:
        ready, _, _ = select.select([stream], [], [], max(0.0, deadline - time.monotonic()))
        if not ready:
            raise IngestError(
                f"{name!r} was not read within {limits.timeout_seconds:g} s; split it, or raise "
                "documents.timeout_seconds"
            )
        piece = os.read(stream.fileno(), min(length - len(received), 1 << 20))
        if not piece:
            return b""
        received += piece
    return bytes(received)


def _streams(process: subprocess.Popen[bytes]) -> tuple[IO[bytes], IO[bytes]]:
    if process.stdin is None or process.stdout is None:
        raise HeliographError("the process that reads documents has no pipes; this is a defect, please report it")
    return process.stdin, process.stdout


def _close_streams(process: subprocess.Popen[bytes]) -> None:
    for stream in _streams(process):
        try:
            stream.close()
        except BrokenPipeError:
            # What it had not read yet goes with it.
            continue


def _document(reply: dict[str, Any]) -> LoadedDocument:
    if "missing" in reply:
        raise _missing(reply["missing"])
    if "refused" in reply:
        refusal = IngestError(reply["refused"])
        refusal.traceback = reply.get("traceback", "")
        raise refusal
    fields: dict[str, Any] = reply["document"]
    fields["page_starts"] = tuple(fields["page_starts"])
    return LoadedDocument(**fields)


def _missing(message: str) -> MissingDependencyError:
    """Return the error with the message that it had in the process."""
    error = MissingDependencyError("")
    error.args, error.msg = (message,), message
    return error
