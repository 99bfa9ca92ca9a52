"""Reading truth from PostgreSQL; evidence is read in `evidence`, all of it written in `records_write`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from heliograph.filters import And
from heliograph.models import AliasMention, Chunk, Document, EntityEvidence, Extraction, RelationEvidence, Usage
from heliograph.stores.base import DocumentPage, DocumentQuery, RecordsStore
from heliograph.stores.postgres.codec import split_lines, to_json
from heliograph.stores.postgres.database import Database
from heliograph.stores.postgres.evidence import evidence_statements, to_evidence
from heliograph.stores.postgres.filters import compile_filter
from heliograph.stores.postgres.rows import (
    CHUNK,
    DOCUMENT,
    ENTITY_MENTION,
    RELATION_MENTION,
    WANTED,
    to_chunk,
    to_document,
    to_entity_mention,
    to_relation_mention,
)
from heliograph.stores.postgres.session import Row, Statement

DOCUMENTS_BY_ID = f"""SELECT {DOCUMENT} FROM {WANTED}
  JOIN heliograph_document AS document ON document.workspace = %s AND document.id = wanted.id ORDER BY wanted.place"""
# A twin's text is that of its original.
TEXT_BY_DOCUMENT = """SELECT text.text FROM heliograph_document AS document
  JOIN heliograph_document_text AS text ON text.workspace = document.workspace
   AND text.id IN (document.id, document.twin_of)
  WHERE document.workspace = %s AND document.id = %s LIMIT 1"""
CHUNKS_BY_ID = f"""SELECT {CHUNK} FROM {WANTED}
  JOIN lightrag_chunks AS chunk ON chunk.workspace = %s AND chunk.id = wanted.id ORDER BY wanted.place"""
CHUNKS_BY_DOCUMENT = f"""SELECT {CHUNK} FROM lightrag_chunks AS chunk WHERE workspace = %s AND full_doc_id = %s
  ORDER BY chunk_order_index"""
SOURCES = f"""SELECT wanted.id, document.source FROM {WANTED}
  JOIN lightrag_chunks AS chunk ON chunk.workspace = %s AND chunk.id = wanted.id
  JOIN heliograph_document AS document ON document.workspace = chunk.workspace AND document.id = chunk.full_doc_id
  ORDER BY wanted.place"""
_TWIN_SOURCES = f"""SELECT wanted.id, twin.source FROM {WANTED}
  JOIN lightrag_chunks AS chunk ON chunk.workspace = %s AND chunk.id = wanted.id
  JOIN heliograph_document AS twin ON twin.workspace = chunk.workspace AND twin.twin_of = chunk.full_doc_id
   AND twin.twin_of <> '' AND twin.status IN ('processed', 'partial') ORDER BY wanted.place, twin.id"""
_OPENINGS = f"""SELECT wanted.id, text.opening FROM {WANTED}
  JOIN heliograph_document AS document ON document.workspace = %s AND document.id = wanted.id
  CROSS JOIN LATERAL (SELECT left(text, %s) AS opening FROM heliograph_document_text AS text
    WHERE text.workspace = document.workspace AND text.id IN (document.id, document.twin_of) LIMIT 1) AS text
  ORDER BY wanted.place"""
_SAID = """(SELECT json_agg({mention} ORDER BY mention.ordinal) FROM {table} AS mention
            WHERE mention.workspace = extraction.workspace AND mention.chunk_id = extraction.chunk_id)"""
EXTRACTIONS = f"""SELECT extraction.chunk_id, extractor, error, reply_keys, input_tokens, output_tokens,
  {_SAID.format(mention=ENTITY_MENTION, table="heliograph_entity_mention")},
  {_SAID.format(mention=RELATION_MENTION, table="heliograph_relation_mention")},
  {_SAID.format(mention="json_build_array(mention.name, mention.alias)", table="heliograph_alias_mention")}
  FROM {WANTED} JOIN heliograph_extraction AS extraction
    ON extraction.workspace = %s AND extraction.chunk_id = wanted.id ORDER BY wanted.place"""
_SORTS = {"created_at": "created_at", "updated_at": "updated_at", "source": "source", "id": "id"}


class PostgresRecordsStore(RecordsStore):
    """Truth in normalised tables."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def _fetch(self, query: str, ids: Sequence[str]) -> list[Row]:
        return await self._database.fetch(query, (to_json(ids), self._database.workspace)) if ids else []

    async def get_documents(self, ids: Sequence[str]) -> list[Document]:
        return [to_document(row) for row in await self._fetch(DOCUMENTS_BY_ID, ids)]

    async def find_documents(self, query: DocumentQuery) -> DocumentPage:
        return to_page(*await self._database.fetch_all(*page_statements(self._database.workspace, query)))

    async def get_document_text(self, document_id: str) -> str | None:
        rows = await self._database.fetch(TEXT_BY_DOCUMENT, (self._database.workspace, document_id))
        return rows[0][0] if rows else None

    async def get_openings(self, document_ids: Sequence[str], length: int) -> dict[str, str]:
        values = to_json(document_ids), self._database.workspace, max(0, length)
        return dict(await self._database.fetch(_OPENINGS, values)) if document_ids else {}

    async def get_chunks(self, ids: Sequence[str]) -> list[Chunk]:
        return [to_chunk(row) for row in await self._fetch(CHUNKS_BY_ID, ids)]

    async def get_document_chunks(self, document_id: str) -> list[Chunk]:
        rows = await self._database.fetch(CHUNKS_BY_DOCUMENT, (self._database.workspace, document_id))
        return [to_chunk(row) for row in rows]

    async def get_sources(self, chunk_ids: Sequence[str]) -> dict[str, str]:
        return dict(await self._fetch(SOURCES, chunk_ids))

    async def get_twin_sources(self, chunk_ids: Sequence[str]) -> dict[str, tuple[str, ...]]:
        return grouped(await self._fetch(_TWIN_SOURCES, chunk_ids))

    async def get_extractions(self, chunk_ids: Sequence[str]) -> list[Extraction]:
        return [to_extraction(row) for row in await self._fetch(EXTRACTIONS, chunk_ids)]

    async def get_evidence(
        self, entity_ids: Sequence[str], relation_ids: Sequence[str], leading: int
    ) -> tuple[list[EntityEvidence], list[RelationEvidence]]:
        statements = evidence_statements(self._database.workspace, entity_ids, relation_ids, leading)
        return to_evidence(*await self._database.fetch_all(*statements))


