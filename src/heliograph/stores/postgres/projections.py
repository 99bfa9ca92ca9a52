"""Roles in PostgreSQL beside another store: graph, full text and vectors, in the same tables as a home store."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, Self

import numpy as np

from heliograph.embedding.base import EmbeddingInfo
from heliograph.errors import SettingsError
from heliograph.models import Chunk, Entity, Relation
from heliograph.settings import StoreSettings
from heliograph.stores.changeset import COLLECTIONS, Changeset, Collection, OutboxKind, VectorBatch
from heliograph.stores.postgres.database import (
    CHUNK_TYPES,
    Address,
    Database,
    Session,
    Statement,
    Vectors,
    connect,
    deletion,
    parse_address,
    record_set,
    to_json,
    translate_errors,
)
from heliograph.stores.postgres.graph import PostgresGraphStore, followed_graph_statements, graph_comparisons
from heliograph.stores.postgres.records import chunk_row, chunk_statements
from heliograph.stores.postgres.schema import migrate
from heliograph.stores.postgres.search import (
    TERMS_TABLES,
    VECTOR_TABLES,
    PostgresTextStore,
    PostgresVectorStore,
    VectorIndexer,
    check_dimensions,
    put_vectors,
    text_comparisons,
    text_statements,
)
from heliograph.stores.postgres.store import DEGREE_FAULTS, TEXT_FAULTS, find_faults
from heliograph.stores.projection import GraphProjection, Projection, ProjectionChange, TextProjection, VectorProjection

# The common part of PostgreSQL projections: a connection pool, a cursor in the same database, closing.
#
# Tables are those of a home store, so a workspace that is at home in a database cannot have a role in the same one. A
# row of `heliograph_projection` records that a role exists: it is written with the first change, in one transaction,
# and deleted when the role is cleared.

_SERVER = """SELECT 'vector'::regtype::oid::bigint, version(),
  EXISTS (SELECT 1 FROM heliograph_workspace WHERE name = %s)"""
_PLACE = """INSERT INTO heliograph_projection (workspace, role, version, embedding_name, embedding_dimension)
  VALUES (%s, %s, %s, %s, %s) ON CONFLICT (workspace, role) DO """
_CURSOR = "SELECT version FROM heliograph_projection WHERE workspace = %s AND role = %s"
_FORGET = "DELETE FROM heliograph_projection WHERE workspace = %s AND role = %s"


class PostgresProjection(Projection):
    """One role of one workspace in a database.

    Attributes:
        scanned: Source of the ids of a kind: a table, and a condition if needed.
        faults: Queries that count faults in derived rows, by message.
    """

    tables: tuple[str, ...]
    scanned: ClassVar[Mapping[OutboxKind, str]]
    faults: ClassVar[Mapping[str, str]] = {}

    def __init__(self, address: Address, settings: StoreSettings, embedding: EmbeddingInfo) -> None:
        self.name = f"{self.role}:{address.label}"
        self._address = address
        self._made_by = embedding
        # The type id of vectors is known once the server was reached.
        self._database = Database(address, settings.workspace, 0, settings.pool_size)
        self._server = ""

    @classmethod
    async def open(cls, settings: StoreSettings, url: str, embedding: EmbeddingInfo) -> Self:
        """Read the address, or raise `SettingsError`; `prepare` is the first to call the server."""
        return cls(parse_address(url, f"store.{cls.role}_url"), settings, embedding)

    async def prepare(self) -> None:
        """Creates missing tables; `SettingsError` if the workspace has its home in this database."""
        with translate_errors(self._address.label):
            connection = await connect(self._address)
            try:
                session = Session(connection, self._database.workspace)
                await migrate(session, self._address.label)
                ((vector_type, server, is_home),) = await session.fetch(_SERVER, (session.workspace,))
            finally:
                await connection.close()
        if is_home:
            setting = f"store.{self.role}_url"
            raise SettingsError(
                f"{setting} leads to the database {self._address.label!r} that holds the workspace "
                f"{session.workspace!r} itself (store.url); leave {setting} empty, as the store serves that role, or "
                "name another database"
            )
        self._server = " ".join(server.split()[:2])
        self._database.vector_type = vector_type
        await self._database.open()

    async def get_cursor(self) -> int:
        rows = await self._database.fetch(_CURSOR, (self._database.workspace, self.role))
        return int(rows[0][0]) if rows else -1

    async def set_cursor(self, version: int) -> None:
        await self._database.execute(self._place("UPDATE SET version = excluded.version", version))

    async def apply(self, change: ProjectionChange) -> None:
        """Apply a change in one transaction."""
        await self._database.execute(self._place("NOTHING", -1), *self.statements(change))

    @abstractmethod
    def statements(self, change: ProjectionChange) -> Iterator[Statement]:
        """Yield the statements that apply a change."""

    async def compare(self, expected: ProjectionChange) -> set[str]:
        """The server compares, and sends only ids."""
        statements = list(self.comparisons(expected))
        answers = await self._database.fetch_all(*statements) if statements else []
        return {id_ for rows in answers for (id_,) in rows}

    @abstractmethod
    def comparisons(self, expected: ProjectionChange) -> Iterator[Statement]:
        """Yield the statements that find the ids of rows that differ from the state a change would leave."""

    async def find_faults(self) -> list[str]:
        return await find_faults(self._database, self.faults)

    async def clear(self) -> None:
        """Clear in one transaction."""
        workspace = self._database.workspace
        deletions = (Statement(f"DELETE FROM {table} WHERE workspace = %s", (workspace,)) for table in self.tables)
        await self._database.execute(Statement(_FORGET, (workspace, self.role)), *deletions)

    async def scan(self, kind: OutboxKind, after: str, limit: int) -> list[str]:
        if kind not in self.scanned:
            return []
        table, _, condition = self.scanned[kind].partition(" ")
        query = f"SELECT id FROM {table} WHERE workspace = %s AND id > %s {condition} ORDER BY id LIMIT %s"
        return [id_ for (id_,) in await self._database.fetch(query, (self._database.workspace, after, limit))]

    async def close(self) -> None:
        await self._database.close()

    def describe(self) -> Mapping[str, str]:
        described = {"back end": "postgresql", "database": self._address.label}
        return described | ({"server": self._server} if self._server else {})

    def _place(self, otherwise: str, version: int) -> Statement:
        of = self._database.workspace, self.role, version, self._made_by.name, self._made_by.dimension
        return Statement(_PLACE + otherwise, of)


class PostgresGraphProjection(PostgresProjection, PostgresGraphStore, GraphProjection):
    """The entities and relations of one workspace."""

    tables = ("heliograph_entity", "heliograph_degree", "heliograph_relation")
    scanned: ClassVar = {OutboxKind.ENTITIES: "heliograph_entity", OutboxKind.RELATIONS: "heliograph_relation"}
    faults = DEGREE_FAULTS

    def __init__(self, address: Address, settings: StoreSettings, embedding: EmbeddingInfo) -> None:
        PostgresProjection.__init__(self, address, settings, embedding)
        PostgresGraphStore.__init__(self, self._database)

    def statements(self, change: ProjectionChange) -> Iterator[Statement]:
        return followed_graph_statements(self._database.workspace, change)

    def comparisons(self, expected: ProjectionChange) -> Iterator[Statement]:
        return graph_comparisons(self._database.workspace, expected)


class PostgresTextProjection(PostgresProjection, PostgresTextStore, TextProjection):
    """The terms of one workspace's chunks and entities."""

    tables = (*TERMS_TABLES.values(), "heliograph_posting", "heliograph_text_size")
    faults = TEXT_FAULTS
    scanned: ClassVar = {
        OutboxKind.CHUNKS: TERMS_TABLES[Collection.CHUNKS],
        OutboxKind.ENTITIES: TERMS_TABLES[Collection.ENTITIES],
    }

    def __init__(self, address: Address, settings: StoreSettings, embedding: EmbeddingInfo) -> None:
        PostgresProjection.__init__(self, address, settings, embedding)
        PostgresTextStore.__init__(self, self._database)

    def statements(self, change: ProjectionChange) -> Iterator[Statement]:
        removed = change.removed
        taken_in = Changeset(
            removed_chunks=tuple(removed.get(OutboxKind.CHUNKS, ())),
            removed_entities=tuple(removed.get(OutboxKind.ENTITIES, ())),
            texts=change.texts,
        )
        return text_statements(self._database.workspace, taken_in)

    def comparisons(self, expected: ProjectionChange) -> Iterator[Statement]:
        return text_comparisons(self._database.workspace, expected.texts)


