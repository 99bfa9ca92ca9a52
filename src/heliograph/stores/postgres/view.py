"""What a filter leaves of a workspace on PostgreSQL: the records of a `StoreView`; its searches are in `scoped_search`.

Every read looks up the scope in its own snapshot and asks for allowed ids only, so a document that ceases to match is
gone with the commit that says so.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from heliograph.filters import And
from heliograph.models import Chunk, Document, EntityEvidence, Extraction, RelationEvidence
from heliograph.stores.base import DocumentPage, DocumentQuery, RecordsStore, StoreView
from heliograph.stores.postgres.codec import to_json
from heliograph.stores.postgres.records import (
    CHUNKS_BY_DOCUMENT,
    CHUNKS_BY_ID,
    DOCUMENTS_BY_ID,
    EXTRACTIONS,
    TEXT_BY_DOCUMENT,
    grouped,
    page_statements,
    to_extraction,
    to_page,
)
from heliograph.stores.postgres.rows import WANTED, to_chunk, to_document
from heliograph.stores.postgres.scoped import PostgresReader
from heliograph.stores.postgres.scoped_evidence import PostgresReading
from heliograph.stores.postgres.scoped_search import ScopedTextStore, ScopedVectorStore
from heliograph.stores.postgres.session import Row
from heliograph.stores.scoped.graph import ScopedGraphStore
from heliograph.stores.scoped.scope import Scope

_SOURCES = f"""SELECT wanted.id, document.source FROM {WANTED}
  JOIN heliograph_document AS document ON document.workspace = %s AND document.id = wanted.id ORDER BY wanted.place"""
_TWINS = f"""SELECT wanted.id, chunk.full_doc_id, twin.id, twin.source FROM {WANTED}
  JOIN lightrag_chunks AS chunk ON chunk.workspace = %s AND chunk.id = wanted.id
  JOIN heliograph_document AS twin ON twin.workspace = chunk.workspace AND twin.twin_of = chunk.full_doc_id
   AND twin.twin_of <> '' AND twin.status IN ('processed', 'partial') ORDER BY wanted.place, twin.id"""


class PostgresView(StoreView):
    """A workspace under one filter."""

    def __init__(self, reader: PostgresReader, embedding: tuple[str, int]) -> None:
        self.records = ScopedRecordsStore(reader)
        self.graph = ScopedGraphStore(reader)
        self.vectors = ScopedVectorStore(reader, embedding)
        self.text = ScopedTextStore(reader)


class ScopedRecordsStore(RecordsStore):
    """Matching documents and what they say."""

    def __init__(self, reader: PostgresReader) -> None:
        self._reader = reader

    async def get_documents(self, ids: Sequence[str]) -> list[Document]:

        async def read(reading: PostgresReading) -> list[Document]:
            rows = await _fetch(reading, DOCUMENTS_BY_ID, [id_ for id_ in ids if id_ in reading.scope.documents])
            return _as_left(reading.scope, [to_document(row) for row in rows])

        return await self._reader.read(read)

    async def find_documents(self, query: DocumentQuery) -> DocumentPage:
        both = And((self._reader.filter, query.filter)) if query.filter else self._reader.filter
        narrow = replace(query, filter=both)

        async def read(reading: PostgresReading) -> DocumentPage:
            page = to_page(*await reading.session.run(*page_statements(reading.session.workspace, narrow)))
            return replace(page, documents=tuple(_as_left(reading.scope, page.documents)))

        return await self._reader.read(read)

    async def get_document_text(self, document_id: str) -> str | None:

        async def read(reading: PostgresReading) -> str | None:
            if document_id not in reading.scope.documents:
                return None
            return await reading.session.fetch_value(TEXT_BY_DOCUMENT, (reading.session.workspace, document_id))

        return await self._reader.read(read)

    async def get_chunks(self, ids: Sequence[str]) -> list[Chunk]:

        async def read(reading: PostgresReading) -> list[Chunk]:
            return _owned(reading.scope, await _fetch(reading, CHUNKS_BY_ID, _allowed(reading.scope, ids)))

        return await self._reader.read(read)

    async def get_document_chunks(self, document_id: str) -> list[Chunk]:

        async def read(reading: PostgresReading) -> list[Chunk]:
            if document_id not in reading.scope.documents:
                return []
            held_by = {shown: holder for holder, shown in reading.scope.owners.items()}
            values = reading.session.workspace, held_by.get(document_id, document_id)
            return _owned(reading.scope, await reading.session.fetch(CHUNKS_BY_DOCUMENT, values))

        return await self._reader.read(read)

    async def get_sources(self, chunk_ids: Sequence[str]) -> dict[str, str]:

        async def read(reading: PostgresReading) -> dict[str, str]:
            scope = reading.scope
            shown = {id_: scope.owners.get(scope.chunks[id_], scope.chunks[id_]) for id_ in _allowed(scope, chunk_ids)}
            sources = dict(await _fetch(reading, _SOURCES, list(dict.fromkeys(shown.values()))))
            return {id_: sources[owner] for id_, owner in shown.items() if owner in sources}

        return await self._reader.read(read)

    async def get_twin_sources(self, chunk_ids: Sequence[str]) -> dict[str, tuple[str, ...]]:

        async def read(reading: PostgresReading) -> dict[str, tuple[str, ...]]:
            scope = reading.scope
            rows = await _fetch(reading, _TWINS, _allowed(scope, chunk_ids))
            return grouped(
                [
                    (id_, source)
                    for id_, holder, twin, source in rows
                    if twin in scope.documents and scope.owners.get(holder) != twin
                ]
            )

        return await self._reader.read(read)

    async def get_extractions(self, chunk_ids: Sequence[str]) -> list[Extraction]:

        async def read(reading: PostgresReading) -> list[Extraction]:
            return [
                to_extraction(row) for row in await _fetch(reading, EXTRACTIONS, _allowed(reading.scope, chunk_ids))
            ]

        return await self._reader.read(read)

    async def get_evidence(
        self, entity_ids: Sequence[str], relation_ids: Sequence[str], leading: int
    ) -> tuple[list[EntityEvidence], list[RelationEvidence]]:
        """See `RecordsStore`; the evidence of a view is counted when it is asked for, and bears the data version."""

        async def read(reading: PostgresReading) -> tuple[list[EntityEvidence], list[RelationEvidence]]:
            return (
                await reading.read_entity_evidence(entity_ids, leading),
                await reading.read_relation_evidence(relation_ids, leading),
            )

        return await self._reader.read(read)


async def _fetch(reading: PostgresReading, query: str, ids: Sequence[str]) -> list[Row]:
    return await reading.session.fetch(query, (to_json(ids), reading.session.workspace)) if ids else []


def _allowed(scope: Scope, chunk_ids: Sequence[str]) -> list[str]:
    return [id_ for id_ in chunk_ids if id_ in scope.chunks]


def _owned(scope: Scope, rows: Sequence[Row]) -> list[Chunk]:
    """Return chunks under the documents that have them in the scope."""
    chunks = map(to_chunk, rows)
    return [replace(item, document_id=scope.owners.get(item.document_id, item.document_id)) for item in chunks]


def _as_left(scope: Scope, documents: Sequence[Document]) -> list[Document]:
    """Return documents as they would be without those that do not match: a twin may be the original then."""
    left: list[Document] = []
    for document in documents:
        original = document.twin_of
        if original and original not in scope.documents:
            shown = scope.owners.get(original, "")
            original = "" if shown == document.id else shown
        left.append(replace(document, twin_of=original))
    return left
