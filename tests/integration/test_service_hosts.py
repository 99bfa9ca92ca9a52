"""Two services on two hosts, so to say: data folders of their own, one workspace on PostgreSQL."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncGenerator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from uuid import uuid4

import httpx
import pytest
from benchmarks.faulty_endpoint import FaultyEndpoint, faulty_endpoint
from benchmarks.served import Served
from benchmarks.service_faults import faulty_service, report_text

pytest.importorskip("psycopg", reason="needs: pip install 'heliograph[postgres]'")

pytestmark = pytest.mark.slow

Hosts = tuple[list[Served], list[httpx.AsyncClient], FaultyEndpoint]
# The models answer slowly, but never too late.
PATIENCE = 30.0


@asynccontextmanager
async def hosts(folder: Path, database: str) -> AsyncGenerator[Hosts]:
    """Run two services, and return them, a client of each, and the models of both."""
    store = {"url": database, "workspace": f"w{uuid4().hex[:12]}", "durability": "normal", "pool_size": 3}
    async with faulty_endpoint() as endpoint, AsyncExitStack() as stack:
        servers = [
            stack.enter_context(faulty_service(folder / name, endpoint, timeout_seconds=PATIENCE, store=store))
            for name in ("one", "other")
        ]
        clients = [
            await stack.enter_async_context(httpx.AsyncClient(base_url=server.address, timeout=60))
            for server in servers
        ]
        yield servers, clients, endpoint


async def bring(client: httpx.AsyncClient, number: int, headers: Mapping[str, str] | None = None) -> str:
    """Bring a document and return its batch."""
    body = {"text": report_text(number), "file_source": f"report-{number}.txt"}
    response = await client.post("/documents/text", json=body, headers=headers)
    assert response.status_code == 200, response.text
    return response.json()["track_id"]


async def processed(client: httpx.AsyncClient) -> set[str]:
    found = (await client.get("/documents?limit=100&status=processed")).json()["documents"]
    return {document["source"] for document in found}


async def sources(client: httpx.AsyncClient) -> set[str]:
    """Return the sources of what an answer was made of."""
    response = await client.post("/query", json={"query": "What is kept by the crew?", "mode": "naive"})
    assert response.status_code == 200, response.text
    return {item["file_path"] for item in response.json()["references"]}


async def jobs(client: httpx.AsyncClient) -> set[str]:
    return {job["kind"] for job in (await client.get("/documents/jobs")).json()["jobs"]}


async def until(client: httpx.AsyncClient, wanted: set[str]) -> None:
    async with asyncio.timeout(120):
        while await processed(client) != wanted:  # noqa: ASYNC110 (it tells nobody)
            await asyncio.sleep(0.1)


async def test_what_one_host_does_the_other_knows_at_once(tmp_path: Path, postgres_database: str) -> None:
    async with hosts(tmp_path, postgres_database) as (_, (one, other), _):
        batch = await bring(one, 1)
        await until(one, {"report-1.txt"})
        assert await processed(other) == {"report-1.txt"}
        (tracked,) = (await other.get(f"/documents/track_status/{batch}")).json()["documents"]
        assert tracked["status"] == "processed"
        assert await sources(other) == await sources(one) == {"report-1.txt"}
        await bring(other, 2)
        await until(other, {"report-1.txt", "report-2.txt"})
        # The same question again: no answer of the state before.
        assert await sources(one) == {"report-1.txt", "report-2.txt"}
        assert (await one.delete(f"/documents/{tracked['id']}")).is_success
        await until(one, {"report-2.txt"})
        assert await sources(other) == {"report-2.txt"}
        # Jobs are those of a host.
        assert await jobs(one) == {"process", "delete"}
        assert await jobs(other) == {"process"}
        # They go with their workspace, and do not come back with another of its name.
        side = {"LIGHTRAG-WORKSPACE": "side"}
        for _ in range(2):
            assert (await one.put("/workspaces/side")).status_code == 201
            assert (await one.get("/documents/jobs", headers=side)).json()["jobs"] == []
            await bring(one, 1, side)
            assert (await one.delete("/workspaces/side")).is_success


async def test_host_that_is_killed_loses_nothing(tmp_path: Path, postgres_database: str) -> None:
    async with hosts(tmp_path, postgres_database) as (servers, (one, other), endpoint):
        endpoint.delay_seconds = 0.3
        wanted = {f"report-{number}.txt" for number in range(12)}
        for number in range(12):
            await bring(other if number % 4 == 3 else one, number)
        async with asyncio.timeout(120):
            while not await processed(other):  # noqa: ASYNC110 (it tells nobody)
                await asyncio.sleep(0.05)
        await asyncio.to_thread(servers[0].stop, signal.SIGKILL)
        assert await processed(other) < wanted
        # What was accepted is in the store, and any host may go on with it.
        assert (await other.post("/documents/reprocess_failed")).json()["status"] == "reprocessing_started"
        await until(other, wanted)
        assert await sources(other) <= wanted
        assert (await other.get("/documents/status_counts")).json()["status_counts"]["all"] == len(wanted)
