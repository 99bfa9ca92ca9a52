"""Reading truth from the embedded store; evidence is read in `evidence`, all of it written in `records_write`."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import apsw

from heliograph.filters import And
from heliograph.models import (
    AliasMention,
    Chunk,
    Document,
    DocumentStatus,
    EntityEvidence,
    EntityMention,
    Extraction,
    RelationEvidence,
    Usage,
)
from heliograph.stores.base import DocumentPage, DocumentQuery, EntityPlaces, RecordsStore
from heliograph.stores.sqlite.database import Database
from heliograph.stores.sqlite.evidence import EvidenceMemory, read_mention_places, read_relation_mention
from heliograph.stores.sqlite.filters import compile_filter
from heliograph.stores.sqlite.identity import find_keys
from heliograph.stores.sqlite.known_ids import IdMemory
from heliograph.stores.sqlite.sql import array, fetch, fetch_one, fetch_value

_DOCUMENT = """identity.id, source, title, content_hash, status, error, metadata, length, chunk_count, track_id,
               input_tokens, output_tokens, created_at, updated_at, page_starts,
               (SELECT original.id FROM identity AS original WHERE original.key = document.twin_key)"""
_CHUNK = 'identity.id, owner.id, position, chunk_text.text, token_count, start, "end", headings, page, context'
_CHUNK_PARTS = "CROSS JOIN chunk_text USING (key) CROSS JOIN identity AS owner ON owner.key = chunk.document_key"
DOCUMENTS_BY_ID = f"""SELECT {_DOCUMENT} FROM carray(?) AS wanted CROSS JOIN identity ON identity.id = wanted.value
                      CROSS JOIN document USING (key)"""
# A twin's text is that of its original.
TEXT_BY_DOCUMENT = """SELECT text FROM identity CROSS JOIN document USING (key)
                      JOIN document_text ON document_text.key IN (document.key, document.twin_key)
                      WHERE identity.id = ? LIMIT 1"""
CHUNKS_BY_ID = f"""SELECT {_CHUNK} FROM carray(?) AS wanted CROSS JOIN identity ON identity.id = wanted.value
                   CROSS JOIN chunk USING (key) {_CHUNK_PARTS}"""
CHUNKS_BY_DOCUMENT = f"""SELECT {_CHUNK} FROM chunk CROSS JOIN identity USING (key) {_CHUNK_PARTS}
                         WHERE chunk.document_key = (SELECT key FROM identity WHERE id = ?) ORDER BY position"""
_SOURCES_BY_CHUNK = """SELECT chunk.key, document.source FROM carray(?) AS wanted
                      CROSS JOIN chunk ON chunk.key = wanted.value
                      CROSS JOIN document ON document.key = chunk.document_key"""
TWIN_SOURCES_BY_CHUNK = """SELECT identity.id, twin.source FROM carray(?) AS wanted
                           CROSS JOIN identity ON identity.id = wanted.value CROSS JOIN chunk USING (key)
                           CROSS JOIN document AS twin ON twin.twin_key = chunk.document_key
                           CROSS JOIN identity AS twin_identity ON twin_identity.key = twin.key
                           WHERE twin.status IN ('processed', 'partial') ORDER BY twin_identity.id"""
_TEXT_KEYS_BY_DOCUMENT = """SELECT identity.id, document_text.key FROM carray(?) AS wanted
                            CROSS JOIN identity ON identity.id = wanted.value CROSS JOIN document USING (key)
                            JOIN document_text ON document_text.key IN (document.key, document.twin_key)"""
_MOST_BYTES_A_CHARACTER = 4
_SORTS = {"created_at": "created_at", "updated_at": "updated_at", "source": "source", "id": "identity.id"}


class SqliteRecordsStore(RecordsStore):
    """Truth in normalised tables."""

    def __init__(self, database: Database, evidence: EvidenceMemory, ids: IdMemory) -> None:
        self._database = database
        self._evidence = evidence
        self._ids = ids

    async def get_documents(self, ids: Sequence[str]) -> list[Document]:
        # SQLite takes no NUL in an array, and no id that is stored has one.
        ids = [id_ for id_ in ids if "\0" not in id_]
        if not ids:
            return []
        return await self._database.fetch_as(to_document, DOCUMENTS_BY_ID, (array(ids),))

    async def find_documents(self, query: DocumentQuery) -> DocumentPage:
        return await self._database.read(lambda connection: find_documents(connection, query))

    async def get_document_text(self, document_id: str) -> str | None:
        row = await self._database.read(lambda connection: fetch_one(connection, TEXT_BY_DOCUMENT, (document_id,)))
        return row[0] if row else None

    async def get_openings(self, document_ids: Sequence[str], length: int) -> dict[str, str]:
        """See `RecordsStore`; of a long text, only the pages that hold its start are read."""
        if not document_ids:
            return {}
        return await self._database.read(lambda connection: _openings(connection, document_ids, length))

    async def get_chunks(self, ids: Sequence[str]) -> list[Chunk]:
        if not ids:
            return []
        return await self._database.fetch_as(to_chunk, CHUNKS_BY_ID, (array(ids),))

    async def get_document_chunks(self, document_id: str) -> list[Chunk]:
        return await self._database.fetch_as(to_chunk, CHUNKS_BY_DOCUMENT, (document_id,))

    async def get_sources(self, chunk_ids: Sequence[str]) -> dict[str, str]:
        if not chunk_ids:
            return {}

        return await self._database.read(
            lambda connection: read_sources(connection, self._ids.at(connection).find_keys(connection, chunk_ids))
        )

    async def get_twin_sources(self, chunk_ids: Sequence[str]) -> dict[str, tuple[str, ...]]:
        if not chunk_ids:
            return {}
        return grouped(await self._database.fetch(TWIN_SOURCES_BY_CHUNK, (array(chunk_ids),)))

    async def get_extractions(self, chunk_ids: Sequence[str]) -> list[Extraction]:
        return await self._database.read(lambda connection: read_extractions(connection, chunk_ids))

    async def get_entity_mentions(self, chunk_ids: Sequence[str]) -> dict[str, tuple[EntityMention, ...]]:
        return await self._database.read(lambda connection: read_entity_mentions(connection, chunk_ids))

    async def get_evidence(
        self, entity_ids: Sequence[str], relation_ids: Sequence[str], leading: int
    ) -> tuple[list[EntityEvidence], list[RelationEvidence]]:

        def read(connection: apsw.Connection) -> tuple[list[EntityEvidence], list[RelationEvidence]]:
            return (
                self._evidence.read_entities(connection, entity_ids, leading),
                self._evidence.read_relations(connection, relation_ids, leading),
            )

        return await self._database.read(read)

    async def get_mention_places(self, entity_ids: Sequence[str], most: int) -> list[EntityPlaces]:
        return await self._database.read(
            lambda connection: read_mention_places(connection, self._ids.at(connection), entity_ids, most)
        )


def _openings(connection: apsw.Connection, document_ids: Sequence[str], length: int) -> dict[str, str]:
    keys = dict(fetch(connection, _TEXT_KEYS_BY_DOCUMENT, (array(document_ids),)))
    found: dict[str, str] = {}
    for id_, key in keys.items():
        with connection.blob_open("main", "document_text", "text", key, False) as text:
            start = text.read(min(text.length(), length * _MOST_BYTES_A_CHARACTER))
            # What is cut may end within a character.
            found[id_] = start.decode("utf-8", "ignore")[:length]
    return found


def find_documents(connection: apsw.Connection, query: DocumentQuery) -> DocumentPage:
    """Return one page of documents."""
    where, values = _conditions(query)
    direction = "DESC" if query.descending else "ASC"
    select = f"""SELECT {_DOCUMENT} FROM document JOIN identity USING (key) {where}
                 ORDER BY {_SORTS[query.sort]} {direction}, identity.id LIMIT ? OFFSET ?"""
    rows = fetch(connection, select, (*values(), query.limit, query.offset))
    total = fetch_value(connection, f"SELECT count(*) FROM document {where}", values())
    return DocumentPage(tuple(to_document(row) for row in rows), int(total))


def read_extractions(connection: apsw.Connection, chunk_ids: Sequence[str]) -> list[Extraction]:
    """Return what was read in these chunks."""
    keys = find_keys(connection, chunk_ids)
    found = (_extraction(connection, id_, keys[id_]) for id_ in chunk_ids if id_ in keys)
    return [extraction for extraction in found if extraction is not None]


def read_sources(connection: apsw.Connection, chunk_keys: Mapping[str, int]) -> dict[str, str]:
    """Return the sources of the documents that chunks are of, by the chunks' ids, given their keys."""
    if not chunk_keys:
        return {}
    sources = dict(fetch(connection, _SOURCES_BY_CHUNK, (array(list(chunk_keys.values())),)))
    return {id_: sources[key] for id_, key in chunk_keys.items() if key in sources}


