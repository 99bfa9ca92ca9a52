from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncGenerator

import pytest
import uvicorn
from fastapi import FastAPI, Request

from heliograph.server.protocol import ProblemProtocol

POST = b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 40\r\n\r\n"
WHOLE = POST + b"x" * 40


class ShortOfPatience(ProblemProtocol):
    patience_seconds = 0.2


@pytest.fixture
async def port() -> AsyncGenerator[int]:
    app = FastAPI()

    @app.post("/")
    async def length(request: Request) -> int:  # pyright: ignore[reportUnusedFunction]
        body = await request.body()
        await asyncio.sleep(0.6)
        return len(body)

    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        config = uvicorn.Config(app, lifespan="off", log_config=None, ws="none", http=ShortOfPatience)
        server = uvicorn.Server(config)
        task = asyncio.create_task(server.serve([listener]))
        yield listener.getsockname()[1]
        server.should_exit = True
        await task


async def sent(port: int, *parts: bytes, pause: float = 0.0) -> bytes:
    reader, writer = await connected(port)
    for part in parts:
        writer.write(part)
        await asyncio.sleep(pause)
    answer = await asyncio.wait_for(reader.read(), 20)
    writer.close()
    return answer


async def connected(port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    while True:
        try:
            return await asyncio.open_connection("127.0.0.1", port)
        except ConnectionRefusedError:
            await asyncio.sleep(0.02)


@pytest.mark.parametrize(
    "request_",
    [b"nonsense\r\n\r\n", b"GET /" + b"a" * 70_000 + b" HTTP/1.1\r\n\r\n", b"GET / HTTP/1.1\r\nA b: c\r\n\r\n"],
)
async def test_what_is_no_http_is_told_as_a_problem(port: int, request_: bytes) -> None:
    head, _, body = (await sent(port, request_)).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 400")
    assert b"application/problem+json" in head
    assert json.loads(body)["status"] == 400


@pytest.mark.parametrize("begun", [b"", b"POST / HT", POST, POST + b"x"], ids=["nothing", "line", "head", "body"])
async def test_request_that_never_comes_is_given_up(port: int, begun: bytes) -> None:
    assert await sent(port, begun) == b""


async def test_slow_answer_is_waited_for(port: int) -> None:
    reader, writer = await connected(port)
    for _ in range(2):
        writer.write(WHOLE)
        assert b"200 OK" in await reader.readuntil(b"\r\n\r\n")
        assert await reader.readexactly(2) == b"40"
    writer.close()


async def test_steady_body_may_take_its_time(port: int) -> None:
    head = b"POST / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: 30000\r\n\r\n"
    answer = await sent(port, head, *[b"x" * 3_000] * 10, pause=0.06)
    assert answer.endswith(b"30000")
