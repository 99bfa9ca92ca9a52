"""Loads the real service for minutes, at about two thirds of what it can do, and watches its memory.

First, eight clients ask without pause for a while: that is the capacity. Then requests leave at two thirds of that
rate, whatever becomes of the ones before: questions of all modes by all routes, streams, streams whose client hangs up,
new documents, updates, deletions, reads of the graph, lists. The number of documents stays the same. Models are an
endpoint on loopback. Resident memory is sampled once a second; the first third of the time is for caches to fill, and
the slope is Theil and Sen's (the median over all pairs) of the rest, with the range of the same over its quarters as
its noise. Then 200 streams are kept open on the one worker at the same time, and each must end right.

`--minutes N` says how long; 10 without it.
"""

from __future__ import annotations

import asyncio
import itertools
import random
import statistics
from collections import Counter
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic
from typing import Any

import httpx

from benchmarks.faulty_endpoint import ANSWER, FaultyEndpoint, faulty_endpoint
from benchmarks.registry import Options
from benchmarks.report import Figure, Findings
from benchmarks.served import Served
from benchmarks.service_faults import faulty_service, report_text
from benchmarks.service_judging import MODES, ROUTES, ask

__all__ = ["TITLE", "Soak", "open_streams", "run", "slope_per_hour", "soak"]

TITLE = "A service under load for long"

_MINUTES = 10.0
_DOCUMENTS = 60
_LOAD = 2 / 3
_MODEL_SECONDS = 0.05
_STREAMS = 200
_MOST_UNDER_WAY = 64
# Of a hundred requests.
_MIX = {"ask": 55, "hang up": 8, "graph": 15, "list": 8, "update": 6, "insert": 4, "delete": 4}


@dataclass(slots=True)
class Soak:
    """What was seen.

    Attributes:
        capacity: Requests a second that it can do.
        done: Requests by kind.
        errors: What should not have come.
        memory: Seconds since the start, and MiB resident.
    """

    capacity: float = 0.0
    done: Counter[str] = field(default_factory=Counter[str])
    errors: list[str] = field(default_factory=list[str])
    memory: list[tuple[float, float]] = field(default_factory=list[tuple[float, float]])


