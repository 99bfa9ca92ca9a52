"""Tables on PostgreSQL beside truth, graph and indexes: replies, the outbox, the second set of vectors.

Replies are kept as bytes: a model may write what PostgreSQL's text cannot hold.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

from heliograph.embedding.base import EmbeddingInfo
from heliograph.errors import ConflictError
from heliograph.models import Usage
from heliograph.stores.base import CachedReply, Reembedding, ReplyCache
from heliograph.stores.changeset import Changeset, Collection, Outbox, OutboxEntry, OutboxKind, VectorBatch, changed_ids
from heliograph.stores.postgres.database import Database, Session, Statement, try_advisory_lock
from heliograph.stores.postgres.rows import Vectors, to_json
from heliograph.stores.postgres.search import VECTOR_TABLES, VectorIndexer
from heliograph.stores.rows import in_utc

# Replies of models.

_ANSWERS = "query"
_ENCODING = "utf-8", "surrogatepass"
_COLUMNS = "key, text, model, input_tokens, output_tokens, created_at, subject_id"
_GET = f"SELECT {_COLUMNS} FROM heliograph_reply WHERE workspace = %s AND key = %s"
_LIST = f"SELECT {_COLUMNS} FROM heliograph_reply WHERE workspace = %s AND key > %s ORDER BY key LIMIT %s"
_PUT = """
INSERT INTO heliograph_reply (workspace, key, cache_type, text, model, input_tokens, output_tokens, subject_id,
  created_at)
VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s)
ON CONFLICT (workspace, key) DO UPDATE SET text = excluded.text, model = excluded.model,
  input_tokens = excluded.input_tokens, output_tokens = excluded.output_tokens, subject_id = excluded.subject_id,
  created_at = excluded.created_at"""
_DROP_ANSWERS = "DELETE FROM heliograph_reply WHERE workspace = %s AND cache_type = %s"
_DROP_ABOUT = """DELETE FROM heliograph_reply
  WHERE workspace = %s AND subject_id <> '' AND subject_id = ANY (ARRAY(SELECT json_array_elements_text(%s)))
    AND key <> ALL (ARRAY(SELECT json_array_elements_text(%s)))"""


class PostgresReplyCache(ReplyCache):
    """Replies in one table, by key."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def get_reply(self, key: str) -> CachedReply | None:
        rows = await self._database.fetch(_GET, (self._database.workspace, key))
        return _read(rows[0]) if rows else None

    async def put_reply(self, reply: CachedReply) -> None:
        values = (
            *(self._database.workspace, reply.key, reply.cache_type, reply.text.encode(*_ENCODING), reply.model),
            *(reply.usage.input_tokens, reply.usage.output_tokens, reply.subject_id, reply.created_at),
        )
        await self._database.execute(Statement(_PUT, values))

    async def delete_replies(self, cache_type: str | None = None) -> int:
        query = """WITH gone AS (DELETE FROM heliograph_reply
                     WHERE workspace = %s AND (%s::text IS NULL OR cache_type = %s) RETURNING 1)
                   SELECT count(*) FROM gone"""
        values = (self._database.workspace, cache_type, cache_type)
        ((count,),) = (await self._database.execute(Statement(query, values)))[0]
        return int(count)

    async def list_replies(self, after: str, limit: int) -> list[CachedReply]:
        return [_read(row) for row in await self._database.fetch(_LIST, (self._database.workspace, after, limit))]


def _read(row: Sequence[Any]) -> CachedReply:
    key, text, model, read, written, created_at, subject_id = row
    return CachedReply(key, text.decode(*_ENCODING), model, Usage(read, written), in_utc(created_at), subject_id)


def reply_statements(workspace: str, changeset: Changeset) -> Iterator[Statement]:
    """Yield what drops cached answers, each of an earlier data version, and replies about what a changeset removes."""
    yield drop_answers(workspace)
    if changeset.removed_subjects:
        values = (workspace, to_json(changeset.removed_subjects), to_json(changeset.kept_replies))
        yield Statement(_DROP_ABOUT, values)


