"""What a filter leaves of a workspace in Redis: its roles ask for what the filter leaves at each call."""

from __future__ import annotations

from heliograph.filters import Filter
from heliograph.stores.base import Fold, RecordsStore, StoreView
from heliograph.stores.redis.catalogue import Catalogue
from heliograph.stores.redis.scope import RedisScope
from heliograph.stores.redis.scoped import RedisReader
from heliograph.stores.redis.scoped_records import ScopedRecordsStore
from heliograph.stores.redis.scoped_search import ScopedTextStore, ScopedVectorStore
from heliograph.stores.redis.session import Session
from heliograph.stores.redis.text import RedisTextStore
from heliograph.stores.redis.vectors import RedisVectorStore
from heliograph.stores.scoped.graph import ScopedGraphStore
from heliograph.stores.scoped.scope import ScopeMemory

__all__ = ["RedisView", "RedisViews"]


class RedisView(StoreView):
    """A workspace under one filter.

    Args:
        reader: Reads what the filter leaves.
        records: All records.
        vectors: All vectors.
        text: All full text.
    """

    def __init__(
        self, reader: RedisReader, records: RecordsStore, vectors: RedisVectorStore, text: RedisTextStore
    ) -> None:
        self.records = ScopedRecordsStore(reader, records)
        self.graph = ScopedGraphStore(reader)
        self.vectors = ScopedVectorStore(reader, vectors)
        self.text = ScopedTextStore(reader, text)


class RedisViews:
    """Makes views of one workspace, which share what was found out for a filter.

    Args:
        session: Reads the keys.
        records: All records.
        vectors: All vectors.
        text: All full text.
    """

    def __init__(
        self, session: Session, records: RecordsStore, vectors: RedisVectorStore, text: RedisTextStore
    ) -> None:
        self._session = session
        self._catalogue = Catalogue(session)
        self._scopes: ScopeMemory[RedisScope] = ScopeMemory()
        self._roles = records, vectors, text

    def view(self, filter_: Filter, fold: Fold) -> StoreView:
        """Return the workspace as if no document existed but those that match the filter."""
        reader = RedisReader(self._session, self._catalogue, self._scopes, filter_, fold)
        return RedisView(reader, *self._roles)
