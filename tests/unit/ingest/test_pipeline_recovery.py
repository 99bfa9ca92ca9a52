"""Crashes, cancels, outages and conflicts: nothing is lost, nothing is done twice."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, nullcontext, suppress

import pytest

from heliograph.errors import (
    CancelledIngestError,
    ConflictError,
    IngestError,
    ModelUnavailable,
    StaleChangesetError,
    StoreUnavailable,
)
from heliograph.ids import document_id
from heliograph.ingest.chunking import TokenChunker
from heliograph.ingest.models import NewDocument, Outcome
from heliograph.models import Chunk, DocumentStatus
from heliograph.settings import IngestSettings
from heliograph.stores.base import DocumentQuery
from heliograph.stores.changeset import Changeset
from heliograph.testing.fakes import FakeEmbeddingModel
from tests.memory_store import MemoryStore

from .world import SpelledExtractor, make_pipeline, snapshot

DOCUMENTS = [
    NewDocument(f"Ann (person): Fact {n}.\nT{n} (thing): x\nAnn -> T{n} [k] 1.0: y", f"{n}.txt") for n in range(6)
]


async def statuses(store: MemoryStore) -> list[DocumentStatus]:
    page = await store.records.find_documents(DocumentQuery(sort="source"))
    return [document.status for document in page.documents]


async def clean_state() -> dict[str, object]:
    store = MemoryStore()
    await make_pipeline(store).insert(DOCUMENTS)
    return await snapshot(store)


class FlakyStore(MemoryStore):
    """A store whose commits of finished documents fail as told.

    Attributes:
        error: Raised by commits once `commits_left` have gone through.
        before_apply: Run once before the next such commit.
    """

    def __init__(self) -> None:
        super().__init__()
        self.error: Exception | None = None
        self.commits_left = 0
        self.before_apply: Callable[[], Awaitable[object]] | None = None

    async def apply(self, changeset: Changeset) -> int:
        if not changeset.chunks:
            return await super().apply(changeset)
        if self.before_apply is not None:
            hook, self.before_apply = self.before_apply, None
            await hook()
        if self.error is not None and not self.commits_left:
            raise self.error
        version = await super().apply(changeset)
        self.commits_left -= 1
        return version


async def test_crash_after_enqueueing_is_made_good_by_resume(extractor: SpelledExtractor) -> None:
    store = FlakyStore()
    store.error, store.commits_left = StoreUnavailable("the disk is full"), 2
    with pytest.raises(StoreUnavailable, match="disk is full"):
        await make_pipeline(store, settings=IngestSettings(max_parallel_documents=1)).insert(DOCUMENTS)
    store.error = None
    assert len(await statuses(store)) == 6
    assert (await statuses(store)).count(DocumentStatus.PROCESSED) == 2
    report = await make_pipeline(store, extractor).resume()
    assert [result.outcome for result in report.results] == [Outcome.PROCESSED] * 4
    assert len(extractor.read) == 4
    assert await snapshot(store) == await clean_state()
    assert (await make_pipeline(store).resume()).results == ()


async def test_crash_during_an_update_is_made_good_by_resume() -> None:
    store = FlakyStore()
    await make_pipeline(store).insert([NewDocument("Old (thing): Was here.\n\nAnn (person): Stays.", "0.txt")])
    store.error, store.commits_left = StoreUnavailable("the disk is full"), 0
    with pytest.raises(StoreUnavailable):
        await make_pipeline(store).insert(DOCUMENTS)
    store.error = None
    await make_pipeline(store).resume()
    assert await snapshot(store) == await clean_state()


async def test_cancel_leaves_the_rest_pending_and_resume_reads_only_that(
    store: MemoryStore, extractor: SpelledExtractor
) -> None:
    pipeline = make_pipeline(store, extractor)
    await pipeline.insert(DOCUMENTS[:2])
    extractor.gate = asyncio.Event()
    running = asyncio.create_task(pipeline.insert(DOCUMENTS))
    await asyncio.sleep(0.01)
    pipeline.cancel()
    with pytest.raises(CancelledIngestError, match=r"4 are left for later.*resume"):
        await running
    assert (await statuses(store)).count(DocumentStatus.PENDING) == 4
    extractor.gate = None
    extractor.read.clear()
    await pipeline.resume()
    assert len(extractor.read) == 4
    assert await snapshot(store) == await clean_state()


async def test_cancel_without_a_run_does_nothing_and_the_next_run_works(store: MemoryStore) -> None:
    pipeline = make_pipeline(store)
    pipeline.cancel()
    assert (await pipeline.insert(DOCUMENTS)).count(Outcome.PROCESSED) == 6


async def test_cancelling_the_caller_ends_the_work_under_way(store: MemoryStore, extractor: SpelledExtractor) -> None:
    extractor.gate = asyncio.Event()
    running = asyncio.create_task(make_pipeline(store, extractor).insert(DOCUMENTS))
    await asyncio.sleep(0.01)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert asyncio.all_tasks() == {asyncio.current_task()}
    assert await statuses(store) == [DocumentStatus.PENDING] * 6


async def test_outage_of_a_model_stops_the_run_and_keeps_documents_pending(
    store: MemoryStore, extractor: SpelledExtractor
) -> None:
    extractor.failures = {f"Fact {number}": ModelUnavailable("no such host") for number in range(2, 6)}
    pipeline = make_pipeline(store, extractor)
    with pytest.raises(ModelUnavailable, match="no such host") as caught:
        await pipeline.insert(DOCUMENTS)
    assert "4 documents are left" in caught.value.__notes__[0]
    assert (await statuses(store)).count(DocumentStatus.PROCESSED) == 2
    extractor.failures.clear()
    await pipeline.resume()
    assert await snapshot(store) == await clean_state()


async def test_unreadable_chunks_make_a_partial_document_that_retry_completes(
    store: MemoryStore, extractor: SpelledExtractor, embedding: FakeEmbeddingModel
) -> None:
    text = "Ann (person): One.\n\nBo (person): Two.\n\nCy (person): Three."
    extractor.unreadable = {"Two"}
    pipeline = make_pipeline(store, extractor, embedding)
    report = await pipeline.insert([NewDocument(text, "a.txt")])
    (result,) = report.results
    assert result.outcome is Outcome.PARTIAL
    assert "1 of 3 chunks" in result.detail
    (stored,) = await store.records.get_documents([result.id])
    assert (stored.status, stored.chunk_count) == (DocumentStatus.PARTIAL, 3)
    assert (await store.get_stats()).entities == 2
    extractor.unreadable.clear()
    extractor.read.clear()
    embedding.calls.clear()
    report = await pipeline.retry()
    assert report.count(Outcome.PROCESSED) == 1
    assert extractor.read == ["Bo (person): Two."]
    assert [texts for _, texts in embedding.calls] == [("Bo",)]
    (stored,) = await store.records.get_documents([result.id])
    assert (stored.status, stored.error) == (DocumentStatus.PROCESSED, "")
    whole = MemoryStore()
    await make_pipeline(whole).insert([NewDocument(text, "a.txt")])
    assert await snapshot(store) == await snapshot(whole)


async def test_retry_takes_failed_documents_again(store: MemoryStore, extractor: SpelledExtractor) -> None:
    extractor.failures = {"Fact 1": IngestError("not this one")}
    pipeline = make_pipeline(store, extractor)
    report = await pipeline.insert([*DOCUMENTS, NewDocument("", "empty.txt")])
    assert str(report.failures[0].error) == "not this one"
    extractor.failures.clear()
    report = await pipeline.retry()
    assert sorted(result.outcome for result in report.results) == [Outcome.FAILED, Outcome.PROCESSED]
    assert (await statuses(store)).count(DocumentStatus.PROCESSED) == 6
    assert (await pipeline.insert(DOCUMENTS[1:2])).count(Outcome.UNCHANGED) == 1


async def test_inserting_a_failed_document_again_processes_it(store: MemoryStore, extractor: SpelledExtractor) -> None:
    extractor.failures = {"Fact 1": IngestError("not this one")}
    pipeline = make_pipeline(store, extractor)
    await pipeline.insert(DOCUMENTS)
    extractor.failures.clear()
    report = await pipeline.insert(DOCUMENTS)
    assert (report.count(Outcome.UNCHANGED), report.count(Outcome.PROCESSED)) == (5, 1)
    assert await snapshot(store) == await clean_state()


async def test_stale_draft_is_made_again_and_pays_only_for_what_changed(embedding: FakeEmbeddingModel) -> None:
    store = FlakyStore()
    other = make_pipeline(store, exclusive=nullcontext)

    async def interfere() -> None:
        await other.insert([DOCUMENTS[0]])

    store.before_apply = interfere
    await make_pipeline(store, embedding=embedding).insert([DOCUMENTS[1]])
    # The vector of what the other document mentions too is made again, of a name that is embedded and of both chunks.
    ((_, texts),) = embedding.calls
    assert len(texts) == 3
    in_turn = MemoryStore()
    await make_pipeline(in_turn).insert(DOCUMENTS[:2])
    assert await snapshot(store) == await snapshot(in_turn)


async def test_conflict_without_end_leaves_the_document_pending() -> None:
    store = FlakyStore()
    store.error = StaleChangesetError("changed")
    report = await make_pipeline(store).insert(DOCUMENTS[:1])
    assert isinstance(report.results[0].error, ConflictError)
    assert await statuses(store) == [DocumentStatus.PENDING]


async def test_document_deleted_by_another_process_meanwhile_stays_deleted() -> None:
    store = FlakyStore()

    async def interfere() -> None:
        await make_pipeline(store).delete([document_id("0.txt")])

    store.before_apply = interfere
    report = await make_pipeline(store).insert(DOCUMENTS[:1])
    assert "deleted by another process" in str(report.results[0].error)
    assert await snapshot(store) == await snapshot(MemoryStore())


@pytest.mark.parametrize("text", ["Ann (person): Newer.", DOCUMENTS[0].text])
async def test_deleting_what_another_process_is_changing_is_refused(
    store: MemoryStore, extractor: SpelledExtractor, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    extractor.unreadable = {"Fact 0"}
    await make_pipeline(store, extractor).insert(DOCUMENTS[:2])
    extractor.unreadable.clear()
    other = make_pipeline(store, extractor)
    read = store.records.get_document_chunks

    async def read_then_change(document_id: str) -> list[Chunk]:
        chunks = await read(document_id)
        monkeypatch.undo()
        await other.retry()
        await other.insert([NewDocument(text, "0.txt")])
        return chunks

    monkeypatch.setattr(store.records, "get_document_chunks", read_then_change)
    with pytest.raises(ConflictError, match="changed by another process"):
        await make_pipeline(store).delete([document_id("0.txt")])
    fresh = MemoryStore()
    await make_pipeline(fresh).insert([NewDocument(text, "0.txt"), DOCUMENTS[1]])
    assert await snapshot(store) == await snapshot(fresh)
    await make_pipeline(store).delete([document_id("0.txt")])
    await make_pipeline(fresh).delete([document_id("0.txt")])
    assert await snapshot(store) == await snapshot(fresh)


async def test_text_of_nothing_but_separators_fails(store: MemoryStore) -> None:
    pipeline = make_pipeline(store)
    chunker = TokenChunker(20, 0, "|")
    report = await make_pipeline(store, chunker=chunker).insert([NewDocument("|||", "bars.txt"), DOCUMENTS[0]])
    assert [result.outcome for result in report.results] == [Outcome.FAILED, Outcome.PROCESSED]
    assert (await pipeline.delete([report.results[0].id])).removed_chunks == 0


async def test_document_is_worked_on_by_one_task_at_a_time(store: MemoryStore, extractor: SpelledExtractor) -> None:
    pipeline = make_pipeline(store, extractor)
    extractor.gate = asyncio.Event()
    first = asyncio.create_task(pipeline.insert([NewDocument("Ann (person): First.", "a")]))
    await asyncio.sleep(0.01)
    second = asyncio.create_task(pipeline.insert([NewDocument("Ann (person): Second.", "a")]))
    await asyncio.sleep(0.01)
    assert await store.records.get_document_text(document_id("a")) == "Ann (person): Second."
    deleted = asyncio.create_task(pipeline.delete([document_id("a")]))
    resumed = await pipeline.resume()
    assert resumed.results == ()
    extractor.gate.set()
    # What was read of the first text is not committed: the second had been handed over.
    assert (await first).results[0].outcome is Outcome.PENDING
    assert (await second).count(Outcome.PROCESSED) == 1
    assert (await deleted).deleted == (document_id("a"),)
    assert (await store.get_stats()).entities in (0, 1)


async def test_runs_of_a_pipeline_share_one_exclusive_section(store: MemoryStore, extractor: SpelledExtractor) -> None:
    events: list[str] = []

    @asynccontextmanager
    async def exclusive() -> AsyncGenerator[None]:
        events.append("in")
        yield
        events.append("out")

    pipeline = make_pipeline(store, extractor, exclusive=exclusive)
    await asyncio.gather(pipeline.insert(DOCUMENTS[:3]), pipeline.insert(DOCUMENTS[3:]))
    assert events == ["in", "out"]
    await pipeline.insert(DOCUMENTS)
    assert events == ["in", "out"]


async def test_what_is_handed_over_while_the_rest_is_given_up_stays(store: MemoryStore) -> None:
    pipeline = make_pipeline(store)
    await pipeline.enqueue([NewDocument("Ann (person): First.", "a"), NewDocument("Bo (person): Other.", "b")])
    apply, anew = store.apply, [NewDocument("Ann (person): Second.", "a")]

    async def interrupted(changeset: Changeset) -> int:
        if anew and changeset.documents[0].source == "a":
            await make_pipeline(store).enqueue([anew.pop()])
        return await apply(changeset)

    store.apply = interrupted
    assert await pipeline.abandon("enough") == 1
    assert await statuses(store) == [DocumentStatus.PENDING, DocumentStatus.FAILED]


async def test_refused_exclusive_section_keeps_documents_pending(store: MemoryStore) -> None:
    @asynccontextmanager
    async def refuse() -> AsyncGenerator[None]:
        with suppress(ZeroDivisionError):
            raise StoreUnavailable("another process is writing")
        yield

    with pytest.raises(StoreUnavailable):
        await make_pipeline(store, exclusive=refuse).insert(DOCUMENTS)
    assert await statuses(store) == [DocumentStatus.PENDING] * 6
    await make_pipeline(store).resume()
    assert await snapshot(store) == await clean_state()
