"""The conformance suite of stores: subclass `StoreContract` and give it a `store` fixture.

    class TestMyStore(StoreContract):
        @pytest.fixture
        async def store(self):
            store = await MyStore.open(...)   # empty, dimension `heliograph.testing.examples.DIMENSION`
            yield store
            await store.close()

Needs pytest with pytest-asyncio in auto mode. Every test begins with an empty store.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from heliograph.errors import StaleChangesetError, StoreUnavailable
from heliograph.ids import document_id, mention_rank
from heliograph.models import DocumentStatus, Usage
from heliograph.stores.base import CachedReply, DocumentQuery, Store
from heliograph.stores.changeset import Changeset, Collection
from heliograph.stores.listing import EntityPlaces, places_of
from heliograph.testing.curation_contract import CurationContract
from heliograph.testing.examples import equal_things, example_changeset, unit_vector
from heliograph.testing.inspection_contract import InspectionContract
from heliograph.testing.name_contract import NameContract
from heliograph.testing.view_contract import ViewContract
from heliograph.text.names import name_to_entity_id as entity
from heliograph.text.names import names_to_relation_id as relation

__all__ = ["StoreContract"]

# More than a back end looks at for a few hits.
_EQUALS = 150
_MOMENT = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


class _Records:
    """Truth."""

    async def test_document_comes_back_as_written(self, store: Store) -> None:
        changeset = example_changeset("a.md", track="t1")
        await store.apply(changeset)
        (stored,) = await store.records.get_documents([document_id("missing"), changeset.documents[0].id])
        assert stored == changeset.documents[0]
        assert await store.records.get_document_text(stored.id) == changeset.document_texts[stored.id]
        assert await store.records.get_document_text("doc-missing") is None
        opening = {stored.id: changeset.document_texts[stored.id][:4]}
        assert await store.records.get_openings([stored.id, "doc-missing"], 4) == opening
        assert await store.records.get_openings([], 4) == {}
        assert await store.records.get_documents(["doc-\0"]) == []

    async def test_document_keeps_its_creation_time(self, store: Store) -> None:
        first = example_changeset("a.md").documents[0]
        await store.apply(Changeset(documents=(first,)))
        later = replace(first, created_at=_MOMENT, updated_at=_MOMENT, status=DocumentStatus.FAILED, error="why")
        later = replace(later, page_starts=(0, 7, 7))
        await store.apply(Changeset(documents=(later,)))
        assert await store.records.get_documents([first.id]) == [replace(later, created_at=first.created_at)]

    async def test_documents_are_found_by_status_track_and_prefix(self, store: Store) -> None:
        await store.apply(example_changeset("docs/a.md", track="one"))
        await store.apply(example_changeset("docs/b_.md", track="two", status=DocumentStatus.FAILED))
        await store.apply(example_changeset("other/c.md", track="two"))

        async def sources(**conditions: object) -> list[str]:
            query = DocumentQuery(sort="source", **conditions)  # pyright: ignore[reportArgumentType]
            return [document.source for document in (await store.records.find_documents(query)).documents]

        assert await sources() == ["docs/a.md", "docs/b_.md", "other/c.md"]
        assert await sources(descending=True) == ["other/c.md", "docs/b_.md", "docs/a.md"]
        assert await sources(statuses=(DocumentStatus.FAILED,)) == ["docs/b_.md"]
        assert await sources(track_id="two") == ["docs/b_.md", "other/c.md"]
        assert await sources(source_prefix="docs/") == ["docs/a.md", "docs/b_.md"]
        assert await sources(source_prefix="docs/%") == []
        assert await sources(offset=1, limit=1) == ["docs/b_.md"]
        assert (await store.records.find_documents(DocumentQuery(limit=1))).total == 3

    async def test_chunks_come_back_in_the_order_asked_for(self, store: Store) -> None:
        one, two = example_changeset("a.md"), example_changeset("b.md")
        await store.apply(one)
        await store.apply(two)
        ids = [two.chunks[0].id, "chunk-missing", one.chunks[0].id]
        assert await store.records.get_chunks(ids) == [two.chunks[0], one.chunks[0]]
        assert await store.records.get_document_chunks(one.documents[0].id) == [one.chunks[0]]
        assert await store.records.get_sources(ids) == {ids[0]: "b.md", ids[2]: "a.md"}

    async def test_extraction_is_replaced_as_a_whole(self, store: Store) -> None:
        changeset = example_changeset("a.md", ["X", "Y"], [("X", "Y", 2.0)])
        await store.apply(changeset)
        assert await store.records.get_extractions([changeset.chunks[0].id]) == list(changeset.extractions)
        mentions = {item.chunk_id: item.entities for item in changeset.extractions}
        assert await store.records.get_entity_mentions([changeset.chunks[0].id, "chunk-absent"]) == mentions
        emptied = replace(changeset.extractions[0], entities=(), relations=(), error="no reply", usage=Usage(3, 4))
        await store.apply(Changeset(extractions=(emptied,)))
        assert await store.records.get_extractions([changeset.chunks[0].id]) == [emptied]

    async def test_evidence_carries_leading_mentions_in_canonical_order(self, store: Store) -> None:
        one, two = example_changeset("a.md", ["X", "Y"], [("X", "Y", 1.0)]), example_changeset("b.md", ["X"])
        await store.apply(one)
        version = await store.apply(two)
        (entities, relations) = await store.records.get_evidence([entity("X"), entity("none")], [relation("X", "Y")], 5)
        mentions = sorted((one.extractions[0].entities[0], two.extractions[0].entities[0]), key=lambda item: item.rank)
        assert [item.id for item in entities] == [entity("X")]
        assert entities[0].leading == tuple(mentions)
        assert entities[0].version == version
        assert relations[0].leading == one.extractions[0].relations
        assert relations[0].version == version - 1
        (short, _) = await store.records.get_evidence([entity("X")], [], 1)
        assert short[0].leading == tuple(mentions[:1])

    async def test_places_are_those_of_all_mentions_or_of_those_about_a_common_entity(self, store: Store) -> None:
        await store.apply(example_changeset("a.md", ["X", "Y"]))
        about = _about(example_changeset("b.md", ["X"]))
        await store.apply(about)
        (rare, other) = await store.records.get_mention_places([entity("X"), entity("none"), entity("Y")], 5)
        (evidence, _) = await store.records.get_evidence([entity("X"), entity("Y")], [], 5)
        assert [rare, other] == [places_of(item, 5) for item in evidence]
        assert (rare.mention_count, len(rare.chunk_ids), rare.subjects) == (2, 2, 1)
        assert rare.about == (about.chunks[0].id,)
        (common,) = await store.records.get_mention_places([entity("X")], 1)
        assert common == EntityPlaces(entity("X"), 2, rare.about, 1)
        assert await store.records.get_mention_places([entity("none")], 5) == []

    async def test_removed_document_leaves_no_truth(self, store: Store) -> None:
        changeset = example_changeset("a.md", ["X"])
        await store.apply(changeset)
        await store.apply(_removal(changeset))
        chunk = changeset.chunks[0].id
        assert await store.records.get_documents([changeset.documents[0].id]) == []
        assert await store.records.get_document_text(changeset.documents[0].id) is None
        assert await store.records.get_chunks([chunk]) == []
        assert await store.records.get_extractions([chunk]) == []
        assert await store.records.get_evidence([entity("X")], [], 5) == ([], [])


def _about(changeset: Changeset) -> Changeset:
    """Return the changeset as if its chunk were about its entities and each were mentioned elsewhere, too."""
    (extraction,) = changeset.extractions
    rank = mention_rank(changeset.documents[0].id, 0, is_subject=True)
    mentions = tuple(replace(mention, rank=rank) for mention in extraction.entities)
    evidence = tuple(replace(item, mention_count=2) for item in changeset.entity_evidence)
    return replace(changeset, extractions=(replace(extraction, entities=mentions),), entity_evidence=evidence)


class _Graph:
    """Entities, relations and ways between them."""

    async def test_entities_and_relations_come_back_with_degrees(self, store: Store) -> None:
        changeset = example_changeset("a.md", ["X", "Y", "Z"], [("X", "Y", 2.0), ("X", "Z", 1.0)])
        await store.apply(changeset)
        found = await store.graph.get_entities([entity("Z"), entity("none"), entity("X")])
        assert [(item.name, item.degree) for item in found] == [("Z", 1), ("X", 2)]
        assert found[1] == replace(changeset.entities[0], degree=2, created_at=found[1].created_at)
        (stored,) = await store.graph.get_relations([relation("Y", "X")])
        assert stored == replace(changeset.relations[0], created_at=stored.created_at)

    async def test_upserting_a_relation_again_changes_no_degree(self, store: Store) -> None:
        changeset = example_changeset("a.md", ["X", "Y"], [("X", "Y", 2.0)])
        await store.apply(changeset)
        heavier = replace(changeset.relations[0], weight=5.0)
        await store.apply(Changeset(entities=changeset.entities, relations=(heavier,)))
        assert [item.degree for item in await store.graph.get_entities([entity("X"), entity("Y")])] == [1, 1]
        assert (await store.graph.get_relations([heavier.id]))[0].weight == 5.0

    async def test_removing_a_relation_lowers_degrees(self, store: Store) -> None:
        await store.apply(example_changeset("a.md", ["X", "Y", "Z"], [("X", "Y", 1.0), ("Y", "Z", 1.0)]))
        await store.apply(
            Changeset(removed_relations=(relation("X", "Y"), "rel-missing"), removed_entities=(entity("X"),))
        )
        assert [item.degree for item in await store.graph.get_entities([entity("X"), entity("Y"), entity("Z")])] == [
            1,
            1,
        ]
        assert await store.graph.get_relations([relation("X", "Y")]) == []

    async def test_incident_relations_are_ranked_by_degree_then_weight(self, store: Store) -> None:
        names = ["Hub", "A", "B", "C"]
        await store.apply(example_changeset("a.md", names, [("Hub", "A", 1.0), ("Hub", "B", 3.0), ("A", "C", 9.0)]))
        ranked = await store.graph.rank_incident_relations([entity("Hub"), entity("A"), entity("none")])
        expected = [(relation("Hub", "A"), 4, 1.0), (relation("A", "C"), 3, 9.0), (relation("Hub", "B"), 3, 3.0)]
        assert [(item.id, item.degree, item.weight) for item in ranked] == expected
        assert await store.graph.rank_incident_relations([]) == []

    async def test_entities_are_listed_by_degree_then_name(self, store: Store) -> None:
        await store.apply(example_changeset("a.md", ["B", "A", "C"], [("C", "A", 1.0), ("C", "B", 1.0)]))
        assert [item.name for item in await store.graph.list_entities(0, 10)] == ["C", "A", "B"]
        assert [item.name for item in await store.graph.list_entities(1, 1)] == ["A"]

    async def test_neighbourhood_grows_by_depth_within_its_limit(self, store: Store) -> None:
        pairs = [("A", "B", 1.0), ("B", "C", 1.0), ("C", "D", 1.0), ("A", "E", 1.0)]
        await store.apply(example_changeset("a.md", ["A", "B", "C", "D", "E"], pairs))
        near = await store.graph.get_neighbourhood(entity("A"), 1, 10)
        assert [item.name for item in near.entities] == ["A", "B", "E"]
        assert {item.id for item in near.relations} == {relation("A", "B"), relation("A", "E")}
        assert not near.is_truncated
        cut = await store.graph.get_neighbourhood(entity("A"), 3, 3)
        assert [item.name for item in cut.entities] == ["A", "B", "E"]
        assert cut.is_truncated
        assert (await store.graph.get_neighbourhood(entity("none"), 2, 5)).entities == ()

    async def test_shortest_paths_are_ordered_by_weight(self, store: Store) -> None:
        pairs = [("A", "B", 1.0), ("B", "D", 1.0), ("A", "C", 2.0), ("C", "D", 2.0), ("A", "E", 9.0), ("E", "B", 9.0)]
        await store.apply(example_changeset("a.md", ["A", "B", "C", "D", "E", "F"], pairs))
        paths = await store.graph.find_shortest_paths(entity("A"), entity("D"), 4, 5)
        assert [[item.name for item in path.entities] for path in paths] == [["A", "C", "D"], ["A", "B", "D"]]
        assert [item.id for item in paths[0].relations] == [relation("A", "C"), relation("C", "D")]
        assert len(await store.graph.find_shortest_paths(entity("A"), entity("D"), 4, 1)) == 1
        assert await store.graph.find_shortest_paths(entity("A"), entity("D"), 1, 5) == []
        assert await store.graph.find_shortest_paths(entity("A"), entity("F"), 9, 5) == []
        (self_path,) = await store.graph.find_shortest_paths(entity("A"), entity("A"), 4, 5)
        assert [item.name for item in self_path.entities] == ["A"]


class _Search:
    """Vectors and full text."""

    async def test_nearest_vectors_come_first(self, store: Store) -> None:
        names = [f"Entity {number}" for number in range(200)]
        await store.apply(example_changeset("a.md", names))
        vector = unit_vector(entity("Entity 7"))
        hits = await store.vectors.search(Collection.ENTITIES, vector, 5, -1.0)
        exact = sorted(names, key=lambda name: -float(unit_vector(entity(name)) @ vector))[:5]
        assert [hit.id for hit in hits] == [entity(name) for name in exact]
        assert hits[0].score == pytest.approx(1.0, abs=1e-5)
        near = await store.vectors.search(Collection.ENTITIES, vector, 500, 0.99)
        assert [hit.id for hit in near] == [entity("Entity 7")]

    async def test_vectors_follow_upserts_and_removals(self, store: Store) -> None:
        changeset = example_changeset("a.md", ["X", "Y"])
        await store.apply(changeset)
        vector = unit_vector(entity("X"))
        assert len(await store.vectors.search(Collection.ENTITIES, vector, 10, -1.0)) == 2
        await store.apply(Changeset(removed_entities=(entity("X"),)))
        hits = await store.vectors.search(Collection.ENTITIES, vector, 10, -1.0)
        assert [hit.id for hit in hits] == [entity("Y")]
        await store.apply(changeset)
        hits = await store.vectors.search(Collection.ENTITIES, vector, 10, -1.0)
        assert [hit.id for hit in hits] == [entity("X"), entity("Y")]

    async def test_vectors_come_back_exactly(self, store: Store) -> None:
        await store.apply(example_changeset("a.md", ["X"]))
        found = await store.vectors.get_vectors(Collection.ENTITIES, [entity("X"), entity("none")])
        assert list(found) == [entity("X")]
        assert (found[entity("X")] == unit_vector(entity("X"))).all()

    async def test_searching_nothing_finds_nothing(self, store: Store) -> None:
        assert await store.vectors.search(Collection.CHUNKS, unit_vector("x"), 5, -1.0) == []
        assert await store.text.search(Collection.CHUNKS, [], 5) == []
        assert await store.text.search(Collection.CHUNKS, ["word"], 5) == []

    async def test_full_text_finds_any_term_and_ranks_rare_ones_first(self, store: Store) -> None:
        for number in range(20):
            await store.apply(example_changeset(f"{number}.md", text=f"common words of {number}"))
        await store.apply(example_changeset("rare.md", text="common esp32-s3 你好 words"))
        rare = example_changeset("rare.md", text="common esp32-s3 你好 words").chunks[0].id
        hits = await store.text.search(Collection.CHUNKS, ["common", "esp32-s3"], 3)
        assert hits[0].id == rare
        assert len(hits) == 3
        assert [hit.id for hit in await store.text.search(Collection.CHUNKS, ["你好"], 3)] == [rare]
        assert await store.text.search(Collection.CHUNKS, ["esp", 'quo"ted', "a*", "AND"], 3) == []

    async def test_phrases_are_terms_one_after_the_other(self, store: Store) -> None:
        texts = ("grey york river", "york grey river", "in grey york")
        ids: list[str] = []
        for number, text in enumerate(texts):
            changeset = example_changeset(f"{number}.md", text=text)
            ids.append(changeset.chunks[0].id)
            await store.apply(changeset)
        phrases = [("grey", "york"), ("river",), ("york", "river", "grey"), (), ("grey", '"')]
        found = await store.text.find_phrases(Collection.CHUNKS, phrases, 10)
        assert [sorted(found_ids) for found_ids in found] == [
            sorted((ids[0], ids[2])), sorted(ids[:2]), [], [], [],
        ]  # fmt: skip
        (few,) = await store.text.find_phrases(Collection.CHUNKS, [("grey",)], 2)
        assert len(few) == 2
        assert await store.text.find_phrases(Collection.CHUNKS, [("grey",)], 2) == [few]

    async def test_of_equals_those_with_the_first_ids_are_found(self, store: Store) -> None:
        changeset = equal_things(_EQUALS)
        await store.apply(changeset)
        for collection in (Collection.CHUNKS, Collection.ENTITIES):
            first = sorted(changeset.vectors[collection].ids)
            for limit in (1, 7, _EQUALS - 1):
                nearest = await store.vectors.search(collection, unit_vector("owl"), limit, -1.0)
                assert [hit.id for hit in nearest] == first[:limit]
                held = await store.text.search(collection, ["owl"], limit)
                assert [hit.id for hit in held] == first[:limit]
                (phrase,) = await store.text.find_phrases(collection, [("owl",)], limit)
                assert sorted(phrase) == first[:limit]

    async def test_full_text_forgets_what_is_removed(self, store: Store) -> None:
        changeset = example_changeset("a.md", ["Lone Owl"])
        await store.apply(changeset)
        for collection in (Collection.CHUNKS, Collection.ENTITIES):
            assert len(await store.text.search(collection, ["owl"], 3)) == 1
        await store.apply(replace(_removal(changeset), removed_entities=(entity("Lone Owl"),)))
        for collection in (Collection.CHUNKS, Collection.ENTITIES):
            assert await store.text.search(collection, ["owl"], 3) == []


class _Replies:
    """The reply cache."""

    async def test_reply_comes_back_until_deleted(self, store: Store) -> None:
        reply = CachedReply("default:extract:1", "text", "model", Usage(1, 2), _MOMENT, "chunk-1")
        await store.replies.put_reply(reply)
        await store.replies.put_reply(replace(reply, text="newer"))
        await store.replies.put_reply(replace(reply, key="mix:keywords:2", subject_id=""))
        assert await store.replies.get_reply(reply.key) == replace(reply, text="newer")
        listed = await store.replies.list_replies("", 1)
        listed += await store.replies.list_replies(listed[0].key, 2) if listed else []
        # A cache that cannot list what it holds says that there is nothing.
        assert [item.key for item in listed] in ([], sorted([reply.key, "mix:keywords:2"]))
        assert await store.replies.delete_replies("extract") == 1
        assert await store.replies.get_reply(reply.key) is None
        assert await store.replies.delete_replies() == 1

    async def test_replies_go_with_their_chunk(self, store: Store) -> None:
        changeset = example_changeset("a.md")
        await store.apply(changeset)
        reply = CachedReply("default:extract:1", "text", "model", Usage(), _MOMENT, changeset.chunks[0].id)
        await store.replies.put_reply(reply)
        await store.apply(_removal(changeset))
        assert await store.replies.get_reply(reply.key) is None

    async def test_answers_go_with_the_next_commit(self, store: Store) -> None:
        await store.replies.put_reply(CachedReply("mix:query:1", "text", "model", Usage(), _MOMENT))
        await store.replies.put_reply(CachedReply("mix:keywords:1", "text", "model", Usage(), _MOMENT))
        await store.apply(example_changeset("a.md"))
        assert await store.replies.get_reply("mix:query:1") is None
        assert await store.replies.get_reply("mix:keywords:1") is not None


class StoreContract(
    _Records, _Graph, _Search, _Replies, NameContract, InspectionContract, CurationContract, ViewContract
):
    """What every store must do."""

    async def test_every_commit_raises_the_data_version(self, store: Store) -> None:
        before = await store.get_data_version()
        assert await store.apply(example_changeset("a.md")) == before + 1
        assert await store.get_data_version() == before + 1

    async def test_applying_twice_is_applying_once(self, store: Store) -> None:
        changeset = example_changeset("a.md", ["X", "Y"], [("X", "Y", 1.0)])
        await store.apply(changeset)
        once = await store.get_stats()
        await store.apply(changeset)
        assert replace(await store.get_stats(), data_version=0, bytes_on_disk=0) == replace(
            once, data_version=0, bytes_on_disk=0
        )
        assert [item.degree for item in await store.graph.get_entities([entity("X")])] == [1]

    async def test_stale_evidence_changes_nothing(self, store: Store) -> None:
        changeset = example_changeset("a.md", ["X"])
        version = await store.apply(changeset)
        other = example_changeset("b.md", ["X"])
        for expected in ({entity("X"): version + 1}, {entity("X"): 0}, {entity("none"): 1}):
            with pytest.raises(StaleChangesetError):
                await store.apply(replace(other, expected=expected))
        assert await store.get_data_version() == version
        assert await store.records.get_documents([other.documents[0].id]) == []
        await store.apply(replace(other, expected={entity("X"): version, entity("none"): 0}))

    async def test_stale_document_changes_nothing(self, store: Store) -> None:
        changeset = example_changeset("a.md")
        document = changeset.documents[0]
        await store.apply(replace(changeset, expected_documents={document.id: ""}))
        for expected in ("", "other"):
            with pytest.raises(StaleChangesetError):
                await store.apply(replace(changeset, expected_documents={document.id: expected}))
        await store.apply(replace(changeset, expected_documents={document.id: document.content_hash}))

    async def test_stats_count_everything(self, store: Store) -> None:
        await store.apply(example_changeset("a.md", ["X", "Y"], [("X", "Y", 1.0)]))
        await store.apply(example_changeset("b.md", status=DocumentStatus.PENDING))
        stats = await store.get_stats()
        assert stats.documents == {DocumentStatus.PROCESSED: 1, DocumentStatus.PENDING: 1}
        assert (stats.chunks, stats.entities, stats.relations, stats.cached_replies) == (2, 2, 1, 0)

    async def test_ingest_lock_can_be_taken_again_and_again(self, store: Store) -> None:
        for _ in range(2):
            async with store.ingest_lock():
                await store.apply(example_changeset("a.md"))

    async def test_closed_store_says_so(self, store: Store) -> None:
        await store.close()
        await store.close()
        with pytest.raises(StoreUnavailable, match="closed"):
            await store.apply(example_changeset("a.md"))


def _removal(changeset: Changeset) -> Changeset:
    """Take back a changeset whose entities nobody else mentions."""
    return Changeset(
        removed_documents=tuple(document.id for document in changeset.documents),
        removed_chunks=tuple(chunk.id for chunk in changeset.chunks),
        entity_evidence=tuple(replace(item, mention_count=0, leading=()) for item in changeset.entity_evidence),
    )
