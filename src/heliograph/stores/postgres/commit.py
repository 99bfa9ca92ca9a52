"""One commit on PostgreSQL: lock the workspace, compare what the changeset expects, write all of it.

One statement a table, however many rows; graph, full text and vectors bring their own.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Any

import numpy as np

from heliograph.errors import SchemaMismatch, StaleChangesetError, StoreUnavailable
from heliograph.models import Chunk, Document, Extraction
from heliograph.stores.changeset import Changeset, Collection, VectorBatch
from heliograph.stores.postgres.database import Row, Session, Statement
from heliograph.stores.postgres.graph import graph_statements, name_statements
from heliograph.stores.postgres.records import curation_statements
from heliograph.stores.postgres.rows import Vectors, to_json
from heliograph.stores.postgres.search import check_dimensions, text_statements, vector_statements
from heliograph.stores.postgres.side_tables import outbox_statements, reply_statements
from heliograph.stores.rows import encode, join_lines
from heliograph.text.names import mention_entity_id, mention_relation_id, name_to_entity_id

# Writing truth to PostgreSQL, within the transaction of a commit: one statement a table, however many rows.

_NO_VECTORS = VectorBatch((), np.empty((0, 0), np.float32))
_DOCUMENTS = """
INSERT INTO heliograph_document AS known (workspace, id, source, title, content_hash, status, error, metadata,
  metadata_text, length, chunk_count, track_id, input_tokens, output_tokens, created_at, updated_at, page_starts,
  twin_of)
SELECT %s, id, source, title, content_hash, status, error, metadata, metadata_text, length, chunk_count, track_id,
  input_tokens, output_tokens, created_at, updated_at, page_starts, twin_of
FROM json_to_recordset(%s) AS new (id text, source text, title text, content_hash text, status text, error text,
  metadata jsonb, metadata_text text, length integer, chunk_count integer, track_id text, input_tokens bigint,
  output_tokens bigint, created_at timestamptz, updated_at timestamptz, page_starts text, twin_of text)
ON CONFLICT (workspace, id) DO UPDATE SET source = excluded.source, title = excluded.title,
  content_hash = excluded.content_hash, status = excluded.status, error = excluded.error, metadata = excluded.metadata,
  metadata_text = excluded.metadata_text, length = excluded.length, chunk_count = excluded.chunk_count,
  track_id = excluded.track_id, input_tokens = excluded.input_tokens, output_tokens = excluded.output_tokens,
  updated_at = excluded.updated_at, page_starts = excluded.page_starts, twin_of = excluded.twin_of"""
_DOCUMENT_TEXTS = """
INSERT INTO heliograph_document_text (workspace, id, text)
SELECT %s, key, value FROM json_each_text(%s)
ON CONFLICT (workspace, id) DO UPDATE SET text = excluded.text"""
# Vectors that come with their chunks are written with them; a row that is written twice is two rows to the server.
_CHUNKS = """
INSERT INTO lightrag_chunks AS known (workspace, id, full_doc_id, chunk_order_index, tokens, content, embedding,
  start_offset, end_offset, page, headings, context)
SELECT %s, new.id, full_doc_id, chunk_order_index, tokens, content, vectors.embedding, start_offset, end_offset, page,
  headings, context
FROM json_to_recordset(%s) AS new (id text, full_doc_id text, chunk_order_index integer, tokens integer, content text,
  start_offset integer, end_offset integer, page integer, headings text, context text)
LEFT JOIN ROWS FROM (json_array_elements_text(%s), unnest(%s::vector[])) AS vectors (id, embedding)
  ON vectors.id = new.id
ON CONFLICT (workspace, id) DO UPDATE SET full_doc_id = excluded.full_doc_id,
  chunk_order_index = excluded.chunk_order_index, tokens = excluded.tokens, content = excluded.content,
  embedding = coalesce(excluded.embedding, known.embedding), start_offset = excluded.start_offset,
  end_offset = excluded.end_offset, page = excluded.page, headings = excluded.headings, context = excluded.context"""
_EXTRACTIONS = """
INSERT INTO heliograph_extraction (workspace, chunk_id, extractor, error, reply_keys, input_tokens, output_tokens)
SELECT %s, * FROM json_to_recordset(%s) AS new (chunk_id text, extractor text, error text, reply_keys text,
  input_tokens bigint, output_tokens bigint)
