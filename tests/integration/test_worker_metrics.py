"""Two workers, each of which tells the metrics of both."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest
from benchmarks.faulty_endpoint import faulty_endpoint
from benchmarks.served import Served
from benchmarks.service_faults import faulty_service
from prometheus_client.parser import text_string_to_metric_families as parse_text

KEY = {"X-API-Key": "key-of-the-administrator-012345"}
REQUESTS = 40
SCRAPES = 8
LABELS = ("route", "method", "status")
ASKED = ("/auth/verify", "GET", "200")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="finds the workers by /proc"),
]

Samples = dict[tuple[str, ...], float]


async def scrape(client: httpx.AsyncClient) -> Samples:
    response = await client.get("/metrics")
    assert response.status_code == 200, response.text
    families = list(parse_text(response.text))
    assert len({family.name for family in families}) == len(families), "a metric is told twice"
    return {
        (
            sample.name,
            *(sample.labels[key] for key in ("route", "method", "status") if key in sample.labels),
        ): sample.value
        for family in families
        for sample in family.samples
        if "le" not in sample.labels
    }


async def agreed(client: httpx.AsyncClient, condition: Callable[[Samples], bool]) -> list[Samples]:
    """Wait until so many scrapes in a row, each by a connection of its own, all tell the same."""
    async with asyncio.timeout(60):
        while True:
            found = [await scrape(client) for _ in range(SCRAPES)]
            if all(map(condition, found)):
                return found
            await asyncio.sleep(0.1)


def folder_of(worker: int) -> Path:
    environment = Path(f"/proc/{worker}/environ").read_bytes().split(b"\0")
    (value,) = (part for part in environment if part.startswith(b"PROMETHEUS_MULTIPROC_DIR="))
    return Path(os.fsdecode(value.partition(b"=")[2]))


async def ask(client: httpx.AsyncClient, count: int) -> None:
    for _ in range(count):
        assert (await client.get("/auth/verify")).status_code == 200


def both_workers(server: Served) -> list[int]:
    found = server.workers()
    assert len(found) == 2
    return found


@asynccontextmanager
async def service(folder: Path) -> AsyncGenerator[tuple[Served, httpx.AsyncClient]]:
    given = {"workers": 2, "api_key": KEY["X-API-Key"], "shutdown_seconds": 5}
    # Each request comes by a connection of its own, so either worker may get it.
    limits = httpx.Limits(max_keepalive_connections=0)
    async with faulty_endpoint() as endpoint:
        with faulty_service(folder / "kb", endpoint, server=given) as served:
            async with httpx.AsyncClient(base_url=served.address, timeout=60, limits=limits, headers=KEY) as client:
                yield served, client


async def test_any_worker_tells_of_all_and_the_dead_are_not_forgotten(tmp_path: Path) -> None:
    counted = ("heliograph_http_requests_total", *ASKED)
    timed = ("heliograph_http_request_duration_seconds_count", *ASKED[:2])
    running, memory = ("heliograph_http_requests_running",), ("process_resident_memory_bytes",)
    seconds = ("process_cpu_seconds_total",)
    async with service(tmp_path) as (server, client):
        await ask(client, REQUESTS)
        # Nothing else is under way than the scrape itself.
        before = await agreed(
            client, lambda told: told.get(counted) == told.get(timed) == REQUESTS and told[running] == 1
        )
        victim, other = both_workers(server)
        folder = folder_of(other)
        assert {path.stem for path in folder.glob("counter_*")} == {f"counter_{pid}" for pid in (victim, other)}
        os.kill(victim, signal.SIGKILL)
        async with asyncio.timeout(60):
            while victim in server.workers() or len(server.workers()) < 2:  # noqa: ASYNC110
                await asyncio.sleep(0.1)
        await ask(client, REQUESTS)
        after = await agreed(
            client, lambda told: told.get(counted) == told.get(timed) == 2 * REQUESTS and told[running] == 1
        )
        assert all(told[seconds] >= before[-1][seconds] for told in after)
        # Two live, whatever the dead one had.
        await agreed(client, lambda told: 0.6 < told[memory] / before[-1][memory] < 1.4)
        assert await asyncio.to_thread(server.stop) == 0
        assert "Traceback" not in server.log
    assert not folder.exists()
