"""The store on Redis: all roles of one workspace under keys of one prefix, every changeset one transaction."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path

from heliograph.embedding.base import EmbeddingInfo
from heliograph.errors import InvalidRequestError
from heliograph.filters import Filter
from heliograph.models import DocumentStatus, Stats
from heliograph.settings import StoreSettings
from heliograph.stores.base import Fold, Store, StoreView
from heliograph.stores.changeset import Changeset
from heliograph.stores.inspection import ScanKind
from heliograph.stores.redis.commit import changeset_commands
from heliograph.stores.redis.committer import Committer, Head
from heliograph.stores.redis.connection import RedisConnection
from heliograph.stores.redis.curations import RedisCurationStore
from heliograph.stores.redis.home import settle
from heliograph.stores.redis.inspection import RedisInspection
from heliograph.stores.redis.lease import LeaseLock
from heliograph.stores.redis.names import RedisNameIndex
from heliograph.stores.redis.outbox import RedisOutbox
from heliograph.stores.redis.records import RedisRecordsStore
from heliograph.stores.redis.reembedding import RedisReembedding
from heliograph.stores.redis.replies import RedisReplyCache
from heliograph.stores.redis.session import Command, CommitSession, Session
from heliograph.stores.redis.text import RedisTextStore
from heliograph.stores.redis.traversal import RedisGraphStore
from heliograph.stores.redis.upkeep import clear, vacuum
from heliograph.stores.redis.vectors import RedisVectorStore
from heliograph.stores.redis.view import RedisViews

__all__ = ["RedisStore"]


class RedisStore(Store):
    """One workspace in a Redis that may hold many."""

    def __init__(
        self,
        connection: RedisConnection,
        embedding: tuple[str, int],
        settings: StoreSettings,
        described: Mapping[str, str],
    ) -> None:
        session = Session(connection)
        self._connection = connection
        self._session = session
        self._timeout_seconds = settings.write_timeout_seconds
        self._lock = LeaseLock(session, "ingest")
        self._committer = Committer(connection, embedding, settings.write_timeout_seconds, self._lock)
        self._described = described
        self.embedding = embedding
        records, vectors = RedisRecordsStore(session), RedisVectorStore(session, embedding)
        text = RedisTextStore(session)
        self.records, self.vectors, self.text = records, vectors, text
        self.graph = RedisGraphStore(session)
        self._views = RedisViews(session, records, vectors, text)
        self.names = RedisNameIndex(session)
        self.outbox = RedisOutbox(session)
        self.curations = RedisCurationStore(session)
        self.replies = RedisReplyCache(session)
        self.inspection = RedisInspection(session, self._committer)
        self.reembedding = RedisReembedding(session, self._committer)

    @classmethod
    async def open(cls, settings: StoreSettings, embedding: EmbeddingInfo | None) -> RedisStore:
        """Open the workspace that the settings name, making it as needed.

        Args:
            settings: Where it is.
            embedding: What fills it; None opens one that is there as it is, to be read as a whole.

        Raises:
            SettingsError: `store.url` is no address of Redis, or the keys there are those of another store's graph.
            StoreUnavailable: Redis cannot be used.
            SchemaMismatch: The workspace was made by a newer version, or with another embedding.
        """
        connection = RedisConnection(settings.url, settings.workspace, "store.url", pool_size=settings.pool_size)
        try:
            found, described = await settle(connection, settings, embedding)
        except BaseException:
            await connection.close()
            raise
        return cls(connection, found, settings, described)

    async def apply(self, changeset: Changeset) -> int:
        """See `Store`."""

        async def draft(session: CommitSession, head: Head) -> Sequence[Command]:
            return await changeset_commands(session, changeset, head)

        return await self._committer.run(draft)

    def view(self, filter_: Filter, fold: Fold) -> StoreView:
        """See `Store`."""
        return self._views.view(filter_, fold)

    def ingest_lock(self) -> AbstractAsyncContextManager[None]:
        """See `Store`."""
        return self._lock.hold(self._timeout_seconds)

    async def get_data_version(self) -> int:
        """See `Store`."""
        return int(await self._session.read_one("GET", self._session.keys.version) or 0)

    async def get_stats(self) -> Stats:
        """See `Store`; how much of the server's memory and disk one workspace takes is not known."""
        keys = self._session.keys
        *statuses, chunks, entities, relations, replies, version = await self._session.read_at_once(
            [
                *(("ZCARD", keys.documents(status.value, "id")) for status in DocumentStatus),
                ("ZCARD", keys.ids(ScanKind.CHUNKS)),
                ("ZCARD", keys.ids(ScanKind.ENTITIES)),
                ("ZCARD", keys.ids(ScanKind.RELATIONS)),
                ("ZCARD", keys.of("replies")),
                ("GET", keys.version),
            ]
        )
        documents = {status: count for status, count in zip(DocumentStatus, statuses, strict=True) if count}
        return Stats(documents, chunks, entities, relations, replies, int(version or 0), bytes_on_disk=0)

    async def clear(self) -> int:
        """See `Store`."""
        return await clear(self._committer)

    async def vacuum(self) -> None:
        """See `Store`; the server writes the files of all workspaces anew."""
        await vacuum(self._connection)

    async def backup(self, path: Path) -> None:
        """See `Store`."""
        raise InvalidRequestError(
            f"a store on Redis writes no backup to {str(path)!r}: copy the files of the server (BGSAVE), or write an "
            "archive with 'heliograph export'"
        )

    async def close(self) -> None:
        """See `Store`."""
        await self._connection.close()

    def describe(self) -> Mapping[str, str]:
        """See `Store`."""
        return {"back end": "redis", "address": self._connection.where, **self._described}
