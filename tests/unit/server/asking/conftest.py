from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest
import uvicorn
from fastapi import FastAPI

from heliograph.chat.base import Purpose
from heliograph.engine import AsyncHeliograph, Given
from heliograph.extraction.local import LocalExtractor
from heliograph.server.app import create_app
from heliograph.settings import Settings
from heliograph.testing.fakes import FakeChatModel, FakeEmbeddingModel, FakeReranker

NOTES = "The ESP32 speaks MQTT over TLS. It was made by Espressif in Shanghai."
LAMPS = "Hester Tarrant kept the Gannet Head light for nine years. Tobias Fenn wound its clock."
QUESTION = "What does the ESP32 speak?"
ANSWER = "The ESP32 speaks MQTT over TLS [1]. It was made by Espressif [1]."
KEYWORDS = '{"high_level_keywords": ["protocol"], "low_level_keywords": ["ESP32"]}'


@dataclass
class World:
    """The application on fake models, with two documents in its workspace."""

    app: FastAPI
    chat: FakeChatModel | None
    embedding: FakeEmbeddingModel
    reranker: FakeReranker | None
    client: httpx.AsyncClient = field(init=False)

    @asynccontextmanager
    async def engine(self) -> AsyncIterator[AsyncHeliograph]:
        async with self.app.state.service.workspaces.use() as kb:
            yield kb

    async def post(self, path: str, **body: Any) -> httpx.Response:
        return await self.client.post(path, json={"query": QUESTION} | body)

    async def lines(self, **body: Any) -> list[dict[str, Any]]:
        response = await self.post("/query/stream", **body)
        assert response.status_code == 200, response.text
        return [json.loads(line) for line in response.text.splitlines()]


def fake_chat(**options: Any) -> FakeChatModel:
    return FakeChatModel({Purpose.KEYWORDS: KEYWORDS, Purpose.ANSWER: ANSWER}, **options)


MakeWorld = Callable[..., AbstractAsyncContextManager[World]]


@pytest.fixture
def make_world(tmp_path: Path) -> MakeWorld:
    @asynccontextmanager
    async def make(
        chat: FakeChatModel | None = None, reranker: FakeReranker | None = None, **server: Any
    ) -> AsyncIterator[World]:
        embedding = FakeEmbeddingModel()
        settings = Settings(
            store={"data_dir": tmp_path},
            chat={"max_retries": 0, "cache": False},
            server=server,
            rerank={"max_retries": 0},
        )
        given = Given(chat=chat, embedding=embedding, reranker=reranker, extractor=LocalExtractor())
        world = World(create_app(settings, given), chat, embedding, reranker)
        async with world.app.router.lifespan_context(world.app):
            async with world.engine() as kb:
                sources, metadata = ["notes.md", "lamps.md"], [{"team": "red"}, {"team": "blue"}]
                await kb.insert([NOTES, LAMPS], sources=sources, metadata=metadata)
            transport = httpx.ASGITransport(world.app, raise_app_exceptions=False)
            async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as world.client:
                yield world

    return make


@pytest.fixture
async def world(make_world: MakeWorld) -> AsyncIterator[World]:
    """With a chat model."""
    async with make_world(fake_chat()) as world:
        yield world


@pytest.fixture
async def offline(make_world: MakeWorld) -> AsyncIterator[World]:
    """Without one."""
    async with make_world() as world:
        yield world


@asynccontextmanager
async def serve(app: FastAPI) -> AsyncIterator[str]:
    """Serve an application that is open already, on loopback, and give its address."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        config = uvicorn.Config(app, lifespan="off", log_level="warning", ws="none", timeout_graceful_shutdown=2)
        server = uvicorn.Server(config)
        task = asyncio.create_task(server.serve([listener]))
        while not server.started:  # noqa: ASYNC110 (it tells nobody)
            await asyncio.sleep(0.01)
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            server.should_exit = True
            await task
