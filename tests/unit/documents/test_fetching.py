from __future__ import annotations

import asyncio
import gzip
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest

from heliograph.documents import fetching as addresses
from heliograph.documents.fetching import fetch
from heliograph.documents.sources import is_url
from heliograph.errors import IngestError
from heliograph.settings import DocumentSettings

OPEN = DocumentSettings(allow_private_addresses=True)
CLOSED = DocumentSettings()
Handler = Callable[[bytes, asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def server(handle: Handler) -> AsyncGenerator[str]:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await handle(await reader.readuntil(b"\r\n\r\n"), writer)
            await writer.drain()
        except ConnectionError:
            pass
        finally:
            writer.close()

    running = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{running.sockets[0].getsockname()[1]}"
    finally:
        running.close()


def answer(writer: asyncio.StreamWriter, body: bytes, *headers: str, status: str = "200 OK") -> None:
    head = "\r\n".join([f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", *headers])
    writer.write(head.encode() + b"\r\n\r\n" + body)


def serving(body: bytes, *headers: str, status: str = "200 OK") -> Handler:
    async def handle(request: bytes, writer: asyncio.StreamWriter) -> None:
        answer(writer, body, *headers, status=status)

    return handle


async def test_page_comes_with_its_type_and_charset() -> None:
    async with server(serving(b"<p>hi", "Content-Type: Text/HTML; charset=GBK")) as url:
        raw = await fetch(f"{url}/a", OPEN)
    assert (raw.name, raw.data, raw.mime_type, raw.charset) == (f"{url}/a", b"<p>hi", "text/html", "gbk")


@pytest.mark.parametrize("coding", ["gzip, gzip", "gzip,deflate , gzip", "br", "ZSTD"])
async def test_reply_compressed_beyond_bounds_is_refused(coding: str) -> None:
    body = gzip.compress(gzip.compress(b"x" * 1000))
    async with server(serving(body, f"Content-Encoding: {coding}")) as url:
        with pytest.raises(IngestError, match="compressed as"):
            await fetch(url, OPEN)


async def test_compressed_reply_is_unpacked_and_counted_so() -> None:
    async with server(serving(gzip.compress(b"x" * 100_000), "Content-Encoding: gzip")) as url:
        assert len((await fetch(url, OPEN)).data) == 100_000
        with pytest.raises(IngestError, match="more than 50,000 bytes"):
            await fetch(url, DocumentSettings(allow_private_addresses=True, max_file_bytes=50_000))


async def test_private_address_is_refused_unless_allowed() -> None:
    async with server(serving(b"secret")) as url:
        with pytest.raises(IngestError, match=r"127\.0\.0\.1.*documents\.allow_private_addresses"):
            await fetch(url, CLOSED)


async def test_connection_goes_to_the_checked_address_under_the_name_asked_for() -> None:
    requests: list[bytes] = []
    asked: list[str] = []

    async def handle(request: bytes, writer: asyncio.StreamWriter) -> None:
        requests.append(request)
        answer(writer, b"ok")

    async def resolver(host: str, port: int) -> list[str]:
        asked.append(host)
        return ["127.0.0.1"]

    async with server(handle) as url:
        port = url.rpartition(":")[2]
        raw = await fetch(f"http://docs.example.org:{port}/a", OPEN, resolver)
    assert raw.data == b"ok"
    assert f"Host: docs.example.org:{port}".encode() in requests[0]
    assert asked == ["docs.example.org"]


async def test_name_is_resolved_once_so_that_a_later_answer_gains_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = iter([["127.0.0.1"], ["127.0.0.2"]])

    async def resolver(host: str, port: int) -> list[str]:
        return next(answers)

    monkeypatch.setattr(addresses, "is_public", lambda address: address == "127.0.0.1")
    async with server(serving(b"ok")) as url:
        raw = await fetch(url.replace("127.0.0.1", "rebind.example"), CLOSED, resolver)
    assert raw.data == b"ok"
    assert next(answers) == ["127.0.0.2"]


async def test_redirect_is_followed_and_checked_like_the_first_address() -> None:
    async def handle(request: bytes, writer: asyncio.StreamWriter) -> None:
        if b"GET /old" in request:
            answer(writer, b"", "Location: /new", status="302 Found")
        else:
            answer(writer, b"here", "Content-Type: text/plain")

    async with server(handle) as url:
        raw = await fetch(f"{url}/old", OPEN)
        assert (raw.name, raw.data) == (f"{url}/old", b"here")


async def test_redirect_to_a_private_address_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    # Loopback plays the internet here, as no test may reach any other.
    monkeypatch.setattr(addresses, "is_public", lambda address: address == "127.0.0.1")
    async with server(serving(b"", "Location: http://169.254.169.254/latest", status="302 Found")) as url:
        with pytest.raises(IngestError, match=r"leads to '169\.254\.169\.254'"):
            await fetch(url, CLOSED)


@pytest.mark.parametrize(
    "target", ["file:///etc/passwd", "ftp://example.org/a", "gopher://x/", "http://u:p@127.0.0.1/"]
)
async def test_redirect_to_anything_but_a_plain_web_address_is_refused(target: str) -> None:
    async with server(serving(b"", f"Location: {target}", status="301 Moved")) as url:
        with pytest.raises(IngestError, match=r"not an http|user name"):
            await fetch(url, OPEN)


@pytest.mark.parametrize(
    "url", ["ftp://example.org/a", "file:///etc/passwd", "http://", "https://:80/", "http://[::1", "http://x/\ud800"]
)
async def test_address_that_is_not_of_the_web_is_refused(url: str) -> None:
    with pytest.raises(IngestError):
        await fetch(url, OPEN)


async def test_redirects_without_end_are_refused() -> None:
    async with server(serving(b"", "Location: /again", status="307 Again")) as url:
        with pytest.raises(IngestError, match="more than 5 times"):
            await fetch(url, OPEN)


async def test_reply_that_is_too_long_is_refused_whether_it_says_so_or_not() -> None:
    settings = DocumentSettings(allow_private_addresses=True, max_file_bytes=1_000)
    async with server(serving(b"x" * 2_000)) as url:
        with pytest.raises(IngestError, match=r"documents\.max_file_bytes"):
            await fetch(url, settings)

    async def endless(request: bytes, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
        while not writer.is_closing():
            writer.write(b"x" * 1_000)
            await writer.drain()

    async with server(endless) as url:
        with pytest.raises(IngestError, match=r"documents\.max_file_bytes"):
            await fetch(url, settings)


async def test_reply_that_drips_is_ended_by_the_time_limit() -> None:
    async def drip(request: bytes, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
        while not writer.is_closing():
            writer.write(b"x")
            await writer.drain()
            await asyncio.sleep(0.02)

    settings = DocumentSettings(allow_private_addresses=True, url_timeout_seconds=0.2)
    async with server(drip) as url:
        with pytest.raises(IngestError, match=r"documents\.url_timeout_seconds"):
            await fetch(url, settings)


async def test_error_of_the_server_is_named() -> None:
    async with server(serving(b"", status="404 Not Found")) as url:
        with pytest.raises(IngestError, match="404 Not Found"):
            await fetch(url, OPEN)


@pytest.mark.parametrize(
    ("source", "expected"),
    [("http://a", True), ("ftp://a", True), ("docs/a.md", False), ("C://x", True), ("://", False), ("a b://c", False)],
)
def test_url_is_told_from_a_path(source: str, expected: bool) -> None:
    assert is_url(source) is expected
