"""Whatever documents came, changed and went: a view equals a store that never held any others."""

# pyright: reportPrivateUsage=false

from __future__ import annotations

import asyncio
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from heliograph.embedding.base import EmbeddingInfo
from heliograph.filters import And, Equals, Filter, HasChunk
from heliograph.ids import document_id, name_to_entity_id
from heliograph.ingest.merging import EvidenceFold
from heliograph.ingest.models import NewDocument
from heliograph.settings import IngestSettings, StoreSettings
from heliograph.stores.base import DocumentQuery, StoreView
from heliograph.stores.changeset import Collection
from heliograph.stores.registry import open_store
from heliograph.stores.sqlite.database import ThreadLock
from heliograph.stores.sqlite.store import SqliteStore
from heliograph.stores.sqlite.view import SqliteReader, SqliteScope
from heliograph.stores.view import ScopedReading, ScopeMemory
from heliograph.testing.fakes import FakeEmbeddingModel
from tests.memory_store import MemoryStore
from tests.unit.ingest.world import make_pipeline

DIMENSION = 16
RED = Equals("team", "red")
FOLD = EvidenceFold.of(IngestSettings())
PARAGRAPHS = (
    "Ann (person): Lives in Bonn.\nBonn (place): A town.\nAnn -> Bonn [lives] 1.0: Ann lives in Bonn.",
    "ann (girl): Likes Rex.\nrex -> ANN [likes, trusts] 2.0: Rex trusts her.",
    "BONN (city): On the Rhine.\nRex (dog): A dog.\nBonn -> Rex [home] 0.3: Rex lives there.",
    "Nothing is said here.",
)
TEXTS = st.lists(st.sampled_from(PARAGRAPHS), min_size=1, max_size=3).map("\n\n".join)
STEPS = st.lists(st.tuples(st.sampled_from("abcd"), st.sampled_from(["red", "blue"]), st.none() | TEXTS), max_size=6)


async def contents(view: StoreView) -> dict[str, Any]:
    """All that a view shows, without moments."""
    documents = (await view.records.find_documents(DocumentQuery(sort="source"))).documents
    chunks = [chunk for item in documents for chunk in await view.records.get_document_chunks(item.id)]
    entities = await view.graph.list_entities(0, 100)
    ids = [entity.id for entity in entities]
    ranked = await view.graph.rank_incident_relations(ids)
    relations = await view.graph.get_relations([item.id for item in ranked])
    evidence = await view.records.get_evidence(ids, [item.id for item in ranked], 3)
    return {
        "documents": [item.source for item in documents],
        "texts": [await view.records.get_document_text(item.id) for item in documents],
        "chunks": [(chunk.text, chunk.position) for chunk in chunks],
        "entities": [replace(item, created_at=0, chunk_ids=()) for item in entities],
        "relations": [replace(item, created_at=0, chunk_ids=()) for item in relations],
        "ranked": ranked,
        "counts": [item.mention_count for part in evidence for item in part],
        "remembered": await touch(view),
    }


async def touch(view: StoreView) -> tuple[Any, ...]:
    """Read what a scope remembers of entities without folding them: names, and where they are mentioned."""
    ids = [name_to_entity_id(name) for name in ("Ann", "Bonn", "Rex")]
    places = [item for most in (1, 3) for item in await view.records.get_mention_places(ids, most)]
    counted = [(item.id, item.mention_count, item.subjects, len(item.chunk_ids)) for item in places]
    return dict(await view.graph.get_entity_names(ids)), counted


@settings(deadline=None, max_examples=25)
@given(STEPS)
async def test_view_equals_a_store_of_the_matching_documents(steps: list[tuple[str, str, str | None]]) -> None:
    left: dict[str, NewDocument] = {}
    with tempfile.TemporaryDirectory() as folder:
        where = StoreSettings(data_dir=Path(folder), durability="normal")  # pyright: ignore[reportCallIssue]
        store = await open_store(where, EmbeddingInfo("fake", DIMENSION, 512))
        pipeline = make_pipeline(store, embedding=FakeEmbeddingModel(DIMENSION))
        view = store.view(Equals("team", "red"), FOLD)
        for source, team, text in steps:
            if text is None:
                left.pop(source, None)
                await pipeline.delete([document_id(source)])
            else:
                left[source] = NewDocument(text, source, "Title", metadata={"team": team})
                await pipeline.insert([left[source]])
            await touch(view)
            await view.graph.list_entities(0, 5)
        found = await contents(view)
        await store.close()
    only = MemoryStore()
    for document in left.values():
        if document.metadata == {"team": "red"}:
            await make_pipeline(only, embedding=FakeEmbeddingModel(DIMENSION)).insert([document])
    assert found == await contents(only)


