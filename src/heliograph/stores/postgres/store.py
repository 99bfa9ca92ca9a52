"""The store on PostgreSQL: all roles of one workspace in one database, every changeset one transaction.

Beside the roles of other modules it has the outbox, the second set of vectors, whole-workspace reads with checks that
only this back end can make, and upkeep of workspaces: listing, removing, emptying.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from itertools import starmap
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from heliograph.embedding.base import EmbeddingInfo
from heliograph.errors import (
    ConflictError,
    InvalidRequestError,
    SchemaMismatch,
    SettingsError,
    StaleChangesetError,
    StoreUnavailable,
)
from heliograph.filters import Filter
from heliograph.models import Document, DocumentStatus, EntityMention, RelationMention, Stats
from heliograph.settings import StoreSettings
from heliograph.stores.base import Fold, Inspection, Reembedding, ScanKind, Store, StoreView, check_begun
from heliograph.stores.changeset import (
    Changeset,
    Collection,
    Outbox,
    OutboxEntry,
    OutboxKind,
    VectorBatch,
    changed_ids,
    digest_terms,
)
from heliograph.stores.postgres.database import (
    ENTITY_MENTION,
    RELATION_MENTION,
    WANTED,
    Address,
    Database,
    Session,
    Statement,
    Vectors,
    advisory_lock,
    connect,
    parse_address,
    read_vectors,
    to_json,
    to_relation_mention,
    translate_errors,
    try_advisory_lock,
)
from heliograph.stores.postgres.graph import PostgresGraphStore, PostgresNameIndex, graph_statements, name_statements
from heliograph.stores.postgres.records import (
    PostgresCurationStore,
    PostgresRecordsStore,
    PostgresReplyCache,
    chunk_statements,
    curation_statements,
    drop_answers,
    record_statements,
    removal_statements,
    reply_statements,
)
from heliograph.stores.postgres.schema import TABLES, migrate
from heliograph.stores.postgres.search import (
    LEXEMES,
    RECORDS,
    SEGMENT,
    TERMS_TABLES,
    VECTOR_TABLES,
    PostgresTextStore,
    PostgresVectorStore,
    VectorIndexer,
    check_dimensions,
    text_statements,
    vector_statements,
)
from heliograph.stores.postgres.view import PostgresReader, PostgresScope
from heliograph.stores.registry import projection_urls
from heliograph.stores.sql import check_embedding
from heliograph.stores.view import FilteredView, ScopeMemory

# The outbox: one row per changed item, under the version of its last change.

_READERS = "SELECT name, version FROM heliograph_outbox_reader WHERE workspace = %s ORDER BY name"
_REGISTER = "INSERT INTO heliograph_outbox_reader (workspace, name, version) VALUES (%s, %s, -1) ON CONFLICT DO NOTHING"
_UNREGISTER = "DELETE FROM heliograph_outbox_reader WHERE workspace = %s AND name = %s"
_MOVE = "UPDATE heliograph_outbox_reader SET version = %s WHERE workspace = %s AND name = %s"
_LOCK = "SELECT 1 FROM heliograph_workspace WHERE name = %s FOR UPDATE"
_READ = """SELECT version, kind, id FROM heliograph_outbox WHERE workspace = %s AND version > %s AND version <= (
    SELECT max(version) FROM (SELECT version FROM heliograph_outbox WHERE workspace = %s AND version > %s
      ORDER BY version LIMIT %s) AS page)
  ORDER BY version, kind, id"""
_FORGET = """DELETE FROM heliograph_outbox WHERE workspace = %s AND version <= coalesce(
  (SELECT min(version) FROM heliograph_outbox_reader WHERE workspace = %s), 9223372036854775807)"""
_NOTE = """
INSERT INTO heliograph_outbox (workspace, version, kind, id)
SELECT DISTINCT %s, %s::bigint, kind, id FROM json_each(%s) AS changed (kind, ids)
CROSS JOIN LATERAL json_array_elements_text(changed.ids) AS named (id)
ON CONFLICT (workspace, kind, id) DO UPDATE SET version = excluded.version"""
_DROP = "DELETE FROM heliograph_outbox WHERE workspace = %s"
_RESET = """
INSERT INTO heliograph_outbox (workspace, kind, id, version)
SELECT space.name, %s, '', space.data_version FROM heliograph_workspace AS space
WHERE space.name = %s
  AND EXISTS (SELECT 1 FROM heliograph_outbox_reader AS reader WHERE reader.workspace = space.name)"""


class PostgresOutbox(Outbox):
    """Entries in a table; the right to apply them is an advisory lock."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def register(self, reader: str) -> None:
        if reader in await self.get_readers():
            return
        workspace = self._database.workspace
        # Take the lock of commits: a running commit has not seen the reader and would not be recorded for it.
        added = Statement(_LOCK, (workspace,)), Statement(_REGISTER, (workspace, reader))
        await self._database.execute(*added, *reset_statements(workspace))

    async def unregister(self, reader: str) -> None:
        workspace = self._database.workspace
        await self._database.execute(
            Statement(_UNREGISTER, (workspace, reader)), Statement(_FORGET, (workspace, workspace))
        )

    async def get_readers(self) -> Mapping[str, int]:
        return dict(await self._database.fetch(_READERS, (self._database.workspace,)))

    async def read(self, after: int, limit: int) -> list[OutboxEntry]:
        workspace = self._database.workspace
        rows = await self._database.fetch(_READ, (workspace, after, workspace, after, limit))
        return [OutboxEntry(version, OutboxKind(kind), id_) for version, kind, id_ in rows]

    async def acknowledge(self, reader: str, version: int) -> None:
        if (await self.get_readers()).get(reader) != version:
            workspace = self._database.workspace
            await self._database.execute(
                Statement(_MOVE, (version, workspace, reader)), Statement(_FORGET, (workspace, workspace))
            )

    async def reset(self, reader: str) -> None:
        workspace = self._database.workspace
        begin = Statement(_LOCK, (workspace,)), Statement(_MOVE, (-1, workspace, reader))
        await self._database.execute(*begin, *reset_statements(workspace))

    def lock(self, reader: str) -> AbstractAsyncContextManager[bool]:
        return try_advisory_lock(self._database, f"outbox {reader}")


