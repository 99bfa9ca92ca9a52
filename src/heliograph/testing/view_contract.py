"""The part of the conformance suite of stores that covers filtered views, role by role."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from functools import partial

import numpy as np
import pytest

from heliograph.calls.tasks import run_together
from heliograph.filters import And, DocumentIds, Equals, Exists, HasChunk, In, Not, Or, Range, SourcePrefix, Sources
from heliograph.ids import document_id
from heliograph.ids import name_to_entity_id as entity
from heliograph.ids import names_to_relation_id as relation
from heliograph.ingest.merging import EvidenceFold
from heliograph.models import FIELD_SEPARATOR
from heliograph.stores.base import DocumentQuery, Store, StoreView, places_of
from heliograph.stores.changeset import Changeset, Collection, TextEntry
from heliograph.testing.examples import example_changeset, unit_vector

__all__ = ["ViewContract"]

_FOLD = EvidenceFold(10, 10, 1000)
_CHAIN = [("Hub", "A", 1.0), ("A", "B", 1.0), ("B", "C", 1.0)]


def _view(store: Store, *sources: str) -> StoreView:
    """Return a view of the store as if only these documents existed."""
    return store.view(Sources(sources), _FOLD)


async def _fill(store: Store) -> None:
    """Store three documents that share `Hub` and `A`, the last of them under other spellings."""
    await store.apply(example_changeset("one.md", ["Hub", "A", "B", "C"], _CHAIN))
    await store.apply(example_changeset("two.md", ["Hub", "A", "D"], [("Hub", "A", 2.0), ("Hub", "D", 4.0)]))
    await store.apply(example_changeset("three.md", ["HUB", "a", "E"], [("HUB", "a", 8.0), ("HUB", "E", 1.0)]))


class ViewContract:
    """Tests of filtered views."""

    async def test_documents_are_found_by_filter(self, store: Store) -> None:
        await _fill(store)

        async def sources(filter_: DocumentIds | Equals | In | Not | Or | SourcePrefix) -> list[str]:
            page = await store.records.find_documents(DocumentQuery(sort="source", filter=filter_))
            assert page.total == len(page.documents)
            return [document.source for document in page.documents]

        assert await sources(Equals("source", "two.md")) == ["two.md"]
        assert await sources(In("source", ("one.md", "three.md", "none"))) == ["one.md", "three.md"]
        assert await sources(Not(Equals("source", "two.md"))) == ["one.md", "three.md"]
        assert await sources(In("title", ("Two.Md", "Three.Md"))) == ["three.md", "two.md"]
        assert await sources(SourcePrefix("t")) == ["three.md", "two.md"]
        assert await sources(DocumentIds((document_id("one.md"), "doc-none"))) == ["one.md"]
        assert await sources(Or(())) == []

    async def test_view_holds_matching_documents_only(self, store: Store) -> None:
        await _fill(store)
        view = _view(store, "two.md")
        ids = [document_id("one.md"), document_id("two.md")]
        chunks = [chunk.id for id_ in ids for chunk in await store.records.get_document_chunks(id_)]
        assert [item.source for item in await view.records.get_documents(ids)] == ["two.md"]
        assert [item.source for item in (await view.records.find_documents(DocumentQuery())).documents] == ["two.md"]
        assert [await view.records.get_document_text(id_) is None for id_ in ids] == [True, False]
        assert [len(await view.records.get_document_chunks(id_)) for id_ in ids] == [0, 1]
        assert [chunk.id for chunk in await view.records.get_chunks(chunks)] == chunks[1:]
        assert await view.records.get_sources(chunks) == {chunks[1]: "two.md"}
        assert [item.chunk_id for item in await view.records.get_extractions(chunks)] == chunks[1:]

    async def test_work_at_one_moment_reads_every_role_and_ends_with_its_own_error(self, store: Store) -> None:
        await _fill(store)
        for view, expected in ((store, 3), (_view(store, "two.md"), 1)):

            async def read(view: StoreView = view) -> tuple[int, int, int, int]:
                page, degrees, vectors = await run_together(
                    view.records.find_documents(DocumentQuery()),
                    view.graph.find_nodes([entity("Hub")]),
                    view.vectors.search(Collection.CHUNKS, unit_vector("Hub"), 9, -1.0),
                )
                return (
                    page.total,
                    len(degrees),
                    len(vectors),
                    len(await view.text.search(Collection.CHUNKS, ["hub"], 9)),
                )

            async def fail() -> None:
                await read()
                raise KeyError("of the work")

            assert await view.at_one_moment(read) == await read()
            assert (await view.at_one_moment(read))[0] == expected
            assert await view.at_one_moment(partial(view.at_one_moment, read)) == await read()
            with pytest.raises(KeyError, match="of the work"):
                await view.at_one_moment(fail)

    async def test_view_folds_what_matching_documents_say(self, store: Store) -> None:
        await _fill(store)
        view = _view(store, "one.md", "two.md")
        hub, missing = entity("Hub"), entity("E")
        (found,) = await view.graph.get_entities([missing, hub])
        assert (found.name, found.aliases, found.degree) == ("Hub", (), 2)
        assert await view.graph.get_entity_names([missing, hub]) == {hub: "Hub"}
        assert sorted(found.description.split(FIELD_SEPARATOR)) == ["Hub in one.md", "Hub in two.md"]
        assert len(found.chunk_ids) == 2
        (joined,) = await view.graph.get_relations([relation("Hub", "A"), relation("Hub", "E")])
        assert (joined.weight, joined.keywords, len(joined.chunk_ids)) == (3.0, ("links",), 2)
        assert "three.md" not in joined.description
        (other,) = await _view(store, "three.md").graph.get_entities([hub])
        assert (other.name, other.degree, other.description) == ("HUB", 2, "HUB in three.md")

    async def test_view_counts_evidence_of_matching_documents(self, store: Store) -> None:
        await _fill(store)
        view = _view(store, "one.md", "three.md")
        (entities, relations) = await view.records.get_evidence(
            [entity("Hub"), entity("D")], [relation("Hub", "A"), relation("Hub", "D")], 1
        )
        assert [(item.id, item.names, item.mention_count) for item in entities] == [
            (entity("Hub"), {"Hub": 1, "HUB": 1}, 2)
        ]
        assert [len(item.leading) for item in (*entities, *relations)] == [1, 1]
        assert [(item.id, item.weight_millionths) for item in relations] == [(relation("Hub", "A"), 9_000_000)]
        (entities, _) = await view.records.get_evidence([entity("Hub")], [], 2)
        places = await view.records.get_mention_places([entity("Hub"), entity("D")], 2)
        assert places == [places_of(entities[0], 2)]
        (common,) = await view.records.get_mention_places([entity("Hub")], 1)
        assert (common.mention_count, common.chunk_ids) == (2, ())

    async def test_view_ranks_and_walks_what_is_left(self, store: Store) -> None:
        await _fill(store)
        view = _view(store, "one.md")
        ranked = await view.graph.rank_incident_relations([entity("Hub"), entity("A"), entity("E")])
        expected = [(relation("A", "B"), 4, 1.0), (relation("Hub", "A"), 3, 1.0)]
        assert [(item.id, item.degree, item.weight) for item in ranked] == expected
        assert [item.name for item in await view.graph.list_entities(0, 10)] == ["A", "B", "C", "Hub"]
        assert [item.name for item in await view.graph.list_entities(1, 2)] == ["B", "C"]
        assert [item.name for item in await view.graph.list_entities_of_type("thing", 1, 2)] == ["B", "C"]
        around = await view.graph.get_neighbourhood(entity("Hub"), 2, 10)
        assert [item.name for item in around.entities] == ["Hub", "A", "B"]
        assert len(around.relations) == 2
        among = await view.graph.find_relations_among([entity("Hub"), entity("A"), entity("E")])
        assert [item.id for item in among] == [relation("Hub", "A")]
        assert (await view.graph.get_neighbourhood(entity("Hub"), 2, 2)).is_truncated
        assert (await view.graph.get_neighbourhood(entity("E"), 2, 10)).entities == ()
        (path,) = await view.graph.find_shortest_paths(entity("Hub"), entity("C"), 5, 5)
        assert [item.name for item in path.entities] == ["Hub", "A", "B", "C"]
        assert await view.graph.find_shortest_paths(entity("Hub"), entity("C"), 2, 5) == []
        assert await view.graph.find_shortest_paths(entity("Hub"), entity("E"), 5, 5) == []

    async def test_view_searches_what_is_left(self, store: Store) -> None:
        for number in range(120):
            await store.apply(example_changeset(f"{number}.md", [f"Thing {number}"], text=f"common words {number}"))
        few = await self._hits(store, [f"{number}.md" for number in range(3)])
        assert [len(found) for found in few] == [3, 3, 3]
        assert set(few[1]) == {entity(f"Thing {number}") for number in range(3)}
        most = await self._hits(store, [f"{number}.md" for number in range(110)])
        assert [len(found) for found in most] == [110, 110, 110]

    async def _hits(self, store: Store, sources: list[str]) -> list[list[str]]:
        view = _view(store, *sources)
        vector = unit_vector("anything")
        chunks = await view.vectors.search(Collection.CHUNKS, vector, 1000, -1.0)
        entities = await view.vectors.search(Collection.ENTITIES, vector, 1000, -1.0)
        words = await view.text.search(Collection.CHUNKS, ["common"], 1000)
        nearest = await view.vectors.search(Collection.CHUNKS, vector, 2, -1.0)
        assert nearest == chunks[:2]
        assert await view.vectors.rank(Collection.CHUNKS, vector, [*(hit.id for hit in chunks), "none"], 2) == nearest
        stored = await view.vectors.get_vectors(Collection.CHUNKS, [hit.id for hit in chunks])
        assert all(np.isclose(stored[hit.id] @ vector, hit.score, atol=1e-5) for hit in chunks)
        return [[hit.id for hit in hits] for hits in (chunks, entities, words)]

    async def test_view_finds_entities_by_the_names_that_are_left(self, store: Store) -> None:
        await store.apply(example_changeset("one.md", ["Grey Owl"]))
        names = replace(example_changeset("two.md", ["GREY OWL"]), texts={})
        await store.apply(names)
        assert len(await _view(store, "one.md").text.search(Collection.ENTITIES, ["owl"], 5)) == 1
        assert await _view(store).text.search(Collection.ENTITIES, ["owl"], 5) == []
        found = await _view(store, "one.md").text.find_phrases(
            Collection.ENTITIES, [["grey", "owl"], ["owl", "grey"]], 5
        )
        assert found == [[entity("Grey Owl")], []]
        assert await _view(store).text.find_phrases(Collection.ENTITIES, [["grey", "owl"]], 5) == [[]]
        assert await _view(store).text.hold_phrases(Collection.ENTITIES, [["grey", "owl"]]) == [False]

    async def test_view_looks_past_the_many_that_have_a_phrase_elsewhere(self, store: Store) -> None:
        changeset = example_changeset("one.md", [*(f"Bird {number}" for number in range(20)), "Grey Owl"])
        called = {id_: TextEntry(id_, ("grey", "owl")) for id_ in (item.id for item in changeset.entities)}
        await store.apply(replace(changeset, texts={Collection.ENTITIES: tuple(called.values())}))
        phrases = [["grey", "owl"], ["owl", "grey"]]
        found = await _view(store, "one.md").text.find_phrases(Collection.ENTITIES, phrases, 1)
        assert found == [[entity("Grey Owl")], []]

    async def test_view_has_only_chunks_that_meet_the_condition_on_chunks(self, store: Store) -> None:
        first = example_changeset("one.md", ["Hub", "A"], [("Hub", "A", 1.0)])
        other = example_changeset("two.md", ["Hub", "B"], [("Hub", "B", 2.0)])
        (document,), (left,) = first.documents, other.chunks
        left = replace(left, document_id=document.id, position=1, page=2, headings=("Top", "Inner"))
        await store.apply(first)
        await store.apply(replace(other, documents=(), document_texts={}, chunks=(left,)))
        view = store.view(And((Sources(("one.md",)), HasChunk(Range("page", gte=2)))), _FOLD)
        assert await view.records.get_chunks([first.chunks[0].id, left.id]) == [left]
        assert await view.records.get_document_chunks(document.id) == [left]
        assert [item.name for item in await view.graph.list_entities(0, 10)] == ["B", "Hub"]
        (hub,) = await view.graph.get_entities([entity("Hub")])
        assert (hub.description, hub.degree, hub.chunk_ids) == ("Hub in two.md", 1, (left.id,))
        (found,) = await view.graph.get_relations([relation("Hub", "A"), relation("Hub", "B")])
        assert found.weight == 2.0
        hits = await view.vectors.search(Collection.CHUNKS, unit_vector("x"), 10, -1.0)
        assert [hit.id for hit in hits] == [left.id]
        assert [hit.id for hit in await view.text.search(Collection.CHUNKS, ["hub"], 10)] == [left.id]
        wanted = [HasChunk(Equals("headings", "Inner")), HasChunk(Equals("page", 3)), HasChunk(Not(Exists("page")))]
        pages = [await store.records.find_documents(DocumentQuery(filter=condition)) for condition in wanted]
        assert [page.total for page in pages] == [1, 0, 0]
        await store.apply(Changeset(documents=(document,), chunks=(replace(left, page=1),)))
        assert await view.records.get_chunks([left.id]) == []
        assert await view.graph.list_entities(0, 10) == []

    async def test_view_follows_the_documents(self, store: Store) -> None:
        await store.apply(example_changeset("one.md", ["Hub"]))
        view = store.view(Equals("source", "one.md"), _FOLD)
        assert [item.name for item in await view.graph.get_entities([entity("Hub")])] == ["Hub"]
        (document,) = await store.records.get_documents([document_id("one.md")])
        await store.apply(Changeset(documents=(replace(document, metadata={"source": "other"}),)))
        assert await view.graph.get_entities([entity("Hub")]) == []
        assert await view.records.get_documents([document.id]) == []
        await store.apply(Changeset(documents=(document,)))
        assert len(await view.graph.get_entities([entity("Hub")])) == 1

    async def test_twin_has_the_chunks_of_its_original_in_a_view(self, store: Store) -> None:
        changeset = example_changeset("one.md", ["Hub", "A"], [("Hub", "A", 1.0)])
        await store.apply(changeset)
        (original,), (chunk,) = changeset.documents, changeset.chunks
        moment = original.created_at - timedelta(days=1)
        for source, title in (("twin.md", original.title), ("other.md", original.title), ("strange.md", "Strange")):
            twin = replace(original, id=document_id(source), source=source, title=title, twin_of=original.id)
            await store.apply(Changeset(documents=(replace(twin, created_at=moment, chunk_count=0),)))
        view = _view(store, "twin.md", "other.md", "strange.md")
        first, second = sorted((document_id("twin.md"), document_id("other.md")))
        found = await view.records.get_documents([first, second, original.id])
        assert [(item.id, item.twin_of) for item in found] == [(first, ""), (second, first)]
        assert {item.twin_of for item in (await view.records.find_documents(DocumentQuery())).documents} == {"", first}
        assert await view.records.get_chunks([chunk.id]) == [replace(chunk, document_id=first)]
        assert await view.records.get_document_chunks(first) == [replace(chunk, document_id=first)]
        assert await view.records.get_document_chunks(second) == []
        assert await view.records.get_document_text(first) == changeset.document_texts[original.id]
        assert await view.records.get_sources([chunk.id]) == {chunk.id: found[0].source}
        others = [document_id("twin.md"), document_id("other.md"), document_id("strange.md")]
        others.remove(first)
        twins = {item.id: item.source for item in await store.records.get_documents(others)}
        assert await view.records.get_twin_sources([chunk.id]) == {chunk.id: tuple(twins[id_] for id_ in sorted(twins))}
        assert await _view(store, "one.md").records.get_twin_sources([chunk.id]) == {}
        (hub,) = await view.graph.get_entities([entity("Hub")])
        assert (hub.chunk_ids, hub.created_at) == ((chunk.id,), int(moment.timestamp()))
        assert await _view(store, "strange.md").records.get_chunks([chunk.id]) == []
        assert await _view(store, "one.md", "twin.md").records.get_sources([chunk.id]) == {chunk.id: "one.md"}

    async def test_view_of_nothing_is_empty(self, store: Store) -> None:
        await _fill(store)
        view = _view(store)
        vector = unit_vector("x")
        assert (await view.records.find_documents(DocumentQuery())).total == 0
        assert await view.graph.list_entities(0, 10) == []
        assert await view.graph.rank_incident_relations([entity("Hub")]) == []
        assert await view.records.get_evidence([entity("Hub")], [relation("Hub", "A")], 5) == ([], [])
        for collection in Collection:
            assert await view.vectors.search(collection, vector, 10, -1.0) == []
        assert await view.text.search(Collection.CHUNKS, ["hub", "first"], 10) == []
        assert await view.graph.find_shortest_paths(entity("Hub"), entity("Hub"), 3, 3) == []

    async def test_what_people_deleted_is_not_in_a_view(self, store: Store) -> None:
        await _fill(store)
        gone = Changeset(removed_relations=(relation("Hub", "A"),), removed_entities=(entity("B"),))
        await store.apply(gone)
        view = _view(store, "one.md", "two.md")
        assert await view.graph.get_entities([entity("B")]) == []
        assert await view.graph.get_relations([relation("Hub", "A"), relation("B", "C")]) == []
        assert [item.id for item in await view.graph.rank_incident_relations([entity("Hub")])] == [relation("Hub", "D")]
