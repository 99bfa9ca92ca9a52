"""How the roles of a view read: in one snapshot, together with what the filter leaves at that moment."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeVar

from heliograph.filters import Filter
from heliograph.stores.base import Fold
from heliograph.stores.postgres.database import Database
from heliograph.stores.postgres.scope import ScopeMemory
from heliograph.stores.postgres.scoped_evidence import ScopedReading
from heliograph.stores.postgres.session import Session

__all__ = ["ScopedReader"]

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ScopedReader:
    """Reads under one filter; what is done with it stays as exact as its latest read."""

    database: Database
    scopes: ScopeMemory
    filter: Filter
    fold: Fold

    async def read(self, work: Callable[[ScopedReading], Awaitable[T]]) -> T:
        """Run `work` on a snapshot and the scope of the same moment."""

        async def run(session: Session) -> T:
            scope = await self.scopes.begin(session, self.filter, self.fold)
            return await work(ScopedReading(session, scope, self.filter, self.fold))

        return await self.database.read(run)