def _conditions(query: DocumentQuery) -> tuple[str, Callable[[], tuple[Any, ...]]]:
    """Return a WHERE clause and what gives its arguments, anew for every statement."""
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
    if query.content_hashes:
        conditions.append(f"content_hash IN ({', '.join('?' * len(query.content_hashes))})")
        values += query.content_hashes
    if query.twin_of is not None:
        conditions.append("twin_key = (SELECT key FROM identity WHERE id = ?)")
        values.append(query.twin_of)
    filter_ = query.filter or And(())
    conditions.append(compile_filter(filter_)[0])
    return f"WHERE {' AND '.join(conditions)}", lambda: (*values, *compile_filter(filter_)[1])


def grouped(rows: Sequence[Sequence[Any]]) -> dict[str, tuple[str, ...]]:
    """Return rows of an id and a text as the texts per id, in order."""
    found: dict[str, tuple[str, ...]] = {}
    for id_, text in rows:
        found[id_] = (*found.get(id_, ()), text)
    return found


def to_document(row: Sequence[Any]) -> Document:
    """Return a document from the columns of `DOCUMENTS_BY_ID`."""
    id_, source, title, content_hash, status, error, metadata, length, chunk_count, track_id, *rest = row
    read, written, created_at, updated_at, page_starts, twin_of = rest
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
        page_starts=tuple(json.loads(page_starts)) if page_starts != "[]" else (),
        twin_of=twin_of or "",
    )