ON CONFLICT (workspace, chunk_id) DO UPDATE SET extractor = excluded.extractor, error = excluded.error,
  reply_keys = excluded.reply_keys, input_tokens = excluded.input_tokens, output_tokens = excluded.output_tokens"""
_ENTITY_MENTIONS = """
INSERT INTO heliograph_entity_mention (workspace, entity_id, rank, chunk_id, ordinal, name, type, description, name_id)
SELECT %s, * FROM json_to_recordset(%s) AS new (entity_id text, rank bigint, chunk_id text, ordinal integer, name text,
  type text, description text, name_id text)"""
_RELATION_MENTIONS = """
INSERT INTO heliograph_relation_mention (workspace, relation_id, rank, chunk_id, ordinal, source, target, keywords,
  description, weight, source_id, target_id)
SELECT %s, * FROM json_to_recordset(%s) AS new (relation_id text, rank bigint, chunk_id text, ordinal integer,
  source text, target text, keywords json, description text, weight double precision, source_id text, target_id text)"""
_ALIAS_MENTIONS = """
INSERT INTO heliograph_alias_mention (workspace, chunk_id, ordinal, name, alias)
SELECT %s, * FROM json_to_recordset(%s) AS new (chunk_id text, ordinal integer, name text, alias text)"""
_ENTITY_EVIDENCE = """
INSERT INTO heliograph_entity_evidence (workspace, version, id, names, types, mention_count)
SELECT %s, %s::bigint, * FROM json_to_recordset(%s) AS new (id text, names text, types text, mention_count integer)
ON CONFLICT (workspace, id) DO UPDATE SET names = excluded.names, types = excluded.types,
  mention_count = excluded.mention_count, version = excluded.version"""
_RELATION_EVIDENCE = """
INSERT INTO heliograph_relation_evidence (workspace, version, id, source_id, target_id, keywords, weight_millionths,
  mention_count)
SELECT %s, %s::bigint, * FROM json_to_recordset(%s) AS new (id text, source_id text, target_id text, keywords text,
  weight_millionths bigint, mention_count integer)
