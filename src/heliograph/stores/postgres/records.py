"""Truth on PostgreSQL: documents, chunks, evidence, rules of names, curations; filters of documents; model replies.

A commit runs one statement per table, however many rows.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from itertools import starmap
from typing import Any

import numpy as np

from heliograph.filters import Equals, Exists, In, OnPath, Range, path_keys
from heliograph.ids import mention_entity_id, mention_relation_id, name_to_entity_id
from heliograph.models import (
    AliasMention,
    Batch,
    Chunk,
    Document,
    EntityEvidence,
    EntityMention,
    Extraction,
    NameRules,
    RelationEvidence,
)
from heliograph.stores.base import (
    ANSWERS,
    SHOWN_ERRORS,
    CachedReply,
    CurationPage,
    CurationQuery,
    CurationStore,
    DocumentPage,
    DocumentQuery,
    RecordsStore,
    ReplyCache,
)
from heliograph.stores.changeset import Changeset, Collection, VectorBatch
from heliograph.stores.postgres.database import (
    CHUNK,
    CHUNK_TYPES,
    DOCUMENT,
    DOCUMENT_TYPES,
    ENTITY_MENTION,
    RELATION_MENTION,
    WANTED,
    Database,
    Row,
    Session,
    Statement,
    Vectors,
    deletion,
    record_set,
    to_json,
    to_relation_mention,
    upsert,
)
from heliograph.stores.sql import (
    CHUNKS,
    COMPARISONS,
    DOCUMENTS,
    ENTITY_EVIDENCE,
    ENTITY_MENTIONS,
    NAME_RULES,
    RELATION_EVIDENCE,
    RELATION_MENTIONS,
    REPLIES,
    Columns,
    Condition,
    Dialect,
    chunk_details_object,
    curation_content,
    grouped,
    in_utc,
    to_batch,
    to_curation,
    to_rules,
)

# Reading evidence from PostgreSQL: counts, and the first mentions in canonical order as one JSON list a row.

_LEADING = """(SELECT json_agg(said) FROM (SELECT {mention} AS said FROM heliograph_{kind}_mention AS mention
                WHERE mention.workspace = evidence.workspace AND mention.{kind}_id = evidence.id
                ORDER BY mention.rank, mention.chunk_id, mention.ordinal LIMIT %s) AS first)"""
_ENTITY_EVIDENCE = f"""SELECT {ENTITY_EVIDENCE.select("evidence")},
  {_LEADING.format(mention=ENTITY_MENTION, kind="entity")}
  FROM {WANTED} JOIN heliograph_entity_evidence AS evidence
    ON evidence.workspace = %s AND evidence.id = wanted.id ORDER BY wanted.place"""
_RELATION_EVIDENCE = f"""SELECT {RELATION_EVIDENCE.select("evidence")},
  {_LEADING.format(mention=RELATION_MENTION, kind="relation")}
  FROM {WANTED} JOIN heliograph_relation_evidence AS evidence
    ON evidence.workspace = %s AND evidence.id = wanted.id ORDER BY wanted.place"""


# Rules of names and the log of curations on PostgreSQL.
#
# A curation's content is one JSON text that is never changed; `heliograph_curation_subject` finds it by the entities
# it names. The rules of a name are counts over alias mentions together with the active curations that name it; their
# row stays when the counts are removed, so that a later reader sees by its version that it has changed.

_CURATION = """curation.sequence, curation.id, curation.kind, curation.content, curation.author, curation.created_at,
  curation.undone_by, curation.undone_at"""
_SUBJECTS = """heliograph_curation_subject AS subject JOIN heliograph_curation AS curation
  ON curation.workspace = subject.workspace AND curation.sequence = subject.sequence"""
_RULES = f"""SELECT rules.id, names, aliases, version FROM {WANTED}
  JOIN heliograph_name_rules AS rules ON rules.workspace = %s AND rules.id = wanted.id ORDER BY wanted.place"""
_ACTIVE = f"""SELECT subject.entity_id, {_CURATION} FROM {_SUBJECTS}
  WHERE subject.workspace = %s AND subject.entity_id = ANY (ARRAY(SELECT json_array_elements_text(%s)))
    AND curation.undone_at IS NULL ORDER BY curation.sequence"""
_MENTIONING = """
WITH wanted AS MATERIALIZED (SELECT DISTINCT id FROM json_array_elements_text(%s) AS given (id)),
found AS (
  SELECT mention.chunk_id FROM wanted
  JOIN heliograph_entity_mention AS mention ON mention.workspace = %s AND mention.entity_id = wanted.id
  UNION
  SELECT mention.chunk_id FROM wanted
  JOIN heliograph_entity_mention AS mention ON mention.workspace = %s AND mention.name_id = wanted.id
   AND mention.name_id IS NOT NULL
)
SELECT chunk.id, chunk.full_doc_id FROM found
JOIN lightrag_chunks AS chunk ON chunk.workspace = %s AND chunk.id = found.chunk_id"""
_ALIASES = """SELECT chunk.full_doc_id, mention.chunk_id, mention.name, mention.alias FROM lightrag_chunks AS chunk
  JOIN heliograph_alias_mention AS mention ON mention.workspace = chunk.workspace AND mention.chunk_id = chunk.id
  WHERE chunk.workspace = %s AND chunk.full_doc_id = ANY (ARRAY(SELECT json_array_elements_text(%s)))
  ORDER BY chunk.chunk_order_index, mention.chunk_id, mention.ordinal"""
_PUT = """
WITH new AS (
  SELECT * FROM ROWS FROM (json_to_recordset(%s) AS (sequence bigint, id text, kind text, content text, author text,
    created_at timestamptz, undone_by text, undone_at timestamptz, entity_ids json)) WITH ORDINALITY
), put AS (
  INSERT INTO heliograph_curation AS known (workspace, sequence, id, kind, content, author, created_at, undone_by,
    undone_at)
  SELECT %s, coalesce(sequence, nextval(pg_get_serial_sequence('heliograph_curation', 'sequence'))), id, kind, content,
    author, created_at, undone_by, undone_at FROM (SELECT * FROM new ORDER BY ordinality) AS ordered
  ON CONFLICT (workspace, id) DO UPDATE SET undone_by = excluded.undone_by, undone_at = excluded.undone_at
  RETURNING id, sequence
)
INSERT INTO heliograph_curation_subject (workspace, entity_id, sequence)
SELECT DISTINCT %s, subject.id, put.sequence FROM put JOIN new USING (id)
CROSS JOIN LATERAL json_array_elements_text(new.entity_ids) AS subject (id) ON CONFLICT DO NOTHING"""
_PUT_RULES = upsert("heliograph_name_rules", NAME_RULES.without("version"), is_versioned=True)


class PostgresCurationStore(CurationStore):
    """Rules and curations in tables."""

    def __init__(self, database: Database | Session) -> None:
        self._database = database

    async def get_rules(self, ids: Sequence[str]) -> list[NameRules]:
        if not ids:
            return []
        workspace, wanted = self._database.workspace, to_json(ids)
        rules, active = await self._database.fetch_all(
            Statement(_RULES, (wanted, workspace)), Statement(_ACTIVE, (workspace, wanted))
        )
        return to_rules(rules, active, in_utc)

    async def find_curations(self, query: CurationQuery) -> CurationPage:
        tables = "heliograph_curation AS curation" if query.entity_id is None else _SUBJECTS
        condition, found = DIALECT.where_curations(query)
        where, values = (
            f"FROM {tables} WHERE curation.workspace = %s AND {condition}",
            [self._database.workspace, *found],
        )
        direction = "DESC" if query.descending else "ASC"
        select = f"SELECT {_CURATION} {where} ORDER BY curation.sequence {direction} LIMIT %s OFFSET %s"
        rows, ((total,),) = await self._database.fetch_all(
            Statement(select, (*values, query.limit, query.offset)), Statement(f"SELECT count(*) {where}", values)
        )
        return CurationPage(tuple(to_curation(row, in_utc) for row in rows), int(total))

    async def find_mentioning_chunks(self, ids: Sequence[str]) -> dict[str, str]:
        values = (to_json(ids), *[self._database.workspace] * 3)
        return dict(await self._database.fetch(_MENTIONING, values)) if ids else {}


def curation_statements(workspace: str, changeset: Changeset, version: int) -> Iterator[Statement]:
    """Yield the statements that apply the curations and rules of a changeset that is committed as `version`."""
    if changeset.curations:
        rows = [
            {
                "id": item.id,
                "author": item.author,
                "undone_by": item.undone_by,
                "sequence": item.sequence or None,
                "kind": item.kind.value,
                "content": curation_content(item),
                "created_at": item.created_at.isoformat(),
                "undone_at": item.undone_at.isoformat() if item.undone_at else None,
                "entity_ids": item.entity_ids,
            }
            for item in changeset.curations
        ]
        yield Statement(_PUT, (to_json(rows), workspace, workspace))
    if changeset.name_rules:
        # If a name has several rules, the last one counts.
        rows = {item.id: NAME_RULES.row(item) for item in changeset.name_rules}
        yield Statement(_PUT_RULES, (workspace, version, to_json(rows.values())))


_DOCUMENTS_BY_ID = f"""SELECT {DOCUMENT} FROM {WANTED}
  JOIN heliograph_document AS document ON document.workspace = %s AND document.id = wanted.id ORDER BY wanted.place"""
# A twin's text is that of its original, unless the twin is still waiting, with a text of its own.
_TEXT_BY_DOCUMENT = """SELECT text.text FROM heliograph_document AS document
  JOIN heliograph_document_text AS text ON text.workspace = document.workspace
   AND text.id IN (document.id, document.twin_of)
  WHERE document.workspace = %s AND document.id = %s ORDER BY text.id = document.id DESC LIMIT 1"""
_CHUNKS_BY_ID = f"""SELECT {CHUNK} FROM {WANTED}
  JOIN lightrag_chunks AS chunk ON chunk.workspace = %s AND chunk.id = wanted.id ORDER BY wanted.place"""
_CHUNKS_BY_DOCUMENT = f"""SELECT {CHUNK} FROM lightrag_chunks AS chunk WHERE workspace = %s AND full_doc_id = %s
  ORDER BY chunk_order_index"""
_DOCUMENT_IDS = f"""SELECT wanted.id, chunk.full_doc_id FROM {WANTED}
  JOIN lightrag_chunks AS chunk ON chunk.workspace = %s AND chunk.id = wanted.id"""
_LANGUAGES = f"""SELECT wanted.id, document.metadata ->> 'language' FROM {WANTED}
  JOIN lightrag_chunks AS chunk ON chunk.workspace = %s AND chunk.id = wanted.id
  JOIN heliograph_document AS document ON document.workspace = chunk.workspace AND document.id = chunk.full_doc_id
  WHERE document.metadata ->> 'language' IS NOT NULL"""
_SOURCES = f"""SELECT wanted.id, document.source FROM {WANTED}
  JOIN lightrag_chunks AS chunk ON chunk.workspace = %s AND chunk.id = wanted.id
  JOIN heliograph_document AS document ON document.workspace = chunk.workspace AND document.id = chunk.full_doc_id
  ORDER BY wanted.place"""
_TWINS = f"""SELECT wanted.id, twin.id, twin.source FROM {WANTED}
  JOIN lightrag_chunks AS chunk ON chunk.workspace = %s AND chunk.id = wanted.id
  JOIN heliograph_document AS twin ON twin.workspace = chunk.workspace AND twin.twin_of = chunk.full_doc_id
   AND twin.twin_of <> '' AND twin.status IN ('processed', 'partial') ORDER BY wanted.place, twin.id"""
_OPENINGS = f"""SELECT wanted.id, text.opening FROM {WANTED}
  JOIN heliograph_document AS document ON document.workspace = %s AND document.id = wanted.id
  CROSS JOIN LATERAL (SELECT left(text, %s) AS opening FROM heliograph_document_text AS text
    WHERE text.workspace = document.workspace AND text.id IN (document.id, document.twin_of)
    ORDER BY text.id = document.id DESC LIMIT 1) AS text
  ORDER BY wanted.place"""
_SAID = """(SELECT json_agg({mention} ORDER BY mention.ordinal) FROM {table} AS mention
            WHERE mention.workspace = extraction.workspace AND mention.chunk_id = extraction.chunk_id)"""
_EXTRACTION = Columns(Extraction, without=["entities", "relations", "aliases"], are_lines=True)
_EXTRACTIONS = f"""SELECT {_EXTRACTION.select("extraction")},
  {_SAID.format(mention=ENTITY_MENTION, table="heliograph_entity_mention")},
  {_SAID.format(mention=RELATION_MENTION, table="heliograph_relation_mention")},
  {_SAID.format(mention="json_build_array(mention.name, mention.alias)", table="heliograph_alias_mention")}
  FROM {WANTED} JOIN heliograph_extraction AS extraction
    ON extraction.workspace = %s AND extraction.chunk_id = wanted.id ORDER BY wanted.place"""
_BATCHES = """
WITH batch AS (
  SELECT track_id, sum(chunk_count)::bigint AS chunks, sum(input_tokens)::bigint AS read,
    sum(output_tokens)::bigint AS written, min(created_at) AS created_at, max(updated_at) AS updated_at
  FROM heliograph_document WHERE workspace = %s AND track_id <> '' GROUP BY track_id
  ORDER BY updated_at DESC, track_id LIMIT %s OFFSET %s
)
SELECT batch.*,
  (SELECT json_object_agg(status, count) FROM (SELECT status, count(*) FROM heliograph_document AS document
    WHERE workspace = %s AND document.track_id = batch.track_id GROUP BY status) AS statuses),
  (SELECT json_agg(json_build_array(source, error)) FROM (SELECT source, error FROM heliograph_document AS document
    WHERE workspace = %s AND document.track_id = batch.track_id AND error <> '' ORDER BY source LIMIT %s) AS failed)
