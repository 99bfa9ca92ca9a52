"""The conformance suite of stores: subclass `StoreContract` and give it a `store` fixture.

    class TestMyStore(StoreContract): @pytest.fixture async def store(self):
            store = await MyStore.open(...)  # empty, dimension `heliograph.testing.examples.DIMENSION`
            yield store
            await store.close()

Needs pytest with pytest-asyncio in auto mode. One class covers records, graph, search and replies of every store;
further ones names, curations, and inspection; `heliograph.testing.view_contract` covers filtered views.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import product

import numpy as np
import pytest

from heliograph.embedding.base import EmbeddingInfo
from heliograph.errors import ConflictError, StaleChangesetError, StoreUnavailable
from heliograph.ids import document_id, mention_rank, name_to_entity_id, relation_id
from heliograph.ids import name_to_entity_id as entity
from heliograph.ids import names_to_relation_id as relation
from heliograph.models import AliasMention, Curation, CurationKind, DocumentStatus, NameRules, Usage
from heliograph.stores.base import (
    CachedReply,
    CurationQuery,
    DocumentQuery,
    EntityPlaces,
    NoReplyCache,
    Reembedding,
    ScanKind,
    Store,
    places_of,
)
from heliograph.stores.changeset import Changeset, Collection, VectorBatch, digest_terms
from heliograph.testing.examples import DIMENSION, equal_things, example_changeset, unit_vector
from heliograph.testing.view_contract import ViewContract

__all__ = ["CurationContract", "InspectionContract", "NameContract", "StoreContract"]


def _skip_without_replies(store: Store) -> None:
    if isinstance(store.replies, NoReplyCache):
        pytest.skip("the store keeps no replies of models")


def _reembedding(store: Store) -> Reembedding:
    if store.reembedding is None:
        pytest.skip("the store cannot change its embedding in place")
    return store.reembedding


# What every store must do for finding entities by parts of their names, and relations among given ones.


class NameContract:
    """The index of names."""

    async def test_names_are_found_by_what_they_are_begin_with_and_contain(self, store: Store) -> None:
        names = ["Graph", "Graph engine", "GRAPH store", "Heliograph", "Deep graph walk", "Vector"]
        await store.apply(example_changeset("a.md", names, [("GRAPH store", "Vector", 1.0)]))
        assert await self._names(store, "graph") == [
            *("Graph", "GRAPH store", "Graph engine"),
            *("Deep graph walk", "Heliograph"),
        ]
        assert await self._names(store, "GRAPH ") == await self._names(store, "graph")
        assert await self._names(store, "graph", 2) == ["Graph", "GRAPH store"]
        assert await self._names(store, "eep gra") == ["Deep graph walk"]
        assert await self._names(store, "raph st") == ["GRAPH store"]
        assert await self._names(store, "graphs") == []
        assert await self._names(store, "graph", 0) == []
        for nothing in ("", "  ", "\x00"):
            assert await self._names(store, nothing) == []

    async def test_short_and_chinese_names_are_found(self, store: Store) -> None:
        names = ["AI", "Generative AI", "Air", "深度学习", "机器学习", "习", "C++", 'x"y OR z*', "🛰️ link"]
        await store.apply(example_changeset("a.md", names))
        assert await self._names(store, "ai") == ["AI", "Air", "Generative AI"]
        assert await self._names(store, "学习") == ["机器学习", "深度学习"]
        assert await self._names(store, "深") == ["深度学习"]
        assert await self._names(store, "c++") == ["C++"]
        assert await self._names(store, "y or z*") == ['x"y OR z*']
        assert await self._names(store, "🛰️ li") == ["🛰️ link"]

    async def test_names_follow_the_entities(self, store: Store) -> None:
        changeset = example_changeset("a.md", ["Alpha", "Beta"])
        await store.apply(changeset)
        alpha, beta = changeset.entities
        await store.apply(Changeset(entities=(replace(alpha, name="ALPHA One", aliases=("First letter", "Alpha")),)))
        assert await store.names.find_names("letter", 9) == [alpha.id]
        assert await store.names.find_names("alpha", 9) == [alpha.id]
        await store.apply(Changeset(entities=(replace(alpha, name="Omega"),)))
        assert await store.names.find_names("alpha", 9) == []
        assert await store.names.find_names("mega", 9) == [alpha.id]
        await store.apply(Changeset(removed_entities=(beta.id,)))
        assert await store.names.find_names("beta", 9) == []
        await store.clear()
        assert await store.names.find_names("omega", 9) == []
        await store.apply(changeset)
        assert await store.names.find_names("eta", 9) == [beta.id]

    async def test_relations_among_entities_are_those_with_both_ends_there(self, store: Store) -> None:
        relations = [("A", "B", 1.0), ("B", "C", 3.0), ("C", "D", 1.0)]
        await store.apply(example_changeset("a.md", ["A", "B", "C", "D"], relations))
        found = await store.graph.find_relations_among([entity(name) for name in ("A", "B", "C", "none", "A")])
        assert [item.id for item in found] == [relation("B", "C"), relation("A", "B")]
        assert await store.graph.find_relations_among([]) == []
        assert await store.graph.find_relations_among([entity("A"), entity("D")]) == []

    async def _names(self, store: Store, text: str, limit: int = 9) -> list[str]:
        found = await store.graph.get_entities(await store.names.find_names(text, limit))
        return [item.name for item in found]


# What every store must do with name rules and curations; part of `heliograph.testing.store_contract`.

_MOMENT = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


def _merge(id_: str, *names: str) -> Curation:
    ids = tuple(entity(name) for name in names)
    return Curation(id_, CurationKind.MERGE_ENTITIES, names, ids, author="eve", created_at=_MOMENT)


def _changes(*curations: Curation) -> Changeset:
    ids = dict.fromkeys(id_ for item in curations for id_ in item.entity_ids)
    return Changeset(curations=curations, name_rules=tuple(NameRules(id_) for id_ in ids))


class CurationContract:
    """Rules, curations, and mentions that count for an entity other than the one of their name."""

    async def test_mention_comes_back_with_what_it_counts_for(self, store: Store) -> None:
        changeset = example_changeset("a.md", ["A", "B", "C"], [("A", "B", 1.0), ("A", "C", 1.0)])
        (read,) = changeset.extractions
        resolved = replace(
            read,
            entities=(replace(read.entities[0], entity_id=entity("B")), *read.entities[1:]),
            relations=tuple(replace(item, source_id=entity("B")) for item in read.relations),
            aliases=(AliasMention(read.chunk_id, "B", "A"),),
        )
        await store.apply(replace(changeset, extractions=(resolved,)))
        assert await store.records.get_extractions([read.chunk_id]) == [resolved]
        evidence, relations = await store.records.get_evidence(
            [entity("A"), entity("B")], [relation_id(entity("A"), entity("C"))], 9
        )
        assert [item.leading for item in evidence] == [(), resolved.entities[:2]]
        assert [item.leading for item in relations] == [()]

    async def test_mentioning_chunks_are_found_by_name_and_by_entity(self, store: Store) -> None:
        changeset = example_changeset("a.md", ["A", "B"])
        (read,) = changeset.extractions
        moved = replace(read, entities=(replace(read.entities[0], entity_id=entity("C")), read.entities[1]))
        await store.apply(replace(changeset, extractions=(moved,)))
        await store.apply(example_changeset("b.md", ["C"]))
        other = example_changeset("b.md", ["C"]).chunks[0]
        place = {read.chunk_id: changeset.documents[0].id}
        assert await store.curations.find_mentioning_chunks([entity("A")]) == place
        assert await store.curations.find_mentioning_chunks([entity("B"), entity("none")]) == place
        assert await store.curations.find_mentioning_chunks([entity("C")]) == place | {other.id: other.document_id}
        assert await store.curations.find_mentioning_chunks([]) == {}

    async def test_aliases_of_a_document_come_and_go_with_its_chunks(self, store: Store) -> None:
        changeset = example_changeset("a.md", ["A"])
        document = changeset.documents[0].id
        alias = AliasMention(changeset.chunks[0].id, "A", "Ay")
        await store.apply(replace(changeset, extractions=(replace(changeset.extractions[0], aliases=(alias,)),)))
        assert await store.records.get_document_aliases([document, "doc-none"]) == {document: [alias]}
        await store.apply(Changeset(removed_chunks=(changeset.chunks[0].id,)))
        assert await store.records.get_document_aliases([document]) == {}

    async def test_rules_come_back_with_active_curations_and_their_version(self, store: Store) -> None:
        assert await store.curations.get_rules([entity("A")]) == []
        rules = NameRules(entity("A"), {entity("B"): 2}, {entity("C"): 1})
        version = await store.apply(Changeset(curations=(_merge("cur-1", "A", "B"),), name_rules=(rules,)))
        (found,) = await store.curations.get_rules([entity("none"), entity("A")])
        assert found == replace(rules, curations=found.curations, version=version)
        assert [replace(item, sequence=0) for item in found.curations] == [_merge("cur-1", "A", "B")]

    async def test_curations_keep_their_order_and_their_content(self, store: Store) -> None:
        ends = ("A", "B"), (entity("A"), entity("B"))
        edit = Curation("cur-2", CurationKind.EDIT_RELATION, *ends, (), None, "", ("x", "y"), 2.5, "", _MOMENT)
        split = Curation(
            "cur-3", CurationKind.SPLIT_ENTITY, *ends, ("doc-1",), "thing", author="me", created_at=_MOMENT
        )
        await store.apply(_changes(_merge("cur-1", "C", "A"), edit))
        await store.apply(_changes(split))
        page = await store.curations.find_curations(CurationQuery())
        assert [replace(item, sequence=0) for item in page.curations] == [_merge("cur-1", "C", "A"), edit, split]
        assert page.total == 3
        assert sorted(item.sequence for item in page.curations) == [item.sequence for item in page.curations]
        page = await store.curations.find_curations(
            CurationQuery(entity_id=entity("B"), descending=True, offset=1, limit=1)
        )
        assert [item.id for item in page.curations] == ["cur-2"]
        assert page.total == 2

    async def test_undone_curation_stays_in_the_list_and_out_of_the_rules(self, store: Store) -> None:
        await store.apply(_changes(_merge("cur-1", "A", "B"), _merge("cur-2", "C", "B")))
        (first,) = await store.curations.get_curations(["cur-none", "cur-1"])
        undone = replace(first, undone_at=_MOMENT, undone_by="me")
        await store.apply(_changes(undone))
        assert await store.curations.get_curations(["cur-1"]) == [undone]
        (rules,) = await store.curations.get_rules([entity("B")])
        assert [item.id for item in rules.curations] == ["cur-2"]
        page = await store.curations.find_curations(CurationQuery(includes_undone=False))
        assert [item.id for item in page.curations] == ["cur-2"]

    async def test_stale_rules_change_nothing(self, store: Store) -> None:
        version = await store.apply(_changes(_merge("cur-1", "A", "B")))
        for expected in ({entity("A"): version + 1}, {entity("B"): 0}, {entity("none"): 1}):
            with pytest.raises(StaleChangesetError):
                await store.apply(replace(_changes(_merge("cur-2", "C", "D")), expected_rules=expected))
        assert await store.curations.get_curations(["cur-2"]) == []
        await store.apply(Changeset(expected_rules={entity("A"): version, entity("none"): 0}))

    async def test_changeset_may_expect_that_nothing_was_committed(self, store: Store) -> None:
        version = await store.apply(example_changeset("a.md", ["A"]))
        with pytest.raises(StaleChangesetError):
            await store.apply(replace(_changes(_merge("cur-1", "A", "B")), expected_version=version - 1))
        assert await store.curations.get_curations(["cur-1"]) == []
        assert await store.apply(replace(_changes(_merge("cur-1", "A", "B")), expected_version=version)) == version + 1

    async def test_deleted_entity_leaves_its_mentions(self, store: Store) -> None:
        changeset = example_changeset("a.md", ["A"])
        await store.apply(changeset)
        await store.apply(Changeset(removed_entities=(entity("A"),), entity_evidence=changeset.entity_evidence))
        evidence, _ = await store.records.get_evidence([entity("A")], [], 9)
        assert [item.leading for item in evidence] == [changeset.extractions[0].entities]


# What every store must do for checks, rebuilding, another embedding and batches; part of `StoreContract`.

_INFO = EmbeddingInfo("next", DIMENSION, 512)


class InspectionContract:
    """Whole-workspace reads, clearing, and the second set of vectors."""

    async def test_every_kind_is_listed_in_pages(self, store: Store) -> None:
        changesets = [example_changeset(f"{name}.md", ["X", "Y"], [("X", "Y", 1.0)]) for name in "abc"]
        for changeset in changesets:
            await store.apply(changeset)
        documents = sorted(changeset.documents[0].id for changeset in changesets)
        scan = store.inspection.scan
        assert await scan(ScanKind.DOCUMENTS, "", 9) == documents
        assert await scan(ScanKind.DOCUMENTS, documents[0], 1) == documents[1:2]
        assert await scan(ScanKind.DOCUMENTS, documents[-1], 9) == []
        chunks = sorted(changeset.chunks[0].id for changeset in changesets)
        for kind in (ScanKind.CHUNKS, ScanKind.EXTRACTIONS, ScanKind.CHUNK_VECTORS):
            assert await scan(kind, "", 9) == chunks
        entities = sorted(map(name_to_entity_id, "XY"))
        for kind in (ScanKind.MENTIONED_ENTITIES, ScanKind.ENTITY_EVIDENCE, ScanKind.ENTITIES, ScanKind.ENTITY_VECTORS):
            assert await scan(kind, "", 9) == entities
        relations = [changesets[0].relations[0].id]
        for kind in (ScanKind.MENTIONED_RELATIONS, ScanKind.RELATION_EVIDENCE, ScanKind.RELATION_VECTORS):
            assert await scan(kind, "", 9) == relations

    async def test_names_with_rules_are_listed(self, store: Store) -> None:
        assert await store.inspection.scan(ScanKind.NAME_RULES, "", 9) == []
        ids = sorted(map(name_to_entity_id, "XYZ"))
        await store.apply(Changeset(name_rules=tuple(NameRules(id_, {"ent-a": 1}) for id_ in ids)))
        assert await store.inspection.scan(ScanKind.NAME_RULES, "", 2) == ids[:2]
        assert await store.inspection.scan(ScanKind.NAME_RULES, ids[1], 9) == ids[2:]

    async def test_new_things_are_dated_as_the_changeset_says(self, store: Store) -> None:
        changeset = example_changeset("a.md", ["X", "Y"], [("X", "Y", 1.0)])
        (first, second), (relation,) = changeset.entities, changeset.relations
        await store.apply(replace(changeset, moments={first.id: 7, relation.id: 8}))
        entities = {item.id: item.created_at for item in await store.graph.get_entities([first.id, second.id])}
        assert entities[first.id] == 7
        assert entities[second.id] > 8
        assert [item.created_at for item in await store.graph.get_relations([relation.id])] == [8]
        await store.apply(replace(changeset, moments={first.id: 9, relation.id: 9}))
        assert [item.created_at for item in await store.graph.get_entities([first.id])] == [7]
        assert [item.created_at for item in await store.graph.get_relations([relation.id])] == [8]

    async def test_mentions_come_in_canonical_order_by_pages(self, store: Store) -> None:
        changesets = [example_changeset(f"{name}.md", ["X", "Y"], [("X", "Y", 1.0)]) for name in "abc"]
        for changeset in changesets:
            await store.apply(changeset)
        mentions = [item for changeset in changesets for item in changeset.extractions[0].entities if item.name == "X"]
        mentions.sort(key=lambda mention: mention.rank)
        id_, relation_id = name_to_entity_id("X"), changesets[0].relations[0].id
        entities, relations = await store.inspection.get_mentions([id_, "ent-none"], [relation_id], 0, 2)
        assert [mention.chunk_id for mention in entities[id_]] == [mention.chunk_id for mention in mentions[:2]]
        assert list(entities) == [id_]
        assert len(relations[relation_id]) == 2
        entities, relations = await store.inspection.get_mentions([id_], [relation_id], 2, 2)
        assert [mention.chunk_id for mention in entities[id_]] == [mentions[2].chunk_id]
        assert len(relations[relation_id]) == 1
        assert await store.inspection.get_mentions([id_], [relation_id], 3, 2) == ({}, {})

    async def test_full_text_is_digested_as_it_stands(self, store: Store) -> None:
        changeset = example_changeset("a.md", ["X Y"])
        await store.apply(changeset)
        await store.apply(example_changeset("b.md"))
        (entry,) = changeset.texts[Collection.CHUNKS]
        digests = await store.inspection.digest_texts(Collection.CHUNKS)
        assert len(digests) == 2
        assert digests[entry.id] == digest_terms(entry.terms)
        assert await store.inspection.digest_texts(Collection.ENTITIES) == {
            name_to_entity_id("X Y"): digest_terms(("x", "y"))
        }
        await store.apply(Changeset(removed_documents=(changeset.documents[0].id,), removed_chunks=(entry.id,)))
        assert entry.id not in await store.inspection.digest_texts(Collection.CHUNKS)

    async def test_sound_store_has_no_faults(self, store: Store) -> None:
        await store.apply(example_changeset("a.md", ["X", "Y"], [("X", "Y", 1.0)]))
        assert await store.inspection.find_faults() == []
        await store.inspection.repair()
        assert await store.inspection.find_faults() == []
        assert len(await store.vectors.search(Collection.ENTITIES, unit_vector("x"), 5, -1.0)) == 2

    async def test_batches_add_up_their_documents(self, store: Store) -> None:
        assert await store.records.list_batches(0, 9) == []
        first = example_changeset("a.md", track="one")
        await store.apply(first)
        await store.apply(example_changeset("b.md", track="one", status=DocumentStatus.PENDING))
        later = replace(first.documents[0], id="doc-c", track_id="two", error="why", status=DocumentStatus.FAILED)
        await store.apply(Changeset(documents=(replace(later, updated_at=later.updated_at.replace(year=2999)),)))
        two, one = await store.records.list_batches(0, 9)
        assert (one.track_id, dict(one.documents)) == ("one", {first.documents[0].status: 1, DocumentStatus.PENDING: 1})
        assert (two.track_id, two.errors) == ("two", (("a.md", "why"),))
        assert await store.records.list_batches(1, 1) == [one]

    async def test_cleared_store_is_empty_and_usable(self, store: Store) -> None:
        changeset = example_changeset("a.md", ["X", "Y"], [("X", "Y", 1.0)])
        version = await store.apply(changeset)
        await store.vectors.search(Collection.CHUNKS, unit_vector("x"), 5, -1.0)
        assert await store.clear() > version
        for kind in ScanKind:
            assert await store.inspection.scan(kind, "", 9) == []
        assert await store.vectors.search(Collection.CHUNKS, unit_vector("x"), 5, -1.0) == []
        await store.vacuum()
        await store.apply(changeset)
        assert len(await store.vectors.search(Collection.CHUNKS, unit_vector("x"), 5, -1.0)) == 1
        assert await store.inspection.find_faults() == []

    async def test_next_vectors_take_the_place_of_the_first_when_all_are_there(self, store: Store) -> None:
        reembedding = _reembedding(store)
        changeset = example_changeset("a.md", ["X"])
        await store.apply(changeset)
        (chunk,) = changeset.chunks
        await reembedding.begin(_INFO)
        assert await reembedding.find_pending(Collection.CHUNKS, "", 9) == [chunk.id]
        await reembedding.put(Collection.CHUNKS, _batch(chunk.id, "chunk-none"))
        assert await reembedding.find_pending(Collection.CHUNKS, "", 9) == []
        held = await reembedding.get_next(Collection.CHUNKS, [chunk.id, "chunk-none"])
        np.testing.assert_array_equal(held[chunk.id], _batch(chunk.id).vectors[0])
        assert len(held) == 1
        assert await reembedding.get_next(Collection.ENTITIES, []) == {}
        with pytest.raises(ConflictError):
            await reembedding.finish()
        version = await store.get_data_version()
        await reembedding.put(Collection.ENTITIES, _batch(name_to_entity_id("X")))
        assert await reembedding.finish() > version
        with pytest.raises(ConflictError):
            await reembedding.finish()

    async def test_commit_takes_next_vectors_away(self, store: Store) -> None:
        reembedding = _reembedding(store)
        changeset = example_changeset("a.md")
        await store.apply(changeset)
        await reembedding.begin(_INFO)
        await reembedding.put(Collection.CHUNKS, _batch(changeset.chunks[0].id))
        await store.apply(changeset)
        assert await reembedding.find_pending(Collection.CHUNKS, "", 9) == [changeset.chunks[0].id]
        await reembedding.abandon()
        with pytest.raises(ConflictError):
            await reembedding.put(Collection.CHUNKS, _batch(changeset.chunks[0].id))


def _batch(*ids: str) -> VectorBatch:
    return VectorBatch(ids, np.stack([unit_vector(f"next {id_}") for id_ in ids]))


# More than a back end reads for a few hits.
_EQUALS = 150


class _Records:
    """Tests of documents, chunks and extractions."""

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

    async def test_pages_of_documents_follow_their_times_in_whatever_order_they_came(self, store: Store) -> None:
        # Of equal times the id decides; the last insert is among the oldest.
        ages = [3, 9, 9, 0, 7, 1, 9, 4, 8]
        made = [
            replace(example_changeset(f"{number}.md").documents[0], created_at=moment, updated_at=moment)
            for number, age in enumerate(ages)
            for moment in [_MOMENT - timedelta(days=age)]
        ]
        await store.apply(Changeset(documents=tuple(made)))
        for sort, sign in product(("created_at", "updated_at"), (1, -1)):
            expected = sorted(made, key=lambda item: (sign * item.created_at.timestamp(), item.id))
            for offset, limit in ((0, 1), (0, 4), (2, 3), (8, 4), (9, 4), (0, 20)):
                page = await store.records.find_documents(
                    DocumentQuery(sort=sort, descending=sign < 0, offset=offset, limit=limit)  # pyright: ignore[reportArgumentType]
                )
                assert [item.id for item in page.documents] == [item.id for item in expected[offset : offset + limit]]
                assert page.total == len(made)

    async def test_chunks_come_back_in_the_order_asked_for(self, store: Store) -> None:
        one, two = example_changeset("a.md"), example_changeset("b.md")
        await store.apply(one)
        await store.apply(two)
        ids = [two.chunks[0].id, "chunk-missing", one.chunks[0].id]
        assert await store.records.get_chunks(ids) == [two.chunks[0], one.chunks[0]]
        assert await store.records.get_document_chunks(one.documents[0].id) == [one.chunks[0]]
        assert await store.records.get_sources(ids) == {ids[0]: "b.md", ids[2]: "a.md"}
        owners = {id_: item.documents[0].id for id_, item in ((ids[0], two), (ids[2], one))}
        assert await store.records.get_document_ids(ids) == owners
        assert await store.records.get_languages(ids) == {}
        stated = replace(two.documents[0], metadata={"language": "de"})
        await store.apply(replace(two, documents=(stated,)))
        assert await store.records.get_languages(ids) == {ids[0]: "de"}

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
    """Entities, relations and paths between them."""

    async def test_entities_and_relations_come_back_with_degrees(self, store: Store) -> None:
        changeset = example_changeset("a.md", ["X", "Y", "Z"], [("X", "Y", 2.0), ("X", "Z", 1.0)])
        await store.apply(changeset)
        found = await store.graph.get_entities([entity("Z"), entity("none"), entity("X")])
        assert [(item.name, item.degree) for item in found] == [("Z", 1), ("X", 2)]
        assert found[1] == replace(changeset.entities[0], degree=2, created_at=found[1].created_at)
        names = await store.graph.get_entity_names([entity("Z"), entity("none"), entity("X")])
        assert names == {entity("Z"): "Z", entity("X"): "X"}
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

    async def test_entities_of_one_type_are_listed_likewise(self, store: Store) -> None:
        change = example_changeset("a.md", ["B", "A", "C", "D"], [("C", "A", 1.0), ("C", "B", 1.0), ("D", "B", 1.0)])
        people = tuple(item if item.name == "C" else replace(item, type="person") for item in change.entities)
        await store.apply(replace(change, entities=people))
        graph = store.graph
        assert [item.name for item in await graph.list_entities_of_type("person", 0, 10)] == ["B", "A", "D"]
        assert [item.name for item in await graph.list_entities_of_type("person", 1, 1)] == ["A"]
        assert [item.name for item in await graph.list_entities_of_type("thing", 0, 10)] == ["C"]
        assert await graph.list_entities_of_type("person", 3, 10) == []
        assert await graph.list_entities_of_type("person", 0, 0) == []
        assert await graph.list_entities_of_type("place", 0, 10) == []

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

    async def test_some_vectors_are_ranked_among_themselves(self, store: Store) -> None:
        names = [f"Entity {number}" for number in range(200)]
        await store.apply(example_changeset("a.md", names))
        vector = unit_vector(entity("Entity 7"))
        for some in (names[:3], names[50:190]):
            wanted = [entity("none"), *map(entity, some)]
            found = await store.vectors.rank(Collection.ENTITIES, vector, wanted, 20)
            exact = sorted(wanted[1:], key=lambda id_: -float(unit_vector(id_) @ vector))[:20]
            assert [hit.id for hit in found] == exact
            assert found[0].score == pytest.approx(float(unit_vector(exact[0]) @ vector), abs=1e-5)
        assert await store.vectors.rank(Collection.ENTITIES, vector, [], 5) == []
        assert await store.vectors.rank(Collection.ENTITIES, vector, [entity("none")], 5) == []
        assert await store.vectors.rank(Collection.ENTITIES, vector, [entity("Entity 7")], 0) == []

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
        assert await store.text.hold_phrases(Collection.CHUNKS, phrases) == [True, True, False, False, False]
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
        _skip_without_replies(store)
        reply = CachedReply("default:extract:1", "text", "model", Usage(1, 2), _MOMENT, "chunk-1")
        await store.replies.put_reply(reply)
        await store.replies.put_reply(replace(reply, text="newer"))
        await store.replies.put_reply(replace(reply, key="mix:keywords:2", subject_id=""))
        assert await store.replies.get_reply(reply.key) == replace(reply, text="newer")
        listed = await store.replies.list_replies("", 1)
        listed += await store.replies.list_replies(listed[0].key, 2) if listed else []
        # A cache that cannot list its replies returns an empty list.
        assert [item.key for item in listed] in ([], sorted([reply.key, "mix:keywords:2"]))
        assert await store.replies.delete_replies("extract") == 1
        assert await store.replies.get_reply(reply.key) is None
        assert await store.replies.delete_replies() == 1

    async def test_replies_go_with_their_chunk(self, store: Store) -> None:
        _skip_without_replies(store)
        changeset = example_changeset("a.md")
        await store.apply(changeset)
        reply = CachedReply("default:extract:1", "text", "model", Usage(), _MOMENT, changeset.chunks[0].id)
        await store.replies.put_reply(reply)
        await store.apply(_removal(changeset))
        assert await store.replies.get_reply(reply.key) is None

    async def test_answers_go_with_the_next_commit(self, store: Store) -> None:
        _skip_without_replies(store)
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

    async def test_twin_that_waits_has_its_own_text(self, store: Store) -> None:
        pairs = [("a.md", "b.md"), ("d.md", "c.md")]
        for original, twin in pairs:
            # The original has been inserted again since.
            for name, holder in ((original, ""), (twin, document_id(original))):
                made = example_changeset(name, status=DocumentStatus.PENDING)
                row = replace(made.documents[0], twin_of=holder)
                await store.apply(Changeset(documents=(row,), document_texts={row.id: f"Text of {name}."}))
            for name in (original, twin):
                assert await store.records.get_document_text(document_id(name)) == f"Text of {name}."
            ids = [document_id(name) for name in (original, twin)]
            openings = await store.records.get_openings(ids, 100)
            assert openings == {id_: f"Text of {name}." for id_, name in zip(ids, (original, twin), strict=True)}
            await store.apply(Changeset(documents=(row,), removed_texts=(row.id,)))
            assert await store.records.get_document_text(document_id(twin)) == f"Text of {original}."

    async def test_stale_document_changes_nothing(self, store: Store) -> None:
        changeset = example_changeset("a.md")
        document = changeset.documents[0]
        await store.apply(replace(changeset, expected_documents={document.id: None, "doc-none": None}))
        others = (
            replace(document, content_hash="other"),
            replace(document, status=DocumentStatus.PENDING),
            replace(document, chunk_count=document.chunk_count + 1),
            replace(document, updated_at=document.updated_at + timedelta(microseconds=1)),
        )
        anew = Changeset(documents=(replace(document, title="Other"),))
        for expected in (None, *others):
            with pytest.raises(StaleChangesetError):
                await store.apply(replace(anew, expected_documents={document.id: expected}))
        with pytest.raises(StaleChangesetError):
            await store.apply(replace(anew, expected_documents={document.id: document, "doc-none": document}))
        (stored,) = await store.records.get_documents([document.id])
        assert (stored.title, stored.version) == (document.title, document.version)
        for other in others:
            await store.apply(replace(anew, expected_documents={document.id: stored}))
            await store.apply(Changeset(documents=(other,), expected_documents={document.id: stored}))
            await store.apply(Changeset(documents=(stored,), expected_documents={document.id: other}))

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
    """Return the changeset that undoes another, whose entities no other document mentions."""
    return Changeset(
        removed_documents=tuple(document.id for document in changeset.documents),
        removed_chunks=tuple(chunk.id for chunk in changeset.chunks),
        entity_evidence=tuple(replace(item, mention_count=0, leading=()) for item in changeset.entity_evidence),
    )
