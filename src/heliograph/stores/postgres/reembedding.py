"""The second set of vectors on PostgreSQL: one table, from which the first set is overwritten when it is whole."""

from __future__ import annotations

from heliograph.embedding.base import EmbeddingInfo
from heliograph.errors import ConflictError
from heliograph.stores.changeset import Collection, VectorBatch
from heliograph.stores.postgres.codec import Vectors, to_json
from heliograph.stores.postgres.database import Database
from heliograph.stores.postgres.outbox import reset_statements
from heliograph.stores.postgres.replies import drop_answers
from heliograph.stores.postgres.session import Session, Statement
from heliograph.stores.postgres.vector_index import VectorIndexer
from heliograph.stores.postgres.vector_write import VECTOR_TABLES
from heliograph.stores.reembedding import Reembedding

_LOCKED = """SELECT next_embedding_name, next_embedding_dimension, data_version FROM heliograph_workspace
  WHERE name = %s FOR UPDATE"""
_BEGIN = "UPDATE heliograph_workspace SET next_embedding_name = %s, next_embedding_dimension = %s WHERE name = %s"
_DROP = "DELETE FROM heliograph_next_vector WHERE workspace = %s"
_PENDING = """SELECT id FROM {table} AS known
  WHERE workspace = %s AND id > %s AND embedding IS NOT NULL AND NOT EXISTS (
    SELECT 1 FROM heliograph_next_vector AS next
    WHERE next.workspace = known.workspace AND next.collection = %s AND next.id = known.id)
  ORDER BY id LIMIT %s"""
_PUT = """
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
            await session.commit(Statement(_DROP, (workspace,)), Statement(_BEGIN, (*wanted, workspace)))

        await self._database.write(work)
        self._begun = wanted

    async def find_pending(self, collection: Collection, after: str, limit: int) -> list[str]:
        query = _PENDING.format(table=VECTOR_TABLES[collection])
        values = (self._database.workspace, after, collection.value, limit)
        return [id_ for (id_,) in await self._database.fetch(query, values)]

    async def put(self, collection: Collection, batch: VectorBatch) -> None:
        workspace = self._database.workspace
        vectors = to_json(batch.ids), Vectors(batch.vectors, self._database.vector_type), to_json(batch.texts)
        query = _PUT.format(table=VECTOR_TABLES[collection])

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
            done = Statement(_DROP, (workspace,)), Statement(_FINISH, (workspace,)), drop_answers(workspace)
            await session.commit(*statements, *done, *reset_statements(workspace))
            return version + 1

        version = await self._database.write(work)
        if self._begun is not None:
            await VectorIndexer(self._database, self._begun[1]).renew()
        self._begun = None
        return version

    async def abandon(self) -> None:
        workspace = self._database.workspace
        await self._database.execute(Statement(_BEGIN, (None, None, workspace)), Statement(_DROP, (workspace,)))

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
