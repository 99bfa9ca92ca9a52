"""Documents that are handed over anew while they are being worked on: at once, and never stored half as before."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from heliograph import AsyncHeliograph, DocumentQuery
from heliograph.errors import CancelledIngestError, ConflictError, IngestError
from heliograph.ids import document_id
from heliograph.ingest.given import GivenChunk, GivenGraph, insert_graph
from heliograph.ingest.models import DocumentResult, NewDocument, Outcome
from heliograph.ingest.pipeline import IngestPipeline
from heliograph.models import Document, DocumentStatus
from heliograph.stores.changeset import Changeset
from heliograph.testing.fakes import FakeEmbeddingModel
from tests.memory_store import MemoryStore

from .world import SpelledExtractor, make_pipeline, snapshot

FIRST, SECOND = "Ann (person): First.", "Bo (person): Second."
PARTIAL = "Ann (person): x.\n\nBo (person): y."


@dataclass
class Gate:
    """Stops the first commit of chunks: `reached` tells that it stands there, `open` lets it go."""

    reached: asyncio.Event
    open: asyncio.Event


def gated(store: MemoryStore) -> Gate:
    gate, apply, waiting = Gate(asyncio.Event(), asyncio.Event()), store.apply, [True]

    async def applied(changeset: Changeset) -> int:
        if waiting and (changeset.chunks or changeset.extractions):
            waiting.clear()
            gate.reached.set()
            await gate.open.wait()
        return await apply(changeset)

    store.apply = applied
    return gate


async def reading(extractor: SpelledExtractor, work: Awaitable[Any]) -> asyncio.Task[Any]:
    """Begin work, and return when a document is being read, which goes on once `extractor.gate` is set."""
    begun, extract, extractor.gate = asyncio.Event(), extractor.extract, asyncio.Event()

    async def told(*arguments: Any) -> Any:
        begun.set()
        return await extract(*arguments)

    extractor.extract = told
    task = asyncio.ensure_future(work)
    await begun.wait()
    extractor.extract = extract
    return task


async def document(store: MemoryStore, source: str = "a") -> Document:
    (found,) = await store.records.get_documents([document_id(source)])
    return found


async def fresh(*documents: NewDocument) -> dict[str, Any]:
    store = MemoryStore()
    await make_pipeline(store).insert(documents)
    return await snapshot(store)


def only(result: Any) -> DocumentResult:
    (found,) = result.results
    return found


ANEW = [
    NewDocument(SECOND, "a"),
    NewDocument(FIRST, "a", metadata={"team": "blue"}),
    NewDocument(FIRST, "a", title="Other"),
    NewDocument(f"{FIRST}\n\n{SECOND}", "a"),
]


@pytest.mark.parametrize("anew", ANEW, ids=["text", "metadata", "title", "more text"])
@pytest.mark.parametrize("other_process", [False, True])
@pytest.mark.parametrize("known", [None, f"{SECOND}\n\nCleo (person): Earlier."])
async def test_document_that_is_read_is_replaced_without_waiting_for_it(
    store: MemoryStore, extractor: SpelledExtractor, anew: NewDocument, other_process: bool, known: str | None
) -> None:
    pipeline = make_pipeline(store, extractor)
    if known:
        await pipeline.insert([NewDocument(known, "a")])
    run = await reading(extractor, pipeline.insert([NewDocument(FIRST, "a")], track_id="one"))
    giver = make_pipeline(store) if other_process else pipeline
    assert only(await giver.enqueue([anew], track_id="two")).outcome is Outcome.PENDING
    assert not run.done()
    extractor.gate.set()
    result = only(await run)
    assert (result.outcome, result.detail) == (Outcome.PENDING, "a later version has taken its place")
    waiting = await document(store)
    assert (waiting.status, waiting.track_id) == (DocumentStatus.PENDING, "two")
    assert only(await pipeline.resume()).outcome is Outcome.PROCESSED
    assert await snapshot(store) == await fresh(anew)
    assert (await document(store)).metadata == (anew.metadata or {}) | {"language": "en"}


@pytest.mark.parametrize("anew", ANEW, ids=["text", "metadata", "title", "more text"])
@pytest.mark.parametrize("other_process", [False, True])
async def test_document_that_is_being_committed_is_replaced(
    store: MemoryStore, anew: NewDocument, other_process: bool
) -> None:
    pipeline = make_pipeline(store)
    await pipeline.enqueue([NewDocument(FIRST, "a")], track_id="one")
    gate = gated(store)
    run = asyncio.create_task(pipeline.resume())
    await gate.reached.wait()
    told = only(await (make_pipeline(store) if other_process else pipeline).enqueue([anew], track_id="two"))
    assert told.outcome is Outcome.PENDING
    gate.open.set()
    assert only(await run).outcome is Outcome.PENDING
    await pipeline.resume()
    assert await snapshot(store) == await fresh(anew)
    await pipeline.delete([document_id("a")])
    assert await snapshot(store) == await fresh()


async def test_what_was_committed_while_a_document_was_handed_over_is_seen(store: MemoryStore) -> None:
    # The row that is written says how many chunks there are; were it of before, they would stay for ever.
    pipeline, apply = make_pipeline(store), store.apply
    await pipeline.enqueue([NewDocument(FIRST, "a")])
    between = [True]

    async def applied(changeset: Changeset) -> int:
        if between and changeset.document_texts:
            between.clear()
            await make_pipeline(store).resume()
        return await apply(changeset)

    store.apply = applied
    assert only(await pipeline.enqueue([NewDocument(SECOND, "a")])).outcome is Outcome.PENDING
    assert (await document(store)).chunk_count == 1
    await pipeline.resume()
    assert await snapshot(store) == await fresh(NewDocument(SECOND, "a"))


async def test_two_processes_hand_over_one_new_document(store: MemoryStore) -> None:
    apply, between = store.apply, [True]

    async def applied(changeset: Changeset) -> int:
        if between:
            between.clear()
            await make_pipeline(store).insert([NewDocument(FIRST, "a", metadata={"n": 1})])
        return await apply(changeset)

    store.apply = applied
    assert only(await make_pipeline(store).insert([NewDocument(SECOND, "a")])).outcome is Outcome.PROCESSED
    assert await snapshot(store) == await fresh(NewDocument(SECOND, "a"))
    assert (await document(store)).metadata == {"n": 1, "language": "en"}


async def test_graph_that_comes_while_a_document_of_its_name_is_stored_takes_its_place(store: MemoryStore) -> None:
    pipeline, apply = make_pipeline(store), store.apply
    reached, opened = asyncio.Event(), asyncio.Event()

    async def applied(changeset: Changeset) -> int:
        reached.set()
        await opened.wait()
        return await apply(changeset)

    store.apply = applied
    first = asyncio.create_task(pipeline.enqueue([NewDocument(FIRST, "a")]))
    await reached.wait()
    graph = GivenGraph((GivenChunk(SECOND),), source="a")
    whole = asyncio.create_task(insert_graph(pipeline, graph))
    for _ in range(50):
        await asyncio.sleep(0)
    opened.set()
    assert (only(await first).outcome, (await whole).outcome) == (Outcome.PENDING, Outcome.PROCESSED)
    assert await store.records.get_document_text(document_id("a")) == SECOND


async def test_one_that_waits_just_as_it_is_handed_over_stays(store: MemoryStore, extractor: SpelledExtractor) -> None:
    pipeline, new = make_pipeline(store, extractor), NewDocument(FIRST, "a", metadata={"team": "red"})
    run = await reading(extractor, pipeline.insert([new], track_id="one"))
    told = only(await pipeline.enqueue([new], track_id="two"))
    assert (told.outcome, told.is_known) == (Outcome.PENDING, True)
    again = asyncio.create_task(pipeline.insert([new], track_id="three"))
    extractor.gate.set()
    assert only(await run).outcome is Outcome.PROCESSED
    assert only(await again).outcome is Outcome.UNCHANGED
    assert ((await document(store)).track_id, len(extractor.read)) == ("one", 1)
    # After a crash it is read by who hands it over again.
    await pipeline.enqueue([NewDocument(SECOND, "b")], track_id="one")
    assert only(await make_pipeline(store).insert([NewDocument(SECOND, "b")])).outcome is Outcome.PROCESSED


async def test_insert_stores_at_once_and_processes_when_its_turn_has_come(
    store: MemoryStore, extractor: SpelledExtractor
) -> None:
    pipeline = make_pipeline(store, extractor)
    run = await reading(extractor, pipeline.insert([NewDocument(FIRST, "a")]))
    later = asyncio.create_task(pipeline.insert([NewDocument(SECOND, "a")], track_id="two"))
    while (await document(store)).track_id != "two":  # noqa: ASYNC110 (the store tells nobody)
        await asyncio.sleep(0)
    assert await store.records.get_document_text(document_id("a")) == SECOND
    extractor.gate.set()
    assert only(await run).outcome is Outcome.PENDING
    assert only(await later).outcome is Outcome.PROCESSED
    assert await snapshot(store) == await fresh(NewDocument(SECOND, "a"))


async def test_failure_is_not_recorded_over_what_was_handed_over_anew(
    store: MemoryStore, extractor: SpelledExtractor
) -> None:
    pipeline = make_pipeline(store, extractor)
    extractor.failures["First"] = IngestError("bad")
    run = await reading(extractor, pipeline.insert([NewDocument(FIRST, "a")]))
    await pipeline.enqueue([NewDocument(FIRST, "a", metadata={"team": "blue"})], track_id="two")
    extractor.gate.set()
    assert only(await run).outcome is Outcome.PENDING
    stored = await document(store)
    assert (stored.status, stored.metadata, stored.error) == (
        DocumentStatus.PENDING,
        {"team": "blue", "language": "en"},
        "",
    )


@pytest.mark.parametrize("is_text_kept", [True, False])
async def test_partial_document_is_handed_over_while_it_is_retried(
    store: MemoryStore, extractor: SpelledExtractor, is_text_kept: bool
) -> None:
    pipeline = make_pipeline(store, extractor)
    extractor.unreadable = {"Bo"}
    await pipeline.insert([NewDocument(PARTIAL, "a")])
    extractor.unreadable.clear()
    run = await reading(extractor, pipeline.retry())
    anew = NewDocument(PARTIAL if is_text_kept else SECOND, "a", metadata={"team": "blue"})
    told = only(await pipeline.enqueue([anew]))
    assert told.outcome is (Outcome.UNCHANGED if is_text_kept else Outcome.PENDING)
    extractor.gate.set()
    assert only(await run).outcome is (Outcome.PROCESSED if is_text_kept else Outcome.PENDING)
    await pipeline.resume()
    assert await snapshot(store) == await fresh(anew)
    assert (await document(store)).metadata == {"team": "blue", "language": "en"}


async def test_what_is_handed_over_anew_is_not_given_up(store: MemoryStore) -> None:
    pipeline, apply = make_pipeline(store), store.apply
    await pipeline.enqueue([NewDocument(FIRST, "a"), NewDocument(SECOND, "b")])
    anew = [NewDocument(SECOND, "b", metadata={"n": 1})]

    async def applied(changeset: Changeset) -> int:
        if anew:
            await make_pipeline(store).enqueue([anew.pop()])
        return await apply(changeset)

    store.apply = applied
    assert await pipeline.abandon("enough") == 1
    assert [(await document(store, source)).status for source in "ab"] == [
        DocumentStatus.FAILED,
        DocumentStatus.PENDING,
    ]


async def test_document_under_way_is_handed_over_cancelled_and_given_up(
    store: MemoryStore, extractor: SpelledExtractor
) -> None:
    pipeline = make_pipeline(store, extractor)
    run = await reading(extractor, pipeline.insert([NewDocument(FIRST, "a")]))
    await pipeline.enqueue([NewDocument(SECOND, "a")])
    pipeline.cancel()
    with pytest.raises(CancelledIngestError):
        await run
    assert await pipeline.abandon("enough") == 1
    extractor.gate.set()
    assert only(await pipeline.retry()).outcome is Outcome.PROCESSED
    assert await snapshot(store) == await fresh(NewDocument(SECOND, "a"))


async def test_deletion_that_waits_for_a_reading_leaves_what_was_handed_over_meanwhile(
    store: MemoryStore, extractor: SpelledExtractor
) -> None:
    pipeline = make_pipeline(store, extractor)
    run = await reading(extractor, pipeline.insert([NewDocument(FIRST, "a"), NewDocument(FIRST, "b")]))
    deletion = asyncio.ensure_future(pipeline.delete([document_id("a"), document_id("b")]))
    for _ in range(10):
        await asyncio.sleep(0)
    await pipeline.enqueue([NewDocument(SECOND, "a")])
    extractor.gate.set()
    await run
    report = await deletion
    assert (report.deleted, report.missing, report.replaced) == ((document_id("b"),), (), (document_id("a"),))
    await pipeline.resume()
    assert await snapshot(store) == await fresh(NewDocument(SECOND, "a"))


async def test_deletion_takes_only_the_texts_that_it_was_asked_to_take(store: MemoryStore) -> None:
    pipeline = make_pipeline(store)
    await pipeline.insert([NewDocument(FIRST, "a"), NewDocument(SECOND, "b")])
    hashes = {document_id("a"): (await document(store)).content_hash}
    await pipeline.insert([NewDocument(PARTIAL, "a")])
    report = await pipeline.delete([document_id("a"), document_id("b")], hashes)
    assert (report.deleted, report.replaced) == ((document_id("b"),), (document_id("a"),))
    assert await snapshot(store) == await fresh(NewDocument(PARTIAL, "a"))


def _named(text: str, id_: str) -> NewDocument:
    # The one whose id sorts first holds the chunks of a text.
    return NewDocument(text, f"{id_}.md", id=id_)


async def _hand_over_holder(pipeline: IngestPipeline) -> None:
    await pipeline.enqueue([_named(SECOND, "b")])


async def _delete_holder(pipeline: IngestPipeline) -> None:
    await pipeline.delete(["b"])


@pytest.mark.parametrize("change", [_hand_over_holder, _delete_holder])
@pytest.mark.parametrize("joins", ["a", "c", "d"])
async def test_twin_joins_while_another_process_lets_the_original_go(
    store: MemoryStore, change: Callable[[IngestPipeline], Awaitable[None]], joins: str
) -> None:
    """The twins of an original are read, then one more is committed, then the original is let go."""
    await make_pipeline(store).insert([_named(FIRST, "b"), _named(FIRST, "e")])
    await make_pipeline(store).enqueue([_named(FIRST, joins)])
    apply, between, other = store.apply, [True], make_pipeline(store)

    async def applied(changeset: Changeset) -> int:
        if between and changeset.removed_chunks:
            between.clear()
            assert only(await other.resume()).outcome is Outcome.PROCESSED
        return await apply(changeset)

    store.apply = applied
    try:
        await change(make_pipeline(store))
    except Exception:
        await change(make_pipeline(store))
    await make_pipeline(store).resume()
    left = [_named(FIRST, "e"), _named(FIRST, joins)]
    if change is _hand_over_holder:
        left.append(_named(SECOND, "b"))
    assert await snapshot(store) == await fresh(*left)
    expected = MemoryStore()
    await make_pipeline(expected).insert(left)
    assert await _twins(store) == await _twins(expected)


@pytest.mark.parametrize("joins", ["a", "c"])
async def test_twin_joins_an_original_that_another_process_changes_meanwhile(store: MemoryStore, joins: str) -> None:
    await make_pipeline(store).insert([_named(FIRST, "b"), _named(FIRST, "e")])
    pipeline, apply, anew = make_pipeline(store), store.apply, [{"n": 1}, {"n": 2}]
    await pipeline.enqueue([_named(FIRST, joins)])

    async def applied(changeset: Changeset) -> int:
        if anew and len(changeset.documents) > 1:
            changed = replace(_named(FIRST, "b"), metadata=anew.pop(0))
            assert only(await make_pipeline(store).enqueue([changed])).outcome is Outcome.UNCHANGED
        return await apply(changeset)

    store.apply = applied
    assert only(await pipeline.resume()).outcome is Outcome.PROCESSED
    assert not anew
    assert await snapshot(store) == await fresh(*(_named(FIRST, id_) for id_ in ("b", "e", joins)))
    (original,) = await store.records.get_documents(["b"])
    assert original.metadata == {"n": 2, "language": "en"}


async def test_metadata_that_another_process_changes_while_an_original_lets_go_are_kept(store: MemoryStore) -> None:
    # What is handed over behind the original keeps its metadata, but for the language, which its new text brings.
    behind = NewDocument("Die Brücke ist alt und steht über dem Fluss.", "x.md", id="x")
    await make_pipeline(store).insert([_named(FIRST, "b"), _named(FIRST, "e"), _named("The bridge is old.", "x")])
    apply, between, other = store.apply, [True], make_pipeline(store)

    async def applied(changeset: Changeset) -> int:
        if between:
            between.clear()
            await other.enqueue([NewDocument("The bridge is old.", "x.md", id="x", metadata={"n": 2})])
        return await apply(changeset)

    store.apply = applied
    await make_pipeline(store).insert([_named(SECOND, "b"), behind])
    (found,) = await store.records.get_documents(["x"])
    assert found.metadata == {"n": 2, "language": "de"}
    assert await snapshot(store) == await fresh(_named(FIRST, "e"), _named(SECOND, "b"), behind)


async def _twins(store: MemoryStore) -> dict[str, str]:
    found = (await store.records.find_documents(DocumentQuery())).documents
    return {item.id: item.twin_of for item in found}


# What many do at once, at random: in the end the store holds what a fresh one would of the last versions.


async def _everything(kb: AsyncHeliograph) -> dict[str, Any]:
    found = await snapshot(kb.store)
    documents = (await kb.documents(DocumentQuery(sort="id", limit=1_000))).documents
    return found | {"metadata": [(item.id, item.metadata, item.error, item.twin_of) for item in documents]}


async def hand_over_at_random(engines: list[AsyncHeliograph], seed: int, fresh: AsyncHeliograph) -> None:
    """Hand over, process, delete and retry from several engines at once; compare with `fresh` at the end."""
    chance, last = random.Random(seed), dict[str, NewDocument]()

    def some(number: int) -> NewDocument:
        source = f"{chance.randrange(5)}.md"
        if chance.random() < 0.3 and source in last:
            return NewDocument(last[source].text, source, metadata={"n": number})
        # Few texts, so that some are the same.
        names = chance.sample("ABCD", chance.randrange(1, 4))
        text = "\n\n".join(f"Person {name} (person): Text {chance.randrange(2)}." for name in names)
        return NewDocument(text, source, metadata={"n": number})

    async def delete(kb: AsyncHeliograph, source: str) -> None:
        while True:
            with suppress(ConflictError):  # Another engine committed it just now.
                await kb.delete([document_id(source)])
                return

    async def give(worker: int) -> None:
        kb = engines[worker % len(engines)]
        for number in range(10):
            new = some(100 * worker + number)
            # Who was told last has it: one source at a time, as two at once may come in either order.
            async with locks.setdefault(new.source, asyncio.Lock()):
                if chance.random() < 0.1 and new.source in last:
                    await kb.enqueue(new)
                    await delete(kb, new.source)
                    del last[new.source]
                else:
                    assert not (await kb.enqueue(new)).failures
                    last[new.source] = new

    async def process(kb: AsyncHeliograph) -> None:
        while not done.is_set():
            await kb.resume()
            await asyncio.sleep(0)

    locks, done = dict[str, asyncio.Lock](), asyncio.Event()
    workers = [asyncio.create_task(process(engines[-1]))]
    try:
        await asyncio.gather(*map(give, range(3)))
    finally:
        done.set()
        await asyncio.gather(*workers)
    while (await engines[0].resume()).results:
        pass
    await fresh.insert(list(last.values()))
    for kb in engines:
        assert (await kb.check()).problems == ()
        assert await _everything(kb) == await _everything(fresh)


@pytest.mark.parametrize("seed", range(6))
async def test_last_versions_are_what_is_stored(tmp_path: Path, seed: int) -> None:
    def engine(name: str) -> AsyncHeliograph:
        return AsyncHeliograph(tmp_path / name, embedding=FakeEmbeddingModel(16), extractor=SpelledExtractor())

    async with engine("kb") as kb, engine("fresh") as fresh:
        await hand_over_at_random([kb], seed, fresh)
