"""One loaded offline model for all tests, and a service on loopback that answers embedding calls as scripted."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from heliograph.embedding.e5.model import E5EmbeddingModel, E5Tokenizer, E5Weights
from heliograph.embedding.e5.weights import ArtefactCache, find_weights
from heliograph.settings import EmbeddingSettings


@pytest.fixture(scope="session")
def cache_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("e5")


@pytest.fixture(scope="session")
def weights() -> E5Weights:
    return E5Weights(find_weights())


@pytest.fixture(scope="session")
def tokenizer(weights: E5Weights, cache_folder: Path) -> E5Tokenizer:
    return E5Tokenizer(weights, ArtefactCache(cache_folder))


@pytest.fixture(scope="session")
def e5(cache_folder: Path) -> Iterator[E5EmbeddingModel]:
    model = E5EmbeddingModel(cache_folder)
    yield model
    asyncio.run(model.close())


class EmbeddingServer:
    """Gives every text a vector made from its first number, in the form asked for, or the next scripted answer."""

    def __init__(self) -> None:
        self.scripts: list[tuple[int, object]] = []
        self.asked: list[dict[str, Any]] = []
        self.base_url = ""
        self.dimension = 3
        self.refuses_base64 = False

    def vector(self, text: str) -> list[float]:
        return [float(len(text)), *[1.0] * (self.dimension - 1)]

    def reply(self, asked: dict[str, Any]) -> dict[str, Any]:
        rows = [self.vector(text) for text in asked["input"]]
        if asked["encoding_format"] == "base64":
            sent: list[Any] = [base64.b64encode(np.array(row, "<f4").tobytes()).decode() for row in rows]
        else:
            sent = rows
        data = [{"object": "embedding", "index": place, "embedding": row} for place, row in enumerate(sent)]
        usage = {"prompt_tokens": 7, "total_tokens": 7}
        return {"object": "list", "model": "m", "data": data[::-1], "usage": usage}

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
        length = next(int(line.split(":")[1]) for line in head.split("\r\n") if line.startswith("content-length"))
        self.asked.append(json.loads(await reader.readexactly(length)))
        if self.refuses_base64 and self.asked[-1]["encoding_format"] == "base64":
            status, body = 400, {"error": {"message": "encoding_format 'base64' is not supported"}}
        else:
            status, body = self.scripts.pop(0) if self.scripts else (200, self.reply(self.asked[-1]))
        sent = body.encode() if isinstance(body, str) else json.dumps(body).encode()
        kind = "text/html" if isinstance(body, str) else "application/json"
        writer.write(f"HTTP/1.1 {status} said\r\ncontent-type: {kind}\r\nconnection: close\r\n".encode())
        writer.write(f"content-length: {len(sent)}\r\n\r\n".encode() + sent)
        await writer.drain()
        writer.close()


@pytest.fixture
async def server() -> AsyncIterator[EmbeddingServer]:
    scripted = EmbeddingServer()
    listening = await asyncio.start_server(scripted.answer, "127.0.0.1", 0)
    scripted.base_url = f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}/v1"
    async with listening:
        yield scripted


@pytest.fixture
def settings(server: EmbeddingServer) -> Callable[..., EmbeddingSettings]:
    def make(**more: Any) -> EmbeddingSettings:
        given = {"provider": "openai", "model": "m", "base_url": server.base_url, "dimension": 3, "timeout_seconds": 10}
        return EmbeddingSettings(**(given | more))

    return make