FROM batch ORDER BY updated_at DESC, track_id"""
_SORTS = {"created_at": "created_at", "updated_at": "updated_at", "source": "source", "id": "id"}


class PostgresRecordsStore(RecordsStore):
    """Truth in normalised tables."""

    def __init__(self, database: Database | Session) -> None:
        self._database = database

    async def _fetch(self, query: str, ids: Sequence[str]) -> list[Row]:
        return await self._database.fetch(query, (to_json(ids), self._database.workspace)) if ids else []

    async def get_documents(self, ids: Sequence[str]) -> list[Document]:
        return [DOCUMENTS.record(row) for row in await self._fetch(_DOCUMENTS_BY_ID, ids)]

    async def find_documents(self, query: DocumentQuery) -> DocumentPage:
        where, values = DIALECT.where(query)
        of = f"heliograph_document AS document WHERE document.workspace = %s AND {where}"
        direction, bound = "DESC" if query.descending else "ASC", (self._database.workspace, *values)
        page = f"""SELECT {DOCUMENT} FROM {of}
                   ORDER BY document.{_SORTS[query.sort]} {direction}, document.id LIMIT %s OFFSET %s"""
        rows, ((total,),) = await self._database.fetch_all(
            Statement(page, (*bound, query.limit, query.offset), is_planned_anew=True),
            Statement(f"SELECT count(*) FROM {of}", bound, is_planned_anew=True),
        )
        return DocumentPage(tuple(DOCUMENTS.record(row) for row in rows), int(total))

    async def get_document_text(self, document_id: str) -> str | None:
        rows = await self._database.fetch(_TEXT_BY_DOCUMENT, (self._database.workspace, document_id))
        return rows[0][0] if rows else None

    async def list_batches(self, offset: int, limit: int) -> list[Batch]:
        workspace = self._database.workspace
        rows = await self._database.fetch(_BATCHES, (workspace, limit, offset, workspace, workspace, SHOWN_ERRORS))
        return [to_batch(sums, statuses, failed or (), in_utc) for *sums, statuses, failed in rows]

    async def get_openings(self, document_ids: Sequence[str], length: int) -> dict[str, str]:
        values = to_json(document_ids), self._database.workspace, max(0, length)
        return dict(await self._database.fetch(_OPENINGS, values)) if document_ids else {}

    async def get_chunks(self, ids: Sequence[str]) -> list[Chunk]:
        return [CHUNKS.record(row) for row in await self._fetch(_CHUNKS_BY_ID, ids)]

    async def get_document_chunks(self, document_id: str) -> list[Chunk]:
        rows = await self._database.fetch(_CHUNKS_BY_DOCUMENT, (self._database.workspace, document_id))
        return [CHUNKS.record(row) for row in rows]

    async def get_document_ids(self, chunk_ids: Sequence[str]) -> dict[str, str]:
        return dict(await self._fetch(_DOCUMENT_IDS, chunk_ids))

    async def get_languages(self, chunk_ids: Sequence[str]) -> dict[str, str]:
        return dict(await self._fetch(_LANGUAGES, chunk_ids))

    async def get_sources(self, chunk_ids: Sequence[str]) -> dict[str, str]:
        return dict(await self._fetch(_SOURCES, chunk_ids))

    async def get_twins(self, chunk_ids: Sequence[str]) -> dict[str, tuple[tuple[str, str], ...]]:
        return grouped(await self._fetch(_TWINS, chunk_ids))

    async def get_extractions(self, chunk_ids: Sequence[str]) -> list[Extraction]:
        rows = await self._fetch(_EXTRACTIONS, chunk_ids)
        return [
            _EXTRACTION.record(
                row,
                entities=tuple(starmap(EntityMention, entities or ())),
                relations=tuple(starmap(to_relation_mention, relations or ())),
                aliases=tuple(AliasMention(row[0], *names) for names in aliases or ()),
            )
            for *row, entities, relations, aliases in rows
        ]

    async def get_document_aliases(self, document_ids: Sequence[str]) -> dict[str, list[AliasMention]]:
        found: dict[str, list[AliasMention]] = {}
        values = (self._database.workspace, to_json(document_ids))
        for document_id, *mention in await self._database.fetch(_ALIASES, values) if document_ids else []:
            found.setdefault(document_id, []).append(AliasMention(*mention))
        return found

    async def get_evidence(
        self, entity_ids: Sequence[str], relation_ids: Sequence[str], leading: int
    ) -> tuple[list[EntityEvidence], list[RelationEvidence]]:
        workspace = self._database.workspace
        entities, relations = await self._database.fetch_all(
            Statement(_ENTITY_EVIDENCE, (leading, to_json(entity_ids), workspace)),
            Statement(_RELATION_EVIDENCE, (leading, to_json(relation_ids), workspace)),
        )
        return (
            [ENTITY_EVIDENCE.record(row, leading=tuple(starmap(EntityMention, said or ()))) for *row, said in entities],
            [
                RELATION_EVIDENCE.record(row, leading=tuple(starmap(to_relation_mention, said or ())))
                for *row, said in relations
            ],
        )


# Filters as SQL conditions.
#
# A path becomes an SQL/JSON path in lax mode, which steps into lists as a filter does: one level at each key. A list at
# the end of a path is compared by `@>`, which holds between a list and each of its elements and between equal scalars
# of the same type.


class PostgresDialect(Dialect):
    """Lists are JSON; the tables are `heliograph_document AS document` and `lightrag_chunks AS chunk`."""

    mark, true, false = "%s", "true", "false"
    detail = """CASE WHEN jsonb_exists(document.metadata, '{0}') THEN document.metadata
      ELSE jsonb_build_object('{0}', document.{0}) END"""
    details = chunk_details_object("jsonb_build_object", "{}::jsonb")
    chunks = """FROM lightrag_chunks AS chunk WHERE chunk.workspace = document.workspace
      AND chunk.full_doc_id = CASE document.twin_of WHEN '' THEN document.id ELSE document.twin_of END"""

    def one_of(self, column: str, values: Sequence[str]) -> Condition:
        # As an array, the planner estimates it better: where all documents share a status or have no source, it would
        # otherwise read them all in order of their ids, not knowing that few have the requested value.
        return f"({column} = ANY (%s::text[]))", [list(values)]

    def twin_of(self, document_id: str) -> Condition:
        return "document.twin_of = %s", [document_id]

    def meets(self, column: str, condition: OnPath) -> Condition:
        match condition:
            case Exists(path):
                return f"jsonb_path_exists({column}, %s::jsonpath)", [_path(path)]
            case Equals(path, value):
                return _any_of(column, path, "found @> %s::jsonb", [_json(value)])
            case In(path, values):
                listed = "found @> ANY (SELECT jsonb_array_elements(%s::jsonb))"
                return _any_of(column, path, listed, [_json(list(values))]) if values else ("false", [])
            case Range(path):
                bounds = condition.bounds
                is_text = all(isinstance(bound, str) for bound in bounds.values())
                kind, value, cast = (
                    ("string", "(item #>> '{}') COLLATE \"C\"", "%s")
                    if is_text
                    else ("number", "(item #>> '{}')::numeric", "%s::numeric")
                )
                tests = " AND ".join(f"{value} {COMPARISONS[name]} {cast}" for name in bounds)
                # CASE keeps a text from being read as a number.
                leaf = f"""EXISTS (SELECT 1 FROM jsonb_array_elements(
                    CASE jsonb_typeof(found) WHEN 'array' THEN found ELSE jsonb_build_array(found) END) AS item
                  WHERE CASE jsonb_typeof(item) WHEN '{kind}' THEN {tests} ELSE false END)"""
                given = [_clean(bound) if isinstance(bound, str) else repr(bound) for bound in bounds.values()]
                return _any_of(column, path, leaf, given) if bounds else ("false", [])


DIALECT = PostgresDialect()
compile_filter = DIALECT.compile_filter
compile_chunk_filter = DIALECT.compile_chunk_filter


def _any_of(column: str, path: str, leaf: str, values: list[Any]) -> Condition:
    """Return the condition that a path has a value, here called `found`, for which `leaf` holds."""
    from_path = f"EXISTS (SELECT 1 FROM jsonb_path_query({column}, %s::jsonpath) AS found WHERE"
    return f"{from_path} {leaf})", [_path(path), *values]


def _path(path: str) -> str:
    return "$" + "".join(f".{json.dumps(_clean(key), ensure_ascii=False)}" for key in path_keys(path))


def _clean(text: str) -> str:
    return text.replace("\x00", "\ufffd")


def _json(value: object) -> str:
    return to_json([value]).data.decode()[1:-1]


# Writing truth to PostgreSQL, within the transaction of a commit: one statement per table, however many rows.

_NO_VECTORS = VectorBatch((), np.empty((0, 0), np.float32))
_DOCUMENTS = upsert("heliograph_document", DOCUMENT_TYPES, kept=["created_at"])
_DOCUMENT_TEXTS = """
INSERT INTO heliograph_document_text (workspace, id, text)
SELECT %s, key, value FROM json_each_text(%s)
ON CONFLICT (workspace, id) DO UPDATE SET text = excluded.text"""
# Vectors that come with their chunks are written with them; writing a row twice makes two row versions.
_CHUNK_NAMES = [name for name in CHUNK_TYPES if name != "id"]
_CHUNKS = f"""
INSERT INTO lightrag_chunks AS known (workspace, id, embedding, {", ".join(_CHUNK_NAMES)})
SELECT %s, new.id, vectors.embedding, {", ".join(_CHUNK_NAMES)}
FROM {record_set(CHUNK_TYPES)}
LEFT JOIN ROWS FROM (json_array_elements_text(%s), unnest(%s::vector[])) AS vectors (id, embedding)
  ON vectors.id = new.id
