"""What a filter leaves of the embedded store: the roles of a `StoreView`, but the graph's.

Every read looks up the scope in its own transaction and asks for allowed keys only, so a document that ceases to match
is gone with the commit that says so.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import apsw
import numpy as np
from numpy.typing import NDArray

from heliograph.filters import And
from heliograph.models import Chunk, Document, EntityEvidence, EntityMention, Extraction, RelationEvidence
from heliograph.stores.base import (
    DocumentPage,
    DocumentQuery,
    EntityPlaces,
    Hit,
    RecordsStore,
    StoreView,
    TextStore,
    VectorStore,
)
from heliograph.stores.changeset import Collection
from heliograph.stores.sqlite.identity import find_ids
from heliograph.stores.sqlite.known_ids import KnownIds
from heliograph.stores.sqlite.records import (
    CHUNKS_BY_DOCUMENT,
    CHUNKS_BY_ID,
    DOCUMENTS_BY_ID,
    TEXT_BY_DOCUMENT,
    find_documents,
    grouped,
    read_entity_mentions,
    read_extractions,
    read_sources,
    to_chunk,
    to_document,
)
from heliograph.stores.sqlite.scope import Scope
from heliograph.stores.sqlite.scoped import ScopedReader
from heliograph.stores.sqlite.scoped_evidence import (
    fold_entities,
    keys_within,
    read_entity_evidence,
    read_places_within,
    read_relation_evidence,
)
from heliograph.stores.sqlite.scoped_graph import ScopedGraphStore
from heliograph.stores.sqlite.sql import array, fetch, fetch_value
from heliograph.stores.sqlite.text import SEARCHED, distinct_terms, find_texts, phrase_keys, to_hits
from heliograph.stores.sqlite.text_accelerator import TextAccelerator
from heliograph.stores.sqlite.vector_accelerator import VectorAccelerator
from heliograph.stores.sqlite.vectors import find_nearest, read_vectors

# Entities found in full text at first, per one asked for; where too few have such names here, all are.
_HITS_PER_HIT = 8
_LEAST_HITS = 64
_TWINS_BY_CHUNK = """SELECT identity.id, document_key, twin.key, twin.source FROM carray(?) AS wanted
                     CROSS JOIN identity ON identity.id = wanted.value CROSS JOIN chunk USING (key)
                     CROSS JOIN document AS twin ON twin.twin_key = chunk.document_key
                     CROSS JOIN identity AS twin_identity ON twin_identity.key = twin.key
                     WHERE twin.status IN ('processed', 'partial') ORDER BY twin_identity.id"""


class SqliteView(StoreView):
    """The embedded store under one filter."""

    def __init__(
        self,
        reader: ScopedReader,
        accelerators: Mapping[Collection, VectorAccelerator],
        texts: Mapping[Collection, TextAccelerator],
    ) -> None:
        self.records = ScopedRecordsStore(reader)
        self.graph = ScopedGraphStore(reader)
        self.vectors = ScopedVectorStore(reader, accelerators)
        self.text = ScopedTextStore(reader, texts)


class ScopedRecordsStore(RecordsStore):
    """Matching documents and what they say."""

    def __init__(self, reader: ScopedReader) -> None:
        self._reader = reader

    async def get_documents(self, ids: Sequence[str]) -> list[Document]:

        def read(connection: apsw.Connection, scope: Scope) -> list[Document]:
            keys = keys_within(connection, ids, scope.documents)
            allowed = [id_ for id_ in ids if id_ in keys]
            rows = fetch(connection, DOCUMENTS_BY_ID, (array(allowed),)) if allowed else []
            return _as_left(connection, scope, [to_document(row) for row in rows])

        return await self._reader.read(read)

    async def find_documents(self, query: DocumentQuery) -> DocumentPage:
        both = And((self._reader.filter, query.filter)) if query.filter else self._reader.filter
        narrow = replace(query, filter=both)

        def read(connection: apsw.Connection, scope: Scope) -> DocumentPage:
            page = find_documents(connection, narrow)
            return replace(page, documents=tuple(_as_left(connection, scope, page.documents)))

        return await self._reader.read(read)

    async def get_document_text(self, document_id: str) -> str | None:

        def read(connection: apsw.Connection, scope: Scope) -> str | None:
            if not keys_within(connection, [document_id], scope.documents):
                return None
            return fetch_value(connection, TEXT_BY_DOCUMENT, (document_id,))

        return await self._reader.read(read)

    async def get_chunks(self, ids: Sequence[str]) -> list[Chunk]:

        def read(connection: apsw.Connection, scope: Scope) -> list[Chunk]:
            allowed = _allowed_chunks(connection, scope, ids)
            rows = fetch(connection, CHUNKS_BY_ID, (array(allowed),)) if allowed else []
            return _owned(connection, scope, [to_chunk(row) for row in rows])

        return await self._reader.read(read)

    async def get_document_chunks(self, document_id: str) -> list[Chunk]:

        def read(connection: apsw.Connection, scope: Scope) -> list[Chunk]:
            if not keys_within(connection, [document_id], scope.documents):
                return []
            held_by = {shown: holder for holder, shown in _owner_ids(connection, scope).items()}
            rows = fetch(connection, CHUNKS_BY_DOCUMENT, (held_by.get(document_id, document_id),))
            return _owned(connection, scope, [to_chunk(row) for row in rows])

        return await self._reader.read(read)

    async def get_sources(self, chunk_ids: Sequence[str]) -> dict[str, str]:

        def read(connection: apsw.Connection, scope: Scope) -> dict[str, str]:
            if not scope.owners:
                return read_sources(connection, keys_within(connection, chunk_ids, scope.chunks))
            allowed = _allowed_chunks(connection, scope, chunk_ids)
            return _sources(connection, scope, allowed) if allowed else {}

        return await self._reader.read(read)

    async def get_twin_sources(self, chunk_ids: Sequence[str]) -> dict[str, tuple[str, ...]]:

        def read(connection: apsw.Connection, scope: Scope) -> dict[str, tuple[str, ...]]:
            allowed = _allowed_chunks(connection, scope, chunk_ids)
            rows = fetch(connection, _TWINS_BY_CHUNK, (array(allowed),)) if allowed else []
            others = [
                (id_, source)
                for id_, holder, twin, source in rows
                if twin in scope.documents and scope.owners.get(holder) != twin
            ]
            return grouped(others)

        return await self._reader.read(read)

    async def get_extractions(self, chunk_ids: Sequence[str]) -> list[Extraction]:

        def read(connection: apsw.Connection, scope: Scope) -> list[Extraction]:
            return read_extractions(connection, _allowed_chunks(connection, scope, chunk_ids))

        return await self._reader.read(read)

    async def get_entity_mentions(self, chunk_ids: Sequence[str]) -> dict[str, tuple[EntityMention, ...]]:

        def read(connection: apsw.Connection, scope: Scope) -> dict[str, tuple[EntityMention, ...]]:
            return read_entity_mentions(connection, _allowed_chunks(connection, scope, chunk_ids))

        return await self._reader.read(read)

    async def get_evidence(
        self, entity_ids: Sequence[str], relation_ids: Sequence[str], leading: int
    ) -> tuple[list[EntityEvidence], list[RelationEvidence]]:
        """See `RecordsStore`; the evidence of a view is counted when it is asked for, and bears the data version."""
        fold = self._reader.fold

        def read(connection: apsw.Connection, scope: Scope) -> tuple[list[EntityEvidence], list[RelationEvidence]]:
            return (
                read_entity_evidence(connection, scope, fold, entity_ids, leading),
                read_relation_evidence(connection, scope, fold, relation_ids, leading),
            )

        return await self._reader.read(read)

    async def get_mention_places(self, entity_ids: Sequence[str], most: int) -> list[EntityPlaces]:
        return await self._reader.read(
            lambda connection, scope: read_places_within(connection, scope, entity_ids, most)
        )


class ScopedVectorStore(VectorStore):
    """Vectors of what is left; those of entities and relations are of all that is said of them, and only order hits."""

    def __init__(self, reader: ScopedReader, accelerators: Mapping[Collection, VectorAccelerator]) -> None:
        self._reader = reader
        self._accelerators = accelerators

    async def search(
        self, collection: Collection, vector: NDArray[np.float32], limit: int, min_score: float
    ) -> list[Hit]:
        vector = np.ascontiguousarray(vector, np.float32)
        accelerator = self._accelerators[collection]

        def find(connection: apsw.Connection, scope: Scope) -> list[Hit]:
            allowed = scope.keys_of(collection)
            return find_nearest(connection, KnownIds(), accelerator, collection, vector, limit, min_score, allowed)

        return await self._reader.read(find)

    async def get_vectors(self, collection: Collection, ids: Sequence[str]) -> dict[str, NDArray[np.float32]]:
        accelerator = self._accelerators[collection]

        def read(connection: apsw.Connection, scope: Scope) -> dict[str, NDArray[np.float32]]:
            keys = keys_within(connection, ids, scope.keys_of(collection))
            allowed = [id_ for id_ in ids if id_ in keys]
            return read_vectors(connection, KnownIds(), accelerator, collection, allowed)

        return await self._reader.read(read)


class ScopedTextStore(TextStore):
    """Full text of what is left; an entity is found by the names that matching documents give it and by no other."""

    def __init__(self, reader: ScopedReader, accelerators: Mapping[Collection, TextAccelerator]) -> None:
        self._reader = reader
        self._accelerators = accelerators

    async def search(self, collection: Collection, terms: Sequence[str], limit: int) -> list[Hit]:
        wanted = distinct_terms(terms)
        if not wanted or limit < 1 or collection not in SEARCHED:
            return []
        accelerator = self._accelerators[collection]

        def find(connection: apsw.Connection, scope: Scope) -> list[Hit]:
            if collection is Collection.ENTITIES:
                return to_hits(*self._entities(connection, scope, accelerator, wanted, limit))
            return find_texts(connection, KnownIds(), accelerator, wanted, limit, scope.chunks)

        return await self._reader.read(find)

    async def find_phrases(
        self, collection: Collection, phrases: Sequence[Sequence[str]], limit: int
    ) -> list[list[str]]:
        """See `TextStore`; entities are found by the names that are left."""
        if limit < 1:
            return [[] for _ in phrases]

        def find(connection: apsw.Connection, scope: Scope) -> list[list[str]]:
            found: list[list[int]] = []
            for phrase in phrases:
                stored = np.array(phrase_keys(connection, collection, phrase, -1), np.int64)
                keys: list[int] = stored[scope.keys_of(collection).holds(stored)].tolist()
                if collection is Collection.ENTITIES:
                    keys = self._called(connection, scope, keys, phrase, limit)
                found.append(keys[:limit])
            ids = find_ids(connection, {key for keys in found for key in keys})
            return [[ids[key] for key in keys] for keys in found]

        return await self._reader.read(find)

    def _called(
        self, connection: apsw.Connection, scope: Scope, keys: list[int], phrase: Sequence[str], limit: int
    ) -> list[int]:
        """Return those of the entities, at least `limit` if there are, whose names in the scope hold a phrase."""
        wanted = f" {' '.join(phrase)} "
        found: list[int] = []
        for start in range(0, len(keys), limit):
            page = keys[start : start + limit]
            entities = fold_entities(connection, scope, self._reader.fold, page)
            found += [key for key in page if wanted in f" {' '.join(self._reader.fold.name_terms(entities[key]))} "]
            if len(found) >= limit:
                break
        return found

    def _entities(
        self, connection: apsw.Connection, scope: Scope, accelerator: TextAccelerator, terms: list[str], limit: int
    ) -> tuple[list[tuple[int, float]], dict[int, str]]:
        """Return the best entities whose names in the scope hold one of the terms, and ids of them and of others."""
        looked_at = max(limit * _HITS_PER_HIT, _LEAST_HITS)
        while True:
            found = accelerator.search(connection, terms, looked_at, scope.entities)
            ids = accelerator.find_ids(connection, KnownIds(), [key for key, _ in found])
            kept = list(self._named(connection, scope, [hit for hit in found if hit[0] in ids], set(terms), limit))
            if len(kept) >= limit or len(found) < looked_at:
                return kept[:limit], ids
            looked_at = len(scope.entities) + 1

    def _named(
        self, connection: apsw.Connection, scope: Scope, hits: list[tuple[int, float]], terms: set[str], limit: int
    ) -> Iterator[tuple[int, float]]:
        """Yield the hits, at least `limit` if there are, whose names in the scope hold one of the terms."""
        found = 0
        for start in range(0, len(hits), limit):
            page = hits[start : start + limit]
            entities = fold_entities(connection, scope, self._reader.fold, [key for key, _ in page])
            for key, score in page:
                if not terms.isdisjoint(self._reader.fold.name_terms(entities[key])):
                    found += 1
                    yield key, score
            if found >= limit:
                return


def _owner_ids(connection: apsw.Connection, scope: Scope) -> dict[str, str]:
    """Return `Scope.owners` by ids."""
    ids = find_ids(connection, {*scope.owners, *scope.owners.values()})
    return {ids[holder]: ids[shown] for holder, shown in scope.owners.items()}


def _owned(connection: apsw.Connection, scope: Scope, chunks: list[Chunk]) -> list[Chunk]:
    """Return chunks under the documents that have them in the scope."""
    if not scope.owners:
        return chunks
    owners = _owner_ids(connection, scope)
    return [
        replace(chunk, document_id=owners[chunk.document_id]) if chunk.document_id in owners else chunk
        for chunk in chunks
    ]


def _as_left(connection: apsw.Connection, scope: Scope, documents: Sequence[Document]) -> list[Document]:
    """Return documents as they would be without those that do not match: a twin may be the original then."""
    if not any(document.twin_of for document in documents):
        return list(documents)
    owners = _owner_ids(connection, scope)
    originals = keys_within(
        connection, [document.twin_of for document in documents if document.twin_of], scope.documents
    )
    left: list[Document] = []
    for document in documents:
        original = document.twin_of
        if original and original not in originals:
            shown = owners.get(original, "")
            original = "" if shown == document.id else shown
        left.append(replace(document, twin_of=original))
    return left


def _sources(connection: apsw.Connection, scope: Scope, chunk_ids: Sequence[str]) -> dict[str, str]:
    """Return, per chunk, the source of the document that has it in the scope."""
    query = """SELECT identity.id, document_key FROM carray(?) AS wanted
               CROSS JOIN identity ON identity.id = wanted.value CROSS JOIN chunk USING (key)"""
    owners = {id_: scope.owners.get(key, key) for id_, key in fetch(connection, query, (array(chunk_ids),))}
    query = "SELECT key, source FROM carray(?) AS wanted CROSS JOIN document ON key = wanted.value"
    sources = dict(fetch(connection, query, (array(set(owners.values())),)))
    return {id_: sources[key] for id_, key in owners.items()}


def _allowed_chunks(connection: apsw.Connection, scope: Scope, ids: Sequence[str]) -> list[str]:
    keys = keys_within(connection, ids, scope.chunks)
    return [id_ for id_ in ids if id_ in keys]