def drop_answers(workspace: str) -> Statement:
    """Return what drops every cached answer."""
    return Statement(_DROP_ANSWERS, (workspace, _ANSWERS))


# The outbox: one row per thing that changed, under the version of its last change.

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
    """Entries in a table; the right to take them in is an advisory lock."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def register(self, reader: str) -> None:
        if reader in await self.get_readers():
            return
        workspace = self._database.workspace
        # The lock of commits: one that is under way has not seen the reader and is not noted.
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
        return self._lock(reader)

    @asynccontextmanager
    async def _lock(self, reader: str) -> AsyncGenerator[bool]:
        async with try_advisory_lock(self._database, f"outbox {reader}") as is_held:
            yield is_held


def outbox_statements(workspace: str, changeset: Changeset, version: int) -> Iterator[Statement]:
    """Yield what notes the changes of a changeset that is committed as `version`; for workspaces with readers."""
    changed = {kind.value: list(ids) for kind, ids in changed_ids(changeset).items()}
    yield Statement(_NOTE, (workspace, version, to_json(changed)))


def reset_statements(workspace: str) -> Iterator[Statement]:
    """Yield what has all readers, if there are any, make everything anew; what was noted before says nothing more."""
    yield Statement(_DROP, (workspace,))
    yield Statement(_RESET, (OutboxKind.RESET.value, workspace))


# The second set of vectors on PostgreSQL: one table, from which the first set is overwritten when it is whole.

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
_REPLACE = """UPDATE {table} AS known SET embedding = next.embedding{content} FROM heliograph_next_vector AS next
  WHERE known.workspace = %s AND next.workspace = %s AND next.collection = %s AND next.id = known.id
    AND known.embedding IS NOT NULL"""
# What a chunk says is its text; of the others the content is what was embedded.
_CONTENT = ", content = coalesce(next.content, known.content)"
_FINISH = """UPDATE heliograph_workspace SET embedding_name = next_embedding_name,
  embedding_dimension = next_embedding_dimension, next_embedding_name = NULL, next_embedding_dimension = NULL,
  data_version = data_version + 1 WHERE name = %s"""


class PostgresReembedding(Reembedding):
    """Fills the next table and moves its vectors."""

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

        await self._database.write(work)
        self._begun = wanted

    async def find_pending(self, collection: Collection, after: str, limit: int) -> list[str]:
        query = _PENDING.format(table=VECTOR_TABLES[collection])
        values = (self._database.workspace, after, collection.value, limit)
        return [id_ for (id_,) in await self._database.fetch(query, values)]

    async def put(self, collection: Collection, batch: VectorBatch) -> None:
        workspace = self._database.workspace
        vectors = to_json(batch.ids), Vectors(batch.vectors, self._database.vector_type), to_json(batch.texts)
        query = _NEXT_PUT.format(table=VECTOR_TABLES[collection])

        async def work(session: Session) -> None:
            self._check((await _lock(session))[0])
            await session.commit(Statement(query, (workspace, collection.value, *vectors, workspace)))

        await self._database.write(work)

    async def finish(self) -> int:
        """See `Reembedding`; indexes of the new vectors are built before it returns."""

        async def work(session: Session) -> int:
            begun, version = await _lock(session)
            self._check(begun)
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

        version = await self._database.write(work)
        if self._begun is not None:
            await VectorIndexer(self._database, self._begun[1]).renew()
        self._begun = None
        return version

    async def abandon(self) -> None:
        workspace = self._database.workspace
        await self._database.execute(Statement(_BEGIN, (None, None, workspace)), Statement(_NEXT_DROP, (workspace,)))

    def _check(self, stored: tuple[str, int] | None) -> None:
        if stored is None or stored != self._begun:
            raise ConflictError(
                f"the workspace is not being embedded anew with {self._begun!r} but with {stored!r}; begin again"
            )


async def _lock(session: Session) -> tuple[tuple[str, int] | None, int]:
    """Begin a transaction that no commit comes between; return the next embedding, if any, and the data version."""
    _, rows = await session.run(Statement("BEGIN"), Statement(_LOCKED, (session.workspace,)))
    ((name, dimension, version),) = rows
    return None if name is None else (name, dimension), version