ON CONFLICT (workspace, id) DO UPDATE SET source_id = excluded.source_id, target_id = excluded.target_id,
  keywords = excluded.keywords, weight_millionths = excluded.weight_millionths,
  mention_count = excluded.mention_count, version = excluded.version"""
_SAID_IN_CHUNKS = ("heliograph_entity_mention", "heliograph_relation_mention", "heliograph_alias_mention")


def removal_statements(workspace: str, changeset: Changeset) -> Iterator[Statement]:
    """Yield what takes away the truth that a changeset removes; they come first, as it may replace what it removes."""
    for table in ("heliograph_document", "heliograph_document_text"):
        yield from _deletion(workspace, table, "id", changeset.removed_documents)
    yield from _deletion(workspace, "lightrag_chunks", "id", changeset.removed_chunks)
    for table in ("heliograph_extraction", *_SAID_IN_CHUNKS):
        yield from _deletion(workspace, table, "chunk_id", changeset.removed_chunks)


def record_statements(workspace: str, changeset: Changeset, version: int) -> Iterator[Statement]:
    """Yield what writes the truth of a changeset, but its chunks."""
    if changeset.documents:
        yield Statement(_DOCUMENTS, (workspace, to_json(map(_document, changeset.documents))))
    if changeset.document_texts:
        yield Statement(_DOCUMENT_TEXTS, (workspace, to_json(changeset.document_texts)))
    yield from _deletion(workspace, "heliograph_document_text", "id", changeset.removed_texts)
    if changeset.extractions:
        yield from _extraction_statements(workspace, changeset.extractions)
    yield from _evidence_statements(workspace, changeset, version)


def chunk_statements(workspace: str, changeset: Changeset, vector_type: int) -> Iterator[Statement]:
    """Yield what writes the chunks of a changeset with those of its vectors that are theirs."""
    if changeset.chunks:
        batch = changeset.vectors.get(Collection.CHUNKS) or _NO_VECTORS
        vectors = to_json(batch.ids), Vectors(batch.vectors, vector_type)
        yield Statement(_CHUNKS, (workspace, to_json(map(chunk_row, changeset.chunks)), *vectors))


def _deletion(workspace: str, table: str, column: str, ids: Iterable[str]) -> Iterator[Statement]:
    wanted = list(ids)
    if wanted:
        query = (
            f"DELETE FROM {table} WHERE workspace = %s AND {column} = ANY (ARRAY(SELECT json_array_elements_text(%s)))"
        )
        yield Statement(query, (workspace, to_json(wanted)))


def _document(item: Document) -> dict[str, Any]:
    metadata = dict(item.metadata)
    return {
        "id": item.id,
        "source": item.source,
        "title": item.title,
        "content_hash": item.content_hash,
        "status": item.status.value,
        "error": item.error,
        "metadata": metadata,
        # Filters read the one; the other gives back the numbers and the order of keys that were given.
        "metadata_text": encode(metadata),
        "length": item.length,
        "chunk_count": item.chunk_count,
        "track_id": item.track_id,
        "input_tokens": item.usage.input_tokens,
        "output_tokens": item.usage.output_tokens,
        "created_at": item.created_at.isoformat(),
        "updated_at": item.updated_at.isoformat(),
        "page_starts": encode(item.page_starts),
        "twin_of": item.twin_of,
    }


def chunk_row(item: Chunk) -> dict[str, Any]:
    """Return the columns of a chunk, but its workspace and its vector."""
    return {
        "id": item.id,
        "full_doc_id": item.document_id,
        "chunk_order_index": item.position,
        "tokens": item.token_count,
        "content": item.text,
        "start_offset": item.start,
        "end_offset": item.end,
        "page": item.page,
        "headings": encode(item.headings),
        "context": item.context,
    }


def _extraction_statements(workspace: str, extractions: Sequence[Extraction]) -> Iterator[Statement]:
    for table in _SAID_IN_CHUNKS:
        yield from _deletion(workspace, table, "chunk_id", (item.chunk_id for item in extractions))
    yield Statement(_EXTRACTIONS, (workspace, to_json(map(_extraction, extractions))))
    for query, rows in (
        (_ENTITY_MENTIONS, [row for item in extractions for row in _entity_mentions(item)]),
        (_RELATION_MENTIONS, [row for item in extractions for row in _relation_mentions(item)]),
        (_ALIAS_MENTIONS, [row for item in extractions for row in _alias_mentions(item)]),
    ):
        if rows:
            yield Statement(query, (workspace, to_json(rows)))


def _extraction(item: Extraction) -> dict[str, Any]:
    return {
        "chunk_id": item.chunk_id,
        "extractor": item.extractor,
        "error": item.error,
        "reply_keys": join_lines(item.reply_keys),
        "input_tokens": item.usage.input_tokens,
        "output_tokens": item.usage.output_tokens,
    }


def _entity_mentions(extraction: Extraction) -> Iterator[dict[str, Any]]:
    for ordinal, item in enumerate(extraction.entities):
        yield {
            "entity_id": mention_entity_id(item),
            "rank": item.rank,
            "chunk_id": extraction.chunk_id,
            "ordinal": ordinal,
            "name": item.name,
            "type": item.type,
            "description": item.description,
            "name_id": name_to_entity_id(item.name) if item.entity_id else None,
        }


def _relation_mentions(extraction: Extraction) -> Iterator[dict[str, Any]]:
    for ordinal, item in enumerate(extraction.relations):
        yield {
            "relation_id": mention_relation_id(item),
            "rank": item.rank,
            "chunk_id": extraction.chunk_id,
            "ordinal": ordinal,
            "source": item.source,
            "target": item.target,
            "keywords": item.keywords,
            "description": item.description,
            "weight": item.weight,
            "source_id": item.source_id,
            "target_id": item.target_id,
        }


def _alias_mentions(extraction: Extraction) -> Iterator[dict[str, Any]]:
    for ordinal, item in enumerate(extraction.aliases):
        yield {"chunk_id": extraction.chunk_id, "ordinal": ordinal, "name": item.name, "alias": item.alias}


def _evidence_statements(workspace: str, changeset: Changeset, version: int) -> Iterator[Statement]:
    entities = [
        {
            "id": item.id,
            "names": encode(item.names),
            "types": encode(item.types),
            "mention_count": item.mention_count,
        }
        for item in changeset.entity_evidence
        if item.mention_count
    ]
    if entities:
        yield Statement(_ENTITY_EVIDENCE, (workspace, version, to_json(entities)))
    relations = [
        {
            "id": item.id,
            "source_id": item.source_id,
            "target_id": item.target_id,
            "keywords": encode(item.keywords),
            "weight_millionths": item.weight_millionths,
            "mention_count": item.mention_count,
        }
        for item in changeset.relation_evidence
        if item.mention_count
    ]
    if relations:
        yield Statement(_RELATION_EVIDENCE, (workspace, version, to_json(relations)))
    for table, evidence in (
        ("heliograph_entity_evidence", changeset.entity_evidence),
        ("heliograph_relation_evidence", changeset.relation_evidence),
    ):
        yield from _deletion(workspace, table, "id", (item.id for item in evidence if not item.mention_count))


CommitSettings = tuple[float, bool]

_LIMITS = "SELECT set_config('lock_timeout', %s, true), set_config('synchronous_commit', %s, true)"
_LOCK = """SELECT data_version, embedding_name, embedding_dimension FROM heliograph_workspace WHERE name = %s
  FOR UPDATE"""
_HAS_READERS = "SELECT EXISTS (SELECT 1 FROM heliograph_outbox_reader WHERE workspace = %s)"
_STALE_EVIDENCE = """
SELECT wanted.key FROM json_each_text(%s) AS wanted
LEFT JOIN heliograph_entity_evidence AS entity ON entity.workspace = %s AND entity.id = wanted.key
LEFT JOIN heliograph_relation_evidence AS relation ON relation.workspace = %s AND relation.id = wanted.key
WHERE coalesce(entity.version, relation.version, 0) <> wanted.value::bigint LIMIT 1"""
_STALE_RULES = """
SELECT wanted.key FROM json_each_text(%s) AS wanted
LEFT JOIN heliograph_name_rules AS rules ON rules.workspace = %s AND rules.id = wanted.key
WHERE coalesce(rules.version, 0) <> wanted.value::bigint LIMIT 1"""
_STALE_DOCUMENTS = """
SELECT wanted.key FROM json_each_text(%s) AS wanted
LEFT JOIN heliograph_document AS document ON document.workspace = %s AND document.id = wanted.key
WHERE coalesce(document.content_hash, '') <> wanted.value LIMIT 1"""
_RAISE_VERSION = "UPDATE heliograph_workspace SET data_version = %s WHERE name = %s"


async def commit(
    session: Session, changeset: Changeset, embedding: tuple[str, int], vector_type: int, settings: CommitSettings
) -> int:
    """Apply a changeset; return the new data version.

    Args:
        session: Outside a transaction.
        changeset: What changes.
        embedding: What the workspace was opened with.
        vector_type: The type id of vectors.
        settings: Seconds to wait for another commit, and whether the new state must survive a crash of the server.

    Raises:
        StaleChangesetError: Something that it was computed from has changed; nothing was applied.
        SchemaMismatch: The workspace is of another embedding than it was opened with.
        StoreUnavailable: It was removed since then.
        psycopg.Error: The server failed, or somebody else has held the workspace for too long.
    """
    check_dimensions(changeset, embedding[1])
    workspace = session.workspace
    checks = list(_checks(workspace, changeset))
    begin = Statement("BEGIN"), _limits(settings), Statement(_LOCK, (workspace,)), Statement(_HAS_READERS, (workspace,))
    _, _, locked, ((has_readers,),), *stale = await session.run(*begin, *(query for _, query in checks))
    version = _locked_version(locked, embedding) + 1
    for (said, _), rows in zip(checks, stale, strict=True):
        if rows:
            raise StaleChangesetError(f"{said.format(rows[0][0])} changed since it was read; read it and try again")
    if changeset.expected_version not in (None, version - 1):
        raise StaleChangesetError("something was committed since the changeset was computed; compute it again")
    noted = outbox_statements(workspace, changeset, version) if has_readers else ()
    await session.commit(*_statements(workspace, changeset, version, vector_type), *noted)
    return version


def _limits(settings: CommitSettings) -> Statement:
    timeout_seconds, is_durable = settings
    # 0 would mean to wait for ever.
    milliseconds = max(1, int(timeout_seconds * 1000))
    return Statement(_LIMITS, (str(milliseconds), "on" if is_durable else "off"))


def _checks(workspace: str, changeset: Changeset) -> Iterator[tuple[str, Statement]]:
    if changeset.expected:
        values = to_json(changeset.expected), workspace, workspace
        yield "the evidence of {!r} has", Statement(_STALE_EVIDENCE, values)
    if changeset.expected_rules:
        yield "the rules of the name {!r} have", Statement(_STALE_RULES, (to_json(changeset.expected_rules), workspace))
    if changeset.expected_documents:
        values = to_json(changeset.expected_documents), workspace
        yield "the document {!r} has", Statement(_STALE_DOCUMENTS, values)


def _locked_version(locked: Sequence[Row], embedding: tuple[str, int]) -> int:
    if not locked:
        raise StoreUnavailable("the workspace was removed since it was opened; open it again")
    ((version, *stored),) = locked
    if tuple(stored) != embedding:
        raise SchemaMismatch(
            f"the store was embedded anew with {tuple(stored)!r} since it was opened with {embedding!r}; "
            "configure that embedding and open the store again"
        )
    return int(version)


def _statements(workspace: str, changeset: Changeset, version: int, vector_type: int) -> Iterator[Statement]:
    # Removals first, so that a changeset may replace what it removes; vectors last, beside which stands what the graph
    # says.
    return chain(
        (Statement(_RAISE_VERSION, (version, workspace)),),
        removal_statements(workspace, changeset),
        record_statements(workspace, changeset, version),
        chunk_statements(workspace, changeset, vector_type),
        curation_statements(workspace, changeset, version),
        graph_statements(workspace, changeset),
        name_statements(workspace, changeset),
        vector_statements(workspace, changeset, vector_type),
        text_statements(workspace, changeset),
        reply_statements(workspace, changeset),
    )
