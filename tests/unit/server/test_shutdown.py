from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from pathlib import Path

import httpx
import pytest
from fastapi import FastAPI
from starlette.responses import StreamingResponse

from heliograph.settings import Settings

from .guarded import served


@pytest.fixture
async def world(tmp_path: Path) -> AsyncGenerator[tuple[FastAPI, httpx.AsyncClient]]:
    settings = Settings.load(store={"data_dir": tmp_path}, server={"shutdown_seconds": 0.2})
    async with served(settings) as (app, client):

        async def endless() -> AsyncGenerator[bytes]:
            yield b'{"response": "on and"}\n'
            await asyncio.Event().wait()

        @app.get("/lines")
        async def lines() -> StreamingResponse:
            return StreamingResponse(endless(), media_type="application/x-ndjson")

        @app.get("/events")
        async def events() -> StreamingResponse:
            return StreamingResponse(endless(), media_type="text/event-stream")

        @app.get("/silent")
        async def silent() -> None:
            await asyncio.Event().wait()

        yield app, client


async def ended(world: tuple[FastAPI, httpx.AsyncClient], path: str) -> httpx.Response:
    app, client = world
    asking = asyncio.create_task(client.get(path))
    await asyncio.sleep(0.05)
    app.state.drain.begin()
    app.state.drain.begin()
    return await asking


async def test_lines_end_with_an_error_line(world: tuple[FastAPI, httpx.AsyncClient]) -> None:
    lines = (await ended(world, "/lines")).text.splitlines()
    assert json.loads(lines[0]) == {"response": "on and"}
    assert "being stopped" in json.loads(lines[-1])["error"]


async def test_events_end_with_an_error_event(world: tuple[FastAPI, httpx.AsyncClient]) -> None:
    text = (await ended(world, "/events")).text
    assert '"status": 503' in text.split("data: ")[-1]
    assert text.endswith("\n\n")


async def test_request_without_a_response_gets_503(world: tuple[FastAPI, httpx.AsyncClient]) -> None:
    found = await ended(world, "/silent")
    assert found.status_code == 503
    assert found.headers["Retry-After"] == "5"
    assert "being stopped" in found.json()["detail"]


async def test_request_in_time_is_not_disturbed(tmp_path: Path) -> None:
    async with served(Settings.load(store={"data_dir": tmp_path}, server={"shutdown_seconds": 600})) as (app, client):
        app.state.drain.begin()
        assert (await client.get("/ready")).status_code == 200