def reset_statements(workspace: str) -> Iterator[Statement]:
    """Yield the statements that make all readers rebuild, if there are any; earlier entries are dropped."""
    yield Statement(_DROP, (workspace,))
    yield Statement(_RESET, (OutboxKind.RESET.value, workspace))


# The second set of vectors on PostgreSQL: one table, from which the first set is overwritten once it is complete.

_LOCKED = """SELECT next_embedding_name, next_embedding_dimension, data_version FROM heliograph_workspace
  WHERE name = %s FOR UPDATE"""
_BEGIN = "UPDATE heliograph_workspace SET next_embedding_name = %s, next_embedding_dimension = %s WHERE name = %s"
_NEXT_DROP = "DELETE FROM heliograph_next_vector WHERE workspace = %s"
_PENDING = """SELECT id FROM {table} AS known
  WHERE workspace = %s AND id > %s AND embedding IS NOT NULL AND NOT EXISTS (
    SELECT 1 FROM heliograph_next_vector AS next
    WHERE next.workspace = known.workspace AND next.collection = %s AND next.id = known.id)
  ORDER BY id LIMIT %s"""
_NEXT_PUT = """
INSERT INTO heliograph_next_vector (workspace, collection, id, embedding, content)
SELECT %s, %s, new.id, new.embedding, new.content
FROM ROWS FROM (json_array_elements_text(%s), unnest(%s::vector[]), json_array_elements_text(%s))
  AS new (id, embedding, content)
JOIN {table} AS known ON known.workspace = %s AND known.id = new.id AND known.embedding IS NOT NULL
ON CONFLICT (workspace, collection, id) DO UPDATE SET embedding = excluded.embedding, content = excluded.content"""
_NEXT_GET = """SELECT id, vector_send(embedding) FROM heliograph_next_vector
  WHERE workspace = %s AND collection = %s AND id = ANY (ARRAY(SELECT json_array_elements_text(%s)))"""
_REPLACE = """UPDATE {table} AS known SET embedding = next.embedding{content} FROM heliograph_next_vector AS next
  WHERE known.workspace = %s AND next.workspace = %s AND next.collection = %s AND next.id = known.id
    AND known.embedding IS NOT NULL"""
# The content of a chunk is its text; that of the others is the embedded text.
_CONTENT = ", content = coalesce(next.content, known.content)"
_FINISH = """UPDATE heliograph_workspace SET embedding_name = next_embedding_name,
  embedding_dimension = next_embedding_dimension, next_embedding_name = NULL, next_embedding_dimension = NULL,
  data_version = data_version + 1 WHERE name = %s"""


