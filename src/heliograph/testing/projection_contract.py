"""What every projection must do, one suite per role: the contract of third-party back ends beside a store.

A test class inherits from one of them and gives a fixture `projection`, opened and empty, for vectors of
`heliograph.testing.examples.DIMENSION`. The suites for graph, vectors and full text apply changes like those of an
ingest.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from heliograph.ids import relation_id
from heliograph.models import Entity, Relation, Usage, utc_now
from heliograph.stores.base import CachedReply
from heliograph.stores.changeset import Changeset, Collection, OutboxKind, TextEntry
from heliograph.stores.projection import (
    CacheProjection,
    GraphProjection,
    Projection,
    ProjectionChange,
    TextProjection,
    VectorProjection,
)
from heliograph.testing.examples import example_changeset, unit_vector

__all__ = [
    "CacheProjectionContract",
    "GraphProjectionContract",
    "TextProjectionContract",
    "VectorProjectionContract",
    "example_change",
]


def example_change(
    source: str, names: Sequence[str] = (), relations: Sequence[tuple[str, str, float]] = ()
) -> ProjectionChange:
    """Return the change of one new document: its chunk, entities, relations, vectors and terms."""
    made = example_changeset(source, names, relations)
    document, chunk = made.documents[0], made.chunks[0]
    return ProjectionChange(
        documents=made.documents,
        chunks=made.chunks,
        entities=made.entities,
        relations=made.relations,
        vectors=_vectors(made),
        texts=made.texts,
        owners={document.id: document},
        owner_ids={chunk.id: document.id},
        names={chunk.id: tuple(names)},
        chunk_ids={document.id: (chunk.id,)},
    )


def _vectors(made: Changeset) -> dict[Collection, Mapping[str, np.ndarray]]:
    return {item: dict(zip(batch.ids, batch.vectors, strict=True)) for item, batch in made.vectors.items()}


class _ProjectionContract:
    """Tests of the cursor, for every role."""

    async def test_cursor_is_kept_and_begins_anew_when_cleared(self, projection: Projection) -> None:
        assert await projection.get_cursor() == -1
        await projection.set_cursor(7)
        assert await projection.get_cursor() == 7
        await projection.clear()
        assert await projection.get_cursor() == -1

    async def test_projection_says_what_it_is_and_closes_twice(self, projection: Projection) -> None:
        assert projection.name
        assert projection.kinds
        assert projection.describe()
        await projection.close()
        await projection.close()


class GraphProjectionContract(_ProjectionContract):
    """Tests of a projection of entities and relations."""

    async def test_change_taken_in_twice_is_there_once(self, projection: GraphProjection) -> None:
        change = example_change("a.md", ["X", "Y", "Z"], [("X", "Y", 2.0), ("Y", "Z", 1.0)])
        await projection.apply(change)
        await projection.apply(change)
        entities = await projection.list_entities(0, 9)
        assert [(item.name, item.degree) for item in entities] == [("Y", 2), ("X", 1), ("Z", 1)]
        ids = [item.id for item in entities]
        assert await projection.scan(OutboxKind.ENTITIES, "", 9) == sorted(ids)
        assert await projection.scan(OutboxKind.ENTITIES, min(ids), 1) == sorted(ids)[1:2]
        ranked = await projection.rank_incident_relations([ids[0]])
        assert [item.weight for item in ranked] == [2.0, 1.0]

    async def test_what_is_kept_otherwise_is_named(self, projection: GraphProjection) -> None:
        change = example_change("a.md", ["X", "Y", "Z"], [("X", "Y", 2.0), ("Y", "Z", 1.0)])
        await projection.apply(change)
        kept = await projection.get_entities([item.id for item in change.entities])
        expected = replace(change, entities=tuple(kept))
        assert await projection.compare(expected) == set()
        entity, relation = replace(kept[0], description="another"), replace(change.relations[0], weight=7.0)
        changed = replace(expected, entities=(entity, *kept[1:]), relations=(relation, *change.relations[1:]))
        assert await projection.compare(changed) == {entity.id, relation.id}
        absent = replace(kept[0], id="ent-absent")
        assert await projection.compare(replace(expected, entities=(absent,))) == {"ent-absent"}
        assert await projection.find_faults() == []

    async def test_moments_are_those_of_the_truth(self, projection: GraphProjection) -> None:
        change = example_change("a.md", ["X", "Y"], [("X", "Y", 2.0)])
        entities = tuple(replace(item, created_at=5) for item in change.entities)
        relations = tuple(replace(item, created_at=6) for item in change.relations)
        await projection.apply(replace(change, entities=entities, relations=relations))
        assert [item.created_at for item in await projection.get_entities([entities[0].id])] == [5]
        assert [item.created_at for item in await projection.get_relations([relations[0].id])] == [6]

    async def test_relations_may_come_before_their_ends(self, projection: GraphProjection) -> None:
        change = example_change("a.md", ["X", "Y"], [("X", "Y", 2.0)])
        await projection.apply(replace(change, entities=()))
        await projection.apply(replace(change, relations=()))
        assert [item.degree for item in await projection.list_entities(0, 9)] == [1, 1]
        around = await projection.get_neighbourhood(change.entities[0].id, 1, 9)
        assert len(around.entities) == 2
        assert [item.id for item in around.relations] == [change.relations[0].id]

    async def test_what_is_gone_is_removed(self, projection: GraphProjection) -> None:
        change = example_change("a.md", ["X", "Y"], [("X", "Y", 2.0)])
        await projection.apply(change)
        relation, entity = change.relations[0].id, change.entities[0].id
        gone = {OutboxKind.RELATIONS: [relation, "rel-none"], OutboxKind.ENTITIES: [entity, "ent-none"]}
        for _ in range(2):
            await projection.apply(ProjectionChange(removed=gone))
        assert [item.degree for item in await projection.list_entities(0, 9)] == [0]
        assert await projection.get_relations([relation]) == []
        assert await projection.scan(OutboxKind.RELATIONS, "", 9) == []

    async def test_new_name_and_weight_take_the_place_of_the_old(self, projection: GraphProjection) -> None:
        change = example_change("a.md", ["X", "Y"], [("X", "Y", 2.0)])
        await projection.apply(change)
        entity: Entity = replace(change.entities[0], name="Another", description="new")
        relation: Relation = replace(change.relations[0], weight=9.0, keywords=("other",))
        await projection.apply(ProjectionChange(entities=(entity,), relations=(relation,)))
        assert [item.name for item in await projection.list_entities(0, 9)] == sorted(
            ["Another", change.entities[1].name]
        )
        found = await projection.find_relations_among([item.id for item in change.entities])
        assert [(item.weight, item.keywords) for item in found] == [(9.0, ("other",))]
        assert found[0].id == relation_id(entity.id, change.entities[1].id)

    async def test_cleared_graph_is_empty_and_usable(self, projection: GraphProjection) -> None:
        change = example_change("a.md", ["X"])
        await projection.apply(change)
        await projection.clear()
        assert await projection.list_entities(0, 9) == []
        await projection.apply(change)
        assert [item.name for item in await projection.list_entities(0, 9)] == ["X"]


class VectorProjectionContract(_ProjectionContract):
    """Tests of a projection of vectors."""

    async def test_nearest_come_first_down_to_a_score(self, projection: VectorProjection) -> None:
        changes = [example_change(f"{name}.md", [name]) for name in "abc"]
        for change in (*changes, changes[0]):
            await projection.apply(change)
        vectors = [vector for change in changes for vector in change.vectors[Collection.ENTITIES].values()]
        ids = [change.entities[0].id for change in changes]
        hits = await projection.search(Collection.ENTITIES, vectors[1], 9, -1.0)
        assert sorted(hit.id for hit in hits) == sorted(ids)
        assert hits[0].id == ids[1]
        assert abs(hits[0].score - 1) < 1e-3
        assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)
        assert [hit.id for hit in await projection.search(Collection.ENTITIES, vectors[1], 9, 0.999)] == [ids[1]]
        assert [hit.id for hit in await projection.search(Collection.ENTITIES, vectors[1], 1, -1.0)] == [ids[1]]

    async def test_vectors_are_given_back_and_listed(self, projection: VectorProjection) -> None:
        change = example_change("a.md", ["X", "Y"], [("X", "Y", 2.0)])
        await projection.apply(change)
        for kind, collection in (
            (OutboxKind.CHUNKS, Collection.CHUNKS),
            (OutboxKind.ENTITIES, Collection.ENTITIES),
            (OutboxKind.RELATIONS, Collection.RELATIONS),
        ):
            given = change.vectors[collection]
            assert await projection.scan(kind, "", 9) == sorted(given)
            found = await projection.get_vectors(collection, [*given, "none"])
            assert found.keys() == given.keys()
            assert all(np.allclose(found[id_], given[id_], atol=1e-6) for id_ in given)

    async def test_what_is_gone_is_removed_and_a_new_vector_takes_an_old_ones_place(
        self, projection: VectorProjection
    ) -> None:
        change = example_change("a.md", ["X", "Y"])
        await projection.apply(change)
        first, second = (item.id for item in change.entities)
        for _ in range(2):
            await projection.apply(ProjectionChange(removed={OutboxKind.ENTITIES: [first, "ent-none"]}))
        assert await projection.scan(OutboxKind.ENTITIES, "", 9) == [second]
        moved = {Collection.ENTITIES: {second: unit_vector("elsewhere")}}
        await projection.apply(ProjectionChange(entities=(change.entities[1],), vectors=moved))
        (hit,) = await projection.search(Collection.ENTITIES, unit_vector("elsewhere"), 9, -1.0)
        assert hit.id == second
        assert abs(hit.score - 1) < 1e-3

    async def test_what_is_kept_otherwise_is_named(self, projection: VectorProjection) -> None:
        change = example_change("a.md", ["X", "Y"], [("X", "Y", 2.0)])
        await projection.apply(change)
        assert await projection.compare(change) == set()
        first, second = (item.id for item in change.entities)
        moved = {**change.vectors[Collection.ENTITIES], first: unit_vector("elsewhere")}
        changed = replace(change, vectors={**change.vectors, Collection.ENTITIES: moved})
        assert await projection.compare(changed) == {first}
        await projection.apply(ProjectionChange(removed={OutboxKind.ENTITIES: [second]}))
        assert await projection.compare(change) == {second}
        assert await projection.find_faults() == []

    async def test_cleared_vectors_are_gone(self, projection: VectorProjection) -> None:
        change = example_change("a.md", ["X"])
        await projection.apply(change)
        await projection.clear()
        for collection in Collection:
            assert await projection.search(collection, unit_vector("x"), 9, -1.0) == []
        await projection.apply(change)
        assert await projection.scan(OutboxKind.ENTITIES, "", 9) == [change.entities[0].id]


class TextProjectionContract(_ProjectionContract):
    """Tests of a projection of full text."""

    async def test_change_taken_in_twice_is_there_once(self, projection: TextProjection) -> None:
        change = example_change("a.md", ["Grey Owl", "River"])
        other = _reworded(example_change("b.md"), "owl")
        for one in (change, other, change):
            await projection.apply(one)
        ids = [change.chunks[0].id, other.chunks[0].id]
        assert await projection.scan(OutboxKind.CHUNKS, "", 9) == sorted(ids)
        assert await projection.scan(OutboxKind.CHUNKS, min(ids), 9) == [max(ids)]
        assert await projection.scan(OutboxKind.ENTITIES, "", 9) == sorted(item.id for item in change.entities)
        assert len(await projection.scan(OutboxKind.ENTITIES, "", 1)) == 1
        (hit,) = await projection.search(Collection.ENTITIES, ["owl", "nothing"], 9)
        assert hit.id == change.entities[0].id
        # The chunk with fewer terms scores higher.
        hits = await projection.search(Collection.CHUNKS, ["owl"], 9)
        assert [hit.id for hit in hits] == [ids[1], ids[0]]
        assert [hit.id for hit in await projection.search(Collection.CHUNKS, ["owl"], 1)] == [ids[1]]

    async def test_rare_terms_count_more(self, projection: TextProjection) -> None:
        changes = [_reworded(example_change(f"{number}.md"), "common", f"n{number}") for number in range(9)]
        for change in changes:
            await projection.apply(change)
        hits = await projection.search(Collection.CHUNKS, ["common", "n4"], 9)
        assert hits[0].id == changes[4].chunks[0].id
        assert len(hits) == 9
        assert hits[0].score > hits[1].score

    async def test_phrases_are_terms_one_after_the_other(self, projection: TextProjection) -> None:
        changes = [_reworded(example_change(f"{words}.md"), *words.split()) for words in ("a b c", "b a c", "d a b")]
        for change in changes:
            await projection.apply(change)
        found = await projection.find_phrases(Collection.CHUNKS, [("a", "b"), ("c", "d"), ()], 9)
        assert [sorted(ids) for ids in found] == [sorted([changes[0].chunks[0].id, changes[2].chunks[0].id]), [], []]
        assert [len(ids) for ids in await projection.find_phrases(Collection.CHUNKS, [("a",)], 2)] == [2]

    async def test_new_terms_take_the_place_of_the_old_and_what_is_gone_is_removed(
        self, projection: TextProjection
    ) -> None:
        change = example_change("a.md", ["Grey Owl", "River"])
        await projection.apply(change)
        await projection.apply(_reworded(change, "changed"))
        assert await projection.search(Collection.CHUNKS, ["owl"], 9) == []
        assert [hit.id for hit in await projection.search(Collection.CHUNKS, ["changed"], 9)] == [change.chunks[0].id]
        gone = {OutboxKind.CHUNKS: [change.chunks[0].id, "chunk-none"], OutboxKind.ENTITIES: [change.entities[0].id]}
        for _ in range(2):
            await projection.apply(ProjectionChange(removed=gone))
        assert await projection.search(Collection.CHUNKS, ["changed"], 9) == []
        assert await projection.search(Collection.ENTITIES, ["owl"], 9) == []
        assert await projection.scan(OutboxKind.ENTITIES, "", 9) == [change.entities[1].id]

    async def test_what_is_kept_otherwise_is_named(self, projection: TextProjection) -> None:
        change = example_change("a.md", ["Grey Owl", "River"])
        await projection.apply(change)
        assert await projection.compare(change) == set()
        assert await projection.compare(_reworded(change, "changed")) == {change.chunks[0].id}
        await projection.apply(ProjectionChange(removed={OutboxKind.ENTITIES: [change.entities[0].id]}))
        assert await projection.compare(change) == {change.entities[0].id}
        assert await projection.find_faults() == []

    async def test_cleared_text_is_gone_and_counts_for_nothing(self, projection: TextProjection) -> None:
        change = example_change("a.md", ["Grey Owl"])
        await projection.apply(change)
        before = await projection.search(Collection.CHUNKS, ["owl"], 9)
        await projection.clear()
        assert await projection.search(Collection.CHUNKS, ["owl"], 9) == []
        assert await projection.scan(OutboxKind.CHUNKS, "", 9) == []
        await projection.apply(change)
        after = await projection.search(Collection.CHUNKS, ["owl"], 9)
        assert [(hit.id, round(hit.score, 6)) for hit in after] == [(hit.id, round(hit.score, 6)) for hit in before]


def _reworded(change: ProjectionChange, *terms: str) -> ProjectionChange:
    return replace(change, texts={**change.texts, Collection.CHUNKS: (TextEntry(change.chunks[0].id, terms),)})


class CacheProjectionContract(_ProjectionContract):
    """Tests that cached replies are dropped together with their subjects."""

    async def test_replies_go_with_their_subject_but_those_that_stay(self, projection: CacheProjection) -> None:
        for key, subject in (("a:extract:1", "chunk-1"), ("a:extract:2", "chunk-1"), ("a:keywords:3", "")):
            await projection.put_reply(_reply(key, subject))
        gone = {OutboxKind.SUBJECTS: ["chunk-1", "chunk-none", ""]}
        for _ in range(2):
            await projection.apply(ProjectionChange(removed=gone, kept_replies=("a:extract:2",)))
        kept = [await projection.get_reply(key) is not None for key in ("a:extract:1", "a:extract:2", "a:keywords:3")]
        assert kept == [False, True, True]

    async def test_new_version_drops_answers(self, projection: CacheProjection) -> None:
        await projection.put_reply(_reply("mix:query:1", ""))
        await projection.put_reply(_reply("mix:keywords:1", ""))
        await projection.set_cursor(3)
        assert await projection.get_reply("mix:query:1") is None
        assert await projection.get_reply("mix:keywords:1") == _reply("mix:keywords:1", "")

    async def test_replies_are_dropped_by_type(self, projection: CacheProjection) -> None:
        for key in ("a:extract:1", "a:keywords:2"):
            await projection.put_reply(_reply(key, ""))
        assert await projection.delete_replies("extract") == 1
        assert await projection.delete_replies() == 1

    async def test_cleared_cache_is_empty(self, projection: CacheProjection) -> None:
        await projection.put_reply(_reply("a:extract:1", "chunk-1"))
        await projection.clear()
        assert await projection.get_reply("a:extract:1") is None


_NOW = utc_now()


def _reply(key: str, subject: str) -> CachedReply:
    return CachedReply(key, f"reply to {key}", "model", Usage(2, 3), _NOW, subject)
