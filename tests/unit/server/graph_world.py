"""A served workspace with four entities in two documents, for the tests of the graph's routes."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx

from heliograph.engine import Given
from heliograph.server.app import create_app
from heliograph.service.service import Service
from heliograph.settings import Settings
from heliograph.testing.fakes import FakeEmbeddingModel

from ..ingest.world import SpelledExtractor

ONE = "Ann (person): leads the team.\nBob (person): writes.\nAnn -> Bob [leads] 1.0: Ann leads Bob."
TWO = "Annie (person): paints.\nCy (place): a town.\nAnnie -> Cy [lives in] 2.0: Annie lives in Cy."


class World:
    """The service, and a client that speaks to it."""

    def __init__(self, service: Service, client: httpx.AsyncClient) -> None:
        self.service = service
        self.client = client

    async def get(self, path: str, status: int = 200, **query: Any) -> Any:
        """Return the JSON of a GET."""
        return _read(await self.client.get(path, params=query), status)

    async def post(self, path: str, body: Any, status: int = 200) -> Any:
        """Return the JSON of a POST."""
        return _read(await self.client.post(path, json=body), status)

    async def delete(self, path: str, body: Any, status: int = 200) -> Any:
        """Return the JSON of a DELETE with a body."""
        return _read(await self.client.request("DELETE", path, json=body), status)


def _read(response: httpx.Response, status: int) -> Any:
    assert response.status_code == status, response.text
    return response.json()


@asynccontextmanager
async def graph_world(folder: Path, **server: Any) -> AsyncGenerator[World]:
    """Serve a workspace with `ONE` and `TWO` in it."""
    # Vectors of hashed words say nothing of like spellings.
    settings = Settings.load(store={"data_dir": folder}, server=server, resolution={"min_duplicate_cosine": -1.0})
    app = create_app(settings, Given(embedding=FakeEmbeddingModel(16), extractor=SpelledExtractor()))
    transport = httpx.ASGITransport(app)
    async with app.router.lifespan_context(app):
        service: Service = app.state.service
        async with service.workspaces.use() as engine:
            await engine.insert([ONE, TWO], sources=["one.md", "two.md"])
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
            yield World(service, client)