class PostgresReembedding(Reembedding):
    """Fills the table of next vectors and moves them into place."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._begun: tuple[str, int] | None = None

    async def begin(self, embedding: EmbeddingInfo) -> None:
        wanted = (embedding.name, embedding.dimension)
        workspace = self._database.workspace

        async def work(session: Session) -> None:
            stored, _ = await _lock(session)
            if stored == wanted:
                await session.commit()
                return
            await session.commit(Statement(_NEXT_DROP, (workspace,)), Statement(_BEGIN, (*wanted, workspace)))

        await self._database.run(work)
        self._begun = wanted

    async def find_pending(self, collection: Collection, after: str, limit: int) -> list[str]:
        query = _PENDING.format(table=VECTOR_TABLES[collection])
        values = (self._database.workspace, after, collection.value, limit)
        return [id_ for (id_,) in await self._database.fetch(query, values)]

    async def get_next(self, collection: Collection, ids: Sequence[str]) -> dict[str, NDArray[np.float32]]:
        rows = await self._database.fetch(_NEXT_GET, (self._database.workspace, collection.value, to_json(ids)))
        vectors = read_vectors([vector for _, vector in rows]) if rows else ()
        return {id_: vector for (id_, _), vector in zip(rows, vectors, strict=True)}

    async def put(self, collection: Collection, batch: VectorBatch) -> None:
        workspace = self._database.workspace
        vectors = to_json(batch.ids), Vectors(batch.vectors, self._database.vector_type), to_json(batch.texts)
        query = _NEXT_PUT.format(table=VECTOR_TABLES[collection])

        async def work(session: Session) -> None:
            check_begun((await _lock(session))[0], self._begun)
            await session.commit(Statement(query, (workspace, collection.value, *vectors, workspace)))

        await self._database.run(work)

    async def finish(self) -> int:
        """Indexes of the new vectors are built before it returns."""

        async def work(session: Session) -> int:
            begun, version = await _lock(session)
            check_begun(begun, self._begun)
            statements: list[Statement] = []
            workspace = self._database.workspace
            for collection, table in VECTOR_TABLES.items():
                query = f"SELECT count(*) FROM ({_PENDING.format(table=table)}) AS pending"
                ((missing,),) = await session.fetch(query, (workspace, "", collection.value, None))
                if missing:
                    raise ConflictError(
                        f"{missing} vectors of {collection.value} are not embedded yet; run reembed again"
                    )
                query = _REPLACE.format(table=table, content="" if collection is Collection.CHUNKS else _CONTENT)
                statements.append(Statement(query, (workspace, workspace, collection.value)))
            done = Statement(_NEXT_DROP, (workspace,)), Statement(_FINISH, (workspace,)), drop_answers(workspace)
            await session.commit(*statements, *done, *reset_statements(workspace))
            return version + 1

        version = await self._database.run(work)
        if self._begun is not None:
            await VectorIndexer(self._database, self._begun[1]).renew()
        self._begun = None
        return version

    async def abandon(self) -> None:
        workspace = self._database.workspace
        await self._database.execute(Statement(_BEGIN, (None, None, workspace)), Statement(_NEXT_DROP, (workspace,)))


async def _lock(session: Session) -> tuple[tuple[str, int] | None, int]:
    """Begin a transaction that excludes commits; return the next embedding, if any, and the data version."""
    _, rows = await session.run(Statement("BEGIN"), Statement(_LOCKED, (session.workspace,)))
    ((name, dimension, version),) = rows
    return None if name is None else (name, dimension), version


# Faults of the tables on PostgreSQL beyond those that a check of any store finds, and their repair.
#
# Degrees are compared with relations, postings and counts for BM25 with the terms stored, texts with their documents;
# vector indexes whose building was interrupted are reported. The server's tools check its files (`amcheck`).

# Each query takes the workspace for all of its parameters.
_COUNTED_DEGREES = """(
  SELECT id, count(*) AS degree FROM (
    SELECT source_id AS id FROM heliograph_relation WHERE workspace = %s
    UNION ALL SELECT target_id FROM heliograph_relation WHERE workspace = %s) AS ends GROUP BY id) AS counted"""
DEGREE_FAULTS = {
    "the degrees of {} entities differ from their relations": f"""
      SELECT count(*) FROM heliograph_degree AS degree LEFT JOIN {_COUNTED_DEGREES} USING (id)
      WHERE degree.workspace = %s AND degree.degree <> coalesce(counted.degree, 0)""",
    "{} entities have no degree": """
      SELECT count(*) FROM heliograph_entity AS entity WHERE workspace = %s AND NOT EXISTS (
        SELECT 1 FROM heliograph_degree AS other WHERE other.workspace = entity.workspace AND other.id = entity.id)""",
    "{} degrees belong to no entity": """
      SELECT count(*) FROM heliograph_degree AS degree WHERE workspace = %s AND NOT EXISTS (
        SELECT 1 FROM heliograph_entity AS other WHERE other.workspace = degree.workspace AND other.id = degree.id)""",
}
_FAULTS = {
    "{} texts belong to no document": """
      SELECT count(*) FROM heliograph_document_text AS text WHERE workspace = %s AND NOT EXISTS (
        SELECT 1 FROM heliograph_document AS other WHERE other.workspace = text.workspace AND other.id = text.id)"""
}
_WRONG_TERMS = """
SELECT count(DISTINCT term) FROM (
  SELECT term FROM (
    SELECT term, record, 1 AS sign FROM heliograph_posting, unnest(records) AS record
    WHERE workspace = %s AND collection = '{collection}'
    UNION ALL SELECT term, record, -1 FROM ({records}) AS counted) AS signed
  GROUP BY term, record HAVING sum(sign) <> 0) AS wrong"""
_WRONG_LEXEMES = """
SELECT count(*) FROM {table} WHERE workspace = %s AND lexemes IS DISTINCT FROM {lexemes}"""
_WRONG_SIZE = """
SELECT count(*) FROM (
  SELECT count(*) AS rows, coalesce(sum(length), 0) AS terms FROM {table} WHERE workspace = %s) AS counted
