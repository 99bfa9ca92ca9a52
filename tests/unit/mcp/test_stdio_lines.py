"""One client over two pipes: what is no message is answered, and what is asked is answered before the end."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from io import FileIO
from typing import Any

import pytest
from mcp.server import Server
from mcp.types import CallToolRequestParams, CallToolResult, TextContent

from heliograph.mcp.stdio import serve_lines

FOREVER = 3_600.0
HELLO = {
    "jsonrpc": "2.0",
    "id": 0,
    "method": "initialize",
    "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}},
}


def asking(id_: int | str, text: str = "") -> dict[str, Any]:
    params = {"name": "echo", "arguments": {"text": text}}
    return {"jsonrpc": "2.0", "id": id_, "method": "tools/call", "params": params}


@dataclass
class Connection:
    """A client's ends of both pipes, and the server's hold on its answers."""

    to_server: FileIO
    from_server: FileIO
    serving: asyncio.Task[None]
    gate: asyncio.Event
    called: asyncio.Queue[str] = field(default_factory=asyncio.Queue)

    async def send(self, *lines: dict[str, Any] | bytes) -> None:
        data = b"".join(line if isinstance(line, bytes) else json.dumps(line).encode() + b"\n" for line in lines)

        def write() -> None:
            view = memoryview(data)
            while view:
                view = view[self.to_server.write(view) :]

        await asyncio.to_thread(write)

    async def receive(self) -> dict[str, Any]:
        line = await asyncio.to_thread(self.from_server.readline)
        found: dict[str, Any] = json.loads(line)
        return found

    async def rest(self) -> list[Any]:
        """End the input, wait for the server's end, and return the ids of what it still wrote."""
        self.to_server.close()
        reading = asyncio.create_task(asyncio.to_thread(self.from_server.readall))
        await self.serving
        return [json.loads(line)["id"] for line in (await reading or b"").splitlines()]


@asynccontextmanager
async def connected(most_bytes: int = 1_000_000, patience_seconds: float = FOREVER) -> AsyncGenerator[Connection]:
    """Connect a client to a server whose one tool returns its text when the gate opens."""
    (their_input, to_server), (from_server, their_output) = os.pipe(), os.pipe()

    async def call_tool(_: Any, params: CallToolRequestParams) -> CallToolResult:
        text = str((params.arguments or {})["text"])
        connection.called.put_nowait(text)
        await connection.gate.wait()
        return CallToolResult(content=[TextContent(type="text", text=text)])

    server = Server("test", on_call_tool=call_tool)

    async def serve() -> None:
        try:
            await serve_lines(server, their_input, their_output, most_bytes, patience_seconds)
        finally:
            os.close(their_output)

    with FileIO(to_server, "wb") as sink, FileIO(from_server, "rb") as source:
        connection = Connection(sink, source, asyncio.create_task(serve()), asyncio.Event())
        await connection.send(HELLO, b'{"jsonrpc": "2.0", "method": "notifications/initialized"}\n')
        assert (await connection.receive())["id"] == 0
        try:
            yield connection
        finally:
            sink.close()
            connection.gate.set()
            await asyncio.wait([connection.serving])
            os.close(their_input)


def text_of(reply: dict[str, Any]) -> str:
    return str(reply["result"]["content"][0]["text"])


@pytest.mark.parametrize("line", [b"garbage {", b'{"jsonrpc": "2.0", "id": 1', b"[" * 1_000, b'{"a":' * 300, b"("])
async def test_what_is_no_json_is_a_parse_error_of_no_request(line: bytes) -> None:
    async with connected() as client:
        await client.send(line + b"\n")
        refused = await client.receive()
        assert (refused["id"], refused["error"]["code"]) == (None, -32700)