@settings(deadline=None, max_examples=25)
@given(STEPS, st.sampled_from([RED, And((RED, HasChunk(Equals("page", 2))))]))
async def test_scope_brought_up_to_a_commit_equals_one_made_anew(
    steps: list[tuple[str, str, str | None]], filter_: Filter
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        where = StoreSettings(data_dir=Path(folder), durability="normal")  # pyright: ignore[reportCallIssue]
        store = await open_store(where, EmbeddingInfo("fake", DIMENSION, 512))
        assert isinstance(store, SqliteStore)
        store.view(filter_, FOLD)  # from the first view on, commits are noted
        assert store._scopes is not None
        pipeline = make_pipeline(store, embedding=FakeEmbeddingModel(DIMENSION))
        await pipeline.insert([NewDocument(text, f"first {team}", metadata={"team": team}) for team, text in FIRST])
        for source, team, text in steps:
            if text is None:
                await pipeline.delete([document_id(source)])
            else:
                starts = (0, len(f"{source}\n\n"))
                text = f"{source}\n\n{text}"
                await pipeline.insert([NewDocument(text, source, metadata={"team": team}, page_starts=starts)])
            kept = await scope_of(store, filter_, store._scopes)
            assert kept == await scope_of(store, filter_, ScopeMemory(ThreadLock))
        await store.close()


async def test_scope_is_made_once_while_documents_come_change_and_go(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    where = StoreSettings(data_dir=tmp_path, durability="normal")  # pyright: ignore[reportCallIssue]
    store = await open_store(where, EmbeddingInfo("fake", DIMENSION, 512))
    pipeline = make_pipeline(store, embedding=FakeEmbeddingModel(DIMENSION))
    await pipeline.insert([NewDocument(text, f"first {team}", metadata={"team": team}) for team, text in FIRST])
    view = store.view(Equals("team", "red"), FOLD)
    shown = [item.name for item in await view.graph.list_entities(0, 9)]

    def refuse(*_: object) -> None:
        raise AssertionError("the scope is made anew")

    monkeypatch.setattr("heliograph.stores.sqlite.view._make_scope", refuse)
    await pipeline.insert([NewDocument(f"More.\n\n{PARAGRAPHS[2]}", "more", metadata={"team": "red"})])
    assert "Rex" in {item.name for item in await view.graph.list_entities(0, 9)} - set(shown)
    await pipeline.insert([NewDocument(f"Less.\n\n{PARAGRAPHS[1]}", "more", metadata={"team": "red"})])
    await pipeline.delete([document_id("more")])
    assert [item.name for item in await view.graph.list_entities(0, 9)] == shown
    await store.close()


FIRST = (("red", PARAGRAPHS[0]), ("blue", PARAGRAPHS[2]))


async def scope_of(store: SqliteStore, filter_: Filter, memory: ScopeMemory[SqliteScope]) -> dict[str, Any]:
    """All that the scope of a filter says; relations by the keys of their ends, since they may be grouped or not."""

    async def look(reading: ScopedReading) -> dict[str, Any]:
        scope = reading.scope
        assert isinstance(scope, SqliteScope)
        entities = scope.entities.keys
        touching = [scope.touching(np.array([place])).tolist() for place in range(len(entities))]
        return {
            **{kind: scope.keys_of(kind).keys.tolist() for kind in ("documents", "chunks", "entities", "relations")},
            "moments": scope.moments.tolist(),
            "degrees": scope.degrees.tolist(),
            "ends": entities[scope.ends].tolist(),
            "weights": scope.weights.tolist(),
            "touching": touching,
            "counts": [len(places) for places in touching] == scope.degrees.tolist(),
        }

    reader = SqliteReader(*store._read_in_views, memory, filter_, FOLD)
    return await reader.read(look)


async def test_views_are_exact_while_documents_come_and_go(tmp_path: Path) -> None:
    where = StoreSettings(data_dir=tmp_path, durability="normal")  # pyright: ignore[reportCallIssue]
    embedding = FakeEmbeddingModel(DIMENSION)
    store = await open_store(where, EmbeddingInfo("fake", DIMENSION, 512))
    pipeline = make_pipeline(store, embedding=embedding)
    view = store.view(Equals("team", "red"), FOLD)
    (vector,) = (await embedding.embed(["Ann"], "query")).vectors

    async def write(team: str) -> None:
        for number in range(12):
            text = f"Ann (person): Fact {number} of {team}.\nThing {number} {team} (thing): Said by {team}."
            await pipeline.insert([NewDocument(text, f"{team}-{number % 4}", metadata={"team": team})])

    async def read() -> None:
        for _ in range(40):
            hits = await view.vectors.search(Collection.ENTITIES, vector, 50, -1.0)
            shown = [*await view.graph.get_entities([hit.id for hit in hits]), *await view.graph.list_entities(0, 50)]
            assert "blue" not in repr(shown)

    await asyncio.gather(write("red"), write("blue"), read(), read())
    assert len(await view.graph.list_entities(0, 50)) == 5
    await store.close()
