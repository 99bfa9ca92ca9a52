"""The records that a filter leaves of a workspace in Redis: what is allowed of what the whole store reads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from heliograph.filters import And
from heliograph.models import Chunk, Document, EntityEvidence, Extraction, RelationEvidence
from heliograph.stores.base import DocumentPage, DocumentQuery, RecordsStore
from heliograph.stores.redis.scope import RedisScope
from heliograph.stores.redis.scoped import RedisReader, RedisReading

__all__ = ["ScopedRecordsStore"]


class ScopedRecordsStore(RecordsStore):
    """Matching documents and what they say.

    Args:
        reader: Reads what the filter leaves.
        records: All records.
    """

    def __init__(self, reader: RedisReader, records: RecordsStore) -> None:
        self._reader = reader
        self._records = records

    async def get_documents(self, ids: Sequence[str]) -> list[Document]:
        """See `RecordsStore`."""

        async def read(reading: RedisReading) -> list[Document]:
            allowed = [id_ for id_ in ids if id_ in reading.scope.documents]
            return _as_left(reading.scope, await self._records.get_documents(allowed))

        return await self._reader.read(read)

    async def find_documents(self, query: DocumentQuery) -> DocumentPage:
        """See `RecordsStore`."""
        both = And((self._reader.filter, query.filter)) if query.filter else self._reader.filter

        async def read(reading: RedisReading) -> DocumentPage:
            page = await self._records.find_documents(replace(query, filter=both))
            return replace(page, documents=tuple(_as_left(reading.scope, page.documents)))

        return await self._reader.read(read)

    async def get_document_text(self, document_id: str) -> str | None:
        """See `RecordsStore`."""

        async def read(reading: RedisReading) -> str | None:
            if document_id not in reading.scope.documents:
                return None
            return await self._records.get_document_text(document_id)

        return await self._reader.read(read)

    async def get_openings(self, document_ids: Sequence[str], length: int) -> dict[str, str]:
        """See `RecordsStore`."""

        async def read(reading: RedisReading) -> dict[str, str]:
            allowed = [id_ for id_ in document_ids if id_ in reading.scope.documents]
            return await self._records.get_openings(allowed, length) if allowed else {}

        return await self._reader.read(read)

    async def get_chunks(self, ids: Sequence[str]) -> list[Chunk]:
        """See `RecordsStore`."""

        async def read(reading: RedisReading) -> list[Chunk]:
            return _owned(reading.scope, await self._records.get_chunks(_allowed(reading.scope, ids)))

        return await self._reader.read(read)

    async def get_document_chunks(self, document_id: str) -> list[Chunk]:
        """See `RecordsStore`."""

        async def read(reading: RedisReading) -> list[Chunk]:
            if document_id not in reading.scope.documents:
                return []
            held_by = {shown: holder for holder, shown in reading.scope.owners.items()}
            chunks = await self._records.get_document_chunks(held_by.get(document_id, document_id))
            return _owned(reading.scope, chunks)

        return await self._reader.read(read)

    async def get_sources(self, chunk_ids: Sequence[str]) -> dict[str, str]:
        """See `RecordsStore`."""

        async def read(reading: RedisReading) -> dict[str, str]:
            scope = reading.scope
            holders = {id_: scope.chunks[id_] for id_ in _allowed(scope, chunk_ids)}
            return {id_: scope.sources[scope.owners.get(holder, holder)] for id_, holder in holders.items()}

        return await self._reader.read(read)

    async def get_twin_sources(self, chunk_ids: Sequence[str]) -> dict[str, tuple[str, ...]]:
        """See `RecordsStore`."""

        async def read(reading: RedisReading) -> dict[str, tuple[str, ...]]:
            scope = reading.scope
            twins = {id_: scope.twins.get(scope.chunks[id_], ()) for id_ in _allowed(scope, chunk_ids)}
            return {id_: tuple(scope.sources[twin] for twin in some) for id_, some in twins.items() if some}

        return await self._reader.read(read)

    async def get_extractions(self, chunk_ids: Sequence[str]) -> list[Extraction]:
        """See `RecordsStore`."""

        async def read(reading: RedisReading) -> list[Extraction]:
            return await self._records.get_extractions(_allowed(reading.scope, chunk_ids))

        return await self._reader.read(read)

    async def get_evidence(
        self, entity_ids: Sequence[str], relation_ids: Sequence[str], leading: int
    ) -> tuple[list[EntityEvidence], list[RelationEvidence]]:
        """See `RecordsStore`; the evidence of a view is counted when it is asked for, and bears the data version."""

        async def read(reading: RedisReading) -> tuple[list[EntityEvidence], list[RelationEvidence]]:
            return (
                await reading.read_entity_evidence(entity_ids, leading),
                await reading.read_relation_evidence(relation_ids, leading),
            )

        return await self._reader.read(read)


def _allowed(scope: RedisScope, chunk_ids: Sequence[str]) -> list[str]:
    return [id_ for id_ in chunk_ids if id_ in scope.chunks]


def _owned(scope: RedisScope, chunks: Sequence[Chunk]) -> list[Chunk]:
    """Return chunks under the documents that have them in the scope."""
    return [replace(item, document_id=scope.owners.get(item.document_id, item.document_id)) for item in chunks]


def _as_left(scope: RedisScope, documents: Sequence[Document]) -> list[Document]:
    """Return documents as they would be without those that do not match: a twin may be the original then."""
    left: list[Document] = []
    for document in documents:
        original = document.twin_of
        if original and original not in scope.documents:
            shown = scope.owners.get(original, "")
            original = "" if shown == document.id else shown
        left.append(replace(document, twin_of=original))
    return left
