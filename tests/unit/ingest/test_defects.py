"""A defect, wherever one document meets it, fails that document with its reason; the others go on."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import wraps
from importlib import import_module
from inspect import iscoroutinefunction
from typing import Any

import pytest

from heliograph.documents.base import LoadedDocument
from heliograph.errors import IngestError, StoreUnavailable
from heliograph.ingest.files import enqueue_files, insert_files
from heliograph.ingest.models import NewDocument, Outcome
from heliograph.models import DocumentStatus
from heliograph.settings import IngestSettings
from heliograph.stores.base import DocumentQuery
from heliograph.testing.fakes import FakeEmbeddingModel
from tests.memory_store import MemoryStore

from .world import make_pipeline, snapshot

MARK = "Quixote"
GOOD = [NewDocument(f"Ann (person): Fact {n}.\nT{n} (thing): x\nAnn -> T{n} [k] 1.0: y", f"{n}.txt") for n in range(6)]
BAD = NewDocument(f"Ann (person): Fact.\n{MARK} (person): x\nAnn -> {MARK} [k] 1.0: y", "bad.txt")
DOCUMENTS = [*GOOD[:3], BAD, *GOOD[3:]]

# Every step from a handed-over document to its commit, by where it is looked up.
INTAKE = ["ingest.intake.clean_pages", "ingest.intake.find_title", "ingest.intake.content_hash"]
READING = [
    "ingest.chunking.TokenChunker.chunk",
    "ingest.reading.plan_chunks",
    "extraction.base.Extractor.contexts",
    "extraction.base.Extractor.extract_in_context",
    "ingest.reading.canonical_extraction",
    "ingest.reading.with_introduced_aliases",
    "ingest.pipeline._finished",
]
COMMIT = [
    "ingest.commit.is_plain",
    "ingest.commit.mention_delta",
    "ingest.resolution.rule_counts",
    "ingest.merging.Merger.touch_entity",
    "ingest.merging.Merger.touch_relation",
    "ingest.merging.Merger.fold_entity",
    "ingest.merging.Merger.fold_relation",
    "ingest.commit.changeset",
    "testing.fakes.FakeEmbeddingModel.embed",
]


def failing(work: Callable[..., Any], raised: BaseException) -> Callable[..., Any]:
    """The same function, but for arguments that hold the mark."""

    def check(arguments: tuple[Any, ...]) -> None:
        if any(MARK in repr(item) for item in arguments):
            raise raised

    @wraps(work)
    def now(*arguments: Any, **named: Any) -> Any:
        check((*arguments, *named.values()))
        return work(*arguments, **named)

    @wraps(work)
    async def later(*arguments: Any, **named: Any) -> Any:
        check((*arguments, *named.values()))
        return await work(*arguments, **named)

    return later if iscoroutinefunction(work) else now


def break_at(monkeypatch: pytest.MonkeyPatch, place: str, raised: BaseException) -> None:
    module, _, name = f"heliograph.{place}".rpartition(".")
    try:
        owner: Any = import_module(module)
    except ModuleNotFoundError:
        outer, _, kind = module.rpartition(".")
        owner = getattr(import_module(outer), kind)
    monkeypatch.setattr(owner, name, failing(getattr(owner, name), raised))


async def stored(store: MemoryStore) -> dict[str, tuple[DocumentStatus, str]]:
    page = await store.records.find_documents(DocumentQuery(limit=100))
    return {document.source: (document.status, document.error) for document in page.documents}


async def without_the_bad_one(store: MemoryStore) -> dict[str, Any]:
    await make_pipeline(store).delete_matching(DocumentQuery((DocumentStatus.FAILED,)))
    return await snapshot(store)


@pytest.mark.parametrize("at_once", [1, 4])
@pytest.mark.parametrize("place", [*INTAKE, *READING, *COMMIT])
async def test_defect_fails_one_document_and_no_other(
    place: str, at_once: int, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    if place == "ingest.commit.is_plain" and at_once == 1:
        pytest.skip("documents that are read one by one are not committed together")
    settings = IngestSettings(max_parallel_documents=at_once)
    store, whole = MemoryStore(), MemoryStore()
    with monkeypatch.context() as patch:
        break_at(patch, place, IndexError("list index out of range"))
        report = await make_pipeline(store, settings=settings).insert(DOCUMENTS)
        outcomes = {result.source: result.outcome for result in report.results}
        (failure,) = report.failures
        assert outcomes == dict.fromkeys(outcomes, Outcome.PROCESSED) | {"bad.txt": Outcome.FAILED}
        assert isinstance(failure.error, IngestError)
        assert "'bad.txt'" in str(failure.error)
        assert "IndexError: list index out of range" in str(failure.error)
        assert (await stored(store))["bad.txt"] == (DocumentStatus.FAILED, str(failure.error))
        assert "Traceback" in caplog.text
        again = await make_pipeline(store, settings=settings).retry()
        assert [(item.source, item.outcome) for item in again.results] == [("bad.txt", Outcome.FAILED)]
        assert "IndexError" in str(again.results[0].error)
    await make_pipeline(whole).insert(GOOD)
    assert await without_the_bad_one(store) == await snapshot(whole)


@pytest.mark.parametrize("place", [*READING, *COMMIT])
async def test_defect_stops_neither_resume_nor_retry_and_ends_when_it_is_mended(
    place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, whole = MemoryStore(), MemoryStore()
    await make_pipeline(store).enqueue(DOCUMENTS)
    with monkeypatch.context() as patch:
        break_at(patch, place, RecursionError("maximum recursion depth exceeded"))
        report = await make_pipeline(store).resume()
        assert (report.count(Outcome.PROCESSED), report.count(Outcome.FAILED)) == (6, 1)
        assert (await make_pipeline(store).resume()).results == ()
    report = await make_pipeline(store).retry()
    assert [(item.source, item.outcome) for item in report.results] == [("bad.txt", Outcome.PROCESSED)]
    await make_pipeline(whole).insert(DOCUMENTS)
    assert await snapshot(store) == await snapshot(whole)


async def test_documents_that_cannot_be_joined_are_committed_alone(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    break_at(monkeypatch, "ingest.commit.joint_change", KeyError("no way to join them"))
    assert (await make_pipeline(store).insert(DOCUMENTS)).count(Outcome.PROCESSED) == 7


async def test_defect_of_a_store_in_a_commit_fails_one_document(monkeypatch: pytest.MonkeyPatch) -> None:
    store = MemoryStore()
    apply = store.apply
    broken = failing(apply, ValueError("not a row"))
    monkeypatch.setattr(store, "apply", lambda changes: (broken if changes.chunks else apply)(changes))
    report = await make_pipeline(store).insert(DOCUMENTS)
    assert (report.count(Outcome.PROCESSED), report.count(Outcome.FAILED)) == (6, 1)
    assert "not a row" in (await stored(store))["bad.txt"][1]


async def test_document_that_cannot_be_stored_as_pending_fails_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    store = MemoryStore()
    monkeypatch.setattr(store, "apply", failing(store.apply, ValueError("not a row")))
    report = await make_pipeline(store).enqueue(DOCUMENTS)
    assert [result.outcome for result in report.results].count(Outcome.PENDING) == 6
    assert [(item.source, "not a row" in str(item.error)) for item in report.failures] == [("bad.txt", True)]
    assert "bad.txt" not in await stored(store)
    assert (await make_pipeline(store).resume()).count(Outcome.PROCESSED) == 6


async def test_failure_that_cannot_be_noted_stops_no_run(monkeypatch: pytest.MonkeyPatch) -> None:
    store = MemoryStore()
    await make_pipeline(store).enqueue(DOCUMENTS)
    monkeypatch.setattr(store, "apply", failing(store.apply, ValueError("not a row")))
    break_at(monkeypatch, "ingest.reading.plan_chunks", KeyError(MARK))
    report = await make_pipeline(store).resume()
    assert (report.count(Outcome.PROCESSED), report.count(Outcome.FAILED)) == (6, 1)
    assert (await stored(store))["bad.txt"][0] is DocumentStatus.PENDING


async def test_outage_met_while_a_failure_is_noted_stops_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    store = MemoryStore()
    await make_pipeline(store).enqueue([BAD])
    monkeypatch.setattr(store, "apply", failing(store.apply, StoreUnavailable("the disk is full")))
    break_at(monkeypatch, "ingest.reading.plan_chunks", KeyError(MARK))
    with pytest.raises(StoreUnavailable, match="disk is full"):
        await make_pipeline(store).resume()


async def test_failure_of_an_update_keeps_what_was_stored(store: MemoryStore, monkeypatch: pytest.MonkeyPatch) -> None:
    await make_pipeline(store).insert([*GOOD, NewDocument("Bo (person): Here.", "bad.txt")])
    with monkeypatch.context() as patch:
        break_at(patch, "ingest.merging.Merger.fold_entity", ZeroDivisionError())
        assert len((await make_pipeline(store).insert(DOCUMENTS)).failures) == 1
    assert {"Bo"} <= {entity.name for entity in await store.graph.list_entities(0, 100)}
    whole = MemoryStore()
    await make_pipeline(store).retry()
    await make_pipeline(whole).insert(DOCUMENTS)
    assert await snapshot(store) == await snapshot(whole)


async def test_memory_that_runs_out_is_told_as_such(store: MemoryStore, monkeypatch: pytest.MonkeyPatch) -> None:
    break_at(monkeypatch, "ingest.reading.plan_chunks", MemoryError())
    (failure,) = (await make_pipeline(store).insert(DOCUMENTS)).failures
    assert "'bad.txt' needs more memory than there is" in str(failure.error)


@pytest.mark.parametrize("at_once", [1, 3])
@pytest.mark.parametrize("take", [insert_files, enqueue_files])
async def test_defect_of_a_loader_fails_one_file(
    take: Callable[..., Any], at_once: int, store: MemoryStore, caplog: pytest.LogCaptureFixture
) -> None:
    def read(source: str) -> LoadedDocument:
        if source == "bad.txt":
            raise AttributeError("no attribute 'pages'")
        return LoadedDocument(source, source, next(item.text for item in GOOD if item.source == source))

    pipeline = make_pipeline(store)
    pipeline.sources_at_once = at_once
    report = await take(pipeline, store.records, [item.source for item in DOCUMENTS], read)
    assert [result.source for result in report.failures] == ["bad.txt"]
    assert "no attribute 'pages'" in str(report.failures[0].error)
    assert "no attribute 'pages'" in (await stored(store))["bad.txt"][1]
    assert len(await stored(store)) == 7
    assert "Traceback" in caplog.text


async def test_file_that_fails_again_says_why_it_did_now(store: MemoryStore) -> None:
    reasons = iter([IngestError("it is empty"), IngestError("it is gone"), None])

    def read(source: str) -> LoadedDocument:
        if (reason := next(reasons)) is not None:
            raise reason
        return LoadedDocument(source, source, "Ann (person): Here.")

    pipeline = make_pipeline(store)
    for said in ("it is empty", "it is gone"):
        await enqueue_files(pipeline, store.records, ["a.txt"], read)
        assert await stored(store) == {"a.txt": (DocumentStatus.FAILED, said)}
        (again,) = (await pipeline.retry()).results
        assert (again.outcome, str(again.error)) == (Outcome.FAILED, said)
    await enqueue_files(pipeline, store.records, ["a.txt"], read)
    assert (await pipeline.resume()).count(Outcome.PROCESSED) == 1
    # What is stored well is not overwritten by a failure to read it again.
    reasons = iter([IngestError("it is gone")])
    await enqueue_files(pipeline, store.records, ["a.txt"], read)
    assert (await stored(store))["a.txt"][0] is DocumentStatus.PROCESSED


async def test_what_follows_an_insert_takes_nothing_back(store: MemoryStore, caplog: pytest.LogCaptureFixture) -> None:
    async def fail(_: object) -> None:
        raise IndexError("behind the insert")

    pipeline = make_pipeline(store, embedding=FakeEmbeddingModel(16))
    pipeline.call_after_processing(fail)
    with caplog.at_level(logging.ERROR):
        assert (await pipeline.insert(GOOD)).count(Outcome.PROCESSED) == 6
    assert "behind the insert" in caplog.text
