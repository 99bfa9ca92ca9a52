from __future__ import annotations

import asyncio
import random
from itertools import permutations
from typing import Any

import pytest

from heliograph.errors import IngestError, InvalidRequestError
from heliograph.ids import document_id, name_to_entity_id, names_to_relation_id
from heliograph.ingest.models import NewDocument, Outcome
from heliograph.models import DocumentStatus
from heliograph.settings import IngestSettings
from heliograph.stores.base import DocumentQuery
from heliograph.stores.changeset import Collection
from heliograph.testing.fakes import FakeEmbeddingModel
from tests.memory_store import MemoryStore

from .world import SpelledExtractor, make_pipeline, snapshot

GUIDE = """# Guide

ESP32 (chip): A chip with Wi-Fi.
MQTT (protocol): A protocol of messages.
ESP32 -> MQTT [sends, speaks] 2.0: The ESP32 sends messages over MQTT.

esp32 (device): Costs little.
TLS (protocol): Encrypts.
MQTT -> TLS [security] 1.0: MQTT is carried by TLS."""
STORY = """# Story

Ann (person): A girl.
ESP32 (chip): Ann's board.
Ann -> ESP32 [owns] 1.0: Ann owns an ESP32."""
NOTES = """TLS (protocol): Version 1.3.
TLS -> MQTT [protects] 0.5: TLS protects MQTT."""


def document(text: str, source: str) -> NewDocument:
    return NewDocument(text, source)


DOCUMENTS = [document(GUIDE, "guide.md"), document(STORY, "story.md"), document(NOTES, "notes.txt")]


async def test_document_appears_in_every_projection(store: MemoryStore) -> None:
    report = await make_pipeline(store).insert([document(GUIDE, "docs/guide.md")])
    (result,) = report.results
    assert (result.outcome, result.chunk_count, result.source) == (Outcome.PROCESSED, 3, "docs/guide.md")
    (stored,) = await store.records.get_documents([result.id])
    assert (stored.title, stored.status, stored.chunk_count) == ("Guide", DocumentStatus.PROCESSED, 3)
    assert (stored.track_id, stored.usage.input_tokens) == (report.track_id, 30)
    assert await store.records.get_document_text(result.id) == GUIDE
    (chip,) = await store.graph.get_entities([name_to_entity_id("ESP32")])
    assert (chip.name, chip.aliases, chip.type) == ("ESP32", ("esp32",), "chip")
    assert chip.description == "A chip with Wi-Fi.<SEP>Costs little."
    (relation,) = await store.graph.get_relations([names_to_relation_id("MQTT", "ESP32")])
    assert (relation.source, relation.target, relation.weight) == ("ESP32", "MQTT", 2.0)
    assert relation.keywords == ("sends", "speaks")
    for collection, ids in ((Collection.ENTITIES, [chip.id]), (Collection.RELATIONS, [relation.id])):
        assert set(await store.vectors.get_vectors(collection, ids)) == set(ids)
    assert [hit.id for hit in await store.text.search(Collection.ENTITIES, ["esp32"], 5)] == [chip.id]
    assert len(await store.text.search(Collection.CHUNKS, ["guid"], 5)) == 3


async def test_all_of_a_document_is_embedded_in_one_call(store: MemoryStore, embedding: FakeEmbeddingModel) -> None:
    await make_pipeline(store, embedding=embedding).insert([document(STORY, "story.md")])
    ((kind, texts),) = embedding.calls
    assert kind == "document"
    assert any(text.startswith("Story\nAnn (person)") for text in texts)
    # Two chunks, and each name once, though a relation is between them.
    assert sorted(texts)[:3] == ["# Story", "Ann", "ESP32"]
    assert len(texts) == 2 + 2


async def test_only_what_changes_is_embedded_again(store: MemoryStore, embedding: FakeEmbeddingModel) -> None:
    pipeline = make_pipeline(store, embedding=embedding)
    await pipeline.insert([document(GUIDE, "guide.md")])
    before = await store.graph.get_entities([name_to_entity_id("TLS")])
    embedding.calls.clear()
    await pipeline.insert([document("TLS (protocol): Encrypts.", "again.txt")])
    ((_, texts),) = embedding.calls
    assert texts == ("again\nTLS (protocol): Encrypts.",)
    (after,) = await store.graph.get_entities([name_to_entity_id("TLS")])
    assert after.description == before[0].description
    assert len(after.chunk_ids) == 2


@pytest.mark.parametrize("order", list(permutations(range(3))))
async def test_any_order_of_documents_gives_the_same_graph(order: tuple[int, ...]) -> None:
    sequential, reordered = MemoryStore(), MemoryStore()
    for item in DOCUMENTS:
        await make_pipeline(sequential).insert([item])
    await make_pipeline(reordered).insert([DOCUMENTS[index] for index in order])
    assert await snapshot(reordered) == await snapshot(sequential)


