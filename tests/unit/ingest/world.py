"""A small world for ingest: an extractor that reads what the text spells out, and snapshots of all projections.

A line `Name (type): description` is an entity, a line `A -> B [keywords] 2.0: description` a relation, a line
`Name = Alias` gives an alias. Paragraphs are chunks.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from heliograph.errors import HeliographError
from heliograph.extraction.base import Extractor, ignore_progress
from heliograph.ids import clean_name, mention_rank
from heliograph.ingest.chunking import TokenChunker
from heliograph.ingest.pipeline import IngestPipeline
from heliograph.models import AliasMention, Chunk, Document, EntityMention, Extraction, RelationMention, Usage
from heliograph.settings import IngestSettings
from heliograph.stores.base import DocumentQuery, Store
from heliograph.stores.changeset import Collection
from heliograph.testing.fakes import FakeEmbeddingModel
from heliograph.text.analysis import terms

_ENTITY = re.compile(r"(.+?) \((\w+)\): (.*)")
_ALIAS = re.compile(r"(.+?) = (.+)")
_RELATION = re.compile(r"(.+?) -> (.+?) \[(.*?)\] ([\d.]+): (.*)")


class SpelledExtractor(Extractor):
    """Reads entities and relations that are spelled out line by line.

    Attributes:
        read: Texts of the chunks read, in order.
        unreadable: Strings; a chunk that contains one gets an error.
        failures: Errors per string; a document with a chunk that contains it raises the error.
        gate: If set, chunks wait for it.
    """

    name = "spelled"

    def __init__(self) -> None:
        self.read: list[str] = []
        self.unreadable: set[str] = set()
        self.failures: dict[str, HeliographError] = {}
        self.gate: asyncio.Event | None = None

    async def extract(
        self, document: Document, chunks: Sequence[Chunk], on_chunk: Callable[[], None] = ignore_progress
    ) -> list[Extraction]:
        if self.gate is not None:
            await self.gate.wait()
        found: list[Extraction] = []
        for chunk in chunks:
            self.read.append(chunk.text)
            for mark, error in self.failures.items():
                if mark in chunk.text:
                    raise error
            found.append(self._extract(document, chunk))
            on_chunk()
        return found

    def _extract(self, document: Document, chunk: Chunk) -> Extraction:
        if any(mark in chunk.text for mark in self.unreadable):
            return Extraction(chunk.id, self.name, error="the reply was no JSON", usage=Usage(1, 1))
        entities: list[EntityMention] = []
        relations: list[RelationMention] = []
        aliases: list[AliasMention] = []
        for line in chunk.text.splitlines():
            if match := _RELATION.fullmatch(line):
                source, target, keywords, weight, description = match.groups()
                rank = mention_rank(document.id, chunk.position, is_subject=False)
                ends = clean_name(source), clean_name(target)
                relations.append(RelationMention(chunk.id, *ends, (keywords,), description, float(weight), rank))
            elif match := _ENTITY.fullmatch(line):
                name, type_, description = match.groups()
                rank = mention_rank(document.id, chunk.position, is_subject=name in document.title)
                entities.append(EntityMention(chunk.id, clean_name(name), type_, description, rank))
            elif match := _ALIAS.fullmatch(line):
                aliases.append(AliasMention(chunk.id, *map(clean_name, match.groups())))
        found = tuple(entities), tuple(relations)
        return Extraction(chunk.id, self.name, *found, usage=Usage(10, 2), aliases=tuple(aliases))


def make_pipeline(
    store: Store,
    extractor: Extractor | None = None,
    embedding: FakeEmbeddingModel | None = None,
    **arguments: Any,
) -> IngestPipeline:
    """A pipeline over fakes whose chunks are paragraphs."""
    settings = arguments.pop("settings", IngestSettings(max_parallel_documents=4))
    return IngestPipeline(
        store,
        embedding or FakeEmbeddingModel(16),
        extractor or SpelledExtractor(),
        arguments.pop("chat", None),
        settings,
        chunker=arguments.pop("chunker", TokenChunker(200, 0, "\n\n")),
        **arguments,
    )


async def snapshot(store: Store) -> dict[str, Any]:
    """All projections, without what legitimately differs between two ways to the same state."""
    documents = (await store.records.find_documents(DocumentQuery(limit=10_000, sort="id"))).documents
    chunks = [chunk for document in documents for chunk in await store.records.get_document_chunks(document.id)]
    entities = sorted(await store.graph.list_entities(0, 10_000), key=lambda entity: entity.id)
    entity_ids = [entity.id for entity in entities]
    relation_ids = sorted(item.id for item in await store.graph.rank_incident_relations(entity_ids))
    evidence = await store.records.get_evidence(entity_ids, relation_ids, 1_000)
    stats = await store.get_stats()
    chunk_ids = [chunk.id for chunk in chunks]
    return {
        "documents": [(item.id, item.title, item.content_hash, item.status, item.chunk_count) for item in documents],
        "texts": [await store.records.get_document_text(item.id) for item in documents],
        "chunks": chunks,
        "extractions": await store.records.get_extractions(chunk_ids),
        "evidence": [{item.id: replace(item, version=0) for item in part} for part in evidence],
        "entities": [replace(entity, created_at=0) for entity in entities],
        "relations": [replace(item, created_at=0) for item in await store.graph.get_relations(relation_ids)],
        "counts": (stats.chunks, stats.entities, stats.relations),
        "chunk vectors": await _vectors(store, Collection.CHUNKS, chunk_ids),
        "entity vectors": await _vectors(store, Collection.ENTITIES, entity_ids),
        "relation vectors": await _vectors(store, Collection.RELATIONS, relation_ids),
        "found": [await store.text.search(Collection.ENTITIES, terms(entity.name), 50) for entity in entities],
    }


async def _vectors(store: Store, collection: Collection, ids: list[str]) -> dict[str, list[float]]:
    vectors = await store.vectors.get_vectors(collection, ids)
    return {id_: vector.tolist() for id_, vector in vectors.items()}