def run(options: Options) -> Findings:
    """Load for `--minutes`; a few seconds if quick."""
    minutes = 0.1 if options.quick else options.minutes or _MINUTES
    with TemporaryDirectory() as folder:
        seen, streams = asyncio.run(_run(Path(folder), minutes * 60, 20 if options.quick else _STREAMS))
    late = [point for point in seen.memory if point[0] > minutes * 20]
    slope, noise = slope_per_hour(late)
    figures = (
        Figure("capacity", seen.capacity, "requests/s"),
        Figure("requests", seen.done.total()),
        Figure("errors", len(seen.errors), at_most=0),
        Figure("memory after a third", late[0][1], "MiB"),
        Figure("memory in the end", late[-1][1], "MiB"),
        Figure("slope", slope, "MiB/h", note=f"quarters {noise[0]:.0f} to {noise[1]:.0f}"),
        Figure("streams open at once", streams["most"]),
        Figure("of them right", streams["right"], at_least=streams["asked"]),
    )
    shown = ", ".join(f"{count} {kind}" for kind, count in sorted(seen.done.items()))
    curve = ", ".join(f"{mib:.0f}" for _, mib in seen.memory[:: max(1, len(seen.memory) // 24)])
    return Findings(figures, (f"{minutes:g} minutes: {shown}.", f"Memory in MiB: {curve}.", *seen.errors[:10]))


def slope_per_hour(points: Sequence[tuple[float, float]]) -> tuple[float, tuple[float, float]]:
    """Return the slope of values over seconds, per hour, and the least and greatest of it over quarters.

    Args:
        points: Seconds and values, at least eight.
    """
    size = max(2, len(points) // 4)
    quarters = [_slope(points[start : start + size]) for start in range(0, len(points) - size + 1, size)]
    return _slope(points), (min(quarters), max(quarters))


def _slope(points: Sequence[tuple[float, float]]) -> float:
    some = points[:: max(1, len(points) // 300)]
    pairs = itertools.combinations(some, 2)
    return statistics.median((later[1] - one[1]) / (later[0] - one[0]) * 3600 for one, later in pairs)


async def _run(folder: Path, seconds: float, streams: int) -> tuple[Soak, Counter[str]]:
    async with faulty_endpoint() as endpoint:
        endpoint.delay_seconds = _MODEL_SECONDS
        with faulty_service(folder / "data", endpoint, 256, 30.0, server={"max_concurrent_queries": 256}) as server:
            limits = httpx.Limits(max_connections=512)
            async with httpx.AsyncClient(base_url=server.address, timeout=60, limits=limits) as client:
                seen = await soak(client, server, seconds)
                return seen, await open_streams(client, endpoint, streams)


async def soak(client: httpx.AsyncClient, server: Served, seconds: float) -> Soak:
    """Fill the service, find its capacity, and load it.

    Args:
        client: Of the service.
        server: Whose memory is watched.
        seconds: How long.
    """
    load = _Load(client)
    await load.fill()
    load.seen.capacity = await load.measure(min(20.0, seconds / 4))
    start = monotonic()
    sampling = asyncio.create_task(_sample(server, load.seen.memory, start))
    await load.keep(seconds)
    sampling.cancel()
    return load.seen


async def _sample(server: Served, memory: list[tuple[float, float]], start: float) -> None:
    while True:
        memory.append((monotonic() - start, server.resident_mib()))
        await asyncio.sleep(min(1.0, 0.1 + len(memory) / 100))


async def open_streams(client: httpx.AsyncClient, endpoint: FaultyEndpoint, count: int) -> Counter[str]:
    """Keep so many streams open at once and see each to its end: how many were "asked", "right", and "most" open."""
    endpoint.share, endpoint.faults = 1.0, ("slow",)
    outcomes, is_open = Counter({"asked": count}), 0

    async def one(number: int) -> None:
        nonlocal is_open
        body = {"query": f"Who keeps lamp {number}?", "mode": "bypass"}
        async with client.stream("POST", "/query/stream", json=body, timeout=300) as response:
            is_open += 1
            outcomes["most"] = max(outcomes["most"], is_open)
            whole = (await response.aread()).decode()
            is_open -= 1
        outcomes["right"] += '"is_complete":true' in whole.replace(" ", "")

    await asyncio.gather(*(one(number) for number in range(count)))
    endpoint.share = 0.0
    return outcomes


class _Load:
    """The requests."""

    def __init__(self, client: httpx.AsyncClient) -> None:
        self.seen = Soak()
        self._client = client
        self._random = random.Random(3)
        self._numbers = itertools.count()
        self._kinds = itertools.cycle(itertools.product(ROUTES, MODES[:-1]))
        self._ids: list[str] = []
        self._actions: dict[str, Callable[[], Coroutine[Any, Any, None]]] = {
            "ask": self._ask,
            "hang up": self._hang_up,
            "graph": self._graph,
            "list": self._list,
            "update": self._update,
            "insert": self._insert,
            "delete": self._delete,
        }

    async def fill(self) -> None:
        """Bring the documents and wait for them."""
        for _ in range(_DOCUMENTS):
            await self._insert()
        async with asyncio.timeout(300):
            while (await self._client.get("/documents/pipeline_status")).json()["busy"]:  # noqa: ASYNC110
                await asyncio.sleep(0.3)
        await self._list()

    async def measure(self, seconds: float) -> float:
        """Return how many requests a second eight clients get done."""
        end, before = monotonic() + seconds, self.seen.done.total()

        async def one() -> None:
            while monotonic() < end:
                await self._act()

        await asyncio.gather(*(one() for _ in range(8)))
        return (self.seen.done.total() - before) / seconds

    async def keep(self, seconds: float) -> None:
        """Send requests at two thirds of the capacity."""
        start, sent = monotonic(), 0
        rate = self.seen.capacity * _LOAD
        async with asyncio.TaskGroup() as under_way:
            tasks: set[asyncio.Task[None]] = set()
            while (passed := monotonic() - start) < seconds:
                for _ in range(int(passed * rate) - sent):
                    sent += 1
                    # On a machine that others use, requests could pile up without end.
                    if len(tasks) < _MOST_UNDER_WAY:
                        task = under_way.create_task(self._act())
                        tasks.add(task)
                        task.add_done_callback(tasks.discard)
                await asyncio.sleep(0.02)

    async def _act(self) -> None:
        (kind,) = self._random.choices(list(_MIX), list(_MIX.values()))
        try:
            await self._actions[kind]()
        except (httpx.HTTPError, KeyError, ValueError) as error:
            self.seen.errors.append(f"{kind}: {error!r}")
        self.seen.done[kind] += 1

    async def _ask(self) -> None:
        route, mode = next(self._kinds)
        question = f"Who keeps the Lamp at Birch, asked for the {next(self._numbers)}th time?"
        verdict = await ask(self._client, route, question, mode, ANSWER)
        if verdict.outcome != "right":
            self.seen.errors.append(f"{route} {mode}: {verdict.outcome} {verdict.detail}")

    async def _hang_up(self) -> None:
        body = {"query": f"Who keeps the Bell, asked for the {next(self._numbers)}th time?", "mode": "mix"}
        async with self._client.stream("POST", "/query/stream", json=body) as response:
            response.raise_for_status()
            await anext(response.aiter_bytes())

    async def _graph(self) -> None:
        for path in ("/graph/label/popular", "/graphs?label=Birch&max_depth=2", "/graph/neighbours?name=Birch"):
            (await self._client.get(path)).raise_for_status()

    async def _list(self) -> None:
        found = (await self._client.get("/documents?limit=100")).raise_for_status().json()
        self._ids = [document["id"] for document in found["documents"]]

    async def _insert(self) -> None:
        number = next(self._numbers)
        body = {"text": report_text(number), "file_source": f"soak-{number}.txt"}
        (await self._client.post("/documents/text", json=body)).raise_for_status()

    async def _update(self) -> None:
        if self._ids:
            body = {"text": report_text(next(self._numbers))}
            response = await self._client.put(f"/documents/{self._random.choice(self._ids)}", json=body)
            self._pass_over_missing(response)

    async def _delete(self) -> None:
        if self._ids:
            document = self._ids.pop(self._random.randrange(len(self._ids)))
            self._pass_over_missing(await self._client.delete(f"/documents/{document}"))

    def _pass_over_missing(self, response: httpx.Response) -> None:
        # Another request may have deleted it since it was listed.
        if response.status_code not in (404, 409):
            response.raise_for_status()
