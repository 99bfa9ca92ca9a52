"""A service on loopback that answers chat calls as scripted, and a reply cache in memory."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import pytest

from heliograph.chat.base import ChatMessage, ChatRequest, Purpose
from heliograph.settings import ChatSettings
from heliograph.stores.base import CachedReply, ReplyCache


@dataclass
class Script:
    """One answer: a body, or events of a stream; `hangs` keeps the connection open after it."""

    status: int = 200
    body: str = ""
    content_type: str = "application/json"
    headers: dict[str, str] = field(default_factory=dict)
    hangs: bool = False


class OpenAIServer:
    """Answers each call with the next script, and keeps what was asked."""

    def __init__(self) -> None:
        self.scripts: list[Script] = []
        self.asked: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.left = asyncio.Event()
        self.base_url = ""

    def will_send(self, body: object, status: int = 200, **more: Any) -> None:
        self.scripts.append(Script(status, json.dumps(body), **more))

    def will_reply(self, content: object, *, reason: str | None = "stop", usage: object = None) -> None:
        message = {"role": "assistant", "content": content, "reasoning_content": "private thoughts"}
        choice = {"index": 0, "message": message, "finish_reason": reason}
        self.will_send({"id": "1", "object": "chat.completion", "choices": [choice], "usage": usage})

    def will_stream(
        self, *pieces: object, reason: str | None = "stop", usage: object = None, hangs: bool = False
    ) -> None:
        events: list[object] = [{"choices": [{"index": 0, "delta": {"content": piece}}]} for piece in pieces]
        if not hangs:
            events.append({"choices": [{"index": 0, "delta": {}, "finish_reason": reason}]})
            if usage:
                events.append({"choices": [], "usage": usage})
            events.append("[DONE]")
        self.will_send_events(*events, hangs=hangs)

    def will_send_events(self, *events: object, hangs: bool = False) -> None:
        lines = [f"data: {event if isinstance(event, str) else json.dumps(event)}\n\n" for event in events]
        self.scripts.append(Script(200, "".join(lines), "text/event-stream", hangs=hangs))

    def will_refuse(self, status: int, message: str, **fields: object) -> None:
        self.will_send({"error": {"message": message, **fields}}, status)

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await self._answer(reader, writer)
        finally:
            writer.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:] if line)}
        self.headers.append(headers)
        self.asked.append(json.loads(await reader.readexactly(int(headers["content-length"]))))
        script = self.scripts.pop(0)
        body = script.body.encode()
        # A stream has no length: it ends with the connection.
        length = {} if script.hangs or script.content_type == "text/event-stream" else {"content-length": len(body)}
        lines = {"content-type": script.content_type, "connection": "close", **length, **script.headers}
        writer.write(f"HTTP/1.1 {script.status} said\r\n".encode())
        writer.write("".join(f"{name}: {value}\r\n" for name, value in lines.items()).encode() + b"\r\n" + body)
        await writer.drain()
        if script.hangs:
            with suppress(ConnectionResetError):  # one way to leave
                await reader.read()
            self.left.set()


@pytest.fixture
async def server() -> AsyncIterator[OpenAIServer]:
    scripted = OpenAIServer()
    listening = await asyncio.start_server(scripted.answer, "127.0.0.1", 0)
    scripted.base_url = f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}/v1"
    async with listening:
        yield scripted


@pytest.fixture
def settings(server: OpenAIServer) -> ChatSettings:
    return ChatSettings(model="m", base_url=server.base_url, timeout_seconds=10)


class MemoryReplies(ReplyCache):
    """Keeps replies in a dict; can be told to fail."""

    def __init__(self) -> None:
        self.kept: dict[str, CachedReply] = {}
        self.fail_reading: Exception | None = None
        self.fail_writing: Exception | None = None

    async def get_reply(self, key: str) -> CachedReply | None:
        if self.fail_reading:
            raise self.fail_reading
        return self.kept.get(key)

    async def put_reply(self, reply: CachedReply) -> None:
        if self.fail_writing:
            raise self.fail_writing
        self.kept[reply.key] = reply

    async def delete_replies(self, cache_type: str | None = None) -> int:
        raise NotImplementedError


@pytest.fixture
def replies() -> MemoryReplies:
    return MemoryReplies()


@pytest.fixture
def make_request() -> Callable[..., ChatRequest]:
    def make(text: str = "hello", purpose: Purpose = Purpose.ANSWER, **more: Any) -> ChatRequest:
        return ChatRequest((ChatMessage("user", text),), purpose, **more)

    return make