async def test_documents_inserted_at_once_equal_documents_inserted_in_turn(embedding: FakeEmbeddingModel) -> None:
    rng = random.Random(1)
    names = [f"Thing {number}" for number in range(6)]

    def text() -> str:
        ends = rng.sample(names, 2)
        lines = [f"{name} (thing): Fact {rng.randrange(9)} of {name}." for name in rng.sample(names, 4)]
        return "\n".join([*lines, f"{ends[0]} -> {ends[1]} [k{rng.randrange(3)}] 0.7: Because {rng.randrange(5)}."])

    documents = [document(text(), f"{number}.txt") for number in range(25)]
    in_turn, at_once = MemoryStore(), MemoryStore()
    for item in documents:
        await make_pipeline(in_turn).insert([item])
    embedding.delay_seconds = 0.001
    pipeline = make_pipeline(at_once, embedding=embedding)
    await asyncio.gather(pipeline.insert(documents[:10]), pipeline.insert(documents[10:]))
    assert await snapshot(at_once) == await snapshot(in_turn)


async def test_known_document_with_the_same_text_is_left_alone(
    store: MemoryStore, extractor: SpelledExtractor, embedding: FakeEmbeddingModel
) -> None:
    pipeline = make_pipeline(store, extractor, embedding)
    await pipeline.insert(DOCUMENTS)
    version, read, calls = await store.get_data_version(), len(extractor.read), len(embedding.calls)
    report = await pipeline.insert(DOCUMENTS)
    assert report.count(Outcome.UNCHANGED) == 3
    assert (await store.get_data_version(), len(extractor.read), len(embedding.calls)) == (version, read, calls)


@pytest.mark.parametrize(
    ("stated", "kept"), [(None, "zh"), ("en-GB", "en"), ("jpn", "ja"), ("Chinese", "zh"), (7, "zh"), (["en"], "zh")]
)
async def test_language_of_a_text_is_a_code_and_detected_where_none_is_stated(
    store: MemoryStore, stated: object, kept: str
) -> None:
    metadata = None if stated is None else {"language": stated}
    await make_pipeline(store).insert([NewDocument("望江钟由沈万年铸造。", "zh.md", metadata=metadata)])
    (document,) = await store.records.get_documents([document_id("zh.md")])
    assert document.metadata == {"language": kept}


@pytest.mark.parametrize(
    ("stated", "kept"), [(None, {"language": "en"}), ({"n": 1}, {"n": 1, "language": "en"}), ({"language": "ja"},) * 2]
)
async def test_a_new_text_has_its_own_language_unless_somebody_stated_one(
    store: MemoryStore, stated: dict[str, Any] | None, kept: dict[str, Any]
) -> None:
    pipeline = make_pipeline(store)
    await pipeline.insert([NewDocument("望江钟由沈万年铸造。", "a.md", metadata=stated)])
    await pipeline.insert([NewDocument(GUIDE, "a.md")])
    (document,) = await store.records.get_documents([document_id("a.md")])
    assert document.metadata == kept


async def test_new_metadata_alone_is_taken_over_without_reading_again(
    store: MemoryStore, extractor: SpelledExtractor
) -> None:
    pipeline = make_pipeline(store, extractor)
    await pipeline.insert([NewDocument(GUIDE, "guide.md", metadata={"lang": "en"})])
    await pipeline.insert([NewDocument(GUIDE, "guide.md")])
    (stored,) = await store.records.get_documents([document_id("guide.md")])
    assert stored.metadata == {"lang": "en", "language": "en"}
    report = await pipeline.insert([NewDocument(GUIDE, "guide.md", metadata={"lang": "de", "n": 1})])
    (stored,) = await store.records.get_documents([document_id("guide.md")])
    assert (stored.metadata, stored.status) == ({"lang": "de", "n": 1, "language": "en"}, DocumentStatus.PROCESSED)
    assert report.count(Outcome.UNCHANGED) == 1
    assert len(extractor.read) == 3


async def test_bad_documents_are_reported_and_the_rest_goes_in(store: MemoryStore) -> None:
    circular: dict[str, object] = {}
    circular["self"] = circular
    documents = [
        NewDocument("", "empty.txt"),
        NewDocument(" \n\x00 ", "blank.txt"),
        NewDocument("", ""),
        NewDocument("too long " * 100, "long.txt"),
        NewDocument("text", "circular.txt", metadata=circular),
        NewDocument("text", "nan.txt", metadata={"x": float("nan")}),
        NewDocument("text", "object.txt", metadata={"x": object()}),
        NewDocument(7, "number.txt"),  # type: ignore[arg-type]
        NewDocument("text", id="i" * 5000),
        NewDocument("Good (thing): One.", "good.txt"),
    ]
    settings = IngestSettings(max_document_characters=200)
    report = await make_pipeline(store, settings=settings).insert(documents)
    assert [result.outcome for result in report.results] == [Outcome.FAILED] * 9 + [Outcome.PROCESSED]
    assert all(isinstance(result.error, IngestError | InvalidRequestError) for result in report.failures)
    assert "max_document_characters" in str(report.results[3].error)
    assert "metadata" in str(report.results[4].error)
    page = await store.records.find_documents(DocumentQuery((DocumentStatus.FAILED,), sort="source"))
    sources = ["blank.txt", "circular.txt", "empty.txt", "long.txt", "nan.txt", "number.txt", "object.txt"]
    assert [stored.source for stored in page.documents] == sources
    assert "empty" in page.documents[2].error


