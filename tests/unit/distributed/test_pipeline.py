"""Documents read by workers end up as those that are read in one process."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from heliograph.chat.base import ChatMeter, ChatRequest
from heliograph.distributed import pool
from heliograph.distributed.messages import WorkerLostError
from heliograph.distributed.pool import WatchedDocument
from heliograph.errors import (
    CancelledIngestError,
    ClusterUnavailable,
    IngestError,
    ModelUnavailable,
    StoreUnavailable,
)
from heliograph.extraction.local import LocalExtractor
from heliograph.ingest.files import insert_files
from heliograph.ingest.models import NewDocument, Outcome, Progress
from heliograph.ingest.pipeline import IngestPipeline
from heliograph.models import DocumentStatus
from heliograph.settings import IngestSettings
from heliograph.stores.base import CachedReply, DocumentQuery
from heliograph.testing.fakes import FakeChatModel, FakeEmbeddingModel
from tests.memory_store import MemoryReplyCache, MemoryStore

from ..ingest.test_defects import MARK, break_at
from ..ingest.world import snapshot
from .world import KILLER, Here, HereLauncher, open_pipeline, until

_call = Here.call

REPLY = """{"entities": [{"name": "Hester Tarrant", "type": "person", "description": "Keeps the light."},
{"name": "Gannet Head", "type": "location", "description": "A light."}], "relationships":
[{"source": "Hester Tarrant", "target": "Gannet Head", "keywords": "keeping", "description": "She keeps it."}]}"""


def documents(count: int) -> list[NewDocument]:
    names = ("Hester Tarrant", "Tobias Fenn", "Nell Tarrant", "Gannet Head", "Carrow Quay")
    texts = [
        "\n\n".join(f"{names[(i + p) % 5]} met {names[(i * p + 2) % 5]} on day {i}. " * 9 for p in range(6))
        for i in range(count)
    ]
    return [NewDocument(text, f"notes/{number}.md") for number, text in enumerate(texts)]


async def read_here(given: list[NewDocument], **settings: Any) -> MemoryStore:
    store = MemoryStore()
    ingest = IngestSettings(**settings)
    await IngestPipeline(store, FakeEmbeddingModel(16), LocalExtractor(), None, ingest).insert(given)
    return store


async def statuses(store: MemoryStore) -> dict[str, DocumentStatus]:
    page = await store.records.find_documents(DocumentQuery(limit=1_000))
    return {item.source: item.status for item in page.documents}


async def test_reading_on_workers_gives_what_reading_here_gives(
    store: MemoryStore, launcher: HereLauncher, stack: AsyncExitStack
) -> None:
    given = [*documents(7), NewDocument(documents(1)[0].text, "twin.md")]
    pipeline, _ = open_pipeline(store, launcher, stack)
    report = await pipeline.insert(given)
    assert {item.outcome for item in report.results} == {Outcome.PROCESSED}
    assert await snapshot(store) == await snapshot(await read_here(given))
    assert len(launcher.started) == 2
    assert launcher.calls["read"] == 7
    assert launcher.calls["embed"] > 0


async def test_an_update_on_workers_reads_changed_chunks_only(
    store: MemoryStore, launcher: HereLauncher, stack: AsyncExitStack
) -> None:
    chat = FakeChatModel(REPLY)
    first, *_ = documents(1)
    changed = NewDocument(first.text + "\n\nBeatrice Sorley gave the book away.", first.source)
    meter = ChatMeter()
    pipeline, _ = open_pipeline(
        store, launcher, stack, chat=chat, meter=meter, ingest={"chunk_tokens": 60, "overlap_tokens": 0}
    )
    await pipeline.insert([first])
    before = meter.usage().total.calls
    (result,) = (await pipeline.insert([changed])).results
    assert result.outcome is Outcome.PROCESSED
    assert 0 < meter.usage().total.calls - before < before / 2


async def test_replies_are_kept_where_the_store_is_and_paid_for_once(
    store: MemoryStore, launcher: HereLauncher, stack: AsyncExitStack
) -> None:
    meter = ChatMeter()
    pipeline, _ = open_pipeline(store, launcher, stack, chat=FakeChatModel(REPLY), meter=meter)
    report = await pipeline.insert(documents(3))
    calls = meter.usage().total
    assert calls.calls > 0
    assert calls.usage == report.usage
    assert len(await store.replies.list_replies("", 100)) == calls.calls
    again = HereLauncher()
    fresh, _ = open_pipeline(_with_replies_of(store), again, stack, chat=FakeChatModel(REPLY), meter=meter)
    await fresh.insert(documents(3))
    assert meter.usage().total == calls


async def test_a_store_that_keeps_no_replies_stops_the_run(launcher: HereLauncher, stack: AsyncExitStack) -> None:
    store = _FullStore()
    pipeline, _ = open_pipeline(store, launcher, stack, chat=FakeChatModel(REPLY))
    with pytest.raises(StoreUnavailable, match="the disk is full"):
        await pipeline.insert(documents(2))
    assert set((await statuses(store)).values()) == {DocumentStatus.PENDING}


@pytest.mark.parametrize("method", ["get_reply", "put_reply"])
async def test_a_defect_in_answering_a_worker_is_told_and_leaves_nobody_waiting(
    store: MemoryStore, launcher: HereLauncher, stack: AsyncExitStack, monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    async def fail(*_: object) -> None:
        raise UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid start byte")

    monkeypatch.setattr(store.replies, method, fail)
    pipeline, _ = open_pipeline(store, launcher, stack, chat=FakeChatModel(REPLY))
    async with asyncio.timeout(60):
        report = await pipeline.insert(documents(2))
    assert {item.outcome for item in report.results} == {Outcome.FAILED}
    assert "UnicodeDecodeError" in str(report.results[0].error)
    assert len(launcher.started) == 2


async def test_a_worker_that_cannot_be_attended_is_replaced(
    store: MemoryStore, launcher: HereLauncher, stack: AsyncExitStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    failed: list[int] = []

    async def call(worker: Here, method: str, *arguments: object) -> Any:
        if method == "attend" and len(failed) < 3:
            failed.append(len(launcher.started))
            raise TypeError("cannot unpickle")
        return await _call(worker, method, *arguments)

    monkeypatch.setattr(Here, "call", call)
    pipeline, _ = open_pipeline(store, launcher, stack, chat=FakeChatModel(REPLY))
    async with asyncio.timeout(60):
        report = await pipeline.insert(documents(3))
    assert {item.outcome for item in report.results} == {Outcome.PROCESSED}
    assert len(launcher.started) == 2 + len(failed) == 5


async def test_a_defect_in_starting_workers_is_told(
    store: MemoryStore, launcher: HereLauncher, stack: AsyncExitStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def start(*_: object) -> None:
        raise TypeError("cannot unpickle")

    monkeypatch.setattr(launcher, "start", start)
    pipeline, _ = open_pipeline(store, launcher, stack)
    with pytest.raises(ClusterUnavailable, match=r"TypeError: cannot unpickle\), which is a defect"):
        await pipeline.insert(documents(1))
    assert set((await statuses(store)).values()) == {DocumentStatus.PENDING}


async def test_news_that_cannot_be_told_on_leave_no_question_unanswered(
    store: MemoryStore, launcher: HereLauncher, stack: AsyncExitStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("nobody listens")

    monkeypatch.setattr(WatchedDocument, "read_one", fail)
    pipeline, _ = open_pipeline(store, launcher, stack, chat=FakeChatModel(REPLY))
    async with asyncio.timeout(60):
        report = await pipeline.insert(documents(2))
    assert {item.outcome for item in report.results} == {Outcome.PROCESSED}


async def test_a_document_that_ends_its_workers_fails_and_takes_no_other_with_it(
    store: MemoryStore, launcher: HereLauncher, stack: AsyncExitStack
) -> None:
    pipeline, _ = open_pipeline(store, launcher, stack)
    report = await pipeline.insert([*documents(5), NewDocument(KILLER, "killer.md")])
    *others, killer = report.results
    assert {item.outcome for item in others} == {Outcome.PROCESSED}
    assert isinstance(killer.error, IngestError)
    assert "'killer.md' ended the worker that was at it 3 times" in str(killer.error)
    assert (await statuses(store))["killer.md"] is DocumentStatus.FAILED
    assert len(launcher.started) == 5


async def test_a_worker_lost_in_between_costs_nothing(
    store: MemoryStore, launcher: HereLauncher, stack: AsyncExitStack
) -> None:
    pipeline, _ = open_pipeline(store, launcher, stack)
    seen: list[Progress] = []

    def watch(progress: Progress) -> None:
        seen.append(progress)
        if progress.documents_done == 1:
            launcher.started[0].kill()

    report = await pipeline.insert(documents(8), progress=watch)
    assert {item.outcome for item in report.results} == {Outcome.PROCESSED}
    assert await snapshot(store) == await snapshot(await read_here(documents(8)))
    assert seen[-1].chunks_done == seen[-1].chunks_total > 8


async def test_typed_errors_of_workers_are_those_of_one_process(
    store: MemoryStore, launcher: HereLauncher, stack: AsyncExitStack
) -> None:
    chat = _FailingChatModel()
    pipeline, _ = open_pipeline(store, launcher, stack, chat=chat)
    with pytest.raises(ModelUnavailable, match="is not there"):
        await pipeline.insert(documents(2))
    assert set((await statuses(store)).values()) == {DocumentStatus.PENDING}


@pytest.mark.parametrize(
    "place",
    [
        "ingest.chunking.SpanChunker.chunk",
        "extraction.local.LocalExtractor.extract_in_context",
        "distributed.worker.ReadingWorker._embed",
    ],
)
async def test_defect_on_a_worker_fails_one_document_and_is_logged_here(
    place: str, launcher: HereLauncher, stack: AsyncExitStack, monkeypatch: pytest.MonkeyPatch, caplog: Any
) -> None:
    break_at(monkeypatch, place, IndexError("list index out of range"))
    pipeline, _ = open_pipeline(MemoryStore(), launcher, stack)
    report = await pipeline.insert([*documents(4), NewDocument(f"{MARK} rode to Gannet Head.", "bad.md")])
    assert [result.source for result in report.failures] == ["bad.md"]
    assert report.count(Outcome.PROCESSED) == 4
    assert "IndexError: list index out of range" in str(report.failures[0].error)
    assert "Traceback" in caplog.text


async def test_without_a_worker_documents_stay_pending_and_the_next_run_tries_anew(
    store: MemoryStore, launcher: HereLauncher, stack: AsyncExitStack
) -> None:
    pipeline, _ = open_pipeline(store, launcher, stack)
    launcher.failures = [WorkerLostError("no memory"), ClusterUnavailable("no place")]
    with pytest.raises(ClusterUnavailable):
        await pipeline.insert(documents(3))
    assert set((await statuses(store)).values()) == {DocumentStatus.PENDING}
    report = await pipeline.resume()
    assert {item.outcome for item in report.results} == {Outcome.PROCESSED}
    assert launcher.opened == 2


async def test_a_worker_that_found_no_place_is_tried_again_while_others_go_on(
    store: MemoryStore, launcher: HereLauncher, stack: AsyncExitStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool, "_REST_SECONDS", 0.01)
    pipeline, _ = open_pipeline(store, launcher, stack)
    launcher.failures = [WorkerLostError("its machine is gone")]
    await pipeline.insert(documents(3))
    await until(lambda: len(launcher.started) == 2)
    report = await pipeline.insert([NewDocument("Nell Tarrant left Carrow Quay.", "late.md")])
    assert report.results[0].outcome is Outcome.PROCESSED
    assert launcher.opened == 1


async def test_cancelling_leaves_documents_pending_and_workers_give_up(
    store: MemoryStore, launcher: HereLauncher, stack: AsyncExitStack
) -> None:
    pipeline, _ = open_pipeline(store, launcher, stack, extractor=_Waiting())
    run = asyncio.create_task(pipeline.insert(documents(4)))
    await until(lambda: launcher.calls["read"] > 0)
    pipeline.cancel()
    with pytest.raises(CancelledIngestError):
        await run
    assert set((await statuses(store)).values()) == {DocumentStatus.PENDING}
    await until(lambda: not any(worker._inner._reading for worker in launcher.started))
    other = HereLauncher()
    again, _ = open_pipeline(store, other, stack)
    assert {item.outcome for item in (await again.resume()).results} == {Outcome.PROCESSED}


async def test_no_worker_is_given_more_than_its_share(
    store: MemoryStore, launcher: HereLauncher, stack: AsyncExitStack
) -> None:
    pipeline, _ = open_pipeline(store, launcher, stack, ray={"workers": 2, "documents_per_worker": 3})
    await pipeline.insert(documents(20))
    for worker in launcher.started:
        assert worker.most_under_way["read"] <= 3
        assert worker.most_under_way["embed"] <= 2


async def test_files_are_loaded_on_workers_in_order(
    store: MemoryStore, launcher: HereLauncher, stack: AsyncExitStack, tmp_path: Path
) -> None:
    pipeline, cluster = open_pipeline(store, launcher, stack)
    paths = [tmp_path / f"{number}.html" for number in range(5)]
    for path in paths:
        path.write_text(f"<h1>Title {path.stem}</h1><p>Tobias Fenn wound clock {path.stem}.</p>", "utf-8")
    given = [*map(str, paths), str(tmp_path / "missing.md")]
    report = await insert_files(pipeline, store.records, given, cluster.sources.read)
    assert [item.outcome for item in report.results] == [*[Outcome.PROCESSED] * 5, Outcome.FAILED]
    assert launcher.calls["load"] == 5
    page = await store.records.find_documents(DocumentQuery(sort="source"))
    assert sorted(item.title for item in page.documents if item.chunk_count) == [f"Title {n}" for n in range(5)]


async def test_nothing_is_started_before_a_document_comes(
    store: MemoryStore, launcher: HereLauncher, stack: AsyncExitStack
) -> None:
    pipeline, cluster = open_pipeline(store, launcher, stack)
    await cluster.embedding.embed(["a question"], "query")
    await cluster.embedding.embed(["a description"], "document")
    await pipeline.resume()
    assert not launcher.opened
    await stack.aclose()
    assert launcher.is_closed


def _with_replies_of(store: MemoryStore) -> MemoryStore:
    fresh = MemoryStore()
    fresh.replies = store.replies
    return fresh


class _Waiting(LocalExtractor):
    async def extract_in_context(self, *arguments: Any, **keywords: Any) -> Any:
        await asyncio.sleep(3600)


class _FailingChatModel(FakeChatModel):
    async def complete(self, request: ChatRequest) -> Any:
        raise ModelUnavailable(f"{self.name!r} is not there")


class _FullStore(MemoryStore):
    def __init__(self) -> None:
        super().__init__()
        self.replies = _FullReplies()


class _FullReplies(MemoryReplyCache):
    async def put_reply(self, reply: CachedReply) -> None:
        raise StoreUnavailable("the disk is full")
