"""The process that parses what hostile input may crash: requests come in on standard input, replies go out.

A frame is eight bytes of length and then that many bytes. An empty one means that the process is ready, or has read one
more page of a scan. A request is two frames: a header as JSON and the bytes of the source. A reply is one frame of
JSON. The output of parsers is discarded; the process ends when its input does.
"""

from __future__ import annotations

import base64
import json
import os
import resource
import sys
from dataclasses import asdict
from functools import partial
from typing import BinaryIO

from heliograph.documents import scans
from heliograph.documents.base import Limits, RawDocument
from heliograph.documents.compressed import unpack
from heliograph.documents.pdf import draw_page
from heliograph.documents.registry import load_document
from heliograph.errors import IngestError, MissingDependencyError

_LENGTH_BYTES = 8


def read_frame(stream: BinaryIO) -> bytes | None:
    """Return the next frame, or None at the end of the stream."""
    head = stream.read(_LENGTH_BYTES)
    if len(head) < _LENGTH_BYTES:
        return None
    length = int.from_bytes(head, "big")
    body = stream.read(length)
    return body if len(body) == length else None


def write_frame(stream: BinaryIO, body: bytes) -> None:
    """Write a frame and flush."""
    stream.write(len(body).to_bytes(_LENGTH_BYTES, "big"))
    stream.write(body)
    stream.flush()


def main() -> None:
    """Serve requests until standard input ends."""
    replies = os.fdopen(os.dup(1), "wb")
    requests = sys.stdin.buffer
    # The output of libraries must not get between the frames.
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    write_frame(replies, b"")
    scans.on_page = partial(write_frame, replies, b"")
    while (header := read_frame(requests)) is not None and (data := read_frame(requests)) is not None:
        write_frame(replies, _serve(header, data))


def _serve(header: bytes, data: bytes) -> bytes:
    request = json.loads(header)
    limits = Limits(**request["limits"])
    raw = RawDocument(request["name"], data, request["mime_type"], request["charset"])
    _limit_memory(limits.max_memory_bytes)
    scans.are_left = request.get("leaves_scans", False)
    try:
        if drawing := request.get("drawing"):
            reply = {"picture": base64.b64encode(draw_page(unpack(raw, limits), *drawing)).decode()}
        else:
            reply = {"document": asdict(load_document(raw, limits))}
    except scans.ScanLeftError:
        reply = {"scan": True}
    except MissingDependencyError as error:
        reply = {"missing": str(error)}
    except IngestError as error:
        reply = {"refused": str(error)}
    except MemoryError:
        needs = f"{raw.name!r} needs more than {limits.max_memory_bytes:,} bytes of memory to be read"
        reply = {"refused": f"{needs}; split it, or raise documents.max_memory_bytes"}
    except RecursionError:
        reply = {"refused": f"{raw.name!r} nests too deeply to be read; simplify it"}
    except Exception as error:  # noqa: BLE001 (not swallowed: it is told of and logged where the document is wanted)
        defect = IngestError.of_defect(repr(raw.name), error)
        hint = "or it is broken or made to do harm, or needs more than documents.max_memory_bytes"
        reply = {"refused": f"{defect}; {hint}", "traceback": defect.traceback}
    return json.dumps(reply, default=str).encode()


def _limit_memory(max_bytes: int) -> None:
    """Limit this process's memory, on systems that can."""
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    wanted = max_bytes or hard
    if soft != wanted and (hard == resource.RLIM_INFINITY or wanted <= hard):
        try:
            resource.setrlimit(resource.RLIMIT_AS, (wanted, hard))
        except (OSError, ValueError):
            # macOS has the limit but rejects setting it; time and size are still limited.
            return
