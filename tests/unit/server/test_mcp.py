from __future__ import annotations

import asyncio
from pathlib import Path

from .guarded import ADMIN, BOUND, guarded_settings, served

ACCEPT = {"Accept": "application/json, text/event-stream"}
HELLO = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}},
}


async def test_stream_of_news_ends_when_the_service_is_told_to_stop(tmp_path: Path) -> None:
    async with served(guarded_settings(tmp_path, shutdown_seconds=600)) as (app, client):
        opened = await client.post("/mcp", json=HELLO, headers=ACCEPT | ADMIN)
        session = {"Mcp-Session-Id": opened.headers["Mcp-Session-Id"]}
        listening = asyncio.create_task(client.get("/mcp", headers=ACCEPT | ADMIN | session))
        await asyncio.sleep(0.2)
        assert not listening.done()
        app.state.drain.begin()
        response = await listening
        assert response.status_code == 200
        assert response.headers["content-type"].startswith("text/event-stream")


async def test_workspace_of_others_is_refused_at_once(tmp_path: Path) -> None:
    async with served(guarded_settings(tmp_path)) as (_, client):
        refused = await client.post("/mcp", json=HELLO, headers=ACCEPT | BOUND)
        assert (refused.status_code, refused.json()["title"]) == (403, "Not allowed")
        named = {"LIGHTRAG-WORKSPACE": "alpha"}
        assert (await client.post("/mcp", json=HELLO, headers=ACCEPT | BOUND | named)).status_code == 200


async def test_application_can_be_started_twice(tmp_path: Path) -> None:
    async with served(guarded_settings(tmp_path)) as (app, client):
        assert (await client.post("/mcp", json=HELLO, headers=ACCEPT | ADMIN)).status_code == 200
    async with app.router.lifespan_context(app):
        assert app.state.service.workspaces.open_count == 1