LEFT JOIN heliograph_text_size AS size ON size.workspace = %s AND size.collection = '{collection}'
WHERE coalesce(size.rows, 0) <> counted.rows OR coalesce(size.terms, 0) <> counted.terms"""


def _records(table: str) -> str:
    return RECORDS.format(rows=f"(SELECT * FROM {table} WHERE workspace = %s) AS stored")


TEXT_FAULTS = {
    said.format(collection.value): query.format(
        collection=collection.value, table=table, records=_records(table), lexemes=LEXEMES
    )
    for collection, table in TERMS_TABLES.items()
    for said, query in (
        ("{{}} terms of {} occur otherwise than their postings say", _WRONG_TERMS),
        ("{{}} rows of the full text of {} have other terms in their index", _WRONG_LEXEMES),
        ("{{}} size of the full text of {} is wrong", _WRONG_SIZE),
    )
}
_INVALID = """SELECT indexrelid::regclass::text FROM pg_index WHERE NOT indisvalid AND indrelid IN (
  'lightrag_chunks'::regclass, 'lightrag_entities'::regclass, 'lightrag_relationships'::regclass)"""


async def find_faults(database: Database, checks: Mapping[str, str] | None = None) -> list[str]:
    """Return the faults that queries count, given queries by message; None runs all, and checks indexes, too."""
    made = {**DEGREE_FAULTS, **_FAULTS, **TEXT_FAULTS} if checks is None else checks
    statements = [Statement(query, (database.workspace,) * query.count("%s")) for query in made.values()]
    *counts, invalid = await database.fetch_all(*statements, Statement(_INVALID))
    faults = [said.format(count) for said, ((count,),) in zip(made, counts, strict=True) if count]
    if checks is None:
        faults += [f"the index {name} is not whole; it is built again with a later commit" for (name,) in invalid]
    return faults


def _repairs() -> Iterator[str]:
    """Yield the statements that recompute derived data; the workspace is the only parameter."""
    # This excludes commits: each begins by this lock.
    yield "SELECT 1 FROM heliograph_workspace WHERE name = %s FOR UPDATE"
    yield "DELETE FROM heliograph_degree WHERE workspace = %s"
    yield f"""INSERT INTO heliograph_degree (workspace, id, degree)
      SELECT entity.workspace, entity.id, coalesce(counted.degree, 0) FROM heliograph_entity AS entity
      LEFT JOIN {_COUNTED_DEGREES} USING (id) WHERE entity.workspace = %s"""
    yield """DELETE FROM heliograph_document_text AS text WHERE workspace = %s AND NOT EXISTS (
      SELECT 1 FROM heliograph_document AS other WHERE other.workspace = text.workspace AND other.id = text.id)"""
    yield "DELETE FROM heliograph_posting WHERE workspace = %s"
    yield "DELETE FROM heliograph_text_size WHERE workspace = %s"
    for collection, table in TERMS_TABLES.items():
        yield f"""UPDATE {table} SET lexemes = {LEXEMES} WHERE workspace = %s AND lexemes IS DISTINCT FROM {LEXEMES}"""
        yield f"""INSERT INTO heliograph_posting (workspace, collection, term, first, records)
          SELECT %s, '{collection.value}', term, min(number), array_agg(record ORDER BY number) FROM (
            SELECT *, (row_number() OVER (PARTITION BY term ORDER BY number) - 1) / {SEGMENT} AS segment
            FROM ({_records(table)}) AS counted) AS placed GROUP BY term, segment"""
        yield f"""INSERT INTO heliograph_text_size (workspace, collection, rows, terms)
          SELECT %s, '{collection.value}', count(*), coalesce(sum(length), 0) FROM {table} WHERE workspace = %s"""


_SCANS: Mapping[ScanKind, str] = {
    ScanKind.DOCUMENTS: "id FROM heliograph_document",
    ScanKind.CHUNKS: "id FROM lightrag_chunks",
    ScanKind.EXTRACTIONS: "chunk_id FROM heliograph_extraction",
    ScanKind.MENTIONED_ENTITIES: "entity_id FROM heliograph_entity_mention",
    # A mention whose two ends count for one entity states no relation and is stored under the entity.
    ScanKind.MENTIONED_RELATIONS: "relation_id FROM heliograph_relation_mention",
    ScanKind.ENTITY_EVIDENCE: "id FROM heliograph_entity_evidence",
    ScanKind.RELATION_EVIDENCE: "id FROM heliograph_relation_evidence",
    ScanKind.ENTITIES: "id FROM heliograph_entity",
    ScanKind.RELATIONS: "id FROM heliograph_relation",
    ScanKind.CHUNK_VECTORS: "id FROM lightrag_chunks",
    ScanKind.ENTITY_VECTORS: "id FROM lightrag_entities",
    ScanKind.RELATION_VECTORS: "id FROM lightrag_relationships",
    ScanKind.NAME_RULES: "id FROM heliograph_name_rules",
}
_NARROW = {
    ScanKind.MENTIONED_RELATIONS: "AND relation_id LIKE 'rel-%%'",
    ScanKind.CHUNK_VECTORS: "AND embedding IS NOT NULL",
}
_MENTIONS = """SELECT wanted.id, (SELECT json_agg(said) FROM (
    SELECT {mention} AS said FROM heliograph_{kind}_mention AS mention
    WHERE mention.workspace = %s AND mention.{kind}_id = wanted.id
    ORDER BY mention.rank, mention.chunk_id, mention.ordinal LIMIT %s OFFSET %s) AS page)
  FROM {wanted} ORDER BY wanted.place"""
_ENTITY_MENTIONS = _MENTIONS.format(mention=ENTITY_MENTION, kind="entity", wanted=WANTED)
_RELATION_MENTIONS = _MENTIONS.format(mention=RELATION_MENTION, kind="relation", wanted=WANTED)
_PAGE = 1_000


class PostgresInspection(Inspection):
    """Reads over whole tables, in pages."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def scan(self, kind: ScanKind, after: str, limit: int) -> list[str]:
        column = _SCANS[kind].partition(" ")[0]
        query = f"""SELECT DISTINCT {_SCANS[kind]} WHERE workspace = %s AND {column} > %s {_NARROW.get(kind, "")}
                    ORDER BY {column} LIMIT %s"""
        return [id_ for (id_,) in await self._database.fetch(query, (self._database.workspace, after, limit))]

    async def get_mentions(
        self, entity_ids: Sequence[str], relation_ids: Sequence[str], offset: int, limit: int
    ) -> tuple[dict[str, list[EntityMention]], dict[str, list[RelationMention]]]:
        of = self._database.workspace, limit, offset
        entities, relations = await self._database.fetch_all(
            Statement(_ENTITY_MENTIONS, (*of, to_json(entity_ids))),
            Statement(_RELATION_MENTIONS, (*of, to_json(relation_ids))),
        )
        return (
            {id_: list(starmap(EntityMention, said)) for id_, said in entities if said},
            {id_: list(starmap(to_relation_mention, said)) for id_, said in relations if said},
        )

    async def digest_texts(self, collection: Collection) -> dict[str, int]:
        digests: dict[str, int] = {}
        query = f"""SELECT id, terms FROM {TERMS_TABLES[collection]} WHERE workspace = %s AND id > %s
                    ORDER BY id LIMIT {_PAGE}"""
        after = ""
        while rows := await self._database.fetch(query, (self._database.workspace, after)):
            digests.update((id_, digest_terms(terms.split())) for id_, terms in rows)
            after = rows[-1][0]
        return {id_: digest for id_, digest in digests.items() if digest}

    async def find_faults(self) -> list[str]:
        return await find_faults(self._database)

    async def repair(self) -> None:
        workspace = self._database.workspace
        repairs = (Statement(query, (workspace,) * query.count("%s")) for query in _repairs())
        await self._database.execute(*repairs)


