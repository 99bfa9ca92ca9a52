"""One text under several sources is stored once; whoever is left of them keeps it."""

from __future__ import annotations

import asyncio
from itertools import permutations

import pytest

from heliograph.ids import document_id
from heliograph.ingest.models import NewDocument, Outcome
from heliograph.models import DocumentStatus
from heliograph.settings import IngestSettings
from heliograph.stores.base import DocumentQuery
from heliograph.stores.changeset import Changeset
from tests.memory_store import MemoryStore

from .world import SpelledExtractor, make_pipeline, snapshot

TEXT = "Ann (person): Knows Bo. Ann - Bo (friends): They met."
OTHER = "Cy (person): Rows. Cy - Ann (rivals): They race."


async def stored(store: MemoryStore, source: str):
    (document,) = await store.records.get_documents([document_id(source)])
    return document


async def fresh(*documents: NewDocument) -> dict[str, object]:
    """What the projections would be had only these been taken in."""
    other = MemoryStore()
    await make_pipeline(other).insert(list(documents))
    return await graph(other)


async def graph(store: MemoryStore) -> dict[str, object]:
    found = await snapshot(store)
    return {name: found[name] for name in ("entities", "relations", "chunks")}


@pytest.mark.parametrize("together", [True, False])
async def test_second_source_of_a_text_holds_no_chunks(store: MemoryStore, together: bool) -> None:
    extractor = SpelledExtractor()
    pipeline = make_pipeline(store, extractor)
    documents = [NewDocument(TEXT, "a.txt"), NewDocument(TEXT, "b.txt")]
    batches = [documents] if together else [[item] for item in documents]
    results = [result for batch in batches for result in (await pipeline.insert(batch)).results]
    assert [result.outcome for result in results] == [Outcome.PROCESSED] * 2
    assert "a.txt" in results[1].detail
    first, twin = sorted([await stored(store, "a.txt"), await stored(store, "b.txt")], key=lambda item: item.id)
    assert (first.twin_of, twin.twin_of) == ("", first.id)
    assert await store.records.get_document_chunks(twin.id) == []
    assert await store.records.get_document_text(twin.id) == TEXT
    assert await graph(store) == await fresh(NewDocument(TEXT, first.source))


async def test_twin_takes_the_place_of_a_deleted_original(store: MemoryStore) -> None:
    extractor = SpelledExtractor()
    pipeline = make_pipeline(store, extractor)
    await pipeline.insert([NewDocument(TEXT, source) for source in ("a.txt", "b.txt", "c.txt")])
    read = len(extractor.read) if hasattr(extractor, "read") else None
    first, *left = sorted(["a.txt", "b.txt", "c.txt"], key=document_id)
    await pipeline.delete([document_id(first)])
    heir, other = [await stored(store, source) for source in left]
    assert (heir.twin_of, other.twin_of) == ("", heir.id)
    assert await store.records.get_document_text(heir.id) == TEXT
    assert await graph(store) == await fresh(NewDocument(TEXT, heir.source))
    assert read is None or len(extractor.read) == read


async def test_twin_takes_the_place_of_a_changed_original(store: MemoryStore) -> None:
    pipeline = make_pipeline(store)
    first, second = sorted(["a.txt", "b.txt"], key=document_id)
    await pipeline.insert([NewDocument(TEXT, "a.txt"), NewDocument(TEXT, "b.txt")])
    await pipeline.insert([NewDocument(OTHER, first)])
    assert (await stored(store, second)).twin_of == ""
    assert await graph(store) == await fresh(NewDocument(OTHER, first), NewDocument(TEXT, second))