@pytest.mark.parametrize(
    ("line", "id_"),
    [
        (b"null", None),
        (b"[1]", None),
        (b'{"jsonrpc": "2.0"}', None),
        (b'{"jsonrpc": "2.0", "id": true, "method": 5}', None),
        (b'{"jsonrpc": "2.0", "id": 3, "method": 5}', 3),
        (b'{"jsonrpc": "2.0", "id": "a", "method": "ping", "params": [1]}', "a"),
        (b'{"jsonrpc": "1.0", "id": 4, "method": "ping"}', 4),
    ],
)
async def test_other_json_is_an_invalid_request_under_its_id_if_it_has_one(line: bytes, id_: int | str | None) -> None:
    async with connected() as client:
        await client.send(line + b"\n")
        refused = await client.receive()
        assert (refused["id"], refused["error"]["code"]) == (id_, -32600)


async def test_empty_lines_and_answers_are_not_answered() -> None:
    async with connected() as client:
        await client.send(
            b"\n", b" \r\n", b'{"jsonrpc": "2.0", "id": 3, "result": 5}\n', b'{"id": null, "error": {}}\n'
        )
        await client.send(b"garbage\n")
        assert (await client.receive())["error"]["code"] == -32700
        assert await client.rest() == []


async def test_line_that_is_too_long_is_refused_and_the_next_is_read() -> None:
    async with connected(most_bytes=1_000) as client:
        client.gate.set()
        await client.send(json.dumps(asking(1, "a" * 300_000)).encode() + b"\n", asking(2, "b" * 800))
        assert "longer than" in (await client.receive())["error"]["message"]
        assert text_of(await client.receive()) == "b" * 800


async def test_long_texts_come_and_go_whole_and_the_last_needs_no_end_mark() -> None:
    async with connected() as client:
        client.gate.set()
        for number, text in enumerate(("三" * 100_000, "zwei ä", "\x00\n" * 1_000), 1):
            await client.send(asking(number, text))
            assert text_of(await client.receive()) == text
        await client.send(json.dumps(asking(9, "end")).encode())
        assert await client.rest() == [9]


async def test_bytes_that_are_no_text_and_halves_of_surrogate_pairs_are_replaced() -> None:
    async with connected() as client:
        client.gate.set()
        await client.send(json.dumps(asking(1, "half \ud800, whole \U0001f600")).encode() + b"\n")
        assert text_of(await client.receive()) == "half \ufffd, whole \U0001f600"
        await client.send(json.dumps(asking(2, "?!")).encode().replace(b"?!", b"\xff\xfe") + b"\n")
        assert text_of(await client.receive()) == "\ufffd\ufffd"
        await client.send(b"[" * 100_000 + b"\\ud800\n")
        assert (await client.receive())["error"]["code"] == -32700


async def test_end_waits_for_every_answer() -> None:
    async with connected() as client:
        await client.send(asking(1, "a"), asking("1", "b"))
        assert {await client.called.get(), await client.called.get()} == {"a", "b"}
        ending = asyncio.create_task(client.rest())
        await asyncio.wait([client.serving], timeout=0)
        assert not client.serving.done()
        client.gate.set()
        assert set(await ending) == {1, "1"}


async def test_cancelled_request_waits_for_no_answer() -> None:
    async with connected() as client:
        await client.send(asking(1))
        await client.called.get()
        cancelled = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}}
        await client.send(cancelled)
        assert 1 not in await client.rest()


async def test_patience_has_an_end() -> None:
    async with connected(patience_seconds=0.01) as client:
        await client.send(asking(1))
        await client.called.get()
        await client.rest()


async def test_client_that_reads_nothing_any_more_ends_the_serving() -> None:
    async with connected() as client:
        client.from_server.close()
        client.gate.set()
        await client.send(asking(1))
        await client.serving


async def test_slow_reader_gets_every_answer_whole() -> None:
    async with connected() as client:
        client.gate.set()
        await client.send(*(asking(number, f"{number}" * 100_000) for number in range(1, 6)))
        replies = [await client.receive() for _ in range(5)]
        assert {text_of(reply) for reply in replies} == {f"{number}" * 100_000 for number in range(1, 6)}
