"""What every store must do for checks, rebuilding, another embedding and batches; part of `StoreContract`."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from heliograph.embedding.base import EmbeddingInfo
from heliograph.errors import ConflictError
from heliograph.models import DocumentStatus, NameRules
from heliograph.stores.base import Store
from heliograph.stores.changeset import Changeset, Collection, VectorBatch
from heliograph.stores.inspection import ScanKind, digest_terms
from heliograph.testing.examples import DIMENSION, example_changeset, unit_vector
from heliograph.text.names import name_to_entity_id

__all__ = ["InspectionContract"]

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
        assert await store.inspection.list_batches(0, 9) == []
        first = example_changeset("a.md", track="one")
        await store.apply(first)
        await store.apply(example_changeset("b.md", track="one", status=DocumentStatus.PENDING))
        later = replace(first.documents[0], id="doc-c", track_id="two", error="why", status=DocumentStatus.FAILED)
        await store.apply(Changeset(documents=(replace(later, updated_at=later.updated_at.replace(year=2999)),)))
        two, one = await store.inspection.list_batches(0, 9)
        assert (one.track_id, dict(one.documents)) == (
            "one",
            {first.documents[0].status: 1, DocumentStatus.PENDING: 1},
        )
        assert (two.track_id, two.errors) == ("two", (("a.md", "why"),))
        assert await store.inspection.list_batches(1, 1) == [one]

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
        changeset = example_changeset("a.md", ["X"])
        await store.apply(changeset)
        reembedding, (chunk,) = store.reembedding, changeset.chunks
        await reembedding.begin(_INFO)
        assert await reembedding.find_pending(Collection.CHUNKS, "", 9) == [chunk.id]
        await reembedding.put(Collection.CHUNKS, _batch(chunk.id, "chunk-none"))
        assert await reembedding.find_pending(Collection.CHUNKS, "", 9) == []
        with pytest.raises(ConflictError):
            await reembedding.finish()
        version = await store.get_data_version()
        await reembedding.put(Collection.ENTITIES, _batch(name_to_entity_id("X")))
        assert await reembedding.finish() > version
        with pytest.raises(ConflictError):
            await reembedding.finish()

    async def test_commit_takes_next_vectors_away(self, store: Store) -> None:
        changeset = example_changeset("a.md")
        await store.apply(changeset)
        await store.reembedding.begin(_INFO)
        await store.reembedding.put(Collection.CHUNKS, _batch(changeset.chunks[0].id))
        await store.apply(changeset)
        assert await store.reembedding.find_pending(Collection.CHUNKS, "", 9) == [changeset.chunks[0].id]
        await store.reembedding.abandon()
        with pytest.raises(ConflictError):
            await store.reembedding.put(Collection.CHUNKS, _batch(changeset.chunks[0].id))


def _batch(*ids: str) -> VectorBatch:
    return VectorBatch(ids, np.stack([unit_vector(f"next {id_}") for id_ in ids]))
