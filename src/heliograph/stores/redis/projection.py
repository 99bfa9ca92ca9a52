"""What the graph and the cache in Redis have in common: a connection, a cursor, an end."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Self

from heliograph.embedding.base import EmbeddingInfo
from heliograph.settings import StoreSettings
from heliograph.stores.projection import Projection
from heliograph.stores.redis.connection import RedisConnection

__all__ = ["RedisProjection"]


class RedisProjection(Projection):
    """One role of one workspace in Redis.

    Attributes:
        role: Which, as `store.<role>_url` names it.
        suffix: Goes after the name of the workspace in keys, so that roles do not meet.
    """

    role: str
    suffix: str = ""

    def __init__(self, connection: RedisConnection) -> None:
        self.name = f"{self.role}:redis:{connection.where}"
        self._connection = connection
        self._client = connection.client
        self._durability: Mapping[str, str] = {}

    @classmethod
    async def open(
        cls,
        settings: StoreSettings,
        url: str,
        embedding: EmbeddingInfo,  # noqa: ARG003 (as all projections open)
    ) -> Self:
        """Connect.

        Raises:
            SettingsError: The address is none.
            StoreUnavailable: Redis is out of reach.
        """
        projection = cls(RedisConnection(url, settings.workspace + cls.suffix, f"store.{cls.role}_url"))
        try:
            with projection._connection.errors():
                projection._durability = await projection._connection.check_durability()
        except BaseException:
            await projection.close()
            raise
        return projection

    async def get_cursor(self) -> int:
        """See `Projection`."""
        with self._connection.errors():
            version = await self._client.get(self._key("cursor"))
        return -1 if version is None else int(version)

    async def set_cursor(self, version: int) -> None:
        """See `Projection`."""
        with self._connection.errors():
            await self._client.set(self._key("cursor"), version)

    async def clear(self) -> None:
        """See `Projection`; keys of the other role, which have another prefix, stay."""
        with self._connection.errors():
            await self._connection.clear()

    async def close(self) -> None:
        """See `Projection`."""
        await self._connection.close()

    def describe(self) -> Mapping[str, str]:
        """See `Projection`."""
        return {"back end": "redis", "address": self._connection.where, **self._durability}

    def _key(self, *parts: str) -> str:
        return self._connection.key(*parts)
