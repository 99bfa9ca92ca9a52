"""What a workspace holds in the end, to be compared with what a fresh one makes of the same documents and curations."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path

from benchmarks.operations_writer import open_workspace
from heliograph import AsyncHeliograph
from heliograph.ingest.models import NewDocument
from heliograph.models import Curation, Document, Stats, utc_now
from heliograph.stores.base import CurationQuery, DocumentQuery, Store
from heliograph.stores.changeset import Collection
from heliograph.text.analysis import terms

__all__ = ["State", "describe_difference", "read_state", "start_afresh"]

_ALL = 1_000_000
_EPOCH = utc_now()


@dataclass(frozen=True, slots=True)
class State:
    """Everything by id, without moments in time and names of batches; equal states answer every question the same."""

    documents: Mapping[str, Document]
    texts: Mapping[str, str | None]
    chunks: Mapping[str, object]
    extractions: Mapping[str, object]
    entities: Mapping[str, object]
    relations: Mapping[str, object]
    evidence: Mapping[str, object]
    vectors: Mapping[str, bytes]
    found: Mapping[str, tuple[str, ...]]
    curations: Mapping[str, Curation]
    counts: Mapping[str, int]

    def text_by_source(self) -> dict[str, str]:
        """Return what the documents say."""
        return {item.source: self.texts[item.id] or "" for item in self.documents.values()}


async def read_state(store: Store) -> State:
    """Read a whole workspace through the contracts."""
    records, graph = store.records, store.graph
    documents = (await records.find_documents(DocumentQuery(limit=_ALL))).documents
    chunks = {chunk.id: chunk for item in documents for chunk in await records.get_document_chunks(item.id)}
    extractions = {item.chunk_id: item for item in await records.get_extractions(list(chunks))}
    entities = {item.id: replace(item, created_at=0) for item in await graph.list_entities(0, _ALL)}
    found = await graph.get_relations([item.id for item in await graph.rank_incident_relations(list(entities))])
    relations = {item.id: replace(item, created_at=0) for item in found}
    evidence = await records.get_evidence(list(entities), list(relations), 1_000)
    page = await store.curations.find_curations(CurationQuery(limit=_ALL))
    return State(
        documents={item.id: replace(item, created_at=_EPOCH, updated_at=_EPOCH, track_id="") for item in documents},
        texts={item.id: await records.get_document_text(item.id) for item in documents},
        chunks=chunks,
        extractions=extractions,
        entities=entities,
        relations=relations,
        evidence={item.id: replace(item, version=0) for part in evidence for item in part},
        vectors=await _read_vectors(store, list(chunks), list(entities), list(relations)),
        found=await _search(store, [item.name for item in entities.values()]),
        curations={item.id: item for item in page.curations},
        counts=_counts(await store.get_stats()),
    )


async def start_afresh(folder: Path, state: State, order: random.Random) -> State:
    """Return what a fresh workspace makes of the documents and the active curations, whichever come first.

    Args:
        folder: Where it shall be.
        state: Holds the documents and curations.
        order: Draws the order of the documents and of all of them and the curations.
    """
    documents = [
        NewDocument(state.texts[item.id] or "", item.source, metadata=item.metadata)
        for item in state.documents.values()
    ]
    order.shuffle(documents)
    begins_with_curations = order.random() < 0.5
    async with open_workspace(folder) as kb:
        if begins_with_curations:
            await _replay(kb, state)
        await kb.insert(documents)
        if not begins_with_curations:
            await _replay(kb, state)
        return await read_state(kb.store)


def describe_difference(left: State, right: State) -> str:
    """Return which parts differ, and an example of each; empty if none does. Curations are left out."""
    parts = [part.name for part in fields(State) if part.name != "curations"]
    return "; ".join(found for name in parts if (found := _describe(name, getattr(left, name), getattr(right, name))))


def _describe(name: str, left: Mapping[str, object], right: Mapping[str, object]) -> str:
    keys = [key for key in {**left, **right} if left.get(key) != right.get(key)]
    if not keys:
        return ""
    return f"{len(keys)} {name}, for one {keys[0]}: {left.get(keys[0])!r:.600} and {right.get(keys[0])!r:.600}"


async def _replay(kb: AsyncHeliograph, state: State) -> None:
    await (await kb._curation()).curator.replay([item for item in state.curations.values() if item.is_active])


async def _read_vectors(store: Store, chunks: list[str], entities: list[str], relations: list[str]) -> dict[str, bytes]:
    parts = {Collection.CHUNKS: chunks, Collection.ENTITIES: entities, Collection.RELATIONS: relations}
    return {
        id_: vector.tobytes()
        for collection, ids in parts.items()
        for id_, vector in (await store.vectors.get_vectors(collection, ids)).items()
    }


async def _search(store: Store, names: list[str]) -> dict[str, tuple[str, ...]]:
    """Return what full text finds for each name, by id: scores depend on the order of sums in the last digits."""
    return {
        f"{collection} {name}": tuple(sorted(hit.id for hit in await store.text.search(collection, terms(name), _ALL)))
        for collection in (Collection.ENTITIES, Collection.CHUNKS)
        for name in names
    }


def _counts(stats: Stats) -> dict[str, int]:
    documents = sum(stats.documents.values())
    return {"documents": documents, "chunks": stats.chunks, "entities": stats.entities, "relations": stats.relations}