async def test_bad_text_does_not_hide_the_stored_document(store: MemoryStore) -> None:
    pipeline = make_pipeline(store)
    await pipeline.insert([document(GUIDE, "guide.md")])
    before = await snapshot(store)
    report = await pipeline.insert([document("", "guide.md")])
    assert report.count(Outcome.FAILED) == 1
    assert await snapshot(store) == before


async def test_two_documents_with_one_id_keep_the_first(store: MemoryStore) -> None:
    documents = [
        NewDocument("", id="x"),
        NewDocument("One (thing): 1.", id="x"),
        NewDocument("Two (thing): 2.", id="x"),
        NewDocument("One (thing): 1.", id="x"),
    ]
    report = await make_pipeline(store).insert(documents)
    outcomes = [Outcome.FAILED, Outcome.PROCESSED, Outcome.FAILED, Outcome.UNCHANGED]
    assert [result.outcome for result in report.results] == outcomes
    assert "'x'" in str(report.results[2].error)
    assert await store.records.get_document_text("x") == "One (thing): 1."


async def test_odd_characters_are_cleaned_before_anything_is_stored(store: MemoryStore) -> None:
    text = "A\x00nn\ud800 (person): Lone \udfff half.\r\nBo (person): \ud83d\ude00"
    await make_pipeline(store).insert([NewDocument(text, "odd\ud800.txt", metadata={"k": "\ud800"})])
    page = await store.records.find_documents(DocumentQuery())
    (stored,) = page.documents
    assert (stored.source, stored.metadata) == ("odd\ufffd.txt", {"k": "\ufffd", "language": "en"})
    assert "\r" not in (await store.records.get_document_text(stored.id) or "")
    assert name_to_entity_id("Bo") in {entity.id for entity in await store.graph.list_entities(0, 9)}


async def test_many_empty_documents_are_stored_in_few_commits(store: MemoryStore) -> None:
    report = await make_pipeline(store).insert([document("", f"{number}.txt") for number in range(10_000)])
    assert report.count(Outcome.FAILED) == 10_000
    assert (await store.get_stats()).documents == {DocumentStatus.FAILED: 10_000}
    assert await store.get_data_version() <= 20


async def test_no_document_is_a_run_without_results(store: MemoryStore) -> None:
    assert (await make_pipeline(store).insert([])).results == ()


async def test_documents_without_a_source_are_named_by_their_id(store: MemoryStore) -> None:
    report = await make_pipeline(store).insert(
        [NewDocument("Ann (person): A."), NewDocument("Bo (person): B.", id="b")]
    )
    stored = await store.records.get_documents([result.id for result in report.results])
    assert [item.source for item in stored] == [item.id for item in stored]
    assert stored[1].id == "b"


async def test_extractor_that_skips_a_chunk_fails_its_document_only(store: MemoryStore) -> None:
    class Forgetful(SpelledExtractor):
        async def extract(self, document, chunks, on_chunk=lambda: None):
            found = await super().extract(document, chunks, on_chunk)
            return found[1:] if "Forget" in chunks[0].text else found

    report = await make_pipeline(store, Forgetful()).insert([document("Forget me", "a"), document("Ann (p): x", "b")])
    assert [result.outcome for result in report.results] == [Outcome.FAILED, Outcome.PROCESSED]
    assert "one extraction per chunk" in str(report.results[0].error)


async def test_as_many_documents_are_read_at_once_as_the_settings_say(store: MemoryStore) -> None:
    class Counting(SpelledExtractor):
        under_way = most = 0

        async def extract(self, document, chunks, on_chunk=lambda: None):
            self.under_way += 1
            self.most = max(self.most, self.under_way)
            await asyncio.sleep(0.001)
            self.under_way -= 1
            return await super().extract(document, chunks, on_chunk)

    extractor = Counting()
    pipeline = make_pipeline(store, extractor, settings=IngestSettings(max_parallel_documents=3))
    documents = [document(f"Ann (person): Fact {number}.", f"{number}") for number in range(12)]
    await asyncio.gather(pipeline.insert(documents[:6]), pipeline.insert(documents[6:]))
    assert extractor.most == 3
