"""The store on PostgreSQL: all roles of one workspace in one database, every changeset one transaction."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

from heliograph.embedding.base import EmbeddingInfo
from heliograph.errors import InvalidRequestError, SchemaMismatch, SettingsError, StoreUnavailable
from heliograph.filters import Filter
from heliograph.models import DocumentStatus, Stats
from heliograph.settings import StoreSettings
from heliograph.stores.base import Fold, Store, StoreView
from heliograph.stores.changeset import Changeset
from heliograph.stores.postgres.commit import commit
from heliograph.stores.postgres.database import (
    Address,
    Database,
    Session,
    Statement,
    advisory_lock,
    connect,
    parse_address,
    translate_errors,
)
from heliograph.stores.postgres.graph import PostgresGraphStore, PostgresNameIndex
from heliograph.stores.postgres.inspection import PostgresInspection
from heliograph.stores.postgres.records import PostgresCurationStore, PostgresRecordsStore
from heliograph.stores.postgres.schema import TABLES, migrate
from heliograph.stores.postgres.search import PostgresTextStore, PostgresVectorStore, VectorIndexer
from heliograph.stores.postgres.side_tables import PostgresOutbox, PostgresReembedding, PostgresReplyCache
from heliograph.stores.postgres.upkeep import clear, vacuum
from heliograph.stores.postgres.view import PostgresReader, PostgresScope
from heliograph.stores.registry import projection_urls
from heliograph.stores.view import FilteredView, ScopeMemory

_NEW = """INSERT INTO heliograph_workspace (name, embedding_name, embedding_dimension)
  SELECT name, embedding_name, embedding_dimension::integer FROM (VALUES (%s, %s, %s))
    AS new (name, embedding_name, embedding_dimension)
  WHERE NOT EXISTS (SELECT 1 FROM heliograph_projection AS projection WHERE projection.workspace = new.name)
  ON CONFLICT DO NOTHING"""
_ROLES = "SELECT role FROM heliograph_projection WHERE workspace = %s ORDER BY role"
_STORED = """SELECT embedding_name, embedding_dimension, 'vector'::regtype::oid::bigint, version()
  FROM heliograph_workspace WHERE name = %s"""
_STATS = """SELECT (SELECT json_object_agg(status, count) FROM (
    SELECT status, count(*) FROM heliograph_document WHERE workspace = space.name GROUP BY status) AS statuses),
  (SELECT count(*) FROM lightrag_chunks WHERE workspace = space.name),
  (SELECT count(*) FROM heliograph_entity WHERE workspace = space.name),
  (SELECT count(*) FROM heliograph_relation WHERE workspace = space.name),
  (SELECT count(*) FROM heliograph_reply WHERE workspace = space.name), space.data_version,
  (SELECT sum(pg_total_relation_size(name::regclass))::bigint FROM unnest(string_to_array(%s, ' ')) AS name),
  (SELECT sum(pg_stat_get_live_tuples(name::regclass))::bigint FROM unnest(string_to_array(%s, ' ')) AS name)
  FROM heliograph_workspace AS space WHERE space.name = %s"""
# Of whose rows a workspace's share is taken to be its share of all.
_COUNTED = ("heliograph_document", "lightrag_chunks", "heliograph_entity", "heliograph_relation")


class PostgresStore(Store):
    """One workspace in a database that may hold many."""

    def __init__(self, database: Database, embedding: tuple[str, int], settings: StoreSettings, server: str) -> None:
        self._database = database
        self._embedding = embedding
        self.embedding = embedding
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
        """Open the workspace that the settings name, making tables and workspace as needed.

        Args:
            settings: Where it is.
            embedding: What fills it; None opens one that is there as it is, to be read as a whole.

        Raises:
            SettingsError: `store.url` is no address of PostgreSQL, or leads to what stands beside another store.
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
        # What follows holds a connection of its own, under a lock, for as long as it takes changes in.
        pool_size = settings.pool_size + len(projection_urls(settings))
        database = Database(address, settings.workspace, vector_type, pool_size)
        await database.open()
        return cls(database, found, settings, server)

    async def apply(self, changeset: Changeset) -> int:
        settings = self._timeout_seconds, self._is_durable
        vector_type = self._database.vector_type
        version = await self._database.write(
            lambda session: commit(session, changeset, self._embedding, vector_type, settings)
        )
        self._scopes.note(version, changeset, {})
        await self._indexer.note(changeset)
        return version

    def view(self, filter_: Filter, fold: Fold) -> StoreView:
        """See `Store`; what a filter leaves is computed once per data version and kept for the filters used last."""
        return FilteredView(PostgresReader(self._database, self._embedding, self._scopes, filter_, fold))

    async def get_data_version(self) -> int:
        (version,) = await self._fetch_one("SELECT data_version FROM heliograph_workspace WHERE name = %s")
        return int(version)

    async def get_stats(self) -> Stats:
        """See `Store`; the size is that of all tables by the share of rows, as the server counts those roughly."""
        statuses, *counts, total, rows = await self._fetch_one(_STATS, " ".join(TABLES), " ".join(_COUNTED))
        documents = {DocumentStatus(status): count for status, count in (statuses or {}).items()}
        own = sum(documents.values()) + sum(counts[:3])
        return Stats(documents, *counts, bytes_on_disk=total * own // max(rows, own, 1))

    def ingest_lock(self) -> AbstractAsyncContextManager[None]:
        return advisory_lock(self._database, "ingest", self._timeout_seconds)

    async def clear(self) -> int:
        return await clear(self._database)

    async def vacuum(self) -> None:
        """See `Store`; the tables of all workspaces are written anew, one after the other."""
        await vacuum(self._database, self._timeout_seconds)
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
        """Return the row that a query gives of the workspace, whose name comes last."""
        rows = await self._database.fetch(query, (*values, self._database.workspace))
        if not rows:
            raise StoreUnavailable(
                f"the workspace {self._database.workspace!r} was removed since it was opened; open it again"
            )
        return rows[0]


async def _settle_embedding(
    session: Session, address: Address, embedding: EmbeddingInfo | None
) -> tuple[tuple[str, int], int, str]:
    """Return which embedding fills a workspace, the type id of vectors, and the server's version.

    A new workspace is made and its embedding noted; one that is filled with another is refused.
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