# Vectors in PostgreSQL beside another store: the three tables that LightRAG's users know, searched as at home.

_NEW = """JOIN ROWS FROM (json_array_elements_text(%s), unnest(%s::vector[])) AS vectors (id, embedding)
  ON vectors.id = new.id"""
_OTHER = f"""
SELECT new.id FROM {{new_rows}} {_NEW}
LEFT JOIN {{table}} AS kept ON kept.workspace = %s AND kept.id = new.id
WHERE ({{kept}}, kept.embedding) IS DISTINCT FROM ({{new}}, vectors.embedding)"""
# The columns beside the vectors, with their types.
_COLUMNS: Mapping[Collection, Mapping[str, str]] = {
    Collection.CHUNKS: CHUNK_TYPES,
    Collection.ENTITIES: {"id": "text", "entity_name": "text", "content": "text"},
    Collection.RELATIONS: {"id": "text", "src_id": "text", "tgt_id": "text", "content": "text"},
}


class PostgresVectorProjection(PostgresProjection, PostgresVectorStore, VectorProjection):
    """The vectors of one workspace in pgvector."""

    kinds = frozenset(COLLECTIONS)
    tables = tuple(VECTOR_TABLES.values())
    scanned: ClassVar = {kind: f"{VECTOR_TABLES[item]} AND embedding IS NOT NULL" for kind, item in COLLECTIONS.items()}

    def __init__(self, address: Address, settings: StoreSettings, embedding: EmbeddingInfo) -> None:
        PostgresProjection.__init__(self, address, settings, embedding)
        PostgresVectorStore.__init__(self, self._database, (embedding.name, embedding.dimension), is_home=False)
        self._indexer = VectorIndexer(self._database, embedding.dimension)

    async def apply(self, change: ProjectionChange) -> None:
        await super().apply(change)
        for collection, put in change.vectors.items():
            self._indexer.count(collection, len(put))

    async def set_cursor(self, version: int) -> None:
        """Builds due indexes; during a rebuild, at its end."""
        await super().set_cursor(version)
        await self._indexer.look()

    async def clear(self) -> None:
        await super().clear()
        # Refilling without the indexes takes a fraction of the time.
        await self._indexer.drop()

    def statements(self, change: ProjectionChange) -> Iterator[Statement]:
        """Items without a vector are not stored."""
        workspace = self._database.workspace
        for kind, collection in COLLECTIONS.items():
            vectors = change.vectors.get(collection, {})
            there: tuple[Chunk | Entity | Relation, ...] = getattr(change, collection)
            bare = [item.id for item in there if item.id not in vectors]
            yield from deletion(workspace, VECTOR_TABLES[collection], [*change.removed.get(kind, ()), *bare])
            if put := [item for item in there if item.id in vectors]:
                batch = VectorBatch(tuple(item.id for item in put), np.stack([vectors[item.id] for item in put]))
                chunks = tuple(item for item in put if isinstance(item, Chunk))
                taken_in = Changeset(chunks=chunks, vectors={collection: batch})
                check_dimensions(taken_in, self._made_by.dimension)
                if chunks:
                    yield from chunk_statements(workspace, taken_in, self._database.vector_type)
                else:
                    given = Vectors(batch.vectors, self._database.vector_type)
                    yield put_vectors(workspace, collection, map(_columns, put), given)

    def comparisons(self, expected: ProjectionChange) -> Iterator[Statement]:
        for collection, vectors in expected.vectors.items():
            if vectors:
                names = _COLUMNS[collection]
                query = _OTHER.format(
                    new_rows=record_set(names),
                    table=VECTOR_TABLES[collection],
                    kept=", ".join(f"kept.{name}" for name in names),
                    new=", ".join(f"new.{name}" for name in names),
                )
                given = to_json(list(vectors)), Vectors(np.stack([*vectors.values()]), self._database.vector_type)
                rows = to_json(map(_columns, getattr(expected, collection)))
                yield Statement(query, (rows, *given, self._database.workspace))


def _columns(item: Chunk | Entity | Relation) -> Mapping[str, Any]:
    """Return the columns stored beside a vector."""
    match item:
        case Chunk():
            return chunk_row(item)
        case Entity():
            return {"id": item.id, "entity_name": item.name, "content": f"{item.name}\n{item.description}"}
        case Relation():
            content = "\t".join((",".join(item.keywords), item.source, item.target, item.description))
            return {"id": item.id, "src_id": item.source, "tgt_id": item.target, "content": content}
