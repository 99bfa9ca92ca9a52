from __future__ import annotations

import asyncio

import pytest

from heliograph.ingest.models import NewDocument, Outcome, Progress
from heliograph.ingest.pipeline import DocumentProgress, ProgressReporter
from heliograph.models import Usage
from tests.memory_store import MemoryStore

from .world import SpelledExtractor, make_pipeline


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def test_reports_are_throttled_and_the_last_one_always_comes() -> None:
    seen: list[Progress] = []
    clock = Clock()
    reporter = ProgressReporter("t", seen.append, clock)
    reporter.expect(4, 400)
    document = DocumentProgress(reporter, 100)
    document.begin_chunks(2)
    document.finish_chunk()
    assert len(seen) == 1
    clock.now += 1.0
    document.finish_chunk()
    document.grow(3, 2)
    document.finish(Usage(5, 1))
    assert len(seen) == 2
    assert (seen[1].chunks_done, seen[1].chunks_total, seen[1].elapsed_seconds) == (2, 2, 1.0)
    assert seen[1].eta_seconds == 3.0
    reporter.finish()
    last = seen[-1]
    assert (last.documents_done, last.documents_total, last.failures) == (1, 4, 0)
    assert (last.entities, last.relations, last.usage) == (3, 2, Usage(5, 1))
    assert last.is_finished


def test_time_left_is_unknown_before_anything_is_done() -> None:
    seen: list[Progress] = []
    reporter = ProgressReporter("t", seen.append)
    reporter.expect(1, 0)
    reporter.finish()
    assert [progress.eta_seconds for progress in seen] == [None, None]


def test_failing_callback_is_logged_once_and_not_called_again(caplog: pytest.LogCaptureFixture) -> None:
    calls = 0

    def fail(progress: Progress) -> None:
        nonlocal calls
        calls += 1
        raise RuntimeError("no terminal")

    reporter = ProgressReporter("t", fail)
    reporter.expect(1, 1)
    reporter.finish()
    assert calls == 1
    assert "no terminal" in caplog.text


async def test_run_reports_what_came_of_it(store: MemoryStore, extractor: SpelledExtractor) -> None:
    seen: list[Progress] = []
    extractor.unreadable = {"Bo"}
    documents = [NewDocument("Ann (p): x\n\nBo (p): y", "a"), NewDocument("Cy (p): z\nCy -> Di [k] 1.0: w", "b")]
    report = await make_pipeline(store, extractor).insert(documents, progress=seen.append)
    last = seen[-1]
    assert (last.documents_done, last.documents_total) == (2, 2)
    assert (last.chunks_done, last.chunks_total) == (3, 3)
    assert (last.entities, last.relations, last.failures) == (3, 1, 0)
    assert (last.track_id, last.usage) == (report.track_id, report.usage)
    assert report.count(Outcome.PARTIAL) == 1


async def test_failing_callback_does_not_stop_the_work(store: MemoryStore) -> None:
    def fail(progress: Progress) -> None:
        raise ValueError("broken bar")

    report = await make_pipeline(store).insert([NewDocument("Ann (p): x", "a")], progress=fail)
    assert report.count(Outcome.PROCESSED) == 1
    await asyncio.sleep(0)


def test_last_chunk_is_told_at_once() -> None:
    seen: list[Progress] = []
    reporter = ProgressReporter("t", seen.append, lambda: 1.0)
    reporter.expect(1, 20)
    document = DocumentProgress(reporter, 20)
    document.begin_chunks(2)
    document.finish_chunk()
    document.finish_chunk()
    assert (seen[-1].chunks_done, seen[-1].chunks_total) == (2, 2)