async def test_document_that_comes_to_say_the_same_becomes_a_twin(store: MemoryStore) -> None:
    pipeline = make_pipeline(store)
    await pipeline.insert([NewDocument(TEXT, "a.txt"), NewDocument(OTHER, "b.txt")])
    await pipeline.insert([NewDocument(TEXT, "b.txt")])
    first, twin = sorted([await stored(store, "a.txt"), await stored(store, "b.txt")], key=lambda item: item.id)
    assert (first.twin_of, twin.twin_of) == ("", first.id)
    assert await graph(store) == await fresh(NewDocument(TEXT, first.source))
    await pipeline.insert([NewDocument(OTHER, "b.txt")])
    assert (await stored(store, "b.txt")).twin_of == ""
    assert await graph(store) == await fresh(NewDocument(TEXT, "a.txt"), NewDocument(OTHER, "b.txt"))


async def test_all_of_them_can_be_deleted(store: MemoryStore) -> None:
    pipeline = make_pipeline(store)
    await pipeline.insert([NewDocument(TEXT, source) for source in ("a.txt", "b.txt", "c.txt")])
    report = await pipeline.delete([document_id(source) for source in ("a.txt", "b.txt", "c.txt")])
    assert len(report.deleted) == 3
    stats = await store.get_stats()
    assert (stats.chunks, stats.entities, stats.relations, dict(stats.documents)) == (0, 0, 0, {})


async def test_twin_of_a_document_that_fails_is_read_itself(store: MemoryStore) -> None:
    class Picky(SpelledExtractor):
        async def extract(self, document, chunks, on_chunk=lambda: None):
            return [] if document.source == "a.txt" else await super().extract(document, chunks, on_chunk)

    report = await make_pipeline(store, Picky()).insert([NewDocument(TEXT, "a.txt"), NewDocument(TEXT, "b.txt")])
    assert [result.outcome for result in report.results] == [Outcome.FAILED, Outcome.PROCESSED]
    assert (await stored(store, "b.txt")).twin_of == ""
    assert await graph(store) == await fresh(NewDocument(TEXT, "b.txt"))


async def test_duplicates_are_reported_when_asked_for(store: MemoryStore) -> None:
    pipeline = make_pipeline(store, settings=IngestSettings(duplicates="report"))
    report = await pipeline.insert([NewDocument(TEXT, "a.txt"), NewDocument(TEXT, "b.txt")])
    assert [result.outcome for result in report.results] == [Outcome.PROCESSED, Outcome.DUPLICATE]
    assert "a.txt" in report.results[1].detail
    assert await store.records.get_documents([document_id("b.txt")]) == []


@pytest.mark.parametrize("together", [True, False])
async def test_text_that_its_document_has_let_go_is_no_duplicate(store: MemoryStore, together: bool) -> None:
    pipeline = make_pipeline(store, settings=IngestSettings(duplicates="report"))
    await pipeline.insert([NewDocument(TEXT, "a.txt")])
    documents = [NewDocument(OTHER, "a.txt"), NewDocument(TEXT, "b.txt"), NewDocument(TEXT, "c.txt")]
    batches = [documents] if together else [[item] for item in documents]
    results = [result for batch in batches for result in (await pipeline.enqueue(batch)).results]
    assert [result.outcome for result in results] == [Outcome.PENDING, Outcome.PENDING, Outcome.DUPLICATE]
    assert "b.txt" in results[2].detail
    await pipeline.resume()
    assert await graph(store) == await fresh(*documents[:2])


async def test_duplicates_are_stored_again_when_asked_for(store: MemoryStore) -> None:
    pipeline = make_pipeline(store, settings=IngestSettings(duplicates="separate"))
    await pipeline.insert([NewDocument(TEXT, "a.txt"), NewDocument(TEXT, "b.txt")])
    assert (await store.get_stats()).chunks == 2 * len(await store.records.get_document_chunks(document_id("a.txt")))


