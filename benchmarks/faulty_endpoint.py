"""A model endpoint on loopback that speaks OpenAI's protocol and fails in every way that endpoints fail in.

Written on bare sockets, since a web framework would not send what is broken. Chat replies are right for what is asked
(keywords, extraction, summary, answer), vectors are drawn from a hash of the text. The share of calls that fail, and
the ways, may be changed while it runs.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
import random
import re
from collections import Counter
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager, suppress
from itertools import pairwise
from typing import Any

import numpy as np

__all__ = ["ANSWER", "DIMENSION", "FAULTS", "FaultyEndpoint", "faulty_endpoint"]

DIMENSION = 64
ANSWER = "The valley pump station is kept by the team that the record names, as the sources say [1]."
FAULTS = (
    "silence",
    "429",
    "429 with Retry-After",
    "500",
    "503 in HTML",
    "hung up",
    "cut off",
    "ended early",
    "garbage",
    "another object",
    "empty",
    "a web page",
    "slow",
    "endless",
)
_NAMES = re.compile(r"\b[A-Z][a-z]{2,}\b")
_LENGTH = re.compile(rb"content-length: *(\d+)", re.IGNORECASE)
# What is sent whole in place of a reply: status, type, body.
_INSTEAD = {
    "429": (429, "application/json", b'{"error": {"message": "slow down"}}'),
    "429 with Retry-After": (429, "application/json", b'{"error": {"message": "slow down"}}'),
    "500": (500, "application/json", b'{"error": {"message": "internal"}}'),
    "503 in HTML": (503, "text/html", b"<html><h1>Sorry</h1></html>"),
    "garbage": (200, "application/json", b'\xff\xfe{"choices": [{"mess'),
    "another object": (200, "application/json", b'{"hello": [1, null, {"choices": 3}], "data": 7}'),
    "a web page": (200, "text/html", b"<html><h1>Log in</h1></html>"),
}
_PIECE = 12
_SLOW_SECONDS = 0.04
# Of these only a part is sent.
_BROKEN = ("cut off", "ended early", "endless")


class FaultyEndpoint:
    """What is at the address.

    Args:
        seed: Of the choice of faults.

    Attributes:
        address: Where it listens, as `base_url` is given.
        share: The part of calls that fail, 0 to 1.
        faults: The ways they fail in.
        seen: Calls by what became of them, "right" or a fault.
        prompts: The last system and user messages of chat calls, the latest last.
        delay_seconds: Before every reply, to stand for a model's work.
    """

    def __init__(self, seed: int = 1) -> None:
        self.address = ""
        self.share = 0.0
        self.faults: Sequence[str] = FAULTS
        self.seen: Counter[str] = Counter()
        self.prompts: list[str] = []
        self.delay_seconds = 0.0
        self._random = random.Random(seed)
        self._calls: dict[asyncio.Task[Any], asyncio.StreamWriter] = {}

    async def close(self) -> None:
        """Cut off the calls that are under way, and wait for their ends."""
        for writer in self._calls.values():
            writer.transport.abort()
        if self._calls:
            await asyncio.wait(self._calls, timeout=10)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one connection, which is used for one call."""
        if (task := asyncio.current_task()) is not None:
            self._calls[task] = writer
            task.add_done_callback(self._calls.pop)
        with suppress(OSError, asyncio.IncompleteReadError):
            head = await reader.readuntil(b"\r\n\r\n")
            length = _LENGTH.search(head)
            body = json.loads(await reader.readexactly(int(length[1]) if length else 0))
            fault = self._random.choice(self.faults) if self._random.random() < self.share else ""
            self.seen[fault or "right"] += 1
            await asyncio.sleep(self.delay_seconds)
            await self._answer(body, fault, reader, writer)
        writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()

    async def _answer(
        self, body: dict[str, Any], fault: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        if fault == "silence":
            # Until the client has had enough.
            await reader.read()
        elif fault == "hung up":
            writer.transport.abort()
        elif fault in _INSTEAD:
            status, kind, sent = _INSTEAD[fault]
            await _whole(writer, sent, status, kind, has_advice="Retry-After" in fault)
        elif "input" in body:
            await _drip(writer, _vectors(body, fault), fault)
        else:
            self._remember(body["messages"])
            text = "" if fault == "empty" else _reply(body["messages"])
            await (_stream if body.get("stream") else _completion)(writer, text, fault)
        if fault == "endless":
            await reader.read()

    def _remember(self, messages: list[dict[str, Any]]) -> None:
        self.prompts.append("\n".join(str(message["content"]) for message in messages))
        del self.prompts[:-50]


@asynccontextmanager
async def faulty_endpoint(seed: int = 1) -> AsyncGenerator[FaultyEndpoint]:
    """Run one on a free port."""
    endpoint = FaultyEndpoint(seed)
    server = await asyncio.start_server(endpoint.serve, "127.0.0.1", 0, limit=2**26)
    endpoint.address = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
    try:
        yield endpoint
    finally:
        server.close()
        await endpoint.close()


def _reply(messages: list[dict[str, Any]]) -> str:
    whole = "\n".join(str(message["content"]) for message in messages)
    if "high_level_keywords" in whole:
        question = str(messages[-1]["content"])
        return json.dumps({"high_level_keywords": ["keeping"], "low_level_keywords": _NAMES.findall(question)[-3:]})
    if '"relations": [{"source"' in whole:
        return json.dumps(_records(str(messages[1]["content"])))
    if "statements stand between two marker lines" in whole:
        return "A thing of which several reports speak."
    return ANSWER


def _records(passage: str) -> dict[str, Any]:
    names = list(dict.fromkeys(name for name in _NAMES.findall(passage) if name not in ("Document", "Section")))[:5]
    entities = [{"name": name, "type": "concept", "description": f"{name} is in the report."} for name in names]
    relations = [
        {"source": one, "target": other, "keywords": "keeping", "description": f"{one} goes with {other}."}
        for one, other in pairwise(names)
    ]
    return {"entities": entities, "relations": relations}


def _vectors(body: dict[str, Any], fault: str) -> bytes:
    texts = body["input"] if isinstance(body["input"], list) else [body["input"]]
    rows = [_vector(text) for text in ([] if fault == "empty" else texts)]
    is_packed = body.get("encoding_format") == "base64"
    data = [
        {"index": place, "embedding": base64.b64encode(row.tobytes()).decode() if is_packed else row.tolist()}
        for place, row in enumerate(rows)
    ]
    return json.dumps({"object": "list", "data": data, "usage": {"prompt_tokens": len(texts)}}).encode()


def _vector(text: str) -> np.ndarray[Any, np.dtype[np.float32]]:
    total = np.zeros(DIMENSION, np.float32)
    for word in re.findall(r"\w+", text.lower()):
        seed = int.from_bytes(hashlib.blake2b(word.encode(), digest_size=8).digest())
        total += np.random.default_rng(seed).standard_normal(DIMENSION, np.float32)
    return total if total.any() else np.ones(DIMENSION, np.float32)


async def _completion(writer: asyncio.StreamWriter, text: str, fault: str) -> None:
    choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
    usage = {"prompt_tokens": 10, "completion_tokens": 10, "total_tokens": 20}
    body = {"id": "1", "object": "chat.completion", "model": "faulty", "choices": [choice], "usage": usage}
    await _drip(writer, json.dumps(body).encode(), fault)


async def _stream(writer: asyncio.StreamWriter, text: str, fault: str) -> None:
    events = [{"content": text[start : start + _PIECE]} for start in range(0, len(text), _PIECE)]
    if fault in _BROKEN:
        events = events[: len(events) // 2]
    _start(writer, 200, "text/event-stream", "Transfer-Encoding: chunked")
    for delta in events:
        await _chunk(writer, {"index": 0, "delta": delta, "finish_reason": None})
        if fault == "slow":
            await asyncio.sleep(_SLOW_SECONDS)
    if fault == "cut off":
        writer.transport.abort()
    if fault in ("cut off", "endless"):
        return
    if fault != "ended early":
        await _chunk(writer, {"index": 0, "delta": {}, "finish_reason": "stop"})
        writer.write(_framed(b"data: [DONE]\n\n"))
    writer.write(b"0\r\n\r\n")
    await writer.drain()


async def _chunk(writer: asyncio.StreamWriter, choice: dict[str, Any]) -> None:
    body = {"id": "1", "object": "chat.completion.chunk", "model": "faulty", "choices": [choice]}
    writer.write(_framed(b"data: " + json.dumps(body).encode() + b"\n\n"))
    await writer.drain()


def _framed(data: bytes) -> bytes:
    return f"{len(data):x}\r\n".encode() + data + b"\r\n"


async def _drip(writer: asyncio.StreamWriter, body: bytes, fault: str) -> None:
    """Send a body whole, in parts with waits between, or in part."""
    if fault not in ("slow", *_BROKEN):
        await _whole(writer, body)
        return
    _start(writer, 200, "application/json", f"Content-Length: {len(body)}")
    size = len(body) // 6 + 1
    parts = [body[start : start + size] for start in range(0, len(body), size)]
    for part in parts[: 3 if fault in _BROKEN else len(parts)]:
        writer.write(part)
        await writer.drain()
        await asyncio.sleep(_SLOW_SECONDS)


async def _whole(
    writer: asyncio.StreamWriter,
    body: bytes,
    status: int = 200,
    kind: str = "application/json",
    *,
    has_advice: bool = False,
) -> None:
    advice = ("Retry-After: 1",) if has_advice else ()
    _start(writer, status, kind, f"Content-Length: {len(body)}", *advice)
    writer.write(body)
    await writer.drain()


def _start(writer: asyncio.StreamWriter, status: int, kind: str, *headers: str) -> None:
    lines = (f"HTTP/1.1 {status} Any", f"Content-Type: {kind}", "Connection: close", *headers, "", "")
    writer.write("\r\n".join(lines).encode())
