"""HNSW indexes: one per workspace and collection, built when there are enough vectors to be worth one.

A few thousand vectors are compared one by one about as fast as by an index, exactly, and adding to an index costs a
millisecond or more each. So an index is built when a collection has grown, outside any transaction and while others
read and write; from then on the server keeps it up to date. Up to 2,000 dimensions it holds the vectors as they are, up
to 4,000 as halves of that precision; longer ones are compared one by one always.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from hashlib import blake2b

from heliograph.errors import StoreError
from heliograph.stores.changeset import Changeset, Collection
from heliograph.stores.postgres.codec import to_json
from heliograph.stores.postgres.database import Database
from heliograph.stores.postgres.driver import sql
from heliograph.stores.postgres.errors import translate_errors
from heliograph.stores.postgres.session import Connection
from heliograph.stores.postgres.vector_write import VECTOR_TABLES

# The names of a workspace's indexes.
INDEXES = "SELECT indexname FROM pg_indexes WHERE schemaname = current_schema() AND indexname LIKE ANY (%s::text[])"
_LOGGER = logging.getLogger(__name__)
_MOST_FULL, _MOST_HALF = 2_000, 4_000
# Neighbours a vector is linked to, and how many are looked at to find them. Of 20,000 random vectors of length 384, the
# hardest there are, a search then finds 98.8% of the nearest 20; with pgvector's 16 and 64 it finds 93%, and 60% with
# an `ef_search` of 200. Building takes as long.
_OPTIONS = {"m": 24, "ef_construction": 128}
# From here on comparing one by one takes longer than some 20 ms.
_WORTH_AN_INDEX = 10_000
# How many a process puts before it looks again.
_LOOK_EVERY = 1_000


class VectorIndexer:
    """Builds the indexes of one workspace.

    Args:
        database: Where it is.
        dimension: Of its vectors.
    """

    def __init__(self, database: Database, dimension: int) -> None:
        self._database = database
        self._dimension = dimension
        # The first commit of a process looks, since others may have put many vectors in small portions.
        self._unseen = dict.fromkeys(Collection, _LOOK_EVERY)

    async def note(self, changeset: Changeset) -> None:
        """After a commit, see whether an index is due, and build it; a failure is logged, not raised."""
        for collection, batch in changeset.vectors.items():
            self.count(collection, len(batch.ids))
        await self.look()

    def count(self, collection: Collection, put: int) -> None:
        """Note how many vectors were put, for `look`."""
        self._unseen[collection] += put

    async def look(self) -> None:
        """See whether an index is due, and build it; a failure is logged, not raised."""
        for collection in [item for item, count in self._unseen.items() if count >= _LOOK_EVERY]:
            self._unseen[collection] = 0
            await self._try_to_build(collection)

    async def renew(self) -> None:
        """Build what indexes are due, and drop those for vectors of another length; a failure is logged, not raised."""
        for collection in Collection:
            await self._try_to_build(collection)
        try:
            await self.drop_stale()
        except StoreError as error:
            _LOGGER.warning("indexes of another embedding could not be dropped: %s", error)

    async def _try_to_build(self, collection: Collection) -> None:
        try:
            await self.build_if_due(collection)
        except StoreError as error:
            # What was committed stands, and searches are right without an index, if slower; it is tried again.
            _LOGGER.warning("no index of %s could be built: %s", collection.value, error)

    async def build_if_due(self, collection: Collection) -> None:
        """Build the index of a collection if it is worth one and has none that is whole.

        Raises:
            StoreError: It cannot be built.
        """
        workspace, table = self._database.workspace, VECTOR_TABLES[collection]
        if self._dimension > _MOST_HALF or await self._has_index(collection):
            return
        query = f"""SELECT count(*) FROM (SELECT 1 FROM {table}
                    WHERE workspace = %s AND vector_dims(embedding) = %s LIMIT %s) AS counted"""
        rows = await self._database.fetch(query, (workspace, self._dimension, _WORTH_AN_INDEX))
        if rows[0][0] >= _WORTH_AN_INDEX:
            async with self._database.own_connection() as connection:
                with translate_errors(self._database.address.label):
                    await self._build(connection, collection)

    async def drop_stale(self) -> None:
        """Drop indexes of this workspace for vectors of another length than its own."""
        await self._drop([index_name(self._database.workspace, item, self._dimension) for item in Collection])

    async def drop_all(self) -> None:
        """Drop all indexes of this workspace, as filling it anew without them takes a fraction of the time."""
        await self._drop([])

    async def _drop(self, kept: Sequence[str]) -> None:
        rows = await self._database.fetch(INDEXES, (index_patterns(self._database.workspace),))
        dropped = [name for (name,) in rows if name not in kept]
        if not dropped:
            return
        async with self._database.own_connection() as connection:
            with translate_errors(self._database.address.label):
                for name in dropped:
                    await connection.execute(f"DROP INDEX CONCURRENTLY IF EXISTS {name}".encode())

    async def _has_index(self, collection: Collection) -> bool:
        # One that was built with other options is built again.
        query = """SELECT indisvalid AND reloptions @> ARRAY(SELECT json_array_elements_text(%s)) FROM pg_index
                   JOIN pg_class ON pg_class.oid = indexrelid WHERE indexrelid = to_regclass(%s)"""
        name = index_name(self._database.workspace, collection, self._dimension)
        options = to_json(f"{option}={value}" for option, value in _OPTIONS.items())
        rows = await self._database.fetch(query, (options, name))
        return bool(rows) and bool(rows[0][0])

    async def _build(self, connection: Connection, collection: Collection) -> None:
        name = index_name(self._database.workspace, collection, self._dimension)
        lock = int.from_bytes(blake2b(name.encode(), digest_size=8).digest(), "big", signed=True)
        rows = await (await connection.execute("SELECT pg_try_advisory_lock(%s::bigint)", (lock,))).fetchall()
        if not rows[0][0]:
            return  # Another process is at it.
        # What is left of a build that was interrupted is of no use.
        await connection.execute(f"DROP INDEX CONCURRENTLY IF EXISTS {name}".encode())
        await connection.execute(_definition(name, self._database.workspace, collection, self._dimension).encode())


def indexed_type(dimension: int) -> str:
    """Return the type under which vectors of this length are indexed."""
    return f"{'vector' if dimension <= _MOST_FULL or dimension > _MOST_HALF else 'halfvec'}({dimension})"


def index_name(workspace: str, collection: Collection, dimension: int | None) -> str:
    """Return the name of an index; without a dimension, how the names for all dimensions begin."""
    hashed = blake2b(workspace.encode(), digest_size=6).hexdigest()
    return f"{VECTOR_TABLES[collection]}_hnsw_{hashed}_{'' if dimension is None else dimension}"


def index_patterns(workspace: str) -> str:
    """Return the parameter of `INDEXES`."""
    return "{" + ",".join(f"{index_name(workspace, item, None)}%" for item in Collection) + "}"


def _definition(name: str, workspace: str, collection: Collection, dimension: int) -> str:
    kind = indexed_type(dimension)
    options = ", ".join(f"{option} = {value}" for option, value in _OPTIONS.items())
    return f"""CREATE INDEX CONCURRENTLY {name} ON {VECTOR_TABLES[collection]}
      USING hnsw ((embedding::{kind}) {kind.partition("(")[0]}_ip_ops) WITH ({options})
      WHERE workspace = {sql.Literal(workspace).as_string()} AND vector_dims(embedding) = {dimension}"""