_RAISE = "UPDATE heliograph_workspace SET data_version = data_version + 1 WHERE name = %s RETURNING data_version"
_NEW = """INSERT INTO heliograph_workspace (name, embedding_name, embedding_dimension)
  SELECT name, embedding_name, embedding_dimension::integer FROM (VALUES (%s, %s, %s))
    AS new (name, embedding_name, embedding_dimension)
  WHERE NOT EXISTS (SELECT 1 FROM heliograph_projection AS projection WHERE projection.workspace = new.name)
  ON CONFLICT DO NOTHING"""
_ROLES = "SELECT role FROM heliograph_projection WHERE workspace = %s ORDER BY role"
_STORED = """SELECT embedding_name, embedding_dimension, 'vector'::regtype::oid::bigint, version()
  FROM heliograph_workspace WHERE name = %s"""
# The figures of `Stats` that are counts of rows. A workspace's share of the size is estimated by its share of these.
_COUNTED = {
    "chunks": "lightrag_chunks",
    "entities": "heliograph_entity",
    "relations": "heliograph_relation",
    "cached_replies": "heliograph_reply",
}
_COUNTS = ", ".join(f"(SELECT count(*) FROM {table} WHERE workspace = space.name)" for table in _COUNTED.values())
_STATS = f"""SELECT (SELECT json_object_agg(status, count) FROM (
    SELECT status, count(*) FROM heliograph_document WHERE workspace = space.name GROUP BY status) AS statuses),
  {_COUNTS}, space.data_version,
  (SELECT sum(pg_total_relation_size(name::regclass))::bigint FROM unnest(string_to_array(%s, ' ')) AS name),
  (SELECT sum(pg_stat_get_live_tuples(name::regclass))::bigint FROM unnest(string_to_array(%s, ' ')) AS name)
  FROM heliograph_workspace AS space WHERE space.name = %s"""


