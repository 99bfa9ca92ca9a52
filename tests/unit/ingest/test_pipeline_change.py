"""Updates and deletions: what is left is what would be there had the rest never come."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from heliograph.chat.base import CachedChatModel
from heliograph.ids import document_id, name_to_entity_id, names_to_relation_id
from heliograph.ingest.models import NewDocument, Outcome
from heliograph.models import DocumentStatus
from heliograph.settings import IngestSettings
from heliograph.testing.fakes import FakeChatModel, FakeEmbeddingModel
from heliograph.text.tokens import count_tokens
from tests.memory_store import MemoryStore

from .world import SpelledExtractor, make_pipeline, snapshot

PARAGRAPHS = (
    "Ann (person): Lives in Bonn.\nBonn (place): A town.\nAnn -> Bonn [lives] 1.0: Ann lives in Bonn.",
    "Ann (person): Has a dog.\nRex (dog): A dog.\nAnn -> Rex [owns] 0.3: Rex is Ann's.",
    "ann (girl): Likes Rex.\nrex -> ANN [likes, trusts] 2.0: Rex trusts her.",
    "Bonn (city): On the Rhine.",
    "Nothing is said here.",
)


async def state_of(*documents: NewDocument) -> dict[str, object]:
    store = MemoryStore()
    for document in documents:
        await make_pipeline(store).insert([document])
    return await snapshot(store)


TEXTS = st.lists(st.sampled_from(PARAGRAPHS), min_size=1, max_size=4).map("\n\n".join)
STEPS = st.lists(st.tuples(st.sampled_from("abc"), st.none() | TEXTS), max_size=6)


@settings(deadline=None, max_examples=40)
@given(STEPS)
async def test_any_inserts_updates_and_deletes_equal_inserting_what_is_left(
    steps: list[tuple[str, str | None]],
) -> None:
    store, left = MemoryStore(), dict[str, str]()
    pipeline = make_pipeline(store)
    for source, text in steps:
        if text is None:
            left.pop(source, None)
            await pipeline.delete([document_id(source)])
        else:
            left[source] = text
            report = await pipeline.insert([NewDocument(text, source)])
            assert not report.failures
    assert await snapshot(store) == await state_of(*(NewDocument(text, source) for source, text in left.items()))


async def test_update_reads_and_embeds_only_what_is_new(
    store: MemoryStore, extractor: SpelledExtractor, embedding: FakeEmbeddingModel
) -> None:
    pipeline = make_pipeline(store, extractor, embedding)
    await pipeline.insert([NewDocument("\n\n".join(PARAGRAPHS[:3]), "a.txt")])
    extractor.read.clear()
    embedding.calls.clear()
    # The first paragraph goes, the others move up, one comes.
    text = "\n\n".join((*PARAGRAPHS[1:3], PARAGRAPHS[4]))
    report = await pipeline.insert([NewDocument(text, "a.txt")])
    assert report.count(Outcome.PROCESSED) == 1
    assert extractor.read == [PARAGRAPHS[4]]
    embedded = [passage for _, texts in embedding.calls for passage in texts]
    assert f"a\n{PARAGRAPHS[4]}" in embedded
    assert not any(PARAGRAPHS[1] in passage for passage in embedded)
    assert await snapshot(store) == await state_of(NewDocument(text, "a.txt"))


async def test_update_under_a_new_title_reads_all_again(store: MemoryStore, extractor: SpelledExtractor) -> None:
    pipeline = make_pipeline(store, extractor)
    await pipeline.insert([NewDocument("\n\n".join(PARAGRAPHS), "a.txt")])
    extractor.read.clear()
    renamed = NewDocument("\n\n".join(PARAGRAPHS), "a.txt", title="Ann")
    await pipeline.insert([renamed])
    assert len(extractor.read) == len(PARAGRAPHS)
    assert await snapshot(store) == await state_of(renamed)


async def test_update_under_another_heading_reads_what_stands_there_again(
    store: MemoryStore, extractor: SpelledExtractor
) -> None:
    pipeline = make_pipeline(store, extractor)
    await pipeline.insert([NewDocument(f"# One\n\n{PARAGRAPHS[0]}\n\n# Two\n\n{PARAGRAPHS[1]}", "a.md", "A")])
    extractor.read.clear()
    changed = NewDocument(f"# One\n\n{PARAGRAPHS[0]}\n\n# Three\n\n{PARAGRAPHS[1]}", "a.md", "A")
    await pipeline.insert([changed])
    assert extractor.read == ["# Three", PARAGRAPHS[1]]
    assert await snapshot(store) == await state_of(changed)


async def test_delete_leaves_no_trace_and_reports_what_went(store: MemoryStore) -> None:
    pipeline = make_pipeline(store)
    kept = NewDocument(PARAGRAPHS[0], "kept.txt")
    await pipeline.insert([kept, NewDocument("\n\n".join(PARAGRAPHS[1:3]), "gone.txt")])
    report = await pipeline.delete([document_id("gone.txt"), "doc-unknown", document_id("gone.txt")])
    assert (report.deleted, report.missing) == ((document_id("gone.txt"),), ("doc-unknown",))
    assert (report.removed_chunks, report.removed_entities, report.removed_relations) == (2, 1, 1)
    assert await snapshot(store) == await state_of(kept)


async def test_delete_of_everything_empties_the_store(store: MemoryStore) -> None:
    pipeline = make_pipeline(store)
    report = await pipeline.insert([NewDocument(text, f"{index}") for index, text in enumerate(PARAGRAPHS)])
    await pipeline.delete([result.id for result in report.results])
    assert await snapshot(store) == await snapshot(MemoryStore())
    assert await pipeline.delete([]) == await pipeline.delete([])


async def test_delete_of_a_waiting_or_failed_document_removes_it(
    store: MemoryStore, extractor: SpelledExtractor
) -> None:
    report = await make_pipeline(store).insert([NewDocument("", "empty.txt")])
    await make_pipeline(store).delete([report.results[0].id])
    assert (await store.get_stats()).documents == {}


async def test_description_of_many_fragments_is_summarised_and_kept_while_they_last(store: MemoryStore) -> None:
    chat = FakeChatModel("Ann in short.")
    settings_ = IngestSettings(summary_fragments=3)
    pipeline = make_pipeline(store, chat=chat, settings=settings_)
    texts = [f"Ann (person): Fact {number}." for number in range(3)]
    report = await pipeline.insert([NewDocument(text, f"{number}") for number, text in enumerate(texts)])
    (ann,) = await store.graph.get_entities([name_to_entity_id("Ann")])
    assert ann.description == "Ann in short."
    assert report.usage.output_tokens > 3 * 2
    asked = len(chat.requests)
    await pipeline.insert([NewDocument("Ann (person): Fact 1.", "again")])
    assert len(chat.requests) == asked
    (ann,) = await store.graph.get_entities([name_to_entity_id("Ann")])
    assert ann.description == "Ann in short."


async def test_delete_calls_no_chat_model(store: MemoryStore) -> None:
    chat = FakeChatModel("Ann in short.")
    pipeline = make_pipeline(store, chat=chat, settings=IngestSettings(summary_fragments=3))
    documents = [NewDocument(f"Ann (person): Fact {number}.", f"{number}") for number in range(4)]
    report = await pipeline.insert(documents)
    asked = len(chat.requests)
    await pipeline.delete([report.results[0].id])
    (ann,) = await store.graph.get_entities([name_to_entity_id("Ann")])
    assert sorted(ann.description.split("<SEP>")) == ["Fact 1.", "Fact 2.", "Fact 3."]
    assert len(chat.requests) == asked


async def test_delete_leaves_descriptions_no_longer_than_summaries_and_the_next_mention_has_them_written_again(
    store: MemoryStore,
) -> None:
    chat = FakeChatModel("Ann in short.")
    pipeline = make_pipeline(store, chat=chat, settings=IngestSettings(summary_fragments=3))
    said = "She keeps the light on the head, mends the nets of the harbour and writes down the weather of every day."
    texts = [f"Ann (person): Fact {n}. {said}\nBo (person): Bo.\nAnn -> Bo [k] 1.0: {n}: {said}" for n in range(20)]
    report = await pipeline.insert([NewDocument(text, f"{number}") for number, text in enumerate(texts)])
    await pipeline.delete([report.results[0].id])
    (ann,) = await store.graph.get_entities([name_to_entity_id("Ann")])
    (both,) = await store.graph.get_relations([names_to_relation_id("Ann", "Bo")])
    for item in (ann, both):
        assert said in item.description
        assert count_tokens(item.description) <= 100
    await pipeline.insert([NewDocument("Ann (person): \nAnn -> Bo [k] 1.0: \nBo (person): Bo.", "silent")])
    (ann,) = await store.graph.get_entities([name_to_entity_id("Ann")])
    (both,) = await store.graph.get_relations([names_to_relation_id("Ann", "Bo")])
    assert ann.description == both.description == "Ann in short."


async def test_stand_in_is_as_long_as_what_it_replaces(store: MemoryStore) -> None:
    chat = FakeChatModel("Ann keeps the light. " * 60)
    pipeline = make_pipeline(store, chat=chat, settings=IngestSettings(summary_fragments=3))
    documents = [NewDocument(f"Ann (person): Fact {n}. {'It is long. ' * 30}", f"{n}") for n in range(20)]
    report = await pipeline.insert(documents)
    (before,) = await store.graph.get_entities([name_to_entity_id("Ann")])
    await pipeline.delete([report.results[0].id])
    (after,) = await store.graph.get_entities([name_to_entity_id("Ann")])
    assert 100 < count_tokens(after.description) <= count_tokens(before.description)


async def test_delete_brings_back_the_description_from_before_and_forgets_what_was_said_since(
    store: MemoryStore,
) -> None:
    chat = FakeChatModel([f"Ann, version {number}." for number in range(9)])
    pipeline = make_pipeline(
        store, chat=CachedChatModel(chat, store.replies), settings=IngestSettings(summary_fragments=3)
    )
    await pipeline.insert([NewDocument(f"Ann (person): Fact {number}.", f"{number}") for number in range(3)])
    (before,) = await store.graph.get_entities([name_to_entity_id("Ann")])
    report = await pipeline.insert([NewDocument("Ann (person): Fact 3.", "3")])
    asked = len(chat.requests)
    assert (await store.graph.get_entities([name_to_entity_id("Ann")]))[0].description != before.description
    await pipeline.delete([report.results[0].id])
    assert await store.graph.get_entities([name_to_entity_id("Ann")]) == [before]
    assert len(chat.requests) == asked
    assert (await store.get_stats()).cached_replies == 1


async def test_failed_update_leaves_the_old_version_in_place(store: MemoryStore, extractor: SpelledExtractor) -> None:
    class Picky(SpelledExtractor):
        async def extract(self, document, chunks, on_chunk=lambda: None):
            return [] if "bad" in chunks[0].text else await super().extract(document, chunks, on_chunk)

    pipeline = make_pipeline(store, Picky())
    await pipeline.insert([NewDocument(PARAGRAPHS[0], "a.txt")])
    before = await snapshot(store)
    report = await pipeline.insert([NewDocument("bad text", "a.txt")])
    assert report.count(Outcome.FAILED) == 1
    after = await snapshot(store)
    assert after["entities"] == before["entities"]
    assert after["chunks"] == before["chunks"]
    (stored,) = await store.records.get_documents([document_id("a.txt")])
    assert stored.status is DocumentStatus.FAILED
    await pipeline.insert([NewDocument(PARAGRAPHS[1], "a.txt")])
    assert await snapshot(store) == await state_of(NewDocument(PARAGRAPHS[1], "a.txt"))
