"""Asks the service over HTTP, in a process of its own, with one client and with sixteen at once.

Taken is the CPU time of the server's process per request of `POST /query/data`, all of its threads together. The
workspace has 10,000 entities; questions are all different, none gives keywords, and the offline model embeds each, on
one thread, so nothing comes from a cache. A request that is refused shows what HTTP alone costs. Sixty other
questions are asked before. Given is the least median of blocks of sixteen requests, since what else a shared machine
does only ever adds.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from time import monotonic

import httpx

from benchmarks.corpus import document_entities
from benchmarks.large_store import large_store
from benchmarks.registry import Options
from benchmarks.report import Figure, Findings

__all__ = ["TITLE", "run"]

TITLE = "Asking the service over HTTP"

_ROOT = Path(__file__).parents[1]
_WANTED = {"mix": 20.0, "naive": 10.0}
_CLIENTS = (1, 16)
_BLOCK = 16
_SERIES = 5


def run(options: Options) -> Findings:
    """Measure each mode; quick with few questions."""
    folder = large_store(400 if options.quick else 10_000)
    with _server(folder) as server:
        return asyncio.run(_measure(server, 2 if options.quick else 10))


class _Server:
    """A running server and its clock."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self.address = f"http://127.0.0.1:{int(self._ask(''))}"

    def cpu_seconds(self) -> float:
        """Return what its process has taken so far."""
        return float(self._ask("\n"))

    def _ask(self, line: str) -> str:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(line)
        self._process.stdin.flush()
        return self._process.stdout.readline()


@contextmanager
def _server(folder: Path) -> Iterator[_Server]:
    command = [sys.executable, "-m", "benchmarks.service_server", str(folder)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, cwd=_ROOT, **pipes) as process:
        try:
            yield _Server(process)
        finally:
            assert process.stdin is not None
            process.stdin.close()
            process.wait(60)


async def _measure(server: _Server, blocks: int) -> Findings:
    figures: list[Figure] = []
    sizes: dict[str, str] = {}
    number = 0
    async with httpx.AsyncClient(base_url=server.address, timeout=120) as client:
        await _wait_until_ready(client)
        for mode, at_most in _WANTED.items():
            await _ask(client, mode, range(number, number + 60), 4)
            number += 60
            for clients in _CLIENTS:
                series, lengths, start = list[float](), list[int](), monotonic()
                for _ in range(blocks):
                    before = server.cpu_seconds()
                    lengths = await _ask(client, mode, range(number, number + _BLOCK), clients)
                    series.append((server.cpu_seconds() - before) / _BLOCK * 1000)
                    number += _BLOCK
                sizes[mode] = f"{mode} {median(lengths) / 1000:.0f} KB"
                rate = blocks * _BLOCK / (monotonic() - start)
                figures.append(_figure(f"{mode}, {clients} at once", series, at_most, f"{rate:.0f} requests/s"))
        figures.append(await _empty_request(server, client, blocks))
    return Findings(tuple(figures), (f"Median lengths of a response: {', '.join(sizes.values())}.",))


def _figure(name: str, series: list[float], at_most: float | None, note: str) -> Figure:
    size = max(1, len(series) // _SERIES)
    least = min(median(series[start : start + size]) for start in range(0, len(series), size))
    spread = f"{min(series):.1f} to {max(series):.1f}"
    return Figure(name, least, "ms", at_most=at_most, note=f"{spread}; {note}" if note else spread)


async def _empty_request(server: _Server, client: httpx.AsyncClient, blocks: int) -> Figure:
    series: list[float] = []
    for _ in range(blocks):
        before = server.cpu_seconds()
        for _ in range(_BLOCK):
            await client.post("/query/data", json={"query": ""})
        series.append((server.cpu_seconds() - before) / _BLOCK * 1000)
    return _figure("a request that is refused", series, None, "")


async def _ask(client: httpx.AsyncClient, mode: str, numbers: range, clients: int) -> list[int]:
    """Ask these questions, so many at once; return the lengths of the responses."""
    slots = asyncio.Semaphore(clients)

    async def ask(number: int) -> int:
        async with slots:
            response = await client.post("/query/data", json={"query": _question(number), "mode": mode})
            response.raise_for_status()
            return len(response.content)

    return await asyncio.gather(*(ask(number) for number in numbers))


def _question(number: int) -> str:
    names = document_entities(7 * number % 500)
    return f"How does {names[number % 5]} depend on {names[-1]} according to report {number}?"


async def _wait_until_ready(client: httpx.AsyncClient) -> None:
    async with asyncio.timeout(120):
        while True:
            try:
                await client.get("/openapi.json")
            except httpx.TransportError:
                await asyncio.sleep(0.1)
            else:
                return
