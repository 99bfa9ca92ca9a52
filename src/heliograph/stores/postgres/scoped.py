"""How the roles of a view read: in one snapshot, together with what the filter leaves at that moment."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeVar

from heliograph.filters import Filter
from heliograph.stores.base import Fold
from heliograph.stores.postgres.database import Database
from heliograph.stores.postgres.scope import begin_scope
from heliograph.stores.postgres.scoped_evidence import PostgresReading
from heliograph.stores.postgres.session import Session
from heliograph.stores.scoped.scope import Scope, ScopeMemory

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class PostgresReader:
    """Reads under one filter; what is done with it stays as exact as its latest read."""

    database: Database
    scopes: ScopeMemory[Scope]
    filter: Filter
    fold: Fold

    async def read(self, work: Callable[[PostgresReading], Awaitable[T]]) -> T:
        """Run `work` on a snapshot and the scope of the same moment."""

        async def run(session: Session) -> T:
            scope = await begin_scope(session, self.scopes, self.filter, self.fold)
            return await work(PostgresReading(scope, self.fold, session, self.filter))

        return await self.database.read(run)
