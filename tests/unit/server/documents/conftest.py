"""The real application on a new data folder, with fake models, and ways to wait for its background work."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi import FastAPI

from heliograph.engine import Given
from heliograph.server.app import create_app
from heliograph.service.service import Service
from heliograph.settings import Settings
from heliograph.testing.fakes import FakeEmbeddingModel

TEXT = "The ESP32 speaks MQTT over TLS. It is made by Espressif."


async def until(condition: Callable[[], Awaitable[bool]], seconds: float = 20.0) -> None:
    """Wait until something holds that other processes or tasks bring about."""
    async with asyncio.timeout(seconds):
        while not await condition():  # noqa: ASYNC110
            await asyncio.sleep(0.02)


def names(folder: Path) -> list[str]:
    """Return what lies in a folder; nothing if it is not there."""
    return sorted(path.name for path in folder.iterdir()) if folder.exists() else []


@dataclass
class Server:
    app: FastAPI
    http: httpx.AsyncClient
    data_dir: Path
    embedding: FakeEmbeddingModel

    @property
    def service(self) -> Service:
        return self.app.state.service

    @property
    def inputs(self) -> Path:
        return self.service.jobs.input_folder("default").path

    async def settle(self, workspace: str = "default", seconds: float = 20.0) -> None:
        """Wait until nothing is under way."""

        async def is_idle() -> bool:
            return not await self.service.jobs.count_unfinished(workspace)

        await until(is_idle, seconds)

    async def send(self, method: str, path: str, status: int = 200, **given: Any) -> Any:
        response = await self.http.request(method, path, **given)
        assert response.status_code == status, response.text
        return response.json()

    async def upload(self, name: str, content: bytes = TEXT.encode(), status: int = 200, **given: Any) -> Any:
        return await self.send("POST", "/documents/upload", status, files={"file": (name, content)}, **given)

    async def add(self, text: str = TEXT, source: str = "a.md", **given: Any) -> str:
        """Take a text in and return its document's id once it is processed."""
        body = {"text": text, "file_source": source, **given}
        accepted = await self.send("POST", "/documents/text", json=body)
        await self.settle()
        return accepted["document_ids"][0]

    async def documents(self) -> dict[str, dict[str, Any]]:
        listed = await self.send("GET", "/documents", params={"limit": 1000})
        return {item["source"]: item for item in listed["documents"]}


def make_settings(data_dir: Path, **server: Any) -> Settings:
    return Settings.load(store={"data_dir": data_dir}, server=server, documents={"allow_private_addresses": True})


@pytest.fixture
async def server(tmp_path: Path, request: pytest.FixtureRequest) -> AsyncGenerator[Server]:
    """Parametrise it indirectly with settings of the server."""
    embedding = FakeEmbeddingModel()
    app = create_app(make_settings(tmp_path, **getattr(request, "param", {})), Given(embedding=embedding))
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://127.0.0.1") as http,
    ):
        yield Server(app, http, tmp_path, embedding)
