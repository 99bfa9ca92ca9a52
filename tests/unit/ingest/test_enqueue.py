from __future__ import annotations

from pathlib import Path

import pytest

from heliograph import AsyncHeliograph
from heliograph.errors import InvalidRequestError
from heliograph.ingest.models import NewDocument, Outcome
from heliograph.models import DocumentStatus
from heliograph.stores.base import DocumentQuery
from heliograph.testing.fakes import FakeEmbeddingModel
from tests.memory_store import MemoryStore

from .world import make_pipeline

TEXT = "\n\n".join(f"## Part {number}\n\n" + f"The ESP32 number {number} speaks MQTT. " * 60 for number in range(6))


@pytest.fixture
async def kb(tmp_path: Path, embedding: FakeEmbeddingModel):
    async with AsyncHeliograph(tmp_path, embedding=embedding) as kb:
        yield kb


async def test_enqueued_documents_wait_until_they_are_resumed(kb: AsyncHeliograph) -> None:
    report = await kb.enqueue([NewDocument(TEXT, "a.md"), NewDocument("", "b.md")], track_id="t1")
    assert [result.outcome for result in report.results] == [Outcome.PENDING, Outcome.FAILED]
    (document,) = [item for item in (await kb.documents()).documents if item.source == "a.md"]
    assert (document.status, document.track_id, await kb.chunks(document.id)) == ("pending", "t1", [])
    await kb.resume()
    assert (await kb.enqueue(NewDocument(TEXT, "a.md"))).results[0].outcome is Outcome.UNCHANGED
    assert await kb.chunks(document.id)


async def test_update_that_waited_reads_changed_chunks_only(kb: AsyncHeliograph, embedding: FakeEmbeddingModel) -> None:
    await kb.insert(NewDocument(TEXT, "a.md"))
    before = {chunk.id for chunk in await kb.chunks((await kb.documents()).documents[0].id)}
    embedding.calls.clear()
    await kb.enqueue(NewDocument(TEXT.replace("number 5", "number five"), "a.md"))
    await kb.resume()
    after = {chunk.id for chunk in await kb.chunks((await kb.documents()).documents[0].id)}
    embedded = [text for _, texts in embedding.calls for text in texts if "## Part" in text or "speaks" in text]
    assert len(after - before) < len(before) / 2
    assert not any("number 0 speaks" in text for text in embedded)


async def test_abandoned_documents_are_taken_up_by_retry_only(kb: AsyncHeliograph) -> None:
    await kb.enqueue([NewDocument(TEXT, "a.md"), NewDocument(f"{TEXT} Two.", "b.md")])
    assert await kb.abandon("cancelled by 'me'") == 2
    assert (await kb.resume()).results == ()
    assert {(item.status, item.error) for item in (await kb.documents()).documents} == {("failed", "cancelled by 'me'")}
    assert await kb.abandon("again") == 0
    assert (await kb.retry()).count(Outcome.PROCESSED) == 2


async def test_enqueued_files_are_cited_by_the_source_given(kb: AsyncHeliograph, tmp_path: Path) -> None:
    (tmp_path / "secret place").mkdir()
    path = tmp_path / "secret place" / "a.md"
    path.write_text(TEXT)
    report = await kb.enqueue_files({"a.md": path, "b.md": tmp_path / "missing.md"}, metadata={"team": "red"})
    assert [result.outcome for result in report.results] == [Outcome.PENDING, Outcome.FAILED]
    await kb.resume()
    document = await kb.document(report.results[0].id)
    assert document is not None
    assert (document.source, document.status, document.metadata["team"]) == ("a.md", DocumentStatus.PROCESSED, "red")


async def test_what_is_no_document_is_refused(kb: AsyncHeliograph) -> None:
    with pytest.raises(InvalidRequestError):
        await kb.enqueue([7])  # pyright: ignore[reportArgumentType]


async def test_update_that_another_process_takes_up_is_forgotten_in_time(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("heliograph.ingest.pipeline._MOST_UPDATES", 3)
    accepting, working = make_pipeline(store), make_pipeline(store)
    await working.insert([NewDocument(f"Kiel (place): {number}", f"{number}.md") for number in range(5)])
    ids = [item.id for item in (await store.records.find_documents(DocumentQuery(sort="id"))).documents]
    await accepting.enqueue([NewDocument(f"Kiel (place): new {number}", f"{number}.md") for number in range(5)])
    await working.resume()
    assert len(accepting._pending_updates) == 3
    await accepting.delete(ids[:-1])
    assert set(accepting._pending_updates) <= {ids[-1]}
    accepting.forget_updates()
    assert not accepting._pending_updates