def to_chunk(row: Sequence[Any]) -> Chunk:
    """Return a chunk from the columns of `CHUNKS_BY_ID`."""
    id_, document_id, position, text, token_count, start, end, headings, page, context = row
    place = start, end, tuple(json.loads(headings)), page
    return Chunk(id_, document_id, position, text, token_count, *place, context)


def read_entity_mentions(connection: apsw.Connection, chunk_ids: Sequence[str]) -> dict[str, tuple[EntityMention, ...]]:
    """Return the entity mentions of these chunks."""
    keys = find_keys(connection, chunk_ids)
    return {id_: _entity_mentions(connection, id_, key) for id_, key in keys.items()}


def _entity_mentions(connection: apsw.Connection, chunk_id: str, key: int) -> tuple[EntityMention, ...]:
    query = """SELECT name, type, description, rank,
                      iif(name_hash IS NULL, '', (SELECT id FROM identity WHERE key = entity_key))
               FROM entity_mention INDEXED BY entity_mention_by_chunk WHERE chunk_key = ? ORDER BY ordinal"""
    return tuple(EntityMention(chunk_id, *mention) for mention in fetch(connection, query, (key,)))


def _extraction(connection: apsw.Connection, chunk_id: str, key: int) -> Extraction | None:
    query = "SELECT extractor, error, reply_keys, input_tokens, output_tokens FROM extraction WHERE chunk_key = ?"
    row = fetch_one(connection, query, (key,))
    if row is None:
        return None
    extractor, error, reply_keys, read, written = row
    entities = _entity_mentions(connection, chunk_id, key)
    query = """SELECT source, target, keywords, description, weight, rank,
                      (SELECT id FROM identity WHERE key = source_key), (SELECT id FROM identity WHERE key = target_key)
               FROM relation_mention INDEXED BY relation_mention_by_chunk WHERE chunk_key = ? ORDER BY ordinal"""
    relations = tuple(read_relation_mention(chunk_id, *mention) for mention in fetch(connection, query, (key,)))
    query = "SELECT name, alias FROM alias_mention WHERE chunk_key = ? ORDER BY ordinal"
    aliases = tuple(AliasMention(chunk_id, *mention) for mention in fetch(connection, query, (key,)))
    return Extraction(
        *(chunk_id, extractor, entities, relations, error, tuple(json.loads(reply_keys)), Usage(read, written)),
        aliases=aliases,
    )
