"""How the roles of a view read: in one transaction, together with what the filter leaves at that moment."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

import apsw

from heliograph.filters import Filter
from heliograph.stores.base import Fold
from heliograph.stores.sqlite.database import Database
from heliograph.stores.sqlite.scope import Scope, ScopeMemory

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ScopedReader:
    """Reads under one filter; what is done with it stays as exact as its latest read."""

    database: Database
    scopes: ScopeMemory
    filter: Filter
    fold: Fold

    async def read(self, work: Callable[[apsw.Connection, Scope], T]) -> T:
        """Run `work` on a reading connection and the scope of the same moment."""
        return await self.database.read(lambda connection: work(connection, self.scope(connection)))

    def scope(self, connection: apsw.Connection) -> Scope:
        """Return the scope as of the transaction that is open."""
        return self.scopes.get(connection, self.filter, self.fold)