# One commit: lock the workspace, compare what the changeset expects, write all of it.

_LIMITS = "SELECT set_config('lock_timeout', %s, true), set_config('synchronous_commit', %s, true)"
_LOCK_VERSION = """SELECT data_version, embedding_name, embedding_dimension FROM heliograph_workspace WHERE name = %s
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
SELECT wanted.key FROM json_each(%s) AS wanted
LEFT JOIN heliograph_document AS document ON document.workspace = %s AND document.id = wanted.key
WHERE (document.content_hash, document.status, document.chunk_count, document.updated_at) IS DISTINCT FROM (
  wanted.value ->> 0, wanted.value ->> 1, (wanted.value ->> 2)::bigint, (wanted.value ->> 3)::timestamptz) LIMIT 1"""
_RAISE_VERSION = "UPDATE heliograph_workspace SET data_version = %s WHERE name = %s"


def _versions(documents: Mapping[str, Document | None]) -> dict[str, list[str | int]]:
    """Return the versions of documents by id as JSON; empty for documents that must be absent."""
    versions: dict[str, list[str | int]] = {}
    for id_, document in documents.items():
        versions[id_] = []
        if document is not None:
            content_hash, status, chunk_count, updated_at = document.version
            versions[id_] = [content_hash, status.value, chunk_count, updated_at.isoformat()]
    return versions


