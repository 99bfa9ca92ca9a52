from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncGenerator

import pytest
import uvicorn
from fastapi import FastAPI, Request
from fastapi.responses import StreamingResponse

from heliograph.server.run import ProblemProtocol

POST = b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 40\r\n\r\n"
WHOLE = POST + b"x" * 40
LAST = WHOLE.replace(b"Host", b"Connection: close\r\nHost", 1)
LINES = "POST / HTTP/1.1\r\nHost: a\r\n"
CHUNKED = f"{LINES}Transfer-Encoding: chunked\r\n\r\n".encode()
HIDDEN = b"POST /hidden HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n"


class ShortOfPatience(ProblemProtocol):
    patience_seconds = 0.2
    most_of_one_address = 3


@pytest.fixture
async def port() -> AsyncGenerator[int]:
    app = FastAPI()

    @app.post("/")
    async def length(request: Request) -> int:  # pyright: ignore[reportUnusedFunction]
        body = await request.body()
        await asyncio.sleep(0.6)
        return len(body)

    @app.post("/stream")
    async def stream() -> StreamingResponse:  # pyright: ignore[reportUnusedFunction]
        async def pieces() -> AsyncGenerator[bytes]:
            yield b"xx"
            await asyncio.Event().wait()

        return StreamingResponse(pieces())

    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        config = uvicorn.Config(app, lifespan="off", log_config=None, ws="none", http=ShortOfPatience)
        server = uvicorn.Server(config)
        task = asyncio.create_task(server.serve([listener]))
        yield listener.getsockname()[1]
        server.should_exit = True
        await task


async def sent(port: int, *parts: bytes, pause: float = 0.0, local: tuple[str, int] | None = None) -> bytes:
    reader, writer = await connected(port, local)
    for part in parts:
        writer.write(part)
        await asyncio.sleep(pause)
    answer = await asyncio.wait_for(reader.read(), 20)
    writer.close()
    return answer


async def connected(
    port: int, local: tuple[str, int] | None = None
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    while True:
        try:
            return await asyncio.open_connection("127.0.0.1", port, local_addr=local)
        except ConnectionRefusedError:
            await asyncio.sleep(0.02)


@pytest.mark.parametrize(
    "request_",
    [
        b"nonsense\r\n\r\n",
        b"GET /" + b"a" * 70_000 + b" HTTP/1.1\r\n\r\n",
        b"GET / HTTP/1.1\r\nA b: c\r\n\r\n",
        b"GET /" + b"a" * 33_000 + b" HTTP/1.1\r\nHost: a\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\nX: " + b"a" * 60_000 + b"\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\n" + b"X: y\r\n" * 101 + b"\r\n",
        b"GET / HTTP/1.1\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
        b"GET / HTTP/1.1\nHost: a\n\n",
        b"GET / HTTP/1.1\r\nHost: a\nX: y\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\nX: y\rZ: z\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\nX: y\r\n\tfolded\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\nX: y\0z\r\n\r\n",
        f"{LINES}Content-Length : 40\r\n\r\n".encode(),
        f"{LINES}Content-Length: 40\r\nContent-Length: 40\r\n\r\n".encode(),
        f"{LINES}Content-Length: 40\r\ncontent-length: 4\r\n\r\n".encode(),
        f"{LINES}Content-Length: 40, 40\r\n\r\n".encode(),
        f"{LINES}Content-Length: +40\r\n\r\n".encode(),
        f"{LINES}Content-Length: 40\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n".encode(),
        f"{LINES}Transfer-Encoding: chunked\r\nContent-Length: 40\r\n\r\n0\r\n\r\n".encode(),
        f"{LINES}Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n".encode(),
        f"{LINES}Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n".encode(),
        b"POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        CHUNKED + b"zz\r\n",
        CHUNKED + b"2\r\nxxyy\r\n",
        CHUNKED + b"2;a\nb\r\nxx\r\n0\r\n\r\n",
    ],
    ids=lambda request: repr(request)[:40],
)
@pytest.mark.parametrize("is_whole", [True, False])
async def test_what_is_no_http_is_told_as_a_problem(port: int, request_: bytes, is_whole: bool) -> None:
    # What comes after it on the same connection is no request, whoever reads it.
    parts = [request_ + HIDDEN] if is_whole else [request_[:200], request_[200:] + HIDDEN]
    head, _, body = (await sent(port, *parts)).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 400")
    assert b"application/problem+json" in head
    assert json.loads(body)["status"] == 400


@pytest.mark.parametrize("end", [b"0\r\n\r\n", b"0\r\n\n", b"0\r\nX: y\n\n", b"0\r\nX: y\r\n\r\n"])
async def test_body_in_chunks_is_the_last_of_its_connection(port: int, end: bytes) -> None:
    answer = await sent(port, CHUNKED + b"2\r\nxx\r\n" + end + HIDDEN)
    assert answer.count(b"HTTP/1.1 ") == 1
    assert answer.endswith(b"\r\n\r\n2")
    assert b"connection: close" in answer.lower()


async def test_requests_with_a_length_share_a_connection(port: int) -> None:
    answer = await sent(port, WHOLE + LAST)
    assert answer.count(b"200 OK") == 2


async def test_answer_under_way_breaks_off_at_what_is_no_http(port: int, caplog: pytest.LogCaptureFixture) -> None:
    reader, writer = await connected(port)
    writer.write(CHUNKED.replace(b"/", b"/stream", 1) + b"2\r\nxx\r\n")
    assert (await reader.readuntil(b"xx")).startswith(b"HTTP/1.1 200")
    writer.write(b"no chunk\r\n")
    assert b"HTTP/1.1" not in await asyncio.wait_for(reader.read(), 20)
    writer.close()
    assert not [record for record in caplog.records if record.exc_info]


async def test_one_address_has_so_many_connections(port: int) -> None:
    held = [await connected(port) for _ in range(3)]
    # The server has met all of them.
    for reader, writer in held:
        writer.write(POST.replace(b"/", b"/nothing", 1))
        await reader.readuntil(b"\r\n\r\n")
    assert (await sent(port)).startswith(b"HTTP/1.1 429")
    assert (await sent(port, LAST, local=("127.0.0.2", 0))).startswith(b"HTTP/1.1 200")
    held[0][1].close()
    while not (await sent(port, LAST)).startswith(b"HTTP/1.1 200"):  # noqa: ASYNC110
        await asyncio.sleep(0.02)
    for _, writer in held:
        writer.close()


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
