"""Reading truth from the embedded store; evidence is read in `evidence`, all of it written in `records_write`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import apsw

from heliograph.models import (
    Chunk,
    Document,
    DocumentStatus,
    EntityEvidence,
    EntityMention,
    Extraction,
    RelationEvidence,
    Usage,
)
from heliograph.stores.base import DocumentPage, DocumentQuery, RecordsStore
from heliograph.stores.sqlite.database import Database
from heliograph.stores.sqlite.evidence import EvidenceMemory, read_relation_mention
from heliograph.stores.sqlite.identity import find_keys
from heliograph.stores.sqlite.sql import array, fetch, fetch_one, fetch_value

__all__ = ["SqliteRecordsStore"]

_DOCUMENT = """identity.id, source, title, content_hash, status, error, metadata, length, chunk_count, track_id,
               input_tokens, output_tokens, created_at, updated_at"""
_CHUNK = 'identity.id, owner.id, position, chunk_text.text, token_count, start, "end", headings, page'
_CHUNK_PARTS = "CROSS JOIN chunk_text USING (key) CROSS JOIN identity AS owner ON owner.key = chunk.document_key"
_SORTS = {"created_at": "created_at", "updated_at": "updated_at", "source": "source", "id": "identity.id"}


class SqliteRecordsStore(RecordsStore):
    """Truth in normalised tables."""

    def __init__(self, database: Database, evidence: EvidenceMemory) -> None:
        self._database = database
        self._evidence = evidence

    async def get_documents(self, ids: Sequence[str]) -> list[Document]:
        """See `RecordsStore`."""
        if not ids:
            return []
        query = f"""SELECT {_DOCUMENT} FROM carray(?) AS wanted CROSS JOIN identity ON identity.id = wanted.value
                    CROSS JOIN document USING (key)"""
        rows = await self._database.fetch(query, (array(ids),))
        return [_document(row) for row in rows]

    async def find_documents(self, query: DocumentQuery) -> DocumentPage:
        """See `RecordsStore`."""
        where, values = _conditions(query)
        direction = "DESC" if query.descending else "ASC"
        count = f"SELECT count(*) FROM document {where}"
        select = f"""SELECT {_DOCUMENT} FROM document JOIN identity USING (key) {where}
                     ORDER BY {_SORTS[query.sort]} {direction}, identity.id LIMIT ? OFFSET ?"""

        def find(connection: apsw.Connection) -> DocumentPage:
            rows = fetch(connection, select, (*values, query.limit, query.offset))
            total = fetch_value(connection, count, values)
            return DocumentPage(tuple(_document(row) for row in rows), int(total))

        return await self._database.read(find)

    async def get_document_text(self, document_id: str) -> str | None:
        """See `RecordsStore`."""
        query = "SELECT text FROM identity JOIN document_text USING (key) WHERE identity.id = ?"
        row = await self._database.read(lambda connection: fetch_one(connection, query, (document_id,)))
        return row[0] if row else None

    async def get_chunks(self, ids: Sequence[str]) -> list[Chunk]:
        """See `RecordsStore`."""
        if not ids:
            return []
        query = f"""SELECT {_CHUNK} FROM carray(?) AS wanted CROSS JOIN identity ON identity.id = wanted.value
                    CROSS JOIN chunk USING (key) {_CHUNK_PARTS}"""
        rows = await self._database.fetch(query, (array(ids),))
        return [_chunk(row) for row in rows]

    async def get_document_chunks(self, document_id: str) -> list[Chunk]:
        """See `RecordsStore`."""
        query = f"""SELECT {_CHUNK} FROM chunk CROSS JOIN identity USING (key) {_CHUNK_PARTS}
                    WHERE chunk.document_key = (SELECT key FROM identity WHERE id = ?) ORDER BY position"""
        rows = await self._database.fetch(query, (document_id,))
        return [_chunk(row) for row in rows]

    async def get_sources(self, chunk_ids: Sequence[str]) -> dict[str, str]:
        """See `RecordsStore`."""
        if not chunk_ids:
            return {}
        query = """SELECT identity.id, document.source FROM carray(?) AS wanted
                   CROSS JOIN identity ON identity.id = wanted.value CROSS JOIN chunk USING (key)
                   CROSS JOIN document ON document.key = chunk.document_key"""
        rows = await self._database.fetch(query, (array(chunk_ids),))
        return dict(rows)

    async def get_extractions(self, chunk_ids: Sequence[str]) -> list[Extraction]:
        """See `RecordsStore`."""

        def read(connection: apsw.Connection) -> list[Extraction]:
            keys = find_keys(connection, chunk_ids)
            found = (_extraction(connection, id_, keys[id_]) for id_ in chunk_ids if id_ in keys)
            return [extraction for extraction in found if extraction is not None]

        return await self._database.read(read)

    async def get_evidence(
        self, entity_ids: Sequence[str], relation_ids: Sequence[str], leading: int
    ) -> tuple[list[EntityEvidence], list[RelationEvidence]]:
        """See `RecordsStore`."""

        def read(connection: apsw.Connection) -> tuple[list[EntityEvidence], list[RelationEvidence]]:
            return (
                self._evidence.read_entities(connection, entity_ids, leading),
                self._evidence.read_relations(connection, relation_ids, leading),
            )

        return await self._database.read(read)


def _conditions(query: DocumentQuery) -> tuple[str, tuple[Any, ...]]:
    conditions: list[str] = []
    values: list[Any] = []
    if query.statuses:
        conditions.append(f"status IN ({', '.join('?' * len(query.statuses))})")
        values += [status.value for status in query.statuses]
    if query.track_id is not None:
        conditions.append("track_id = ?")
        values.append(query.track_id)
    if query.source_prefix is not None:
        # A half-open range can use the index, unlike LIKE with its wildcards.
        conditions.append("source >= ? AND source < ?")
        values += [query.source_prefix, query.source_prefix + chr(0x10FFFF)]
    return (f"WHERE {' AND '.join(conditions)}" if conditions else ""), tuple(values)


def _document(row: Sequence[Any]) -> Document:
    id_, source, title, content_hash, status, error, metadata, length, chunk_count, track_id, *rest = row
    read, written, created_at, updated_at = rest
    return Document(
        id=id_,
        source=source,
        title=title,
        content_hash=content_hash,
        status=DocumentStatus(status),
        error=error,
        metadata=json.loads(metadata),
        length=length,
        chunk_count=chunk_count,
        track_id=track_id,
        usage=Usage(read, written),
        created_at=datetime.fromtimestamp(created_at, UTC),
        updated_at=datetime.fromtimestamp(updated_at, UTC),
    )


def _chunk(row: Sequence[Any]) -> Chunk:
    id_, document_id, position, text, token_count, start, end, headings, page = row
    return Chunk(id_, document_id, position, text, token_count, start, end, tuple(json.loads(headings)), page)


def _extraction(connection: apsw.Connection, chunk_id: str, key: int) -> Extraction | None:
    query = "SELECT extractor, error, reply_keys, input_tokens, output_tokens FROM extraction WHERE chunk_key = ?"
    row = fetch_one(connection, query, (key,))
    if row is None:
        return None
    extractor, error, reply_keys, read, written = row
    query = """SELECT name, type, description, rank FROM entity_mention INDEXED BY entity_mention_by_chunk
               WHERE chunk_key = ? ORDER BY ordinal"""
    entities = tuple(EntityMention(chunk_id, *mention) for mention in fetch(connection, query, (key,)))
    query = """SELECT source, target, keywords, description, weight, rank
               FROM relation_mention INDEXED BY relation_mention_by_chunk WHERE chunk_key = ? ORDER BY ordinal"""
    relations = tuple(read_relation_mention(chunk_id, *mention) for mention in fetch(connection, query, (key,)))
    return Extraction(
        chunk_id, extractor, entities, relations, error, tuple(json.loads(reply_keys)), Usage(read, written)
    )