ON CONFLICT (workspace, id) DO UPDATE SET embedding = coalesce(excluded.embedding, known.embedding),
  {", ".join(f"{name} = excluded.{name}" for name in _CHUNK_NAMES)}"""
_PUT_EXTRACTIONS = upsert("heliograph_extraction", _EXTRACTION.types, key="chunk_id")
_ALIASES_SAID = Columns(AliasMention)
_SAID_IN_CHUNKS = {
    "heliograph_entity_mention": ENTITY_MENTIONS.types | {"ordinal": "integer", "name_id": "text"},
    "heliograph_relation_mention": RELATION_MENTIONS.types
    | {"ordinal": "integer", "relation_id": "text", "keywords": "json"},
    "heliograph_alias_mention": _ALIASES_SAID.types | {"ordinal": "integer"},
}
_PUT_SAID = [upsert(table, columns, key="") for table, columns in _SAID_IN_CHUNKS.items()]
_PUT_ENTITY_EVIDENCE, _PUT_RELATION_EVIDENCE = (
    upsert(f"heliograph_{kind}_evidence", columns.without("version"), is_versioned=True)
    for kind, columns in (("entity", ENTITY_EVIDENCE), ("relation", RELATION_EVIDENCE))
)


def removal_statements(workspace: str, changeset: Changeset) -> Iterator[Statement]:
    """Yield the statements that delete the truth a changeset removes; first, as it may replace what it removes."""
    for table in ("heliograph_document", "heliograph_document_text"):
        yield from deletion(workspace, table, changeset.removed_documents)
    yield from deletion(workspace, "lightrag_chunks", changeset.removed_chunks)
    for table in ("heliograph_extraction", *_SAID_IN_CHUNKS):
        yield from deletion(workspace, table, changeset.removed_chunks, "chunk_id")


def record_statements(workspace: str, changeset: Changeset, version: int) -> Iterator[Statement]:
    """Yield the statements that write the truth of a changeset, except its chunks."""
    if changeset.documents:
        written = ((item, DOCUMENTS.row(item)) for item in changeset.documents)
        rows = (
            values | {"metadata": dict(item.metadata), "metadata_text": values["metadata"]} for item, values in written
        )
        yield Statement(_DOCUMENTS, (workspace, to_json(rows)))
    if changeset.document_texts:
        yield Statement(_DOCUMENT_TEXTS, (workspace, to_json(changeset.document_texts)))
    yield from deletion(workspace, "heliograph_document_text", changeset.removed_texts)
    if changeset.extractions:
        yield from _extraction_statements(workspace, changeset.extractions)
    entities, relations = changeset.entity_evidence, changeset.relation_evidence
    if rows := [ENTITY_EVIDENCE.row(item) for item in entities if item.mention_count]:
        yield Statement(_PUT_ENTITY_EVIDENCE, (workspace, version, to_json(rows)))
    if rows := [RELATION_EVIDENCE.row(item) for item in relations if item.mention_count]:
        yield Statement(_PUT_RELATION_EVIDENCE, (workspace, version, to_json(rows)))
    for kind, items in (("entity", entities), ("relation", relations)):
        gone = (item.id for item in items if not item.mention_count)
        yield from deletion(workspace, f"heliograph_{kind}_evidence", gone)


def chunk_statements(workspace: str, changeset: Changeset, vector_type: int) -> Iterator[Statement]:
    """Yield the statements that write the chunks of a changeset with their vectors, if it has them."""
    if changeset.chunks:
        batch = changeset.vectors.get(Collection.CHUNKS) or _NO_VECTORS
        vectors = to_json(batch.ids), Vectors(batch.vectors, vector_type)
        yield Statement(_CHUNKS, (workspace, to_json(map(chunk_row, changeset.chunks)), *vectors))


def chunk_row(item: Chunk) -> dict[str, Any]:
    """Return the columns of a chunk, except its workspace and its vector."""
    return dict(zip(CHUNK_TYPES, CHUNKS.values(item), strict=True))


def _extraction_statements(workspace: str, extractions: Sequence[Extraction]) -> Iterator[Statement]:
    for table in _SAID_IN_CHUNKS:
        yield from deletion(workspace, table, (item.chunk_id for item in extractions), "chunk_id")
    rows: list[dict[str, Any]] = []
    entities: list[dict[str, Any]] = []
    relations: list[dict[str, Any]] = []
    aliases: list[dict[str, Any]] = []
    for read in extractions:
        rows.append(_EXTRACTION.row(read))
        for ordinal, item in enumerate(read.entities):
            name_id = name_to_entity_id(item.name) if item.entity_id else None
            placed = {"entity_id": mention_entity_id(item), "name_id": name_id, "ordinal": ordinal}
            entities.append(ENTITY_MENTIONS.row(item) | placed | {"chunk_id": read.chunk_id})
        for ordinal, item in enumerate(read.relations):
            placed = {"relation_id": mention_relation_id(item), "ordinal": ordinal, "chunk_id": read.chunk_id}
            relations.append(RELATION_MENTIONS.row(item) | placed | {"keywords": item.keywords})
        for ordinal, item in enumerate(read.aliases):
            aliases.append(_ALIASES_SAID.row(item) | {"ordinal": ordinal, "chunk_id": read.chunk_id})
    yield Statement(_PUT_EXTRACTIONS, (workspace, to_json(rows)))
    for query, said in zip(_PUT_SAID, (entities, relations, aliases), strict=True):
        if said:
            yield Statement(query, (workspace, to_json(said)))


# The reply cache.

_ENCODING = "utf-8", "surrogatepass"
_REPLY = f"SELECT {REPLIES.select('reply')} FROM heliograph_reply AS reply WHERE workspace = %s"
_PUT_REPLY = f"""
INSERT INTO heliograph_reply (workspace, cache_type, {", ".join(REPLIES.types)})
VALUES (%s, %s{", %s" * len(REPLIES.types)})
ON CONFLICT (workspace, key) DO UPDATE
  SET {", ".join(f"{name} = excluded.{name}" for name in REPLIES.without("key"))}"""
_DROP_ANSWERS = "DELETE FROM heliograph_reply WHERE workspace = %s AND cache_type = %s"
_DROP_ABOUT = """DELETE FROM heliograph_reply
  WHERE workspace = %s AND subject_id <> '' AND subject_id = ANY (ARRAY(SELECT json_array_elements_text(%s)))
    AND key <> ALL (ARRAY(SELECT json_array_elements_text(%s)))"""


class PostgresReplyCache(ReplyCache):
    """Replies in one table, by key."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def get_reply(self, key: str) -> CachedReply | None:
        rows = await self._database.fetch(f"{_REPLY} AND key = %s", (self._database.workspace, key))
        return _reply(rows[0]) if rows else None

    async def put_reply(self, reply: CachedReply) -> None:
        # A text may hold characters that PostgreSQL's text refuses; it is stored as bytes.
        row = REPLIES.row(reply) | {"text": reply.text.encode(*_ENCODING), "created_at": reply.created_at}
        values = self._database.workspace, reply.cache_type, *row.values()
        await self._database.execute(Statement(_PUT_REPLY, values))

    async def delete_replies(self, cache_type: str | None = None) -> int:
        query = """WITH gone AS (DELETE FROM heliograph_reply
                     WHERE workspace = %s AND (%s::text IS NULL OR cache_type = %s) RETURNING 1)
                   SELECT count(*) FROM gone"""
        values = (self._database.workspace, cache_type, cache_type)
        ((count,),) = (await self._database.execute(Statement(query, values)))[0]
        return int(count)

    async def list_replies(self, after: str, limit: int) -> list[CachedReply]:
        query = f"{_REPLY} AND key > %s ORDER BY key LIMIT %s"
        return [_reply(row) for row in await self._database.fetch(query, (self._database.workspace, after, limit))]


def _reply(row: Sequence[Any]) -> CachedReply:
    key, text, *rest = row
    return REPLIES.record((key, text.decode(*_ENCODING), *rest))


def reply_statements(workspace: str, changeset: Changeset) -> Iterator[Statement]:
    """Yield the statements that drop cached answers, all of earlier data versions, and replies about removed items."""
    yield drop_answers(workspace)
    if changeset.removed_subjects:
        values = (workspace, to_json(changeset.removed_subjects), to_json(changeset.kept_replies))
        yield Statement(_DROP_ABOUT, values)


def drop_answers(workspace: str) -> Statement:
    """Return the statement that drops every cached answer."""
    return Statement(_DROP_ANSWERS, (workspace, ANSWERS))