class PostgresStore(Store):
    """One workspace in a database that may hold many."""

    def __init__(self, database: Database, embedding: tuple[str, int], settings: StoreSettings, server: str) -> None:
        self._database = database
        self._embedding = self.embedding = embedding
        self._timeout_seconds = settings.write_timeout_seconds
        self._is_durable = settings.durability == "full"
        self._server = server
        self._indexer = VectorIndexer(database, embedding[1])
        self._scopes: ScopeMemory[PostgresScope] = ScopeMemory(asyncio.Lock)
        self.records = PostgresRecordsStore(database)
        self.graph = PostgresGraphStore(database)
        self.vectors = PostgresVectorStore(database, embedding)
        self.text = PostgresTextStore(database)
        self.names = PostgresNameIndex(database)
        self.outbox = PostgresOutbox(database)
        self.curations = PostgresCurationStore(database)
        self.replies = PostgresReplyCache(database)
        self.inspection = PostgresInspection(database)
        self.reembedding = PostgresReembedding(database)

    @classmethod
    async def open(cls, settings: StoreSettings, embedding: EmbeddingInfo | None) -> PostgresStore:
        """Open the workspace that the settings name, creating tables and workspace as needed.

        Without an embedding an existing workspace is opened as it is, to be read as a whole.

        Raises:
            SettingsError: `store.url` is no address of PostgreSQL, or names a projection beside another store.
            StoreUnavailable: The server cannot be used.
            SchemaMismatch: It was made by a newer version, or with another embedding.
        """
        address = parse_address(settings.url)
        with translate_errors(address.label):
            connection = await connect(address)
            try:
                session = Session(connection, settings.workspace)
                await migrate(session, address.label)
                found, vector_type, server = await _settle_embedding(session, address, embedding)
            finally:
                await connection.close()
        # Each follower holds a connection of its own, under a lock, for as long as it applies changes.
        pool_size = settings.pool_size + len(projection_urls(settings))
        database = Database(address, settings.workspace, vector_type, pool_size)
        await database.open()
        return cls(database, found, settings, server)

    async def apply(self, changeset: Changeset) -> int:
        version = await self._database.run(partial(self._commit, changeset))
        self._scopes.note(version, changeset, {})
        await self._indexer.note(changeset)
        return version

    async def _commit(self, changeset: Changeset, session: Session) -> int:
        """Apply a changeset; return the new data version.

        Raises:
            StaleChangesetError: Data that it was computed from has changed; nothing was applied.
            SchemaMismatch: The workspace has another embedding than it was opened with.
            StoreUnavailable: It was removed since then.
            psycopg.Error: The server failed, or another transaction has held the workspace for too long.
        """
        check_dimensions(changeset, self._embedding[1])
        workspace, vector_type = session.workspace, self._database.vector_type
        checks = [
            (said, Statement(query, (to_json(expected), *[workspace] * (query.count("%s") - 1))))
            for said, query, expected in (
                ("the evidence of {!r} has", _STALE_EVIDENCE, changeset.expected),
                ("the rules of the name {!r} have", _STALE_RULES, changeset.expected_rules),
                ("the document {!r} has", _STALE_DOCUMENTS, _versions(changeset.expected_documents)),
            )
            if expected
        ]
        # 0 would mean to wait for ever.
        milliseconds = max(1, int(self._timeout_seconds * 1000))
        _, _, locked, ((has_readers,),), *stale = await session.run(
            Statement("BEGIN"),
            Statement(_LIMITS, (str(milliseconds), "on" if self._is_durable else "off")),
            Statement(_LOCK_VERSION, (workspace,)),
            Statement(_HAS_READERS, (workspace,)),
            *(query for _, query in checks),
        )
        if not locked:
            raise StoreUnavailable("the workspace was removed since it was opened; open it again")
        ((known_version, *stored),) = locked
        check_embedding(tuple(stored), self._embedding)
        for (said, _), rows in zip(checks, stale, strict=True):
            if rows:
                raise StaleChangesetError(f"{said.format(rows[0][0])} changed since it was read; read it and try again")
        if changeset.expected_version not in (None, known_version):
            raise StaleChangesetError("something was committed since the changeset was computed; compute it again")
        version = int(known_version) + 1
        changed = {kind.value: list(ids) for kind, ids in changed_ids(changeset).items()} if has_readers else {}
        noted = (Statement(_NOTE, (workspace, version, to_json(changed))),) if has_readers else ()
        # Removals first, so that a changeset may replace what it removes; vectors after the graph, which their columns
        # are read from.
        await session.commit(
            Statement(_RAISE_VERSION, (version, workspace)),
            *removal_statements(workspace, changeset),
            *record_statements(workspace, changeset, version),
            *chunk_statements(workspace, changeset, vector_type),
            *curation_statements(workspace, changeset, version),
            *graph_statements(workspace, changeset),
            *name_statements(workspace, changeset),
            *vector_statements(workspace, changeset, vector_type),
            *text_statements(workspace, changeset),
            *reply_statements(workspace, changeset),
            *noted,
        )
        return version

    def view(self, filter_: Filter, fold: Fold) -> StoreView:
        """The scope of a filter is computed once per data version and cached for the filters used last."""
        return FilteredView(PostgresReader(self._database, self._embedding, self._scopes, filter_, fold))

    async def get_data_version(self) -> int:
        (version,) = await self._fetch_one("SELECT data_version FROM heliograph_workspace WHERE name = %s")
        return int(version)

    async def get_stats(self) -> Stats:
        """The size is that of all tables by the share of rows, using the server's rough counts."""
        row = await self._fetch_one(_STATS, " ".join(TABLES), " ".join(["heliograph_document", *_COUNTED.values()]))
        statuses, *counts, version, total, rows = row
        documents = {DocumentStatus(status): count for status, count in (statuses or {}).items()}
        own = sum(documents.values()) + sum(counts)
        size = total * own // max(rows, own, 1)
        counted = dict(zip(_COUNTED, counts, strict=True))
        return Stats(documents=documents, **counted, data_version=version, bytes_on_disk=size)

    @asynccontextmanager
    async def ingest_lock(self) -> AsyncGenerator[None]:
        """Vector indexes that become due while it is held are built when it is released."""
        async with advisory_lock(self._database, "ingest", self._timeout_seconds):
            self._indexer.is_filling = True
            try:
                yield
            finally:
                self._indexer.is_filling = False
        await self._indexer.look()

    async def clear(self) -> int:

        async def work(session: Session) -> int:
            workspace = session.workspace
            _, ((version,),) = await session.run(Statement("BEGIN"), Statement(_RAISE, (workspace,)))
            deletions = (Statement(f"DELETE FROM {table} WHERE workspace = %s", (workspace,)) for table in TABLES)
            await session.commit(*deletions, *reset_statements(workspace))
            return int(version)

        return await self._database.run(work)

    async def vacuum(self) -> None:
        """Rewrites the tables of all workspaces, one after the other; reads and writes of a table wait for it.

        Raises:
            StoreUnavailable: A table was in use for longer than `store.write_timeout_seconds`.
        """
        database = self._database
        emptied = "DELETE FROM heliograph_posting WHERE records = '{}' AND workspace = %s"
        await database.execute(Statement(emptied, (database.workspace,)))
        async with database.own_connection() as connection:
            with translate_errors(database.address.label):
                milliseconds = str(int(self._timeout_seconds * 1000))
                await connection.execute("SELECT set_config('lock_timeout', %s, false)", (milliseconds,))
                for table in TABLES:
                    await connection.execute(f"VACUUM (FULL, ANALYZE) {table}".encode())
        await self._indexer.renew()

    async def backup(self, path: Path) -> None:
        raise InvalidRequestError(
            f"a store on PostgreSQL writes no backup to {str(path)!r}: back up the database with pg_dump, or write an "
            "archive with 'heliograph export'"
        )

    async def close(self) -> None:
        await self._database.close()

    def describe(self) -> Mapping[str, str]:
        address = self._database.address.label
        return {"back end": "postgresql", "server": self._server, "database": address}

    async def _fetch_one(self, query: str, *values: str) -> tuple[Any, ...]:
        """Return the row of a query about the workspace, whose name is the last parameter."""
        rows = await self._database.fetch(query, (*values, self._database.workspace))
        if not rows:
            raise StoreUnavailable(
                f"the workspace {self._database.workspace!r} was removed since it was opened; open it again"
            )
        return rows[0]