@pytest.mark.parametrize("order", list(permutations(("a.txt", "b.txt", "c.txt", "d.txt")))[::5])
async def test_twins_of_one_call_are_all_finished(store: MemoryStore, order: tuple[str, ...]) -> None:
    await make_pipeline(store).insert([NewDocument(TEXT, source) for source in order])
    found = [await stored(store, source) for source in sorted(order, key=document_id)]
    assert {item.status for item in found} == {DocumentStatus.PROCESSED}
    assert [item.twin_of for item in found] == ["", *[found[0].id] * 3]


async def test_twins_of_several_calls_at_once_are_stored_once(store: MemoryStore) -> None:
    pipeline = make_pipeline(store)
    sources = ("a.txt", "b.txt", "c.txt", "d.txt")
    await asyncio.gather(*(pipeline.insert([NewDocument(TEXT, source)]) for source in sources))
    found = [await stored(store, source) for source in sorted(sources, key=document_id)]
    assert [item.twin_of for item in found] == ["", *[found[0].id] * 3]
    assert await graph(store) == await fresh(NewDocument(TEXT, found[0].source))


async def test_waiting_twin_is_no_heir_of_an_original_that_goes(store: MemoryStore) -> None:
    extractor = SpelledExtractor()
    pipeline = make_pipeline(store, extractor)
    first, second, third = sorted(["a.txt", "b.txt", "c.txt"], key=document_id)
    await pipeline.insert([NewDocument(TEXT, first)])
    extractor.gate = asyncio.Event()
    # The reading of another document of the call keeps the twins waiting.
    batch = [NewDocument(OTHER, "x.txt"), NewDocument(TEXT, second), NewDocument(TEXT, third)]
    under_way = asyncio.ensure_future(pipeline.insert(batch))
    while not await store.records.get_documents([document_id(third)]):  # noqa: ASYNC110 (no event tells)
        await asyncio.sleep(0)
    await pipeline.delete([document_id(first)])
    extractor.gate.set()
    report = await under_way
    assert not report.failures
    assert ((await stored(store, second)).twin_of, (await stored(store, third)).twin_of) == ("", document_id(second))
    assert await graph(store) == await fresh(NewDocument(OTHER, "x.txt"), NewDocument(TEXT, second))


async def test_original_and_twin_change_in_one_call(store: MemoryStore) -> None:
    pipeline = make_pipeline(store)
    sources = sorted(["a.txt", "b.txt", "c.txt"], key=document_id)
    for order in (sources, sources[::-1]):
        await pipeline.insert([NewDocument(TEXT, source) for source in sources])
        report = await pipeline.insert([NewDocument(f"{OTHER} {source}.", source) for source in order[:2]])
        assert not report.failures
        left = [NewDocument(f"{OTHER} {source}.", source) for source in order[:2]]
        assert await graph(store) == await fresh(*left, NewDocument(TEXT, order[2]))


@pytest.mark.parametrize("change", ["delete", "update", "come"])
async def test_chunks_move_in_the_commit_that_moves_them(store: MemoryStore, change: str) -> None:
    pipeline = make_pipeline(store)
    first, second, third = sorted(["a.txt", "b.txt", "c.txt"], key=document_id)
    await pipeline.insert([NewDocument(TEXT, second), NewDocument(TEXT, third)])
    apply, seen = store.apply, []

    async def watched(changeset: Changeset) -> int:
        version = await apply(changeset)
        page = await store.records.find_documents(DocumentQuery(sort="id"))
        done = [item for item in page.documents if item.status is DocumentStatus.PROCESSED]
        same = [item for item in done if item.content_hash == page.documents[-1].content_hash]
        holders = [item.id for item in same if not item.twin_of]
        seen.append(holders == [min(item.id for item in same)] and {item.twin_of for item in same} <= {"", *holders})
        return version

    store.apply = watched
    match change:
        case "delete":
            await pipeline.delete([document_id(second)])
        case "update":
            await pipeline.insert([NewDocument(OTHER, second)])
        case _:
            await pipeline.insert([NewDocument(TEXT, first)])
    assert seen
    assert all(seen)
