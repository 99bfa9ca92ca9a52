"""What roles in PostgreSQL beside another store have in common: a pool, a cursor in the same database, an end.

Tables are those of a store at home, so a workspace that is at home in a database cannot have a role in the same one. A
row of `heliograph_projection` says that a role is there: it is written with the first change, in one transaction, and
goes when the role is cleared.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping
from typing import ClassVar, Self

from heliograph.embedding.base import EmbeddingInfo
from heliograph.errors import SettingsError
from heliograph.settings import StoreSettings
from heliograph.stores.outbox import OutboxKind
from heliograph.stores.postgres.address import Address, parse_address
from heliograph.stores.postgres.database import Database, connect
from heliograph.stores.postgres.errors import translate_errors
from heliograph.stores.postgres.faults import find_faults
from heliograph.stores.postgres.schema import migrate
from heliograph.stores.postgres.session import Session, Statement
from heliograph.stores.projection import Projection, ProjectionChange

_SERVER = """SELECT 'vector'::regtype::oid::bigint, version(),
  EXISTS (SELECT 1 FROM heliograph_workspace WHERE name = %s)"""
_PLACE = """INSERT INTO heliograph_projection (workspace, role, version, embedding_name, embedding_dimension)
  VALUES (%s, %s, %s, %s, %s) ON CONFLICT (workspace, role) DO """
_CURSOR = "SELECT version FROM heliograph_projection WHERE workspace = %s AND role = %s"
_FORGET = "DELETE FROM heliograph_projection WHERE workspace = %s AND role = %s"


class PostgresProjection(Projection):
    """One role of one workspace in a database.

    Attributes:
        role: Which, as `store.<role>_url` names it.
        tables: All that hold it.
        scanned: What lists the ids of a kind: a table, and a condition if need be.
        faults: Queries that count what is wrong with what follows from its rows, by how that is said.
    """

    role: str
    tables: tuple[str, ...]
    scanned: ClassVar[Mapping[OutboxKind, str]]
    faults: ClassVar[Mapping[str, str]] = {}

    def __init__(self, address: Address, settings: StoreSettings, embedding: EmbeddingInfo) -> None:
        self.name = f"{self.role}:{address.label}"
        self._address = address
        self._embedding = embedding
        # The type id of vectors is known once the server was reached.
        self._database = Database(address, settings.workspace, 0, settings.pool_size)
        self._server = ""

    @classmethod
    async def open(cls, settings: StoreSettings, url: str, embedding: EmbeddingInfo) -> Self:
        """Read the address; the server is first called when it is prepared.

        Raises:
            SettingsError: The address is none.
        """
        return cls(parse_address(url, f"store.{cls.role}_url"), settings, embedding)

    async def prepare(self) -> None:
        """See `Projection`; makes tables where they are missing.

        Raises:
            SettingsError: The workspace has its home in this database.
        """
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
        """See `Projection`; one transaction."""
        await self._database.execute(self._place("NOTHING", -1), *self.statements(change))

    @abstractmethod
    def statements(self, change: ProjectionChange) -> Iterator[Statement]:
        """Yield what takes a change in."""

    async def compare(self, expected: ProjectionChange) -> set[str]:
        """See `Projection`; the server compares, and sends ids alone."""
        statements = list(self.comparisons(expected))
        answers = await self._database.fetch_all(*statements) if statements else []
        return {id_ for rows in answers for (id_,) in rows}

    @abstractmethod
    def comparisons(self, expected: ProjectionChange) -> Iterator[Statement]:
        """Yield what finds the ids of rows that are not as a change would leave them."""

    async def find_faults(self) -> list[str]:
        return await find_faults(self._database, self.faults)

    async def clear(self) -> None:
        """See `Projection`; one transaction."""
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
        of = self._database.workspace, self.role, version, self._embedding.name, self._embedding.dimension
        return Statement(_PLACE + otherwise, of)
