"""What the graph and the cache in Redis have in common: a connection, a cursor, an end."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from typing import Self

from heliograph.embedding.base import EmbeddingInfo
from heliograph.errors import StoreUnavailable
from heliograph.settings import StoreSettings
from heliograph.stores.projection import Projection
from heliograph.stores.redis.connection import RedisConnection

# The number is the layout's: what an earlier one filled has no cursor here, and is made anew.
CURSOR = ("cursor", "3")
_APPLIED = "applied"
# KEYS: cursor, applied. ARGV: version, cursor as it was or '', mark of the last change or ''. A Redis that was started
# again may have lost what it took in last: the cursor must not pass over that. The command itself may come twice.
_MOVE = """
local cursor, mark = redis.call('GET', KEYS[1]) or '-1', redis.call('GET', KEYS[2])
if ARGV[2] ~= '' and cursor ~= ARGV[2] and cursor ~= ARGV[1] or ARGV[3] ~= '' and mark ~= ARGV[3] then return 0 end
redis.call('SET', KEYS[1], ARGV[1])
return 1
"""


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
        self._seen = ""
        self._mark = ""

    @classmethod
    async def open(
        cls,
        settings: StoreSettings,
        url: str,
        embedding: EmbeddingInfo,  # noqa: ARG003 (as all projections open)
    ) -> Self:
        """Read the address; Redis is first called when it is prepared.

        Raises:
            SettingsError: The address is none.
        """
        return cls(RedisConnection(url, settings.workspace + cls.suffix, f"store.{cls.role}_url"))

    async def prepare(self) -> None:
        """See `Projection`; also warns of settings that lose what is kept."""
        with self._connection.errors():
            self._durability = await self._connection.check_durability()

    async def get_cursor(self) -> int:
        with self._connection.errors():
            version = await self._client.get(self._key(*CURSOR))
        self._seen, self._mark = str(-1 if version is None else version), ""
        return int(self._seen)

    async def set_cursor(self, version: int) -> None:
        keys = self._key(*CURSOR), self._key(_APPLIED)
        with self._connection.errors():
            is_moved = await self._client.eval(_MOVE, 2, *keys, version, self._seen, self._mark)
        if not is_moved:
            raise StoreUnavailable(
                f"{self.name!r} was started again and has lost what it was given last; it is filled again"
            )
        self._seen, self._mark = str(version), ""

    def mark_change(self) -> tuple[str, str, str]:
        """Return the command that ends the transaction of a change, by which it is known to be there still."""
        self._mark = secrets.token_hex(8)
        return "SET", self._key(_APPLIED), self._mark

    async def clear(self) -> None:
        """See `Projection`; keys of the other role, which have another prefix, stay."""
        with self._connection.errors():
            await self._client.delete(self._key(*CURSOR))
            await self._connection.clear()
        self._seen, self._mark = "-1", ""

    async def close(self) -> None:
        await self._connection.close()

    def describe(self) -> Mapping[str, str]:
        return {"back end": "redis", "address": self._connection.where, **self._durability}

    def _key(self, *parts: str) -> str:
        return self._connection.key(*parts)
