"""Asks the real service 1,000 questions and gives it 200 documents while its models fail in every way.

Chat and embedding model are one endpoint on loopback (`benchmarks/faulty_endpoint.py`): three calls in ten are met by
silence, 429 with and without `Retry-After`, 500, 503 in HTML, a hang-up, a reply that is cut off, ends early, is
garbage, another object, empty, a web page, slow or endless. Timeouts and tries are short. Questions go round all
modes and routes, streamed and not, eight at once. Every response is judged (`benchmarks/service_judging.py`); then the
endpoint recovers, and every document that was accepted must be processed.
"""

from __future__ import annotations

import asyncio
import itertools
from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic
from typing import Any

import httpx

from benchmarks.faulty_endpoint import ANSWER, DIMENSION, FaultyEndpoint, faulty_endpoint
from benchmarks.registry import Options
from benchmarks.report import Figure, Findings
from benchmarks.served import Served, served
from benchmarks.service_judging import MODES, ROUTES, Verdict, ask

__all__ = ["TITLE", "Tally", "faulty_service", "report_text", "run", "run_faults"]

TITLE = "A service whose models fail"

_SHARE = 0.3
_AT_ONCE = 8
_HANG_SECONDS = 60.0
_BATCH = 10
_PLACES = ("Alder", "Birch", "Cedar", "Dogwood", "Elder", "Fir", "Gorse", "Hazel")
_THINGS = ("Pump", "Valve", "Lamp", "Bell", "Gate", "Crane", "Wheel")


@dataclass(slots=True)
class Tally:
    """What became of a run.

    Attributes:
        outcomes: Of questions.
        wrong: What no response should be.
        accepted: Documents that were.
        unprocessed: Of these, those that were not in the end, by status.
        slowest_seconds: Of all questions.
        faults: Calls of models by what became of them.
        seconds: The whole.
    """

    outcomes: Counter[str] = field(default_factory=Counter[str])
    wrong: list[str] = field(default_factory=list[str])
    accepted: int = 0
    unprocessed: Counter[str] = field(default_factory=Counter[str])
    slowest_seconds: float = 0.0
    faults: Counter[str] = field(default_factory=Counter[str])
    seconds: float = 0.0


def run(options: Options) -> Findings:
    """Ask 1,000 questions and bring 200 documents; 60 and 10 if quick."""
    with TemporaryDirectory() as folder:
        tally = asyncio.run(run_faults(Path(folder), *((60, 10) if options.quick else (1_000, 200))))
    right = tally.outcomes["right"]
    total = tally.outcomes.total()
    shown = ", ".join(f"{count} {outcome}" for outcome, count in sorted(tally.outcomes.items()))
    figures = (
        Figure("questions", total),
        Figure("answered right", right),
        Figure("told as typed errors", total - right - len(tally.wrong)),
        Figure("neither", len(tally.wrong), at_most=0),
        Figure("slowest", tally.slowest_seconds, "s", at_most=_HANG_SECONDS),
        Figure("documents accepted", tally.accepted),
        Figure("not processed in the end", tally.unprocessed.total(), at_most=0),
        Figure("calls of models that failed", tally.faults.total() - tally.faults["right"]),
    )
    return Findings(figures, (shown + ".", *tally.wrong[:10]))


@contextmanager
def faulty_service(
    folder: Path,
    endpoint: FaultyEndpoint,
    calls_at_once: int = 16,
    timeout_seconds: float = 1.0,
    **sections: dict[str, Any],
) -> Generator[Served]:
    """Serve a folder with the endpoint as both models, by default with short timeouts; each call is tried twice."""
    model = {
        "base_url": endpoint.address,
        "api_key": "sk-of-the-endpoint",
        "timeout_seconds": timeout_seconds,
        "max_retries": 1,
    }
    chat = {"model": "faulty", "max_concurrency": calls_at_once, "cache": False, **model}
    embedding = {"provider": "openai", "model": "faulty", "dimension": DIMENSION, **model}
    with served(folder, chat=chat, embedding=embedding, **sections) as server:
        yield server


async def run_faults(folder: Path, questions: int, documents: int) -> Tally:
    """Run it all in a folder.

    Args:
        folder: Empty; for data and log.
        questions: How many to ask.
        documents: How many to bring while the endpoint fails.
    """
    tally, start = Tally(), monotonic()
    async with faulty_endpoint() as endpoint:
        with faulty_service(folder / "data", endpoint) as server:
            async with httpx.AsyncClient(base_url=server.address, timeout=_HANG_SECONDS) as client:
                await _bring(client, range(_BATCH), Tally())
                await _until_settled(client)
                endpoint.share = _SHARE
                asking = _ask_all(client, questions, tally)
                await asyncio.gather(asking, _bring(client, range(_BATCH, _BATCH + documents), tally))
                endpoint.share = 0.0
                tally.unprocessed = await _until_settled(client)
        tally.faults = Counter(endpoint.seen)
    tally.seconds = monotonic() - start
    return tally


async def _ask_all(client: httpx.AsyncClient, count: int, tally: Tally) -> None:
    slots = asyncio.Semaphore(_AT_ONCE)
    kinds = itertools.cycle(itertools.product(ROUTES, MODES))

    async def one(number: int, route: str, mode: str) -> None:
        if mode == "bypass" and route in ("data", "retrieve"):
            mode = "mix"
        async with slots:
            start = monotonic()
            question = f"Who keeps the {_THINGS[number % 7]} at {_PLACES[number % 8]}, asked {number} times?"
            verdict = await _within(ask(client, route, question, mode, ANSWER))
            tally.slowest_seconds = max(tally.slowest_seconds, monotonic() - start)
        tally.outcomes[verdict.outcome] += 1
        if verdict.outcome == "wrong":
            tally.wrong.append(f"{route} {mode}: {verdict.detail}")

    await asyncio.gather(*(one(number, *next(kinds)) for number in range(count)))


async def _within(asking: Any) -> Verdict:
    try:
        async with asyncio.timeout(_HANG_SECONDS):
            return await asking
    except TimeoutError:
        return Verdict("wrong", "it hangs")


async def _bring(client: httpx.AsyncClient, numbers: range, tally: Tally) -> None:
    for start in range(numbers.start, numbers.stop, _BATCH):
        batch = range(start, min(numbers.stop, start + _BATCH))
        texts, names = [report_text(number) for number in batch], [f"report-{number}.txt" for number in batch]
        response = await client.post("/documents/texts", json={"texts": texts, "file_sources": names})
        response.raise_for_status()
        tally.accepted += len(batch)
        await asyncio.sleep(0.2)


def report_text(number: int) -> str:
    """Return the text of a document; each is different."""
    place, thing = _PLACES[number % 8], _THINGS[number % 7]
    crew = _PLACES[(number // 8) % 8]
    return f"Report {number}. The {thing} at {place} is kept by the crew of {crew} since {number}."


async def _until_settled(client: httpx.AsyncClient) -> Counter[str]:
    """Wait until nothing is under way; failed documents are tried once more. Return what is not processed."""
    has_retried = False
    async with asyncio.timeout(600):
        while True:
            await asyncio.sleep(0.5)
            counts = Counter[str]((await client.get("/documents/status_counts")).json()["status_counts"])
            left = Counter({name: counts[name] for name in counts if name not in ("processed", "all") and counts[name]})
            if not left and counts["processed"]:
                return left
            if set(left) <= {"failed"} and not (await client.get("/documents/pipeline_status")).json()["busy"]:
                if has_retried:
                    return left
                has_retried = True
                (await client.post("/documents/reprocess_failed")).raise_for_status()
                await asyncio.sleep(1)
