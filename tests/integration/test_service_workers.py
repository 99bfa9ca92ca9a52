"""Two workers on one store: what one of them does the other knows, and neither a kill nor a stop loses anything."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from benchmarks.faulty_endpoint import ANSWER, FaultyEndpoint, faulty_endpoint
from benchmarks.served import Served
from benchmarks.service_faults import faulty_service, report_text

from heliograph.service.access import hash_password

# The models answer slowly, but never too late.
PATIENCE = 30.0
KEY = {"X-API-Key": "key-of-the-administrator-012345"}
# Each request comes by a connection of its own, so either worker may get it.
TIMES = 12

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="finds the workers by /proc"),
]


@asynccontextmanager
async def service(folder: Path, **server: Any) -> AsyncGenerator[tuple[Served, httpx.AsyncClient, FaultyEndpoint]]:
    async with faulty_endpoint() as endpoint:
        given = {"workers": 2, "api_key": KEY["X-API-Key"], "shutdown_seconds": 5} | server
        with faulty_service(folder / "kb", endpoint, timeout_seconds=PATIENCE, server=given) as served:
            limits = httpx.Limits(max_keepalive_connections=0)
            async with httpx.AsyncClient(base_url=served.address, timeout=60, limits=limits) as client:
                yield served, client, endpoint


async def seen(client: httpx.AsyncClient, method: str, path: str, **options: Any) -> Counter[int]:
    responses = await asyncio.gather(*(client.request(method, path, **options) for _ in range(TIMES)))
    return Counter(response.status_code for response in responses)


async def test_workers_share_sessions_limits_and_workspaces(tmp_path: Path) -> None:
    accounts = [{"name": "hester", "password_hash": hash_password("lamp oil"), "role": "admin"}]
    async with service(tmp_path, accounts=accounts, login_attempts=4) as (_, client, _):
        right = {"username": "hester", "password": "lamp oil"}
        token = (await client.post("/login", data=right)).json()["access_token"]
        bearer = {"Authorization": f"Bearer {token}"}
        assert await seen(client, "GET", "/auth/verify", headers=bearer) == {200: TIMES}

        assert (await client.put("/workspaces/side", headers=bearer)).status_code == 201
        side = bearer | {"LIGHTRAG-WORKSPACE": "side"}
        assert await seen(client, "GET", "/graph/label/list", headers=side) == {200: TIMES}
        assert (await client.delete("/workspaces/side", headers=bearer)).is_success
        assert await seen(client, "GET", "/graph/label/list", headers=side) == {404: TIMES}
        assert (await client.put("/workspaces/side", headers=bearer)).status_code == 201
        assert await seen(client, "GET", "/graph/label/list", headers=side) == {200: TIMES}

        assert (await client.post("/logout", headers=bearer)).is_success
        assert await seen(client, "GET", "/auth/verify", headers=bearer) == {401: TIMES}

        wrong = {"username": "hester", "password": "lamp"}
        statuses = [(await client.post("/login", data=wrong)).status_code for _ in range(8)]
        assert statuses == [401] * 4 + [429] * 4
        refused = await client.post("/login", data=right)
        assert (refused.status_code, int(refused.headers["Retry-After"]) > 0) == (429, True)


async def test_kill_of_a_worker_loses_nothing(tmp_path: Path) -> None:
    async with service(tmp_path) as (served, client, endpoint):
        endpoint.delay_seconds = 0.05
        client.headers.update(KEY)
        enough = asyncio.Event()
        asking = asyncio.create_task(_ask_on(client, enough))
        accepted = await _bring(client, range(20))
        victim, *others = served.workers()
        os.kill(victim, signal.SIGKILL)
        accepted |= await _bring(client, range(20, 40))
        await _settled(client, accepted)
        enough.set()
        outcomes = await asking
        # It was replaced, and only what it had in hand was cut off.
        async with asyncio.timeout(60):
            while len(served.workers()) < 2:  # noqa: ASYNC110 (it tells nobody)
                await asyncio.sleep(0.1)
        assert victim not in served.workers()
        assert set(others) <= set(served.workers())
        assert outcomes["right"]
        assert set(outcomes) <= {"right", "cut off"}
        assert outcomes["cut off"] <= 8
        removed = (await client.get("/documents?limit=1")).json()["documents"][0]["id"]
        assert (await client.delete(f"/documents/{removed}")).is_success
        async with asyncio.timeout(30):
            while set(await seen(client, "GET", f"/documents/{removed}")) != {404}:  # noqa: ASYNC110
                await asyncio.sleep(0.1)


async def test_stop_under_load_keeps_what_was_accepted(tmp_path: Path) -> None:
    async with service(tmp_path) as (served, client, endpoint):
        endpoint.delay_seconds = 0.2
        client.headers.update(KEY)
        ended = asyncio.Event()
        asking = asyncio.create_task(_ask_on(client, ended))
        bringing = asyncio.create_task(_bring(client, range(60)))
        async with asyncio.timeout(60):
            while await _count(client) < 5:  # noqa: ASYNC110 (it tells nobody)
                await asyncio.sleep(0.1)
        assert await asyncio.to_thread(served.stop) == 0
        ended.set()
        accepted, outcomes = await bringing, await asking
        assert accepted
        assert set(outcomes) <= {"right", "cut off", "503"}
        assert "Traceback" not in served.log
    async with service(tmp_path) as (_, client, _):
        client.headers.update(KEY)
        await _settled(client, accepted)


async def _ask_on(client: httpx.AsyncClient, enough: asyncio.Event) -> Counter[str]:
    """Ask, four at once, until it is enough, but at least once; or until what comes is no answer."""
    outcomes = Counter[str]()

    async def one() -> None:
        while not (enough.is_set() and outcomes):
            try:
                response = await client.post("/query", json={"query": "Who keeps the Lamp?", "mode": "mix"})
            except httpx.TransportError:
                outcomes["cut off"] += 1
                return
            is_right = response.status_code == 200 and _is_answer(response.json())
            outcomes["right" if is_right else str(response.status_code)] += 1
            if not is_right:
                return

    await asyncio.gather(*(one() for _ in range(4)))
    return outcomes


def _is_answer(body: dict[str, Any]) -> bool:
    # Before the first document is in there is nothing to find.
    return body["response"].startswith(ANSWER) or body["kind"] == "nothing_found"


async def _bring(client: httpx.AsyncClient, numbers: range) -> set[str]:
    """Bring documents one by one, and return the sources of those that were accepted."""
    accepted = set[str]()
    for number in numbers:
        source = f"report-{number}.txt"
        try:
            response = await client.post("/documents/text", json={"text": report_text(number), "file_source": source})
        except httpx.TransportError:
            continue
        if response.status_code == 200:
            accepted.add(source)
    return accepted


async def _count(client: httpx.AsyncClient) -> int:
    return (await client.get("/documents/status_counts")).json()["status_counts"]["all"]


async def _settled(client: httpx.AsyncClient, accepted: set[str]) -> None:
    """Wait until all of these are processed."""
    async with asyncio.timeout(60):
        while True:
            found = (await client.get("/documents?limit=100&status=processed")).json()["documents"]
            if accepted <= {document["source"] for document in found}:
                return
            await asyncio.sleep(0.2)