async def _settle_embedding(
    session: Session, address: Address, embedding: EmbeddingInfo | None
) -> tuple[tuple[str, int], int, str]:
    """Return the embedding that fills a workspace, the type id of vectors, and the server's version.

    A new workspace is created with this embedding; one that is filled with another is refused.
    """
    if embedding is not None:
        await session.run(Statement(_NEW, (session.workspace, embedding.name, embedding.dimension)))
    rows = await session.fetch(_STORED, (session.workspace,))
    if not rows and (roles := await session.fetch(_ROLES, (session.workspace,))):
        raise SettingsError(
            f"{address.label!r} holds {' and '.join(role for (role,) in roles)} of the workspace {session.workspace!r} "
            "beside another store; name another workspace or database in store.url"
        )
    if not rows:
        raise StoreUnavailable(
            f"there is no workspace {session.workspace!r} in {address.label!r} yet; index something into it first"
        )
    ((*stored, vector_type, server),) = rows
    name, dimension = stored
    if embedding is not None and (name, dimension) != (embedding.name, embedding.dimension):
        raise SchemaMismatch(
            f"the workspace {session.workspace!r} in {address.label!r} was built with the embedding {name!r} of "
            f"dimension {dimension}, but {embedding.name!r} of dimension {embedding.dimension} is configured; set the "
            "embedding back, or run 'heliograph reembed'"
        )
    return (name, dimension), vector_type, " ".join(server.split()[:2])