def page_statements(workspace: str, query: DocumentQuery) -> tuple[Statement, Statement]:
    """Return the statements for one page of documents, and for how many there are."""
    where, values = _conditions(query)
    direction = "DESC" if query.descending else "ASC"
    select = f"""SELECT {DOCUMENT} FROM heliograph_document AS document WHERE document.workspace = %s AND {where}
                 ORDER BY document.{_SORTS[query.sort]} {direction}, document.id LIMIT %s OFFSET %s"""
    count = f"SELECT count(*) FROM heliograph_document AS document WHERE document.workspace = %s AND {where}"
    return (
        Statement(select, (workspace, *values, query.limit, query.offset), is_planned_anew=True),
        Statement(count, (workspace, *values), is_planned_anew=True),
    )


def to_page(documents: Sequence[Row], total: Sequence[Row]) -> DocumentPage:
    """Return the page from the rows of its two statements."""
    return DocumentPage(tuple(map(to_document, documents)), int(total[0][0]))


def _conditions(query: DocumentQuery) -> tuple[str, list[Any]]:
    conditions: list[str] = []
    values: list[Any] = []
    if query.statuses:
        conditions.append("document.status = ANY (ARRAY(SELECT json_array_elements_text(%s)))")
        values.append(to_json([status.value for status in query.statuses]))
    if query.track_id is not None:
        conditions.append("document.track_id = %s")
        values.append(query.track_id)
    if query.source_prefix is not None:
        # A half-open range can use the index, unlike LIKE with its wildcards.
        conditions.append("document.source >= %s AND document.source < %s")
        values += [query.source_prefix, query.source_prefix + chr(0x10FFFF)]
    if query.content_hashes:
        conditions.append("document.content_hash = ANY (ARRAY(SELECT json_array_elements_text(%s)))")
        values.append(to_json(query.content_hashes))
    if query.twin_of is not None:
        conditions.append("document.twin_of = %s")
        values.append(query.twin_of)
    condition, arguments = compile_filter(query.filter or And(()))
    return " AND ".join([*conditions, condition]), [*values, *arguments]


def grouped(rows: Sequence[Sequence[Any]]) -> dict[str, tuple[str, ...]]:
    """Return rows of an id and a text as the texts per id, in order."""
    found: dict[str, tuple[str, ...]] = {}
    for id_, text in rows:
        found[id_] = (*found.get(id_, ()), text)
    return found


def to_extraction(row: Row) -> Extraction:
    """Return an extraction from the columns of `EXTRACTIONS`."""
    chunk_id, extractor, error, reply_keys, read, written, entities, relations, aliases = row
    return Extraction(
        chunk_id,
        extractor,
        tuple(map(to_entity_mention, entities or ())),
        tuple(map(to_relation_mention, relations or ())),
        error,
        split_lines(reply_keys),
        Usage(read, written),
        aliases=tuple(AliasMention(chunk_id, *names) for names in aliases or ()),
    )
