"""Takes in 200 documents and asks 200 questions while a server of the store is hurt in every way.

`python -m benchmarks store_faults [NAME ...]`: `sqlite` (its disk only), `postgres` as the home store, and beside the
embedded store `redis` (graph and replies), `falkordb` and `neo4j` (graph), `qdrant` (vectors; Qdrant's engine behind
HTTP of ours, as its server cannot be had as a package). Each is killed and started again three times, its connections
are cut, held back, stalled and refused by a proxy, and its disk is filled to the last byte where a file system may be
mounted. In each of these phases some documents are stored as pending, which acknowledges them, and processed, and some
questions asked, four at once. What fails is tried again, as a caller would. Then everything heals: what was
acknowledged has to be there and processed, every engine caught up, `check` clean, and all questions answered right.
Extraction and embedding cost nothing. A FalkorDB that ends while it reads what it wrote to a full disk, which it does
now and then, is emptied, as its operator would have to.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from benchmarks.corpus import CorpusExtractor, corpus_document
from benchmarks.fault_questions import HANG_SECONDS, Questions, Tally, WordEmbedding
from benchmarks.fault_servers import SUBJECTS, Subject, running_subject
from benchmarks.registry import Options
from benchmarks.report import Figure, Findings
from heliograph import AsyncHeliograph, Settings
from heliograph.errors import HeliographError
from heliograph.ids import document_id
from heliograph.models import DocumentStatus
from heliograph.settings import StoreSettings

__all__ = ["TITLE", "Outcome", "run", "run_subject"]

TITLE = "A store whose servers fail"

_DIMENSION = 64
_BEFORE = range(10_000, 10_020)
_AT_ONCE = 4
_BATCH = 5
_REST_SECONDS = 0.3
_CATCH_UP_SECONDS = 120.0


@dataclass(slots=True)
class Outcome:
    """What became of one run.

    Attributes:
        acknowledged: Ids of documents.
        failures: Of ingesting, by class of error; each was tried again.
        lost: Acknowledged and not processed in the end.
        questions: While things failed.
        after: The same questions, afterwards.
        lost_replies: Replies that were put away and are gone.
        problems: What `check` found in the end.
        catch_up_seconds: From the last fault until all was processed and every engine up to date.
        remarks: What else had to be done to the server.
    """

    acknowledged: set[str] = field(default_factory=set[str])
    failures: Counter[str] = field(default_factory=Counter[str])
    lost: int = 0
    questions: Tally = field(default_factory=Tally)
    after: Tally = field(default_factory=Tally)
    lost_replies: int = 0
    problems: list[str] = field(default_factory=list[str])
    catch_up_seconds: float = 0.0
    remarks: list[str] = field(default_factory=list[str])


def run(options: Options) -> Findings:
    """Hurt those that are named, or all that are there."""
    logging.getLogger("heliograph").setLevel(logging.ERROR)
    figures: list[Figure] = []
    notes: list[str] = []
    documents, questions = (20, 20) if options.quick else (200, 200)
    for name in options.arguments or SUBJECTS:
        try:
            with TemporaryDirectory() as folder:
                outcome = asyncio.run(run_subject(name, Path(folder), documents, questions))
        except pytest.skip.Exception as missing:
            notes.append(f"{name} was left out: {missing}.")
            continue
        figures += _figures(name, outcome)
        notes += _notes(name, outcome)
    return Findings(tuple(figures), tuple(notes))


async def run_subject(name: str, folder: Path, documents: int, questions: int) -> Outcome:
    """Run one in a folder.

    Args:
        name: One of `SUBJECTS`.
        folder: Empty.
        documents: How many to take in while it is hurt.
        questions: How many to ask meanwhile.
    """
    for part in ("disk", "data"):
        (folder / part).mkdir()
    async with running_subject(name, folder / "disk") as subject:
        is_embedded = name == "sqlite"
        data_dir = subject.disk / "data" if is_embedded and subject.disk else folder / "data"
        values: dict[str, Any] = {"data_dir": data_dir, "write_timeout_seconds": 10, **subject.settings}
        settings = Settings(store=StoreSettings.model_validate(values))
        embedding = WordEmbedding(_DIMENSION)
        async with AsyncHeliograph(settings=settings, embedding=embedding, extractor=CorpusExtractor()) as kb:
            await kb.insert([corpus_document(number) for number in _BEFORE])
            outcome = await _Run(kb, subject, Questions(kb, _BEFORE)).go(documents, questions)
            outcome.remarks = subject.remarks
            return outcome


class _Run:
    def __init__(self, kb: AsyncHeliograph, subject: Subject, asked: Questions) -> None:
        self._kb = kb
        self._subject = subject
        self._asked = asked
        self._outcome = Outcome()

    async def go(self, documents: int, questions: int) -> Outcome:
        faults = self._subject.faults()
        for place, fault in enumerate(faults):
            hurting = asyncio.create_task(self._subject.hurt(fault))
            # What it says comes after something has begun.
            await asyncio.sleep(0.05)
            await asyncio.gather(
                hurting,
                self._ingest(_share(documents, place, len(faults))),
                self._ask(_share(questions, place, len(faults)), self._outcome.questions),
            )
        started = time.monotonic()
        await self._settle()
        self._outcome.catch_up_seconds = time.monotonic() - started
        await self._judge(questions)
        return self._outcome

    async def _ingest(self, numbers: range) -> None:
        for start in range(numbers.start, numbers.stop, _BATCH):
            batch = [corpus_document(number) for number in range(start, min(numbers.stop, start + _BATCH))]
            while not await self._try(self._enqueue(batch)):  # noqa: ASYNC110 (as a caller would)
                await asyncio.sleep(_REST_SECONDS)
            await self._try(self._kb.resume())

    async def _enqueue(self, batch: list[Any]) -> None:
        report = await self._kb.enqueue(batch)
        self._outcome.acknowledged |= {document_id(item.source) for item in batch}
        if any(item.error for item in report.results):
            raise AssertionError(str(report))

    async def _try(self, work: Any) -> bool:
        try:
            async with asyncio.timeout(3 * HANG_SECONDS):
                await work
        except HeliographError as error:
            self._outcome.failures[type(error).__name__] += 1
            return False
        except TimeoutError:
            self._outcome.questions.wrong.append("an ingest hangs")
            self._outcome.questions.outcomes["hung"] += 1
            return False
        return True

    async def _ask(self, places: range, tally: Tally) -> None:
        slots = asyncio.Semaphore(_AT_ONCE)

        async def one(place: int) -> None:
            async with slots:
                await self._asked.ask(place, tally)
                await asyncio.sleep(_REST_SECONDS)

        await asyncio.gather(*(one(place) for place in places))

    async def _settle(self) -> None:
        """Wait until nothing is pending and nothing lags."""
        try:
            async with asyncio.timeout(_CATCH_UP_SECONDS):
                while not await self._try(self._finish()):  # noqa: ASYNC110 (as a caller would)
                    await asyncio.sleep(_REST_SECONDS)
                while await self._is_behind():  # noqa: ASYNC110 (nothing tells when it is not)
                    await asyncio.sleep(0.05)
        except TimeoutError:
            self._outcome.problems.append(f"not caught up: {await self._kb.lags()} {await self._kb.troubles()}")

    async def _is_behind(self) -> bool:
        return any((await self._kb.lags()).values()) or bool(await self._kb.troubles())

    async def _finish(self) -> None:
        await self._kb.retry()
        await self._kb.resume()

    async def _judge(self, questions: int) -> None:
        outcome, records = self._outcome, self._kb.store.records
        found = {item.id: item for item in await records.get_documents(sorted(outcome.acknowledged))}
        done = {id_ for id_, item in found.items() if item.status is DocumentStatus.PROCESSED and item.chunk_count}
        outcome.lost = len(outcome.acknowledged - done)
        outcome.problems += [str(problem) for problem in (await self._kb.check()).problems]
        await self._ask(range(questions), outcome.after)
        outcome.lost_replies = await self._asked.find_lost_replies()


def _share(total: int, place: int, count: int) -> range:
    return range(total * place // count, total * (place + 1) // count)


def _figures(name: str, outcome: Outcome) -> list[Figure]:
    counts = outcome.questions.outcomes
    not_right = outcome.after.outcomes.total() - outcome.after.outcomes["right"]
    return [
        Figure(f"{name}: documents acknowledged", len(outcome.acknowledged)),
        Figure(f"{name}: of these lost", outcome.lost, at_most=0),
        Figure(f"{name}: questions answered right", counts["right"]),
        Figure(f"{name}: told as typed errors", counts["typed error"]),
        Figure(f"{name}: wrong, or hung", counts["wrong"] + counts["hung"], at_most=0),
        Figure(f"{name}: slowest question", outcome.questions.slowest_seconds, "s", at_most=HANG_SECONDS),
        Figure(f"{name}: until all had caught up", outcome.catch_up_seconds, "s"),
        Figure(f"{name}: found by `check`, or not right afterwards", len(outcome.problems) + not_right, at_most=0),
        Figure(f"{name}: replies of models lost", outcome.lost_replies, at_most=0),
    ]


def _notes(name: str, outcome: Outcome) -> list[str]:
    told = ", ".join(f"{count} {kind}" for kind, count in sorted(outcome.questions.errors.items())) or "none"
    tried = ", ".join(f"{count} {kind}" for kind, count in sorted(outcome.failures.items())) or "none"
    remarks = [f"{name} {remark}." for remark in outcome.remarks]
    wrong = [
        *remarks,
        *outcome.questions.odd[:3],
        *outcome.questions.wrong[:3],
        *outcome.after.wrong[:3],
        *outcome.problems[:3],
    ]
    return [f"{name}: errors of questions: {told}; of ingesting, each tried again: {tried}.", *wrong]
